"""One run as lists and the inbox show it, made of its state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from planrunner.app.runs.doubts import rest
from planrunner.frozen import EMPTY
from planrunner.journal.records import Head
from planrunner.machine.budgets import read_ledger
from planrunner.machine.graph import Frame
from planrunner.machine.ledger import PLAN, amount
from planrunner.machine.questions import Question, questions
from planrunner.machine.state import State
from planrunner.records import Struct
from planrunner.views.runs import RunSummary, listed_object, rfc3339
from planrunner.views.status import has_failed, is_dry, shown_counts, shown_status, waiting

Json = Any

CELLS = 42
"""Cells of a track at most; a plan with more tasks has one segment for each status."""


class Cell(Struct):
    """A cell of a track: the status of a task (``gate`` where it waits for people), or of ``tasks`` of them."""

    status: str
    tasks: int = 1
    name: str = ""
    """The path of the task; empty for a segment of several."""


class Spent(NamedTuple):
    """What the attempts of a run have used: dollars, tokens, calls of models, and how many attempts there were."""

    cost: float = 0.0
    tokens: int = 0
    calls: int = 0
    attempts: int = 0


class Summary(RunSummary):
    """A run as lists show it, up to its entry ``last_seq``. Times are seconds since 1970.

    ``status`` is ``running`` only while a process has the lease of the run; ``reason`` is as in ``show``. ``counts``
    are its tasks by status, ``track`` their cells in the order of the plan. ``waits`` names the tasks that wait for a
    person or an answer. ``questions`` are what it asks people. ``decided`` says by task what people have
    decided and a resume continues. ``failed`` is the task that failed first, with the reason. ``due``
    is when the next timer of the run is due.
    ``problem`` says why the record of the run cannot be read; little else is known then.
    """

    number: int
    last_seq: int
    leased: bool = False
    title: str = ""
    plan_file: str = ""
    started_by: str = ""
    revision_number: int = 1
    dry: bool = False
    counts: dict[str, int] = EMPTY
    tasks: int = 0
    track: tuple[Cell, ...] = ()
    waits: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    decided: tuple[tuple[str, str], ...] = ()
    failed: tuple[str, str] = ("", "")
    detail: str = ""
    due: float | None = None
    spent: Spent = Spent()
    problem: str = ""


def from_row(head: Head, leased: bool, problem: str = "") -> Summary:
    """What the row of a run tells without its entries."""
    status = "running" if leased else head.status or "paused"
    return Summary(
        *(head.run, head.plan_id, head.plan_digest, status, "", head.created, head.ended),
        *(head.number, head.last_seq, leased),
        problem=problem,
    )


def summary_object(summary: Summary) -> dict[str, Json]:
    """A run of a list as data: what ``runs --json`` says of it, and what lists show beside."""
    return {
        **listed_object(summary),
        "title": summary.title,
        "plan_file": summary.plan_file or None,
        "started_by": summary.started_by,
        "revision_number": summary.revision_number,
        "last_seq": summary.last_seq,
        **({"dry_run": True} if summary.dry else {}),
        "tasks": summary.counts,
        "waiting": list(summary.waits),
        "gates": len(summary.questions),
        "decided": dict(summary.decided),
        "failed": {"task": summary.failed[0], "detail": summary.failed[1]} if summary.failed[0] else None,
        "due": rfc3339(summary.due),
        "spent": summary.spent._asdict(),
        **({"problem": summary.problem} if summary.problem else {}),
    }


def summarised(state: State, head: Head, leased: bool) -> Summary:
    """A run by its state, which stays as it is. ``head`` is where the state ends."""
    if leased:
        return _summary(state, head, True, {})
    with _resting(state) as decided:
        return _summary(state, head, False, decided)


def _summary(state: State, head: Head, leased: bool, decided: dict[int, str]) -> Summary:
    counts = {status: count for status, count in shown_counts(state).items() if count}
    environment, failed = state.environment, first_failure(state)
    return Summary(
        *(head.run, state.plan.id, state.plan_digest or head.plan_digest),
        number=head.number,
        status="running" if leased else state.status,
        reason=state.reason,
        created=head.created,
        ended=head.ended,
        last_seq=head.last_seq,
        leased=leased,
        title=state.plan.title,
        plan_file=str(environment.get("plan") or ""),
        started_by=str(environment.get("user") or ""),
        revision_number=state.revision,
        dry=is_dry(state),
        counts=counts,
        tasks=sum(counts.values()),
        track=_track(state, counts),
        waits=tuple(waiting(state)),
        questions=tuple(questions(state, state.now)),
        decided=tuple((state.specs[number].id, words) for number, words in decided.items()),
        failed=("", "") if failed is None else (state.specs[failed].id, state.tasks[failed].detail),
        detail=state.detail,
        due=state.wheel.entries[0][0] if state.wheel.entries else None,
        spent=_spent(state),
    )


def _spent(state: State) -> Spent:
    used = read_ledger(state).read(PLAN).spent
    cost = float(amount("cost", used.get("cost", 0)))
    return Spent(cost, used.get("tokens", 0), used.get("calls", 0), sum(task.attempts for task in state.tasks))


@contextmanager
def _resting(state: State) -> Iterator[dict[int, str]]:
    """The state as ``rest`` gives it to a run without a lease, for as long as it is looked at: it is folded on later,
    from what the journal alone says."""
    before = state.status, state.reason
    blocked = [
        (task, task.reason, task.detail)
        for task in (state.tasks if state.counts.get("blocked") else ())
        if task.status == "blocked"
    ]
    try:
        yield rest(state)
    finally:
        state.status, state.reason = before
        for task, reason, detail in blocked:
            task.reason, task.detail = reason, detail


def first_failure(state: State) -> int | None:
    """The number of the task whose attempt failed first; those that only hold it come after it."""
    if not (state.counts.get("failed") or state.counts.get("rolled_back")):
        return None
    failures = [
        (task.inner is not None, task.ended or 0.0, number)
        for number, task in enumerate(state.tasks)
        if has_failed(task)
    ]
    return min(failures)[2] if failures else None


def _track(state: State, counts: dict[str, int]) -> tuple[Cell, ...]:
    """A cell for each task without others inside it where there is room for all, else for each task of the plan, else
    one for each status."""
    if sum(counts.values()) <= CELLS:
        return tuple(_cell(state, number) for number in _leaves(state, state.top))
    if state.top.size <= CELLS:
        return tuple(_cell(state, number) for number in range(state.top.first, state.top.first + state.top.size))
    return tuple(Cell(status, count) for status, count in counts.items())


def _leaves(state: State, frame: Frame) -> Iterator[int]:
    for number in range(frame.first, frame.first + frame.size):
        inner = state.tasks[number].inner
        if inner is not None and inner.size:
            yield from _leaves(state, inner)
        else:
            yield number


def _cell(state: State, number: int) -> Cell:
    status, gate = shown_status(state, number), state.tasks[number].gate
    return Cell(
        "gate" if status == "blocked" and gate is not None and gate.waits else status, 1, state.specs[number].id
    )
