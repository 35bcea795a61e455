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
    ASK,
    ASKING,
    CHECK,
    CRITIQUE,
    MODEL_CHOICES,
    OF_A_CONVERSATION,
    UNNAMED,
    Roster,
    Tool,
    Unknown,
    Unreadable,
    granted,
    idle,
    narrowed,
    schema_of,
    tool_names,
    without,
    wordings,
)
from planrunner.plan.contexts import FRESH
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.values import TemplateError
from planrunner.plan.files import Fault
from planrunner.plan.lower import contexts, values
from planrunner.plan.lower.keys import Draft
from planrunner.plan.lower.values import Lowering, condition
from planrunner.plan.model import (
    Agent,
    Capability,
    Expression,
    Fanout,
    Gate,
    Loop,
    Output,
    Param,
    Plan,
    Script,
    Task,
)
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.templates import references
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

Json = Any

KEYS = frozenset({"agent", "prompt", "tools", "denied", "schema", "rounds", "session", "until", "context"})

LONG = "agent.react"
"""The long form of a task with `agent`: a capability with the keys of such a task as its inputs."""
ROUNDS = 30
"""The default number of requests to the model in one attempt."""
SIDE_BY_SIDE = 4
REQUEST_TIMEOUT = 1800.0
"""Seconds for one request to the model, including repairs of its answer and requests to fallback models."""
CALL_TIMEOUT = 600.0
"""Seconds that a call may take."""
_KEYS_OF_AN_AGENT = frozenset(
    {"description", "model", "fallback", "parameters", "effort", "system", "tools", "denied", "context", "memory"}
)


_ACTIONS = frozenset({"run", "uses", "using", "gate", "agent", "loop", "subplan", "command"})
"""Keys of which a task has one, so that it does something."""
_MATERIAL = {"text", "diff", "outputs", "files"}
"""Inputs of a critique that are reviewed; without any as `until` the answer of the agent is."""
_HANDED_DOWN = ("env", "cwd", "shell", "on_doubt")
"""Keys of the task that also apply to the calls of its agent and to the check under ``until``."""


def carried_out(draft: Draft, lower_task: Callable[[Lowering, Mapping, dict[str, Any]], Task]) -> None:
    """Lower the task of a draft to the loop of its agent; ``lower_task`` reads the task under ``until``."""
    nodes, low = draft.nodes, draft.low
    said = definition(low, nodes["agent"])
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
        _check_model(low, node)
        return {"name": "", **dict(_said_here(low, node))}
    name = values.text(node)
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


def _said_here(low: Lowering, node: Mapping) -> Iterator[tuple[str, Json]]:
    """The keys of an agent that a task itself describes, without those that have a value of another kind."""
    for key, value in node.entries:
        name, said = str(key.value), values.data(value)
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
        else:
            kind, fits = "text", isinstance(said, str)
        if fits:
            yield name, said
        else:
            low.report("PLAN005", f"`{name}` of an agent is {kind}, not {shown(said)}", value.span)


def _check_model(low: Lowering, node: Mapping) -> None:
    """Report models that the project does not have of an agent that a task describes.
    Where the project names no models, a run says so before it starts."""
    _check_models(low, (*_scalars(node.get("model")), *_scalars(node.get("fallback"))))


def check_inputs(low: Lowering, uses: str, node: Node | None) -> None:
    """Report the same of the models that the inputs of a capability name."""
    capability = low.capabilities.get(uses) if low.capabilities is not None and low.roster is not None else None
    if capability is None or not isinstance(node, Mapping):
        return
    for _, name, *others in (each.split() for each in capability.preconditions if each.startswith("model ")):
        known = {*MODEL_CHOICES, *others}
        words = [word for word in _scalars(node.get(name)) if isinstance(word.value, str) and "{" not in word.value]
        _check_models(low, [word for word in words if word.value and word.value not in known])


def _check_models(low: Lowering, words: Iterable[Scalar]) -> None:
    models = low.roster.models if low.roster is not None else ()
    for word in words:
        if models and word.value not in models:
            way = meant(nearest(str(word.value), models))
            help_ = "planrunner.yaml has " + ", ".join(f"`{each}`" for each in models[:8])
            low.report("PLAN841", f"there is no model `{word.value}`{way}", word.span, help_)


def _scalars(node: Node | None) -> list[Scalar]:
    """One word or a list of words, each at its place."""
    items = node.items if isinstance(node, Sequence) else [node]
    return [each for each in items if isinstance(each, Scalar) and isinstance(each.value, str)]


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


_ANY_TOOL = "name a capability, an entry of `tools`, a plan file, or `ask`"
_NARROWING = "a task can only narrow the tools of its agent"


