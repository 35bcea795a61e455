"""What a model may call: tools under names that every provider takes, and calls held against what they take."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from planrunner.capabilities.agent.hooks import Hooks
from planrunner.capabilities.contract import Context
from planrunner.capabilities.jsonschema import faults
from planrunner.capabilities.llm.messages import Tool, ToolCall
from planrunner.capabilities.mcp.servers import listing
from planrunner.capabilities.mcp.tools import listed
from planrunner.plan.agents import ANSWER
from planrunner.plan.nearest import nearest

Json = Any

MOST_CALLS = 32
"""Calls of one reply that are carried out."""
LARGEST_CALL = 200_000
"""Characters of the arguments of a call."""


class Offer(NamedTuple):
    """A tool under its name on the wire. ``tool`` is what the plan calls it; of an MCP server ``inner`` is the tool of
    that server."""

    wire: Tool
    tool: str
    inner: str = ""


class Wanted(NamedTuple):
    """A call that is to be carried out: after a person said yes to ``ask``; its result is told with the texts of
    ``say``. ``hook`` is the one that asks."""

    id: str
    tool: str
    arguments: dict[str, Json]
    ask: str = ""
    say: tuple[str, ...] = ()
    hook: str = ""

    def as_json(self) -> dict[str, Json]:
        least = {"id": self.id, "tool": self.tool, "arguments": self.arguments}
        hooked = {"ask": self.ask, "say": list(self.say), "hook": self.hook}
        return least | {name: value for name, value in hooked.items() if value}


class Refused(NamedTuple):
    """Why a call is not made, and the hook that denied it (empty: none did)."""

    why: str
    hook: str = ""


class Offers:
    """The tools of one request, and the hooks that their calls are held to."""

    def __init__(self, offers: list[Offer], hooks: Hooks) -> None:
        self._hooks = hooks
        self._by_name: dict[str, Offer] = {}
        for offer in offers:
            name = _free(offer.wire.name, self._by_name)
            self._by_name[name] = offer._replace(wire=offer.wire._replace(name=name))

    def tools(self) -> list[Tool]:
        return [offer.wire for offer in self._by_name.values()]

    def read(self, call: ToolCall) -> Wanted | Refused:
        """The call as a task takes it, or why it is not made."""
        offer = self._by_name.get(call.name)
        if offer is None:
            near = nearest(call.name, self._by_name)
            way = f", did you mean `{near}`?" if near else "."
            return Refused(
                f"There is no tool `{call.name}`{way} You have {', '.join(sorted(self._by_name)) or 'none'}."
            )
        if not call.is_readable():
            return Refused("The call was not made: its arguments are not JSON. Give them as one JSON object.")
        if len(str(call.arguments)) > LARGEST_CALL:
            return Refused(f"The arguments are longer than {LARGEST_CALL:,} characters.")
        wrong = [] if offer.inner else faults(offer.wire.schema, call.arguments)  # that one its server looks at
        if wrong:
            return Refused("The call was not made: its arguments do not fit. " + "; ".join(wrong[:5]))
        tool = f"{offer.tool}.{offer.inner}" if offer.inner else offer.tool
        verdict = self._hooks.judge(tool, call.arguments, (offer.wire.schema or {}).get("properties", ()))
        if verdict.deny:
            return Refused(verdict.deny, verdict.hook)
        arguments = {"tool": offer.inner, "arguments": call.arguments} if offer.inner else call.arguments
        return Wanted(call.id, offer.tool, arguments, verdict.ask, verdict.say, verdict.hook)


def offered(context: Context, given: list[Json]) -> list[Offer]:
    """The tools that a task has; those of an MCP server are asked of it. Raises Failure where it does not tell them."""
    offers: list[Offer] = []
    for each in given:
        name = each["name"]
        if "server" in each:
            offers += _of_server(context, each)
        else:
            offers.append(Offer(Tool(wire_name(name), each.get("description", ""), each["schema"]), name))
    return offers


def _of_server(context: Context, given: Json) -> list[Offer]:
    """The tools of a server, which a call of ``mcp.call`` reaches; none where the policy lets no plan list them."""
    name, server = given["name"], given["server"]
    right = listing(context.call.rights, server)
    if right.verdict == "deny":
        context.log.write(f"the tools of `{server}` are not offered: {right.rule}\n".encode(), "stderr")
        return []
    tools = listed(context, server, given.get("only") or ("*",), given.get("denied") or ())
    wires = [Tool(wire_name(f"{name}_{tool.name}"), tool.description, tool.schema) for tool in tools]
    return [Offer(wire, name, tool.name) for wire, tool in zip(wires, tools)]


def answering(schema: dict[str, Json]) -> Tool:
    """The tool by which a model ends its work."""
    return Tool(ANSWER, "End the work with its result. Call it alone, when everything is done.", schema)


def wire_name(name: str) -> str:
    """A name that every provider takes."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60] or "tool"


def _free(name: str, taken: dict[str, Offer]) -> str:
    number, free = 2, name
    while free in taken or free == ANSWER:
        free, number = f"{name}_{number}", number + 1
    return free
