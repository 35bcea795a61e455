"""The door: every request passes here first. It holds host, origin, size, rate and time to limits, finds out who asks,
and refuses requests without a valid token, except at the few addresses that are open to all."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from planrunner.errors import PlanrunnerError
from planrunner.service.access import Access
from planrunner.service.context import Visitor
from planrunner.service.problems import FAULT, Problem, answer, problem_of

log = logging.getLogger("planrunner.service")

POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
    "script-src 'self'; style-src 'self'; img-src 'self'"
)

HEADERS = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
)
"""Of every answer that does not say otherwise."""

OPEN = frozenset({"/livez", "/readyz", "/sign-in"})
"""Addresses without a token. Below ``OPEN_FOLDERS`` nothing needs one either: style and script; webhooks, which prove
themselves by a signature."""
OPEN_FOLDERS = ("/static/", "/hooks/")

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


class Limits(NamedTuple):
    """``body``: bytes of a request; ``seconds``: until its body has arrived, and for each write of an answer to be
    taken; ``rate``: requests a second from one visitor, of which ``burst`` may come at once; ``at_once``: requests of
    one visitor, streams among them, that are being answered; ``look``: seconds between two looks, while an answer is
    sent, at whether the visitor may still see it."""

    body: int = 4 << 20
    seconds: float = 20.0
    rate: float = 200.0
    burst: int = 600
    at_once: int = 200
    look: float = 2.0


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, access: Access, hosts: Iterable[str], limits: Limits) -> None:
        self._app = app
        self._access = access
        self._hosts = frozenset(hosts)
        self._limits = limits
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._answering: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        sending = _Sending(send, self._limits)
        try:
            who = self._check(scope, headers)
            receiving = sending.receiving = _Receiving(receive, self._limits, headers)
            sending.may_go_on = self._still(scope["visitor"])
            with self._counted(who):
                await self._app(scope, receiving, sending)
        except Problem as problem:
            await _refuse(problem, scope, headers, sending, receive)
        except PlanrunnerError as error:
            await _refuse(problem_of(error), scope, headers, sending, receive)
        except (TimeoutError, _Over):
            await _cut(scope)
        except Exception as error:
            problem_of_body = sending.receiving and sending.receiving.problem
            if not problem_of_body:
                log.error("a fault of planrunner in %s %s", scope["method"], scope["path"], exc_info=error)
            await _refuse(problem_of_body or FAULT, scope, headers, sending, receive)

    def _check(self, scope: Scope, headers: dict[str, str]) -> str:
        """By what the one who asks is counted. Raises Problem for what may not come in; notes the visitor in the
        scope."""
        self._check_host(headers.get("host", ""))
        path, method = scope["path"], scope["method"]
        if method not in SAFE and not path.startswith("/hooks/"):
            _check_origin(headers)
        client = scope.get("client") or ("", 0)
        if path in OPEN or path.startswith(OPEN_FOLDERS):
            scope["visitor"] = None
            return self._take(f"open {client[0]}")
        visitor = self._access.visitor(headers, scope.get("state", {}).get("user", _unknown))
        if visitor is None:
            self._take(f"open {client[0]}")
            query = scope["query_string"].decode("latin-1")
            raise self._access.unknown(path, query, headers)
        scope["visitor"] = visitor = visitor._replace(asking=scope.get("state", {}).get("asking"))
        return self._take(visitor.token or visitor.principal.name)

    @contextmanager
    def _counted(self, who: str) -> Iterator[None]:
        """Count a request while it is answered. Raises Problem 429 for one too many."""
        if self._answering[who] >= self._limits.at_once:
            told = f"{self._limits.at_once} requests of yours are being answered"
            raise Problem(429, told, "close some", headers={"retry-after": "2"})
        self._answering[who] += 1
        try:
            yield
        finally:
            self._answering[who] -= 1
            if not self._answering[who]:
                del self._answering[who]

    def _still(self, visitor: Visitor | None) -> Callable[[], bool]:
        """Whether a visitor may go on to see what is sent."""
        return lambda: visitor is None or self._access.holds(visitor)

    def _check_host(self, host: str) -> None:
        if host.lower() not in self._hosts:
            raise Problem(
                421, f"this service is not `{host}`", "call it by the address that it printed when it started"
            )

    def _take(self, who: str) -> str:
        """Count a request against the rate. Raises Problem 429 for one too many."""
        now, limits = time.monotonic(), self._limits
        left, since = self._buckets.pop(who, (float(limits.burst), now))
        left = min(limits.burst, left + (now - since) * limits.rate)
        self._buckets[who] = (max(0.0, left - 1), now)
        while len(self._buckets) > 10_000:
            self._buckets.popitem(last=False)
        if left < 1:
            raise Problem(
                429, f"more than {limits.rate:.0f} requests a second", "wait a second", headers={"retry-after": "1"}
            )
        return who


def _check_origin(headers: dict[str, str]) -> None:
    """A change comes from a page of this service or from no page at all. Raises Problem 403."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    host = headers.get("host", "")
    if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
        raise Problem(403, f"a page of `{origin}` may not act here")
    if site not in (None, "same-origin", "none"):
        raise Problem(403, "a page of another site may not act here")


