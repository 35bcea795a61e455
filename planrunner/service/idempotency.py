"""Requests with an ``Idempotency-Key``: the same one again gets the same answer, and nothing is done twice.

Answers are kept beside the queue of the project, the latest ones, so they hold for the next service too. A request
whose service was killed before it answered is not carried out again, but for what starts a run: the queue keeps that
once itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from planrunner.app.queue.database import Answers, Kept
from planrunner.jsontext import read_json, write_json
from planrunner.service.problems import API, Problem

LARGEST = 64 << 10
"""Bytes of an answer that is kept; a larger one may be made again."""
LONGEST = 200
"""Characters of a key."""
_OF_PROJECT = re.compile(r"/api/v\d+/projects/([^/]+)/(.+)")
_STARTS = re.compile(r"runs|plans/.+/run|triggers/[^/]+/fire")
"""What starts a run, which the queue keeps once."""


class Idempotency:
    """An ASGI application around another one; ``states`` are the state folders of the projects by name. The visitor
    stands in the scope already (``Guard``)."""

    def __init__(self, app: ASGIApp, states: Mapping[str, str]) -> None:
        self._app = app
        self._states = states
        self._going: dict[str, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key, found = _key_of(scope), _OF_PROJECT.fullmatch(scope.get("path", ""))
        state = self._states.get(unquote(found[1])) if found is not None else None
        if not key or found is None or state is None:
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        asked = hashlib.sha256(scope["query_string"] + b"\n" + body).hexdigest()
        place = "\n".join((_visitor_of(scope), f"{scope['method']} {scope['path']}", key))
        place = hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()
        if place in self._going:
            _refuse(Kept(self._going[place], None), asked)
        self._going[place] = asked
        answer: list[Message] = []
        try:
            before = await asyncio.to_thread(_begun, state, place, asked)
            if before is not None and (before.asked != asked or before.answer is None) and not _repeats(found, before):
                _refuse(before, asked)
            if before is not None and before.answer is not None:
                await _again(before.answer, send)
                return
            try:
                await self._app(scope, _given(body, receive), _kept(answer, send))
            finally:
                await asyncio.to_thread(_ended, state, place, _settled(answer))
        finally:
            del self._going[place]


def _repeats(found: re.Match[str], before: Kept) -> bool:
    """Whether a request without an answer may be made again: the queue knows whether it was carried out."""
    return before.answer is None and _STARTS.fullmatch(found[2]) is not None


def _begun(state: str, place: str, asked: str) -> Kept | None:
    with Answers(state) as answers:
        return answers.begin(place, asked)


def _ended(state: str, place: str, answer: str | None) -> None:
    with Answers(state) as answers:
        answers.end(place, answer)


def _settled(answer: list[Message]) -> str | None:
    """An answer as it is kept; None for one that could be another one next time, and for one that is too large."""
    if not answer or answer[0]["status"] >= 500 or answer[0]["status"] in (408, 409, 429):
        return None
    body = b"".join(each.get("body", b"") for each in answer)
    if len(body) > LARGEST:
        return None
    headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in answer[0].get("headers", ())]
    return write_json([answer[0]["status"], headers, body.decode("latin-1")])


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


def _refuse(before: Kept, asked: str) -> None:
    """Raises Problem: the key is that of another request, or of one that has no answer."""
    if before.asked != asked:
        raise Problem(422, "this idempotency key was used for another request", "choose another key")
    told = "the same request is being carried out, or was when its service ended"
    raise Problem(409, told, "ask again in a moment; if it stays so, look at the run", headers={"retry-after": "1"})


async def _again(answer: str, send: Send) -> None:
    status, headers, body = read_json(answer)
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body.encode("latin-1")})


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
