"""The names that expressions and templates may read at each place of a plan, with their types."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping

from planrunner.plan.commands.names import OF_A_PROCESS
from planrunner.plan.expressions import values
from planrunner.plan.expressions.check import (
    ANY,
    BOOL,
    MAP,
    NUMBER,
    PERCENT,
    SIZE,
    STRING,
    TIME,
    UNDECLARED,
    Checker,
    Type,
    declared,
    list_of,
    map_of,
    object_of,
    of_schema,
    optional,
)
from planrunner.plan.keys import Moment
from planrunner.plan.model import BEST, RANKED, Capability, Fanout, Field, Gate, Hypothesis, Output, Param, Task
from planrunner.plan.rules.texts import bound_names
from planrunner.plan.rules.view import PlanView, sends_back
from planrunner.plan.tasks import inside, tools_of

RESULTS = ("ok", "completed", "failed", "skipped", "omitted", "cut_off", "cancelled", "done")
OUTCOME: Mapping[str, Type] = {
    "exit_code": NUMBER,
    "duration": TIME,
    "stdout": STRING,
    "stderr": STRING,
    "attempt": NUMBER,
}
_FACTS = {name: declared(kind) for name, (kind, _) in values.FACTS.items()}
FACTS: Mapping[str, Type] = {
    root: object_of(
        {name.partition(".")[2]: kind for name, kind in _FACTS.items() if name.startswith(f"{root}.")},
        f"the fact `{root}`",
    )
    for root in sorted(values.ROOTS)
}
_PLAN = object_of({"id": STRING, "name": STRING, "title": STRING, "version": STRING})
_FAILURE = object_of({"task": STRING, "class": STRING, "message": STRING}, "a failure")
_RUN = object_of({
    "id": STRING, "seed": NUMBER, "status": STRING, "dir": STRING, "project": STRING,
    "duration": TIME, "failures": list_of(_FAILURE),
})._replace(without={"name": "a run has an `id`; the name of its plan is `plan.name`"})  # fmt: skip
_RETRY = object_of({"reason": STRING, "failure": STRING, "exit_code": ANY}, "`retry`")
OF_ATTEMPTS: Mapping[str, Type] = {"attempt": NUMBER, "now": STRING, "uuid": STRING, "retry": _RETRY}
"""Names of the attempt that is under way or, before it, of the one that is to begin."""
_FLAGS = object_of(dict.fromkeys(RESULTS, BOOL) | {"status": STRING})
_ARTIFACT = object_of({"name": STRING, "path": STRING, "size": SIZE, "sha256": STRING, "type": STRING}, "an artifact")
_ROUND = object_of({"round": NUMBER, "max": NUMBER}, "`loop`")
_REWORK = object_of({"comment": STRING, "by": STRING, "from": STRING, "round": NUMBER}, "`rework`")
_DECISION: Mapping[str, Type] = {"decision": STRING, "by": STRING, "reason": STRING, "comment": STRING}
"""Outputs of every gate."""


def _of_param(param: Param) -> Type:
    found = declared(param.type)
    is_text = param.type == "any" and isinstance(param.default, str)
    return found._replace(what=UNDECLARED) if is_text else found


class Lazy(Mapping[str, Type]):
    """Types that are made when a name is read: a plan of 10,000 tasks is not laid out for one expression. ``find``
    knows names that are not listed, as those of the members of a family."""

    __slots__ = ("_find", "_keys", "_made", "_make")

    def __init__(
        self, keys: Mapping[str, object], make: Callable[[str], Type], find: Callable[[str], bool] | None = None
    ) -> None:
        self._keys = keys
        self._make = make
        self._find = find
        self._made: dict[str, Type] = {}

    def __getitem__(self, name: str) -> Type:
        if name not in self._keys and (self._find is None or not self._find(name)):
            raise KeyError(name)
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._make(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


_RESULT = object_of(Lazy({}, lambda _: ANY, lambda name: name not in OF_A_PROCESS), "the result of a script")
"""What a call gives that runs a script: any output that the script writes."""


def _call(task: Task) -> Type:
    """A call that the agent of a task asks for. What the tool of a server takes only the server knows."""
    tools = [tool for each in inside(task) for tool in tools_of(each)]
    names = {name for tool in tools for name in (*(tool.inputs or {}), *(tool.params or {}))}
    names |= {"command" for tool in tools if tool.run is not None} | {"question" for tool in tools if tool.gate}
    whole = names and all(tool.uses != "mcp.call" for tool in tools)
    return object_of({"tool": STRING, "arguments": object_of(dict.fromkeys(sorted(names), ANY)) if whole else MAP})


class Naming:
    """What the tasks of one view may read; made once for all their expressions."""

    __slots__ = ("_base", "_of_items", "_results", "_view")

    def __init__(self, view: PlanView) -> None:
        self._view = view
        self._of_items: dict[int, dict[str, Type]] = {}
        known: Mapping[str, object] = {**view.outer, **view.positions} if view.outer else view.positions
        self._base: dict[str, Type] = {
            "params": object_of({param.name: _of_param(param) for param in view.plan.params}),
            "env": map_of(STRING),
            "plan": _PLAN,
            "run": _RUN,
            "tasks": object_of(Lazy(known, self._record, lambda name: view.graph.find(name) >= 0)),
        }
        if view.plan.hypotheses:
            self._base["hypotheses"] = _hypotheses(view.plan.hypotheses)
        around = view.around
        if around.carried is not None:
            self._base |= {"loop": _ROUND, "carry": _carried(around.carried)}
        for fanout in around.items:
            self._base |= _item(fanout, self._base)
        if around.reworked or sends_back(view.plan.tasks):
            self._base["rework"] = _REWORK
        self._results = dict.fromkeys(known, _FLAGS)

    def names(self, here: int, moment: Moment) -> Mapping[str, Type]:
        """The names that the task at ``here`` sees at a moment; -1 stands for the plan itself."""
        if here < 0:
            return self._base
        task = self._view.plan.tasks[here]
        base = self._base if task.fanout is None else {**self._base, **self._items(here, task.fanout)}
        if moment == "before":
            return {**OF_ATTEMPTS, **base}
        if moment == "rounds":
            if task.loop is not None:
                carry = task.loop.carry
                base = {**base, "loop": _ROUND, "carry": _carried(carry if isinstance(carry, dict) else {})}
            if task.agent is not None:
                return {**base, "outputs": self._outputs(task)}
            return {**(OF_ATTEMPTS if task.command else {}), **base, "tasks": self._inner(task)}
        if moment == "results":
            return {**base, **self._needed(task)}
        if moment == "facts":
            return {**OF_ATTEMPTS, **base, **FACTS}
        if moment == "call":
            return {"call": _call(task), "params": self._base["params"]}
        own = {"outputs": MAP if task.fanout is not None else self._outputs(task), "artifacts": _artifacts(task)}
        if moment == "checks":
            return ChainMap({**OF_ATTEMPTS, **base, **own}, self._results)
        bare = {output.name: self._type(task, output) for output in task.outputs}
        result = {**OF_ATTEMPTS, **bare, **base, **OUTCOME, **own}
        if moment == "detect":
            result |= {"failure": STRING, "message": STRING, **dict.fromkeys(bound_names(task), ANY)}
        return result

    def _needed(self, task: Task) -> dict[str, Type]:
        """Ids in an expression over results, before names of the plan such as ``run``; one that no task has is reported
        as a need, not as a name as well."""
        result = dict.fromkeys((*task.needs, *task.join.named), _FLAGS)
        if "tasks" in result:
            flags, tasks = _FLAGS.fields, self._base["tasks"].fields
            both = Lazy({**flags, **self._results}, lambda name: flags.get(name) or tasks[name], tasks.__contains__)
            result["tasks"] = object_of(both)
        return result

    def _inner(self, task: Task) -> Type:
        """The tasks that the end of a round or of a subplan may read: those inside, and those around."""
        inner = {step.id: step for step in (*task.subplan, *(task.loop.tasks if task.loop is not None else ()))}
        around = self._base["tasks"].fields
        return object_of({**around, **{name: self._seen(step) for name, step in inner.items()}})

    def _record(self, name: str) -> Type:
        view = self._view
        at = view.graph.find(name)
        task = view.plan.tasks[at] if at >= 0 else view.outer[name]
        member = task.id[-1:] == "*" and name != task.id
        return self._fields(task) if member else self._seen(task)

    def _seen(self, task: Task) -> Type:
        """A task as others see it."""
        one = self._fields(task)
        return one if task.fanout is None else self._many(task, one)

    def _many(self, task: Task, one: Type) -> Type:
        """A fan-out as others see it: ``items`` are the records of its items in order, each output is a list."""
        results = one.fields["outputs"]
        fields = {name: list_of(found) for name, found in results.fields.items()}
        outputs = object_of(fields, results.what, results.code) if results.kind == "object" else MAP
        each = object_of({**one.fields, "item": ANY, "index": NUMBER}, one.what)
        record = object_of({**one.fields, "outputs": outputs, "items": list_of(each)}, one.what)
        return record._replace(item=one)

    def _fields(self, task: Task) -> Type:
        fields = {
            **dict.fromkeys(RESULTS, BOOL),
            **OUTCOME,
            "status": STRING,
            "attempts": NUMBER,
            "reason": STRING,
            "failure": STRING,
            "message": STRING,
            "outputs": self._with_stand_ins(task),
            "artifacts": _artifacts(task),
        }
        del fields["attempt"]
        return object_of(fields, f"task `{task.id}`")

    def _items(self, here: int, fanout: Fanout) -> dict[str, Type]:
        """The names of an item, made once for each task."""
        if here not in self._of_items:
            self._of_items[here] = _item(fanout, self._base)
        return self._of_items[here]

    def _with_stand_ins(self, task: Task) -> Type:
        """The outputs as others read them: one that a task which stands in does not give may be missing."""
        own = self._outputs(task)
        places = [self._view.graph.find(edge.target) for edge in task.edges if edge.recovers]
        standing_in = [self._view.plan.tasks[at] for at in places if at >= 0]
        others = [self._outputs(other) for other in standing_in if other.uses != "fail"]
        others = [other for other in others if other.kind == "object"]
        if own.kind != "object" or not others or task.fanout is not None:
            return own
        fields = {
            name: found if all(name in other.fields for other in others) else optional(found)
            for name, found in own.fields.items()
        }
        return own._replace(fields=fields)

    def _outputs(self, task: Task) -> Type:
        """An object where all outputs are known: those the task declares and those its capability gives."""
        capability = self._view.used.get(task.uses) or (self._view.capabilities.get(task.uses) if task.uses else None)
        what = f"task `{task.id}`"
        own = {output.name: self._type(task, output) for output in task.outputs}
        plain = sum(not output.value and not output.path for output in task.outputs)
        if own and task.stdout in _VALUES and plain != 1:
            own = {"value": _VALUES[task.stdout], **own}
        if task.loop is not None:
            carried = task.loop.carry if task.agent is None else None
            own = {"rounds": NUMBER, **dict.fromkeys(carried or {}, ANY)} | own
            own |= {"reached": BOOL} if task.loop.at_bound == "continue" else {}
        if task.gate is not None:
            return object_of(_answers(task.gate) | own, what, "PLAN202")
        if task.sub is not None:
            own = {output.name: declared(output.type) for output in task.sub.outputs} | own
        elif task.stdout and (not own or (task.stdout == "json" and not plain)):
            return _printed(task, own)
        elif task.subplan_file or ((task.loop or task.subplan or task.steps) and not own):
            return MAP
        if task.agent is not None and self._view.refused and own.keys() == _WITHOUT_ANSWER:
            return MAP  # what the answer has is not known: its schema cannot be read
        if task.loop or task.subplan or task.steps or task.sub is not None:
            return object_of(own, what, "PLAN202")
        if capability is None or (capability.open_outputs and not task.outputs):
            return _printed(task, {})
        given = {field.name: _of_field(field, task) for field in capability.outputs}
        return object_of(given | _shaped(task, capability) | own, what, "PLAN202")

    def _type(self, task: Task, output: Output) -> Type:
        """The type of an output; the result of a call in a command has the outputs of that call."""
        if task.command and isinstance(output.value, str):
            for call in task.subplan:
                if output.value == f"{{{{ tasks.{call.id}.outputs }}}}":
                    found = self._outputs(call)
                    return _RESULT if found.kind == "map" and call.run is not None else found
        return declared(output.type)


_WITHOUT_ANSWER = {"rounds", "transcript", "usage"}
"""The outputs of an agent that has a schema for its answer, beside those of the schema."""

_VALUES = {"text": STRING, "lines": list_of(STRING)}
"""What the output ``value`` of ``stdout`` is; that of JSON may be anything."""


def _of_field(field: Field, task: Task) -> Type:
    """The type of an output of a capability; of a list also that of its items, of a number also what it counts, as far
    as its schema tells."""
    if isinstance(field.schema, dict) and field.schema.get("type") in ("array", "integer", "number"):
        return of_schema(field.schema, f"`{field.name}` of task `{task.id}`", closed=True)
    return declared(field.type)


def _shaped(task: Task, capability: Capability) -> dict[str, Type]:
    """The outputs whose data fits a JSON Schema that stands in the plan. What a ``schema`` asks for has the members it
    lists; what another one only checks may have more."""
    inputs = task.inputs if isinstance(task.inputs, dict) else {}
    return {
        output: of_schema(inputs[name], f"`{output}` of task `{task.id}`", closed=name == "schema")
        for output, name in (capability.shaped or {}).items()
        if isinstance(inputs.get(name), dict)
    }


def _printed(task: Task, known: dict[str, Type]) -> Type:
    """The outputs of a task that may give any beside those that are known; of a script and a program without the names
    that are meant to be its result."""
    if task.run is None:
        return MAP._replace(fields=known)
    read = {name: f"its result is `tasks.{task.id}.{name}`" for name in ("stdout", "stderr", "exit_code")}
    if task.stdout in _VALUES:
        read["stdout"] = f"`stdout: {task.stdout}` gives the output `value`"
        known = {"value": _VALUES[task.stdout]} | known
    read = {name: help_ for name, help_ in read.items() if name not in known}
    return MAP._replace(what=f"task `{task.id}`", code="PLAN202", without=read, fields=known)


def _answers(gate: Gate) -> dict[str, Type]:
    """The outputs of a gate: the decision, the option that was chosen and the fields of its form."""
    outputs = dict(_DECISION)
    if gate.options:
        outputs["choice"] = STRING
    return outputs | {field.name: declared(field.type) for field in gate.form}


_HYPOTHESIS = object_of(
    {
        **dict.fromkeys(("name", "statement", "status"), STRING),
        **dict.fromkeys(("prior", "confidence"), PERCENT),
        **dict.fromkeys(("evidence", "supporting", "refuting"), NUMBER),
    },
    "a hypothesis",
)


def _hypotheses(declared_ones: tuple[Hypothesis, ...]) -> Type:
    """Each hypothesis by its name, and what is made of all of them."""
    each = dict.fromkeys([one.name for one in declared_ones], _HYPOTHESIS)
    found = object_of({**each, BEST: STRING, RANKED: list_of(_HYPOTHESIS)}, "`hypotheses`")
    return found._replace(item=_HYPOTHESIS)


def _carried(carry: Mapping[str, object]) -> Type:
    begun = {name: isinstance(value, dict) and value.get("first") is not None for name, value in carry.items()}
    return object_of({name: ANY._replace(late=not begun[name]) for name in carry}, "`carry`")


def _item(fanout: Fanout, known: Mapping[str, Type]) -> dict[str, Type]:
    """The names that each item of a fan-out has; ``known`` are those that its list may read."""
    types: dict[str, Type] = {"index": NUMBER}
    if fanout.matrix is None:
        listed = Checker(known).type(fanout.foreach.tree) if fanout.foreach is not None else ANY
        types[fanout.name] = (listed.item or ANY) if listed.kind == "list" else ANY
    else:
        included = fanout.matrix.get("include") if isinstance(fanout.matrix, dict) else None
        names = {axis.name for axis in fanout.axes}
        names |= {str(key) for entry in included or () if isinstance(entry, dict) for key in entry}
        types["matrix"] = object_of(dict.fromkeys(sorted(names), ANY), "`matrix`")
    return types


def _artifacts(task: Task) -> Type:
    if not task.artifacts:
        return map_of(_ARTIFACT)
    return object_of({artifact.name: _ARTIFACT for artifact in task.artifacts}, f"`tasks.{task.id}.artifacts`")