def _unknown() -> None:
    """Whose process connected, where the server does not tell."""


async def _cut(scope: Scope) -> None:
    """End a connection whose client takes nothing or may see no more, with whatever was to be sent to it."""
    abort = scope.get("state", {}).get("abort")
    if abort is not None:
        abort()
        await asyncio.sleep(0)  # the server learns of the end, and does not complain of an unfinished answer


async def _refuse(problem: Problem, scope: Scope, headers: dict[str, str], sending: _Sending, receive: Receive) -> None:
    if sending.begun:
        if not sending.is_whole:
            await _cut(scope)
        return
    sending.receiving = None
    refusal = answer(problem, scope["path"], headers.get("accept", ""))
    await refusal(scope, receive, sending)


class _Receiving:
    """Hands the body on, within its limits of size and time."""

    def __init__(self, receive: Receive, limits: Limits, headers: dict[str, str]) -> None:
        self._receive = receive
        self._left = limits.body
        self._limits = limits
        self._until = asyncio.get_running_loop().time() + limits.seconds
        self._over = False
        self.problem: Problem | None = None
        """What is wrong with the body. The application may take that for a body of another form: it is told here."""
        length = headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 15 or int(length) > limits.body):
            raise self._too_large()

    async def __call__(self) -> Message:
        if self._over:
            return await self._receive()  # what comes then is that the client has gone, whenever that is
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            self.problem = Problem(408, f"the body did not arrive in {self._limits.seconds:.0f} seconds")
            raise self.problem from None
        self._over = not message.get("more_body", False)
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.problem = self._too_large()
            raise self.problem
        return message

    def _too_large(self) -> Problem:
        return Problem(413, f"a body may have {self._limits.body:,} bytes")


class _Over(Exception):
    """The visitor may see nothing more of an answer that has begun."""


class _Sending:
    """Hands the answer on, with the headers that each has. A client that takes nothing for too long is cut off, and one
    whose token was revoked meanwhile."""

    def __init__(self, send: Send, limits: Limits) -> None:
        self._send = send
        self._limits = limits
        self._looked = time.monotonic()
        self.may_go_on: Callable[[], bool] = lambda: True
        self.begun = False
        self.is_whole = False
        self.receiving: _Receiving | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.receiving is not None and self.receiving.problem is not None:
                raise self.receiving.problem
            self.begun = True
            given = list(message.get("headers", []))
            names = {name.lower() for name, _ in given}
            given += [(name.encode(), value.encode()) for name, value in HEADERS if name.encode() not in names]
            message = {**message, "headers": given}
        elif time.monotonic() - self._looked > self._limits.look:
            self._looked = time.monotonic()
            if not self.may_go_on():
                raise _Over
        async with asyncio.timeout(self._limits.seconds):
            await self._send(message)
        self.is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)
