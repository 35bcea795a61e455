"""Capabilities that take back what they did: noted before the effect, exact after it, whenever the runner dies."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import textwrap
import threading
import time
from functools import partial
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
from planrunner.machine.events import BackupMade

EVERY = int(os.environ.get("PLANRUNNER_KILLED_PLANS", "10")) > 10

LEDGER = """
    import os
    from planrunner.capabilities.contract import Context, Failure
    from planrunner.capabilities.contract import capability


    def _capture(context: Context, account: str, amount: str) -> dict:
        if account == "locked":
            raise Failure("the account is locked")
        if account == "busy":
            if not os.path.exists("tried"):
                open("tried", "w").close()
                raise Failure("the ledger is busy", "transient")
        if account == "slow":
            import time
            open("noting", "w").close()
            while not context.cancelled():
                time.sleep(0.02)
            raise Failure("stopped")
        path = os.path.join(context.call.directory, account)
        if not os.path.exists(path):
            return {"account": account, "there": False}
        with open(path, "rb") as file:
            return {"account": account, "there": True, "old": context.keep(file.read(), account)}


    def _undo(context: Context, before: dict, outputs: dict | None) -> dict:
        path = os.path.join(context.call.directory, before["account"])
        if not before["there"]:
            if os.path.exists(path):
                os.unlink(path)
            return {"seen": outputs is not None}
        with context.artifact(before["old"]["sha256"]) as kept, open(path, "wb") as file:
            file.write(kept.read())
        return {"seen": outputs is not None}


    @capability("ledger.book", effect="unsafe", capture=_capture, undo=_undo)
    def book(context: Context, account: str, amount: str) -> dict[str, str]:
        '''Book an amount.'''
        with open(os.path.join(context.call.directory, account), "a") as file:
            file.write(amount + "\\n")
        return {"booked": amount}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "site-packages"
    about = site / "ledger-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ledger\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[planrunner.capabilities]\nledger = ledger_plugin\n")
    (site / "ledger_plugin.py").write_text(textwrap.dedent(LEDGER))
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "ledger_plugin", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def write(folder: Path, *tasks: dict[str, Any], **plan: Any) -> Path:
    (folder / ".planrunner").mkdir(parents=True)
    document = {"plan": "p", "defaults": {"timeout": "1m"}, "max_parallel": 1, **plan, "tasks": list(tasks)}
    path = folder / "plan.json"
    path.write_text(json.dumps(document))
    return path


def book(name: str = "book", amount: str = "5", account: str = "a", **keys: Any) -> dict[str, Any]:
    return {"id": name, "uses": "ledger.book", "with": {"account": account, "amount": amount}, **keys}


def run(path: Path) -> Any:
    return execute(ExecRequest(str(path), state=str(path.parent / ".planrunner"), seed=1, vouched=True), Silent())


def go_on(folder: Path) -> int:
    return int(resume("last", (), str(folder / ".planrunner"), Silent()).exit_code)


def last(folder: Path) -> Any:
    journal = open_journal(str(folder / ".planrunner"))
    try:
        return stored_state(journal, journal.runs()[0].run), list(journal.entries(journal.runs()[0].run))
    finally:
        journal.close()


BAD = {"id": "bad", "needs": ["book"], "run": "exit 3", "effect": "read"}


class TestTakingBack:
    def test_a_failure_takes_back_what_the_capability_did_without_the_plan_saying_how(self, project: Path) -> None:
        folder = project / "p"
        path = write(folder, book(), BAD, on_failure="rollback")
        (folder / "a").write_text("old\n")
        result = run(path)
        assert (result.exit_code, result.state.reason) == (errors.FAILED, "rolled_back")
        assert (folder / "a").read_text() == "old\n"
        assert result.state.tasks[result.state.index["book"]].status == "rolled_back"

    def test_what_was_not_there_is_gone_again(self, project: Path) -> None:
        folder = project / "p"
        result = run(write(folder, book(amount="{{ 'x' }}"), BAD, on_failure="rollback"))
        assert result.state.reason == "rolled_back"
        assert not (folder / "a").exists()

    def test_what_was_noted_is_never_rendered_again(self, project: Path) -> None:
        folder = project / "p"
        path = write(folder, book(), BAD, on_failure="rollback")
        (folder / "a").write_text("{{ params.nothing }}\n")
        assert run(path).state.reason == "rolled_back"
        assert (folder / "a").read_text() == "{{ params.nothing }}\n"

    def test_a_person_rolls_back_a_run_that_went_well(self, project: Path) -> None:
        folder = project / "p"
        path = write(folder, book(), book("again", "7", needs=["book"]))
        assert run(path).exit_code == errors.OK
        assert (folder / "a").read_text() == "5\n7\n"
        request = RollbackRequest("last")
        assert roll_back(request, str(folder / ".planrunner"), Silent()).state.reason == "rolled_back"
        assert not (folder / "a").exists()

    def test_the_plans_own_rollback_takes_its_place(self, project: Path) -> None:
        folder = project / "p"
        own = book(rollback={"run": "echo own >> a"})
        result = run(write(folder, own, BAD, on_failure="rollback"))
        assert result.state.reason == "rolled_back"
        assert (folder / "a").read_text() == "5\nown\n"
        assert not any(isinstance(entry.event, BackupMade) for entry in last(folder)[1])

    def test_attempts_that_failed_are_taken_back_to_the_state_before_the_first(self, project: Path) -> None:
        folder = project / "p"
        twice = book(
            expect=["attempt > 2"], retry={"attempts": 2, "delay": "1ms", "on": ["logic"]}, effect="idempotent"
        )
        result = run(write(folder, twice, on_failure="rollback"))
        assert result.state.tasks[0].attempts == 2
        assert result.state.reason == "rolled_back"
        assert not (folder / "a").exists()

    def test_what_a_step_rests_on_that_was_not_taken_back_is_left_and_the_rest_is_not(self, project: Path) -> None:
        folder = project / "p"
        plugin = project / "site-packages" / "ledger_plugin.py"
        refuse = 'if before["account"] == "c": raise Failure("somebody has booked since")\n        path = os.path'
        text = plugin.read_text()
        head, _, undo = text.partition("def _undo")
        plugin.write_text(head + "def _undo" + undo.replace("path = os.path", refuse.replace("        ", "    "), 1))
        path = write(
            folder,
            book("base", account="a"),
            book("other", account="b", needs=["base"]),
            book("top", account="c", needs=["base"]),
            {**BAD, "needs": ["top", "other"]},
            on_failure="rollback",
        )
        result = run(path)
        assert result.state.reason == "rollback_failed"
        assert sorted(each for each in os.listdir(folder) if len(each) == 1) == ["a", "c"]
        left = next(owed for owed in result.state.compensation_log.steps if owed.fate == "left")
        assert left.detail == "not tried: `top` rests on it and was not taken back"


