"""Real runs of random plans, killed with SIGKILL at every journal write and resumed: the same end, nothing lost, nothing
unsafe done twice, nothing left running."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from simulator.crashes import die_at, in_child
from simulator.plans import nested_plan, random_plan
from simulator.runs import summary

from planrunner import errors
from planrunner.app.history.state import stored_state
from planrunner.app.runs.execute import ExecRequest, Silent, execute
from planrunner.app.runs.resume import resume
from planrunner.errors import PlanInvalid
from planrunner.journal.audit import verify_journal
from planrunner.journal.sqlite import open_journal
from planrunner.machine.events import UndoStarted
from planrunner.machine.statuses import SETTLED

PLANS = int(os.environ.get("PLANRUNNER_KILLED_PLANS", "10"))


def write_plan(seed: int, folder: Path) -> tuple[Path, dict[str, int]]:
    """A random plan whose commands leave a line for each attempt; ``fails`` tells how many attempts of a task fail."""
    rng = random.Random(seed)
    fails: dict[str, int] = {}

    def command(task: str) -> str:
        fails[task] = rng.choice([0, 0, 0, 1, 2, 9])
        code = rng.choice([1, 75])
        return (
            f'printf "%s %s\\n" "${{PLANRUNNER_UNDO:+undo:}}$PLANRUNNER_TASK" "$PLANRUNNER_ATTEMPT" >> "{folder}/effects"; '
            f'if [ "$PLANRUNNER_ATTEMPT" -le {fails[task]} ]; then exit {code}; fi'
        )

    document = nested_plan(seed, command, size=5) if seed % 2 else random_plan(seed, command, size=7)
    document["on_failure"] = "rollback" if seed % 4 == 1 else "continue"
    without_classes(document["tasks"])
    path = folder / "plan.json"
    path.write_text(json.dumps(document))
    return path, fails


def without_classes(tasks: list[dict[str, Any]]) -> None:
    """Every failure is tried again, whatever its class; and nothing sends back: what runs beside a task that does may
    have ended or not, so that there is more than one right end."""
    for task in tasks:
        task.get("retry", {}).pop("on", None)
        if isinstance(task.get("on_failure"), dict) and "rework" in task["on_failure"]:
            del task["on_failure"]
        without_classes([*task.get("subplan", ()), *task.get("loop", {}).get("tasks", ())])


def written(path: str) -> str:
    """The id of a task as the plan has it, out of the path of one that runs: ``t1#2/t1_0[3]`` is ``t1_0``."""
    return path.rsplit("/", 1)[-1].split("[", maxsplit=1)[0].split("@", maxsplit=1)[0]


def note(file: Path, number: int) -> None:
    file.write_text(str(number))


def dying_at(write: int, stored: bool, acknowledged: Path) -> None:
    """As ``die_at``; the number of the last entry that the journal took is written down."""
    die_at(write, stored=stored, told=lambda _, entries: note(acknowledged, entries[-1].seq))


def last_run(state: Path) -> str | None:
    journal = open_journal(str(state))
    try:
        runs = journal.runs()
        return runs[0].run if runs else None
    finally:
        journal.close()


def look(state: Path, run: str) -> tuple[Any, int]:
    journal = open_journal(str(state))
    try:
        return stored_state(journal, run), journal.run(run).last_seq
    finally:
        journal.close()


def acted(folder: Path) -> list[tuple[str, int]]:
    path = folder / "effects"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [(line.split()[0], int(line.split()[1])) for line in lines]


def leftovers(run: str) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                environ = Path(f"/proc/{entry}/environ").read_bytes()
            except OSError:
                continue
            if f"PLANRUNNER_RUN_ID={run}\0".encode() in environ + b"\0":
                found.append(int(entry))
    return found


