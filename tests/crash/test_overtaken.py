"""Whoever is overtaken by another process between looking and acting looks again, or refuses in words."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from workbench import planrunner

from planrunner import errors
from planrunner.app.follow.summaries import recent
from planrunner.app.history import audit as denials
from planrunner.app.runs import resume as continued
from planrunner.app.runs.execute import Silent
from planrunner.app.runs.resume import resume
from planrunner.app.runs.rollback import RollbackRequest, roll_back
from planrunner.cli.guard import guarded
from planrunner.errors import Denied, UsageError
from planrunner.journal import audit, foreign, leases, workspace
from planrunner.journal import chain as chain_of_heads
from planrunner.journal.audit import verify_journal
from planrunner.journal.chain import Chain, known_chain
from planrunner.journal.database import Store
from planrunner.journal.foreign import accept
from planrunner.journal.records import NewRun, StoredPlan
from planrunner.journal.sqlite import Journal, open_journal
from planrunner.machine.events import (
    AttemptEnded,
    Entry,
    Outcome,
    PlanRefused,
    RollbackStarted,
    RunEnded,
    RunReopened,
    RunStarted,
)
from planrunner.plan.identity import digest
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.safety.sandbox import limits
from planrunner.safety.sandbox.confinement import Confinement
from planrunner.safety.sandbox.limits import Keeper
from planrunner.source import Source

RUN = f"run-{os.urandom(6).hex()}"
"""Whoever resumes a run ends what is left of it on the whole machine, by its id: no other test has this one."""
PLAN = """\
plan: p
tasks:
  - {id: a, run: 'true', effect: idempotent, timeout: 1m, rollback: {run: 'true'}}
  - {id: b, needs: [a], run: 'true', effect: idempotent, timeout: 1m, rollback: {run: 'true'}}
