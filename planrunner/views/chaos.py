"""What ``planrunner chaos`` found out, for people; made from the object of ``--json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planrunner.views.symbols import plural
from planrunner.views.table import table
from planrunner.views.terminal import Terminal, harmless

Json = Any


def chaos_lines(screen: Terminal, found: dict[str, Json]) -> Iterator[str]:
    """The table of what was injected and how each run ended, then the verdict."""
    world = "a scratch copy of the project" if found.get("real") else f"an imagined world: {found['world']}"
    yield f"{harmless(found['plan'])} in {world}; {plural(found['writes'], 'journal write')}, ends as {found['status']}"
    yield ""
    rows = [
        (
            row["what"],
            str(row["runs"]),
            str(row["doubts"]),
            ", ".join(f"{n} {word}" for word, n in row["ended"].items()),
        )
        for row in found["table"]
    ]
    yield from table(screen, ("KILLED", "RUNS", "IN DOUBT", "ENDED"), rows)
    yield ""
    if found["doubts"]:
        settled = "tried again" if found.get("real") else "settled by what the imagined world knows"
        yield f"in doubt: {plural(found['doubts'], 'attempt')} of unsafe tasks, {settled}"
    if found["left_out"]:
        yield f"{plural(found['left_out'], 'run')} left out: no time (--time)"
    yield from _verdict(screen, found)


def _verdict(screen: Terminal, found: dict[str, Json]) -> Iterator[str]:
    bad = found["violation"]
    if bad is None:
        text = "the same end every time" + ("" if found.get("real") else ", nothing lost, nothing unsafe done twice")
        yield f"{screen.sign('completed')} {plural(found['runs'], 'run')} killed and resumed: {text}"
        return
    yield f"{screen.sign('failed')} a kill changed how the run ends:"
    for line in bad["wrong"][:10]:
        yield f"    {harmless(line)}"
    yield f"  again: {harmless(bad['again'])}"
