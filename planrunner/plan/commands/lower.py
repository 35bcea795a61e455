"""From a command to the tasks of its calls: an inline subplan of the task that holds it.

Each call is a task named by its result (or ``call-N``), needs the one before it, uses the capability and gets its
arguments as inputs. The results become outputs of the task around them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from planrunner.plan.commands.calls import Argument, Call, CommandError, Places
from planrunner.plan.commands.names import FRAMED, Result, Values, VisibleNames, capability_of, outputs_of
from planrunner.plan.expressions.tree import paths_of
from planrunner.plan.keys import named
from planrunner.plan.lower.actions import made_ready
from planrunner.plan.lower.values import ATTEMPT, RUN, Lowering, Pending
from planrunner.plan.model import Capability, Criterion, Expression, Field, Output, Task

Json = Any


OF_ATTEMPTS = named("times")
"""Defaults that are meant for what acts, and not for a task that holds others."""
COMPUTED = ("timeout", "retry.attempts")
"""Those of them that an expression may compute."""
_HANDED_DOWN = named("calls", "hands")
BOUND = r"->\s*([A-Za-z_][A-Za-z0-9_]*)"
_SCRIPT = Field("run", "string", True)


def with_calls(low: Lowering, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The tasks of one list, those with a command holding its calls; what is wrong with a command is reported."""
    by_id = {task.id: task for task in tasks}
    result = []
    for task in tasks:
        pending = low.commands.get(task.id)
        if pending is not None:
            task = by_id[task.id] = _held(low, task, pending, by_id)
        result.append(task)
    return tuple(result)


def _held(low: Lowering, task: Task, pending: Pending, others: Mapping[str, Task]) -> Task:
    lowering = _Command(low, task, pending, others)
    calls = lowering.tasks()
    if not calls:
        return task
    results = {name: call.id for call, name in zip(calls, lowering.names, strict=True) if name}
    keys = {key for key, _ in task.spans}
    bare = Task("")
    reset = {name: getattr(bare, name) for name in OF_ATTEMPTS if name in pending.defaults and name not in keys}
    idle = [name for name in COMPUTED if name.partition(".")[0] not in keys]
    reset["computed"] = tuple(each for each in task.computed if each.name not in idle)
    files = tuple(artifact for artifact in task.artifacts if artifact.path)
    calls = (*calls[:-1], calls[-1]._replace(artifacts=files)) if files else calls
    return about_lists(task._replace(subplan=calls, outputs=_outputs(task, results), **reset), lowering.lists())


def _outputs(task: Task, calls: Mapping[str, str]) -> tuple[Output, ...]:
    """What the task gives: its results by name, and what it declares. A declared output that only names a result, or
    the artifact of that name, is that result."""
    results = {name: "{{ tasks." + call + ".outputs }}" for name, call in calls.items()}
    result = []
    for output in task.outputs:
        word = output.value.strip(" {}").partition("artifacts.")[2] if isinstance(output.value, str) else ""
        meant = word or (output.name if output.value is None else "")
        result.append(output._replace(value=results[meant]) if meant in results else output)
    given = {output.name for output in result}
    result += [Output(name, "map", value) for name, value in results.items() if name not in given]
    return tuple(result)


