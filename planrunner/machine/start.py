"""How a task that has not begun starts: needs, edges, its condition, preconditions, settings, gates and a slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.jsontext import shown
from planrunner.machine.admission import Admission, hook_asks
from planrunner.machine.commands import AskFacts, AskPeople, Command, Record, Start, settle
from planrunner.machine.containers import begin, undone_first
from planrunner.machine.endings import main_part_done, others_done
from planrunner.machine.events import (
    FactsObserved,
    FactsRequested,
    SettingsComputed,
    TaskDelayed,
    TaskQueued,
    TaskSettled,
)
from planrunner.machine.gates import stage_before, step
from planrunner.machine.graph import Frame
from planrunner.machine.joins import Verdict, needs_verdict, omit, routes_verdict
from planrunner.machine.names import agent_of
from planrunner.machine.recovery import reissue
from planrunner.machine.reuse import before, compared, is_still_approved
from planrunner.machine.rollback import comes_first
from planrunner.machine.scope import TaskScope, facts_of, facts_read
from planrunner.machine.state import State
from planrunner.machine.stops import (
    FINAL_STOPS,
    cut,
    not_run,
    outlives,
    stop_detail,
    stopped,
    task_deadline,
    task_deadline_text,
)
from planrunner.machine.verdicts import unmet
from planrunner.plan.expressions.evaluate import evaluate, truth
from planrunner.plan.expressions.quantities import Quantity, parse_duration, parse_percent
from planrunner.plan.expressions.values import EvaluationError, Scope
from planrunner.plan.model import Computed, Task

_new = tuple.__new__

INSTRUCTION = "instruction"
"""The stage of the gate at which a task in plain words waits for the person who carries it out."""


def before_attempt(state: State, number: int, now: float, ready: list[int]) -> Command | None:
    task = state.specs[number]
    task_state = state.tasks[number]
    if state.stop_reason and not outlives(state, number):
        return stopped(state, task)
    frame = task_state.frame
    if state.endings and (command := _ended(state, number)) is not None:
        return command
    if task_state.gate is not None and not task_state.gate.is_behind:
        return at_gate(state, number, now)
    if task.finally_ and (not main_part_done(state, frame) or _undoes_first(state, frame)):
        return None
    if task.concluding:
        goes_on, command = others_settled_first(state, number)
        if not goes_on:
            return command
    if (due := state.wheel.due(number)) is not None:
        if due <= now:
            return (
                _conditions(state, number, now, ready) if task_state.reason == "delay" else _begin(state, number, ready)
            )
        failing = cut(state, number)
        return None if failing is None else settle(task, "cancelled", "stopped", stop_detail(state, number, failing))
    verdict, why = needs_verdict(state, number)
    needs: Verdict = verdict
    edges: Verdict = "met"
    if verdict != "failed" and number in state.shape.routes_in:
        edges, why_edges = routes_verdict(state, number)
        if edges != "met" and verdict != "unmet":
            verdict, why = edges, why_edges
    if verdict == "unmet":
        return omit(state, number, needs, edges, why)
    if verdict == "failed":
        return settle(task, "failed", "join", why, "logic")
    if verdict == "waiting":
        return None
    if state.failing and (failing := cut(state, number)) is not None:
        return settle(task, "cancelled", "stopped", stop_detail(state, number, failing))
    if frame.limit and number >= frame.limit:
        return None
    if (task.due is not None or task.due_in is not None) and (task_deadline(state, task) or 0.0) <= now:
        return Record(TaskSettled(task.id, "failed", "deadline", task_deadline_text(task), "timeout"))
    return _conditions(state, number, now, ready)


def _undoes_first(state: State, frame: Frame) -> bool:
    if frame.linked is not None:
        return undone_first(state, frame)
    if frame is not state.top or (state.compensation_log is None and state.plan.on_failure != "rollback"):
        return False
    return comes_first(state)


def at_gate(state: State, number: int, now: float) -> Command | None:
    """A task that asks people, or has their answer. Where its level fails, only work that is done still asks."""
    gate = state.tasks[number].gate
    assert gate is not None
    if state.failing and gate.stage != "criteria" and not gate.decision and (failing := cut(state, number)) is not None:
        return settle(state.specs[number], "cancelled", "stopped", stop_detail(state, number, failing))
    return step(state, number, now)


def _ended(state: State, number: int) -> Command | None:
    return not_run(state, number)


def while_queued(state: State, number: int) -> Command | None:
    task = state.specs[number]
    if state.endings and (command := _ended(state, number)) is not None:
        return command
    if state.stop_reason and not outlives(state, number):
        return stopped(state, task)
    if state.failing and (failing := cut(state, number)) is not None:
        return settle(task, "cancelled", "stopped", stop_detail(state, number, failing))
    return None


def _conditions(state: State, number: int, now: float, ready: list[int]) -> Command | None:
    """Needs and edges allow the task: ``when``, preconditions and what kind of work it is decide."""
    task = state.specs[number]
    task_state = state.tasks[number]
    if task.when is not None or task.preconditions:
        goes_on, command = conditions_first(state, number)
        if not goes_on:
            return command
    labelled = task.labels and (state.plan.gated or task_state.frame.owner >= 0)
    if task.gate is not None or state.restricted or labelled or hook_asks(state, number):
        if task.gate is not None and task_state.kept is not None and is_still_approved(state, number):
            return settle(task, "completed", "reused", "unchanged; the earlier decision is reused")
        if stage := stage_before(state, number):
            return AskPeople(number, stage)
    if not task.uses and number not in state.containers and task.gate is None:
        return AskPeople(number, INSTRUCTION)
    if task_state.status == "blocked" and task_state.reason != "budget":
        return None
    if task.computed and (command := _settings(state, number)) is not None:
        return command
    if task.delay is not None and state.wheel.due(number) is None and task_state.attempts == task_state.past:
        detail = "its `delay` before it starts"
        return Record(TaskDelayed(task.id, now + task.delay, detail=detail))
    return _begin(state, number, ready)


def _begin(state: State, number: int, ready: list[int]) -> Command | None:
    """A task that holds others begins at once; any other waits for a slot."""
    if state.specs[number].computed and (command := _settings(state, number)) is not None:
        return command
    if state.specs[number].fresh is not None:
        if number in state.asked:
            return None
        if command := before(state, number):
            return command
    if number in state.containers:
        return begin(state, number)
    if state.tasks[number].kept is not None and (command := compared(state, number)):
        return command
    ready.append(number)
    return None


def _settings(state: State, number: int) -> Command | None:
    """The settings that the plan computes, which come before anything that goes by them."""
    return compute(state, number) if is_open(state, number) else None


def admit(state: State, ready: list[int], commands: list[Command], admission: Admission | None = None) -> None:
    """Give slots to the best of those that became ready and those that wait; the rest of the former queue up."""
    tasks = state.specs
    slow: list[tuple[int, int]] = []
    waiting: list[tuple[int, int]] = []
    for number in ready:
        if not state.trait(tasks[number]).instant:
            slow.append((-tasks[number].priority, number))
        elif admission is None or admission.take(number):
            commands.append(_start(state, number, admission))
        else:
            waiting.append((-tasks[number].priority, number))
    free = state.max_parallel - state.slots
    chosen = _choose(state, slow, free, admission) if free > 0 and (slow or state.queue.lines) else []
    if chosen and state.queue.lines:  # one that waits may be settled by this very decision
        over = {
            each.event.task for each in commands if isinstance(each, Record) and isinstance(each.event, TaskSettled)
        }
        chosen = [number for number in chosen if tasks[number].id not in over]
    commands.extend(_start(state, number, admission) for number in chosen)
    if slow or waiting:
        started = set(chosen)
        commands.extend(
            Record(TaskQueued(tasks[number].id)) for _, number in sorted(slow + waiting) if number not in started
        )


def _start(state: State, number: int, admission: Admission | None) -> Start:
    """The next attempt, or the same one again where a doubt was settled that way."""
    task_state = state.tasks[number]
    if task_state.uncertain:
        return reissue(state, number)
    if admission is None:
        return _new(Start, (number, task_state.attempts + 1, 0, {}))
    return Start(number, task_state.attempts + 1, 0, admission.chosen(number))


def _choose(state: State, fresh: list[tuple[int, int]], free: int, admission: Admission | None) -> list[int]:
    """The tasks that start now, best first, as slots, label limits and budgets allow."""
    if state.stop_reason and state.stop_reason not in FINAL_STOPS:
        return []
    if admission is None and not (state.queue.lines or state.limits) and len(fresh) <= free:
        return [number for _, number in sorted(fresh)]
    room = {label: limit - state.labels_running.get(label, 0) for label, limit in state.limits.items()}
    most = free if admission is None else free + admission.PATIENCE
    lines: dict[tuple[str, ...], list[tuple[int, int]]] = {
        labels: [(-priority, -minus) for priority, minus in line[-most:]] for labels, line in state.queue.lines.items()
    }
    for entry in fresh:
        lines.setdefault(state.limited_labels(state.specs[entry[1]]), []).append(entry)
    for line in lines.values():
        line.sort(reverse=True)
    chosen: list[int] = []
    while len(chosen) < free:
        allowed = [labels for labels, line in lines.items() if line and all(room[label] > 0 for label in labels)]
        if not allowed or (admission is not None and admission.refused > admission.PATIENCE):
            break
        labels = min(allowed, key=lambda key: lines[key][-1])
        number = lines[labels].pop()[1]
        if admission is not None and not admission.take(number):
            continue
        chosen.append(number)
        for label in labels:
            room[label] -= 1
    return chosen


def conditions_first(state: State, number: int) -> tuple[bool, Command | None]:
    """Whether the task goes on to start, and where it does not the command that comes instead, if there is one."""
    task, task_state = state.specs[number], state.tasks[number]
    if task.when is not None:
        if task_state.facts is None and facts_of(task.when):
            return False, AskFacts(number, facts_read(task))
        try:
            if not truth(task.when.tree, TaskScope(state, number)):
                return False, settle(task, "skipped", "when", _skipped(state, number))
        except EvaluationError as error:
            return False, settle(task, "failed", "when", f"`{task.when.text}` has no value: {error}", "logic")
    command = _preconditions(state, number) if task.preconditions else None
    return command is None and (task_state.facts is not None or not facts_read(task)), command


def _skipped(state: State, number: int) -> str:
    """Why a task is skipped; the condition of the check of an agent's work is not one that its author wrote."""
    if state.edition > 7 and agent_of(state, number) is not None:
        return "the agent has not answered yet"
    when = state.specs[number].when
    return f"`{when.text}` is false" if when is not None else ""