def finish(folder: Path, state: Path, run: str, fails: dict[str, int]) -> Any:
    """Resume, settling doubts as somebody would who can see what the commands left behind, until the run has ended."""
    settle: tuple[tuple[str, str], ...] = ()
    for _ in range(20):
        code = in_child(lambda given=settle: resume(run, given, str(state), Silent()).exit_code)  # type: ignore[misc]
        assert code in (errors.OK, errors.FAILED, errors.WAITING), code
        found, _ = look(state, run)
        doubts = [(task.id, each.attempts) for task, each in zip(found.specs, found.tasks) if each.status == "in_doubt"]
        if not doubts:
            return found
        done = acted(folder)
        settle = tuple((task, answer(task, attempt, done, fails)) for task, attempt in doubts)
    raise AssertionError("the run does not come to an end")


def answer(task: str, attempt: int, done: list[tuple[str, int]], fails: dict[str, int]) -> str:
    if (task, attempt) not in done:
        return "retry"
    return "failed" if attempt <= fails[written(task)] else "completed"


@pytest.mark.limit(900)
@pytest.mark.parametrize("number", range(PLANS))
def test_killed_at_every_journal_write_a_run_ends_as_if_nothing_had_happened(number: int, tmp_path: Path) -> None:
    calm_folder = tmp_path / "calm"
    calm_folder.mkdir()
    seed = number * 17 + 3
    while True:
        path, _ = write_plan(seed, calm_folder)
        try:
            result = execute(ExecRequest(str(path), state=str(calm_folder / "state"), seed=1, vouched=True), Silent())
            break
        except PlanInvalid:  # some random plans have joins that can never be met
            seed += 1
    writes = cut_points(tmp_path, seed)
    assert writes >= 2
    for write in range(1, writes + 1):
        for stored in (False, True):
            check_one(tmp_path / f"{write}-{stored}", seed, (write, stored), summary(result.state))


def twice_undone(folder: Path, run: str, state: Path) -> list[tuple[str, int]]:
    """Attempts to undo that acted again after they were known to have ended."""
    journal = open_journal(str(state))
    try:
        events = [entry.event for entry in journal.entries(run)]
    finally:
        journal.close()
    began = [(event.task, event.attempt) for event in events if isinstance(event, UndoStarted)]
    acts = [(task.removeprefix("undo:"), attempt) for task, attempt in acted(folder) if task.startswith("undo:")]
    return [key for key in set(acts) if acts.count(key) > began.count(key)]


def cut_points(tmp_path: Path, seed: int) -> int:
    folder = tmp_path / "count"
    folder.mkdir()
    path, _ = write_plan(seed, folder)
    counter = folder / "writes"

    def work() -> int:
        die_at(0, stored=False, told=lambda count, _: note(counter, count))
        return execute(ExecRequest(str(path), state=str(folder / "state"), seed=1, vouched=True), Silent()).exit_code

    in_child(work)
    return int(counter.read_text())


def check_one(folder: Path, seed: int, cut: tuple[int, bool], calm: list[Any]) -> None:
    folder.mkdir()
    path, fails = write_plan(seed, folder)
    state, acknowledged = folder / "state", folder / "acknowledged"

    def work() -> int:
        dying_at(*cut, acknowledged)
        return execute(ExecRequest(str(path), state=str(state), seed=1, vouched=True), Silent()).exit_code

    code = in_child(work)
    run = last_run(state)
    if code != -signal.SIGKILL:  # commits travel beside the loop, so that the number of writes varies a little
        assert code in (errors.OK, errors.FAILED)
        return
    if run is None:
        assert cut == (1, False)
        return
    assert not verify_journal(str(state)).breaks
    _, last_seq = look(state, run)
    if acknowledged.exists():
        assert last_seq >= int(acknowledged.read_text()), "an acknowledged event is lost"
    found = look(state, run)[0]
    if found.ended_at is None:
        found = finish(folder, state, run, fails)
    if found.plan.on_failure == "continue":  # otherwise what had begun by then decides what is stopped and undone
        assert summary(found) == calm, (seed, cut)
    assert not [task.id for task, each in zip(found.specs, found.tasks) if each.status not in SETTLED]
    unsafe = {task.id for task in found.specs if found.trait(task).effect == "unsafe"}
    doubles = [key for key in acted(folder) if key[0] in unsafe and acted(folder).count(key) > 1]
    doubles += twice_undone(folder, run, state)
    assert not doubles, (seed, cut, doubles)
    assert not verify_journal(str(state)).breaks
    assert not leftovers(run)
