"""The cases that follow from a plan itself: all goes well, each task fails once, each person says no, and each value of
a parameter or an output that a condition looks at."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from planrunner.app.proof.cases import Case, Expectation
from planrunner.app.proof.names import demands, walk
from planrunner.app.proof.people import SAMPLES
from planrunner.app.proof.reads import beside, comparisons
from planrunner.app.proof.world import Reply, World
from planrunner.jsontext import as_text
from planrunner.plan.model import Expression, Gate, Plan, Task
from planrunner.plan.params import bind_params
from planrunner.plan.tasks import is_container

Json = Any

_CLASSES = ("logic", "transient", "timeout", "policy")


def all_goes_well(plan: Plan, path: str) -> Case:
    """The case in which nothing goes wrong. Required parameters get a value of their type."""
    expected = (Expectation("status", "completed"),)
    return Case("all goes well", path, required(plan), world=World(judged=False), expect=expected, generated=True)


def implied(plan: Plan, path: str, started: Container[str]) -> Iterator[Case]:
    """The other cases of a plan without tests; ``started`` holds the written paths of tasks that start when all goes
    well."""
    whole = all_goes_well(plan, path)._replace(expect=())
    labelled = demands(plan)
    for name, task in walk(plan.tasks):
        for _, gate in labelled.get(name, ()):
            yield from _decided_cases(whole, name, gate)
        if task.gate is not None:
            yield from _decided_cases(whole, name, task.gate)
        elif is_container(task):
            continue
        elif name in started:
            yield from _failing_cases(whole, plan, name, task)
        else:
            yield from _later_failures(whole, plan, name)
    yield from _values(whole, plan)


def required(plan: Plan) -> dict[str, Json]:
    """Values for the parameters that have to be given."""
    return {
        param.name: param.choices[0] if param.choices else SAMPLES.get(param.type, f"<{param.name}>")
        for param in plan.params
        if param.required
    }


def _decided_cases(whole: Case, name: str, gate: Gate) -> Iterator[Case]:
    words: list[Json] = ["reject"]
    if gate.on_reject.action == "rework":
        words.append(["reject", "approve"])
    if gate.expires is not None:
        words.append("expire")
    words += [{"decision": "approve", "option": option.name} for option in gate.options[1:]]
    for word in words:
        world = whole.world._replace(gates={name: word})
        yield whole._replace(name=f"`{name}` is decided: {_decision_text(word)}", world=world, guess=True)


def _decision_text(word: Json) -> str:
    if isinstance(word, list):
        return ", then ".join(word)
    return word if isinstance(word, str) else str(word["option"])


def _failing_cases(whole: Case, plan: Plan, name: str, task: Task) -> Iterator[Case]:
    bad = _bad(task)
    undone = plan.on_failure == "rollback" and (task.rollback is not None or bool(task.backup))
    retried = task.retry.attempts > 1
    again = any(setting.name == "retry.attempts" for setting in task.computed) or any(e.rework for e in task.edges)
    certain = not undone and not again and "/" not in name and task.fanout is None
    once = whole._replace(name=f"`{name}` fails once", world=whole.world._replace(replies={name: (bad, Reply())}))
    yield _expecting(once, name, "completed" if retried else "failed", certain)
    if retried:
        always = whole.world._replace(replies={name: (bad,)})
        yield _expecting(whole._replace(name=f"`{name}` fails every time", world=always), name, "failed", certain)
    for mode in task.failure_modes:
        if mode.detect is not None and mode.detect.expression is not None:
            world = whole.world._replace(replies={name: (_detected(mode.detect.expression),)})
            yield whole._replace(name=f"`{name}` fails as {mode.name}", world=world, guess=True)


def _expecting(case: Case, name: str, status: str, certain: bool) -> Case:
    """What a task comes to is certain only where nothing begins it anew."""
    if not certain:
        return case._replace(guess=True)
    return case._replace(expect=(Expectation(f"tasks.{name}.status", status, task=name),))


def _later_failures(whole: Case, plan: Plan, name: str) -> Iterator[Case]:
    """A task that starts only when another one fails: it fails as well."""
    every = dict(walk(plan.tasks))
    prefix, _, last = name.rpartition("/")
    for path, task in every.items():
        if path.rpartition("/")[0] != prefix:
            continue
        for edge in task.edges:
            if edge.target == last and edge.on in ("failure", "always"):
                first = _bad(task)
                for mode in task.failure_modes:
                    if (
                        mode.name == edge.failure_class
                        and mode.detect is not None
                        and mode.detect.expression is not None
                    ):
                        first = _detected(mode.detect.expression)
                world = whole.world._replace(replies={path: (first,), name: (_bad(every[name]),)})
                yield whole._replace(name=f"`{path}` fails, then `{name}`", world=world)
                return


def _bad(task: Task) -> Reply:
    """A reply that fails the task: in a class that it retries where it retries any."""
    failure = next((each for each in _CLASSES if not task.retry.on or each in task.retry.on), "logic")
    reads_exit = any(("exit_code",) in each.expression.paths for each in task.expect if each.expression is not None)
    return Reply(exit_code=0 if reads_exit or task.uses != "shell" else 1, failure=failure, done=False)


def _detected(expression: Expression) -> Reply:
    """A reply with the texts and numbers that a detector looks for, as far as it compares with constants."""
    found: dict[str, Json] = {}
    for path, operator, constant in comparisons(expression.tree):
        name = path[-1]
        if name in ("stdout", "stderr", "message") and isinstance(constant, str):
            found[name] = f"{found.get(name, '')} {constant}".strip()
        elif (name == "exit_code" and isinstance(constant, int)) or name == "failure":
            found[name] = beside(constant, operator)
    if not found.get("exit_code") and "failure" not in found:
        found["failure"] = "logic"
    return Reply(**found, done=False)


def _values(whole: Case, plan: Plan) -> Iterator[Case]:
    for param in plan.params:
        choices = param.choices or ((True, False) if param.type == "bool" else ())
        for choice in choices:
            if choice != param.default:
                params = {**whole.params, param.name: choice}
                yield whole._replace(name=f"{param.name} is {as_text(choice)}", params=params, guess=True)
    seen: set[tuple[str, str, str]] = set()
    for prefix, path, operator, constant in _compared(plan):
        for word in (operator, {"==": "!=", "!=": "=="}.get(operator, "<" if ">" in operator else ">")):
            value = beside(constant, word)
            if path[0] == "tasks" and len(path) == 4 and path[2] == "outputs":
                name, change = prefix + path[1], {path[3]: value}
                world = whole.world._replace(replies={name: (Reply(outputs=change),)})
                case = whole._replace(world=world, name=f"`{name}` gives {path[3]} {as_text(value)}", guess=True)
            elif path[0] == "params" and len(path) == 2 and _fits(plan, path[1], value):
                case = whole._replace(
                    params={**whole.params, path[1]: value}, name=f"{path[1]} is {as_text(value)}", guess=True
                )
            else:
                continue
            key = (path[0], path[1], case.name)
            if key not in seen:
                seen.add(key)
                yield case


def _fits(plan: Plan, name: str, value: Json) -> bool:
    return not bind_params(plan, {**required(plan), name: value}).problems


def _compared(plan: Plan) -> Iterator[tuple[str, tuple[str, ...], str, Json]]:
    """Names that conditions compare with constants, and the level on which they are read."""
    for path, task in walk(plan.tasks):
        level = path[: len(path) - len(task.id)]
        for condition in (task.when, task.join.expression, *(edge.condition for edge in task.edges)):
            if condition is not None:
                yield from ((level, *found) for found in comparisons(condition.tree))
        if task.loop is not None and task.loop.until is not None:
            yield from ((f"{path}/", *found) for found in comparisons(task.loop.until.tree))
