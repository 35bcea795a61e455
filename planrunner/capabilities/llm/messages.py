"""Messages, tools, requests and replies of models: checked data in one shape for all providers."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Failure

Json = Any

ROLES = ("system", "user", "assistant", "tool")

UNREADABLE = "unreadable"
"""The name of the arguments of a call that are not a JSON object: the text as it came."""


class ToolCall(NamedTuple):
    """A call that a model asks for."""

    id: str
    name: str
    arguments: dict[str, Json]

    def is_readable(self) -> bool:
        """Whether the model gave a JSON object."""
        return self.arguments.keys() != {UNREADABLE}


class Message(NamedTuple):
    """One turn. ``calls`` are those of an assistant; ``call_id`` and ``name`` say which call a tool answers.
    ``thought`` is the whole turn of an assistant that thought before it answered, as the library writes it: providers
    want it back unchanged."""

    role: str
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""
    thought: Json = None


class Tool(NamedTuple):
    """What is offered to a model: ``schema`` is a JSON Schema of the arguments."""

    name: str
    description: str
    schema: dict[str, Json]


class Asked(NamedTuple):
    """One request: what is said, what is offered, and what shape the answer should have."""

    messages: list[Message]
    tools: list[Tool]
    schema: Json
    parameters: dict[str, Json]


class Reply(NamedTuple):
    """What came back, in one shape for all providers."""

    text: str
    calls: tuple[ToolCall, ...]
    finish_reason: str
    thought: Json = None


def conversation(system: str, prompt: str, messages: list[Json]) -> list[Message]:
    """The turns in their order: system first, then the messages, then the prompt. Raises Failure for none at all or
    for one that cannot be read."""
    turns = [Message("system", system)] if system else []
    turns += [_message(at, given) for at, given in enumerate(messages)]
    if prompt:
        turns.append(Message("user", prompt))
    if not any(message.role != "system" for message in turns):
        raise Failure("the request is empty: give a `prompt` or `messages`")
    return turns


def _message(at: int, given: Json) -> Message:
    where = f"`messages[{at}]`"
    if not isinstance(given, dict) or given.get("role") not in ROLES:
        raise Failure(f"{where} has no `role` that is one of {', '.join(ROLES)}")
    content = given.get("content")
    calls = given.get("tool_calls") or []
    if unknown := set(given) - {"role", "content", "tool_calls", "tool_call_id", "name"}:
        raise Failure(f"{where} has the unknown key `{min(unknown)}`")
    if content is not None and not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False)
    if content is None and not calls:
        raise Failure(f"{where} has no `content`")
    if given["role"] == "tool" and not given.get("tool_call_id"):
        raise Failure(f"{where} answers no call: it has no `tool_call_id`")
    read = tuple(_call(where, call) for call in calls)
    return Message(
        given["role"], content or "", read, str(given.get("tool_call_id") or ""), str(given.get("name") or "")
    )


def _call(where: str, given: Json) -> ToolCall:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise Failure(f"{where} has a tool call without a `name`")
    arguments = given.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise Failure(f"{where} has a tool call whose `arguments` are not a mapping")
    return ToolCall(str(given.get("id") or ""), given["name"], arguments)


def offered(tools: list[Json]) -> list[Tool]:
    """The tools of a task. Raises Failure for one that cannot be read."""
    offers: list[Tool] = []
    for at, given in enumerate(tools):
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(name, str) or not name or any(name == tool.name for tool in offers):
            raise Failure(f"`tools[{at}]` has no `name` of its own")
        schema = given.get("schema") or {"type": "object", "properties": {}}
        if not isinstance(schema, dict) or schema.get("type", "object") != "object":
            raise Failure(f"`tools[{at}]`: the `schema` of `{name}` describes no object")
        offers.append(Tool(name, str(given.get("description") or ""), {"type": "object", **schema}))
    return offers
