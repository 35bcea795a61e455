"""``research.fetch``: pages within the rules of robots.txt, downloaded politely into the cache, and their text."""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Iterable
from email.message import Message
from typing import Annotated, Any, NamedTuple

import httpx2
from protego import Protego

from planrunner.capabilities.contract import Context, Doc, Failure, capability, seconds, size
from planrunner.capabilities.http.download import Partial, total_of, validator_of
from planrunner.capabilities.http.exchange import retry_after
from planrunner.capabilities.http.request import PASSING
from planrunner.capabilities.outputs import may_call
from planrunner.capabilities.research.extract import extract, kind_of
from planrunner.capabilities.research.source import Given, Item, canonical, given, host, joined, origin
from planrunner.capabilities.research.wire import Page, Pages, Turns, Wire, bounded, explained, now, seconds_of
from planrunner.jsontext import shown

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
                f"robots.txt of {host(url)} does not want `{self._name}` to read {url}", rule="research.robots"
            )
        if rules.rest > _LONGEST_REST:
            asked = f"{rules.rest:g} s between requests"
            raise Failure(
                f"robots.txt of {host(url)} asks for {asked}; fetch its pages one by one", rule="research.robots"
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
        """The rules as text; None where the host has none."""
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


_MOST_REDIRECTS = 10
_MOST_ATTEMPTS = 3
_RETRY = {"delay": 0.4, "max_delay": 30.0}
_ACCEPT = "text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.9, */*;q=0.1"


class Tools(NamedTuple):
    """What a download works with. ``robots`` is None where the operator has them ignored; a page younger than ``fresh``
    seconds is not asked for again, nor one that was checked since the moment ``since``, in seconds since 1970;
    ``largest`` is in bytes."""

    wire: Wire
    pages: Pages
    turns: Turns
    robots: Robots | None
    fresh: float
    since: float
    largest: int


class Got(NamedTuple):
    """A page with its body; ``url`` is what was asked for, the page's is where it was found."""

    url: str
    page: Page
    body: bytes
    from_cache: bool


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
    if kept is not None:
        checked = seconds_of(kept[0].checked_at)
        if checked >= tools.since or seconds_of(now()) - checked < tools.fresh:
            return (*kept, seconds_of(kept[0].fetched_at) < tools.since)
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
            raise explained(url, error) from None
        tools.pages.keep(page, body)
        part.drop()
    return page, body, False


def _answered(url: str, answer: Any, part: Partial, largest: int) -> tuple[Page, bytes]:
    status, headers = answer.status_code, answer.headers
    if status in (301, 302, 303, 307, 308):
        return Page(url, status, fetched_at=now(), checked_at=now(), moved=_target(url, headers)), b""
    span = headers.get("content-range", "").strip().lower()
    if status == 206 and part.size > 0 and span.startswith(f"bytes {part.size}-"):
        before = b"".join(part.parts())
    elif status == 200:
        before = b""
        part.begin(_validator(headers))
    else:
        part.begin("")
        raise _refused(url, status, headers)
    body = _read(answer, before, part, largest)
    if status == 206 and len(body) < total_of(headers):
        raise Failure(f"{url} sent a part of the rest only", "transient")
    media_type = headers.get("content-type", "")
    message = Message()
    message["content-type"] = media_type or "application/octet-stream"
    kind, charset = message.get_content_type() if media_type else "", str(message.get_content_charset() or "")
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


def _validator(headers: Any) -> str:
    """What says that the rest belongs to the same body; weak tags do not, nor do encoded bodies."""
    if headers.get("content-encoding", "identity").lower() not in ("identity", ""):
        return ""
    validator = validator_of(headers)
    return validator if len(validator) < 900 else ""


def _refused(url: str, status: int, headers: Any) -> Failure:
    passing = status in PASSING or status in (206, 416)  # the part that is there does not fit what the server has now
    kind = "transient" if passing else "gone" if status in (404, 410) else "logic"
    later = retry_after(headers.get("retry-after", "")) if passing else None
    return Failure(f"{url} answered {status}", kind, {"status": status}, retry_after=later)


_MOST = 200
_MOST_BYTES = 64 << 20
_MOST_SHOWN = 400_000
"""Characters of text in the outputs of one task, however many pages there are."""
_LOOK = 0.05
_CARRIED = ("title", "snippet", "rank", "engine", "published")


class Docs(NamedTuple):
    query: Annotated[str, Doc("the question the pages were found by, where it is known")]
    docs: Annotated[
        list[dict[str, Any]],
        Doc(
            "the pages in the order asked for: url, final_url, title, text (its beginning, `truncated` says so), "
            "characters, sha256, text_sha256, type, status, fetched_at, checked_at, from_cache, artifact, text_artifact"
        ),
    ]
    failed: Annotated[
        list[dict[str, Any]], Doc("pages that could not be had: url, failure, reason, status, retry_after")
    ]
    total: Annotated[int, Doc("how many pages there are")]


class _Limits(NamedTuple):
    largest: int
    fresh: float
    rest: float
    parallel: int
    shown: int


@capability(
    "research.fetch",
    effect="read",
    risks=("network: reads the pages it is given",),
    spends=("calls", "rest"),
    foreign=("docs", "failed"),
    preconditions=("package trafilatura web",),
)
def fetch(
    context: Context,
    sources: Annotated[Any, Doc("addresses, or what research.search or research.rank gave", use="page")],
    tolerate: Annotated[int | str, Doc("how many pages may fail, a number or a share such as 20%")] = "99%",
    parallel: Annotated[int, Doc("how many hosts are read from at once, up to 16")] = 4,
    delay: Annotated[float | str, Doc("rest between two requests to one host", quantity="duration")] = "1s",
    max_age: Annotated[float | str, Doc("a page younger than this is not asked for again", quantity="duration")] = 0,
    max_bytes: Annotated[int | str, Doc("a larger page fails", quantity="size")] = "5MiB",
    text_limit: Annotated[int, Doc("characters of text in `docs`; the whole text is kept as an artifact")] = 2_000,
    query: Annotated[str, Doc("the question; default: the one that `sources` carries")] = "",
) -> Docs:
    """Read pages: into the cache with time, digest and validators, and out of it when the server says it still holds.

    robots.txt is honoured (RFC 9309), each host is asked one thing at a time, a download that broke goes on where it
    stopped. Text is made of HTML (the article; all of it above 512 KiB), plain text and JSON; anything else fails as
    `unsupported`. Where a page fails in a way that may pass, the attempt fails as `transient`, and up to two more ask
    for such pages again. A page that fails is listed in `failed` and loses none of the others; the task fails when more
    fail than `tolerate` allows, by default when all do.
    """
    source = given(sources, "sources", query)
    items = _unique(source)
    try:
        rest, fresh = float(seconds(delay)), float(seconds(max_age))
        largest = int(size(max_bytes))
    except ValueError as error:
        raise Failure(str(error)) from None
    if not 1 <= parallel <= 16:
        raise Failure("`parallel` is 1 to 16")
    if not 0 < largest <= _MOST_BYTES:
        raise Failure("`max_bytes` is 64 MiB at most")
    if not 0 <= text_limit <= 20_000:
        raise Failure("`text_limit` is 0 to 20,000")
    limits = _Limits(largest, fresh, rest, parallel, min(text_limit, _MOST_SHOWN // max(1, len(items))))
    allowed = _allowed(tolerate, len(items))
    note = f"{context.call.once or context.call.key} {sorted(item['url'] for item in items)}"
    note = f"research {hashlib.sha256(note.encode()).hexdigest()}"
    noted = context.noted(note)
    tries, since = json.loads(noted) if noted else (0, seconds_of(now()))
    outcomes = _fetched(context, items, limits, since if tries else math.inf)
    docs, failed = _pages(context, zip(items, outcomes), limits.shown, source.query)
    outputs = Docs(source.query, docs, failed, len(docs))
    waits = [each.get("retry_after", 0.0) for each in failed if each["failure"] == "transient"]
    if waits and min(waits) <= _RETRY["max_delay"] and tries + 1 < _MOST_ATTEMPTS and may_call(context):
        context.note(note, json.dumps([tries + 1, since]))
        attempts = context.call.attempt + _MOST_ATTEMPTS - tries - 1
        retry = {"attempts": attempts, **_RETRY}
        raise _failure(outputs, len(items), "transient", retry_after=min(waits), retry=retry)
    if noted:
        context.note(note, "")
    if len(failed) > allowed:
        kinds = {entry["failure"] for entry in failed}  # transient where another attempt may bring one of the pages
        kind = next((kind for kind in ("transient", "policy") if kind in kinds), "logic")
        rule = next((str(entry["rule"]) for entry in failed if kind == "policy" and "rule" in entry), "")
        raise _failure(outputs, len(items), kind, rule=rule)
    return outputs


def _pages(
    context: Context, fetched: Iterable[tuple[Item, Got | Item]], most: int, query: str
) -> tuple[list[Item], list[Item]]:
    """The pages with their texts, ``most`` characters each, and those that could not be had."""
    docs: list[Item] = []
    failed: list[Item] = []
    for item, outcome in fetched:
        page = _doc(context, item, outcome, most, query) if isinstance(outcome, Got) else outcome
        (failed if "failure" in page else docs).append(page)
        if context.cancelled():
            raise Failure("fetching was stopped", "interrupted")
    return docs, failed


def _allowed(tolerate: int | str, count: int) -> int:
    """How many of so many pages may fail."""
    text = str(tolerate).strip()
    share = text.removesuffix("%")
    if not share.isdigit() or (text != share and int(share) > 100):
        raise Failure(f"`tolerate`: expected a number or a share such as 20%, found {shown(tolerate)}")
    return count * int(share) // 100 if text != share else int(share)


def _unique(found: Given) -> list[Item]:
    """Each address once, in one spelling; what is not an address keeps its reason."""
    items: dict[str, Item] = {}
    for item in found.items:
        try:
            url = canonical(item["url"])
            items.setdefault(url, {**item, "url": url})
        except Failure as failure:
            items.setdefault(item["url"], {"url": item["url"][:500], "refused": failure})
    if len(items) > _MOST:
        raise Failure(f"`sources` has more than {_MOST} pages")
    return list(items.values())


def _fetched(context: Context, items: list[Item], limits: _Limits, since: float) -> list[Got | Item]:
    """What became of each page, in order. Threads go through the list; while they do, this one looks after the stop."""
    stopping = threading.Event()
    outcomes: list[Got | Item | None] = [
        _failed(item, item["refused"]) if "refused" in item else None for item in items
    ]
    todo = _interleaved([number for number, outcome in enumerate(outcomes) if outcome is None], items)
    pages = Pages(context)
    turns = Turns(limits.rest, lambda: stopping.is_set() or context.cancelled())
    with Wire(context) as wire:
        ignored = context.settings("research").get("robots") == "ignore"
        robots = None if ignored else Robots(wire, pages, turns)
        tools = Tools(wire, pages, turns, robots, limits.fresh, since, limits.largest)
        lock = threading.Lock()

        def work() -> None:
            while not stopping.is_set():
                with lock:
                    number = todo.pop(0) if todo else None
                if number is None:
                    return
                outcomes[number] = _tried(items[number], tools)
                context.beat()

        workers = [threading.Thread(target=work, daemon=True) for _ in range(min(limits.parallel, len(todo)))]
        for worker in workers:
            worker.start()
        try:
            while any(worker.is_alive() for worker in workers):
                if context.cancelled():
                    raise Failure("fetching was stopped", "interrupted")
                time.sleep(_LOOK)
        finally:
            stopping.set()
            for worker in workers:
                worker.join(0.5)
    return [outcome if outcome is not None else _failed(item, None) for item, outcome in zip(items, outcomes)]


def _interleaved(numbers: list[int], items: list[Item]) -> list[int]:
    """Host by host in turns, so that the rest of one host is the time of another."""
    rounds: dict[str, int] = {}
    keyed = []
    for number in numbers:
        name = host(items[number]["url"])
        rounds[name] = rounds.get(name, 0) + 1
        keyed.append((rounds[name], number))
    return [number for _, number in sorted(keyed)]


def _tried(item: Item, tools: Tools) -> Got | Item:
    try:
        return download(item["url"], tools)
    except Failure as failure:
        return _failed(item, failure)
    except Exception as error:  # one page must not lose the others
        return _failed(item, Failure(f"{type(error).__name__}: {error}"))


def _failed(item: Item, failure: Failure | None) -> Item:
    if failure is None:
        failure = Failure("was not reached", "transient")
    details = {"status": failure.outputs["status"]} if "status" in failure.outputs else {}
    if failure.rule:
        details["rule"] = failure.rule
    if failure.retry_after is not None:
        details["retry_after"] = failure.retry_after
    return {"url": item["url"], "failure": failure.failure, "reason": str(failure)[:500], **details}


def _doc(context: Context, item: Item, got: Got, shown: int, query: str) -> Item:
    """A page as it is handed on; body and text are kept as artifacts."""
    page = got.page
    kind = kind_of(got.body, page.type)
    name = f"page-{page.sha256[:12]}"
    artifact = context.keep(got.body, name, kind)
    try:
        made = extract(got.body, page.type, page.charset, page.url)
    except Failure as failure:
        return {**_failed(item, failure), "status": page.status, "type": kind, "artifact": artifact}
    text_artifact = context.keep(made.text.encode(), f"{name}.txt", "text/plain")
    carried = {key: item[key] for key in _CARRIED if key in item}
    optional = {key: value for key, value in (("author", made.author), ("date", made.date)) if value}
    return {
        **carried,
        "url": got.url,
        "final_url": page.url,
        "title": made.title or str(item.get("title") or ""),
        "text": made.text[:shown],
        "truncated": len(made.text) > shown,
        "characters": len(made.text),
        "sha256": page.sha256,
        "text_sha256": text_artifact["sha256"],
        "type": made.type,
        "status": page.status,
        "fetched_at": page.fetched_at,
        "checked_at": page.checked_at,
        "from_cache": got.from_cache,
        "artifact": artifact,
        "text_artifact": text_artifact,
        "query": query,
        **optional,
    }


def _failure(outputs: Docs, total: int, failure: str, **more: Any) -> Failure:
    first = next((entry for entry in outputs.failed if entry["failure"] == failure), outputs.failed[0])
    said = f"{len(outputs.failed)} of {total} pages failed; the first: {first['reason']}"
    return Failure(said, failure, outputs._asdict(), **more)
