"""What is remembered, as people read it: a table of entries, and one with where it came from."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from planrunner.escapes import harmless
from planrunner.jsontext import as_text, shown
from planrunner.views.terminal import Terminal, table

Json = Any

_WIDE = 60


def rows(terminal: Terminal, entries: Sequence[dict[str, Json]]) -> list[str]:
    """The table of ``planrunner memory``; with a score where a search gave them."""
    scored = any("score" in entry for entry in entries)
    header = (*(("SCORE",) if scored else ()), "KEY", "CHANGED", "BY", "VALUE")
    return table(terminal, header, [_row(entry, scored) for entry in entries])


def _row(entry: dict[str, Json], scored: bool) -> tuple[str, ...]:
    score = (f"{entry['score']:.3g}",) if scored else ()
    value = shown(entry["value"], 2 * _WIDE)
    return (*score, harmless(entry["key"]), _when(entry["updated"]), harmless(_who(entry)), harmless(value))


def details(entry: dict[str, Json]) -> Iterator[str]:
    """One entry, a line a fact, and its value."""
    yield harmless(entry["key"])
    trust = "a person vouched for it" if entry["trusted"] else "untrusted text"
    run = entry["source"]["run"]
    facts = (
        ("written", f"{_when(entry['updated'])} by {_who(entry)}" + (f" of run {run}" if run else "")),
        ("first", _when(entry["created"]) if entry["created"] != entry["updated"] else ""),
        ("tags", ", ".join(entry["tags"])),
        ("trust", trust),
    )
    for name, text in facts:
        if text:
            yield f"  {name:<9}{harmless(text)}"
    yield ""
    yield from (harmless(line) for line in as_text(entry["value"], 1 << 20).splitlines())


def _who(entry: dict[str, Json]) -> str:
    source = entry["source"]
    return f"{source['kind']} {source['name']}".strip()


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
