"""Requests with an ``Idempotency-Key``: the same one again gets the same answer, and nothing is done twice.

Answers are kept in memory, the latest ones; what starts a run, of a plan, of one task or of a trigger, is kept once by
the queue as well, whatever happens to this process.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from planrunner.service.problems import API, Problem

MOST = 2000
"""Answers that are kept."""
LARGEST = 64 << 10
"""Bytes of an answer that is kept; a larger one may be made again."""
LONGEST = 200
"""Characters of a key."""


class _Kept(NamedTuple):
    """What was asked with a key, by its digest, and the messages of the answer; None while it is being made."""

    asked: bytes
    answer: tuple[Message, ...] | None


class Idempotency:
    """An ASGI application around another one. The visitor stands in the scope already (``Guard``)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._kept: OrderedDict[tuple[str, str, str], _Kept] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = _key_of(scope)
        if not key:
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        asked = hashlib.sha256(scope["query_string"] + b"\n" + body).digest()
        place = (_visitor_of(scope), f"{scope['method']} {scope['path']}", key)
        before = self._kept.get(place)
        if before is not None:
            await _again(before, asked, send)
            return
        self._kept[place] = _Kept(asked, None)
        answer: list[Message] = []
        try:
            await self._app(scope, _given(body, receive), _kept(answer, send))
        finally:
            self._keep(place, asked, answer)

    def _keep(self, place: tuple[str, str, str], asked: bytes, answer: list[Message]) -> None:
        """Keep an answer that settles the matter: one that could be another one next time is forgotten."""
        settled = bool(answer) and answer[0]["status"] < 500 and answer[0]["status"] not in (408, 409, 429)
        if settled and sum(len(each.get("body", b"")) for each in answer) <= LARGEST:
            self._kept[place] = _Kept(asked, tuple(answer))
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        else:
            self._kept.pop(place, None)


def _key_of(scope: Scope) -> str:
    """The key of a request that changes something through the API. Raises Problem 400 for one that is too long."""
    if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].startswith(API):
        return ""
    given = Headers(scope=scope).get("idempotency-key", "")
    if len(given) > LONGEST:
        raise Problem(400, f"an idempotency key has at most {LONGEST} characters")
    return given


def _visitor_of(scope: Scope) -> str:
    visitor = scope["visitor"]
    return f"{visitor.token} {visitor.principal.name}"


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return b"".join(parts)


async def _again(before: _Kept, asked: bytes, send: Send) -> None:
    if before.asked != asked:
        raise Problem(422, "this idempotency key was used for another request", "choose another key")
    if before.answer is None:
        raise Problem(
            409, "the same request is being carried out", "ask again in a moment", headers={"retry-after": "1"}
        )
    for message in before.answer:
        await send(message)


def _given(body: bytes, receive: Receive) -> Receive:
    """Hands a body on that was read already."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Message:
        return waiting.pop() if waiting else await receive()

    return give


def _kept(answer: list[Message], send: Send) -> Send:
    async def keep(message: Message) -> None:
        answer.append(message)
        await send(message)

    return keep