"""


def cut_off_run(state: str, folder: Path, run: str) -> None:
    """A run whose runner died before anything began."""
    loaded = load(Source(PLAN, "p.yaml", "yaml"), Registry())
    assert loaded.plan is not None
    traits = {"shell": ["unsafe", False, False]}
    started = RunStarted(digest(loaded.plan), {}, 7, traits=traits, environment={"directory": str(folder)})
    journal = open_journal(state)
    stored = StoredPlan(digest(loaded.plan), PLAN, "p.yaml", "yaml")
    new = NewRun(run, "p", digest(loaded.plan), time.time(), stored)
    journal.release(journal.create_run(new, [Entry(1, time.time(), started)]))
    journal.close()


def elsewhere(state: str, *words: str, code: int = errors.OK) -> None:
    """A command that another process carries to its end."""
    done = planrunner(Path.cwd(), "--state", state, *words)
    assert done.returncode == code, done.stderr


def first(what: object, name: str, then: Callable[[], None], monkeypatch: pytest.MonkeyPatch, at: int = 0) -> None:
    """Let something happen elsewhere right before a function is called for the first time, or after so many calls."""
    real, calls = getattr(what, name), 0

    def overtaken(*given: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at + 1:
            then()
        return real(*given, **named)

    monkeypatch.setattr(what, name, overtaken)


def kinds(state: str, run: str) -> list[type]:
    journal = open_journal(state, readonly=True)
    try:
        return [type(entry.event) for entry in journal.entries(run)]
    finally:
        journal.close()


def write_on(state: str, run: str, event: RunEnded) -> None:
    """Another process takes the run up and adds an event."""
    journal = open_journal(state)
    handle = journal.acquire(run)
    journal.append(handle, [Entry(handle.last_seq + 1, time.time(), event)])
    journal.release(handle)
    journal.close()


@pytest.fixture
def state(tmp_path: Path) -> str:
    state = str(tmp_path / "state")
    cut_off_run(state, tmp_path, RUN)
    return state


class TestARunThatAnotherProcessCarriedToItsEndMeanwhile:
    def test_is_not_resumed(self, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
        first(Journal, "acquire", lambda: elsewhere(state, "resume", RUN), monkeypatch)
        with pytest.raises(UsageError, match=f"run {RUN} has already completed"):
            resume(RUN, (), state, Silent())
        assert kinds(state, RUN).count(RunEnded) == 1
        assert RunReopened not in kinds(state, RUN)

    def test_is_cancelled_all_the_same_for_whoever_asked_for_it(
        self, state: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        first(continued, "resume", lambda: elsewhere(state, "resume", RUN, code=errors.FAILED), monkeypatch)
        assert guarded(["--state", state, "cancel", RUN]) == errors.OK, capfd.readouterr().err
        assert kinds(state, RUN).count(RunEnded) == 1

    def test_is_rolled_back_as_it_stands_then(self, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
        first(Journal, "acquire", lambda: elsewhere(state, "resume", RUN), monkeypatch)
        roll_back(RollbackRequest(RUN, to="a"), state, Silent())
        journal = open_journal(state, readonly=True)
        begun = [entry.event for entry in journal.entries(RUN) if isinstance(entry.event, RollbackStarted)]
        journal.close()
        assert [len(event.owed) for event in begun] == [1]


class TestWhoeverOnlyReads:
    @pytest.mark.parametrize("at", range(3))
    @pytest.mark.parametrize("where", [(foreign, "known_chain"), (audit, "sealed_rows"), (Chain, "head")])
    def test_sees_row_events_and_head_of_one_moment(
        self, state: str, monkeypatch: pytest.MonkeyPatch, where: tuple[object, str], at: int
    ) -> None:
        journal = open_journal(state, readonly=True)
        with monkeypatch.context() as steered:
            first(*where, lambda: write_on(state, RUN, RunEnded("completed")), steered, at)
            journal.prove(RUN)
        journal.close()

    def test_does_not_call_a_run_cut_off_that_ends_just_now(self, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as steered:
            first(leases, "leased", lambda: write_on(state, RUN, RunEnded("completed")), steered)
            assert [run.status for run in recent(state)] == ["completed"]

    def test_looks_again_at_a_head_that_is_being_written(self, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
        chain = known_chain(state)
        chain.open_heads(write=False)
        before = chain.head(1)
        write_on(state, RUN, RunEnded("completed"))
        after, pread = chain.head(1), os.pread
        looks: list[bytes] = []

        def half(descriptor: int, length: int, offset: int) -> bytes:
            looks.append(pread(descriptor, length, offset))
            return looks[-1] if len(looks) == 3 else bytes(length // 2) + looks[-1][length // 2 :]

        with monkeypatch.context() as steered:
            steered.setattr(chain_of_heads.os, "pread", half)
            assert chain.head(1) == after != before
        chain.close()

    def test_misses_at_most_what_a_new_run_keeps(self, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def new_run() -> None:
            other = open_journal(state)
            kept = Outcome(artifacts=({"name": "x", "sha256": "0" * 64, "size": 1},))
            entries = [Entry(1, 1.0, RunStarted("d", {}, 7)), Entry(2, 1.0, AttemptEnded("a", 1, kept))]
            other.release(other.create_run(NewRun("new", "p", "d", 1.0), entries))
            other.close()

        journal = open_journal(state, readonly=True)
        with monkeypatch.context() as steered:
            first(Store, "_query", new_run, steered, at=1)
            assert list(journal.kept()) == []
        journal.close()


class TestWhoeverAccepts:
    @pytest.fixture(autouse=True)
    def without_heads(self, state: str) -> None:
        os.unlink(known_chain(state).heads_path)

    def test_takes_a_run_as_it_stands_once_its_lock_is_held(self, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as steered:
            first(foreign, "_adopt", lambda: write_on(state, RUN, RunEnded("completed")), steered)
            accept(state, None, {"because": "it is mine"})
        assert verify_journal(state).breaks == ()

    def test_keeps_others_from_moving_the_log_meanwhile(self, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
        alone: list[bool] = []

        def look() -> None:
            other = leases.JournalLock(state)
            alone.append(other.alone())
            other.close()

        with monkeypatch.context() as steered:
            first(foreign, "_adopt", look, steered)
            accept(state, None, {"because": "it is mine"})
        assert alone == [False]


def test_whoever_mends_modes_while_the_last_one_out_takes_the_log_away_opens_the_journal(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chmod(state, 0o750)
    log = f"{state}/journal.db-wal"
    os.close(os.open(log, os.O_WRONLY | os.O_CREAT, 0o600))
    os.chmod(log, 0o640)
    first(workspace.os, "chmod", lambda: os.unlink(log), monkeypatch)
    journal = open_journal(state)
    assert "had mode 750" in journal.notices[0]
    journal.close()


def test_what_two_attempts_in_one_folder_find_left_behind_is_put_aside_by_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keepers = [Keeper(Confinement("landlock", str(tmp_path)), str(tmp_path / "aside")) for _ in range(2)]
    (tmp_path / ".git").touch()
    told: list[object] = []
    first(limits.os, "rename", lambda: told.append(keepers[1].over()), monkeypatch)
    told.append(keepers[0].over())
    assert [breach is not None for breach in told] == [True, False]
    assert len(os.listdir(tmp_path / "aside")) == 1


def test_an_empty_file_that_was_made_to_be_let_in_may_be_gone_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = str(tmp_path / "made")
    keeper = Keeper(Confinement("landlock", str(tmp_path), missing=((made, False),)), str(tmp_path / "aside"))
    first(limits.os, "unlink", lambda: os.remove(made), monkeypatch)
    assert keeper.over() is None
    assert os.listdir(tmp_path) == []


def test_what_is_kept_of_refusals_stays_bounded_whoever_comes_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planrunner.yaml").touch()
    (tmp_path / "own.yaml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    denied = Denied("no", "", "policy.plans", "own.yaml", "sha256:1")
    for _ in range(denials.SAME - 1):
        denials.keep(denied, None)
    first(denials, "_handle", lambda: denials.keep(denied, None), monkeypatch)
    denials.keep(denied, None)
    journal = open_journal(str(tmp_path / ".planrunner"), readonly=True)
    events = [entry.event for entry in journal.entries(denials.NAME)]
    journal.close()
    assert [event.quiet for event in events if isinstance(event, PlanRefused)] == ["", "", "", "", "same"]
