"""The requests of research: guarded, one by one, without following redirects by itself, bounded while reading."""

from __future__ import annotations

import calendar
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

import httpx2

from planrunner import __version__
from planrunner.capabilities.contract import Context, Failure, Json
from planrunner.capabilities.http.client import client
from planrunner.capabilities.http.expected import PASSING

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
                    raise Failure(said, kind, {"status": answer.status_code})
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