def _preconditions(state: State, number: int) -> Command | None:
    task = state.specs[number]
    task_state = state.tasks[number]
    names = facts_read(task)
    if names and task_state.facts is None:
        return AskFacts(number, names)
    scope = TaskScope(state, number)
    words = []
    for criterion in task.preconditions:
        if criterion.expression is None:
            words.append(criterion.text)
            continue
        why = unmet(criterion, scope)
        if why:
            return settle(task, "failed", "precondition", "precondition not met: " + why, "precondition")
    return AskPeople(number, "preconditions") if words and "preconditions" not in task_state.cleared else None


def facts_requested(state: State, event: FactsRequested, at: float) -> None:
    state.asked.add(state.index[event.task])


def facts_observed(state: State, event: FactsObserved, at: float) -> None:
    number = state.index[event.task]
    state.tasks[number].facts = {**(state.tasks[number].facts or {}), **event.facts}
    state.asked.discard(number)
    state.candidates[number] = None


def others_settled_first(state: State, number: int) -> tuple[bool, Command | None]:
    """Whether the task goes on to start, and where it does not the command that comes instead, if there is one: of a
    plan that has failed, or a task of which was cancelled, nothing is asked any more."""
    frame = state.tasks[number].frame
    if not others_done(state, frame):
        return False, None
    tasks, inner = state.tasks, range(frame.first, frame.first + frame.size)
    broken = frame.failures or [at for at in inner if tasks[at].dependency_outcome == tasks[at].status == "cancelled"]
    if broken:
        first, word = broken[0], "failed" if frame.failures else "was cancelled"
        return False, settle(state.specs[number], "omitted", "done", f"`{state.specs[first].id}` {word}")
    return True, None


