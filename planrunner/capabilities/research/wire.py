"""The requests of research, the turns of hosts, and the cache of pages."""

from __future__ import annotations

import calendar
import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import httpx2

from planrunner import __version__
from planrunner.capabilities.contract import Context, Failure, Json
from planrunner.capabilities.files.records import forget_old
from planrunner.capabilities.http.client import client
from planrunner.capabilities.http.download import Partial
from planrunner.capabilities.http.exchange import retry_after
from planrunner.capabilities.http.request import PASSING
from planrunner.fileio import replace_file

_TIMES = {"connect": 10.0, "read": 20.0}
_HTTP_DATE = "%Y-%m-%dT%H:%M:%SZ"


class Wire:
    """A client for one attempt, usable by several threads; closed when the ``with`` statement ends."""

    __slots__ = ("_client", "agent")

    def __init__(self, context: Context) -> None:
        self.agent = agent(context)
        headers = {"user-agent": self.agent, "accept-encoding": "identity"}
        self._client = client(context, timeout=_TIMES, headers=headers, follow_redirects=False)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, url: str, headers: Mapping[str, str]) -> AbstractContextManager[httpx2.Response]:
        """An answer whose body is still to be read. Raises Failure as ``explained`` tells when entered."""
        return self._client.stream("GET", url, headers=dict(headers))

    def json(self, url: str, parameters: Mapping[str, str], largest: int) -> Json:
        """JSON. Raises Failure for an answer that is not 200, redirects too, with its `status` in the outputs."""
        try:
            address = httpx2.URL(url).copy_merge_params(dict(parameters))
            with self._client.stream("GET", address, headers={"accept": "application/json"}) as answer:
                if answer.status_code != 200:
                    kind = "transient" if answer.status_code in PASSING else "logic"
                    said = f"{url} answered {answer.status_code}"
                    later = retry_after(answer.headers.get("retry-after", ""))
                    raise Failure(said, kind, {"status": answer.status_code}, retry_after=later)
                data = b"".join(bounded(answer, largest))
        except httpx2.HTTPError as error:
            raise explained(url, error) from None
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise Failure(f"{url} did not answer with JSON") from None


def bounded(answer: httpx2.Response, largest: int) -> Iterator[bytes]:
    """The pieces of a body. Raises Failure once there are more than ``largest`` bytes."""
    total = 0
    for piece in answer.iter_bytes():
        total += len(piece)
        if total > largest:
            raise Failure(f"{answer.url} is larger than {largest:,} bytes", "too_large")
        yield piece


def explained(url: str, error: Exception) -> Failure:
    """What a request came to that got no answer; worth another attempt."""
    return Failure(f"{url} cannot be reached: {str(error) or type(error).__name__}", "transient")


def agent(context: Context) -> str:
    """How we present ourselves: ``research.user_agent`` of planrunner.yaml, else our name and version."""
    return str(context.settings("research").get("user_agent") or f"planrunner/{__version__}")


def now() -> str:
    """The time in UTC, to the second."""
    return time.strftime(_HTTP_DATE, time.gmtime())


def seconds_of(stamp: str) -> float:
    """Seconds since 1970 of what ``now`` gave; raises ValueError."""
    return float(calendar.timegm(time.strptime(stamp, _HTTP_DATE)))


_LOOK = 0.05


class Turns:
    """Hands out turns to threads. ``stopped`` ends all waiting."""

    __slots__ = ("_busy", "_free_at", "_lock", "_rest", "_stopped")

    def __init__(self, rest: float, stopped: Callable[[], bool]) -> None:
        self._rest = rest
        self._stopped = stopped
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._free_at: dict[str, float] = {}

    @contextmanager
    def turn(self, host: str, rest: float = 0.0) -> Iterator[None]:
        """Wait for the turn at a host and keep it; afterwards the host rests for ``rest`` seconds, or the usual rest
        where that is longer. Raises Failure when stopped while waiting."""
        while not self._enter(host):
            self.pause(_LOOK)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(host)
                self._free_at[host] = time.monotonic() + max(rest, self._rest)

    def pause(self, seconds: float) -> None:
        """Wait. Raises Failure when stopped."""
        until = time.monotonic() + seconds
        while True:
            if self._stopped():
                raise Failure("fetching was stopped", "interrupted")
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(_LOOK, left))

    def _enter(self, host: str) -> bool:
        with self._lock:
            if host in self._busy or time.monotonic() < self._free_at.get(host, 0.0):
                return False
            self._busy.add(host)
            return True


class Page(NamedTuple):
    """An answer. ``moved`` is where the address led with a redirect, and then the body is empty; ``fetched_at`` is when
    the body came over the wire, ``checked_at`` when the server last said that it still holds."""

    url: str
    status: int
    type: str = ""
    charset: str = ""
    sha256: str = ""
    fetched_at: str = ""
    checked_at: str = ""
    etag: str = ""
    modified: str = ""
    moved: str = ""

    @property
    def validators(self) -> dict[str, str]:
        """The headers that ask whether the page is still the same."""
        given = {"if-none-match": self.etag, "if-modified-since": self.modified}
        return {name: value for name, value in given.items() if value}


class Pages:
    """The cache in one folder. Any number of processes may use it: files are replaced as a whole. A body that does not
    have its digest counts as not there, and so does what was not kept by planrunners of this user. What was not asked
    for in a month is forgotten."""

    __slots__ = ("_context", "_folder")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._folder = context.cache("research")

    def find(self, url: str) -> tuple[Page, bytes] | None:
        """What is kept of an address."""
        try:
            with open(self._path(url, "json"), encoding="utf-8") as file:
                stored = self._context.opened(f"page {url}", file.read())
            page = Page(**json.loads(stored or "null"))
            if page.moved:
                return page, b""
            with open(self._path(url, "body"), "rb") as file:
                body = file.read()
        except (OSError, ValueError, TypeError):
            return None
        return (page, body) if page.url == url and hashlib.sha256(body).hexdigest() == page.sha256 else None

    def keep(self, page: Page, body: bytes) -> None:
        if not page.moved:
            self._write(self._path(page.url, "body"), body)
        record = self._context.vouched(f"page {page.url}", json.dumps(page._asdict()))
        self._write(path := self._path(page.url, "json"), record.encode())
        folder, name = os.path.split(path)
        if name.startswith("0"):  # now and then
            forget_old(folder)

    @contextlib.contextmanager
    def part(self, url: str) -> Iterator[Partial]:
        """What came of a body before the connection broke; nothing stays where nothing says which body it is of."""
        part = Partial(self._context, f"page {url}")
        try:
            yield part
        finally:
            if not (part.validator and part.size):
                part.drop()
            part.close()

    def _path(self, url: str, ending: str) -> str:
        digest = hashlib.sha256(url.encode()).hexdigest()
        return f"{self._folder}/{digest[:2]}/{digest[2:]}.{ending}"

    def _write(self, path: str, data: bytes) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, data)
