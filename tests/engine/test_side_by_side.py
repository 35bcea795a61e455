"""Two runs in one process: neither stops, moves, feeds or starves what the other one started.

``PLANRUNNER_SIDE_BY_SIDE`` is how often the two runs meet.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planrunner.app.runs.control import steer
from planrunner.app.runs.execute import ExecRequest, RunResult, Silent, execute

TRIES = int(os.environ.get("PLANRUNNER_SIDE_BY_SIDE", "4"))
LIMIT = 240.0
"""Seconds after which a test gives up waiting: no verdict hangs on it while the runs make progress."""


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.002)


class Run(threading.Thread):
    """A run of a plan in a folder of its own, in a thread."""

    def __init__(self, folder: Path, tasks: list[object], **keys: object) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.result: RunResult | None = None
        (folder / "sub").mkdir(parents=True)
        (folder / "planrunner.yaml").write_text("")
        document = {
            "plan": folder.name,
            "max_parallel": 6,
            "defaults": {"timeout": f"{LIMIT:g}s"},
            "tasks": tasks,
            **keys,
        }
        (folder / "plan.json").write_text(json.dumps(document))

    def run(self) -> None:
        state = str(self.folder / ".planrunner")
        self.result = execute(ExecRequest(str(self.folder / "plan.json"), state=state, vouched=True), Silent())

    def ended(self) -> RunResult:
        self.join(LIMIT)
        assert self.result is not None
        return self.result

    def statuses(self) -> dict[str, str]:
        state = self.ended().state
        return {task.id: found.status for task, found in zip(state.specs, state.tasks)}


def waits(path: Path) -> str:
    return f"until [ -e {path} ]; do sleep 0.01; done"


def looks(name: str) -> list[object]:
    """Tasks that write down where they are, who they are told to be, and in which run."""
    told = 'echo "$PWD $(pwd) $WHO ${RUN_OF_OTHER:-none}"'
    return [
        {"id": "here", "run": told, "stdout": "text", "env": {"WHO": name}},
        {"id": "below", "foreach": [1, 2, 3], "run": told, "stdout": "text", "cwd": "sub", "env": {"WHO": name}},
        {"id": "run", "run": 'echo "$PLANRUNNER_RUN_ID"', "stdout": "text"},
        {"id": "file", "uses": "files.write", "with": {"path": "sub/mine.txt", "content": name}},
        {"id": "python", "uses": "python.run", "with": {"code": "import os\nresult = os.getcwd()"}},
    ]


def check_looks(run: Run, name: str) -> None:
    state = run.ended().state
    outputs = {task.id: found.outputs for task, found in zip(state.specs, state.tasks)}
    folder = os.path.realpath(run.folder)
    assert outputs["here"]["value"].split() == [folder, folder, name, "none"]
    for at in range(3):
        assert outputs[f"below[{at}]"]["value"].split() == [f"{folder}/sub", f"{folder}/sub", name, "none"]
    assert outputs["run"]["value"].strip() == state.run_id
    assert (run.folder / "sub" / "mine.txt").read_text() == name
    assert outputs["python"]["value"] == folder


@pytest.fixture
def process() -> Iterator[None]:
    """What belongs to the whole process is afterwards as it was before."""
    before = os.getcwd(), dict(os.environ), os.umask(0o022)
    os.umask(before[2])
    yield
    after = os.getcwd(), dict(os.environ), os.umask(before[2])
    assert {**before[1], "PYTEST_CURRENT_TEST": ""} == {**after[1], "PYTEST_CURRENT_TEST": ""}
    assert (before[0], before[2]) == (after[0], after[2])


def meet(folder: Path, how: str) -> None:
    """One run is cut off, by a timeout or by a person, while a task of the other one is under way."""
    one, two = folder / "one", folder / "two"
    hang = f"touch {one}/hangs; sleep {LIMIT:g}"
    cut = [
        {"id": "before", "run": waits(two / "runs")},
        {"id": "hang", "needs": ["before"], "run": hang, "timeout": "0.2s" if how == "timeout" else f"{LIMIT:g}s"},
    ]
    first = Run(one, [*looks("one"), *cut], on_failure="continue")
    long = {"id": "long", "run": f"touch {two}/runs; {waits(two / 'go')}; echo fine", "stdout": "text"}
    second = Run(two, [*looks("two"), long])
    first.start()
    second.start()
    if how == "cancel":
        until((one / "hangs").exists, "the task of the first run hangs")
        steer("last", "cancel", {}, str(one / ".planrunner"))
    first.ended()
    (two / "go").touch()
    assert first.statuses()["hang"] == ("failed" if how == "timeout" else "cancelled")
    assert set(second.statuses().values()) == {"completed"}, second.statuses()
    assert second.ended().state.tasks[second.ended().state.index["long"]].outputs["value"].strip() == "fine"
    check_looks(second, "two")
    if how == "timeout":
        check_looks(first, "one")


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_what_cuts_one_run_off_leaves_the_other_one_alone(how: str, tmp_path: Path) -> None:
    for number in range(TRIES // 2):
        meet(tmp_path / str(number), how)
