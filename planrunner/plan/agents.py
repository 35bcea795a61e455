"""The agents and tools of a project as plans are held to them: definitions, groups, and which tools a task may use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from planrunner.frozen import EMPTY
from planrunner.later import Later
from planrunner.records import Struct

if TYPE_CHECKING:
    from fnmatch import fnmatchcase

    from planrunner.plan.model import Capability, Task
    from planrunner.plan.nearest import meant, nearest
else:
    fnmatchcase = Later("fnmatch:fnmatchcase")
    meant = Later("planrunner.plan.nearest:meant")
    nearest = Later("planrunner.plan.nearest:nearest")


Json = Any

ASKING = "agent.ask"
"""The capability by which an agent asks its model, once a round."""
PLANNING = "agent.plan"
"""The capability that writes plans, and may propose one to its run."""
CRITIQUE = "agent.critique"
"""The capability that reviews work."""
REFLECTION = "reflection"
"""The note of a task that looks back on another one: the id of that, empty for the run."""
CHECK = "check"
"""The task in the rounds of an agent that says whether its work is accepted."""
UNNAMED = "agent"
"""What an agent is called that its task describes itself."""
OF_A_CONVERSATION = ("transcript", "usage", "rounds")
"""Outputs of every task of an agent, which say nothing about its work and which no answer can give."""
_ARGUMENT = "{{ call.arguments."
_RUNS_CODE = frozenset({"python.run", "python.write_tests"})
ASK = "ask"
"""The tool by which a model asks a person."""
ANSWER = "answer"
"""The tool by which a model ends its work, with data that fits the schema of the task."""
MODEL_CHOICES = ("default", "judge", "judging")
"""Keys under ``models`` that are not models: which of them is meant, and what a judgement may use."""
_PLAN = r"[^\0]*\.(?:yaml|yml|json|plan)"


class Roster(Struct):
    """The sections ``agents``, ``tools`` and ``contexts`` of a project by name, as data; the files of instructions that
    they name are read in. ``directory`` is where the plans are that tools name."""

    agents: Mapping[str, Json] = EMPTY
    tools: Mapping[str, Json] = EMPTY
    directory: str = ""
    reflect: Json = None
    """Whether runs and tasks are looked back on, whatever their plans say (``reflect``): False for none, True or a
    mapping for every run; None leaves it to the plans."""
    contexts: Mapping[str, Json] = EMPTY
    models: tuple[str, ...] = ()
    """The names under ``models``."""
    judge: str = ""
    """The model that judges criteria in plain words; empty where people do."""


class Tool(Struct):
    """What a model may call under ``name``: a capability, a plan, another agent, a person (``ask``), or the tools of an
    MCP server, of which ``only`` are patterns. ``fixed`` are inputs that it does not choose. The path of a plan counts
    from ``folder``, empty for that of the plan that names it."""

    name: str
    uses: str = ""
    plan: str = ""
    server: str = ""
    only: tuple[str, ...] = ("*",)
    denied: tuple[str, ...] = ()
    description: str = ""
    fixed: Mapping[str, Json] = EMPTY
    folder: str = ""
    agent: str = ""

    def is_person(self) -> bool:
        """Whether a call asks a person."""
        return not (self.uses or self.plan or self.server or self.agent)


class Unknown(Struct):
    """A word that names no tool."""

    word: str


def granted(words: Iterable[str], roster: Roster, capabilities: Mapping[str, Capability]) -> Iterator[Tool | Unknown]:
    """The tools that words stand for, in their order: names of ``tools``, groups of them, agents, capabilities and
    patterns of capabilities, files of plans, ``ask``, and ``server.tool`` of an MCP server."""
    for word in words:
        found = list(_of_word(word, roster, capabilities, ()))
        yield from (each._replace(folder=roster.directory) if isinstance(each, Tool) else each for each in found)
        if not found:
            yield Unknown(word)


def _of_word(
    word: str, roster: Roster, capabilities: Mapping[str, Capability], around: tuple[str, ...]
) -> Iterator[Tool | Unknown]:
    said = roster.tools.get(word)
    if isinstance(said, list) and word not in around:
        for each in said:
            yield from list(_of_word(str(each), roster, capabilities, (*around, word))) or [Unknown(str(each))]
        return
    if isinstance(said, dict):
        yield _defined(word, said)
        return
    server, dot, tool = word.partition(".")
    behind = roster.tools.get(server)
    if dot and isinstance(behind, dict) and "mcp" in behind:
        whole = _defined(server, behind)
        if _overlaps(whole.only, tool):
            yield whole._replace(only=(tool,))
    elif word == ASK:
        yield Tool(ASK)
    elif word in roster.agents:
        yield Tool(word, agent=word, description=str((roster.agents[word] or {}).get("description", "")))
    elif re.fullmatch(_PLAN, word):
        yield Tool(re.sub(r"[^A-Za-z0-9_-]+", "_", word.rpartition("/")[2].partition(".")[0]), plan=word)
    elif "*" in word:
        yield from (Tool(name, name) for name in capabilities if fnmatchcase(name, word))
    elif capabilities.get(word) is not None:
        yield Tool(word, word)


def _defined(name: str, said: dict[str, Json]) -> Tool:
    only = said.get("tools") or ["*"]
    return Tool(
        name,
        uses=str(said.get("uses", "")),
        plan=str(said.get("plan", "")),
        server=name if "mcp" in said else "",
        only=(only,) if isinstance(only, str) else tuple(map(str, only)),
        description=str(said.get("description", "")),
        fixed=said.get("with") or {},
    )


def narrowed(tools: Iterable[Tool], only: Iterable[str]) -> Iterator[Tool | Unknown]:
    """Those of the tools that the words of a task name, which may be patterns; what they name beside that is unknown,
    since a task never has more than its agent."""
    tools = list(tools)
    for word in only:
        server, dot, inner = word.partition(".")
        fitting = [tool for tool in tools if fnmatchcase(tool.name, word) or (tool.plan and tool.plan == word)]
        within = [tool for tool in tools if dot and tool.server and tool.name == server]
        yield from fitting
        inside = [tool._replace(only=(inner,)) for tool in within if _overlaps(tool.only, inner)]
        yield from inside
        if not (fitting or inside):
            yield Unknown(word)


def _overlaps(patterns: tuple[str, ...], wanted: str) -> bool:
    return any(fnmatchcase(wanted, pattern) or fnmatchcase(pattern, wanted) for pattern in patterns)


def idle(denied: Iterable[str], tools: Iterable[Tool], roster: Roster, known: Mapping[str, Capability]) -> list[str]:
    """The words under ``denied`` that name nothing: no tool of the agent, and nothing that another one could have."""
    tools = list(tools)
    left = (word for word in denied if any(isinstance(each, Unknown) for each in narrowed(tools, [word])))
    return [word for word in left if any(isinstance(each, Unknown) for each in granted([word], roster, known))]


def tool_names(roster: Roster, known: Iterable[str]) -> list[str]:
    """The words that name tools: the capabilities that are known, entries of ``tools``, agents, tools of servers,
    ``ask``."""
    servers = [tool for tool in granted(roster.tools, roster, {}) if isinstance(tool, Tool)]
    return [*known, *roster.tools, *roster.agents, *wordings(servers), ASK]


def wordings(tools: Iterable[Tool]) -> Iterator[str]:
    """The words that tools are named by."""
    for tool in tools:
        yield tool.plan or tool.name
        yield from (f"{tool.name}.{inner}" for inner in tool.only if tool.server and "*" not in inner)


def without(tools: Iterable[Tool], denied: Iterable[str]) -> Iterator[Tool]:
    """The tools but those that the words name."""
    denied = tuple(denied)
    for tool in tools:
        inner = tuple(word.partition(".")[2] for word in denied if tool.server and word.startswith(f"{tool.name}."))
        if not any(fnmatchcase(tool.name, word) or (tool.plan and tool.plan == word) for word in denied):
            yield tool._replace(denied=(*tool.denied, *inner))


_SHORT = {
    "string": {"type": "string"},
    "text": {"type": "string"},
    "int": {"type": "integer"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "boolean": {"type": "boolean"},
    "any": {},
    "list": {"type": "array"},
    "map": {"type": "object"},
}
_WRITTEN_OUT = frozenset({"type", "properties", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "items", "$schema"})


class Unreadable(Exception):
    """A schema in short form that says nothing: the message names the part."""


def schema_of(given: Json) -> dict[str, Json]:
    """The JSON Schema that a task says its answer fits: written out, or short, a mapping from names to types (``bool``,
    ``[string]``, ``{line: int}``, ``high|low``; with ``?`` at the end of its name it may be missing). Raises
    Unreadable."""
    if isinstance(given, dict) and isinstance(given.get("type"), str) and given["type"] == "object":
        return _written_out(given)
    if isinstance(given, dict) and _WRITTEN_OUT & given.keys() and "properties" in given:
        return _written_out({"type": "object", **given})
    if not isinstance(given, dict) or not given:
        raise Unreadable("a schema is a mapping from names to types, such as {approved: bool, issues: [string]}")
    return _object(given, "")


def _written_out(schema: dict[str, Json]) -> dict[str, Json]:
    """The schema, of which the parts that give a task its outputs are as JSON Schema has them."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not _are_schemas(properties):
        raise Unreadable("`properties` of a schema is a mapping from names to schemas")
    if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
        raise Unreadable("`required` of a schema is a list of names")
    return schema


