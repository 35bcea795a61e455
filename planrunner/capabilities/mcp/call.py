"""``mcp.call``: one call of a tool of an MCP server.

Annotations of tools, such as read-only or idempotent, are not trusted: every call counts as one that may change
something and cannot be reverted.
"""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.mcp.connection import connected
from planrunner.capabilities.mcp.servers import Server, chosen
from planrunner.capabilities.mcp.tools import known
from planrunner.capabilities.outputs import count_call
from planrunner.jsontext import shown
from planrunner.plan.nearest import nearest

Json = Any

LONGEST = 200_000
"""Characters of a text, and of a result, that a task gives; what is longer is kept whole as an artifact."""


class Called(NamedTuple):
    """The result of a tool."""

    text: Annotated[str, Doc("text of the result, cut at 200,000 characters")]
    result: Annotated[Any, Doc("structured result; null if the tool returns none, or if it is too large")]
    artifacts: Annotated[list[dict[str, Any]], Doc("contents kept as artifacts: {name, type, sha256, size}")]


def _preview(context: Context, server: str, tool: str, arguments: dict[str, Any] | None = None) -> Preview:
    call = f"{server}.{tool}({shown(arguments or {}, 400)})"
    return Preview(f"would call `{tool}` of the MCP server `{server}`", calls=(call,))


@capability(
    "mcp.call",
    irreversible=True,
    risks=(
        "starts the program of the server",
        "connects to the address of the server, over the network",
        "does what the tool does",
    ),
    spends=("calls",),
    foreign=("*",),
    own=("artifacts",),
    preconditions=("package mcp mcp", "server server"),
    preview=_preview,
)
def call(
    context: Context,
    server: Annotated[str, Doc("the MCP server, an entry of `tools` in planrunner.yaml", use="capability")],
    tool: Annotated[str, Doc("name of the tool on the server", use="capability")],
    arguments: Annotated[dict[str, Any] | None, Doc("arguments of the tool")] = None,
) -> Called:
    """Call a tool of an MCP server.

    The server is started, or connected to, by the first call of a run that needs it and ends with the run. A result
    that the tool calls an error fails the task with its text.
    """
    found = chosen(context, server)
    if not found.has(tool):
        said = f"planrunner.yaml does not let plans use the tool `{tool}` of the server `{server}`: it lists"
        raise Failure(f"{said} `tools: [{', '.join(found.only)}]`", rule="mcp.tools")
    count_call(context)
    connection = connected(context, found)
    if not any(each.name == tool for each in known(context, connection)):
        names = [each.name for each in known(context, connection, again=True)]
        if tool not in names:
            raise Failure(_unknown(found, tool, names))
    return _came_to(context, tool, connection.ask(context, lambda session: session.call(tool, arguments or {})))


def _unknown(server: Server, tool: str, names: list[str]) -> str:
    usable = [name for name in names if server.has(name)]
    close = nearest(tool, usable)
    hint = f"did you mean `{close}`?" if close else f"it has {', '.join(usable[:8]) or 'none'}"
    return f"the server `{server.name}` has no tool `{tool}`: {hint}"


def _came_to(context: Context, tool: str, result: Any) -> Called:
    keeper = _Keeper(context, tool)
    text = keeper.text("\n".join(keeper.words(result.content)))
    called = Called(text, keeper.data(result.structured_content), keeper.kept)
    if result.is_error:
        said = next((line.strip() for line in text.splitlines() if line.strip()), "it says nothing more")
        raise Failure(f"`{tool}` failed: {said[:500]}", "logic", called._asdict())
    return called


class _Keeper:
    """Keeps what of a result is not text, or is too long."""

    def __init__(self, context: Context, tool: str) -> None:
        self._context = context
        self._stem = re.sub(r"[^A-Za-z0-9_-]", "_", tool)[:60]
        self.kept: list[dict[str, Json]] = []

    def words(self, content: list[Any]) -> Iterator[str]:
        """Each part of a result as text."""
        for part in content:
            resource = getattr(part, "resource", None)
            if part.type == "text":
                yield part.text
            elif part.type == "resource_link":
                yield f"[link to {part.uri}: {part.name}]"
            elif resource is None:
                yield self._blob(part.data, part.mime_type)
            elif hasattr(resource, "text"):
                yield resource.text
            else:
                yield self._blob(resource.blob, resource.mime_type or "")

    def text(self, whole: str) -> str:
        if len(whole) <= LONGEST:
            return whole
        name = self._keep(whole.encode("utf-8", "replace"), ".txt", "text")
        cut = f"[{len(whole) - LONGEST:,} characters are left out here; all of it is the artifact {name}]"
        return f"{whole[:LONGEST]}\n{cut}"

    def data(self, value: Json) -> Json:
        if value is None or len(written := json.dumps(value, ensure_ascii=False)) <= LONGEST:
            return value
        self._keep(written.encode("utf-8", "replace"), ".json", "json")
        return None

    def _blob(self, data: str, kind: str) -> str:
        try:
            content = base64.b64decode(data)
        except (binascii.Error, ValueError):
            return f"[{kind or 'data'} that cannot be read]"
        plain = re.sub(r"[^a-z0-9/+.-]", "", kind.lower())[:80]
        ending = mimetypes.guess_extension(plain) or ".bin"
        return f"[{plain or 'data'}, {len(content):,} bytes: the artifact {self._keep(content, ending, plain)}]"

    def _keep(self, content: bytes, ending: str, kind: str) -> str:
        name = f"{self._stem}-{len(self.kept) + 1}{ending}"
        self.kept.append(self._context.keep(content, name, kind))
        return name