class _Command:
    """The lowering of one command."""

    __slots__ = ("_capabilities", "_low", "_pending", "_places", "_task", "_text", "_values", "names")

    def __init__(self, low: Lowering, task: Task, pending: Pending, others: Mapping[str, Task]) -> None:
        assert low.capabilities is not None
        self._low = low
        self._task = task
        self._pending = pending
        self._capabilities = low.capabilities
        self._text = task.command
        self._places = Places(pending.node, self._text)
        self._values = Values(self._text, _given(low, task, others))
        self.names: list[str] = []
        """The names of the results, empty where a call has none."""

    def tasks(self) -> tuple[Task, ...]:
        """The tasks of the calls. What is wrong is reported; something stands in for it, so that readers of the
        results are not reported as well."""
        from planrunner.plan.commands.parse import parse

        try:
            calls = parse(self._text)
        except CommandError as error:
            self._report(error)
            self.names += dict.fromkeys(re.findall(BOUND, self._text))
            return tuple(self._stand_in(name, self._text) for name in self.names)
        tasks: list[Task] = []
        for number, call in enumerate(calls, 1):
            try:
                made = self._call(call, number, tasks[-1].id if tasks else "")
            except CommandError as error:
                self._report(error)
                made = self._stand_in(f"call-{number}", self._text[call.verb.start : call.end])
                self._bind(call, made.id, None)
            tasks.append(made)
        return tuple(tasks)

    def _stand_in(self, name: str, text: str) -> Task:
        return Task(name, command=text, span=self._pending.node.span)

    def lists(self) -> dict[str, str]:
        """The first output that is a list, of each result that has one; empty for a result whose outputs its call alone
        knows."""
        found = {name: outputs_of(result.capability) for name, result in self._values.results.items()}
        firsts = {name: [each.name for each in outputs if each.type == "list"] for name, outputs in found.items()}
        open_ = {name: "" for name, result in self._values.results.items() if result.capability.open_outputs}
        return open_ | {name: names[0] for name, names in firsts.items() if names}

    def _report(self, error: CommandError) -> None:
        self._low.report(error.code, error.message, self._places.span(error.start, error.end), error.help)

    def _bind(self, call: Call, task: str, capability: Capability | None) -> None:
        """Make the result of a call known to those behind it."""
        name = call.result.text if call.result is not None else ""
        if name:
            self._values.results[name] = Result(task, capability or Capability("", open_outputs=True))
        self.names.append(name)

    def _call(self, call: Call, number: int, before: str) -> Task:
        capability = capability_of(call.verb, self._capabilities, self._pending.family)
        self._check_result(call)
        inputs = dict(self._inputs(call, capability))
        run = inputs.pop("run", None) if capability.takes_run else None
        name = call.result.text if call.result is not None else f"call-{number}"
        self._bind(call, name, capability)
        spans = (
            ("uses", self._places.span(call.verb.start, call.verb.end)),
            ("with", self._places.span(call.opened, call.closed)),
        )
        fields: dict[str, Any] = {
            **self._pending.defaults,
            **{each: getattr(self._task, each) for each in _HANDED_DOWN if getattr(self._task, each)},
            "id": name,
            "uses": capability.name,
            "inputs": self._low.with_defaults(capability.name, inputs or None),
            "command": " ".join(self._text[call.verb.start : call.end].split()),
            "needs": (before,) if before else (),
            "span": spans[0][1],
            "spans": spans if run is None else (*spans, ("run", spans[1][1])),
        }
        if run is not None:
            fields |= {"run": run, "script": made_ready(run, self._low.params)}
        return Task(**fields)

    def _check_result(self, call: Call) -> None:
        if call.result is None:
            return
        name, start, end = call.result
        if name in RUN:
            raise CommandError(f"`{name}` means something in every plan already", start, end, "choose another name")
        earlier = {other.casefold(): other for other in self._values.results}.get(name.casefold())
        if earlier == name:
            raise CommandError(f"two results are called `{name}`", start, end, "each name is bound once", "PLAN102")
        if earlier:
            message = f"the results `{earlier}` and `{name}` differ only in capitals"
            raise CommandError(message, start, end, "", "PLAN102")

    def _inputs(self, call: Call, capability: Capability) -> Iterator[tuple[str, Json]]:
        """The arguments by the names of the inputs they are for: those by position in the order of the inputs that
        are not given by name."""
        fields = {field.name: field for field in (*([_SCRIPT] if capability.takes_run else ()), *capability.inputs)}
        framed, words = FRAMED.get(call.verb.text, ("", ""))
        if framed:
            fields = {framed: Field(framed, "any"), **{name: field for name, field in fields.items() if name != framed}}
        given = {argument.name for argument in call.arguments}
        free = iter([name for name in fields if name not in given])
        taken: set[str] = set()
        for argument in call.arguments:
            name = argument.name or next(free, "")
            if not name:
                raise _too_many(capability, list(fields), argument)
            if name in taken:
                message = f"`{capability.name}` gets its input `{name}` twice"
                raise CommandError(message, argument.start, argument.end, "", "PLAN008")
            taken.add(name)
            value = self._values.data(argument.value, fields.get(name))
            if name == "run" and capability.takes_run:
                value = _script(capability, value, argument)
            if name == framed:
                value = words + (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            yield name, value


def _too_many(capability: Capability, order: list[str], argument: Argument) -> CommandError:
    takes = ", ".join(f"`{name}`" for name in order[:8])
    message = f"`{capability.name}` takes {len(order) or 'no'} input{'' if len(order) == 1 else 's'}, this is one more"
    return CommandError(message, argument.start, argument.end, f"it takes {takes}" if takes else "", "PLAN008")


def _script(capability: Capability, value: Json, argument: Argument) -> str | tuple[str, ...]:
    """A script is written out: a value of the run would be taken for commands."""
    if argument.value[0] == "const" and isinstance(value, str):
        return value
    if argument.value[0] == "list" and all(isinstance(item, (str, int, float)) for item in value):
        return tuple(str(item) for item in value)
    message = f"what `{capability.name}` runs is written out, as text or as a list of arguments"
    raise CommandError(message, argument.start, argument.end, "hand values over inside it: `{{ params.name }}`")


def _given(low: Lowering, task: Task, others: Mapping[str, Task]) -> VisibleNames:
    needed: dict[str, tuple[str, ...]] = {}
    for need in task.needs:
        for name in _outputs_of(low, others.get(need)):
            needed[name] = (*needed.get(name, ()), need)
    items = frozenset[str]()
    if task.fanout is not None:
        items = frozenset({task.fanout.name, "index", "matrix"})
    inputs = task.inputs if isinstance(task.inputs, dict) else {}
    return VisibleNames(
        inputs, frozenset(param.name for param in low.params), needed, RUN | ATTEMPT | {"attempt"} | low.names | items
    )


def _outputs_of(low: Lowering, task: Task | None) -> list[str]:
    """The names of the outputs that a task is known to give."""
    if task is None:
        return []
    names = [output.name for output in task.outputs]
    capability = low.capabilities.get(task.uses) if task.uses and low.capabilities is not None else None
    if capability is not None:
        names += [field.name for field in capability.outputs]
    if task.sub is not None:
        names += [output.name for output in task.sub.outputs]
    return list(dict.fromkeys(names))


Tree = Any


def about_lists(task: Task, lists: Mapping[str, str]) -> Task:
    """The task with its own criteria asking whether the first list of a result is empty where they ask it of the whole
    result; ``lists`` names that output for each result that has one. A result whose outputs are not declared is empty
    where all that it has is: ``[]`` of a script is ``{"value": []}``."""
    if not lists:
        return task
    return task._replace(
        expect=tuple(_criterion(criterion, lists) for criterion in task.expect),
        postconditions=tuple(_criterion(criterion, lists) for criterion in task.postconditions),
        failure_modes=tuple(
            mode if mode.detect is None else mode._replace(detect=_criterion(mode.detect, lists))
            for mode in task.failure_modes
        ),
        edges=tuple(
            edge if edge.condition is None else edge._replace(condition=_expression(edge.condition, lists))
            for edge in task.edges
        ),
    )


def _criterion(criterion: Criterion, lists: Mapping[str, str]) -> Criterion:
    if criterion.expression is None:
        return criterion
    return criterion._replace(expression=_expression(criterion.expression, lists))


def _expression(expression: Expression, lists: Mapping[str, str]) -> Expression:
    tree = _tree(expression.tree, lists)
    return expression if tree == expression.tree else expression._replace(tree=tree, paths=paths_of(tree))


def _tree(tree: Tree, lists: Mapping[str, str]) -> Tree:
    if not isinstance(tree, tuple):
        return tree
    if tree and tree[0] == "empty":
        operand = tree[3]
        name = _result(operand)
        if lists.get(name) == "":
            return (*tree[:3], _filled(operand), *tree[4:])
        if name in lists:
            return (*tree[:3], ("attr", operand[1], operand[2], operand, lists[name]), *tree[4:])
    return tuple(_tree(part, lists) for part in tree)


def _filled(operand: Tree) -> Tree:
    """The list ``[value for value in values(operand) if value is not empty]``."""
    place = operand[1], operand[2]
    value = ("local", *place, "value")
    values = ("call", *place, "values", (operand,), operand[1])
    return ("each", *place, ("value",), values, value, ("not", *place, ("empty", *place, value)))


def _result(tree: Tree) -> str:
    """The result that a tree is the name of: ``top10`` or ``outputs.top10``."""
    if tree[0] == "name":
        return str(tree[3])
    if tree[0] == "attr" and tree[3][0] == "name" and tree[3][3] == "outputs":
        return str(tree[4])
    return ""
