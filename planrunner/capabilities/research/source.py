"""Sources, as one step of a research hands them to the next, and the addresses of their pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from planrunner.capabilities.contract import Context, Failure, Json

Item = dict[str, Any]

LISTS = ("facts", "sources", "docs", "results", "urls")
"""Under which of these names the list stands in an output; the first that is there counts."""

MOST = 1_000
_LONGEST_TEXT = 8 << 20


class Given(NamedTuple):
    """The items, each with a ``url``, and the question that led to them, empty where nothing tells it."""

    query: str
    items: list[Item]


def given(value: Json, name: str, query: str = "") -> Given:
    """Read the first input ``name`` of a step. Raises Failure for what is neither of the shapes it may have, and for
    more than 1,000 items."""
    items: list[Item] = []
    for item in _items(value, name, 0):
        items.append(item)
        if len(items) > MOST:
            raise Failure(f"`{name}` has more than {MOST:,} items")
    return Given(query or _query(value, items), items)


def _items(value: Json, name: str, depth: int) -> Iterator[Item]:
    if isinstance(value, str):
        yield {"url": value}
    elif isinstance(value, dict) and isinstance(value.get("url"), str):
        yield dict(value)
    elif isinstance(value, dict) and (held := next((value[key] for key in LISTS if key in value), None)) is not None:
        yield from _items(held, name, depth)
    elif isinstance(value, list | tuple) and depth < 3:
        for inner in value:
            yield from _items(inner, name, depth + 1)
    else:
        kind = (
            f"a {type(value).__name__}" if not isinstance(value, dict) else f"a map of {', '.join(value) or 'nothing'}"
        )
        raise Failure(f"`{name}`: expected addresses or what an earlier step of research gave, found {kind}")


def _query(value: Json, items: list[Item]) -> str:
    """The question that an output carries along, else the one that its first item was found by."""
    holders = [value, *items[:1]] if isinstance(value, dict) else items[:1]
    return next((text for holder in holders if isinstance(text := holder.get("query"), str) and text), "")


def texts_of(context: Context, items: list[Item]) -> Iterator[str]:
    """The whole texts, one by one. Raises Failure when stopped on the way."""
    for item in items:
        if context.cancelled():
            raise Failure("stopped", "interrupted")
        yield text_of(context, item)


def text_of(context: Context, item: Item) -> str:
    """The whole text of an item: the outputs carry only its beginning where it is long. What has no text of its own, as
    a result of a search, has its snippet. Raises Failure where the kept text is gone or not the one it says it is."""
    text = item.get("text")
    if not isinstance(text, str):
        return str(item.get("snippet") or "")
    if not item.get("truncated"):
        return text
    digest = str(item.get("text_sha256", ""))
    with context.artifact(digest) as file:
        data = file.read(_LONGEST_TEXT)
    if hashlib.sha256(data).hexdigest() != digest:
        raise Failure(f"the kept text of {item['url']} is damaged")
    return data.decode("utf-8", "replace")


def quoted(context: Context, place: Item) -> Item:
    """A place, after its quote was looked up where it says. What has no digest was never kept, and cannot be checked.
    Raises Failure where something else stands there, and where the text is not kept."""
    if context.cancelled():
        raise Failure("stopped", "interrupted")
    if not place.get("text_sha256"):
        return place
    text = text_of(context, {**place, "text": "", "truncated": True})
    if text[place["start"] : place["end"]] != place["quote"]:
        span = f"{place['start']}–{place['end']}"
        raise Failure(f"the quote at {span} of {place['url']} is not what stands there: {place['quote'][:80]}")
    return place


_PORTS = {"http": 80, "https": 443}
_SAFE = "/%:@!$&'()*+,;=~-._"
_LONGEST = 4_096


def canonical(url: str) -> str:
    """The address as it is asked for: scheme and host in small letters, no fragment, no default port, no spaces. Raises
    Failure for what is not an http address, and (policy) for one with a password in it."""
    text = url.strip()
    try:
        text.encode()
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise Failure(f"`{text[:200]}` is not an address: {error}") from None
    if parts.scheme.lower() not in _PORTS or not host or len(text) > _LONGEST:
        raise Failure(f"`{text[:200]}` is not an http(s) URL")
    if parts.username is not None or parts.password is not None:
        raise Failure(f"the address of a page on {host} carries a name or a password", rule="git.credentials")
    place = f"[{host}]" if ":" in host else _ascii(host)
    if port is not None and port != _PORTS[parts.scheme.lower()]:
        place = f"{place}:{port}"
    path, query = quote(parts.path or "/", safe=_SAFE), quote(parts.query, safe=_SAFE + "?")
    return urlunsplit((parts.scheme.lower(), place, path, query, ""))


def joined(url: str, reference: str) -> str:
    """The canonical address that a page at ``url`` refers to. Raises as ``canonical``."""
    try:
        return canonical(urljoin(url, reference))
    except ValueError as error:
        raise Failure(f"`{reference[:200]}` is not an address: {error}") from None


def _ascii(host: str) -> str:
    if host.isascii():
        return host.lower()
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        raise Failure(f"`{host}` is not the name of a host") from None


def origin(url: str) -> str:
    """Scheme, host and port of a canonical address: what one robots.txt speaks for."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def host(url: str) -> str:
    return urlsplit(url).hostname or ""
