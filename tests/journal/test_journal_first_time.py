"""What several processes do for the first time at once: each waits for the other, or begins where that one stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from planrunner.app.project.doctor import examine
from planrunner.errors import NotFound, RunHeld
from planrunner.journal import audit, chain, leases, workspace
from planrunner.journal.audit import verify_journal
from planrunner.journal.chain import key_path, known_chain
from planrunner.journal.database import FILE
from planrunner.journal.records import NewRun
from planrunner.journal.sqlite import open_journal
from planrunner.journal.workspace import FOLDERS, prepare_state
from planrunner.safety import trust


class Cut(BaseException):
    """Stands for the moment at which a process is stopped or killed."""


@pytest.mark.parametrize("done", range(len(FOLDERS) + 1))
def test_whoever_comes_while_a_state_directory_is_laid_out_has_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    state, made = str(tmp_path / "state"), []
    make = workspace._make

    def cut_off(folder: str) -> None:
        if len(made) == done:
            raise Cut
        made.append(folder)
        make(folder)

    with monkeypatch.context() as steered:
        steered.setattr(workspace, "_make", cut_off)
        try:
            prepare_state(state)
        except Cut:
            pass
    open_journal(state).close()
    assert all(os.path.isdir(os.path.join(state, folder)) for folder in FOLDERS)
    assert Path(state, ".gitignore").read_text() == "*\n"


class TestWhoeverReadsWhileTheFirstRunBegins:
    """The file of the journal is made, then its tables are: in between there are no runs, and nothing is damaged."""

    @pytest.fixture
    def state(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.chdir(tmp_path)
        state = str(tmp_path / ".planrunner")
        prepare_state(state)
        os.close(os.open(os.path.join(state, FILE), os.O_WRONLY | os.O_CREAT, 0o600))
        return state

    def test_finds_no_runs(self, state: str) -> None:
        with pytest.raises(NotFound, match="there are no runs"):
            open_journal(state, readonly=True)

    def test_does_not_call_the_journal_damaged(self, state: str) -> None:
        with pytest.raises(NotFound, match="there are no runs"):
            verify_journal(state)
        assert [check for check in examine(state) if check.name == "journal"] == []

    def test_compares_a_run_whose_key_was_not_there_when_it_looked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        state, open_database = str(tmp_path / "new"), audit.open_database
        looks: list[str] = []

        def late(place: str) -> object:
            looks.append(place)
            if len(looks) == 1:
                _one_run(place)
            return open_database(place)

        monkeypatch.setattr(audit, "open_database", late)
        found = verify_journal(state)
        assert ([each.run for each in found.runs], found.breaks, found.heads != "") == (["r"], (), True)

    def test_but_tells_of_runs_that_are_gone(self, state: str) -> None:
        _one_run(state)
        Path(state, FILE).write_bytes(b"")
        assert [(each.run, each.kind) for each in verify_journal(state).breaks] == [("r", "cut")]


def _one_run(state: str) -> None:
    journal = open_journal(state)
    journal.release(journal.create_run(NewRun("r", "p", "", time.time())))
    journal.close()


class TestProcessesOfOneNumber:
    """Containers that share the folder of a user have a process 7 each, and so has whoever comes after a crash."""

    def test_both_make_the_key(self, tmp_path: Path) -> None:
        Path(key_path()).unlink(missing_ok=True)
        Path(f"{key_path()}.{os.getpid()}").touch()
        try:
            assert chain.make_key(key_path(), str(tmp_path)).key is not None
        finally:
            Path(f"{key_path()}.{os.getpid()}").unlink()

    def test_both_make_the_heads(self, tmp_path: Path) -> None:
        state = str(tmp_path / "state")
        Path(key_path()).parent.joinpath("audit").mkdir(parents=True, exist_ok=True)
        chain.make_key(key_path(), state)
        Path(f"{known_chain(state).heads_path}.{os.getpid()}").touch()
        open_journal(state).close()
        assert os.path.exists(known_chain(state).heads_path)

    def test_both_say_whom_they_trust(self, tmp_path: Path) -> None:
        plan = str(tmp_path / "plan.yaml")
        trust.trust(plan, b"one", "plan")
        Path(f"{trust._place(plan, 'plan')}.{os.getpid()}").touch()
        trust.trust(plan, b"two", "plan")
        assert trust.trust_state(plan, b"two", "plan") == "trusted"


class TestTheLockOfARun:
    """Whoever asks whether a run is held shares its lock for a moment; a busy machine makes that moment long."""

    @pytest.fixture
    def state(self, tmp_path: Path) -> str:
        prepare_state(str(tmp_path))
        return str(tmp_path)

    def test_is_waited_for_while_others_only_look(self, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
        looker = os.open(leases.lock_path(state, "r"), os.O_RDONLY | os.O_CREAT, 0o600)
        leases.fcntl.flock(looker, leases.fcntl.LOCK_SH)
        pauses = _pauses(monkeypatch, 50, lambda: os.close(looker))
        leases.unlock_run(state, "r", leases.lock_run(state, "r"))
        assert len(pauses) >= 50  # a program that another thread starts shares the lock for a moment

    def test_is_soon_refused_while_another_holds_it(self, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
        held = leases.lock_run(state, "r")
        pauses = _pauses(monkeypatch, 50, lambda: None)
        with pytest.raises(RunHeld, match=f"held by process {os.getpid()}"):
            leases.lock_run(state, "r")
        assert len(pauses) < 10
        leases.unlock_run(state, "r", held)


def _pauses(monkeypatch: pytest.MonkeyPatch, number: int, then: Callable[[], None]) -> list[float]:
    """The pauses that are made from now on, which take no time; after so many something happens."""
    found: list[float] = []

    def sleep(seconds: float) -> None:
        found.append(seconds)
        if len(found) == number:
            then()

    monkeypatch.setattr(leases.time, "sleep", sleep)
    return found
