"""A tool as a client sees it and as it is carried out, and the arguments of a call checked against its schema."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator

from planrunner.app.runs.host import Host
from planrunner.errors import UsageError
from planrunner.files.match import name_matches
from planrunner.jsontext import shown
from planrunner.plan.nearest import nearest
from planrunner.records import Struct
from planrunner.safety.trust import own_settings

Json = Any

ACTIONS = ("start", "pause", "resume", "cancel", "retry", "rerun", "revise")
"""The tools that act on runs. The settings of a project say which of them a client gets."""


class Site(Struct):
    """The project of a server: its directory and state directory, both absolute. Calls of capabilities run in the
    ``host``; ``work`` sees to it that the queue is worked off."""

    root: str
    state: str
    host: Host
    work: Callable[[], object]


class Offer(Struct):
    """The section ``mcp`` of the settings: the ``actions`` that clients get, and patterns of the names of the
    ``capabilities`` that they may call."""

    actions: tuple[str, ...] = ("start",)
    capabilities: tuple[str, ...] = ()

    def has_capability(self, name: str) -> bool:
        """Whether a capability is named here."""
        return any(name_matches(pattern, name) for pattern in self.capabilities)


Act = Callable[[Site, dict[str, Json]], dict[str, Json]]


class Tool(Struct):
    """A tool: what a model reads of it, the JSON Schema of its arguments, and the function that carries it out, which
    gives a document. ``reads`` says that it changes nothing, ``destroys`` that it may undo or overwrite work."""

    name: str
    title: str
    description: str
    schema: dict[str, Json]
    act: Act
    reads: bool = True
    destroys: bool = False


def declare(
    tools: list[Tool], title: str, description: str, schema: dict[str, Json], reads: bool = True, destroys: bool = False
) -> Callable[[Act], Act]:
    """Adds the tool of a function's name, which carries it out."""

    def declared(act: Act) -> Act:
        tools.append(Tool(act.__name__.strip("_"), title, description, schema, act, reads, destroys))
        return act

    return declared


def offer(root: str) -> Offer:
    """What the settings of a project offer; those of another user offer nothing more than without any. Raises as
    ``read_data``."""
    section = own_settings(root).get("mcp") or {}
    plain = Offer()
    return Offer(tuple(section.get("actions", plain.actions)), tuple(section.get("capabilities", plain.capabilities)))


def arguments_of(required: str, /, **properties: dict[str, Json]) -> dict[str, Json]:
    """The schema of arguments by name; ``required`` are the names that must be there, between spaces."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def text(description: str, **more: Json) -> dict[str, Json]:
    """The schema of a text."""
    return {"type": "string", "description": description, **more}


def texts(description: str) -> dict[str, Json]:
    """The schema of a list of texts."""
    return {"type": "array", "items": {"type": "string"}, "maxItems": 1000, "description": description}


def number(description: str, least: int, most: int, default: int) -> dict[str, Json]:
    """The schema of a whole number."""
    return {"type": "integer", "minimum": least, "maximum": most, "default": default, "description": description}


def flag(description: str) -> dict[str, Json]:
    """The schema of a choice that is false where nothing is said."""
    return {"type": "boolean", "default": False, "description": description}


OPTIONAL = {"default": None, "type": ["integer", "null"]}
"""Makes a number one that need not be said."""
RUN = text("the id of the run, the start of one, or `last`", default="last")
PLAN = text("path of a plan from the directory of the project, or the name of one in `plans/`")
PARAMS = {"type": "object", "description": "values of the parameters of the plan, by name"}
PART = {
    "plan": PLAN,
    "params": PARAMS,
    "only": texts("run these tasks only"),
    "until": texts("run these tasks and what they need"),
}
"""What of a plan is run, and with which values."""


def check_arguments(tool: Tool, given: Mapping[str, Json]) -> dict[str, Json]:
    """The arguments with defaults in place. Raises UsageError for any that the schema does not take."""
    problems = [*_problems(tool, given)]
    if problems:
        raise UsageError(f"`{tool.name}`: {'; '.join(problems[:5])}")
    defaults = {name: each["default"] for name, each in tool.schema["properties"].items() if "default" in each}
    return {**defaults, **given} if tool.schema.get("additionalProperties") is False else dict(given)


def _problems(tool: Tool, given: Mapping[str, Json]) -> Iterator[str]:
    known, open_ = tool.schema.get("properties", {}), tool.schema.get("additionalProperties") is not False
    unknown = [] if open_ else [name for name in given if name not in known]
    for name in unknown:
        near = nearest(name, known)
        yield f"no argument `{name}`" + (f", did you mean `{near}`?" if near else f"; it takes {', '.join(known)}")
    missing = [name for name in tool.schema.get("required", ()) if name not in given]
    yield from (f"the argument `{name}` is missing" for name in missing)
    if unknown or missing:
        return
    for error in Draft202012Validator(tool.schema).iter_errors(dict(given)):
        place = ".".join(map(str, error.absolute_path))
        yield f"`{place}` {shown(error.instance, 60)} does not fit: {_wanted(error.validator, error.validator_value)}"


def _wanted(rule: Json, value: Json) -> str:
    """What a rule of a schema asks for, in words."""
    if rule == "type":
        return f"it takes {value if isinstance(value, str) else ' or '.join(value)}"
    words = {"minimum": "at least", "maximum": "at most", "enum": "one of", "maxItems": "at most so many items:"}
    listed = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{words.get(str(rule), str(rule))} {listed}"


def inside(site: Site, path: str) -> str:
    """A path of the project, links followed. Raises UsageError for one that leads out of it: a client sees no files
    but those of the project."""
    home = os.path.realpath(site.root)
    real = os.path.realpath(os.path.join(home, path))
    if "\0" in path or os.path.commonpath([home, real]) != home:
        raise UsageError(f"`{path}` lies outside the project")
    return real
