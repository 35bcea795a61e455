"""Lowers a task with `agent` to a loop: ask the model, make the calls that it requests, ask again.

A round makes the calls of the reply before, each a task of its own under the policy, budgets and gates of any task, and
then asks the model, with what they gave. The model ends it with an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from planrunner.jsontext import shown
from planrunner.plan.agents import (
    ASKING,
    CHECK,
    CRITIQUE,
    MODEL_CHOICES,
    OF_A_CONVERSATION,
    UNNAMED,
    Roster,
    Unreadable,
    schema_of,
)
from planrunner.plan.contexts import FRESH
from planrunner.plan.expressions.parse import parse
from planrunner.plan.keys import named
from planrunner.plan.lower import contexts, instructions, values
from planrunner.plan.lower.keys import Draft
from planrunner.plan.lower.tools import CALL_TIMEOUT, Toolbox, hooks, scalars
from planrunner.plan.lower.values import Lowering, condition
from planrunner.plan.model import Agent, Expression, Fanout, Hook, Loop, Output, Retry, Task
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.shapes import keys_of
from planrunner.plan.templated import TemplateError, holds_template
from planrunner.plan.templates import references
from planrunner.syntax.tree import Mapping, Node

Json = Any

KEYS = named("agent")

LONG = "agent.react"
"""The long form of a task with `agent`: a capability with the keys of such a task as its inputs."""
ROUNDS = 30
"""The default number of requests to the model in one attempt, or for each of its tries."""
MOST_ROUNDS = 1000
SIDE_BY_SIDE = 4
REQUEST_TIMEOUT = 1800.0
"""Seconds for one request to the model, including repairs of its answer and requests to fallback models."""
_KEYS_OF_AN_AGENT = keys_of("agent") - {"policy"}
"""What a task says of an agent that it describes: its policy is that of the task."""


_ACTIONS = frozenset({"run", "uses", "using", "gate", "agent", "loop", "subplan", "command"})
"""Keys of which a task has one, so that it does something."""
_MATERIAL = {"text", "diff", "outputs", "files"}
"""Inputs of a critique that are reviewed; without any as `until` the answer of the agent is."""
_HANDED_DOWN = named("agent", "hands")
"""Keys of the task that also apply to the calls of its agent and to the check under ``until``."""


def carried_out(draft: Draft, lower_task: Callable[[Lowering, Mapping, dict[str, Any]], Task]) -> None:
    """Lower the task of a draft to the loop of its agent; ``lower_task`` reads the task under ``until``."""
    nodes, low = draft.nodes, draft.low
    said = definition(low, nodes["agent"])
    for key in ("model", "effort"):
        if key in nodes:
            said[key] = values.text(nodes[key])
    check_models(low, nodes.get("model"))
    if "prompt" not in nodes:
        help_ = "add the instructions: `prompt: …`"
        low.report("PLAN004", "a task with `agent` needs `prompt`", draft.span("agent"), help_)
    made = _Agent(draft, said, lower_task)
    draft.fields["agent"] = made.agent()
    draft.fields["loop"] = made.loop()
    draft.fields["outputs"] = (*draft.fields.get("outputs", ()), *made.outputs())


def read_long(draft: Draft, given: Node | None) -> None:
    """Read a task that says `uses: agent.react` as one with `agent`."""
    del draft.fields["uses"]
    draft.fields.pop("inputs", None)
    entries = given.entries if isinstance(given, Mapping) else []
    for key, _ in entries:
        if key.value not in KEYS:
            way = meant(nearest(str(key.value), KEYS))
            draft.low.report("PLAN003", f"`{LONG}` has no input `{key.value}`{way}", key.span)
    draft.read([entry for entry in entries if entry[0].value in KEYS])
    if "agent" not in draft.nodes:
        draft.low.report("PLAN004", f"`{LONG}` needs the input `agent`", draft.span("uses"))


def definition(low: Lowering, node: Node) -> dict[str, Json]:
    """The definition of the agent, from the project or from the task itself."""
    if isinstance(node, Mapping):
        for key, _ in node.entries:
            if key.value not in _KEYS_OF_AN_AGENT:
                way = meant(nearest(str(key.value), _KEYS_OF_AN_AGENT))
                help_ = "write `policy` on the task" if key.value == "policy" else ""
                low.report("PLAN003", f"an agent has no key `{key.value}`{way}", key.span, help_)
        check_models(low, node.get("model"), node.get("fallback"))
        return {"name": "", **dict(_said_here(low, node))}
    name = values.text(node)
    low.hired.add(name)
    if low.roster is None:
        return {"name": name}
    found = low.roster.agents.get(name)
    if found is None:
        way = meant(nearest(name, low.roster.agents))
        known = ", ".join(f"`{each}`" for each in list(low.roster.agents)[:8])
        help_ = f"planrunner.yaml has {known}" if known else "planrunner.yaml has no section `agents`"
        low.report("PLAN841", f"there is no agent `{name}`{way}", node.span, help_)
    return {"name": name, **(found or {})}


_EFFORTS = ("none", "low", "medium", "high")


def declared(low: Lowering, node: Node | None) -> Roster | None:
    """The agents of the project, and over them those of the plan (``agents``), whose policy stands beside them."""
    entries = node.entries if isinstance(node, Mapping) and low.roster is not None else []
    own: dict[str, Json] = {}
    for key, said in entries:
        if isinstance(said, Mapping):
            low.declared[str(key.value)] = said
            check_models(low, said.get("model"), said.get("fallback"))
            policy = said.get("policy")
            own[str(key.value)] = {
                **dict(_said_here(low, said)),
                **({"policy": values.data(policy)} if policy is not None else {}),
            }
    return low.roster if low.roster is None else low.roster._replace(agents={**low.roster.agents, **own})


def report_idle(low: Lowering, node: Node | None) -> None:
    """Report agents of a plan that nothing in it uses."""
    for key, _ in node.entries if isinstance(node, Mapping) and low.roster is not None else ():
        if str(key.value) not in low.hired:
            message = f"no task uses the agent `{key.value}`, nor does another agent have it as a tool"
            low.report("PLAN021", message, key.span, "name it under `agent` or `tools`, or take it out")


def _said_here(low: Lowering, node: Mapping) -> Iterator[tuple[str, Json]]:
    """The keys of an agent that a plan describes, without those that have a value of another kind."""
    for key, value in node.entries:
        name, said = str(key.value), values.data(value)
        if name == "system" and instructions.fits(said):
            said = values.data(instructions.whole(low, value))
        if name not in _KEYS_OF_AN_AGENT:
            continue
        if name in ("fallback", "tools", "denied", "memory"):
            said = [said] if isinstance(said, str) else said
            kind = "a name, or a list of them"
            fits = isinstance(said, list) and all(isinstance(each, str) for each in said)
        elif name in ("parameters", "context"):
            kind = "a mapping" if name == "parameters" else "the name of a profile, or a mapping"
            fits = isinstance(said, dict) or (name == "context" and isinstance(said, str))
        elif name == "effort":
            kind, fits = f"one of {', '.join(_EFFORTS)}", said in _EFFORTS
        elif name == "calls":
            kind, fits = "a list of entries", isinstance(said, list)
        elif name == "system":
            kind, fits = instructions.SAID, isinstance(said, str)
        else:
            kind, fits = "text", isinstance(said, str)
        if fits:
            yield name, said
        else:
            low.report("PLAN005", f"`{name}` of an agent is {kind}, not {shown(said)}", value.span)


def check_models(low: Lowering, *nodes: Node | None) -> None:
    """Report models that the project does not have. Where it names none, a run says so before it starts."""
    models = low.roster.models if low.roster is not None else ()
    for word in [each for node in nodes for each in scalars(node)]:
        if models and word.value not in (*models, "") and not holds_template(word.value):
            way = meant(nearest(str(word.value), models))
            help_ = "planrunner.yaml has " + ", ".join(f"`{each}`" for each in models[:8])
            low.report("PLAN841", f"there is no model `{word.value}`{way}", word.span, help_)


def check_model_inputs(low: Lowering, uses: str, given: Node | None) -> None:
    """Report models that the project does not have in the inputs of a capability that takes the name of one."""
    found = (low.capabilities or {}).get(uses)
    if found is None or not isinstance(given, Mapping):
        return
    for line in found.preconditions:
        kind, name, *others = line.split()
        words = [each for each in scalars(given.get(name)) if each.value not in (*MODEL_CHOICES, *others)]
        if kind == "model":
            check_models(low, *words)


def is_task(low: Lowering, key: str, node: Mapping, known: Iterable[str], others: str) -> bool:
    """Whether a mapping is a task: reports keys that no task has, and one that does nothing."""
    known = tuple(known)
    unknown = [name for name, _ in node.entries if name.value not in known]
    for name in unknown:
        way = meant(nearest(str(name.value), known))
        low.report("PLAN003", f"the task of `{key}` has no key `{name.value}`{way}", name.span)
    if not unknown and _ACTIONS.isdisjoint(str(name.value) for name, _ in node.entries):
        low.report("PLAN004", f"`{key}` is a task that does nothing", node.span, f"write {others}")
        return False
    return not unknown


def _acting(low: Lowering, until: Mapping, known: tuple[str, ...], made: Task) -> Task:
    """The task under ``until``. One whose action is misspelt or missing, which is reported, is not left to people."""
    does = is_task(low, "until", until, known, "`until: {run: pytest -q}` or `until: outputs.approved`")
    return made if does or made.uses or made.gate is not None else made._replace(uses="noop")


class _Agent:
    """One agent at one task."""

    def __init__(self, draft: Draft, definition: dict[str, Json], lower_task: Callable[..., Task]) -> None:
        self._lower = lower_task
        self._low, self._nodes, self._definition = draft.low, draft.nodes, definition
        self._keys = draft.known()
        self._place = draft.span("agent")
        self._handed = {name: draft.fields[name] for name in _HANDED_DOWN if name in draft.fields}
        self.name = str(definition["name"]) or UNNAMED
        self._box = Toolbox(self._low, definition, self._nodes, self._place)
        self._schema = _answer(self._low, self._nodes.get("schema"))
        until = self._nodes.get("until")
        self._check = self._checked(until) if isinstance(until, Mapping) else None
        context = self._nodes.get("context")
        self._fresh = context is not None and values.text(context) == FRESH
        self._profile = self._given(None if self._fresh else context)
        self._until = condition(draft.low, until) if until is not None and self._check is None else None
        self._tries = self._bound("tries")
        if "tries" in self._nodes and until is None:
            help_ = "add `until: …`, or take `tries` out: `rounds` bounds the requests to the model"
            self._low.report("PLAN004", "`tries` of a task needs `until`", draft.span("tries"), help_)
        self._hooks = self._hooked()

    def _bound(self, key: str) -> int:
        node = self._nodes.get(key)
        return (values.whole(node) if node is not None else 0) or 0

    def _hooked(self) -> tuple[Hook, ...]:
        """What is said of the calls: by the agent first, then by the task, which can add to it alone."""
        own, node = self._definition.get("calls"), self._box.here()
        inline = node.get("calls") if node is not None else None
        quiet = Lowering([], links=self._low.links)  # what the project says of its agents, `config check` reports
        said = inline if inline is not None else values.tree_at(literal(own), self._place) if own else None
        low = quiet if inline is None else self._low
        found = [*hooks(low, said, self._box.tools)] if said is not None else []
        if "calls" in self._nodes:
            found += hooks(self._low, self._nodes["calls"], self._box.tools if self._box.is_known() else None)
        return tuple(found)

    def _given(self, context: Node | None) -> dict[str, Json] | None:
        """The context profile. Files are relative to the working directory of the task."""
        elsewhere = "cwd" in self._handed
        return contexts.profile(self._low, self._definition, contexts.Said(context, self._place, elsewhere))

    def agent(self) -> Agent:
        """The agent with its prompt and session."""
        prompt, session = (values.text(self._nodes[key]) if key in self._nodes else "" for key in ("prompt", "session"))
        return Agent(self.name, prompt, session, self._until, self._fresh, self._tries, self._hooks)

    def loop(self) -> Loop:
        """The rounds."""
        tasks = [self._calls(), self._model()]
        done = "tasks.model.outputs.done"
        if self._check is not None:
            tasks.append(self._check)
            done = f"{done} and tasks.check.ok"
        elif self._until is not None:
            done = f"{done} and ({self._until.text})"
        most = self._bound("rounds") or min(ROUNDS * max(self._tries, 1), MOST_ROUNDS)
        prompt = values.data(self._nodes["prompt"]) if "prompt" in self._nodes else ""
        carry: dict[str, Json] = {
            "calls": {"first": [], "next": "{{ tasks.model.outputs.calls }}"},
            "transcript": {"first": "", "next": "{{ tasks.model.outputs.transcript }}"},
            "used": {"first": {}, "next": "{{ tasks.model.outputs.usage }}"},
            "prompt": {"first": prompt, "next": ""},
            "objections": {"first": _objections(self._nodes.get("prompt")), "next": []},
        }
        if self._check is not None:
            carry["check"] = {"first": "", "next": f"{{{{ {_PRINTED} }}}}"}
        if self._fresh:
            answered = "tasks.model.outputs.done"
            carry["task"] = {"first": prompt, "next": "{{ carry.task }}"}
            carry["prompt"]["next"] = f"{{{{ carry.task if {answered} else '' }}}}"
            carry["objections"]["next"] = [f"{{{{ {_PRINTED} }}}}"] if self._check is not None else []
            carry["transcript"]["next"] = f"{{{{ '' if {answered} else tasks.model.outputs.transcript }}}}"
        if self._tries:
            carry["tries"] = {"first": 0, "next": "{{ carry.tries + (1 if tasks.model.outputs.done else 0) }}"}
        return Loop(most, self._expression(done), tuple(tasks), carry)

    def outputs(self) -> tuple[Output, ...]:
        """The outputs of the task: the properties of its answer, or its text."""
        given = "{{ tasks.model.outputs.%s }}"
        always = [Output(name, value=given % name) for name in ("text", "transcript", "usage")]
        if self._schema is None:
            return tuple(always)
        answer = "{{ default(tasks.model.outputs.answer['%s'], none) }}"
        required = self._schema.get("required", ())
        named = [
            Output(name, _type(said) if name in required else "any", answer % name)
            for name, said in self._schema.get("properties", {}).items()
        ]
        return (*named, *always[1:])

    def _calls(self) -> Task:
        """The calls that the last reply requests, each as the task of its tool."""
        tasks = tuple(
            task for tool in self._box.tools if (task := self._box.task(tool, self._handed, self._lower)) is not None
        )
        fanout = Fanout(
            foreach=self._expression("carry.calls"),
            name="call",
            max_parallel=SIDE_BY_SIDE,
            tolerate="100%",
            tools=tasks,
        )
        return Task("calls", uses="noop", fanout=fanout, span=self._place)

    def _model(self) -> Task:
        inputs: dict[str, Json] = {
            "agent": self.name,
            "prompt": "{{ carry.prompt }}",
            "objections": "{{ carry.objections }}",
            "transcript": "{{ carry.transcript }}",
            "used": "{{ carry.used }}",
            "results": "{{ tasks.calls.items }}",
            "last": "{{ loop.round == loop.max }}",
            "tools": literal([self._box.offer(tool) for tool in self._box.tools]),
        }
        for key in ("model", "fallback", "parameters", "effort", "system"):
            if self._definition.get(key) is not None:
                inputs[key] = literal(self._definition[key])
        if self._profile is not None:
            inputs["profile"] = literal(self._profile)
            inputs["around"] = "{{ around if carry.prompt != '' else none }}"
        if self._schema is not None:
            inputs["schema"] = literal(self._schema)
        if self._check is not None:
            inputs["until"] = "{{ carry.check }}"
        elif self._until is not None:
            inputs["until"] = literal(self._until.text)
        if self._tries and "until" in inputs:
            inputs["until"] += f"\nThat was try {{{{ carry.tries }}}} of {self._tries}."
        if self._hooks:
            inputs["hooks"] = [_hook(each) for each in self._hooks]
            if any(path[0] == "params" for each in self._hooks if each.when is not None for path in each.when.paths):
                inputs["params"] = "{{ params }}"
        again = Retry(attempts=3, on=("transient",))
        return Task(
            "model",
            uses=ASKING,
            inputs=inputs,
            needs=("calls",),
            retry=again,
            timeout=REQUEST_TIMEOUT,
            span=self._place,
            **{name: given for name, given in self._handed.items() if name == "cwd"},
        )

    def _checked(self, until: Mapping) -> Task:
        """The task under ``until``: the work is accepted if it succeeds."""
        inner = self._low.scope(frozenset({"calls", "model"}), frozenset({"loop", "carry"}))
        inner.inside = True
        made = _acting(self._low, until, self._keys, self._lower(inner, until, self._handed))
        if made.uses == CRITIQUE and not _MATERIAL & (made.inputs or {}).keys():
            given = {"text": "{{ tasks.model.outputs.text }}", "outputs": "{{ tasks.model.outputs.answer }}"}
            made = made._replace(inputs={**given, **(made.inputs or {})})
        when = self._expression("tasks.model.outputs.done")
        limit = made.timeout or CALL_TIMEOUT
        return made._replace(id=CHECK, needs=("model",), when=when, allow_failure=True, timeout=limit, span=until.span)

    def _expression(self, text: str) -> Expression:
        return parse(text)._replace(span=self._place)


def _answer(low: Lowering, node: Node | None) -> dict[str, Json] | None:
    """The schema that the answer has to fit."""
    if node is None:
        return None
    given = values.data(node)
    try:
        schema = schema_of(given)
    except Unreadable as error:
        low.report("PLAN006", str(error), node.span)
        names = [str(name).removesuffix("?") for name in given] if isinstance(given, dict) else []
        return {"type": "object", "properties": {name: {} for name in names}}  # what reads them is not at fault
    for name in schema.get("properties", {}):
        if not name or _UNSAYABLE.search(name):
            help_ = "a name is not empty, and has no quotes, braces or backslashes"
            low.report("PLAN006", f"a property of an answer cannot be named `{name}`", node.span, help_)
    for name in sorted(schema.get("properties", {}).keys() & OF_A_CONVERSATION):
        help_ = f"give the property another name, such as `own_{name}`"
        low.report("PLAN006", f"every task with `agent` has an output `{name}` already", node.span, help_)
    return schema


def _objections(node: Node | None) -> list[str]:
    """The reasons why the last work was not accepted, except those that the prompt contains itself."""
    prompt = str(values.data(node)) if node is not None else ""
    return [f"{{{{ {path} }}}}" for path in _OBJECTIONS if path.partition(".")[0] not in _names_read(prompt)]


_PARTS = ("message", "stdout", "stderr")
_SAID, _OUT, _ERR = (f"default(tasks.check.{name}, '')" for name in _PARTS)
_PRINTED = f"({_SAID} if {_SAID} != '' else tasks.check.reason) + '\\n' + {_OUT} + '\\n' + {_ERR}"
"""What the check of the work says: there is no message where an expectation of it is not met, or a crash cut it off."""

_OBJECTIONS = ("retry.reason", "rework.objection")
"""Why the last attempt was not accepted, and why the task was sent back."""


def _names_read(template: str) -> set[str]:
    """The first parts of the names that a text reads; none of a text that is not sound, which lint reports."""
    try:
        return {path[0] for path, _, _ in references(template)}
    except TemplateError:
        return set()


_UNSAYABLE = re.compile(r"['\"{}\\\x00-\x1f]")
"""What a name has that no expression reads."""
_TYPES = {"string": "string", "integer": "int", "number": "number", "boolean": "bool", "array": "list", "object": "map"}


def _type(schema: Json) -> str:
    """The type of the plan language for data that fits a schema."""
    said = schema.get("type") if isinstance(schema, dict) else None
    return _TYPES.get(said, "any") if isinstance(said, str) else "any"


def literal(value: Json) -> Json:
    """Data as templates that give it as it is."""
    if isinstance(value, str):
        return re.sub(r"\{[{%#]", lambda found: "{{ '" + found[0] + "' }}", value)
    if isinstance(value, list):
        return [literal(each) for each in value]
    if isinstance(value, dict):
        return {name: literal(each) for name, each in value.items()}
    return value


def _hook(hook: Hook) -> dict[str, Json]:
    """What a request is given of a hook: its text is a template, its condition is not."""
    when = "" if hook.when is None else literal(hook.when.text.strip())
    return {"tools": list(hook.tools), "when": when, "does": hook.does, "text": hook.text}
