"""Steer a run from another process: the process that holds it answers; where none does, this process answers itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from types import ModuleType
from typing import TYPE_CHECKING, Any

from planrunner.app.people.persons import PERSON_ONLY, require_person
from planrunner.app.runs.setup import keep_profile
from planrunner.caller import acting, principal, workspace
from planrunner.engine.calls import Place
from planrunner.engine.poller import TimeLine, boot
from planrunner.errors import START_ONE, Denied, Hint, NextStep, NotFound, RunHeld, UsageError
from planrunner.journal.ports import Journal
from planrunner.journal.records import Answer, Lease, Request
from planrunner.journal.stores import journal_file, open_journal
from planrunner.journal.workspace import find_state
from planrunner.later import Later
from planrunner.machine.events import Entry
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.records import Struct
from planrunner.statuses import ended
from planrunner.views.documents import document

if TYPE_CHECKING:
    from planrunner.journal.ports import JournalPort


_reply_to = Later("planrunner.engine.answers:answer")


def answer_waiting(journal: JournalPort, handle: Lease, state: State, now: float) -> None:
    """Fold and store what follows from every waiting request of a run that is held and stands still at ``now``.

    No effect starts: that is for the next runner. Raises StorageFailed, Fenced.
    """
    waiting = journal.waiting(handle.run)
    if not waiting:
        return
    if state.status == "running":  # its runner is gone, and nothing of it goes on
        state.status, state.reason = "paused", "cut off"
    entries: list[Entry] = []
    answers: list[tuple[int, Answer]] = []
    place = Place(str(state.environment.get("directory") or workspace().root), "")
    for request in waiting:
        found = _reply_to(state, request, place, now)
        for event in found.events:
            evolve(state, event, now)
            entries.append(Entry(handle.last_seq + len(entries) + 1, now, event))
        answers.append((request.id, Answer(found.applied, found.message, found.code)))
    journal.append(handle, entries, answers)


PATIENCE = 30.0
"""Seconds that the holder of a run is given to answer; it looks ten times a second."""

SILENCE = 2.0
"""Seconds after which the requester learns that the holder of the lease has not answered."""

_PAUSE = 0.02


class Steered(Struct):
    """What became of a request. ``held`` is whether a process acts on the run now, ``ended`` its status where it has
    ended (else empty); ``notices`` tell of what else was asked of it."""

    run_id: str
    answer: Answer
    held: bool
    ended: str
    notices: tuple[str, ...] = ()


def steered_document(steered: Steered) -> dict[str, Any]:
    """What became of a request."""
    answer, ended = steered.answer, steered.ended or None
    return document(
        run_id=steered.run_id, applied=answer.applied, message=answer.message, held=steered.held, ended=ended
    )


def steer(
    wanted: str,
    kind: str,
    body: dict[str, Any],
    state: str | None,
    patience: float = PATIENCE,
    tell: Callable[[str], None] | None = None,
) -> Steered:
    """Ask something of a run (``wanted`` is ``last``, an id or the start of one) and wait for the answer.

    ``kind`` and ``body`` are those of a rule in ``machine.requests``; ``tell`` is given one sentence when the answer
    does not come at once. Raises NotFound, Denied for what people alone may ask, UsageError for a run that has
    ended, RunHeld when its holder does not answer in time (the request stays, and is answered when the run goes on),
    StorageFailed.
    """
    directory = find_state(None, state)
    if not journal_file(directory):
        raise NotFound(f"there are no runs in `{directory}`", START_ONE)
    if kind in PERSON_ONLY:
        require_person(kind, directory)
    if kind == "cancel" and body.get("task"):  # which abandons one that waits for people
        body = {**body, **_bar(directory)}
    journal = open_journal(directory)
    known = len(journal.notices)
    try:
        run_id = journal.find_run(wanted)
        row = journal.run(run_id)
        if row.status and kind != "budget":
            raise UsageError(ended(f"run {run_id}", row.status), NextStep("show", run_id))
        number = journal.post(run_id, Request(kind, body, principal().name, at=time.time()))
        answer = _answer(journal, run_id, number, patience, tell)
        row = journal.run(run_id)
        return Steered(run_id, answer, row.leased, row.status, journal.notices[known:])
    finally:
        journal.close()


def _bar(directory: str) -> dict[str, str]:
    """Why the one who asks may not decide for people, where that is so: it stops a task that runs all the same."""
    try:
        require_person("vote", directory)
    except Denied as denied:
        return {"barred": denied.message}
    return {}


def _history() -> ModuleType:
    """What reads plans and states back, which a word to the process of a run does without."""
    from planrunner.app.history import state

    return state


def take_back_pause(wanted: str, state: str | None) -> Steered | None:
    """Make a run that is pausing continue in the process that holds it; None where it is not pausing. If it
    has paused meanwhile, the answer is not ``applied``. Raises as ``steer`` does."""
    with closing(open_journal(find_state(None, state), readonly=True)) as journal:
        run_id = journal.find_run(wanted)
        found = _history().stored_state(journal, run_id)
    pausing = found.status == "running" and found.stop_reason == "pause"
    return steer(run_id, "resume", {}, state) if pausing else None


def _answer(journal: Journal, run_id: str, number: int, patience: float, tell: Callable[[str], None] | None) -> Answer:
    since = time.monotonic()
    while True:
        answer = journal.answered(number)
        if answer is not None:
            return answer
        waited = time.monotonic() - since
        silent = tell is not None and waited > SILENCE
        if silent or waited > patience or not journal.is_leased(run_id):
            try:
                _answer_here(journal, run_id)
                continue
            except RunHeld as error:
                if waited > patience:
                    message = f"{error.message}, which has not answered for {patience:.0f} seconds"
                    hint = Hint("the request stays and is answered when the run goes on; ", *error.way_out.parts)
                    raise RunHeld(message, hint) from None
                if silent and tell is not None:
                    tell(
                        f"{error.message}, which has not answered for {SILENCE:.0f} seconds; the request is stored and "
                        f"is answered when the run goes on; waiting for {patience:.0f} seconds at most"
                    )
                    tell = None
        time.sleep(_PAUSE)


def _answer_here(journal: Journal, run_id: str) -> None:
    """Hold the run for a moment and answer what waits, starting nothing."""
    handle = journal.acquire(run_id)
    try:
        state = _history().begun(journal, run_id)
        line = TimeLine()
        for entry in journal.entries(run_id):
            evolve(state, entry.event, entry.at)
            line.see(entry)
        with acting(principal(), workspace()):
            keep_profile(str(state.environment.get("directory") or "."), str(state.environment.get("profile", "")))
            answer_waiting(journal, handle, state, line.clock(boot()).now())
    finally:
        journal.release(handle)
