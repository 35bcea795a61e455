"""Real runs that are rolled back, killed with SIGKILL at every journal write, of the run and of the rollback: everything
that may have acted is undone, last-in first-out, and what was undone is not undone again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulator.crashes import die_at, in_child

from planrunner import errors
from planrunner.app.history.state import stored_state
from planrunner.app.runs.execute import ExecRequest, Silent, execute
from planrunner.app.runs.resume import resume
from planrunner.app.runs.rollback import RollbackRequest, roll_back
from planrunner.journal.sqlite import open_journal
from planrunner.machine.events import AttemptEnded, Entry, RollbackEnded, RollbackStarted, UndoSettled

BOTH = (False, True) if int(os.environ.get("PLANRUNNER_KILLED_PLANS", "10")) > 10 else ()
"""Before each write and after it, where there is time; else the one or the other in turn."""


def acting(name: str, **keys: Any) -> dict[str, Any]:
    """A task that tells when it acts and when it is undone."""
    line = 'printf "%s {} %s\\n" "$PLANRUNNER_KEY" "$PLANRUNNER_TASK" >> "$EFFECTS"'
    return {
        "id": name,
        "run": line.format("do"),
        "rollback": {"run": line.format("undo"), "retry": {"attempts": 2, "delay": "1ms"}},
        "timeout": "1m",
        **keys,
    }


def write_plan(folder: Path, *, fails: bool) -> Path:
    inner = [acting("in", effect="idempotent"), acting("last", needs=["in"], on_doubt="rollback")]
    last = {"id": "bad", "needs": ["box"], "run": "exit 3" if fails else "true", "effect": "idempotent"}
    document = {
        "plan": "undone",
        "max_parallel": 1,
        "on_failure": "rollback",
        "env": {"EFFECTS": str(folder / "effects")},
        "tasks": [
            acting("first", effect="idempotent", backup=["kept", "made"]),
            acting("doubted", needs=["first"], on_doubt="rollback"),
            {"id": "box", "needs": ["doubted"], "foreach": [1, 2], "subplan": inner, "max_parallel": 1},
            {**last, "timeout": "1m"},
        ],
        "finally": [{"id": "end", "run": 'echo "- end -" >> "$EFFECTS"', "effect": "idempotent", "timeout": "1m"}],
    }
    document["tasks"][0]["run"] += "; echo new > kept; echo new > made"
    (folder / ".planrunner").mkdir()
    (folder / "kept").write_text("old\n")
    path = folder / "plan.json"
    path.write_text(json.dumps(document))
    return path


def write_linked(folder: Path) -> Path:
    """A plan whose fan-out links a file that is undone when it fails: one item fails once, one for good, one not at
    all."""
    fails = {
        "id": "bad",
        "needs": ["last"],
        "run": 'test {{ params.item }} = 2 || { test {{ params.item }} = 0 && test -e "$EFFECTS.once"; } || '
        '{ touch "$EFFECTS.once"; exit 3; }',
        "effect": "idempotent",
        "timeout": "1m",
    }
    end = {"id": "end", "run": 'echo "- end -" >> "$EFFECTS"', "effect": "idempotent", "timeout": "1m"}
    (folder / "inner.json").write_text(
        json.dumps(
            {
                "plan": "inner",
                "on_failure": "rollback",
                "env": {"EFFECTS": str(folder / "effects")},
                "params": {"item": {"type": "int"}},
                "tasks": [
                    acting("in", effect="idempotent"),
                    acting("last", needs=["in"], on_doubt="rollback"),
                    fails,
                ],
                "finally": [end],
            }
        )
    )
    link = {"subplan": "inner.json", "params": {"item": "{{ item }}"}, "retry": {"attempts": 2, "delay": "1ms"}}
    document = {
        "plan": "linking",
        "max_parallel": 2,
        "on_failure": "continue",
        "tasks": [{"id": "fan", "foreach": [0, 1, 2], **link}],
    }
    (folder / ".planrunner").mkdir()
    path = folder / "plan.json"
    path.write_text(json.dumps(document))
    return path


def check_linked(folder: Path, kills: int) -> None:
    state, entries = last_run(folder)
    assert (state.status, state.reason) == ("failed", "failed")
    done = [each for each in lines(folder) if each[1] != "end"]
    undone = [(key, task) for key, what, task in done if what == "undo"]
    acted = list(dict.fromkeys(task for _, what, task in done if what == "do"))
    kept = [task for task in acted if task.startswith(_good(state))]
    assert {task for _, task in undone} >= set(acted) - set(kept), "something acted and was not undone"
    assert not {task for _, task in undone} & set(kept), "something that went well was undone"
    assert len({key for key, _ in undone}) == len({task for _, task in undone}), "an undo has one key"
    assert len(undone) - len({task for _, task in undone}) <= 3 * kills, "more was undone twice than was cut off"
    for attempt in {task.rpartition("/")[0] for _, task in undone}:
        first = [task for task in dict.fromkeys(task for _, task in undone) if task.startswith(f"{attempt}/")]
        assert first == sorted(first, reverse=True), "the last is undone first"
    going: set[str] = set()
    for entry in entries:
        event = entry.event
        if isinstance(event, RollbackStarted):
            going.add(event.within)
        elif isinstance(event, RollbackEnded):
            going.discard(event.within)
        assert not (isinstance(event, AttemptEnded) and event.task in going), "an attempt ended before it was undone"


def _good(state: Any) -> tuple[str, ...]:
    """How the paths begin of what stands in attempts that went well."""
    found = []
    for item in range(3):
        holder = state.tasks[state.index[f"fan[{item}]"]]
        if holder.status == "completed":
            found.append(f"fan[{item}]/" if holder.attempts == 1 else f"fan[{item}]@{holder.attempts}/")
    return tuple(found) or ("?",)


def note(folder: Path, count: int) -> None:
    (folder / "writes").write_text(str(count))


def counting(folder: Path, write: int, stored: bool) -> None:
    """From now on this process dies at its ``write``-th append, before it or right after; how many there were is
    written down."""
    die_at(write, stored=stored, told=lambda count, _: note(folder, count), of=["append"])


def last_run(folder: Path) -> tuple[Any, list[Entry]]:
    journal = open_journal(str(folder / ".planrunner"))
    try:
        run = journal.runs()[0].run
        return stored_state(journal, run), list(journal.entries(run))
    finally:
        journal.close()


def lines(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "effects").read_text().splitlines()]


def check(folder: Path, kills: int) -> None:
    state, entries = last_run(folder)
    assert state.status == "failed" or state.status == "cancelled"
    assert state.reason == "rolled_back", (state.reason, [e.event for e in entries[-5:]])
    done = lines(folder)
    acted = list(dict.fromkeys(task for _, what, task in done if what == "do"))
    undos = [(key, task) for key, what, task in done if what == "undo"]
    undone = list(dict.fromkeys(task for _, task in undos))
    assert set(undone) >= set(acted), "something acted and was not undone"
    assert len({key for key, _ in undos}) == len(undone), "an undo was issued with a second key"
    assert len(undos) - len(undone) <= kills, "more was undone twice than was cut off"
    settled = [entry.event.task for entry in entries if isinstance(entry.event, UndoSettled)]
    assert sorted(settled) == sorted([*undone, "first"]), "each is settled once, and the files of `first`"
    doubts = [task for task in undone if state.tasks[state.index[task]].failure == "doubt"]
    in_order = [task for task in undone if task not in doubts]
    assert in_order == [task for task in reversed(list(dict.fromkeys(acted))) if task in in_order]
    assert (folder / "kept").read_text() == "old\n"
    assert not (folder / "made").exists()
    assert done[-1] == ["-", "end", "-"] or state.status == "cancelled"


def finish(folder: Path) -> None:
    """Resume until the run has ended."""
    for _ in range(5):
        state, _ = last_run(folder)
        if state.ended_at is not None:
            return
        code = in_child(lambda: resume("last", (), str(folder / ".planrunner"), Silent()).exit_code)
        assert code in (errors.OK, errors.FAILED), code
    raise AssertionError("the run does not come to an end")


def run(path: Path) -> int:
    return execute(
        ExecRequest(str(path), state=str(path.parent / ".planrunner"), seed=1, vouched=True), Silent()
    ).exit_code


def writes_of(folder: Path, work: Callable[[], int]) -> int:
    assert in_child(lambda: (counting(folder, 0, False), work())[1]) in (errors.OK, errors.FAILED)
    return int((folder / "writes").read_text())


@pytest.mark.limit(600)
def test_killed_at_every_write_a_failing_run_is_undone_once_and_in_order(tmp_path: Path) -> None:
    calm = tmp_path / "calm"
    calm.mkdir()
    path = write_plan(calm, fails=True)
    writes = writes_of(calm, lambda: run(path))
    check(calm, 0)
    assert writes > 15
    for write in range(1, writes + 1):
        for stored in BOTH or (bool(write % 2),):
            folder = tmp_path / f"{write}-{stored}"
            folder.mkdir()
            path = write_plan(folder, fails=True)
            code = in_child(lambda: (counting(folder, write, stored), run(path))[1])  # noqa: B023
            if code != -signal.SIGKILL:
                continue  # commits travel beside the loop, so that the number of writes varies a little
            finish(folder)
            if (folder / "effects").exists():
                check(folder, 1)


@pytest.mark.limit(600)
def test_killed_at_every_write_of_a_rollback_that_was_asked_for_it_goes_on(tmp_path: Path) -> None:
    calm = tmp_path / "calm"
    calm.mkdir()
    assert in_child(lambda: run(write_plan(calm, fails=False))) == errors.OK

    def undo(folder: Path) -> int:
        return roll_back(RollbackRequest("last"), str(folder / ".planrunner"), Silent()).exit_code

    writes = writes_of(calm, lambda: undo(calm))
    check(calm, 0)
    for write in range(1, writes + 1):
        for stored in BOTH or (bool(write % 2),):
            folder = tmp_path / f"{write}-{stored}"
            folder.mkdir()
            path = write_plan(folder, fails=False)
            assert in_child(lambda: run(path)) == errors.OK  # noqa: B023
            code = in_child(lambda: (counting(folder, write, stored), undo(folder))[1])  # noqa: B023
            if code != -signal.SIGKILL:
                continue
            if last_run(folder)[0].ended_at is None:
                finish(folder)
            if not any(isinstance(entry.event, RollbackEnded) for entry in last_run(folder)[1]):
                assert (write, stored) == (1, False)  # it had not begun: the run is as it was
                continue
            check(folder, 1)


@pytest.mark.limit(600)
def test_killed_at_every_write_linked_plans_are_undone_once_and_before_they_are_tried_again(tmp_path: Path) -> None:
    calm = tmp_path / "calm"
    calm.mkdir()
    path = write_linked(calm)
    writes = writes_of(calm, lambda: run(path))
    check_linked(calm, 0)
    assert writes > 15
    for write in range(1, writes + 1):
        for stored in BOTH or (bool(write % 2),):
            folder = tmp_path / f"{write}-{stored}"
            folder.mkdir()
            path = write_linked(folder)
            code = in_child(lambda: (counting(folder, write, stored), run(path))[1])  # noqa: B023
            if code != -signal.SIGKILL:
                continue
            finish(folder)
            if (folder / "effects").exists():
                check_linked(folder, 1)
