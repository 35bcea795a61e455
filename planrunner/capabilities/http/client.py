"""Clients for everything that speaks HTTP: the only way by which capabilities reach the network.

Every connection, also after a redirect, goes to an address that ``guard.py`` admitted; proxies out of the environment
are not looked at. A request that waits ends within a fraction of a second once the attempt is stopped.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import httpx2

from planrunner import __version__
from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.async_transport import AsyncGuardedTransport
from planrunner.capabilities.http.guard import Guard
from planrunner.capabilities.http.transport import CountingClient, GuardedTransport
from planrunner.capabilities.http.watch import Watch

TIMEOUT: Mapping[str, float | None] = {"connect": 10.0, "read": 30.0, "write": 30.0, "pool": 30.0}
"""Seconds for the parts of a request; between two pieces of an answer `read` counts anew."""

REDIRECTS = 10


def client(context: Context, *, timeout: Any = None, base_url: str = "", **options: Any) -> httpx2.Client:
    """A client for the time of one attempt; use it in a ``with`` statement.

    ``timeout`` is seconds for every part, a mapping of `connect`, `read`, `write`, `pool` and `total` (None: no limit),
    or None for the usual; `total` counts from now. ``options`` go to ``httpx2.Client``: headers, auth,
    follow_redirects … Its requests raise Failure (policy) for an address that is not allowed, Failure (budget) where
    the attempt has set aside no call for another, and ``httpx2.HTTPError``.
    """
    parts, total = _parts(timeout)
    transport = GuardedTransport(*_made_of(context, total))
    return CountingClient(
        context, transport=transport, timeout=httpx2.Timeout(**parts), base_url=base_url, **_options(options)
    )


def async_client(context: Context, *, timeout: Any = None, base_url: str = "", **options: Any) -> httpx2.AsyncClient:
    """The asynchronous counterpart of ``client``, for libraries that want one."""
    parts, total = _parts(timeout)
    transport = AsyncGuardedTransport(*_made_of(context, total))
    return httpx2.AsyncClient(
        transport=transport, timeout=httpx2.Timeout(**parts), base_url=base_url, **_options(options)
    )


def refusal(error: BaseException) -> Failure | None:
    """The Failure inside an error that a library wrapped around it: a refused address, or the stop of the attempt."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if isinstance(found, Failure):
            return found
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return None


def _made_of(context: Context, total: float | None) -> tuple[Any, Any, ssl.SSLContext]:
    settings = context.settings("network")
    return Guard(settings), Watch(context.cancelled, total), _tls(str(settings.get("ca") or ""))


def _parts(timeout: Any) -> tuple[dict[str, float | None], float | None]:
    if timeout is None:
        return dict(TIMEOUT), None
    if isinstance(timeout, (int, float)):
        return dict.fromkeys(TIMEOUT, float(timeout)), None
    given = dict(timeout) if not hasattr(timeout, "as_dict") else timeout.as_dict()
    total = given.pop("total", None)
    return {**TIMEOUT, **given}, total


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a client; those by which it would get around the guard are ours alone."""
    if ours := {"transport", "mounts", "proxy", "trust_env", "verify", "cert"} & options.keys():
        raise TypeError(f"the client sets {', '.join(sorted(ours))} itself")
    headers = {
        "accept-encoding": "gzip, deflate",
        "user-agent": f"planrunner/{__version__}",
        **dict(options.pop("headers", None) or {}),
    }
    return {
        "headers": headers,
        "follow_redirects": True,
        "max_redirects": REDIRECTS,
        **options,
        "trust_env": False,
    }


_contexts: dict[str, ssl.SSLContext] = {}


def _tls(ca: str) -> ssl.SSLContext:
    """The context for the system's certificates, and those of the file that `network.ca` names; made once."""
    if ca not in _contexts:
        made = ssl.create_default_context()
        if ca:
            try:
                made.load_verify_locations(cafile=ca)
            except OSError as error:
                said = f"planrunner.yaml: `network.ca`: {ca}: {error.strerror or error}"
                raise Failure(said, "policy", rule="settings.network") from None
        _contexts[ca] = made
    return _contexts[ca]
