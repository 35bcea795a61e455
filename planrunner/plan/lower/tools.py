"""The tools of an agent: which it has at a task, how each is offered to its model, the task that a call is, and what
``calls`` says of it: refuse it, ask a person, tell the model more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from planrunner.plan.agents import (
    ASK,
    UNNAMED,
    Roster,
    Tool,
    Unknown,
    granted,
    idle,
    narrowed,
    tool_names,
    without,
    wordings,
)
from planrunner.plan.files import Fault
from planrunner.plan.lower import values
from planrunner.plan.lower.values import Lowering, condition
from planrunner.plan.model import Capability, Gate, Hook, Output, Param, Plan, Script, Task
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.templated import is_template
from planrunner.plan.templates import references
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

Json = Any

CALL_TIMEOUT = 600.0
"""Seconds that a call may take."""

_HOOKS = ("deny", "ask", "say")
"""What an entry of ``calls`` does with a call."""
_ANY_TOOL = "name a capability, an entry of `tools`, a plan file, or `ask`"
_NARROWING = "a task can only narrow the tools of its agent"


class Toolbox:
    """The tools of one agent at one task."""

    def __init__(self, low: Lowering, definition: dict[str, Json], nodes: dict[str, Node], place: Span) -> None:
        self._low, self._definition, self._nodes, self._place = low, definition, nodes, place
        self._name = str(definition["name"]) or UNNAMED
        self.tools = self._granted()

    def here(self) -> Mapping | None:
        """The definition of the agent where the plan has it: in its task, or under ``agents``."""
        node = self._nodes.get("agent")
        return node if isinstance(node, Mapping) else self._low.declared.get(str(self._definition["name"]))

    def _granted(self) -> list[Tool]:
        """The tools of the agent that the task allows."""
        roster = self._low.roster or Roster()
        words = self._definition.get("tools") or []
        capabilities = self._low.capabilities or {}
        node = self.here()
        inline = node.get("tools") if node is not None else None
        found = self._known(granted(_words(words), roster, capabilities), None, inline)
        own = self._nodes.get("tools")
        if own is not None:
            found = self._known(narrowed(found, values.texts(own)), found, own)
        denied = [*values.texts(self._nodes["denied"])] if "denied" in self._nodes else []
        for word in idle(denied, found, roster, capabilities) if self._low.roster is not None else ():
            self._no_tool(word, None, self._nodes["denied"], "`denied` names tools of the agent")
        said = self._definition.get("denied") or []
        left = without(found, [*_words(said), *denied])
        kept = list({(each.name, each.uses, each.plan, each.agent, each.only): each for each in left}.values())
        plans = {tool.name: self._plan(tool) for tool in kept if tool.fixed and tool.plan}
        _look_over(self._low, self._name, kept, plans, self._place)
        return kept

    def _known(self, tools: Iterable[Tool | Unknown], had: list[Tool] | None, node: Node | None) -> list[Tool]:
        """Those that there are; others are reported at their words in ``node``. ``had`` are those of the agent, where a
        task narrows them."""
        tools = list(tools)
        for each in tools:
            if isinstance(each, Unknown) and self._low.roster is not None:
                self._no_tool(each.word, had, node, _ANY_TOOL if had is None else _NARROWING)
        return [tool for tool in tools if isinstance(tool, Tool)]

    def is_known(self) -> bool:
        """Whether the agent is defined in the task, or by a name that exists."""
        named = self._definition["name"]
        return not named or named in (self._low.roster or Roster()).agents

    def _no_tool(self, word: str, had: list[Tool] | None, node: Node | None, help_: str) -> None:
        """Report a word that names no tool, unless it is one of an agent that is not there."""
        roster = self._low.roster or Roster()
        named = self._definition["name"]
        if not self.is_known():
            return
        way = meant(nearest(word, tool_names(roster, self._low.capabilities or ()) if had is None else wordings(had)))
        whose = f"the agent `{named}` has no tool `{word}`" if named else f"there is no tool `{word}`"
        if node is None:
            whose = f"the agent `{named}` of planrunner.yaml names the tool `{word}`, which does not exist"
            help_ = "`planrunner config check` shows where it stands"
        place = next((each.span for each in scalars(node) if each.value == word), self._place)
        self._low.report("PLAN841", f"{whose}{way}", place, help_)

    def offer(self, tool: Tool) -> dict[str, Json]:
        """The description of a tool for the model."""
        if tool.server:
            return {"name": tool.name, "server": tool.server, "only": list(tool.only), "denied": list(tool.denied)}
        if tool.is_person():
            said = "Ask a person, who answers in words. Ask only what you cannot find out."
            return {"name": ASK, "description": said, "schema": _shape({"question": {"type": "string"}}, ["question"])}
        if tool.agent:
            shape = _shape({"prompt": {"type": "string", "description": "what it is to do, in words"}}, ["prompt"])
            return {"name": tool.name, "description": tool.description or _AGENT.format(tool.agent), "schema": shape}
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

    def task(self, tool: Tool, handed: dict[str, Json], lower: Callable[..., Task]) -> Task | None:
        """The task for a call of a tool. What ``handed`` has of the agent's task holds for it; ``lower`` reads the task
        of an agent that is a tool."""
        policy = self._definition.get("policy")
        made = Task(tool.name, timeout=CALL_TIMEOUT, policy=policy, span=self._place, **handed)
        if tool.server:
            inputs = {"server": tool.server, "tool": _argument("tool"), "arguments": _argument("arguments")}
            return made._replace(uses="mcp.call", inputs=inputs)
        if tool.is_person():
            form = (Param("answer", "string", required=True),)
            return made._replace(timeout=None, gate=Gate("approval", "{{ call.arguments.question }}", form=form))
        if tool.agent:
            plan = self._of_agent(tool, handed, lower)
            if plan is None:
                return None
            return made._replace(timeout=None, sub=plan, params={"prompt": _argument("prompt")})
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

    def _of_agent(self, tool: Tool, handed: dict[str, Json], lower: Callable[..., Task]) -> Plan | None:
        """A plan with one task, which the agent of a tool carries out."""
        around = (*self._low.agents, str(self._definition["name"]))
        if tool.agent in around:
            circle = " -> ".join(f"`{name}`" for name in (*around[around.index(tool.agent) :], tool.agent))
            self._low.report("PLAN113", f"an agent is its own tool: {circle}", self._place, "take one out of `tools`")
            return None
        prompt = Param("prompt", "string", required=True)
        inner = self._low.scope(frozenset({_WORK}))
        inner.params, inner.agents, inner.agent, inner.inside = (prompt,), around, None, True
        said = {"id": _WORK, "agent": tool.agent, "prompt": "{{ params.prompt }}"}
        task = lower(inner, values.tree_at(said, self._place), handed)
        self._check_hooks(tool, task)
        text = Output("text", value=f"{{{{ tasks.{_WORK}.outputs.text }}}}")
        return Plan(tool.name, params=(prompt,), tasks=(task,), outputs=(text,), span=self._place)

    def _check_hooks(self, tool: Tool, task: Task) -> None:
        """Report hooks of an agent that read what it has not where another one calls it: it knows its prompt alone."""
        for hook in task.agent.calls if task.agent is not None else ():
            read = [*hook.when.paths] if hook.when is not None else []
            read += [path for path, _, _ in references(hook.text)] if is_template(hook.text) else []
            for path in read:
                if path[0] != "call" and path[:2] != ("params", "prompt"):
                    message = (
                        f"`calls` of the agent `{tool.agent}` reads `{'.'.join(path)}`, which it has not as a tool"
                    )
                    help_ = "write the value, or put the entry under `calls` of the task"
                    self._low.report("PLAN201", message, self._place, help_)

    def _plan(self, tool: Tool) -> Plan | None:
        links = self._low.links
        own = self.here() is not None and tool.plan in _words(self._definition.get("tools") or [])
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


def _look_over(low: Lowering, agent: str, tools: list[Tool], plans: dict[str, Plan | None], place: Span) -> None:
    """Report what a model would not have: one of two tools with one name, and fixed inputs without effect. ``plans``
    are those of tools with fixed inputs."""
    named: dict[str, Tool] = {}
    for tool in tools:
        other = named.setdefault(tool.name, tool)
        if (other.uses, other.plan, other.server, other.agent) != (tool.uses, tool.plan, tool.server, tool.agent):
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


_WORK = "work"
"""The task of an agent that another one calls."""
_AGENT = "Have the agent `{}` do something. It knows nothing but what you tell it; it answers in words."
_SCRIPT = "Run a command with `sh -c` in the working directory. Gives its exit code and what it printed."
_COMMAND = {
    "type": "object",
    "properties": {"command": {"type": "string", "description": "the command, such as `python -m pytest -q`"}},
    "required": ["command"],
    "additionalProperties": False,
}


def _shape(properties: dict[str, Json], required: list[str]) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _argument(name: str) -> str:
    return f"{{{{ call.arguments.{name} }}}}"


def hooks(low: Lowering, node: Node, tools: list[Tool] | None) -> Iterator[Hook]:
    """The entries of ``calls`` for an agent with these tools; None for an agent that does not exist."""
    for entry in node.items if isinstance(node, Sequence) else [node]:
        if not isinstance(entry, Mapping):
            continue
        said = [name for name in _HOOKS if entry.get(name) is not None]
        word, when = entry.get("tool"), entry.get("when")
        if len(said) != 1:
            what = "two of them" if said else "none of them"
            message = f"an entry of `calls` has one of `deny`, `ask` and `say`, and here are {what}"
            low.report("PLAN004", message, entry.span, "write an entry for each")
            continue
        words = values.texts(word) if word is not None else ("*",)
        met = [*_named(low, word, tools)] if word is not None and tools is not None else tools or []
        if said == ["ask"] and any(each.is_person() for each in met) and words != ("*",):
            help_ = "take it out: the tool `ask` asks a person by itself"
            low.report("PLAN009", "a call of the tool `ask` waits for a person already", entry.span, help_)
        given = condition(low, when) if when is not None else None
        yield Hook(words, given, said[0], values.plain_text(entry.get(said[0]) or entry))  # type: ignore[arg-type]


def _named(low: Lowering, node: Node, tools: list[Tool]) -> Iterator[Tool]:
    """The tools that words name; a word that names none is reported."""
    for word in scalars(node):
        for found in narrowed(tools, [str(word.value)]):
            if isinstance(found, Tool):
                yield found
            elif low.roster is not None:
                way = meant(nearest(found.word, wordings(tools)))
                message = f"the agent has no tool `{found.word}`{way}"
                low.report("PLAN841", message, word.span, "`calls` names tools of the agent")


def scalars(node: Node | None) -> list[Scalar]:
    """One word or a list of words, each at its place."""
    items = node.items if isinstance(node, Sequence) else [node]
    return [each for each in items if isinstance(each, Scalar) and isinstance(each.value, str)]
