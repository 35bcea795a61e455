"""Lists that come in pages: followed to their end, within bounds, and put together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, NamedTuple, Unpack

import httpx2

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.http.exchange import opened, send_with
from planrunner.capabilities.http.inputs import INLINE, Answer, Paging, Url
from planrunner.capabilities.http.request import Ask, asked
from planrunner.jsontext import shown

ABSENT = object()


def checked_pointer(pointer: Any, name: str) -> str:
    """The pointer of an input. Raises Failure for anything else."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise Failure(f"`{name}` must be a JSON pointer such as /data/items, found {shown(pointer)}")
    return pointer


def at(data: Any, pointer: str) -> Any:
    """What the pointer leads to, or ``ABSENT``."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(data, dict) and name in data:
            data = data[name]
        elif isinstance(data, list) and name.isascii() and name.isdigit() and int(name) < len(data):
            data = data[int(name)]
        else:
            return ABSENT
    return data


_WAYS = "`link`, or a mapping: `next: /pointer`, `cursor: /pointer` with `parameter`, or `page: NAME` or `offset: NAME`"


class Merged(NamedTuple):
    """What the pages hold."""

    items: Annotated[list[Any] | None, Doc("all items in order, up to 256 KiB of JSON; more becomes an artifact")]
    total: Annotated[int, Doc("number of items")]
    pages: Annotated[int, Doc("number of pages that were read")]
    complete: Annotated[bool, Doc("whether the last page was reached before a bound was")]
    artifact: Annotated[dict[str, Any] | None, Doc("record of the artifact that holds the items as JSON")]


class Way(NamedTuple):
    """How one page leads to the next."""

    kind: str
    pointer: str = ""
    parameter: str = ""
    start: int = 1


class Place(NamedTuple):
    """The next page: its address (empty: there is none), its number, and how many bytes the pages before it have."""

    url: str
    number: int
    size: int


class Bounds(NamedTuple):
    pages: int
    items: int


@capability(
    "http.pages",
    effect="read",
    risks=("reaches the network",),
    spends=("calls", "rest"),
    foreign=("items",),
    own=("artifact",),
)
def pages(
    context: Context,
    url: Url,
    items: Annotated[str, Doc("JSON pointer to the list in each page; default: the page is the list")] = "",
    by: Annotated[str | dict[str, Any], Doc(f"how to get to the next page: {_WAYS} (each with `start`)")] = "link",
    max_pages: Annotated[int, Doc("stop after so many pages")] = 100,
    max_items: Annotated[int, Doc("stop after so many items")] = 10000,
    **options: Unpack[Paging],
) -> Merged:
    """Read a list that comes in pages.

    `link` follows the `Link` header with `rel="next"`; `next` an address in the page; `cursor` sends what stands in the
    page as a query parameter; `page` and `offset` count up until a page is empty. A next page at another origin is
    refused as `policy`. The bounds end the list early, and then `complete` is false; `max_bytes` is for all pages
    together.
    """
    ask = asked(context, "GET", url, options, Paging)
    ask = ask._replace(inline=ask.limit)
    way = way_of(by)
    pointer = checked_pointer(items, "items")
    bounds = Bounds(_positive(max_pages, "max_pages"), _positive(max_items, "max_items"))
    note = f"http {sha256(f'{context.call.once or context.call.key} {ask.url}'.encode()).hexdigest()}"
    noted = context.noted(note)
    found: list[Any]
    found, read, place, gained = json.loads(noted) if noted else ([], 0, None, 1)
    complete = False
    with opened(context, ask) as connected:
        try:
            for page, following in _walk(context, ask, way, pointer, connected, place and Place(*place)):
                place = following
                found += page
                read += 1
                gained = context.call.attempt
                complete = not following.url and len(found) <= bounds.items
                if read >= bounds.pages or len(found) >= bounds.items:
                    break
        except Failure as failure:
            if failure.retry and read:  # another attempt goes on from here, and each page has all its tries
                failure.retry["attempts"] += gained - 1
                context.note(note, json.dumps([found, read, place, gained]))
            raise
    if noted:
        context.note(note, "")
    return _merged(context, found[: bounds.items], read, complete)


def way_of(given: Any) -> Way:
    """Read the input `by`."""
    if given == "link":
        return Way("link")
    if not isinstance(given, Mapping):
        raise Failure(f"`by` must be {_WAYS}, found {shown(given)}")
    kind = next((kind for kind in ("next", "cursor", "page", "offset") if kind in given), "")
    allowed = {"next": {"next"}, "cursor": {"cursor", "parameter"}, "page": {"page", "start"}}
    if not kind or given.keys() - allowed.get(kind, {"offset", "start"}):
        raise Failure(f"`by` must be {_WAYS}, found {shown(dict(given))}")
    if kind in ("next", "cursor"):
        return Way(kind, checked_pointer(given[kind], f"by.{kind}"), str(given.get("parameter", "cursor")))
    start = given.get("start", 1 if kind == "page" else 0)
    if isinstance(start, bool) or not isinstance(start, int):
        raise Failure(f"`by.start` must be a number, found {shown(start)}")
    return Way(kind, parameter=str(given[kind]), start=start)


def _walk(
    context: Context, ask: Ask, way: Way, pointer: str, connected: httpx2.Client, place: Place | None
) -> Iterator[tuple[list[Any], Place]]:
    """The items of one page after the other from ``place`` on (None: the first), each with the place that follows."""
    counted = way.kind in ("page", "offset")
    url, number, size = place or (_with(ask.url, way.parameter, way.start) if counted else ask.url, way.start, 0)
    ask, seen = ask._replace(url=url), {ask.url, url}
    while True:
        answer = send_with(context, ask, connected)
        size += answer.size
        if size > ask.limit:
            raise Failure(f"{ask.shown}: the pages together are larger than `max_bytes`, which is {ask.limit}")
        page = at(answer.json, pointer)
        if not isinstance(page, list):
            what = "absent" if page is ABSENT else "not a list"
            raise Failure(f"{ask.shown}: `{pointer or '/'}` is {what}", "logic", answer.brief())
        number += 1 if way.kind == "page" else len(page)
        following = _next(ask, way, answer, number if page else None)
        yield page, Place(following, number, size)
        if not following:
            return
        if following in seen:
            raise Failure(f"{ask.shown}: the page leads back to one that was read already")
        seen.add(following)
        ask = ask._replace(url=following)
        context.beat()


def _next(ask: Ask, way: Way, answer: Answer, number: int | None) -> str:
    """Address of the next page; empty where it does not exist."""
    if way.kind in ("page", "offset"):
        return "" if number is None else _with(ask.url, way.parameter, number)
    if way.kind == "link":
        return _joined(ask, link_next(answer.headers.get("link", "")))
    found = at(answer.json, way.pointer)
    if found is ABSENT or found in (None, "", False):
        return ""
    if way.kind == "cursor":
        return _with(ask.url, way.parameter, found)
    return _joined(ask, str(found))


def _with(url: str, parameter: str, value: Any) -> str:
    return str(httpx2.URL(url).copy_set_param(parameter, value))


def _joined(ask: Ask, reference: str) -> str:
    """The address that a page names, at the origin of the first one."""
    if not reference:
        return ""
    here = httpx2.URL(ask.url)
    try:
        there = here.join(reference)
    except httpx2.InvalidURL:
        raise Failure(f"{ask.shown}: the next page is not an address: {reference[:200]!r}") from None
    if (there.scheme, there.host, there.port) != (here.scheme, here.host, here.port) or there.userinfo:
        raise Failure(
            f"{ask.shown}: the next page is at another origin, {there.scheme}://{there.host}", rule="network.redirect"
        )
    return str(there.copy_with(fragment=None))


def link_next(header: str) -> str:
    """The address with ``rel="next"`` in a ``Link`` header (RFC 8288), or an empty string."""
    rest = header
    while "<" in rest:
        reference, _, rest = rest.partition("<")[2].partition(">")
        parameters, _, _ = rest.partition("<")
        for parameter in parameters.split(";"):
            name, _, value = parameter.strip().rstrip(",").strip().partition("=")
            if name.strip().lower() == "rel" and "next" in value.strip(' "').lower().split():
                return reference.strip()
    return ""


def _positive(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Failure(f"`{name}` must be a number above 0, found {shown(value)}")
    return value


def _merged(context: Context, found: list[Any], read: int, complete: bool) -> Merged:
    whole = json.dumps(found, ensure_ascii=False).encode()
    if len(whole) <= INLINE:
        return Merged(found, len(found), read, complete, None)
    return Merged(None, len(found), read, complete, context.keep(whole, "items.json", "application/json"))
