"""Edges: whether one has fired, and whether a task that edges point to may start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planrunner.machine.commands import Command, Record, settle
from planrunner.machine.events import TaskSettled
from planrunner.machine.scope import TaskScope
from planrunner.machine.shape import Route
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.values import EvaluationError

if TYPE_CHECKING:
    from planrunner.machine.joins import Verdict


SHOWN = 5
"""How many conditions of a decision that leads nowhere its failure names."""

UNROUTED = ("edge", "route")
"""Reasons of a task that failed since its edges do not say where the run goes: a condition has no value, or a decision
leads nowhere. Neither is about the work of the task, so ``allow_failure`` and ``recovers`` do not cover them."""


def routes_verdict(state: State, number: int) -> tuple[Verdict, str]:
    """A task that edges point to starts only when one of them fires; without such edges it is free to start."""
    leading = state.shape.routes_in.get(number)
    routes = [route for route in leading if _in_play(state, route)] if leading else None
    if not routes:
        return "met", ""
    verdicts = [_its_turn(state, route) for route in routes]
    if True in verdicts:
        return "met", ""
    if None in verdicts:
        return "waiting", ""
    for route in routes:
        if found := state.tasks[route.source].recovered_by:
            return "unmet", f"`{found}` stands in for `{state.specs[route.source].id}` already"
    sources = ", ".join(f"`{state.specs[route.source].id}`" for route in routes)
    return "unmet", f"no edge from {sources} led here"


def _in_play(state: State, route: Route) -> bool:
    return state.selected is None or state.specs[route.source].id in state.selected


def _its_turn(state: State, route: Route) -> bool | None:
    """Whether an edge has fired and, where several alternates could stand in for a failed task, those before it in the
    order of the plan did not: the first that completes stands in, and those after it are not tried."""
    found = fired(state, route)
    if not (found and route.edge.recovers):
        return found
    for other in alternates(state, route.source):
        if other == route.target:
            break
        before = state.tasks[other]
        if not before.standing:
            return None
        if before.status == "completed" or before.recovered_by:
            return False
    return True


def alternates(state: State, number: int) -> list[int]:
    """The tasks that may stand in for a failed one, in their order."""
    return list(dict.fromkeys(handlers(state, number)))


def has_next(state: State, number: int, seen: tuple[int, ...] = ()) -> bool:
    """Whether another alternate follows one that failed, or follows what it was to stand in for: then nothing has
    failed for good yet."""
    for route in state.shape.routes_in.get(number, ()):
        source = route.source
        if source in state.recovering and route.edge.recovers and source not in seen:
            line = alternates(state, source)
            if number in line and (line[-1] != number or has_next(state, source, (*seen, number))):
                return True
    return False


def fired(state: State, route: Route) -> bool | None:
    """True or False once the source is decided, None before."""
    source = state.tasks[route.source]
    if source.status == "rolled_back":
        status = "failed" if source.standing == "failed" else "completed"
        return edge_fired(state, route, status, source.failure)
    if source.status not in ("completed", "failed"):
        return None if source.status not in ("skipped", "omitted", "cancelled", "abandoned") else False
    return edge_fired(state, route, source.status, source.failure)


def edge_fired(state: State, route: Route, status: str, failure: str) -> bool:
    """Whether an edge leads on from its source, which settles as ``status`` with that class of failure. A condition
    without a value fails the source (``conclusive``), so the edge leads nowhere."""
    source = state.tasks[route.source]
    edge = route.edge
    if source.reason in UNROUTED and edge.on not in ("failure", "always"):
        return False
    if not _applies(route, status, failure):
        return False
    if edge.otherwise:
        others = [other for other in _open_routes(state, route.source) if not other.edge.otherwise]
        return not any(edge_fired(state, other, status, failure) for other in others)
    return _holds(state, route)


def _open_routes(state: State, number: int) -> list[Route]:
    """The edges of a task that may still fire: one that leads back does so as often as its bound allows."""
    sent_back = state.sent_back.get(number, 0)
    back = [route for route in state.shape.reworks.get(number, ()) if sent_back < route.edge.max]
    return [*state.shape.routes_out.get(number, ()), *back]


def _holds(state: State, route: Route) -> bool:
    condition = route.edge.condition
    if condition is None:
        return True
    try:
        return truth(condition.tree, TaskScope(state, route.source))
    except EvaluationError:
        return False


def _applies(route: Route, status: str, failure: str) -> bool:
    """Whether an edge is about tasks that settle as ``status`` with that class of failure."""
    edge = route.edge
    if (edge.on == "success" and status != "completed") or (edge.on == "failure" and status != "failed"):
        return False
    return not edge.failure_class or failure == edge.failure_class


def conclusive(state: State, commands: Sequence[Command]) -> list[Command]:
    """The commands, with a failure in place of each end of a task whose edges do not say where the run goes."""
    return [_unrouted(state, command) or command for command in commands]


def _unrouted(state: State, command: Command) -> Record | None:
    event = command.event if isinstance(command, Record) else None
    if not isinstance(event, TaskSettled) or event.status not in ("completed", "failed") or event.reason in UNROUTED:
        return None
    number = state.index[event.task]
    task = state.specs[number]
    routes = _applying(state, number, event.status, event.failure)
    if problem := _first_problem(state, routes):
        detail = f"{event.detail}; {problem}" if event.detail and event.status == "failed" else problem
        return settle(task, "failed", "edge", detail, event.failure or "logic")
    if event.status == "completed" and len(routes) > 1 and not any(_holds(state, route) for route in routes):
        return settle(task, "failed", "route", _leads_nowhere(routes), "logic")
    return None


def _applying(state: State, number: int, status: str, failure: str) -> list[Route]:
    """The edges that may fire where a task settles as ``status`` with that class of failure."""
    return [route for route in _open_routes(state, number) if _applies(route, status, failure)]


def is_decidable(state: State, number: int, status: str, failure: str) -> bool:
    """Whether the condition of every edge that may fire then has a value."""
    return not _first_problem(state, _applying(state, number, status, failure))


def _first_problem(state: State, routes: Sequence[Route]) -> str:
    return next((problem for route in routes if (problem := _no_value(state, route))), "")


def without_value(state: State, number: int) -> Route | None:
    """The edge whose condition has no value, of a task that failed for that (reason ``edge``)."""
    shape, detail = state.shape, state.tasks[number].detail
    routes = (*shape.routes_out.get(number, ()), *shape.reworks.get(number, ()))
    return next((route for route in routes if (problem := _no_value(state, route)) and problem in detail), None)


def _leads_nowhere(routes: Sequence[Route]) -> str:
    """Why a decision fails: the conditions of its edges, none of which is true."""
    named = [f"`{route.edge.condition.text}` (to `{route.edge.target}`)" for route in routes if route.edge.condition]
    shown = ", ".join(named[:SHOWN]) + (f" and {len(named) - SHOWN} more" if len(named) > SHOWN else "")
    return f"it leads nowhere: of its edges none is true, {shown}; `else: true` on an edge says where to go then"


def _no_value(state: State, route: Route) -> str:
    """Why the condition of an edge has no value; empty where it has one."""
    condition = route.edge.condition
    if condition is None:
        return ""
    try:
        truth(condition.tree, TaskScope(state, route.source))
    except EvaluationError as error:
        return f"`{condition.text}`, the condition of its edge to `{route.edge.target}`, has no value: {error}"
    return ""


def handlers(state: State, number: int) -> list[int]:
    """The tasks whose completion would recover the failure of ``number``."""
    routes = state.shape.routes_out.get(number, ())
    return [route.target for route in routes if route.edge.recovers and fired(state, route)]
