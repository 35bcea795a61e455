"""What robots.txt allows, after RFC 9309: what cannot be found allows everything, what cannot be read nothing."""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2
from protego import Protego

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.http.expected import PASSING
from planrunner.capabilities.research.addresses import host, joined, origin
from planrunner.capabilities.research.pages import Page, Pages
from planrunner.capabilities.research.wire import Wire, bounded, explained, now, seconds_of

if TYPE_CHECKING:
    from planrunner.capabilities.research.turns import Turns


_KEPT_FOR = 86_400.0
_LARGEST = 500 << 10
_MOST_RULE_REDIRECTS = 5
_LONGEST_REST = 30.0


class Rules(NamedTuple):
    """The robots.txt of one origin; ``parsed`` is None where everything is allowed."""

    parsed: Any
    rest: float = 0.0
    """Seconds between two requests that it asks for."""


class Robots:
    """Asks each origin once in an attempt, and not at all while its rules are less than a day old in the cache."""

    __slots__ = ("_locks", "_name", "_pages", "_rules", "_turns", "_wire")

    def __init__(self, wire: Wire, pages: Pages, turns: Turns) -> None:
        self._wire = wire
        self._pages = pages
        self._turns = turns
        self._name = wire.agent.partition("/")[0].strip() or wire.agent
        self._rules: dict[str, Rules | Failure] = {}
        self._locks: dict[str, threading.Lock] = {}

    def admit(self, url: str) -> float:
        """The rest that the host asks for between requests. Raises Failure: `policy` where the page is not for us,
        `transient` where the rules cannot be read now."""
        rules = self._of(origin(url))
        if isinstance(rules, Failure):
            raise Failure(str(rules), rules.failure, rules.outputs, rule=rules.rule)
        if rules.parsed is not None and not rules.parsed.can_fetch(url, self._name):
            raise Failure(
                f"robots.txt of {host(url)} does not want `{self._name}` to read {url}",
                "policy",
                rule="research.robots",
            )
        if rules.rest > _LONGEST_REST:
            asked = f"{rules.rest:g} s between requests"
            raise Failure(
                f"robots.txt of {host(url)} asks for {asked}; fetch its pages one by one",
                "policy",
                rule="research.robots",
            )
        return rules.rest

    def _of(self, place: str) -> Rules | Failure:
        with self._locks.setdefault(place, threading.Lock()):
            if place not in self._rules:
                try:
                    self._rules[place] = self._parsed(self._text(place))
                except Failure as failure:
                    if failure.failure == "interrupted":
                        raise
                    self._rules[place] = failure
            return self._rules[place]

    def _parsed(self, text: str | None) -> Rules:
        if text is None:
            return Rules(None)
        parsed = Protego.parse(text)
        return Rules(parsed, float(parsed.crawl_delay(self._name) or 0.0))

    def _text(self, place: str) -> str | None:
        """The rules as text; None where there are none."""
        url = f"{place}/robots.txt"
        kept = self._pages.find(url)
        if kept is not None and seconds_of(now()) - seconds_of(kept[0].fetched_at) < _KEPT_FOR:
            page, body = kept
        else:
            page, body = self._fetched(url)
            self._pages.keep(page, body)
        return body.decode("utf-8", "replace") if page.status == 200 else None

    def _fetched(self, url: str) -> tuple[Page, bytes]:
        at, status, body = url, 0, b""
        for _ in range(_MOST_RULE_REDIRECTS + 1):
            status, body, target = self._asked(at)
            if not target:
                break
            at = joined(at, target)
        if status in PASSING or status >= 500:
            raise Failure(f"the rules of the site cannot be read: {url} answered {status}", "transient")
        found = 200 if 200 <= status < 300 else 404
        body = body if found == 200 else b""
        return Page(url, found, "text/plain", "utf-8", hashlib.sha256(body).hexdigest(), now(), now()), body

    def _asked(self, url: str) -> tuple[int, bytes, str]:
        """Status, body and where a redirect leads."""
        try:
            with self._turns.turn(host(url)), self._wire.get(url, {"accept": "text/plain"}) as answer:
                status = answer.status_code
                target = answer.headers.get("location", "") if 300 <= status < 400 else ""
                return status, self._beginning(answer) if status == 200 else b"", target
        except httpx2.HTTPError as error:
            raise explained(url, error) from None

    def _beginning(self, answer: Any) -> bytes:
        pieces: list[bytes] = []
        try:
            pieces.extend(bounded(answer, _LARGEST))
        except Failure as failure:
            if failure.failure != "too_large":
                raise
        return b"".join(pieces)
