"""python.run, python.scan, python.write_tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from planrunner.testing.conformance import Case


def _function(directory: Path) -> dict[str, Any]:
    (directory / "shop.py").write_text(
        "def total(prices: list[float], note: str = '') -> dict[str, object]:\n"
        "    print('adding up', note)\n    return {'total': sum(prices), 'count': len(prices)}\n"
    )
    args = {"prices": [1, 2.5], "note": "twice"}
    return {"function": "shop.py:total", "args": args, "python": sys.executable}


def _script(directory: Path) -> dict[str, Any]:
    (directory / "double.py").write_text("result = args['n'] * 2\n")
    return {"file": "double.py", "args": {"n": 21}, "python": sys.executable}


def _lines(code: str) -> Any:
    return lambda directory: {"code": code, "python": sys.executable}


def _made(text: str) -> Any:
    def given(directory: Path) -> dict[str, Any]:
        (directory / "made.py").write_text(text)
        return {"file": "made.py"}

    return given


def _tested(**inputs: Any) -> Any:
    def given(directory: Path) -> dict[str, Any]:
        (directory / "pytest.ini").write_text("[pytest]\n")
        (directory / "sums.py").write_text("def total(prices: list[int]) -> int:\n    return sum(prices)\n")
        (directory / "gone.py").write_text("def part(people: int) -> int:\n    return 10 // people\n")
        (directory / "slow.py").write_text("import time\n\ntime.sleep(30)\n")
        return {"path": "tests/test_it.py", "seed": 1, "python": sys.executable, **inputs}

    return given


CASES = [
    Case("python.scan", _made("import socket\nresult = 1\n"), name="looking"),
    Case("python.scan", _made("eval(args['x'])\n"), name="denied", fails="policy"),
    Case("python.write_tests", _tested(file="sums.py"), volatile=["duration"]),
    Case(
        "python.write_tests", _tested(file="gone.py"), name="failing", fails="tests", volatile=["duration", "failures"]
    ),
    Case("python.write_tests", _tested(file="slow.py"), name="long", waits=True),
    Case("python.run", _function, name="function"),
    Case("python.run", _script, name="script"),
    Case("python.run", _lines("result = {'made': open('made.txt', 'w').write('x')}"), name="writing"),
    Case("python.run", _lines("raise ValueError('no stock')"), name="failing", fails="logic"),
    Case("python.run", _lines("import time; time.sleep(30)"), name="long", waits=True),
]
