"""What contributed to how a run went: interruptions, waits, tolerated failures, revisions and whatever was allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from planrunner.machine.events import (
    LOST,
    AttemptEnded,
    BudgetWarned,
    DoubtSettled,
    Entry,
    Event,
    FailureResolved,
    GateDecided,
    GateOpened,
    PolicyChanged,
    RetryScheduled,
    RunEnded,
    RunForked,
    RunParked,
    RunReopened,
    RunResumed,
    RunRevised,
    RunStarted,
    TaskDelayed,
    TaskSettled,
    Warned,
)
from planrunner.machine.names import label, owners, replaced_tasks, stands
from planrunner.machine.state import State
from planrunner.plan.expressions.quantities import duration_text
from planrunner.views.decisions import decisions
from planrunner.views.postmortem import Fact
from planrunner.views.status import amount_text, listed
from planrunner.views.terminal import plural

Json = Any

Kind = TypeVar("Kind", bound=Event)

LONG = 60.0
"""Seconds from which on a wait is told."""


def factors(state: State, entries: Sequence[Entry]) -> tuple[Fact, ...]:
    """The factors: how the run was started, what changed meanwhile, what failed and was let pass, what had to wait."""
    parts = (_allowed, _interruptions, _revisions, _tolerated, _mended, _retries, _refused, _budgets, _warned, _waits)
    return tuple(fact for part in parts for fact in part(state, entries))


def of_kind(entries: Sequence[Entry], kind: type[Kind]) -> Iterator[tuple[int, Kind]]:
    """The events of a kind with the numbers of their entries."""
    return ((entry.seq, entry.event) for entry in entries if isinstance(entry.event, kind))


def _name(state: State, task: str) -> str:
    number = state.index.get(task)
    return task if number is None else label(state, number)


def _allowed(state: State, entries: Sequence[Entry]) -> Iterator[Fact]:
    for decision in decisions(entries):
        if decision.kind in ("trust", "sandbox", "policy"):
            yield Fact(f"{decision.by or 'A person'} {decision.said}.", (decision.seq,))
    first = entries[0].event
    if isinstance(first, RunStarted) and first.environment.get("forced"):
        yield Fact("The run was started although the check before its start had objections.", (entries[0].seq,))


def _interruptions(state: State, entries: Sequence[Entry]) -> Iterator[Fact]:
    """Processes that ended without pausing the run first."""
    acting = 0  # the last entry of the process that acts on the run, 0 while none does
    for entry in entries:
        event = entry.event
        if isinstance(event, RunResumed) and acting:
            idle = f"; {duration_text(event.idle)} passed until the next one" if event.idle >= 1 else ""
            yield Fact(f"The process that acted on the run ended without pausing it{idle}.", (acting, entry.seq))
        if isinstance(event, (RunParked, RunEnded, RunForked, RunReopened, RunRevised)):
            acting = 0
        elif acting or isinstance(event, (RunStarted, RunResumed)):
            acting = entry.seq
    for seq, event in of_kind(entries, DoubtSettled):
        by = f" by {event.by}" if event.by else " by rule"
        text = f"An attempt of `{_name(state, event.task)}` had an unknown end; it was settled{by}: {event.resolution}."
        yield Fact(text, (seq,))


def _revisions(state: State, entries: Sequence[Entry]) -> Iterator[Fact]:
    for entry in entries:
        event = entry.event
        if isinstance(event, RunRevised):
            because = f": {event.reason}" if event.reason else ""
            yield Fact(
                f"{event.by or 'A person'} changed the plan meanwhile (revision {event.number}){because}.", (entry.seq,)
            )
        elif isinstance(event, PolicyChanged) and event.reason == "changed":
            yield Fact("The operator's policy changed while the run was going on.", (entry.seq,))


def _tolerated(state: State, entries: Sequence[Entry]) -> Iterator[Fact]:
    failed = {
        task.id: number
        for number, task in enumerate(state.specs)
        if state.tasks[number].status == "failed"
        and state.tasks[number].dependency_outcome in ("tolerated", "completed")
    }
    if failed:
        ends = tuple(seq for seq, event in of_kind(entries, TaskSettled) if event.task in failed)
        names = listed([f"`{label(state, number)}`" for number in failed.values()])
        yield Fact(f"{names} failed, and the run was allowed to go on without.", ends)
    for seq, event in of_kind(entries, FailureResolved):
        if event.recovered_by:
            text = f"`{_name(state, event.task)}` failed and `{_name(state, event.recovered_by)}` stood in for it."
            yield Fact(text, (seq,))


def _mended(state: State, entries: Sequence[Entry]) -> Iterator[Fact]:
    """Tasks that had failed, and whose failure was made up for later."""
    failed: dict[str, list[int]] = {}
    for seq, event in of_kind(entries, TaskSettled):
        number = state.index.get(event.task)
        if event.status == "failed" and number is not None and number not in state.containers:
            failed.setdefault(event.task, []).append(seq)
    replaced = replaced_tasks(state) if failed else set()
    for task, seqs in failed.items():
        number = state.index[task]
        task_state = state.tasks[number]
        if task_state.status == task_state.dependency_outcome == "completed":
            yield Fact(f"`{label(state, number)}` had failed, and completed when it ran again.", tuple(seqs))
        elif not stands(state, number):
            yield Fact(f"`{label(state, number)}` {_overtaken(state, number, replaced)}", tuple(seqs))


def _overtaken(state: State, number: int, replaced: set[int]) -> str:
    """Why a failure inside a container no longer matters."""
    around = owners(state, number)
    well = [at for at in around if state.tasks[at].dependency_outcome in ("completed", "tolerated")]
    if number in replaced or not well:
        return "had failed; a later attempt replaced it."
    return f"failed, and `{label(state, well[-1])}` completed all the same."


def _retries(state: State, entries: Sequence[Entry]) -> Iterator[Fact]:
    """Attempts that failed before the task completed: signs that something is unsteady."""
    by_task: dict[str, list[int]] = {}
    for seq, event in of_kind(entries, RetryScheduled):
        by_task.setdefault(event.task, []).append(seq)
    for task, seqs in by_task.items():
        number = state.index.get(task)
        if number is not None and state.tasks[number].status == "completed":
            text = f"`{label(state, number)}` completed only after {plural(len(seqs), 'failed attempt')}."
            yield Fact(text, tuple(seqs))


def _refused(state: State, entries: Sequence[Entry]) -> Iterator[Fact]:
    for seq, event in of_kind(entries, AttemptEnded):
        name, refused = f"`{_name(state, event.task)}`", event.outcome.refused
        rows = [f"{row['what'] or 'others'} ({row['rule']})" for row in refused if row["rule"] != LOST]
        if rows:
            yield Fact(f"The sandbox refused to {name}: {listed(rows)}.", (seq,))
        for row in refused:
            if row["rule"] == LOST:
                yield Fact(f"{name} lost {plural(row['count'], 'file')} with its sandbox: {row['what']}.", (seq,))


def _budgets(state: State, entries: Sequence[Entry]) -> Iterator[Fact]:
    for seq, event in of_kind(entries, BudgetWarned):
        of = f" of `{_name(state, event.scope)}`" if event.scope else ""
        used = f"{amount_text(event.what, event.spent)} of {amount_text(event.what, event.limit)}"
        words = "crossed its warning" if event.reason == "threshold" else "was exceeded by one attempt"
        yield Fact(f"The {event.what} budget{of} {words}: {used}.", (seq,))


def _warned(state: State, entries: Sequence[Entry]) -> Iterator[Fact]:
    for entry in entries:
        event = entry.event
        if isinstance(event, Warned):
            text = f"`{_name(state, event.task)}` still ran after {duration_text(event.after)}; its watchdog said so."
            yield Fact(text, (entry.seq,))
        elif isinstance(event, TaskDelayed) and event.breaker:
            text = f"`{_name(state, event.task)}` was held back: the circuit breaker of `{event.breaker}` was open."
            yield Fact(text, (entry.seq,))


def _waits(state: State, entries: Sequence[Entry]) -> Iterator[Fact]:
    """Gates that people took long to decide."""
    opened: dict[tuple[str, int], Entry] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, GateOpened):
            opened.setdefault((event.task, event.visit), entry)
        elif isinstance(event, GateDecided) and (asked := opened.get((event.task, event.visit))) is not None:
            waited = entry.at - asked.at
            if waited >= LONG:
                text = f"`{_name(state, event.task)}` waited {duration_text(waited)} for people."
                yield Fact(text, (asked.seq, entry.seq))
