"""Code that comes from outside while the run goes on, and that no person saw, runs shut in: whatever imports, tests or
builds it too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planrunner.capabilities.contract import Call
from planrunner.engine.sandbox import RunPlaces, confined
from planrunner.plan.model import Task
from planrunner.safety.sandbox import presence
from planrunner.safety.sandbox.confinement import Refused
from tests.security.security_desk import Desk, Told

pytestmark = pytest.mark.skipif(
    presence.bubblewrap()[1] != "" and not presence.covers(),
    reason="bubblewrap is not installed, and the kernel gives a process no mounts of its own",
)
OUTSIDE = 'test "$(cat ../outside)" = secret'
SEES = """
def test_a():
    try:
        said = open("../outside").read()
    except OSError:
        said = ""
    if said:
        raise SystemExit("sees what lies outside")
"""
ANSWER = {
    "id": "ask",
    "run": ["printf", "%s", SEES],
    "stdout": "text",
    "policy": {"foreign": True},
}
WRITE = {
    "id": "write",
    "needs": ["ask"],
    "uses": "files.write",
    "with": {"path": "tests/test_x.py", "content": "{{ tasks.ask.stdout }}", "parents": True},
}
IMPORT = "python3 -c 'import sys; sys.path.insert(0, \"tests\"); import test_x; test_x.test_a()'"
WAYS: dict[str, dict[str, Any]] = {
    "pytest": {"uses": "validate.pytest", "with": {"paths": ["tests"]}},
    "import": {"run": IMPORT},
    "module": {"run": "cd tests && python3 -m test_x && ! cat ../../outside"},
    "command": {"run": f"! {OUTSIDE}"},
}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "outside").write_text("secret\n")
    return Desk(tmp_path)


def task(way: str, needs: str = "write", **keys: Any) -> dict[str, Any]:
    return {"id": "go", "needs": [needs], "timeout": "1m", **WAYS[way], **keys}


def came_to(told: Told, task: str) -> str:
    return str(told.ends[task].get("failure", ""))


@pytest.mark.parametrize("way", WAYS)
def test_what_may_run_code_from_outside_is_shut_in(desk: Desk, way: str) -> None:
    told = desk.run(ANSWER, WRITE, task(way))
    assert (told.code, came_to(told, "go")) == (0, ""), told.stderr


def test_code_that_a_script_writes_is_shut_in_too(desk: Desk) -> None:
    env = {"CODE": "{{ tasks.ask.stdout }}"}
    write = {"id": "write", "needs": ["ask"], "run": 'mkdir -p tests; printf %s "$CODE" > tests/test_x.py', "env": env}
    told = desk.run(ANSWER, write, task("pytest"))
    assert (told.code, came_to(told, "go")) == (0, ""), told.stderr


@pytest.mark.parametrize("way", ["pytest", "import"])
def test_a_task_that_says_so_is_not_shut_in(desk: Desk, way: str) -> None:
    told = desk.run(ANSWER, WRITE, task(way, policy={"sandbox": "none"}))
    assert told.code == 1 and "sees what lies outside" in json.dumps(told.ends["go"])


def test_what_runs_before_the_code_is_written_is_not_shut_in(desk: Desk) -> None:
    before = {"id": "before", "run": OUTSIDE, "timeout": "1m"}
    told = desk.run(before, ANSWER, {**WRITE, "needs": ["ask", "before"]}, task("pytest"))
    assert told.code == 0, told.stderr


def test_what_is_no_code_shuts_nothing_in(desk: Desk) -> None:
    text = {**WRITE, "with": {**WRITE["with"], "path": "notes.md"}}
    told = desk.run(ANSWER, text, {"id": "go", "needs": ["write"], "run": OUTSIDE})
    assert told.code == 0, told.stderr


def test_code_that_a_person_saw_and_agreed_to_runs_as_any_other(desk: Desk) -> None:
    gate = {"id": "look", "needs": ["write"], "gate": "approval", "ask": "Run it?", "evidence": ["tests/test_x.py"]}
    told = desk.run(ANSWER, WRITE, gate, task("import", needs="look"))
    assert told.code == 8
    desk.do("approve", "last", "look", "--reason", "fine", "--resume", code=1)
    (end,) = [each["outcome"] for each in desk.entries() if each["type"] == "attempt_ended" and each["task"] == "go"]
    assert "sees what lies outside" in json.dumps(end)


def test_a_failure_of_what_is_shut_in_says_why_and_what_lets_it_out(desk: Desk) -> None:
    told = desk.run(ANSWER, WRITE, {"id": "go", "needs": ["write"], "run": "exit 3"})
    assert "it may run `tests/test_x.py`" in told.message("go")
    assert "`policy: {sandbox: none}`" in told.message("go")


def test_generated_python_that_no_person_saw_is_shut_in(desk: Desk) -> None:
    lines = ["try: result = open(args['path']).read()", "except OSError: result = 'nothing'"]
    made = {"id": "make", "run": f'printf "%s\\n%s\\n" "{lines[0]}" "{lines[1]}" > made.py'}
    inputs = {"file": "made.py", "args": {"path": "../outside"}}
    told = desk.run(made, {"id": "go", "needs": ["make"], "uses": "python.run", "with": inputs})
    assert told.outputs("go") == {"value": "nothing"}


def test_where_nothing_can_shut_it_in_it_is_refused_with_the_line_to_add(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "bubblewrap", lambda: ("", "`bwrap` is not on the PATH"))
    monkeypatch.setattr(presence, "landlock", lambda: 0)
    call = Call("r", Task("t"), 1, "k", {}, "true", (), {}, {}, str(tmp_path), "", None)
    with pytest.raises(Refused, match=r"apt install bubblewrap.*`policy: \{sandbox: none\}` to the task"):
        confined(call, RunPlaces(str(tmp_path / ".planrunner"), str(tmp_path), False), "/usr/bin", "made.py")
