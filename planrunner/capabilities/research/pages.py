"""Pages that were fetched before, by address: kept with time, digest and validators in the cache of the project."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from typing import NamedTuple

from planrunner.capabilities.contract import Context
from planrunner.capabilities.files.records import forget_old
from planrunner.capabilities.http.partial import Partial


class Page(NamedTuple):
    """An answer. ``moved`` is where the address led with a redirect, and then there is no body; ``fetched_at`` is when
    the body came over the wire, ``checked_at`` when the server last said that it still holds."""

    url: str
    status: int
    type: str = ""
    charset: str = ""
    sha256: str = ""
    fetched_at: str = ""
    checked_at: str = ""
    etag: str = ""
    modified: str = ""
    moved: str = ""

    @property
    def validators(self) -> dict[str, str]:
        """The headers that ask whether the page is still the same."""
        given = {"if-none-match": self.etag, "if-modified-since": self.modified}
        return {name: value for name, value in given.items() if value}


class Pages:
    """The cache in one folder. Any number of processes may use it: files are replaced as a whole. A body that does not
    have its digest counts as not there, and so does what was not kept by planrunners of this user. What was not asked
    for in a month is forgotten."""

    __slots__ = ("_context", "_folder")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._folder = context.cache("research")

    def find(self, url: str) -> tuple[Page, bytes] | None:
        """What is kept of an address."""
        try:
            with open(self._path(url, "json"), encoding="utf-8") as file:
                stored = self._context.opened(f"page {url}", file.read())
            page = Page(**json.loads(stored or "null"))
            if page.moved:
                return page, b""
            with open(self._path(url, "body"), "rb") as file:
                body = file.read()
        except (OSError, ValueError, TypeError):
            return None
        return (page, body) if page.url == url and hashlib.sha256(body).hexdigest() == page.sha256 else None

    def keep(self, page: Page, body: bytes) -> None:
        if not page.moved:
            self._write(self._path(page.url, "body"), body)
        told = self._context.vouched(f"page {page.url}", json.dumps(page._asdict()))
        self._write(path := self._path(page.url, "json"), told.encode())
        folder, name = os.path.split(path)
        if name.startswith("0"):  # now and then
            forget_old(folder)

    @contextlib.contextmanager
    def part(self, url: str) -> Iterator[Partial]:
        """What came of a body before the connection broke; nothing stays where nothing says which body it is of."""
        part = Partial(self._context, f"page {url}")
        try:
            yield part
        finally:
            if not (part.validator and part.size):
                part.drop()
            part.close()

    def _path(self, url: str, ending: str) -> str:
        digest = hashlib.sha256(url.encode()).hexdigest()
        return f"{self._folder}/{digest[:2]}/{digest[2:]}.{ending}"

    def _write(self, path: str, data: bytes) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        staged = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
        try:
            with open(staged, "xb") as file:
                file.write(data)
            os.replace(staged, path)
        finally:
            if os.path.lexists(staged):
                os.unlink(staged)
