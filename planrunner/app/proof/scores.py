"""A run against what an evaluation expects of it: what does not hold, what the judge says, and what the run used."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from planrunner.app.history.replay import History
from planrunner.app.history.state import plan_of
from planrunner.app.proof.evalfile import Check
from planrunner.app.proof.verdict import Miss, shown, troubles
from planrunner.capabilities.jsonschema import faults
from planrunner.machine.budgets import budget_state
from planrunner.machine.events import AttemptEnded, AttemptStarted
from planrunner.machine.evolve import evolve
from planrunner.machine.explain import why
from planrunner.machine.scope import TaskScope, plan_outputs
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import evaluate, explain, truth
from planrunner.plan.expressions.quantities import Quantity
from planrunner.plan.expressions.values import EvaluationError, MissingName
from planrunner.records import Struct
from planrunner.views.status import exit_code

Json = Any

Judge = Callable[[Sequence[str], str], list[dict[str, Json]]]
"""Asked about criteria and a material; gives {met, reason, quotes} for each criterion. Raises NotJudged."""

LONGEST = 200_000
"""Characters of a run that the judge is shown."""


class NotJudged(Exception):
    """There is no verdict; the message says why."""


class Run(Struct):
    """A run that ended or parked. ``used`` has cost in dollars, tokens and calls, without what is not known; ``asked``
    the names of the models that its tasks tell of."""

    id: str
    state: State
    duration: float
    used: Mapping[str, float]
    asked: frozenset[str]


def run_of(history: History) -> Run:
    """A recorded run as its entries tell it."""
    later = {plan.digest: plan_of(plan) for plan in history.revisions}
    state = State(plan_of(history.plan), history.run_id, later)
    for entry in history.entries:
        evolve(state, entry.event, entry.at)
    duration = history.entries[-1].at - history.entries[0].at if history.entries else 0.0
    spent = {what: amounts["used"] or 0 for what, amounts in budget_state(state).items()}
    used = {what: spent.get(what, 0) for what in SPENT if what not in _unknown(state, history)}
    given = [task.outputs if task.outcome is None else {**task.outcome.outputs, **task.outputs} for task in state.tasks]
    asked = frozenset(outputs["model"] for outputs in given if isinstance(outputs.get("model"), str))
    return Run(history.run_id, state, round(duration, 3), used, asked)


SPENT = ("cost", "tokens", "calls")


def _unknown(state: State, history: History) -> set[str]:
    """What attempts used without telling how much, where no budget made them set anything aside."""
    reserved: dict[tuple[str, int], Mapping[str, float]] = {}
    unknown: set[str] = set()
    for entry in history.entries:
        event = entry.event
        if isinstance(event, AttemptStarted):
            reserved[event.task, event.attempt] = event.reserved
        elif isinstance(event, AttemptEnded) and event.task in state.index:
            spends = state.trait(state.specs[state.index[event.task]]).spends
            told = event.outcome.usage.keys() | reserved.get((event.task, event.attempt), {}).keys()
            unknown.update(what for what in SPENT if what in spends and what not in told)
    return unknown


class RunScope:
    """What expectations read: the names of the plan, and how the run went."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._plan = TaskScope(run.state, -1)

    def resolve(self, name: str) -> Json:
        """The value of a name; raises MissingName for one that nothing defines, or that is not known of the run."""
        run = self._run
        if name in ("status", "reason"):
            return getattr(run.state, name)
        if name == "exit_code":
            return exit_code(run.state)
        if name == "outputs":
            return plan_outputs(run.state)
        if name == "duration":
            return Quantity(run.duration, "time")
        if name not in ("cost", "tokens"):
            return self._plan.resolve(name)
        if name not in run.used:
            raise MissingName(f"the {name} of the run is not known")
        return Quantity(run.used[name], "money") if name == "cost" else run.used[name]


def misses(run: Run, checks: Iterable[Check]) -> list[Miss]:
    """The expressions and schemas that do not hold."""
    scope = RunScope(run)
    lacking: list[Miss] = []
    for check in checks:
        if check.expression is None:
            continue
        got = _unfit(check, scope) if check.kind == "schema" else _untrue(check, scope)
        if got:
            about = f"schema of {check.text}" if check.kind == "schema" else check.text
            expected = shown(check.schema) if check.kind == "schema" else "true"
            lacking.append(Miss(about, expected, got, check.span, _reasons(run, check)))
    return lacking


def _untrue(check: Check, scope: RunScope) -> str:
    assert check.expression is not None
    try:
        return "" if truth(check.expression.tree, scope) else explain(check.expression.tree, scope)
    except EvaluationError as error:
        return f"it has no value: {error.message}"


def _unfit(check: Check, scope: RunScope) -> str:
    assert check.expression is not None
    try:
        value = evaluate(check.expression.tree, scope)
    except EvaluationError as error:
        return f"it has no value: {error.message}"
    plain = json.loads(json.dumps(value, default=lambda amount: amount.amount))
    return "; ".join(faults(check.schema, plain)[:3])


def _reasons(run: Run, check: Check) -> tuple[str, ...]:
    """Why the tasks that an expectation reads stand so; of one that reads none, what kept the run from completing."""
    paths = check.expression.paths if check.expression is not None else ()
    tasks = dict.fromkeys(path[1] for path in paths if path[0] == "tasks" and len(path) > 1)
    named = tuple(why(run.state, task)[0] for task in tasks if task in run.state.index)
    return named or troubles(run.state)


def judged(run: Run, checks: Sequence[Check], judge: Judge) -> tuple[list[dict[str, Json]], list[Miss]]:
    """The verdicts on the criteria in plain words, and those that are not met. Raises NotJudged."""
    words = [check for check in checks if check.kind == "judge"]
    if not words:
        return [], []
    verdicts = judge([check.text for check in words], material(run))
    unmet = [
        Miss(check.text, "yes", f"{verdict['met']}: {verdict['reason']}", check.span, tuple(_quoted(verdict)))
        for check, verdict in zip(words, verdicts)
        if verdict["met"] != "yes"
    ]
    return verdicts, unmet


def _quoted(verdict: dict[str, Json]) -> list[str]:
    return [f"it quotes: {quote}" for quote in verdict["quotes"][:3]]


def material(run: Run) -> str:
    """What the judge is shown: what the run was given and gave, texts as they are so that they can be quoted."""
    state = run.state
    parts = [f"status: {state.status}"]
    parts += [f"given `{name}`:\n{_text(value)}" for name, value in state.params.items()]
    parts += [f"result `{name}`:\n{_text(value)}" for name, value in state.outputs.items()]
    text = "\n\n".join(parts)
    if len(text) > LONGEST:
        raise NotJudged(f"what the run was given and gave has more than {LONGEST:,} characters")
    return text


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
