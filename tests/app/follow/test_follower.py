"""Summaries of many runs, and how those who wait for entries are told."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from planrunner.app.follow.folds import Folds
from planrunner.app.follow.follower import Follower
from planrunner.app.follow.summaries import RunFilter
from planrunner.app.follow.summary import Summary
from planrunner.app.people.gates import decide, waiting, waiting_among, waiting_document
from planrunner.app.runs.execute import ExecRequest
from planrunner.app.runs.host import Host
from planrunner.app.runs.revise import ReviseRequest, revise
from planrunner.errors import NotFound
from planrunner.journal.ports import EventStore
from planrunner.journal.stores import open_journal
from planrunner.machine.events import Entry, RunEnded
from planrunner.machine.requests import Vote

Run = Callable[..., str]


def until(follower: Follower, holds: Callable[[], bool]) -> None:
    while not holds():
        follower.wait(follower.summaries.version, 0.1)


def ended(follower: Follower, name: str) -> bool:
    return follower.summaries.last_seq(name) > 0 and not follower.summaries.one(name).leased


def told(follower: Follower, name: str) -> Summary:
    until(follower, lambda: ended(follower, name))
    return follower.summaries.one(name)


def test_a_place_without_runs_has_none_until_the_first_one_starts(project: Path, follower: Follower, run: Run) -> None:
    assert follower.summaries.page().runs == ()
    name = run("quick")
    summary = told(follower, name)
    assert (summary.status, summary.plan_id, summary.title) == ("completed", "quick", "Two quick tasks")
    assert (summary.started_by, summary.counts, summary.tasks) == ("ana", {"completed": 2}, 2)
    assert [(cell.name, cell.status) for cell in summary.track] == [("one", "completed"), ("two", "completed")]
    assert follower.summaries.counts() == {"completed": 1}


def test_a_failed_run_names_the_task_that_failed_first(project: Path, follower: Follower, run: Run) -> None:
    summary = told(follower, run("fails"))
    assert summary.status == "failed"
    assert summary.failed[0] == "bad"
    assert "3" in summary.failed[1]
    assert [cell.status for cell in summary.track] == ["failed", "omitted"]


def test_a_track_without_room_for_every_task_has_a_segment_for_each_status(
    project: Path, follower: Follower, run: Run
) -> None:
    summary = told(follower, run("wide"))
    assert summary.tasks == 60
    assert sum(cell.tasks for cell in summary.track) in (1, 60)


def _asked(name: str) -> dict[str, Any]:
    return waiting_document(waiting_among(["gone", name], None), 0.0)


def test_a_gate_waits_then_is_decided_then_the_run_continues(project: Path, follower: Follower, run: Run) -> None:
    name = run("asks")
    summary = told(follower, name)
    assert (summary.status, summary.reason, summary.waits) == ("blocked", "waiting", ("sure",))
    (asking,) = follower.summaries.waiting()
    assert asking.questions[0].ask == "Are you sure?"
    assert _asked(name) == waiting_document(waiting(None, None), 0.0)
    assert [cell.status for cell in asking.track] == ["completed", "gate", "pending"]
    decide(name, Vote("sure", "approve", by="ana"), None)
    until(follower, lambda: bool(follower.summaries.one(name).decided))
    decided = follower.summaries.one(name)
    assert (decided.status, decided.reason, decided.questions) == ("paused", "decided", ())
    assert _asked(name) == waiting_document(waiting(None, None), 0.0)
    with Host() as host:
        host.resume(name).result()
    until(follower, lambda: follower.summaries.counts() == {"completed": 1})
    assert follower.summaries.waiting() == ()


def test_filters_pages_and_counts(project: Path, follower: Follower, run: Run) -> None:
    names = [run(plan) for plan in ("quick", "fails", "asks", "quick", "quick")]
    for name in names:
        told(follower, name)
    summaries = follower.summaries
    assert [each.run for each in summaries.page(limit=2).runs] == names[:2:-1]
    following = summaries.page(limit=2, after=summaries.page(limit=2).after)
    assert [each.run for each in following.runs] == names[2:0:-1]
    assert summaries.page(limit=2, after=following.after).after is None
    assert [each.run for each in summaries.page(RunFilter(status=("failed", "blocked"))).runs] == names[2:0:-1]
    assert [each.run for each in summaries.page(RunFilter(plan="fails")).runs] == [names[1]]
    assert [each.run for each in summaries.page(RunFilter(text="TWO QUICK")).runs] == [names[4], names[3], names[0]]
    assert [each.run for each in summaries.page(RunFilter(waiting=True)).runs] == [names[2]]
    assert summaries.page(RunFilter(by="bo")).runs == ()
    assert len(summaries.page(RunFilter(by="ana", since=0.0)).runs) == 5
    assert summaries.page(RunFilter(until=1.0)).runs == ()
    assert summaries.counts() == {"completed": 3, "failed": 1, "blocked": 1}
    assert summaries.plans() == {"quick": 3, "fails": 1, "asks": 1}
    with pytest.raises(NotFound, match="there is no run"):
        summaries.one("20260101-0000-aaaaaa")


def test_what_waits_comes_page_by_page_and_a_run_stays_whole(project: Path, follower: Follower, run: Run) -> None:
    names = [run(plan) for plan in ("asks", "quick", "twice", "asks", "asks")]
    for name in names:
        told(follower, name)
    decide(names[3], Vote("sure", "approve", by="ana"), None)
    until(follower, lambda: bool(follower.summaries.one(names[3]).decided))
    summaries = follower.summaries

    def pages(limit: int) -> list[list[str]]:
        found = [summaries.page_waiting(limit)]
        while found[-1].after is not None:
            found.append(summaries.page_waiting(limit, found[-1].after))
        return [[each.run for each in page.runs] for page in found]

    assert pages(1) == [[names[4]], [names[3]], [names[2]], [names[0]]]
    assert pages(3) == [[names[4], names[3]], [names[2], names[0]]]
    assert pages(5) == [[each.run for each in summaries.waiting()]]


def test_summaries_of_a_new_follower_are_those_of_one_that_followed(
    project: Path, follower: Follower, run: Run
) -> None:
    for plan in ("quick", "fails", "asks", "wide"):
        told(follower, run(plan))
    with Follower(follower.state) as other:
        assert other.summaries.counts() == follower.summaries.counts()
        assert other.summaries.page() == follower.summaries.page()


def test_no_entry_is_read_twice(project: Path, follower: Follower, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    name = run("asks")
    told(follower, name)
    follower.summaries.page()
    asked: list[int] = []
    journal = follower.journal()
    entries = type(journal).entries

    def seen(self: EventStore, run: str, after: int = 0) -> Iterator[Entry]:
        asked.append(after)
        return entries(self, run, after)

    monkeypatch.setattr(type(journal), "entries", seen)
    for _ in range(10):
        follower.summaries.page()
        follower.summaries.waiting()
    assert asked == []


def test_readers_get_every_entry_once_and_in_order_while_the_run_goes_on(
    project: Path, follower: Follower, run: Run
) -> None:
    async def read(name: str) -> list[int]:
        seqs: list[int] = []
        while True:
            assert await follower.beyond(name, seqs[-1] if seqs else 0)
            entries = follower.read(name, seqs[-1] if seqs else 0, limit=3)
            seqs += [entry.seq for entry in entries]
            if any(isinstance(entry.event, RunEnded) for entry in entries):
                return seqs

    async def all_of(names: list[str]) -> list[list[int]]:
        return await asyncio.gather(*(read(name) for name in names for _ in range(5)))

    with Host() as host:
        begun = [host.start(ExecRequest(str(project / "quick.yaml"), unattended=True)) for _ in range(8)]
        seen = asyncio.run(all_of([each.id for each in begun]))
        names = [each.result().state.run_id for each in begun]
    with closing(open_journal(follower.state, readonly=True)) as journal:
        lengths = [len(list(journal.entries(name))) for name in names for _ in range(5)]
    assert [len(each) for each in seen] == lengths
    assert all(each == list(range(1, len(each) + 1)) for each in seen)


def test_closing_wakes_those_who_wait(project: Path, run: Run) -> None:
    follower = Follower(str(project / ".planrunner"))
    follower.start()

    async def waiting() -> bool:
        threading.Timer(0.05, follower.close).start()
        return await follower.beyond("nothing", 0)

    assert asyncio.run(waiting()) is False


def test_removed_and_replaced_journals_are_noticed(project: Path, follower: Follower, run: Run) -> None:
    first = told(follower, run("quick"))
    shutil.rmtree(project / ".planrunner")
    until(follower, lambda: follower.summaries.page().runs == ())
    second = told(follower, run("fails"))
    assert [each.run for each in follower.summaries.page().runs] == [second.run]
    assert first.run != second.run


def test_a_damaged_run_is_named_and_leaves_the_others_alone(project: Path, run: Run) -> None:
    names = [run(plan) for plan in ("asks", "quick")]
    with sqlite3.connect(project / ".planrunner" / "journal.db") as connection:
        connection.execute("UPDATE entries SET body = '{' WHERE id = (1 << 32) + 3")
    connection.close()
    with Follower(str(project / ".planrunner")) as follower:
        good, bad = follower.summaries.page().runs
        assert (bad.run, bad.status, good.status) == (names[0], "paused", "completed")
        assert bad.problem
        assert follower.summaries.waiting() == ()


def test_a_run_is_running_only_while_its_process_lives(project: Path, follower: Follower, run: Run) -> None:
    os.mkfifo(project / "go")
    (project / "holds.yaml").write_text("plan: holds\ntasks:\n  - {id: wait, run: 'read line < go', timeout: 30m}\n")
    process = os.fork()
    if process == 0:  # it dies by the signal below
        with Host() as host:
            host.start(ExecRequest(str(project / "holds.yaml"), unattended=True)).result()
        os._exit(0)
    until(follower, lambda: follower.summaries.counts() == {"running": 1})
    os.kill(process, 9)
    os.waitpid(process, 0)
    until(follower, lambda: follower.summaries.counts() == {"paused": 1})
    (summary,) = follower.summaries.page().runs
    assert (summary.status, summary.reason) == ("paused", "cut off")


def test_a_revision_is_folded_though_the_journal_was_opened_again_since(project: Path, run: Run) -> None:
    name, state = run("asks"), str(project / ".planrunner")
    reading = [open_journal(state, readonly=True)]
    folds = Folds(lambda: reading[-1])
    (head,) = reading[-1].heads()
    assert folds.summary(head, False).problem == ""
    reading.pop().close()
    text = (project / "asks.yaml").read_text()
    (project / "asks.yaml").write_text(text.replace("Are you sure?", "Are you very sure?"))
    revise(ReviseRequest(name, str(project / "asks.yaml")), state)
    with closing(open_journal(state, readonly=True)) as journal:
        reading.append(journal)
        (head,) = journal.heads()
        assert folds.summary(head, False).problem == ""


def test_a_follower_at_rest_reads_nothing(project: Path, follower: Follower, run: Run) -> None:
    told(follower, run("quick"))
    version = follower.summaries.version
    assert follower.wait(version, 0.3) is False
    assert follower.summaries.version == version
