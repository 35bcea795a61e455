"""Golden histories: recorded runs replay as long as their edition is the one of today; a change that decides otherwise
shows here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workbench import ROOT

from planrunner.app.history.replay import History, read_history, replay_run, written
from planrunner.app.history.state import plan_of
from planrunner.engine.replay import replay
from planrunner.errors import UsageError
from planrunner.journal.records import StoredPlan
from planrunner.machine.events import TaskSettled
from planrunner.machine.evolve import fold

HISTORIES = Path(__file__).resolve().parent / "histories"
GOLDEN = sorted(HISTORIES.glob("*.jsonl"))

Run = Callable[..., Any]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_a_history_replays_exactly(path: Path) -> None:
    report = replay_run(str(path), None)
    assert report.replayed.difference is None
    assert report.replayed.decided > report.replayed.inputs > 0


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_a_history_with_one_other_status_is_found(path: Path) -> None:
    history = read_history(str(path))
    settled = [at for at, entry in enumerate(history.entries) if isinstance(entry.event, TaskSettled)]
    for at in settled:
        entries = list(history.entries)
        event: Any = entries[at].event
        other = "omitted" if event.status != "omitted" else "skipped"
        entries[at] = entries[at]._replace(event=event._replace(status=other))
        found = replay(plan_of(history.plan), history.run_id, entries).difference
        assert found is not None
        assert (found.task, found.field, found.expected, found.got) == (event.task, "status", other, event.status)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_the_plan_of_a_history_may_be_written_anew(path: Path) -> None:
    """The plan in the repository and the one in the history decide the same."""
    plan = ROOT / "plans" / path.name.removesuffix(".jsonl")
    if plan.is_file():
        assert replay_run(str(path), None, str(plan)).replayed.difference is None


def test_a_history_says_the_same_after_it_was_read_and_written() -> None:
    for path in GOLDEN:
        assert written(read_history(str(path))) == path.read_text(encoding="utf-8")


def test_what_is_exported_replays_without_the_journal(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("plan: p\ntasks:\n  - {id: a, run: echo ü, timeout: 5s}\n")
    assert run("exec", "p.yaml").code == 0
    assert run("events", "last", "--export", "run.jsonl").code == 0
    assert run("events", "last", "--export", "run.jsonl").code == 2  # never written over
    history = read_history(str(tmp_path / "run.jsonl"))
    state = fold(plan_of(history.plan), history.run_id, history.entries)
    assert (state.status, state.tasks[0].outcome.stdout) == ("completed", "ü\n")  # type: ignore[union-attr]
    (tmp_path / "state" / "journal.db").unlink()
    (tmp_path / "p.yaml").unlink()
    done = run("replay", "run.jsonl")
    assert (done.code, "replays exactly: 5 entries" in done.out) == (0, True)


def test_what_is_exported_holds_what_its_plan_links(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("plan: p\ntasks:\n  - {id: a, subplan: ./parts/b.yaml}\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/b.yaml").write_text("plan: b\ntasks:\n  - {id: c, run: echo linked, timeout: 5s}\n")
    assert run("exec", "p.yaml").code == 0
    assert run("events", "last", "--export", "run.jsonl").code == 0
    (tmp_path / "parts/b.yaml").unlink()
    done = run("replay", "run.jsonl")
    assert (done.code, "replays exactly" in done.out) == (0, True), done.out + done.err
    head, *entries = (tmp_path / "run.jsonl").read_text().splitlines()
    text = json.dumps({key: value for key, value in json.loads(head).items() if key != "compiled"})
    (tmp_path / "text.jsonl").write_text("\n".join([text, *entries]) + "\n")
    done = run("replay", "text.jsonl")
    assert (done.code, "there is no file `parts/b.yaml`" in done.err) == (3, True), done.out + done.err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json\n",
        '{"format": 2}\n',
        '{"format": 1, "type": "history"}\n',
        '{"format": 2, "type": "history", "run": "r"}\n',
        "[1]\n",
    ],
)
def test_a_file_that_is_no_history_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"cannot be used: it is (damaged|not a history)"):
        read_history(str(path))


def test_a_damaged_file_and_a_place_that_cannot_be_written_are_misuse(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"format": 1}\nnot json\n')
    assert run("replay", "x.jsonl").code == 2
    (tmp_path / "p.yaml").write_text("plan: p\ntasks:\n  - {id: a, uses: noop}\n")
    assert run("exec", "p.yaml").code == 0
    assert run("events", "last", "--export", "nowhere/x.jsonl").code == 2


def test_a_stored_plan_is_read_though_it_has_keys_that_are_no_more() -> None:
    text = "plan: p\nbudgets: {cost: $2, on_exhausted: degrade}\ntasks: [{id: a, run: ls, optional: true}]\n"
    plan = plan_of(StoredPlan("sha256:x", text, "p.yaml", "yaml"))
    assert (plan.budgets.cost, plan.budgets.on_exhausted, plan.tasks[0].run) == (2.0, "", "ls")


def test_an_entry_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    lines = GOLDEN[0].read_text(encoding="utf-8").splitlines()
    entry = json.loads(lines[2])
    lines[2] = json.dumps({**entry, "kind": "task_dreamed"})
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UsageError):
        read_history(str(path))


def test_a_history_holds_nothing_of_the_machine_it_was_made_on() -> None:
    for path in GOLDEN:
        history: History = read_history(str(path))
        environment = history.entries[0].event.environment  # type: ignore[union-attr]
        assert environment.keys() == {"planrunner", "schema", "directory", "env"}
        assert str(ROOT) not in path.read_text(encoding="utf-8")
