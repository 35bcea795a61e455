"""The receivers of notices that a project names, each fed and retried by itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from typing import Any

from planrunner.app.follow.feed import Seen, Undelivered
from planrunner.app.notices import webhook
from planrunner.app.notices.notice import Notice, Wanted, notices_of
from planrunner.app.notices.webhook import Refused
from planrunner.errors import UsageError, missing_extra
from planrunner.records import Struct

Json = Any
Send = Callable[[Notice], None]
Say = Callable[[str], None]
"""Prints a line at the terminal of this process."""

LATEST = 86400.0
"""Seconds after which a notice that no try could deliver is given up."""


class Sender(Struct):
    """What notices say of their sender: the name of the project, and the address of the service (empty: none)."""

    project: str
    address: str = ""


class Outlet:
    """One receiver as a reader of entries. It gets each notice at least once, in the order in which they arose;
    ``say`` is told of those that are given up."""

    history: float | None = 0.0

    def __init__(self, name: str, wanted: Wanted, send: Send, say: Say) -> None:
        self.name = name
        self._wanted = wanted
        self._send = send
        self._say = say
        self._notices: list[Notice] = []

    def restore(self, kept: Json) -> None:
        self._notices.clear()

    def see(self, seen: Seen) -> None:
        if seen.fresh:
            self._notices += filter(self._wanted.fits, notices_of(seen))

    def deliver(self) -> Json:
        while self._notices:
            notice = self._notices[0]
            try:
                self._send(notice)
            except Refused as error:
                if time.time() - notice.at < LATEST:
                    raise Undelivered(f"{self.name}: {error}") from None
                self._say(f"{self.name} was not told that {notice}: {error}")
            del self._notices[0]
        return {}


def outlets(settings: Sequence[Mapping[str, Json]], sender: Sender, say: Say) -> list[Outlet]:
    """The receivers of ``notify``. Raises UsageError for a variable that is not set and for Apprise where it is not
    installed."""
    made: list[Outlet] = []
    for given in settings:
        outlet = _outlet(given, sender, say)
        alike = sum(each.name.partition(" #")[0] == outlet.name for each in made)
        outlet.name += f" #{alike + 1}" if alike else ""
        made.append(outlet)
    return made


def _outlet(given: Mapping[str, Json], sender: Sender, say: Say) -> Outlet:
    wanted = Wanted(tuple(given.get("on", ("waiting", "failed", "done"))), tuple(given.get("plans", ())))
    if "webhook" in given:
        url = str(given["webhook"]["url"])
        secret = _variable(str(given["webhook"]["secret_env"]))
        return Outlet(_name("webhook", url), wanted, _to_webhook(url, secret, sender), say)
    if "apprise_env" in given:
        variable = str(given["apprise_env"])
        return Outlet(_name("apprise", variable), wanted, _to_apprise(_variable(variable)), say)
    return Outlet("notify terminal", wanted, lambda notice: say(str(notice)), say)


def _name(kind: str, place: str) -> str:
    """The name of its positions: that of the receiver, so that another one begins afresh."""
    return f"notify {kind} {sha256(place.encode()).hexdigest()[:8]}"


def _variable(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise UsageError(f"`notify` needs the variable `{name}`, which is not set", f"set {name}")
    return value


def _to_webhook(url: str, secret: str, sender: Sender) -> Send:
    return lambda notice: webhook.send(url, secret, notice.id, notice.document(sender.project, sender.address))


def _to_apprise(address: str) -> Send:
    try:
        send = import_module("planrunner.app.notices.apprising").send
    except ImportError as error:
        raise missing_extra("`apprise_env` needs", "notify", error) from None
    return lambda notice: send(address, notice)
