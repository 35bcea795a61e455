"""What looks for canaries after every test finds them wherever they may be, and says nothing where there are none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import commands
import pytest
from canaries import CORE, EAR, VARIABLE, canary, is_told, told_in
from rows import rows
from speaker import spoken

TEXT = f"{canary('some.value')} '&<\"%"


@rows("told", range(len(spoken(TEXT))))
@rows("before", range(3))
def test_a_canary_is_found_in_every_encoding(told: int, before: int) -> None:
    assert is_told(b"x" * before + spoken(TEXT)[told] + b" and more")


def test_what_is_no_canary_is_not_found() -> None:
    assert not is_told(b"\n".join(spoken(CORE[:-1] + "_" + CORE[1:])))


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("state/logs/run/a.1.log", True),
        ("project/.planrunner/cache/http/answer", True),
        ("elsewhere/tmp/run/a.1.outputs", True),
        ("project/src/key.pem", False),
    ],
)
def test_state_directories_are_looked_through_and_projects_are_not(tmp_path: Path, place: str, found: bool) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/journal.db").touch()
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\0\xff" * 1000 + spoken(TEXT)[7])
    leaks = told_in(tmp_path)
    path.unlink()
    assert leaks == [str(path)] * found


def test_what_is_printed_and_given_as_an_argument_is_heard() -> None:
    script = f"import os; print('planrunner', os.environ.get('{VARIABLE}'))"
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert [each.split()[0] for each in EAR.take()] == ["printed"]
    os.waitpid(os.posix_spawn("/bin/true", ["true", CORE.encode().hex()], {}), 0)
    assert EAR.take() == ["an argument of /bin/true"]
    subprocess.run([sys.executable, "-c", "print('planrunner')"], capture_output=True, check=True)
    assert EAR.take() == []


def test_a_command_that_goes_on_beside_a_test_is_heard_too(tmp_path: Path) -> None:
    commands.start("lint", CORE, folder=tmp_path, env=os.environ).communicate(240)
    assert [each.split(" of ")[0].split(" by ")[0] for each in EAR.take()] == ["an argument", "printed"]
    commands.start("lint", "nowhere.yaml", folder=tmp_path, env=os.environ).communicate(240)
    assert EAR.take() == []