def _are_schemas(said: Json) -> bool:
    """Whether something is a mapping from names to schemas."""
    return isinstance(said, dict) and all(isinstance(each, (dict, bool)) for each in said.values())


def _object(given: dict[str, Json], at: str) -> dict[str, Json]:
    properties = {name.removesuffix("?"): _short(value, f"{at}{name}") for name, value in given.items()}
    required = [name for name in given if not name.endswith("?")]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_JSON_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_SHAPES: dict[str, Callable[[Json], bool]] = {
    "properties": _are_schemas,
    "items": lambda said: isinstance(said, (dict, bool)),
    "$ref": lambda said: isinstance(said, str) and said.startswith("#"),
    "const": lambda said: not isinstance(said, (str, list, dict)),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "enum"), lambda said: isinstance(said, list) and bool(said)),
}
"""What keywords of JSON Schema have in a schema that is written out, where a property of the name would have a type."""


def _is_written_out(given: dict[str, Json]) -> bool:
    """Whether a mapping inside a short schema is JSON Schema, and not one of properties that are named as its
    keywords are: ``{items: [string]}`` has a property ``items``, ``{type: low|high}`` one that is called ``type``."""
    kind = given.get("type")
    if isinstance(kind, list) or (isinstance(kind, str) and kind in _JSON_TYPES):
        return not any(isinstance(said, str) and said in _SHORT for key, said in given.items() if key not in _WORDS)
    return kind is None and any(name in given and fits(given[name]) for name, fits in _SHAPES.items())


_WORDS = frozenset({"type", "title", "description", "$comment", "format", "default", "pattern", "const"})
"""Keywords that may have a word."""


def _short(given: Json, at: str) -> dict[str, Json]:
    if isinstance(given, str):
        word = given.strip()
        if word in _SHORT:
            return dict(_SHORT[word])
        if "|" in word:
            return {"enum": [each.strip() for each in word.split("|")]}
        way = meant(nearest(word, _SHORT))
        known = ", ".join(_SHORT)
        raise Unreadable(f"`{given}` of `{at}` is not a type{way}: write {known}, or `one|two` for a choice")
    if isinstance(given, list) and len(given) == 1:
        return {"type": "array", "items": _short(given[0], f"{at}[]")}
    if isinstance(given, dict):
        return given if _is_written_out(given) else _object(given, f"{at}.")
    raise Unreadable(f"`{at}` has no type: write a word such as string, a list of one such as [string], or a mapping")


def is_chosen(call: Task) -> bool:
    """Whether a model chose the command, or what code is run, of a call that it asked for."""
    if call.uses in _RUNS_CODE:
        return any(isinstance(given, str) and given.startswith(_ARGUMENT) for given in (call.inputs or {}).values())
    return call.run is not None
