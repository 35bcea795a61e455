"""The queue in one process: order, limits, what parks and goes on, what is cancelled, and what is not ours."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planrunner.app.history.show import look
from planrunner.app.people.gates import decide
from planrunner.app.queue import asking
from planrunner.app.queue.items import Item, Limits, Overview, Pause, waiting_reason
from planrunner.app.queue.limits import allowance, limits_of
from planrunner.app.queue.store import Store
from planrunner.app.queue.worker import Worker
from planrunner.app.runs.control import steer
from planrunner.app.runs.execute import ExecRequest, Silent
from planrunner.app.runs.resume import resume
from planrunner.caller import Principal, Workspace, acting
from planrunner.errors import NotFound, PlanInvalid, UsageError
from planrunner.journal.stores import open_journal
from planrunner.machine.requests import Vote

QUICK = "plan: quick\nparams: {n: {type: int, default: 0}}\ntasks:\n  - id: a\n    uses: noop\n"
ASKS = "plan: asks\ntasks:\n  - id: sure\n    gate: approval\n    ask: Go on?\n  - id: b\n    needs: [sure]\n    uses: noop\n"
WAITS = 'plan: waits\ntasks:\n  - id: a\n    run: "read line < go"\n    timeout: 30m\n    effect: pure\n'
FAILS = 'plan: fails\ntasks:\n  - id: a\n    run: "test -e there"\n    timeout: 1m\n'
ANA = Principal("ana", ("release",))


class Project:
    """A project with plans and its queue; ``worker`` starts one."""

    def __init__(self, root: Path, settings: str) -> None:
        self.root = root
        self.state = str(root / ".planrunner")
        (root / "planrunner.yaml").write_text(settings)
        for name, text in {"quick": QUICK, "asks": ASKS, "waits": WAITS, "fails": FAILS}.items():
            (root / f"{name}.yaml").write_text(text)

    def worker(self) -> Worker:
        return Worker(str(self.root), self.state)

    def add(self, plan: str = "quick", priority: int = 0, **fields: Any) -> Item:
        return asking.enqueue(ExecRequest(f"{plan}.yaml", **fields), "test", priority)

    def begun(self) -> list[str]:
        """The plans and parameters of runs in the order in which they began."""
        with Store(self.state, readonly=True) as store:
            runs = [item for item in store.page((), -1, 0) if item.begun]
        return [item.run for item in sorted(runs, key=lambda item: look(item.run, self.state).row.created)]


Make = Callable[..., Project]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    def made(settings: str = "scheduler: {max_concurrency: 1}") -> Project:
        return Project(tmp_path, settings)

    with acting(ANA, Workspace(str(tmp_path), str(tmp_path / ".planrunner"))):
        yield made


def stands(run: str, *statuses: str) -> Item:
    """The item of a run, once it has one of these statuses."""
    while (found := asking.item(run)).status not in statuses:
        assert found.status not in {"completed", "failed", "cancelled"} - set(statuses), found
        time.sleep(0.01)
    return found


def test_a_run_has_its_id_before_it_begins_and_acts_for_the_one_who_asked(make: Make) -> None:
    project = make()
    item = project.add(params=(("n", 7),))
    assert (item.status, item.run, item.params) == ("waiting", item.run, {"n": 7})
    with pytest.raises(NotFound):
        look(item.run, project.state)
    with project.worker():
        stands(item.run, "completed")
    first = look(item.run, project.state).entries[0].event
    assert (first.environment["user"], first.params) == ("ana", {"n": 7})  # type: ignore[union-attr]


def test_what_cannot_start_is_told_to_the_one_who_asks(make: Make) -> None:
    project = make()
    (project.root / "broken.yaml").write_text("plan: broken\ntasks: 3\n")
    with pytest.raises(PlanInvalid):
        project.add("broken")
    with pytest.raises(UsageError, match="has no parameter `m`"):
        project.add(params=(("m", 1),))
    with pytest.raises(NotFound):
        project.add("nothing")
    assert asking.items() == ()


def test_higher_priorities_come_first_and_equal_ones_in_the_order_of_asking(make: Make) -> None:
    project = make()
    asked = [project.add(priority=priority).run for priority in (0, 0, 5, 0, 5)]
    assert [item.run for item in asking.items()] == [asked[at] for at in (2, 4, 0, 1, 3)]
    assert [item.ahead for item in asking.items()] == [0, 1, 2, 3, 4]
    with project.worker():
        for run in asked:
            stands(run, "completed")
    assert project.begun() == [asked[at] for at in (2, 4, 0, 1, 3)]


def test_a_parked_run_takes_no_slot_and_goes_on_before_others_once_it_is_decided(make: Make) -> None:
    project = make()
    parked = project.add("asks").run
    with project.worker():
        found = stands(parked, "parked")
        assert (found.code, found.reason) == (8, "waits for people: sure")
        stands(project.add().run, "completed")
        decide(parked, Vote("sure", "approve"), None)
        stands(parked, "completed")
    assert look(parked, project.state).row.status == "completed"


def test_a_decision_that_was_made_without_a_worker_is_found_by_the_next_one(make: Make) -> None:
    project = make()
    parked = project.add("asks").run
    with project.worker():
        stands(parked, "parked")
    decide(parked, Vote("sure", "approve"), None)
    with project.worker():
        stands(parked, "completed")


def test_a_parked_run_that_is_gone_keeps_no_other_one_waiting(make: Make) -> None:
    project = make()
    gone, parked = project.add("asks").run, project.add("asks").run
    with project.worker():
        stands(gone, "parked"), stands(parked, "parked")
        journal = open_journal(project.state)
        with acting(ANA, Workspace(str(project.root), project.state)):
            steer(gone, "cancel", {}, None)
            resume(gone, (), None, Silent())
            journal.retention().remove(journal.run(gone), time.time(), "ana")
        journal.close()
        decide(parked, Vote("sure", "approve"), None)
        stands(parked, "completed")
        stands(gone, "cancelled")


def test_the_text_that_was_asked_for_runs_whatever_the_file_has_become(make: Make) -> None:
    project = make()
    item = project.add()
    (project.root / "quick.yaml").write_text(QUICK.replace("id: a", "id: other"))
    with project.worker():
        stands(item.run, "completed")
    assert [task.id for task in look(item.run, project.state).state.plan.tasks] == ["a"]


def test_what_waits_can_be_cancelled_and_never_begins(make: Make) -> None:
    project = make()
    item = project.add()
    assert asking.cancel(item.run, "wrong branch")._replace(ended=None, reason="") == item._replace(
        status="cancelled", ahead=None
    )
    with project.worker():
        stands(project.add().run, "completed")
    with pytest.raises(NotFound):
        look(item.run, project.state)
    with pytest.raises(UsageError, match="is over: wrong branch"):
        asking.cancel(item.run)


def test_a_parked_run_that_is_cancelled_is_driven_to_its_end(make: Make) -> None:
    project = make()
    item = project.add("asks")
    with project.worker():
        stands(item.run, "parked")
        asking.cancel(item.run, "not needed")
        stands(item.run, "cancelled")
    assert look(item.run, project.state).row.status == "cancelled"


def test_nothing_is_taken_from_a_queue_that_is_paused(make: Make) -> None:
    project = make()
    asking.pause("repairs")
    item = project.add()
    with project.worker() as worker:
        while not worker.is_acting:
            time.sleep(0.01)
        overview = asking.overview()
        assert overview.pause is not None
        assert (overview.pause.by, overview.pause.reason, overview.counts) == ("ana", "repairs", {"waiting": 1})
        assert asking.resume_queue() == overview.pause
        stands(item.run, "completed")
    assert asking.resume_queue() is None


def test_a_full_queue_takes_nothing_more(make: Make) -> None:
    project = make("scheduler: {max_queue_size: 2}")
    project.add(), project.add()
    with pytest.raises(UsageError, match="2 runs wait, which is the most"):
        project.add()


def test_a_key_makes_it_once(make: Make) -> None:
    project = make()
    once = {asking.enqueue(ExecRequest("quick.yaml"), "test", key="monday").run for _ in range(3)}
    assert once == {item.run for item in asking.items()} and len(once) == 1
    assert project.add().run not in once


def test_as_many_run_at_once_as_the_settings_say(make: Make) -> None:
    project = make("scheduler: {max_concurrency: 2}")
    os.mkfifo(project.root / "go")
    runs = [project.add("waits").run for _ in range(3)]
    gate = os.open(project.root / "go", os.O_RDWR)
    with project.worker():
        stands(runs[0], "running"), stands(runs[1], "running")
        assert asking.item(runs[2]).status == "waiting" and asking.overview().counts == {"running": 2, "waiting": 1}
        os.write(gate, b"\n")
        stands(runs[2], "running")
        os.write(gate, b"\n\n")
        for run in runs:
            stands(run, "completed")
    os.close(gate)


def test_a_run_that_only_waits_for_a_time_takes_no_slot(make: Make) -> None:
    project = make()
    (project.root / "later.yaml").write_text("plan: later\ntasks:\n  - {id: a, delay: 1h, uses: noop, timeout: 1m}\n")
    waits = project.add("later").run
    with project.worker():
        stands(waits, "running")
        stands(project.add().run, "completed")
        assert asking.item(waits).status == "running"
        asking.cancel(waits)
        stands(waits, "cancelled")


def test_a_worker_that_is_closed_pauses_its_runs_and_the_next_one_continues_them(make: Make) -> None:
    project = make()
    os.mkfifo(project.root / "go")
    gate = os.open(project.root / "go", os.O_RDWR)
    item = project.add("waits")
    with project.worker():
        stands(item.run, "running")
    assert asking.item(item.run).status == "interrupted"
    with project.worker():
        stands(item.run, "running")
        os.write(gate, b"\n\n")
        stands(item.run, "completed")
    os.close(gate)


def test_a_second_worker_stands_by_and_takes_over(make: Make) -> None:
    project = make()
    first, second = project.worker(), project.worker()
    first.start()
    second.start()
    assert (first.is_acting, second.is_acting) == (True, False)
    first.close()
    stands(project.add().run, "completed")
    second.close()
    assert not second.is_acting


def test_a_run_that_failed_is_retried_through_the_queue(make: Make) -> None:
    project = make()
    item = project.add("fails")
    with project.worker():
        stands(item.run, "failed")
        (project.root / "there").touch()
        assert asking.take_up(item.run, "retry").act == "retry"
        stands(item.run, "completed")
    assert look(item.run, project.state).row.status == "completed"
    with pytest.raises(UsageError):
        asking.take_up(item.run, "resume")


def test_what_a_task_writes_into_the_queue_does_not_run(make: Make) -> None:
    project = make()
    item = project.add()
    with sqlite3.connect(f"{project.state}/queue.db") as connection:
        connection.execute("UPDATE items SET request = ?", ('{"params":[["n",9]],"trust":"x"}',))
    connection.close()
    with project.worker():
        found = stands(item.run, "failed")
    assert "bears no seal" in found.reason
    with pytest.raises(NotFound):
        look(item.run, project.state)


def test_nothing_is_said_to_run_without_a_lease(make: Make) -> None:
    project = make()
    item = project.add()
    with Store(project.state) as store, store.writing():
        store.note(item.run, "running", begun=time.time())
    assert asking.item(item.run).status == "interrupted"
    assert asking.overview().counts == {"interrupted": 1}


class TestLimits:
    def test_without_settings_several_run_at_once(self, make: Make) -> None:
        assert limits_of(str(make("{}").root)) == limits_of(str(make("scheduler: {grace: 3s}").root)) == Limits(10)

    def test_what_the_next_run_waits_for_is_told(self) -> None:
        full = Overview({"running": 1, "starting": 1, "waiting": 3}, None, "process 1", Limits(2))
        assert waiting_reason(full) == "2 of at most 2 runs at once are going on (`scheduler.max_concurrency`)"
        assert (
            waiting_reason(full._replace(limits=Limits(3))) == waiting_reason(full._replace(limits=Limits(None))) == ""
        )
        assert waiting_reason(full._replace(worker="")) == "no worker works off the queue"
        assert (
            waiting_reason(full._replace(pause=Pause("ana", 0.0, "repairs"))) == "the queue is paused by ana: repairs"
        )

    def test_they_are_those_of_the_settings(self, make: Make) -> None:
        project = make(
            "scheduler: {max_concurrency: 4, max_queue_size: 9, rate_limit: {requests_per_minute: 60, burst: 5}}"
        )
        assert limits_of(str(project.root)) == Limits(4, 9, 60, 5)
        (project.root / "planrunner.yaml").write_text("scheduler: {enabled: false, max_concurrency: 4}")
        assert limits_of(str(project.root)) == Limits(None, queued=False)

    def test_no_more_begin_within_a_minute_than_the_rate_allows(self, make: Make) -> None:
        project = make()
        limits = Limits(per_minute=6, burst=2)
        begun: list[float] = []
        now = 1000.0
        with Store(project.state) as store:
            while now < 1300.0:
                allowed, wait = allowance(limits, store, now)
                if not allowed:
                    now += wait + 1e-6
                    continue
                run = project.add().run
                with store.writing():
                    store.note(run, "completed", begun=now)
                begun.append(now)
        assert begun[:3] == [1000.0, 1000.0, pytest.approx(1020.0)]
        for at in begun:
            assert sum(at - 60.0 < other <= at for other in begun) <= 6
            assert sum(at - 20.0 < other <= at for other in begun) <= 2
        assert len(begun) == 30
