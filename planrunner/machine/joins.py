"""What lets a task start: the joins over what it needs, the edges that lead to it, its end where neither is met, and
what it writes as expressions that count before it starts: its condition, preconditions and settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

from planrunner.jsontext import shown
from planrunner.machine.commands import AskFacts, AskPeople, Command, Record, settle
from planrunner.machine.events import FactsObserved, FactsRequested, SettingsComputed, TaskSettled
from planrunner.machine.graph import Route
from planrunner.machine.names import Need, agent_of, needed
from planrunner.machine.scope import ResultScope, TaskScope, facts_of, facts_read
from planrunner.machine.state import State
from planrunner.machine.verdicts import unmet
from planrunner.plan.expressions.evaluate import decided, evaluate, truth
from planrunner.plan.expressions.quantities import Quantity, parse_duration, parse_percent
from planrunner.plan.expressions.values import EvaluationError, Scope
from planrunner.plan.joins import GOOD, JOINS, ON_SUCCESS
from planrunner.plan.model import Computed, Task

Json = Any

Verdict = Literal["met", "unmet", "waiting", "failed"]
"""``failed``: an expression over the needs has no value."""


def needs_verdict(state: State, number: int) -> tuple[Verdict, str]:
    """Whether the needs of a task are met, and for ``unmet`` and ``failed`` the sentence why."""
    task = state.specs[number]
    task_state = state.tasks[number]
    if task.join.kind == "all" and not task.join.named:
        if task_state.broken >= 0:
            broken = state.specs[task_state.broken].id
            return "unmet", f"needs `{broken}`, which {_word(state, task_state.broken)}"
        return ("met", "") if task_state.missing == 0 else ("waiting", "")
    outcomes = _outcomes(state, number)
    if not outcomes:
        return "met", ""
    if task.join.kind == "expression":
        return _expression(state, number)
    verdict = JOINS[task.join.kind].verdict(outcomes, task.join.count)
    if verdict != "unmet":
        return verdict, ""
    if task.join.kind == "all":
        return verdict, need_text(state, number, _WORDS.keys() - {"", *GOOD})
    name = f"at_least: {task.join.count}" if task.join.kind == "at_least" else task.join.kind
    return verdict, f"join `{name}` is not met: {_tally(state, number)}"


def needs_and_edges(state: State, number: int) -> tuple[bool, Command | None]:
    """Whether what a task needs and the edges that lead to it let it start, and where they never will what becomes of
    it."""
    task = state.specs[number]
    verdict, why = needs_verdict(state, number)
    needs: Verdict = verdict
    edges: Verdict = "met"
    if verdict != "failed" and number in state.shape.routes_in:
        edges, why_edges = routes_verdict(state, number)
        if edges != "met" and verdict != "unmet":
            verdict, why = edges, why_edges
    if verdict == "unmet":
        return False, omit(state, number, needs, edges, why)
    if verdict == "failed":
        return False, settle(task, "failed", "join", why, "logic")
    return verdict == "met", None


def _outcomes(state: State, number: int) -> list[str]:
    """What the needs of a task stand as."""
    if state.specs[number].join.named:
        return [need.outcome for need in needed(state, number)]
    return [state.tasks[need].dependency_outcome for need in state.shape.needs[number]]


def _expression(state: State, number: int) -> tuple[Verdict, str]:
    """An expression waits for the tasks that may still decide it."""
    join = state.specs[number].join
    assert join.expression is not None
    try:
        holds = _decided(state, number)
    except EvaluationError as error:
        return "failed", f"`{join.expression.text}` has no value: {error}"
    if holds is None:
        return "waiting", ""
    return ("met", "") if holds else ("unmet", f"`{join.expression.text}` is false: {_tally(state, number)}")


def _decided(state: State, number: int, ideal: bool = False) -> bool | None:
    """Whether the expression over the needs of a task is true; None while tasks that have not ended decide that."""
    expression = state.specs[number].join.expression
    assert expression is not None
    return decided(expression.tree, ResultScope(state, number, ideal))


_WORDS = {
    "": "is not decided",
    "completed": "completed",
    "tolerated": "was not selected or was allowed to fail",
    "failed": "failed",
    "skipped": "was skipped",
    "omitted": "did not run",
    "cut_off": "was cut off by a failure",
    "cancelled": "was cancelled",
}


def _word(state: State, number: int) -> str:
    task_state = state.tasks[number]
    if task_state.dependency_outcome == "cancelled" and task_state.status == "omitted":
        return "was cut off by a cancellation"
    return _WORDS[task_state.dependency_outcome]


def need_word(state: State, need: Need, between: str = "") -> str:
    """A need and what it stands as: ```build` failed``."""
    name, word = need.name or state.specs[need.number].id, need.lacks or _word(state, need.number)
    return f"`{name}`{between} {word}"


def need_text(state: State, number: int, outcomes: Collection[str]) -> str:
    """The sentence that names the first need that stands as one of ``outcomes``; empty where none does."""
    for need in needed(state, number):
        if need.outcome in outcomes:
            return f"needs {need_word(state, need, ', which')}"
    return ""


def _tally(state: State, number: int) -> str:
    """Each need with its outcome, the first few of many."""
    needs = needed(state, number)
    shown = [need_word(state, need) for need in needs[:6]]
    return ", ".join(shown) + (f" and {len(needs) - 6} more" if len(needs) > 6 else "")


SHOWN = 5
"""How many conditions of a decision that leads nowhere its failure names."""

UNROUTED = ("edge", "route")
"""Reasons of a task that failed since its edges do not say where the run goes: a condition has no value, or a decision
leads nowhere. Neither is about the work of the task, so ``allow_failure`` and ``recovers`` do not cover them."""


def routes_verdict(state: State, number: int) -> tuple[Verdict, str]:
    """A task that edges point to starts only when one of them fires; without such edges it is free to start."""
    leading = state.shape.routes_in.get(number)
    selected = state.selected
    routes = [route for route in leading or () if selected is None or state.specs[route.source].id in selected]
    if not routes:
        return "met", ""
    verdicts = [_its_turn(state, route) for route in routes]
    if True in verdicts:
        return "met", ""
    if None in verdicts:
        return "waiting", ""
    for route in routes:
        if stand_in := state.tasks[route.source].recovered_by:
            return "unmet", f"`{stand_in}` stands in for `{state.specs[route.source].id}` already"
    return "unmet", _untaken(state, routes)


def _untaken(state: State, routes: Sequence[Route]) -> str:
    """The sentence for edges of which none was taken."""
    names = list(dict.fromkeys(f"`{state.specs[route.source].id}`" for route in routes))
    sources = ", ".join(names)
    plain = all(not (route.edge.condition or route.edge.otherwise or route.edge.failure_class) for route in routes)
    happened = {"failure": "failed", "success": "completed"}.get(routes[0].edge.on)
    if not plain or not happened or len({route.edge.on for route in routes}) > 1:
        return f"no edge from {sources} was taken"
    if len(names) > 2:
        return f"none of {sources} {happened}"
    return f"neither {' nor '.join(names)} {happened}" if len(names) == 2 else f"{sources} {_NOT[happened]}"


_NOT = {"failed": "did not fail", "completed": "did not complete"}


def _its_turn(state: State, route: Route) -> bool | None:
    """Whether an edge has fired and, where several alternates could stand in for a failed task, those before it in the
    order of the plan did not: the first that completes stands in, and those after it are not tried."""
    has_fired = fired(state, route)
    if not (has_fired and route.edge.recovers):
        return has_fired
    for other in alternates(state, route.source):
        if other == route.target:
            break
        before = state.tasks[other]
        if not before.dependency_outcome:
            return None
        if before.status == "completed" or before.recovered_by:
            return False
    return True


def alternates(state: State, number: int) -> list[int]:
    """The tasks that may stand in for a failed one, in their order."""
    return list(dict.fromkeys(handlers(state, number)))


def has_next(state: State, number: int, seen: tuple[int, ...] = ()) -> bool:
    """Whether another alternate follows one that failed, or follows what it was to stand in for: then nothing has
    failed finally yet."""
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
        status = "failed" if source.dependency_outcome == "failed" else "completed"
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
    if not _applies(state, route, status, failure):
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


def _applies(state: State, route: Route, status: str, failure: str) -> bool:
    """Whether an edge is about tasks that settle as ``status`` with that class of failure. That of an option is about
    a decision that was made."""
    edge = route.edge
    if status != "completed" and _is_of_option(state, route):
        return False
    if (edge.on == "success" and status != "completed") or (edge.on == "failure" and status != "failed"):
        return False
    return not edge.failure_class or failure == edge.failure_class


def _is_of_option(state: State, route: Route) -> bool:
    """Whether an edge stands at an option of a decision."""
    gate = state.specs[route.source].gate
    return gate is not None and any(option.span == route.edge.span for option in gate.options)


def conclusive(state: State, command: Command, now: float = 0.0) -> Command:
    """A failure in place of the end of a task whose edges do not say where the run goes."""
    event = command.event if isinstance(command, Record) else None
    if not isinstance(event, TaskSettled) or event.status not in ("completed", "failed") or event.reason in UNROUTED:
        return command
    number = state.index[event.task]
    task = state.specs[number]
    routes = _applying(state, number, event.status, event.failure)
    if problem := _first_problem(state, routes):
        detail = f"{event.detail}; {problem}" if event.detail and event.status == "failed" else problem
        return settle(task, "failed", "edge", detail, event.failure or "logic")
    if event.status == "completed" and not any(_holds(state, route) for route in routes):
        if len(routes) > 1:
            return settle(task, "failed", "route", _leads_nowhere(routes), "logic")
        if chosen := _idle_option(state, number, event):
            detail = f"the option `{chosen}` leads nowhere; `to: TASK` at the option says where to go then"
            return settle(task, "failed", "route", detail, "logic")
    return command


def _idle_option(state: State, number: int, event: TaskSettled) -> str:
    """The option that was chosen at a gate, where others lead on and neither it nor a need does; empty for any other
    end."""
    gate = state.specs[number].gate
    if gate is None or state.shape.dependents[number]:
        return ""
    outcome = state.tasks[number].outcome
    chosen = str((outcome.outputs if outcome is not None else state.tasks[number].outputs).get("choice", ""))
    way = {option.name: option.target for option in gate.options}
    return chosen if any(way.values()) and not way.get(chosen, chosen) else ""


def _applying(state: State, number: int, status: str, failure: str) -> list[Route]:
    """The edges that may fire where a task settles as ``status`` with that class of failure."""
    return [route for route in _open_routes(state, number) if _applies(state, route, status, failure)]


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


Reason = Literal["cut_off", "cancelled", "skipped", "branch", "join"]
"""``cut_off``: a failure; ``cancelled``: a cancellation; ``skipped``: a task that was skipped or omitted itself;
``branch``: the edges led elsewhere; ``join``: the join asks for something else."""

_KEPT_BY: dict[Reason, Collection[str]] = {
    "cut_off": ("failed", "cut_off"),
    "cancelled": ("cancelled",),
    "skipped": ("skipped", "omitted"),
}
"""The outcomes that keep a task from starting, the gravest first."""


def omit(state: State, number: int, needs: Verdict, edges: Verdict, why: str) -> Command | None:
    """Settle a task whose needs or edges are unmet. The gravest cause counts, so while a graver one may follow nothing
    is settled: the reason does not depend on the order in which the tasks before it ended."""
    task = state.specs[number]
    wants = _wants_completed(state, number)
    outcomes = _outcomes(state, number)
    causes: list[str] = list(outcomes) if needs == "unmet" and wants else []
    if edges == "unmet":
        routes = state.shape.routes_in[number]
        sources = [(route.edge.on, state.tasks[route.source].dependency_outcome) for route in routes]
        # what the tasks stand as whose edges would lead here had they completed
        causes += [cause for on, cause in sources if on == "success" or (on != "failure" and cause != "failed")]
    reason = next((each for each, kept_by in _KEPT_BY.items() if any(cause in kept_by for cause in causes)), None)
    may_follow = edges == "waiting" or ("" in outcomes and (needs != "unmet" or wants))
    if reason != "cut_off" and may_follow:
        return None
    if reason is None:
        return settle(task, "omitted", "join" if needs == "unmet" else "branch", why)
    if needs == "unmet" and task.join.kind == "all":
        why = need_text(state, number, _KEPT_BY[reason]) or why
    return settle(task, "omitted", reason, why)


def _wants_completed(state: State, number: int) -> bool:
    """Whether the needs of a task are met where all of them complete; if not, its join asks for failures or skips."""
    kind = state.specs[number].join.kind
    if kind == "expression":
        try:
            return _decided(state, number, ideal=True) is not False
        except EvaluationError:
            return True
    return kind in ON_SUCCESS


# Conditions and settings

MOST_ATTEMPTS = 1000


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
    if agent_of(state, number) is not None:
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
