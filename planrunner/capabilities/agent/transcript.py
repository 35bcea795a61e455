"""The conversation of an agent: links in the artifact store, each with what was said since the one before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.llm.messages import Message, ToolCall

Json = Any

MOST_LINKS = 10_000
"""Requests of one conversation."""

RECENT = 64
"""Conversations that are kept in memory."""

_recent: dict[str, list[Message]] = {}
"""What was said up to a link, by its digest, which says the same everywhere."""

_NOT_CARRIED_OUT = "This call was not carried out: the work was interrupted before."


def conversation(context: Context, last: str) -> list[Message]:
    """What was said so far; ``last`` is the digest of the newest link, empty for none. Raises Failure where a link is
    gone."""
    links: list[list[Message]] = []
    while last:
        if (known := _recent.get(last)) is not None:
            links.append(known)
            break
        if len(links) == MOST_LINKS:
            raise Failure(f"the conversation has more than {MOST_LINKS:,} requests")
        with context.artifact(last) as file:
            link = json.load(file)
        links.append([_read(said) for said in link["messages"]])
        last = link["before"]
    return [message for link in reversed(links) for message in link]


def keep(context: Context, before: str, earlier: list[Message], said: list[Message]) -> str:
    """Add a link to a conversation, behind what was said ``earlier``; gives its digest."""
    link = {"before": before, "messages": [_written(message) for message in said]}
    data = json.dumps(link, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    digest = str(context.keep(data, "transcript.json", "json")["sha256"])
    if digest == sha256(data).hexdigest():  # no secret was taken out of it
        _recent[digest] = [*earlier, *said]
    for old in list(_recent)[:-RECENT]:  # a copy: agents work side by side
        _recent.pop(old, None)
    return digest


def unanswered(said: list[Message]) -> Iterator[Message]:
    """An answer for each call of the last turn that has none: providers refuse a conversation that lacks one."""
    at = len(said)
    while at and said[at - 1].role == "tool":
        at -= 1
    calls = said[at - 1].calls if at else ()
    answered = {message.call_id for message in said[at:]}
    yield from (Message("tool", _NOT_CARRIED_OUT, (), call.id, call.name) for call in calls if call.id not in answered)


def _written(message: Message) -> dict[str, Json]:
    said: dict[str, Json] = {"role": message.role, "content": message.content}
    if message.calls:
        said["calls"] = [call._asdict() for call in message.calls]
    if message.thought is not None:
        said["thought"] = message.thought
    if message.call_id:
        said |= {"call_id": message.call_id, "name": message.name}
    return said


def _read(said: dict[str, Json]) -> Message:
    calls = tuple(ToolCall(**call) for call in said.get("calls", ()))
    answered = said.get("call_id", ""), said.get("name", "")
    return Message(said["role"], said["content"], calls, *answered, said.get("thought"))
