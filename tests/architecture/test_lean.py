"""C parts of standard modules are the same as the modules people know."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
        timeout=50,
    )
    return done.stdout.strip()


def test_sqlite_is_loaded_without_functools_and_leaves_no_trace_of_what_stood_in() -> None:
    loaded = _python(
        "import sys; from planrunner.lean import load_sqlite; load_sqlite();"
        "print(*sorted({'functools', 'collections', 'sqlite3'} & set(sys.modules)));"
        "import functools, sqlite3;"
        "print(functools.wraps.__name__, sqlite3.Connection is load_sqlite().Connection)"
    )
    assert loaded == "wraps True"


def test_a_functools_that_is_loaded_already_stays() -> None:
    code = (
        "import sys, functools; before = sys.modules['functools'];"
        "from planrunner.lean import load_sqlite; load_sqlite();"
        "print(sys.modules['functools'] is before)"
    )
    assert _python(code) == "True"


def test_statements_are_kept_for_reuse_up_to_the_number_asked_for() -> None:
    code = (
        "from planrunner.lean import load_sqlite; connection = load_sqlite().connect(':memory:', cached_statements=2);"
        "print([connection.execute(f'SELECT {number % 3}').fetchone()[0] for number in range(9)],"
        " [connection.execute('SELECT ?', (number,)).fetchone()[0] for number in range(3)])"
    )
    assert _python(code) == "[0, 1, 2, 0, 1, 2, 0, 1, 2] [0, 1, 2]"
