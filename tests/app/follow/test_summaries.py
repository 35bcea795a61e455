"""The list of runs, as the journal alone tells it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from planrunner.app.follow.summaries import RunFilter, Summaries, recent
from planrunner.journal.records import NewRun, StoredPlan
from planrunner.journal.stores import open_journal
from planrunner.machine.events import Entry, Event, RunEnded, RunForked, RunParked, RunReopened, RunStarted

PLAN = StoredPlan("sha256:1", "plan: one", "one.yaml", "yaml")


def written(state: str, run: str, *events: Event, plan: str = "one", created: float = 1.0) -> None:
    journal = open_journal(state)
    entries = [
        Entry(number, created, event) for number, event in enumerate((RunStarted(PLAN.digest, {}, 1), *events), 1)
    ]
    journal.release(journal.create_run(NewRun(run, plan, PLAN.digest, created, PLAN), entries))
    journal.close()


@pytest.mark.parametrize(
    ("last", "stands"),
    [
        (RunEnded("failed", "budget"), ("failed", "budget")),
        (RunParked("waiting"), ("blocked", "waiting")),
        (RunParked("person"), ("paused", "person")),
        (RunReopened("retry"), ("paused", "retry")),
        (RunForked("first", "other", 3), ("paused", "forked")),
        (RunStarted(PLAN.digest, {}, 1), ("paused", "cut off")),
    ],
)
def test_the_last_entry_tells_how_a_run_stands(tmp_path: Path, last: Event, stands: tuple[str, str]) -> None:
    state = str(tmp_path)
    written(state, "first", last)
    ((status, reason),) = [(run.status, run.reason) for run in recent(state)]
    assert (status, reason) == stands


def test_a_list_is_filtered_and_cut_into_pages_the_newest_first(tmp_path: Path) -> None:
    state = str(tmp_path)
    for number in range(1, 6):
        written(state, f"run-{number}", RunEnded("completed"), plan="two" if number == 3 else "one", created=number)
    written(state, "waits", RunParked("waiting"), created=6.0)

    def named(wanted: RunFilter, limit: int = 20, skip: int = 0) -> list[str]:
        return [run.run for run in recent(state, wanted, limit, skip)]

    assert named(RunFilter(), 2, 1) == ["run-5", "run-4"]
    assert named(RunFilter(("blocked",))) == ["waits"]
    assert named(RunFilter(plan="two")) == ["run-3"]
    assert named(RunFilter(since=2.0, until=4.0)) == ["run-3", "run-2"]


def test_a_list_of_rows_folds_no_run(tmp_path: Path) -> None:
    state = str(tmp_path)
    written(state, "first", RunEnded("completed"))
    journal = open_journal(state, readonly=True)
    summaries = Summaries.of(journal)
    assert [run.run for run in summaries.listed()] == ["first"]
    assert summaries._folds is None
    journal.close()


def test_a_place_without_runs_has_an_empty_list(tmp_path: Path) -> None:
    assert recent(str(tmp_path / "nothing")) == []


def test_a_run_that_acts_again_and_ends_between_two_looks_is_read_again(tmp_path: Path) -> None:
    """The look before comes when another process has taken the run up and has yet to write."""
    state = str(tmp_path)
    written(state, "first", RunEnded("completed"))
    with closing(open_journal(state)) as journal, closing(open_journal(state, readonly=True)) as reading:
        summaries = Summaries(lambda: reading)
        summaries.refresh(reading)
        lease = journal.acquire("first")
        summaries.refresh(reading)
        again = (RunReopened("rollback"), RunEnded("cancelled", "rolled_back"))
        journal.append(lease, [Entry(number, 2.0, event) for number, event in enumerate(again, lease.last_seq + 1)])
        assert summaries.refresh(reading) == {"first"}
        assert summaries.row("first").reason == "rolled_back"
        assert not summaries.refresh(reading)
        journal.release(lease)