class TestNoting:
    def test_a_task_whose_state_before_cannot_be_noted_does_not_start(self, project: Path) -> None:
        folder = project / "p"
        result = run(write(folder, book(account="locked")))
        found = result.state.tasks[0]
        assert (found.status, found.failure, found.attempts) == ("failed", "logic", 0)
        assert "the account is locked" in found.detail
        assert not (folder / "locked").exists()

    def test_a_fault_that_may_pass_is_tried_again_as_the_task_would_be(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(project)
        retried = book(account="busy", retry={"attempts": 2, "delay": "1ms", "on": ["transient"]})
        assert run(write(project / "p", retried)).exit_code == errors.OK
        (project / "tried").unlink()
        once = run(write(project / "q", book(account="busy")))
        assert (once.state.tasks[0].failure, once.state.tasks[0].attempts) == ("transient", 0)

    def test_a_run_that_is_stopped_while_noting_notes_again_when_it_goes_on(self, project: Path) -> None:
        folder = project / "p"
        path = write(folder, book(account="slow"))

        def interrupt() -> None:
            while not os.path.exists("noting"):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        def interrupted() -> int:
            os.chdir(folder)
            threading.Thread(target=interrupt, daemon=True).start()
            return int(run(path).exit_code)

        assert in_child(interrupted) == 130
        state, _ = last(folder)
        assert (state.status, state.tasks[0].status, state.tasks[0].attempts) == ("paused", "pending", 0)
        assert "slow" not in os.listdir(folder)


class TestKilled:
    def test_at_every_write_of_the_journal_the_state_before_comes_back(self, project: Path) -> None:
        def plan(folder: Path) -> Path:
            tasks = book(effect="idempotent"), book("more", "7", needs=["book"], on_doubt="rollback")
            path = write(folder, *tasks, {**BAD, "needs": ["more"]}, on_failure="rollback")
            (folder / "a").write_text("old\n")
            return path

        whole = project / "whole"
        path, counts = plan(whole), whole / "writes"

        def counted(write: int, stored: bool, path: Path) -> int:
            die_at(write, stored=stored, told=lambda n, _: counts.write_text(str(n)) and None, of=["append"])
            return int(run(path).exit_code)

        assert in_child(lambda: counted(0, False, path)) == errors.FAILED
        assert (whole / "a").read_text() == "old\n"
        writes = int(counts.read_text())
        assert writes >= 8
        for write_ in range(1, writes + 1):
            for stored in (False, True) if EVERY else (write_ % 2 == 0,):
                folder = project / f"k{write_}{stored}"
                path = plan(folder)
                assert in_child(partial(counted, write_, stored, path)) == -signal.SIGKILL
                for _ in range(4):
                    if last(folder)[0].ended_at is not None:
                        break
                    in_child(partial(go_on, folder))
                assert last(folder)[0].reason == "rolled_back", (write_, stored)
                assert (folder / "a").read_text() == "old\n", (write_, stored)


class TestIrreversible:
    def test_what_a_plan_calls_irreversible_is_neither_noted_nor_taken_back(self, project: Path) -> None:
        folder = project / "p"
        result = run(write(folder, book(irreversible=True), BAD, on_failure="rollback"))
        assert (folder / "a").read_text() == "5\n"
        assert not any(isinstance(entry.event, BackupMade) for entry in last(folder)[1])
        assert result.state.tasks[result.state.index["book"]].status == "completed"


def test_a_step_that_had_nothing_to_take_back_says_so(project: Path) -> None:
    from planrunner.views.rollback import rollback_lines
    from planrunner.views.terminal import Terminal

    plugin = project / "site-packages" / "ledger_plugin.py"
    plugin.write_text(plugin.read_text().replace('return {"seen"', 'return {"changed": False, "seen"'))
    result = run(write(project / "p", book(), BAD, on_failure="rollback"))
    assert "there was nothing to take back" in "\n".join(rollback_lines(Terminal(io.StringIO()), result.state))