class _Agent:
    """One agent at one task."""

    def __init__(self, draft: Draft, definition: dict[str, Json], lower_task: Callable[..., Task]) -> None:
        self._lower = lower_task
        self._low, self._nodes, self._definition = draft.low, draft.nodes, definition
        self._keys = draft.known()
        self._place = draft.span("agent")
        self._handed = {name: draft.fields[name] for name in _HANDED_DOWN if name in draft.fields}
        self.name = str(definition["name"]) or UNNAMED
        self._tools = self._granted()
        self._schema = _answer(self._low, self._nodes.get("schema"))
        until = self._nodes.get("until")
        self._check = self._checked(until) if isinstance(until, Mapping) else None
        context = self._nodes.get("context")
        self._fresh = context is not None and values.text(context) == FRESH
        self._profile = self._given(None if self._fresh else context)
        self._until = condition(draft.low, until) if until is not None and self._check is None else None

    def _given(self, context: Node | None) -> dict[str, Json] | None:
        """The context profile. Files are relative to the working directory of the task."""
        elsewhere = "cwd" in self._handed
        return contexts.profile(self._low, self._definition, contexts.Said(context, self._place, elsewhere))

    def agent(self) -> Agent:
        """The agent with its prompt and session."""
        prompt, session = (values.text(self._nodes[key]) if key in self._nodes else "" for key in ("prompt", "session"))
        return Agent(self.name, prompt, session, self._until, self._fresh)

    def loop(self) -> Loop:
        """The rounds."""
        tasks = [self._calls(), self._model()]
        done = "tasks.model.outputs.done"
        if self._check is not None:
            tasks.append(self._check)
            done = f"{done} and tasks.check.ok"
        elif self._until is not None:
            done = f"{done} and ({self._until.text})"
        rounds = self._nodes.get("rounds")
        most = values.whole(rounds) if rounds is not None else None
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
        return Loop(most or ROUNDS, self._expression(done), tuple(tasks), carry)

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
        tasks = tuple(task for tool in self._tools if (task := self._task(tool)) is not None)
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
            "tools": literal([self._offer(tool) for tool in self._tools]),
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
        again = Task._field_defaults["retry"]._replace(attempts=3, on=("transient",))
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

    def _granted(self) -> list[Tool]:
        """The tools of the agent that the task allows."""
        roster = self._low.roster or Roster()
        words = self._definition.get("tools") or []
        capabilities = self._low.capabilities or {}
        node = self._nodes.get("agent")
        inline = node.get("tools") if isinstance(node, Mapping) else None
        found = self._known(granted(_words(words), roster, capabilities), None, inline)
        own = self._nodes.get("tools")
        if own is not None:
            found = self._known(narrowed(found, values.texts(own)), found, own)
        denied = [*values.texts(self._nodes["denied"])] if "denied" in self._nodes else []
        for word in idle(denied, found, roster, capabilities) if self._low.roster is not None else ():
            self._no_tool(word, None, self._nodes["denied"], "`denied` names tools of the agent")
        said = self._definition.get("denied") or []
        kept = list(
            {
                (tool.name, tool.uses, tool.plan, tool.only): tool for tool in without(found, [*_words(said), *denied])
            }.values()
        )
        plans = {tool.name: self._plan(tool) for tool in kept if tool.fixed and tool.plan}
        _look_over(self._low, self.name, kept, plans, self._place)
        return kept

    def _known(self, tools: Iterable[Tool | Unknown], had: list[Tool] | None, node: Node | None) -> list[Tool]:
        """Those that there are; others are reported at their words in ``node``. ``had`` are those of the agent, where a
        task narrows them."""
        tools = list(tools)
        for each in tools:
            if isinstance(each, Unknown) and self._low.roster is not None:
                self._no_tool(each.word, had, node, _ANY_TOOL if had is None else _NARROWING)
        return [tool for tool in tools if isinstance(tool, Tool)]

    def _no_tool(self, word: str, had: list[Tool] | None, node: Node | None, help_: str) -> None:
        """Report a word that names no tool, unless it is one of an agent that is not there."""
        roster = self._low.roster or Roster()
        named = self._definition["name"]
        if named and named not in roster.agents:
            return
        way = meant(nearest(word, tool_names(roster, self._low.capabilities or ()) if had is None else wordings(had)))
        whose = f"the agent `{named}` has no tool `{word}`" if named else f"there is no tool `{word}`"
        if node is None:
            whose = f"the agent `{named}` of planrunner.yaml names the tool `{word}`, which does not exist"
            help_ = "`planrunner config check` shows where it stands"
        place = next((each.span for each in _scalars(node) if each.value == word), self._place)
        self._low.report("PLAN841", f"{whose}{way}", place, help_)

    def _offer(self, tool: Tool) -> dict[str, Json]:
        """The description of a tool for the model."""
        if tool.server:
            return {"name": tool.name, "server": tool.server, "only": list(tool.only), "denied": list(tool.denied)}
        if tool.is_person():
            said = "Ask a person, who answers in words. Ask only what you cannot find out."
            return {"name": ASK, "description": said, "schema": _shape({"question": {"type": "string"}}, ["question"])}
        if tool.plan:
            plan = self._plan(tool)
            params = plan.params if plan is not None else ()
            said = tool.description or (plan.title or plan.description if plan is not None else "")
            shapes = {each.name: {"description": each.description} for each in params if each.name not in tool.fixed}
            needed = [each.name for each in params if each.required and each.name in shapes]
            return {"name": tool.name, "description": said, "schema": _shape(shapes, needed)}
        found = (self._low.capabilities or {}).get(tool.uses)
        if found is None:
            return {"name": tool.name, "schema": _shape({}, [])}
        said = tool.description or "\n".join(filter(None, (found.summary, found.description)))
        if found.takes_run:
            return {"name": tool.name, "description": said if tool.description else _SCRIPT, "schema": _COMMAND}
        fields = [field for field in found.inputs if field.name not in tool.fixed]
        shapes = {each.name: {**(each.schema or {}), "description": each.description} for each in fields}
        return {
            "name": tool.name,
            "description": said,
            "schema": _shape(shapes, [each.name for each in fields if each.required]),
        }

    def _task(self, tool: Tool) -> Task | None:
        """The task for a call of a tool."""
        policy = self._definition.get("policy")
        made = Task(tool.name, timeout=CALL_TIMEOUT, policy=policy, span=self._place, **self._handed)
        if tool.server:
            inputs = {"server": tool.server, "tool": _argument("tool"), "arguments": _argument("arguments")}
            return made._replace(uses="mcp.call", inputs=inputs)
        if tool.is_person():
            form = (Param("answer", "string", required=True),)
            return made._replace(timeout=None, gate=Gate("approval", "{{ call.arguments.question }}", form=form))
        if tool.plan:
            plan = self._plan(tool)
            if plan is None:
                return None
            params = {each.name: _argument(each.name) for each in plan.params} | dict(tool.fixed)
            return made._replace(timeout=None, subplan_file=tool.plan, sub=plan, params=params)
        found = (self._low.capabilities or {}).get(tool.uses)
        if found is None:
            return None
        if found.takes_run:
            return made._replace(uses=tool.uses, run=_argument("command"), script=Script(""))
        inputs = {each.name: _argument(each.name) for each in found.inputs} | dict(tool.fixed)
        return made._replace(uses=tool.uses, inputs=inputs)

    def _plan(self, tool: Tool) -> Plan | None:
        links = self._low.links
        own = not self._definition["name"] and tool.plan in _words(self._definition.get("tools") or [])
        if links is None:
            return None
        found = links.file_from(tool.folder, tool.plan) if tool.folder and not own else links.find(tool.plan)
        if isinstance(found, Fault):
            elsewhere = found.code == "PLAN111" and tool.folder and not own
            help_ = "paths of tools count from the folder of planrunner.yaml" if elsewhere else found.help
            self._low.report(found.code, found.message, self._place, help_)
            return None
        return found