Json = Any

MOST_ATTEMPTS = 1000


def is_open(state: State, number: int) -> bool:
    """Whether a task has settings that are still to be computed for this visit."""
    visit = state.tasks[number].visit
    return any(each.visit != visit for each in state.specs[number].computed)


def compute(state: State, number: int) -> Command:
    """The settings of a task that is about to start; one without a fitting value fails the task."""
    task = state.specs[number]
    scope = TaskScope(state, number)
    values: dict[str, Json] = {}
    for each in task.computed:
        value, problem = value_of(each, scope)
        if problem:
            return settle(task, "failed", "settings", problem, "logic")
        values[each.name] = value
    return Record(SettingsComputed(task.id, state.tasks[number].visit, values))


def value_of(setting: Computed, scope: Scope) -> tuple[Json, str]:
    """The value of a setting, and why it has none that fits (empty where it has)."""
    text = f"`{setting.name}: {{{{ {setting.expression.text} }}}}`"
    try:
        given = evaluate(setting.expression.tree, scope)
    except EvaluationError as error:
        return None, f"{text} has no value: {error}"
    read, expected = _KINDS[setting.name]
    value = read(given)
    was = "nothing" if given is None else str(given) if isinstance(given, Quantity) else shown(given)
    return value, "" if value is not None else f"{text} takes {expected}, this is {was}"


