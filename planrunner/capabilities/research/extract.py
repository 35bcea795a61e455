"""From the bytes of a page to its text: HTML without what stands around the article, plain text, JSON."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any, NamedTuple

from trafilatura import bare_extraction

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.http.headers import is_charset

_HTML = ("text/html", "application/xhtml+xml")
_JSON = ("application/json", "text/json")
_UNSUPPORTED = ((b"%PDF-", "application/pdf"), (b"PK\x03\x04", "application/zip"), (b"\x89PNG", "image/png"))


_LARGEST_ARTICLE = 512 << 10
"""Bytes of HTML in which an article is looked for: that takes seconds for each megabyte and cannot be stopped."""


class Extract(NamedTuple):
    """What a page says, as text, with what it says about itself."""

    type: str
    text: str
    title: str = ""
    author: str = ""
    date: str = ""


def extract(body: bytes, told: str, charset: str, url: str) -> Extract:
    """The text of a body that the server calls ``told``. Raises Failure (`unsupported`) for what is not text."""
    kind = kind_of(body, told)
    if kind in _HTML:
        page = decoded(body, charset) if charset or _is_utf8(body) else body
        options: dict[str, Any] = {"with_metadata": True, "include_comments": False, "include_tables": True}
        found: Any = bare_extraction(page, url=url, **options) if len(body) <= _LARGEST_ARTICLE else None
        said = {name: str(getattr(found, name, None) or "") for name in ("text", "title", "author", "date")}
        text, title, plain = said["text"], said["title"], ""
        if not (text and title):
            plain_title, plain = _plain(page if isinstance(page, str) else decoded(body, "latin-1"))
            title = title or plain_title
        return Extract("text/html", (text or plain).strip(), _line(title), _line(said["author"]), said["date"])
    if kind in _JSON or kind.endswith("+json"):
        text = decoded(body, charset)
        try:
            value = json.loads(text)
            shown = json.dumps(value, indent=1, ensure_ascii=False)
            shown.encode()
        except (ValueError, RecursionError):  # also for half of a surrogate pair
            return Extract(kind, text)
        name = value.get("title") or value.get("name") if isinstance(value, dict) else ""
        return Extract(kind, shown, _line(name if isinstance(name, str) else ""))
    if kind.startswith("text/") or kind.endswith("+xml") or kind == "application/xml":
        return Extract(kind, decoded(body, charset))
    raise Failure(f"{url} is {kind}, of which no text is made", "unsupported")


def kind_of(body: bytes, told: str) -> str:
    """The media type: what the first bytes say where they are plain about it, else what the server says."""
    for start, kind in _UNSUPPORTED:
        if body.startswith(start):
            return kind
    if told and told != "application/octet-stream":
        return told
    head = body[:1_000].lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return "text/html"
    return "application/octet-stream" if b"\0" in body[:1_000] or not body else "text/plain"


def decoded(body: bytes, charset: str) -> str:
    """Text out of bytes: by the charset that the server names, else UTF-8, with line ends as ``\\n``."""
    if body.startswith(b"\xef\xbb\xbf"):
        body, charset = body[3:], "utf-8"
    text = body.decode(charset if is_charset(charset) else "utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _plain(page: str) -> tuple[str, str]:
    """Title and all visible text, for pages that are too short to find an article in."""

    class Reader(HTMLParser):
        skipped = 0
        in_title = False
        title = ""

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.skipped += tag in _SILENT
            self.in_title |= tag == "title"
            if tag in _BREAKS:
                lines.append("")

        def handle_endtag(self, tag: str) -> None:
            self.skipped -= tag in _SILENT and self.skipped > 0
            self.in_title &= tag != "title"
            if tag in _BREAKS:
                lines.append("")

        def handle_data(self, data: str) -> None:
            if self.in_title:
                self.title += data
            elif not self.skipped:
                lines[-1] += data

    lines = [""]
    reader = Reader()
    reader.feed(page)
    reader.close()
    return _line(reader.title), "\n".join(line for text in lines if (line := _line(text)))


_SILENT = frozenset(("script", "style", "noscript", "template", "svg"))
_BREAKS = frozenset("p div br li ul ol h1 h2 h3 h4 h5 h6 tr table section article header footer nav main pre".split())


def _line(text: str) -> str:
    return " ".join(text.split())
