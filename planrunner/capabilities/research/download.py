"""One page over the wire: redirects, robots, turns, conditional requests, and going on where a connection broke."""

from __future__ import annotations

import hashlib
from email.message import Message
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.http.expected import PASSING
from planrunner.capabilities.http.partial import Partial
from planrunner.capabilities.http.ranges import total_of, validator_of
from planrunner.capabilities.http.trying import retry_after
from planrunner.capabilities.research.addresses import canonical, host, joined
from planrunner.capabilities.research.pages import Page, Pages
from planrunner.capabilities.research.wire import Wire, explained, now, seconds_of

if TYPE_CHECKING:
    from planrunner.capabilities.research.robots import Robots
    from planrunner.capabilities.research.turns import Turns


_MOST_REDIRECTS = 10
_MOST_ATTEMPTS = 3
_LONGEST_WAIT = 30.0
_ACCEPT = "text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.9, */*;q=0.1"


class Tools(NamedTuple):
    """What a download works with. ``robots`` is None where the operator has them ignored; a page younger than ``fresh``
    seconds is not asked for again; ``largest`` is in bytes."""

    wire: Wire
    pages: Pages
    turns: Turns
    robots: Robots | None
    fresh: float
    largest: int


class Got(NamedTuple):
    """A page with its body; ``url`` is what was asked for, the page's is where it was found."""

    url: str
    page: Page
    body: bytes
    from_cache: bool


class _Broken(Exception):
    """Worth another attempt after ``wait`` seconds."""

    def __init__(self, failure: Failure, wait: float) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.wait = wait


def download(url: str, tools: Tools) -> Got:
    """Fetch a page. Raises Failure: `policy` where it is not for us, `transient` where the peer may mend itself,
    `too_large`, `gone` for 404 and 410, `logic` for whatever else keeps it away."""
    at = url
    for _ in range(_MOST_REDIRECTS + 1):
        page, body, from_cache = _one(at, tools)
        if not page.moved:
            return Got(url, page, body, from_cache)
        at = canonical(page.moved)
    raise Failure(f"{url} redirects more than {_MOST_REDIRECTS} times")


def _one(url: str, tools: Tools) -> tuple[Page, bytes, bool]:
    rest = tools.robots.admit(url) if tools.robots is not None else 0.0
    kept = tools.pages.find(url)
    if kept is not None and seconds_of(now()) - seconds_of(kept[0].checked_at) < tools.fresh:
        return (*kept, True)
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        try:
            return _asked(url, kept, tools, rest)
        except _Broken as broken:
            if attempt == _MOST_ATTEMPTS or broken.wait > _LONGEST_WAIT:
                raise broken.failure from None
            tools.turns.pause(max(broken.wait, 0.2 * 2**attempt))
    raise AssertionError("the last attempt has ended the loop")


def _asked(url: str, kept: tuple[Page, bytes] | None, tools: Tools, rest: float) -> tuple[Page, bytes, bool]:
    with tools.pages.part(url) as part, tools.turns.turn(host(url), rest):
        have = part.size if part.validator else 0
        headers = {"accept": _ACCEPT}
        if have:
            headers.update({"range": f"bytes={have}-", "if-range": part.validator})
        elif kept is not None:
            headers.update(kept[0].validators)
        try:
            with tools.wire.get(url, headers) as answer:
                if answer.status_code == 304 and kept is not None and not have:
                    page = kept[0]._replace(checked_at=now())
                    tools.pages.keep(page, kept[1])
                    return page, kept[1], True
                page, body = _answered(url, answer, part, tools.largest)
        except httpx2.HTTPError as error:
            raise _Broken(explained(url, error), 0.0) from None
        tools.pages.keep(page, body)
        part.drop()
    return page, body, False


def _answered(url: str, answer: Any, part: Partial, largest: int) -> tuple[Page, bytes]:
    status, headers = answer.status_code, answer.headers
    if status in (301, 302, 303, 307, 308):
        return Page(url, status, fetched_at=now(), checked_at=now(), moved=_target(url, headers)), b""
    if status == 206 and _goes_on(headers.get("content-range", ""), part.size):
        before = b"".join(part.parts())
    elif status == 200:
        before = b""
        part.begin(_validator(headers))
    else:
        part.begin("")
        raise _refused(url, status, headers)
    body = _read(answer, before, part, largest)
    if status == 206 and _is_cut(headers, len(body)):
        raise _Broken(Failure(f"{url} sent a part of the rest only", "transient"), 0.0)
    kind, charset = _type(headers.get("content-type", ""))
    stamp = now()
    validators = (headers.get("etag", ""), headers.get("last-modified", ""))
    return Page(url, 200, kind, charset, hashlib.sha256(body).hexdigest(), stamp, stamp, *validators), body


def _read(answer: Any, before: bytes, part: Partial, largest: int) -> bytes:
    """The body; what has come is on disk before the next piece is waited for."""
    body = bytearray(before)
    for piece in answer.iter_bytes():
        body += piece
        if len(body) > largest:
            part.begin("")
            raise Failure(f"{answer.url} is larger than {largest:,} bytes", "too_large")
        if part.validator:
            part.add(piece)
    return bytes(body)


def _target(url: str, headers: Any) -> str:
    if not headers.get("location"):
        raise Failure(f"{url} redirects to nowhere")
    try:
        return joined(url, headers["location"])
    except Failure as failure:
        raise Failure(f"{url} redirects to what is not fetched: {failure}", "policy", rule=failure.rule) from None


def _goes_on(told: str, have: int) -> bool:
    """Whether a partial answer starts where we have stopped."""
    return have > 0 and told.strip().lower().startswith(f"bytes {have}-")


def _is_cut(headers: Any, size: int) -> bool:
    """Whether a partial answer ended before the body did, as far as it tells."""
    return size < total_of(headers)


def _validator(headers: Any) -> str:
    """What says that the rest belongs to the same body; weak tags do not, nor do encoded bodies."""
    if headers.get("content-encoding", "identity").lower() not in ("identity", ""):
        return ""
    found = validator_of(headers)
    return found if len(found) < 900 else ""


def _refused(url: str, status: int, headers: Any) -> Exception:
    failed = Failure(f"{url} answered {status}", "transient" if status in PASSING else "logic", {"status": status})
    if status in (404, 410):
        failed.failure = "gone"
    if status in (206, 416):  # the part that is there does not fit what the server has now
        return _Broken(failed, 0.0)
    return _Broken(failed, retry_after(headers.get("retry-after", "")) or 0.0) if status in PASSING else failed


def _type(told: str) -> tuple[str, str]:
    """Media type and charset out of a Content-Type."""
    message = Message()
    message["content-type"] = told or "application/octet-stream"
    return message.get_content_type() if told else "", str(message.get_content_charset() or "")