def _seconds(value: Json) -> float | None:
    if isinstance(value, Quantity):
        return value.amount if value.dimension == "time" and value.amount >= 0 else None
    if isinstance(value, str):
        return parse_duration(value)
    return float(value) if _is_number(value) and value >= 0 else None


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(value: Json) -> int | None:
    """A whole number that is not negative."""
    return int(value) if _is_number(value) and value >= 0 and int(value) == value else None


def _count(value: Json) -> int | None:
    return _whole(value) or None


def _attempts(value: Json) -> int | None:
    attempts = _count(value)
    return attempts if attempts is not None and attempts <= MOST_ATTEMPTS else None


def _share(value: Json) -> int | str | None:
    if not isinstance(value, (str, Quantity)):
        return _whole(value)
    text = str(value).strip()
    share = parse_percent(text) if text.endswith("%") else None
    return text if share is not None and share <= 1 else None


_KINDS: dict[str, tuple[Callable[[Json], Json], str]] = {
    "timeout": (lambda value: _seconds(value) or None, "a duration such as `30s` or `5m`"),
    "delay": (_seconds, "a duration such as `30s` or `5m`"),
    "retry.attempts": (_attempts, f"a whole number from 1 to {MOST_ATTEMPTS}"),
    "max_parallel": (_count, "a whole number from 1"),
    "tolerate": (_share, "a whole number from 0, or a percentage such as `20%`"),
}
"""How each setting is read (None: it does not fit), and what it accepts."""


def settings_computed(state: State, event: SettingsComputed, at: float) -> None:
    number = state.index[event.task]
    task = state.specs[number]
    done = tuple([each._replace(visit=event.visit) for each in task.computed])
    state.specs[number] = with_values(task, event.values)._replace(computed=done)
    state.candidates[number] = None


def with_values(task: Task, values: dict[str, Json]) -> Task:
    """The task with its settings in place; no attempt takes longer than all of them together."""
    timeout: float | None = values.get("timeout", task.timeout)
    if task.timebox is not None and timeout is not None:
        timeout = min(timeout, task.timebox)
    retry, fanout = task.retry, task.fanout
    if "retry.attempts" in values:
        retry = retry._replace(attempts=values["retry.attempts"])
    if fanout is not None:
        limits = {name: values[name] for name in ("max_parallel", "tolerate") if name in values}
        fanout = fanout._replace(**limits)
    return task._replace(timeout=timeout, delay=values.get("delay", task.delay), retry=retry, fanout=fanout)
