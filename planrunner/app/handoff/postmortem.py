"""A run looked back on: its cause, factors, detection gaps and actions, read out of journal and plan.

Nothing is guessed. A cause is a task that failed by itself; a factor is an event; a gap is a check that the plan does
not have; an action follows from one of these. What else people know they add themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import zip_longest
from typing import Any

from planrunner.app.handoff.factors import factors, of_kind
from planrunner.app.history.compare import Recorded, comparison, recorded
from planrunner.journal.records import RunRow
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_state
from planrunner.machine.compensation import is_undoable, outstanding
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    Entry,
    GateDecided,
    RetryScheduled,
    RunEnded,
    StopRequested,
    TaskSettled,
)
from planrunner.machine.names import label, labelled, owners
from planrunner.machine.questions import waiting_gates
from planrunner.machine.state import State
from planrunner.plan.expressions.quantities import duration_text
from planrunner.plan.model import Task
from planrunner.records import Struct
from planrunner.source import Source
from planrunner.statuses import status_verb
from planrunner.views.compare import RunComparison, change_text
from planrunner.views.compare import sentence as sentence_of
from planrunner.views.failure import failure_facts, troubled
from planrunner.views.page.story import sentence
from planrunner.views.postmortem import Action, Cause, Fact, Moment, Postmortem
from planrunner.views.status import attempt_text, has_failed, is_resting, listed
from planrunner.views.terminal import plural, word

Json = Any

_ACTING = frozenset({"unsafe", "checkable"})
"""Effects that a second look cannot take back."""
LOOKED_AT = 500
"""Runs of the journal, the newest ones, among which an earlier one is looked for."""
TIMELINE = 400
"""Moments of the timeline; of a longer run those that are uneventful are left out."""


class Before(Struct):
    """The last run of the same plan that completed, and how this run differs from it."""

    run_id: str
    comparison: RunComparison


def postmortem(run: Recorded, source: Source | None = None, before: Before | None = None) -> Postmortem:
    """A run looked back on. ``source`` is the text of its plan, for places in it; ``before`` the last run of the plan
    that completed, where there is one."""
    state, entries = run.state, run.entries
    numbers = troubled(state)
    causes = tuple(_cause(state, entries, number, source) for number in numbers)
    gaps = tuple(_gaps(state, entries, numbers))
    return Postmortem(
        state.run_id,
        state.plan.id,
        _outcome(state, entries),
        isinstance(entries[-1].event, RunEnded),
        tuple(_timeline(state, entries)),
        causes,
        (*factors(state, entries), *_since(before, causes)),
        gaps,
        tuple(_actions(state, numbers, gaps)),
        tuple(_open(causes, state)),
    )


def _outcome(state: State, entries: Sequence[Entry]) -> str:
    took = duration_text(max(0.0, entries[-1].at - state.begun_at))
    by = f" by {state.stop_by}: {state.stop_comment}" if state.status == "cancelled" and state.stop_by else ""
    reason = f" ({state.reason})" if state.reason and state.reason not in (state.status, "cancelled") else ""
    counted = len(troubled(state))
    failed = f"; {plural(counted, 'task')} failed" if counted else ""
    again = f", revision {state.revision} of the plan" if state.revision > 1 else ""
    how = f"{status_verb(state.status)}{reason}{by.rstrip(': ')} after {took}{again}{failed}"
    return f"Run {state.run_id} of `{state.plan.id}` {how}."


def last_completed(run: Recorded, row: RunRow, state: str | None) -> Before | None:
    """The last run of the plan that completed before this one began, compared with it; None where there is none among
    the last ``LOOKED_AT`` runs."""
    with closing(open_journal(find_state(None, state), readonly=True)) as journal:
        for other in journal.runs(LOOKED_AT):
            fits = other.plan_id == row.plan_id and other.run != row.run and other.status == "completed"
            if fits and other.created < row.created:
                return Before(other.run, comparison(recorded(other.run, state), run))
    return None


# Timeline


def _timeline(state: State, entries: Sequence[Entry]) -> Iterator[Moment]:
    """What happened, each once: the end of a task says again what that of its last attempt said."""
    start = entries[0].at
    moments = [
        Moment(entry.seq, entry.at, max(0.0, entry.at - start), text)
        for entry in entries
        if (text := sentence(state, entry.event, entry.at)[0])
    ]
    moments = [one for one, after in zip_longest(moments, moments[1:]) if after is None or one.text != after.text]
    if len(moments) <= TIMELINE:
        yield from moments
        return
    dull = {e.seq for e in entries if isinstance(e.event, (AttemptStarted, AttemptEnded, TaskSettled)) and _is_well(e)}
    kept = [moment for moment in moments if moment.seq not in dull]
    half = TIMELINE // 2
    yield from kept if len(kept) <= TIMELINE else (*kept[:half], *kept[-half:])


def _is_well(entry: Entry) -> bool:
    event = entry.event
    if isinstance(event, AttemptEnded):
        return not event.outcome.failure
    return not isinstance(event, TaskSettled) or event.status == "completed"


# Causes


def _cause(state: State, entries: Sequence[Entry], number: int, source: Source | None) -> Cause:
    name = state.specs[number].id
    events = [
        e.seq for e in entries if isinstance(e.event, (AttemptEnded, TaskSettled, GateDecided)) and e.event.task == name
    ]
    facts = [(key, text) for key, text in failure_facts(state, number, source) if text]
    same = _alike(entries, name)
    if same:
        facts.append(("attempts", same))
    return Cause(label(state, number), _sentence(state, number), tuple(facts), tuple(events[-4:]))


def _sentence(state: State, number: int) -> str:
    task_state = state.tasks[number]
    verb = "failed" if has_failed(task_state) else status_verb(task_state.status)
    kind = f" ({task_state.failure})" if task_state.failure else ""
    attempt = attempt_text(state.specs[number], task_state.attempts, task_state.past)
    detail = labelled(state, task_state.detail) or task_state.reason.replace("_", " ")
    return (
        f"`{label(state, number)}` {verb}{kind}{f' in {attempt}' if attempt else ''}{f': {detail}' if detail else ''}."
    )


def _alike(entries: Sequence[Entry], task: str) -> str:
    """Whether the failed attempts of a task ended the same way; empty for fewer than two."""
    ends = [event.outcome for _, event in of_kind(entries, AttemptEnded) if event.task == task]
    failed = [end for end in ends if end.failure]
    if len(failed) < 2:
        return ""
    ways = {(end.failure, end.message, end.exit_code, end.stdout, end.stderr) for end in failed}
    if len(ways) == 1:
        which = "both" if len(failed) == 2 else f"all {len(failed)}"
        return f"{which} failed attempts ended the same way and printed the same lines"
    return f"the {len(failed)} failed attempts ended in {len(ways)} different ways"


def _since(before: Before | None, causes: Sequence[Cause]) -> Iterator[Fact]:
    """What is not as it was when the plan completed last."""
    if before is None or not causes:
        return
    made = before.comparison
    differing = ", ".join(_differing(made)) or "nothing; the difference comes from outside the plan"
    lines = [f"parameter `{each.name}`: {change_text(each)}" for each in made.params[:8]]
    lines += [f"plan: {each.what} {each.change}" for each in made.plan[:8]]
    lines += [f"{each.name}: {change_text(each)}" for each in made.versions[:8]]
    if made.first is not None:
        lines.append(f"the first task that differs: {sentence_of(made.first)}")
        lines += made.first.because
    text = f"The last run of this plan that completed is {before.run_id}. What went in differs in: {differing}."
    yield Fact(text, more=tuple(lines))


def _differing(made: RunComparison) -> Iterator[str]:
    if made.plan:
        yield f"the plan ({plural(len(made.plan), 'difference')})"
    if made.params:
        yield plural(len(made.params), "parameter")
    if made.versions:
        yield f"{plural(len(made.versions), 'fact')} of its surroundings"


# Detection gaps


def _gaps(state: State, entries: Sequence[Entry], numbers: Sequence[int]) -> Iterator[Fact]:
    for number in numbers[:10]:
        yield from _delay(state, entries, number)
        yield from _unforeseen(state, number)
    unchecked = [at for at in _ancestors(state, numbers) if _is_unchecked(state, at)]
    if unchecked:
        names = listed([f"`{label(state, at)}`" for at in unchecked])
        settled = _about(entries, TaskSettled, {state.specs[at].id for at in unchecked})
        yield Fact(
            f"{names} came before the failure and completed without a criterion: exit code 0 was enough.", settled
        )
    yield from _passed_gates(state, entries, numbers)
    if state.status == "cancelled" and state.stop_by:
        stop = tuple(seq for seq, event in of_kind(entries, StopRequested) if event.by == state.stop_by)
        yield Fact(f"{state.stop_by} stopped the run; no criterion, timeout or watchdog of the plan did.", stop)


def _delay(state: State, entries: Sequence[Entry], number: int) -> Iterator[Fact]:
    """How long it took from the first sign to the failure."""
    name = state.specs[number].id
    signs = [
        e for e in entries if isinstance(e.event, AttemptEnded) and e.event.task == name and e.event.outcome.failure
    ]
    ends = [e for e in entries if isinstance(e.event, TaskSettled) and e.event.task == name]
    waits = _about(entries, RetryScheduled, {name})
    if len(signs) > 1 and ends and (late := ends[-1].at - signs[0].at) >= 1:
        yield Fact(
            f"The first failed attempt of `{label(state, number)}` ended {duration_text(late)} before the task counted "
            f"as failed: {plural(len(waits), 'further attempt')} came between.",
            (signs[0].seq, *waits, ends[-1].seq),
        )


def _unforeseen(state: State, number: int) -> Iterator[Fact]:
    task, failure = state.specs[number], state.tasks[number].failure
    if task.gate is not None or not failure:
        return
    handled = any(route.edge.on in ("failure", "always") for route in state.shape.routes_out.get(number, ()))
    if not handled and all(mode.name != failure for mode in task.failure_modes):
        yield Fact(
            f"The plan foresees no failure of `{label(state, number)}` of the class `{failure}`: no failure mode "
            "names it and no edge leads on from a failure."
        )


def _ancestors(state: State, numbers: Sequence[int]) -> list[int]:
    """What came before the failures by needs and edges, inside the tasks around them too."""
    seen: set[int] = set()
    todo = [at for number in numbers for at in (number, *owners(state, number))]
    while todo:
        at = todo.pop()
        sources = (*state.shape.needs[at], *(route.source for route in state.shape.routes_in.get(at, ())))
        fresh = {source for source in sources if source not in seen}
        seen |= fresh
        todo += fresh
    return sorted(seen - set(numbers))


def _is_unchecked(state: State, number: int) -> bool:
    """Whether a task acted and nothing but the end of its program says that it did well."""
    task = state.specs[number]
    checked = task.expect or task.postconditions or task.outputs or task.gate is not None
    return (
        state.tasks[number].status == "completed"
        and number not in state.containers
        and not checked
        and bool(task.run)
        and state.trait(task).effect in _ACTING
    )


def _passed_gates(state: State, entries: Sequence[Entry], numbers: Sequence[int]) -> Iterator[Fact]:
    """Gates before the failure that people let through without evidence."""
    bare = [
        at
        for at in _ancestors(state, numbers)
        if (gate := state.tasks[at].gate) is not None and gate.decision == "approved" and not gate.evidence
    ]
    if bare:
        names = listed([f"`{label(state, at)}`" for at in bare])
        decided = _about(entries, GateDecided, {state.specs[at].id for at in bare})
        yield Fact(f"{names} was approved without evidence.", decided)


def _about(
    entries: Sequence[Entry], kind: type[TaskSettled | GateDecided | RetryScheduled], names: set[str]
) -> tuple[int, ...]:
    """The entries with events of a kind about these tasks."""
    return tuple(seq for seq, event in of_kind(entries, kind) if event.task in names)


# Actions


def _actions(state: State, numbers: Sequence[int], gaps: Sequence[Fact]) -> Iterator[Action]:
    run = state.run_id
    for number in numbers:
        if state.tasks[number].status == "in_doubt":
            name = label(state, number)
            command = f"planrunner resume {run} --settle {word(name)}=retry"
            yield Action(f"Say what became of `{name}`.", command, "its attempt was cut off and its effect is unknown")
    yield from _undoing(state)
    for at in waiting_gates(state):
        name = label(state, at)
        yield Action(f"Decide the gate `{name}`.", f"planrunner gates {run}", "the run waits for it")
    failed = [number for number in numbers if has_failed(state.tasks[number])]
    for number in failed[:5]:
        yield from _mending(state, number)
    if failed:
        yield Action(
            "Continue the run once the cause is removed.", f"planrunner retry {run}", "finished work is reused"
        )
    elif is_resting(state) and state.ended_at is None:
        yield Action("Continue the run.", f"planrunner resume {run}", f"it is {state.status}")
    for gap in gaps:
        if "without a criterion" in gap.text:
            yield Action(
                "Give these tasks a criterion (`expect`) that tells a good result from a bad one.", "", gap.text
            )
        elif "foresees no failure" in gap.text:
            yield Action("Name the failure in the plan (`failure_modes`, or an edge `on: failure`).", "", gap.text)
        elif "without evidence" in gap.text:
            yield Action("Show evidence at the gate (`evidence`).", "", gap.text)


def _mending(state: State, number: int) -> Iterator[Action]:
    name = label(state, number)
    for key, text in failure_facts(state, number):
        if key == "advice" and text:
            yield Action(f"{text.rstrip('.')}.", "", f"the plan advises it for this failure of `{name}`")
        if key == "refused" and text:
            yield Action(f"Allow what `{name}` needs, or change the task.", "", text.splitlines()[0])
    command = f"planrunner logs {state.run_id} {word(name)}"
    yield Action(f"Remove the cause of the failure of `{name}`.", command, state.tasks[number].detail)


def _undoing(state: State) -> Iterator[Action]:
    """What a failed run has done and not undone."""
    if state.status not in ("failed", "cancelled") or state.compensation_log is None:
        return
    owed = {state.compensation_log.steps[at].number for at in outstanding(state)}
    if owed:
        names = listed([f"`{label(state, at)}`" for at in sorted(owed)])
        command = f"planrunner rollback {state.run_id}"
        yield Action(f"Decide whether to undo {names}.", command, "they acted and declare how they are undone")
    bare = [at for at in range(len(state.tasks)) if _acted_bare(state, at)]
    if bare:
        names = listed([f"`{label(state, at)}`" for at in bare])
        yield Action(f"Look at what {names} left behind.", "", "they acted and declare no rollback")


def _acted_bare(state: State, number: int) -> bool:
    task: Task = state.specs[number]
    return (
        state.tasks[number].status == "completed"
        and number not in state.containers
        and bool(task.run or task.uses)
        and state.trait(task).effect in _ACTING
        and not is_undoable(state, number)
    )


def _open(causes: Sequence[Cause], state: State) -> Iterator[str]:
    for cause in causes[:5]:
        yield f"Root cause behind the failure of `{cause.task}`:"
    if causes or state.status == "cancelled":
        yield "Who and what was affected, and for how long:"
        yield "How it was noticed, and what would have shown it earlier:"
    yield "What went well, and what was luck:"