def _words(given: Json) -> list[str]:
    """One word, or a list of them."""
    return [given] if isinstance(given, str) else [*given]


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


def _look_over(low: Lowering, agent: str, tools: list[Tool], plans: dict[str, Plan | None], place: Span) -> None:
    """Report what a model would not have: one of two tools with one name, and fixed inputs without effect. ``plans``
    are those of tools with fixed inputs."""
    named: dict[str, Tool] = {}
    for tool in tools:
        other = named.setdefault(tool.name, tool)
        if (other.uses, other.plan, other.server) != (tool.uses, tool.plan, tool.server):
            whose = "the agent" if agent == UNNAMED else f"the agent `{agent}`"
            message = f"{whose} has two tools that are called `{tool.name}`"
            help_ = f"give one another name under `tools` of planrunner.yaml: `other: {{plan: {tool.plan or 'FILE'}}}`"
            low.report("PLAN841", message, place, help_)
        for name in _idle(tool, (low.capabilities or {}).get(tool.uses), plans.get(tool.name)):
            message = f"`{name}` in `with` of the tool `{tool.name}` has no effect: it has no such input to fix"
            low.report("PLAN009", message, place, f"remove `{name}` from `with`")


def _idle(tool: Tool, capability: Capability | None, plan: Plan | None) -> list[str]:
    """The fixed inputs of a tool that it does not take."""
    if capability is None and plan is None:
        return []
    inputs = {each.name for each in plan.params} if plan is not None else set()
    if capability is not None and not capability.takes_run:
        inputs = {each.name for each in capability.inputs}
    return [name for name in tool.fixed if name not in inputs]


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


_SCRIPT = "Run a command with `sh -c` in the working directory. Gives its exit code and what it printed."
_COMMAND = {
    "type": "object",
    "properties": {"command": {"type": "string", "description": "the command, such as `python -m pytest -q`"}},
    "required": ["command"],
    "additionalProperties": False,
}


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


def _shape(properties: dict[str, Json], required: list[str]) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _argument(name: str) -> str:
    return f"{{{{ call.arguments.{name} }}}}"
