"""Triggers: each reason queues one run, whatever dies in between; overlap, pauses, changed files, webhooks."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planrunner.app.queue import asking
from planrunner.app.queue.items import Pause
from planrunner.app.queue.store import Store
from planrunner.app.queue.worker import Worker
from planrunner.app.triggers import showing
from planrunner.app.triggers.clock import Clock
from planrunner.app.triggers.hooks import Delivery, receive
from planrunner.app.triggers.records import Last, change, record
from planrunner.caller import Principal, Workspace, acting
from planrunner.errors import Denied, NotFound, RecordMismatch, UsageError
from planrunner.safety.signatures import signed_headers

PLAN = "plan: p\nparams: {ref: {type: string, default: main}}\ntasks:\n  - id: a\n    uses: noop\n"
ASKS = "plan: asks\ntasks:\n  - id: sure\n    gate: approval\n    ask: Go on?\n"
NOW = 1_795_000_000.0
SECRET = "whsec_" + "c2VjcmV0LW9mLXRoZS1ob29r"


class Bench:
    """A project with triggers and a clock that is asked by hand."""

    def __init__(self, root: Path, triggers: dict[str, Any]) -> None:
        self.root = root
        self.place = Workspace(str(root), str(root / ".planrunner"))
        credentials = [{"id": "hook", "auth": {"source": "env", "env_var": "HOOK"}}]
        settings = {"triggers": triggers, "provider_credentials": credentials}
        (root / "planrunner.yaml").write_text(json.dumps(settings))
        (root / "p.yaml").write_text(PLAN)
        (root / "asks.yaml").write_text(ASKS)

    def turns(self, *times: float) -> None:
        """A worker that looks at the clock at these times, and then dies."""
        clock = Clock(self.place.root, self.place.state, lambda: None)
        with Store(self.place.state) as store:
            for at in times:
                clock.turn(store, at)
        clock.close()

    def queued(self) -> list[str]:
        return [item.source for item in asking.items()]


Make = Callable[..., Bench]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with acting(Principal("ana"), Workspace(str(tmp_path), str(tmp_path / ".planrunner"))):
        yield lambda **triggers: Bench(tmp_path, triggers)


def test_a_trigger_means_a_plan_by_its_name(make: Make, tmp_path: Path) -> None:
    bench = make(t={"plan": "nightly", "cron": "* * * * *"})
    (tmp_path / "nightly").mkdir()
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "nightly.yaml").write_text(PLAN)
    bench.turns(NOW, NOW + 60.0)
    (item,) = asking.items()
    assert item.plan == str(tmp_path / "plans" / "nightly.yaml")


def test_a_time_queues_one_run_whatever_dies_in_between(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make(t={"plan": "p.yaml", "cron": "* * * * *", "overlap": "queue", "missed": "all"})
    bench.turns(NOW)
    assert bench.queued() == []
    with monkeypatch.context() as patched:
        patched.setattr(
            "planrunner.app.triggers.clock.change", lambda *_, **__: None
        )  # it dies before it notes what it did
        bench.turns(NOW + 60.0)
    assert bench.queued() == ["trigger:t"]
    bench.turns(NOW + 60.0)
    assert bench.queued() == ["trigger:t"]
    bench.turns(NOW + 60.0, NOW + 180.0)
    assert bench.queued() == ["trigger:t"] * 3


def test_a_run_of_the_trigger_that_is_not_over_keeps_the_next_one_from_starting(make: Make) -> None:
    bench = make(t={"plan": "p.yaml", "cron": "* * * * *"})
    bench.turns(NOW, NOW + 60.0, NOW + 120.0)
    assert bench.queued() == ["trigger:t"]
    (shown,) = showing.shown()
    assert shown.last is not None and shown.last.problem.startswith("skipped: run ") and shown.open_run


def test_the_earlier_run_gives_way_where_the_trigger_says_so(make: Make) -> None:
    bench = make(t={"plan": "p.yaml", "cron": "* * * * *", "overlap": "cancel"})
    bench.turns(NOW, NOW + 60.0, NOW + 120.0)
    assert [(item.status, item.reason) for item in asking.items()] == [
        ("waiting", ""),
        ("cancelled", "the trigger t fired again"),
    ]


def test_times_that_pass_while_a_trigger_is_paused_do_not_count_as_missed(make: Make) -> None:
    bench = make(t={"plan": "p.yaml", "cron": "* * * * *", "missed": "all"})
    bench.turns(NOW)
    assert showing.pause("t", "repairs").by == "ana"
    bench.turns(NOW + 300.0)
    showing.go_on("t")
    bench.turns(NOW + 301.0)
    assert bench.queued() == []
    bench.turns(NOW + 360.0)
    assert bench.queued() == ["trigger:t"]


def test_a_time_table_that_was_changed_makes_up_for_nothing(make: Make) -> None:
    make(t={"plan": "p.yaml", "cron": "0 * * * *", "missed": "all"}).turns(NOW)
    bench = make(t={"plan": "p.yaml", "cron": "* * * * *", "missed": "all"})
    bench.turns(NOW + 7200.0)
    assert bench.queued() == []


def test_what_two_processes_note_of_a_trigger_at_once_is_kept(make: Make) -> None:
    state, wrong = make().place.state, list[float]()

    def fires() -> None:
        with Store(state) as store:
            for at in range(20):
                change(store, "t", last=Last(float(at)))
                if (kept := record(store, "t")) is None or kept.last != Last(float(at)):
                    wrong.append(at)

    firing = threading.Thread(target=fires)
    firing.start()
    with Store(state) as store:
        for at in range(20):
            change(store, "t", paused=Pause("ana", float(at)))
    firing.join()
    with Store(state) as store:
        assert (kept := record(store, "t")) is not None
    assert (kept.paused, kept.last, wrong) == (Pause("ana", 19.0), Last(19.0), [])


def test_a_plan_that_cannot_start_is_told_with_the_trigger(make: Make) -> None:
    bench = make(t={"plan": "p.yaml", "cron": "* * * * *", "params": {"nothing": 1}})
    bench.turns(NOW, NOW + 60.0)
    (shown,) = showing.shown()
    assert bench.queued() == []
    assert shown.last is not None and "has no parameter `nothing`" in shown.last.problem


def test_a_run_acts_for_the_trigger_and_by_hand_for_the_person(make: Make) -> None:
    bench = make(t={"plan": "p.yaml", "cron": "* * * * *", "params": {"ref": "x"}, "priority": 3, "overlap": "queue"})
    bench.turns(NOW, NOW + 60.0)
    showing.fire_now("t", (("ref", "y"),))
    assert [(item.by.name, item.params, item.priority) for item in asking.items()] == [
        ("trigger t", {"ref": "x"}, 3),
        ("ana", {"ref": "y"}, 3),
    ]
    with pytest.raises(NotFound, match="there is no trigger `s`"):
        showing.fire_now("s")


class TestFiles:
    def test_a_change_queues_one_run_once_the_files_stand_still(self, make: Make) -> None:
        bench = make(t={"plan": "p.yaml", "watch": "docs/**/*.md", "settle": "5s"})
        (bench.root / "docs").mkdir()
        clock = Clock(bench.place.root, bench.place.state, lambda: None)
        with Store(bench.place.state) as store:
            clock.turn(store, NOW)
            (bench.root / "docs" / "a.md").write_text("a")
            clock.turn(store, NOW + 60.0)
            (bench.root / "docs" / "a.md").write_text("longer")
            clock.turn(store, NOW + 65.0)
            assert bench.queued() == []
            clock.turn(store, NOW + 70.0)
            clock.turn(store, NOW + 170.0)
        clock.close()
        assert bench.queued() == ["trigger:t"]

    def test_a_change_while_no_worker_was_there_is_found(self, make: Make) -> None:
        bench = make(t={"plan": "p.yaml", "watch": ["*.txt"], "settle": 0})
        bench.turns(NOW)
        (bench.root / "new.txt").touch()
        bench.turns(NOW + 60.0, NOW + 61.0)
        bench.turns(NOW + 120.0, NOW + 121.0)
        assert bench.queued() == ["trigger:t"]

    def test_a_worker_hears_of_a_change_and_runs_the_plan(self, make: Make) -> None:
        bench = make(t={"plan": "p.yaml", "watch": "docs/*.md", "settle": 0})
        (bench.root / "docs").mkdir()
        with Worker(bench.place.root, bench.place.state) as worker:
            while not any(thread.name == "planrunner-watch" for thread in threading.enumerate()):
                time.sleep(0.01)
            deadline = time.monotonic() + 100.0
            while asking.overview().counts != {"completed": 1}:
                if not asking.items():
                    (bench.root / "docs" / "a.md").write_text(str(time.monotonic()))
                assert time.monotonic() < deadline and not worker.problem
                time.sleep(0.3)


class TestWebhooks:
    HOOK = {"plan": "p.yaml", "webhook": {"secret": "hook", "params": {"ref": "head.ref"}}}
    BODY = b'{"head": {"ref": "v1"}}'

    @pytest.fixture(autouse=True)
    def secret(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOOK", SECRET)

    def signed(self, identity: str = "m1", body: bytes = BODY, at: float | None = None) -> Delivery:
        moment = int(time.time() if at is None else at)
        return Delivery(signed_headers(SECRET.encode(), identity, moment, body), body)

    def test_a_signed_request_queues_a_run_and_its_copy_none(self, make: Make) -> None:
        bench = make(t=self.HOOK)
        items = [receive("t", self.signed(), bench.place) for _ in range(3)]
        assert [item and item.params for item in items] == [{"ref": "v1"}] * 3
        assert bench.queued() == ["trigger:t"]
        assert receive("t", self.signed("m2"), bench.place) is not None
        assert bench.queued() == ["trigger:t"] * 2

    def test_an_id_that_comes_with_another_body_is_refused(self, make: Make) -> None:
        bench = make(t=self.HOOK)
        first = receive("t", self.signed(), bench.place)
        assert first is not None
        with pytest.raises(RecordMismatch, match="another request"):
            receive("t", self.signed(body=self.BODY.replace(b"v1", b"v2")), bench.place)
        again = receive("t", self.signed(), bench.place)
        assert again is not None and again.run == first.run
        assert bench.queued() == ["trigger:t"]

    @pytest.mark.parametrize("body", [b"[" * 50_000, b'{"head":' * 50_000, b'{"head": {"ref": NaN}}', b"\xff"])
    def test_a_body_that_cannot_be_used_is_told_as_such(self, make: Make, body: bytes) -> None:
        bench = make(t=self.HOOK)
        with pytest.raises(UsageError, match="not JSON"):
            receive("t", self.signed(body=body), bench.place)
        assert bench.queued() == []

    def test_what_is_not_signed_starts_nothing(self, make: Make) -> None:
        bench = make(t=self.HOOK)
        good = self.signed()
        forged = [
            Delivery({}, self.BODY),
            good._replace(body=self.BODY.replace(b"v1", b"v2")),
            Delivery({**good.headers, "webhook-id": "m2"}, self.BODY),
            Delivery({**good.headers, "webhook-timestamp": str(int(time.time()) + 1)}, self.BODY),
            Delivery({**good.headers, "webhook-signature": "v1,"}, self.BODY),
            Delivery({**good.headers, "webhook-signature": "v2," + good.headers["webhook-signature"][3:]}, self.BODY),
            Delivery(signed_headers(b"another", "m1", int(time.time()), self.BODY), self.BODY),
            self.signed(at=time.time() - 301),
            self.signed(at=time.time() + 301),
            self.signed(identity=""),
        ]
        for delivery in forged:
            with pytest.raises(Denied):
                receive("t", delivery, bench.place)
        assert bench.queued() == []

    def test_a_signature_that_is_renewed_may_stand_beside_the_old_one(self, make: Make) -> None:
        bench, good = make(t=self.HOOK), self.signed()
        headers = {**good.headers, "webhook-signature": "v1,AAAA " + good.headers["webhook-signature"]}
        assert receive("t", Delivery(headers, self.BODY), bench.place) is not None

    def test_github_signs_in_its_own_way(self, make: Make) -> None:
        bench = make(t={"plan": "p.yaml", "webhook": {"secret": "hook", "scheme": "github"}})
        made = hmac.new(SECRET.encode(), self.BODY, hashlib.sha256).hexdigest()
        delivery = Delivery({"x-hub-signature-256": f"sha256={made}"}, self.BODY)
        assert receive("t", delivery, bench.place) == receive("t", delivery, bench.place)
        with pytest.raises(Denied):
            receive("t", delivery._replace(body=b"{}"), bench.place)
        assert bench.queued() == ["trigger:t"]

    @pytest.mark.parametrize("body", [b"{}", b"[]", b"no json", b'{"head": 1}', b"\xff"])
    def test_a_body_that_lacks_a_parameter_is_refused(self, make: Make, body: bytes) -> None:
        bench = make(t=self.HOOK)
        with pytest.raises(UsageError, match="body"):
            receive("t", self.signed(body=body), bench.place)

    def test_only_webhooks_have_an_address(self, make: Make) -> None:
        bench = make(t={"plan": "p.yaml", "cron": "* * * * *"})
        for name in ("t", "u"):
            with pytest.raises(NotFound):
                receive(name, self.signed(), bench.place)
