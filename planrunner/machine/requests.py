"""What follows from the requests by which people and programs steer a run from outside.

A request is a kind and JSON data. Its rule looks at the state and says which events follow, or why none do. The process
that holds the run applies it: the events and the reply become durable together, so a request is applied exactly once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from planrunner.machine.admission import refusal, still_short
from planrunner.machine.budgets import extension
from planrunner.machine.events import AttemptStopping, Event, RunReopened, StopRequested, TaskSettled
from planrunner.machine.names import named
from planrunner.machine.state import State
from planrunner.machine.statuses import ended, said
from planrunner.machine.stops import FINAL_STOPS, OUT_OF_BUDGET, STOPS, deadline_text, is_under_way
from planrunner.machine.votes import Vote, count
from planrunner.plan.expressions.quantities import format_duration
from planrunner.plan.nearest import nearest

Json = Any
Rule = Callable[[State, dict[str, Json], str], "Reply"]
"""From the state, the data of the request and who asks."""


class Reply(NamedTuple):
    """The events of a request in their order, whether it is ``applied``, and the sentence for the one who asked;
    ``code`` is the exit code of the contract for a refusal that is not a usage error."""

    events: tuple[Event, ...]
    applied: bool
    message: str
    code: int = 0


def reply(state: State, kind: str, body: dict[str, Json], by: str) -> Reply:
    """What a request comes to; a request that cannot be applied, whatever it holds, is refused with the reason."""
    rule = RULES.get(kind)
    if rule is None:
        return refused(f"this version of planrunner knows no request `{kind}`")
    if state.ended_at is not None and (kind != "budget" or state.status == "completed"):
        return refused(ended("the run", state.status))
    try:
        return rule(state, body, by)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return refused(f"the data of this `{kind}` is not as it should be: {type(error).__name__} {error}")


def refused(message: str) -> Reply:
    """A reply without events."""
    return Reply((), False, message)


def _pause(state: State, body: dict[str, Json], by: str) -> Reply:
    if state.status in ("paused", "blocked"):
        words = f"{state.status} ({state.reason})" if state.reason else state.status
        return Reply((), True, f"the run is already {words}; `planrunner resume {state.run_id}` continues it")
    if state.stop_reason:
        return refused(f"the run is stopping already: {state.stop_reason}")
    left = len(state.running)
    words = f"; {left} running task{'s' * (left > 1)} may finish" if left else ""
    return Reply((StopRequested("pause", by, str(body.get("reason", ""))),), True, f"no more tasks start{words}")


def _resume(state: State, body: dict[str, Json], by: str) -> Reply:
    """A pause is withdrawn while running tasks still finish."""
    if state.status in ("paused", "blocked"):
        return refused(f"the run is {state.status} already; `planrunner resume {state.run_id}` continues it")
    if state.stop_reason != "pause":
        return refused(f"the run is stopping: {state.stop_reason}" if state.stop_reason else "the run is not paused")
    return Reply((StopRequested("", by),), True, "the pause is withdrawn: the run continues in its process")


REQUEST = "request"
"""Why an attempt ends that a person cancelled."""

UNKNOWN = 3
"""The code of a refusal for a task that the run does not have."""


def task_of(state: State, wanted: str) -> str | Reply:
    """The path of the task that people name by it or by the end of it; the refusal where none or several match."""
    paths = [state.specs[number].id for number in named(state, wanted)]
    if len(paths) == 1:
        return paths[0]
    if paths:
        return Reply((), False, f"`{wanted}` names {len(paths)} tasks: {', '.join(paths[:8])}", UNKNOWN)
    near = nearest(wanted, state.index)
    return Reply((), False, f"it has no task `{wanted}`" + (f", did you mean `{near}`?" if near else ""), UNKNOWN)


def _cancel(state: State, body: dict[str, Json], by: str) -> Reply:
    if body.get("task"):
        task = task_of(state, str(body["task"]))
        if isinstance(task, Reply):
            return task
        event = _call_off(state, task, by, str(body.get("reason", "")))
        if isinstance(event, str):
            return refused(event)
        became = "stopped" if isinstance(event, AttemptStopping) else "abandoned"
        return Reply((event,), True, f"`{event.task}` is {became}")
    reason = "killed" if body.get("now") else "cancelled"
    if STOPS[state.stop_reason] >= STOPS[reason]:
        return refused(f"the run is ending already: {state.stop_reason}")
    if reason == "cancelled" and not state.open:
        undoing = state.compensation_log is not None and state.compensation_log.active
        left = "it is being rolled back" if undoing else "only tasks under `finally` are left"
        return refused(f"{left}, which cancelling does not stop; `--now` does")
    rest = "" if reason == "killed" or not state.finals_open else "; what stands under `finally` still runs"
    return Reply((StopRequested(reason, by, str(body.get("reason", ""))),), True, f"what is open is cancelled{rest}")


def _call_off(state: State, name: str, by: str, why: str) -> AttemptStopping | TaskSettled | str:
    """The event that stops one attempt, or abandons a task that waits for people, on request; or why neither is
    possible."""
    number = state.index.get(name)
    if number is None:
        return f"the run has no task `{name}`"
    if number in state.containers:
        return f"`{name}` holds others: name one of those that run inside it"
    detail = f"by {by}" + (f": {why}" if why else "")
    if state.tasks[number].status == "blocked" and state.stop_reason not in FINAL_STOPS:
        return TaskSettled(name, "abandoned", REQUEST, detail)
    if state.status != "running" or not is_under_way(state, number):
        return f"`{name}` does not run: it {said(state.tasks[number].status)}"
    return AttemptStopping(name, state.tasks[number].attempts, "cancelled", REQUEST, detail)


def _budget(state: State, body: dict[str, Json], by: str) -> Reply:
    by = str(body.get("by") or by)
    if body.get("scope"):
        task = task_of(state, str(body["scope"]))
        if isinstance(task, Reply):
            return task
        body = {**body, "scope": task}
    if "refuse" in body:
        return _refuse(state, body, by)
    events = _too_late(state) or extension(state, body, by)
    if isinstance(events, str):
        return refused(events)
    if state.ended_at is not None:
        words = f"the budget is extended; `planrunner retry {state.run_id}` continues with it"
        if state.plan.deadline is not None:
            words += f", up to the deadline {format_duration(state.plan.deadline)} from the start of the run"
        return Reply((*events, RunReopened("budget", by)), True, words)
    waits = sum(task.status == "blocked" and task.reason == "budget" for task in state.tasks)
    words = f"; {waits} tasks waited for it" if waits > 1 else "; a task waited for it" if waits else ""
    if waits and (missing := still_short(state, str(body.get("scope", "")), body["add"])):
        words += f", and still wait{'' if waits > 1 else 's'}: {missing}"
    return Reply(events, True, f"the budget is extended{words}")


def _too_late(state: State) -> str:
    """Why a run takes no more budget; empty for one that does."""
    if state.stop_reason == "deadline":
        return f"{deadline_text(state.plan)}, and no budget prolongs it: `planrunner exec` begins a new run"
    if state.stop_reason in OUT_OF_BUDGET and state.ended_at is None:
        return f"the run is ending already: {state.stop_reason}"
    return ""


def _refuse(state: State, body: dict[str, Json], by: str) -> Reply:
    events = refusal(state, body, by)
    if isinstance(events, str):
        return refused(events)
    return Reply(events, True, f"nothing is added by {by}: what waited for it stops as the plan says")


def _vote(state: State, body: dict[str, Json], by: str) -> Reply:
    vote = Vote(
        str(body["gate"]),
        str(body["verdict"]),
        by,
        str(body.get("user") or ""),
        tuple(map(str, body.get("roles") or ())),
        tuple(map(str, body.get("claimed") or ())),
        str(body.get("reason") or ""),
        str(body.get("choice") or ""),
        dict(body.get("fields") or {}),
        str(body.get("shown") or ""),
        bool(body.get("rework")),
        float(body.get("now") or 0.0),
        bool(body.get("unread")),
    )
    counted = count(state, vote)
    return Reply(counted.events, not counted.code, counted.message, counted.code)


RULES: dict[str, Rule] = {"pause": _pause, "resume": _resume, "cancel": _cancel, "budget": _budget, "vote": _vote}
"""By the kind of the request."""
