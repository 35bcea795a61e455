"""``mcp.tools``: the tools of a server. Names, descriptions and schemas are the server's own and untrusted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.mcp.connection import Connection, connected
from planrunner.capabilities.mcp.servers import chosen
from planrunner.capabilities.outputs import count_call
from planrunner.escapes import tame

Json = Any

MOST = 100
"""Tools of one server that are handed on: providers of models take little more."""
LONGEST = 2_000
"""Characters of a description."""
LARGEST_SCHEMA = 30_000
"""Characters of the schema of a tool."""
DEEPEST = 30
"""Levels of it."""
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


class Tool(NamedTuple):
    """A tool as a plan and a model are told of it."""

    name: str
    description: str
    schema: dict[str, Json]


class Listed(NamedTuple):
    """What a server has."""

    tools: Annotated[list[dict[str, Any]], Doc("tools of the server: {name, description, schema}")]


@capability(
    "mcp.tools",
    effect="read",
    risks=("starts the program of the server", "connects to the address of the server, over the network"),
    spends=("calls",),
    foreign=("*",),
    preconditions=("package mcp mcp", "server server"),
)
def tools(
    context: Context,
    server: Annotated[str, Doc("the MCP server, an entry of `tools` in planrunner.yaml", use="capability")],
) -> Listed:
    """List the tools of an MCP server, with their descriptions and schemas up to a bounded length."""
    count_call(context)
    return Listed([tool._asdict() for tool in listed(context, server)])


def listed(context: Context, name: str, only: Sequence[str] = ("*",), denied: Sequence[str] = ()) -> list[Tool]:
    """The tools of a server that the project lets plans use, of these those that ``only`` fits and ``denied`` does not.
    Raises Failure, also where there are too many for a model."""
    server = chosen(context, name)
    names = [
        tool
        for tool in known(context, connected(context, server))
        if server.has(tool.name) and _fits(tool.name, only) and not _fits(tool.name, denied)
    ]
    if len(names) > MOST:
        said = f"the server `{name}` has {len(names)} tools, and {MOST} are the most: choose some of them"
        raise Failure(f"{said}, such as `tools: {{{name}: {{mcp: …, tools: [{names[0].name}]}}}}`")
    return names


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def known(context: Context, connection: Connection, again: bool = False) -> list[Tool]:
    """All tools of a server, asked for once as long as it does not say that they have changed. Raises Failure."""
    found = connection.tools
    if found is None or again:
        name = connection.server.name
        found = connection.tools = list(_read(context, name, connection.ask(context, lambda session: session.tools())))
    return found


def _read(context: Context, server: str, given: list[Any]) -> Iterator[Tool]:
    for tool in given:
        why = _unfit(tool)
        if why:
            context.log.write(f"left out a tool of the server `{server}`: {why}\n".encode(), "stderr")
        else:
            words = plain(tool.description or tool.title or "", LONGEST)
            yield Tool(tool.name, words, _plain_schema(tool.input_schema))


def _unfit(tool: Any) -> str:
    if not _NAME.fullmatch(tool.name):
        return f"its name {json.dumps(tool.name[:80])} is not one of letters, digits, `_`, `-`, `.` and `/`"
    try:
        if len(json.dumps(tool.input_schema)) > LARGEST_SCHEMA or _depth(tool.input_schema) > DEEPEST:
            return f"the schema of `{tool.name}` is too large"
    except (ValueError, RecursionError):
        return f"the schema of `{tool.name}` is not JSON"
    return ""


def _depth(value: Json) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def plain(text: str, longest: int) -> str:
    """Words of a server: without what a terminal or a reader would not see, cut where they are too long."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", tame(text))
    return text if len(text) <= longest else f"{text[:longest]} […]"


def _plain_schema(value: Json) -> Json:
    if isinstance(value, str):
        return plain(value, LONGEST)
    if isinstance(value, list):
        return [_plain_schema(each) for each in value]
    if isinstance(value, dict):
        return {plain(name, LONGEST): _plain_schema(each) for name, each in value.items()}
    return value
