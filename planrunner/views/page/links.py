"""Links within the page: the queries of addresses, and tabs that show a part of a list."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlencode


class Tab(NamedTuple):
    """A way to see a part of what there is, with how much that is where it is counted. ``query`` is that of its
    address, ``current`` says that it is what is shown; ``state`` is the colour of its icon."""

    word: str
    query: str
    current: bool
    number: int | None = None
    icon: str = ""
    state: str = ""


def query_of(**values: str | int | None) -> str:
    """The query of an address, without what is empty; empty where nothing is asked for."""
    given = {name: value for name, value in values.items() if value not in (None, "")}
    return f"?{urlencode(given)}" if given else ""
