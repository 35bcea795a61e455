"""The world of a test: how each attempt ends, which facts hold, and what people say. What is not said goes well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planrunner.app.proof.names import best, matches, walk, written
from planrunner.app.proof.reads import Shape, fitting
from planrunner.capabilities.contract import Call, Exit, Failure
from planrunner.capabilities.core import of_task
from planrunner.capabilities.outputs import stdout_outputs
from planrunner.capabilities.soundness import sound
from planrunner.engine.effects import Examine
from planrunner.engine.simulated import Script
from planrunner.frozen import EMPTY
from planrunner.machine.admission import wanted
from planrunner.machine.events import BudgetExtended, Event, Outcome
from planrunner.machine.requests import Vote, count
from planrunner.machine.scope import facts_of, facts_read
from planrunner.machine.state import GateState, State
from planrunner.plan.agents import PLANNING
from planrunner.plan.model import Criterion, Expression, Gate, Loop, Output, Plan, Task, Tree
from planrunner.plan.tasks import inner, is_container, reads_exit_code
from planrunner.plugins.registry import Registry
from planrunner.records import Struct

Json = Any


PERSON: tuple[Json, ...] = ("pure", True, False)
"""The trait of what stands in for an instruction in plain words."""

SECONDS = 1.0
"""How long an attempt takes that nothing is said about, but never as long as it may."""


class Reply(Struct):
    """How one attempt ends. Fields that are None follow from the others: an exit code from whether it fails, the
    class of a failure from the exit code, outputs from ``stdout`` or else from what the task declares."""

    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    outputs: dict[str, Json] | None = None
    failure: str = ""
    message: str = ""
    takes: float | None = None
    usage: dict[str, Json] = EMPTY
    artifacts: tuple[dict[str, Json], ...] = ()
    done: bool = True
    """Whether the effect took place: what a probe finds, even where the attempt reports a failure."""


class World(Struct):
    """``replies`` gives for a name or pattern one reply per attempt, the last one again for all that follow. ``gates``
    says what a person decides (``approve``, ``reject``, ``expire``, ``wait`` or a mapping). Attempts and gates that
    are not named go well, unless the world is ``strict``."""

    replies: Mapping[str, tuple[Reply, ...]] = EMPTY
    gates: Mapping[str, Json] = EMPTY
    facts: Mapping[str, Json] = EMPTY
    strict: bool = False
    judged: bool = True
    """Whether the criteria of tasks that have replies are judged; the cases that follow from a plan know none."""
    fields: Mapping[str, Mapping[str, str]] = EMPTY
    """The outputs that capabilities give by themselves, with their types, by the name of the capability."""
    read: Mapping[str, Shape] = EMPTY
    """What the plan reads of the outputs of its tasks, by the id of the task."""
    people: bool = True
    """Whether there is anybody to decide gates; without people they are passed."""
    seconds: float = SECONDS
    """How long an attempt takes that nothing is said about."""


def reply_to(world: World, task: Task, attempt: int) -> Reply:
    """The reply that the world has for an attempt."""
    pattern = best(world.replies, task.id)
    if pattern is not None:
        said = world.replies[pattern]
        return said[min(attempt, len(said)) - 1]
    if world.strict:
        return Reply(failure="unmocked", message="the test is strict and says nothing about this task")
    return Reply()


def script(world: World) -> Script:
    """The world as imagined effects ask it."""

    def probe(call: Call) -> str:
        return "completed" if reply_to(world, call.task, call.attempt).done else "retry"

    return Script(
        lambda call: outcome(world, call, reply_to(world, call.task, call.attempt)),
        lambda names: {name: world.facts.get(name) for name in names},
        probe,
        lambda effect: _evidence(world, effect),
    )


def _evidence(world: World, effect: Examine) -> tuple[dict[str, Json], ...]:
    """What is found of the evidence of a gate: nothing against it, unless the case says that it rejects."""
    judges = any(look["kind"] in ("junit", "schema") for look in effect.looks)
    if not judges or best(world.gates, effect.task) is None or decision(world, effect.task, effect.visit) != "reject":
        return ()
    said = f"the case says that `{effect.task}` rejects"
    return ({"kind": "checks", "name": effect.task, "digest": "", "problem": said},)


def outcome(world: World, call: Call, reply: Reply) -> Outcome:
    """A reply as the outcome of a call, by the rules of the real capabilities: exit codes become classes of failures,
    and standard output becomes outputs where the task says so."""
    is_shell = call.task.uses == "shell"
    code = reply.exit_code
    if code is None and is_shell:
        code = 1 if reply.failure else 0
    failure, message = reply.failure, reply.message
    if code and not failure:
        failure, said = _classified(call, code, reply)
        message = message or said
    outputs: dict[str, Json] = {}
    if not failure or (failure == "logic" and code and reads_exit_code(call.task)):  # the criteria may accept the code
        try:
            outputs = _outputs(world, call, reply)
        except Failure as fault:
            failure, message = failure or fault.failure, message or str(fault)
    elif reply.outputs:
        outputs = dict(reply.outputs)
    if failure and not message:
        message = f"exit code {code}" if code else f"the test lets it fail ({failure})"
    took, artifacts = _takes(world, call, reply), _artifacts(call, reply, failure)
    usage = dict(reply.usage)
    return sound(Outcome(failure, message, outputs, code, took, reply.stdout, reply.stderr, artifacts, usage))


def _artifacts(call: Call, reply: Reply, failure: str) -> tuple[dict[str, Json], ...]:
    """Those of the reply, and of an attempt that goes well those that its task declares."""
    named = {artifact["name"] for artifact in reply.artifacts}
    rest = [] if failure else [each for each in call.task.artifacts if each.name not in named]
    return (*reply.artifacts, *({"name": one.name, "path": one.path, "size": 1, "sha256": NO_DIGEST} for one in rest))


NO_DIGEST = "0" * 64
"""The digest of a file that was never written."""


def _takes(world: World, call: Call, reply: Reply) -> float:
    if reply.takes is not None:
        return reply.takes
    ending = [step.after for step in call.task.watchdog if step.do in ("fail", "cancel")]
    limits = [limit for limit in (call.timeout, call.task.timebox, *ending) if limit is not None]
    return min(world.seconds, *(limit / 2 for limit in limits)) if limits else world.seconds


def _classified(call: Call, code: int, reply: Reply) -> tuple[str, str]:
    return of_task(call.task, Exit(code, 0.0, reply.stdout, reply.stderr), bool(call.arguments))


def _outputs(world: World, call: Call, reply: Reply) -> dict[str, Json]:
    task = call.task
    assumed = _assumed(world, task)
    if reply.outputs is not None:
        return {**assumed, **reply.outputs}
    if reply.stdout and task.stdout:
        return {**assumed, **stdout_outputs(task.stdout, reply.stdout, task.outputs)}
    if task.uses == "noop" and "value" in (call.inputs or {}):
        assumed["value"] = call.inputs["value"]
    return assumed


def _assumed(world: World, task: Task) -> dict[str, Json]:
    """The outputs of an attempt that nothing is said about: those that the task declares, those that its capability
    gives, those of its standard output, and those that the plan reads."""
    last = written(task.id).rpartition("/")[2]
    read = world.read.get(last) or Shape()
    given = dict(world.fields.get(task.uses, {}))
    given |= {output.name: output.type for output in task.outputs if output.value is None}
    if task.stdout in ("text", "lines"):
        own = [output.name for output in task.outputs if output.value is None and not output.path]
        given.setdefault(own[0] if len(own) == 1 else "value", "string" if task.stdout == "text" else "list")
    named = {output.name for output in task.outputs}
    given |= {name: "any" for name in read.fields if name not in given and name not in named}
    assumed = {name: placeholder(f"{task.id}.{name}", kind, read.fields.get(name)) for name, kind in given.items()}
    if task.uses == PLANNING:
        assumed["proposes"] = False  # a proposal waits for a person, of whom the world says nothing
    schema = task.inputs.get("schema") if isinstance(task.inputs, dict) else None
    if isinstance(schema, dict) and given.get("json") == "any":
        assumed["json"] = fitting(schema, f"{task.id}.json", read.member("json"))
    return assumed


_PLACEHOLDERS: dict[str, Json] = {
    "int": 0,
    "number": 0,
    "bool": True,
    "duration": 0,
    "size": 0,
    "money": 0,
    "percent": 0,
    "list": [],
    "map": {},
}
_KINDS: dict[str, Any] = {"int": int, "number": (int, float), "bool": bool, "list": list, "map": dict, "string": str}


def placeholder(label: str, kind: str, read: Shape | None) -> Json:
    """The value of an output that nothing is said about: of its type, and with what is read of it."""
    outer = kind.partition("[")[0]
    plain = _PLACEHOLDERS.get(outer, f"<{label}>")
    if read is None:
        return plain
    value = read.value(label)
    if outer in ("any", ""):
        return value
    fits = isinstance(value, _KINDS.get(outer, ())) and isinstance(value, bool) == (outer == "bool")
    return value if fits else plain


def staged(plan: Plan, world: World) -> Plan:
    """The plan as the world can play it.

    Criteria, preconditions, a ``when`` over facts and failure modes of a task are evaluated if the world mentions
    the task or the facts that it reads. Otherwise they are taken to hold: what is not mentioned succeeds. Who
    carries out an instruction in plain words is played by the world as well.
    """
    tasks = tuple(_staged(task, world, "") for task in plan.tasks)
    return plan._replace(tasks=tasks, gated=plan.gated if world.people else ())


def _staged(task: Task, world: World, prefix: str) -> Task:
    path = prefix + task.id
    if task.concluding:
        return task._replace(expect=_concluded(task, world, prefix))
    held = task
    if task.gate is not None and not world.people:
        given = _answers(task.gate, task.outputs)
        held = task._replace(gate=None, uses="noop", run=None, inputs=None, outputs=given)
    named = _addressed(world, path)
    if not (named and world.judged):
        held = held._replace(expect=(), postconditions=(), failure_modes=held.failure_modes if named else ())
    else:
        held = held._replace(expect=_spoken(world, path, held.expect))
    if not all(name in world.facts for name in facts_read(task)):
        reads_facts = task.when is not None and facts_of(task.when)
        held = held._replace(preconditions=(), when=None if reads_facts else task.when)
    held = held._replace(preconditions=tuple(each for each in held.preconditions if each.expression is not None))
    if held.agent is not None:
        held = _played_agent(held)
    if held.sub is not None:
        tasks = tuple(_staged(each, world, path + "/") for each in held.sub.tasks)
        held = held._replace(sub=held.sub._replace(tasks=tasks, gated=held.sub.gated if world.people else ()))
    elif held.loop is not None:
        held = held._replace(loop=_staged_loop(held, world, path))
    elif inner(held):
        held = held._replace(subplan=tuple(_staged(each, world, path + "/") for each in held.subplan))
    if is_container(held) or held.uses or held.gate is not None or _waits(world, path):
        return held
    return held._replace(uses="noop", run=None, inputs=None, steps=(), subplan=())


def _played_agent(task: Task) -> Task:
    """A task of an agent as one that gives what it declares, whatever its model would do."""
    given = tuple(output._replace(value=None) for output in task.outputs)
    return task._replace(agent=None, loop=None, uses="noop", outputs=(*given, Output("rounds", "int")))


def _concluded(task: Task, world: World, prefix: str) -> tuple[Criterion, ...]:
    """The criteria of the plan's ``done`` that the world says enough about: it tells of every task that one reads, or
    of ``done`` itself; criteria in plain words as those of any task."""
    named = _addressed(world, prefix + task.id)

    def is_told(criterion: Criterion) -> bool:
        paths = criterion.expression.paths if criterion.expression is not None else ()
        read = {path[1] for path in paths if path[0] == "tasks" and len(path) > 1}
        return named or all(_addressed(world, prefix + name) for name in read)

    told = tuple(each for each in task.expect if is_told(each)) if world.judged else ()
    return _spoken(world, prefix + task.id, told)


def _answers(gate: Gate, declared: tuple[Output, ...]) -> tuple[Output, ...]:
    """The outputs of a gate that is taken to be approved: the first option, and the form filled with defaults."""
    values: dict[str, Json] = {"decision": "approved", "by": "assumed", "reason": "", "comment": ""}
    if gate.options:
        values["choice"] = gate.options[0].name or "<choice>"
    for field in gate.form:
        example = field.choices[0] if field.choices else _PLACEHOLDERS.get(field.type, f"<{field.name}>")
        values[field.name] = example if field.default is None else field.default
    return (*declared, *(Output(name, value=value) for name, value in values.items()))


def _staged_loop(task: Task, world: World, path: str) -> Loop:
    """The loop; where the world says nothing about what ``until`` asks for, the first round gets there."""
    loop = task.loop
    assert loop is not None
    tasks = tuple(_staged(each, world, path + "/") for each in loop.tasks)
    asked = [name[1] for name in loop.until.paths if name[0] == "tasks" and len(name) > 1] if loop.until else []
    if asked and not any(_addressed(world, f"{path}/{name}") for name in asked):
        return loop._replace(tasks=tasks, until=_TRUE)
    return loop._replace(tasks=tasks)


_TRUE = Expression("true", Tree(("const", 0, 4, True)))


def _spoken(world: World, path: str, criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
    """Criteria in plain words stay where the test says who decides them; else they are taken to hold."""
    if best(world.gates, path) is not None:
        return criteria
    return tuple(each for each in criteria if each.expression is not None)


def _addressed(world: World, path: str) -> bool:
    return any(matches(written(pattern), path) for pattern in (*world.replies, *world.gates))


def _waits(world: World, path: str) -> bool:
    pattern = best(world.gates, path)
    return pattern is not None and world.gates[pattern] == "wait"


def decision(world: World, task: str, visit: int = 1) -> Json:
    """What a person says about a task that waits for the ``visit``-th time; None without an answer."""
    pattern = best(world.gates, task)
    if pattern is None:
        return None if world.strict else "approve"
    said = world.gates[pattern]
    if isinstance(said, (list, tuple)):
        said = said[min(visit, len(said)) - 1]
    return None if said == "wait" else said


class Known(Struct):
    """What is known of the capabilities that a plan names: traits for the machine, and the outputs they give."""

    traits: dict[str, Json]
    fields: dict[str, dict[str, str]]


def known_capabilities(plan: Plan) -> Known:
    """Traits and outputs of the capabilities a plan names, at any depth."""
    registry = Registry()
    traits: dict[str, Json] = {"noop": list(PERSON)}
    fields: dict[str, dict[str, str]] = {}
    for _, task in walk(plan.tasks):
        capability = registry.find(task.uses) if task.uses else None
        if capability is not None:
            traits[task.uses] = [capability.effect, capability.instant, capability.probe]
            fields[task.uses] = {field.name: field.type for field in capability.outputs if task.uses != "noop"}
    return Known(traits, fields)


SAMPLES: dict[str, Json] = {
    "int": 1,
    "number": 1,
    "bool": True,
    "duration": "1s",
    "size": "1B",
    "money": "$1",
    "percent": "1%",
    "list": [],
    "map": {},
}
"""A value of each type, for required inputs that are missing."""


def decided(state: State, number: int, decision: Json) -> Sequence[Event]:
    """The votes of a decision about a task that waits; none for ``expire`` and None, which are not votes.

    Who votes has the roles that the gate asks for; where it needs several, as many say the same.
    """
    gate = state.tasks[number].gate
    if decision is None or gate is None or not gate.waits:
        return ()
    said: Mapping[str, Json] = {"decision": decision} if isinstance(decision, str) else decision
    word = str(said.get("decision", "approve"))
    if word == "expire":
        return ()
    events: list[Event] = []
    for name in _voters(gate, said, 1 if word == "reject" else gate.need):
        vote = Vote(
            gate=state.specs[number].id,
            verdict="reject" if word == "reject" else "approve",
            by=name,
            roles=(str(said["role"]),) if "role" in said else gate.roles,
            reason=str(said.get("comment", "")),
            choice="" if word == "reject" else _choice(gate, said),
            fields={} if word == "reject" else _fields(gate, said),
        )
        events += count(state, vote).events
    return events


def extended(state: State, number: int) -> Sequence[Event]:
    """The extension of every limit that a task waits for, by as much as the waiting tasks need."""
    task_state = state.tasks[number]
    if (task_state.status, task_state.reason) != ("blocked", "budget"):
        return ()
    task = state.specs[number].id
    return [
        BudgetExtended(each.scope, each.what, each.more or each.limit or 1.0, "test")
        for each in wanted(state, state.active_since or 0.0)
        if each.tasks[0] == task
    ]


def lapses(state: State, number: int, decision: Json) -> float | None:
    """When a gate expires that will not be decided (seconds since 1970)."""
    gate = state.tasks[number].gate
    word = decision if isinstance(decision, str) or decision is None else decision.get("decision")
    return gate.expires_at if gate is not None and gate.waits and word == "expire" else None


def _voters(gate: GateState, said: Mapping[str, Json], need: int) -> list[str]:
    named = [str(said["by"])] if "by" in said else list(gate.people)
    missing = need - len(named)
    return [*named, *(f"person {number}" for number in range(1, missing + 1))][:need]


def _choice(gate: GateState, said: Mapping[str, Json]) -> str:
    options = gate.request.get("options") or ()
    return str(said.get("option") or (options[0]["name"] if options else ""))


def _fields(gate: GateState, said: Mapping[str, Json]) -> dict[str, Json]:
    """The answers of the test, and for fields that have to be given a value of their type."""
    given = dict(said.get("values") or {})
    for field in gate.request.get("form") or ():
        if field.get("required") and field["name"] not in given:
            choices = field.get("choices") or ()
            given[field["name"]] = choices[0] if choices else SAMPLES.get(field.get("type", ""), f"<{field['name']}>")
    return given
