"""What a plugin fills its outcome with, or changes after it has given it, is nowhere but in the outputs of its task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from workbench import planrunner

from planrunner.embed import run

LEAKY = '''
"""Fills what it is given."""
from planrunner.api import Failure, Outcome, Pause, capability

MINE = {"list": []}

@capability("leaky.put", effect="pure")
def put() -> Outcome:
    """Fills the outputs of an empty outcome."""
    outcome = Outcome()
    outcome.outputs["token"] = "A"
    outcome.usage["tokens"] = 5
    outcome.retry["attempts"] = 3
    return outcome

@capability("leaky.fail", effect="pure")
def fail() -> Outcome:
    """Fills the outputs of a failed one."""
    outcome = Outcome("logic", "as asked")
    outcome.outputs["token"] = "B"
    return outcome

@capability("leaky.wait", effect="pure")
def wait() -> Pause:
    """Fills what pauses share."""
    pause = Pause(0.0)
    pause.outcome.outputs["token"] = "C"
    return pause

@capability("leaky.growing", effect="pure")
def growing() -> dict:
    """Gives the same mapping each time, with more in it."""
    MINE["list"].append(len(MINE["list"]))
    MINE["n"] = len(MINE["list"])
    return MINE

@capability("leaky.nothing", effect="pure")
def nothing() -> None:
    """Gives nothing."""
'''

PLAN = """\
plan: leak
defaults: {timeout: 1m}
tasks:
  - {id: put, uses: leaky.put}
  - {id: fail, uses: leaky.fail, needs: [put], allow_failure: true}
  - {id: wait, uses: leaky.wait, needs: [put], allow_failure: true}
  - {id: nothing, uses: leaky.nothing, needs: [put]}
  - {id: shell, run: "true", needs: [nothing]}
  - {id: items, uses: leaky.nothing, needs: [nothing], foreach: [1, 2]}
  - {id: one, uses: leaky.growing}
  - {id: two, uses: leaky.growing, needs: [one]}
"""
NONE = """\
plan: none
tasks:
  - {id: shell, run: "true", timeout: 1m}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "project"
    (folder / ".planrunner/plugins").mkdir(parents=True)
    (folder / ".planrunner/plugins/leaky.py").write_text(LEAKY)
    (folder / "leak.yaml").write_text(PLAN)
    assert planrunner(folder, "plugins", "trust", ".planrunner/plugins/leaky.py", "--yes").returncode == 0
    return folder


def test_tasks_have_the_outputs_that_their_own_capability_gave(project: Path) -> None:
    planrunner(project, "exec", "leak.yaml")
    tasks = json.loads(planrunner(project, "show", "last", "--json").stdout)["tasks"]
    assert {name: task["outputs"] for name, task in tasks.items()} == {
        "put": {"token": "A"},
        "fail": {"token": "B"},
        "wait": {},
        "nothing": {},
        "shell": {},
        "items": {},
        "items[0]": {},
        "items[1]": {},
        "one": {"list": [0], "n": 1},
        "two": {"list": [0, 1], "n": 2},
    }
    assert "a mapping that is the default of a field is shared" in tasks["wait"]["detail"]


def test_what_is_stored_of_a_task_that_gave_nothing_is_nothing(project: Path) -> None:
    planrunner(project, "exec", "leak.yaml")
    ended = [
        entry["outcome"]
        for entry in map(json.loads, planrunner(project, "events", "last", "--json").stdout.splitlines())
        if entry["type"] == "attempt_ended" and entry["task"] in ("nothing", "shell", "items[0]", "items[1]")
    ]
    assert len(ended) == 4
    assert not [outcome for outcome in ended if outcome["outputs"] or outcome["usage"] or outcome["retry"]]
    assert planrunner(project, "replay", "last").returncode == 0


def test_a_later_run_in_the_same_process_has_nothing_of_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "none.yaml").write_text(NONE)
    monkeypatch.chdir(project)
    first = run("leak.yaml")
    assert first.tasks["put"].outputs == {"token": "A"}
    monkeypatch.chdir(other)
    assert run("none.yaml").tasks["shell"].outputs == {}
    monkeypatch.chdir(project)
    again = run("leak.yaml")
    assert [again.tasks[name].outputs for name in ("put", "nothing", "shell")] == [{"token": "A"}, {}, {}]
