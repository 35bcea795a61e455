"""Hundreds of runs asked for through the API while the service is killed again and again: each runs once, in order, to
its end."""

from __future__ import annotations

import random
import threading
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path

import pytest
from serving import PATIENCE, Served, awaited, serving

from planrunner.app.history.show import look
from planrunner.app.queue import asking
from planrunner.caller import Principal, Workspace, acting
from planrunner.errors import NotFound
from planrunner.journal.stores import open_journal
from planrunner.machine.events import RunStarted

PLAN = """
plan: note
params: {n: {type: int}}
tasks:
  - id: begin
    uses: noop
  - id: end
    needs: [begin]
    uses: noop
"""
COUNT = 500
LIVES = COUNT // 40
"""Services that are killed; the next one finishes."""


class Client(threading.Thread):
    """Asks for runs, one after the other, until all are taken or the service is gone. An answer that got lost is asked
    for again, with the same key."""

    def __init__(self, service: Served, runs: list[str], most: int) -> None:
        super().__init__()
        self._service, self._runs, self._most = service, runs, most
        self.start()

    def run(self) -> None:
        with suppress(OSError, HTTPException):
            while len(self._runs) < self._most:
                number = len(self._runs)
                body = {"plan": "note.yaml", "params": {"n": number}}
                answer = self._service.post(f"{self._service.api}/runs", body, Idempotency_Key=f"run-{number}")
                assert answer.status == 202, answer
                self._runs.append(answer.data["run_id"])


def begun(state: str) -> int:
    try:
        with closing(open_journal(state, readonly=True)) as journal:
            return len(journal.runs(COUNT * 2))
    except NotFound:
        return 0


@pytest.mark.limit(900)
def test_hundreds_of_runs_outlive_a_service_that_is_killed_again_and_again(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "planrunner.yaml").write_text("scheduler: {max_concurrency: 1}\n")
    (root / "note.yaml").write_text(PLAN)
    state, chance, runs = str(root / ".planrunner"), random.Random(5), []
    with acting(Principal("ana"), Workspace(str(root), state)):
        for life in range(LIVES):
            before, more = begun(state), chance.randint(1, 50)
            with serving(root) as service:
                client = Client(service, runs, COUNT * (life + 1) // LIVES)
                while begun(state) < before + more and (client.is_alive() or begun(state) < len(runs)):
                    _no_lie(state)
                service.process.kill()
                client.join(PATIENCE)
            assert not asking.items(("running",))
        with serving(root) as service:
            Client(service, runs, COUNT).join(PATIENCE)
            while not _are_done():
                seen = begun(state)
                awaited(partial(_goes_on, state, seen))
    looks = [look(run, state) for run in runs]
    assert len(set(runs)) == COUNT == begun(state)
    assert {found.row.status for found in looks} == {"completed"}
    assert all(sum(isinstance(entry.event, RunStarted) for entry in found.entries) == 1 for found in looks)
    times = [found.row.created for found in looks]
    assert times == sorted(times)


def _are_done() -> bool:
    return asking.overview().counts == {"completed": COUNT}


def _goes_on(state: str, seen: int) -> bool:
    return begun(state) > seen or _are_done()


def _no_lie(state: str) -> None:
    """What is said to run is run: whoever looks at its lease afterwards finds it held, or more written since."""
    for item in asking.items(("running",), 5):
        with closing(open_journal(state, readonly=True)) as journal:
            assert (
                journal.is_leased(item.run) or asking.item(item.run).status != "running" or journal.is_leased(item.run)
            )
