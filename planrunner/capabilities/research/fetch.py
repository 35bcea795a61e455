"""``research.fetch``: read pages into the cache and hand on their text."""

from __future__ import annotations

import threading
import time
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Json, capability, seconds, size
from planrunner.capabilities.research.addresses import canonical, host
from planrunner.capabilities.research.download import Got, Tools, download
from planrunner.capabilities.research.extract import extract, kind_of
from planrunner.capabilities.research.given import Given, Item, given
from planrunner.capabilities.research.pages import Pages
from planrunner.capabilities.research.robots import Robots
from planrunner.capabilities.research.turns import Turns
from planrunner.capabilities.research.wire import Wire
from planrunner.jsontext import shown

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
    failed: Annotated[list[dict[str, Any]], Doc("pages that could not be had: url, failure, reason, status")]
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
    `unsupported`. A page that fails is listed in `failed` and loses none of the others; the task fails when more fail
    than `tolerate` allows, by default when all do.
    """
    found = given(sources, "sources", query)
    items = _unique(found)
    limits = _limits(parallel, (delay, max_age), max_bytes, text_limit, len(items))
    allowed = _allowed(tolerate, len(items))
    outcomes = _fetched(context, items, limits)
    docs: list[Item] = []
    failed: list[Item] = []
    for item, outcome in zip(items, outcomes):
        if isinstance(outcome, Got):
            outcome = _doc(context, item, outcome, limits.shown, found.query)
        (failed if "failure" in outcome else docs).append(outcome)
        if context.cancelled():
            raise Failure("fetching was stopped", "interrupted")
    outputs = Docs(found.query, docs, failed, len(docs))
    if len(failed) > allowed:
        raise _too_many(outputs, len(items))
    return outputs


def _limits(parallel: int, times: tuple[Json, Json], max_bytes: Json, shown: int, pages: int) -> _Limits:
    try:
        rest, fresh = (float(seconds(value)) for value in times)
        largest = int(size(max_bytes))
    except ValueError as error:
        raise Failure(str(error)) from None
    if not 1 <= parallel <= 16:
        raise Failure("`parallel` is 1 to 16")
    if not 0 < largest <= _MOST_BYTES:
        raise Failure("`max_bytes` is 64 MiB at most")
    if not 0 <= shown <= 20_000:
        raise Failure("`text_limit` is 0 to 20,000")
    return _Limits(largest, fresh, rest, parallel, min(shown, _MOST_SHOWN // max(1, pages)))


def _unique(found: Given) -> list[Item]:
    """Each address once, in one spelling; what is no address keeps its reason."""
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


def _allowed(tolerate: int | str, total: int) -> int:
    """How many of ``total`` pages may fail."""
    text = str(tolerate).strip()
    share = text.removesuffix("%")
    if not share.isdigit() or (text != share and int(share) > 100):
        raise Failure(f"`tolerate`: expected a number or a share such as 20%, found {shown(tolerate)}")
    return total * int(share) // 100 if text != share else int(share)


def _fetched(context: Context, items: list[Item], limits: _Limits) -> list[Got | Item]:
    """What became of each page, in order. Threads go through the list; while they do, this one looks after the stop."""
    stopping = threading.Event()
    outcomes: list[Got | Item | None] = [
        _failed(item, item["refused"]) if "refused" in item else None for item in items
    ]
    todo = _interleaved([number for number, outcome in enumerate(outcomes) if outcome is None], items)
    pages = Pages(context)
    turns = Turns(limits.rest, lambda: stopping.is_set() or context.cancelled())
    with Wire(context) as wire:
        robots = _robots(context, wire, pages, turns)
        tools = Tools(wire, pages, turns, robots, limits.fresh, limits.largest)
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


def _robots(context: Context, wire: Wire, pages: Pages, turns: Turns) -> Any:
    if context.settings("research").get("robots") == "ignore":
        return None
    return Robots(wire, pages, turns)


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
    told = {"status": failure.outputs["status"]} if "status" in failure.outputs else {}
    rule = {"rule": failure.rule} if failure.rule else {}
    return {"url": item["url"], "failure": failure.failure, "reason": str(failure)[:500], **rule, **told}


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


def _too_many(outputs: Docs, total: int) -> Failure:
    """The failure of the task: transient where another attempt may bring one of the pages."""
    kinds = {entry["failure"] for entry in outputs.failed}
    failure = next((kind for kind in ("transient", "policy", "logic") if kind in kinds), sorted(kinds)[0])
    said = f"{len(outputs.failed)} of {total} pages failed; the first: {outputs.failed[0]['reason']}"
    rule = next((str(entry["rule"]) for entry in outputs.failed if failure == "policy" and "rule" in entry), "")
    return Failure(said, failure if failure in ("transient", "policy") else "logic", outputs._asdict(), rule=rule)
