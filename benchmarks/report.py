"""The figures kept between runs, and the page and picture made of them.

They are kept beside the code, so that a run of a few rows anywhere leaves those of the others on the page.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sqlite3
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import peers
from measure import Spread
from rows import ROWS, Line

KEPT = os.path.join(peers.ROOT, "benchmarks", "figures.json")
PAGE = os.path.join(peers.ROOT, "docs", "explanation", "performance.md")
PICTURE = os.path.join(peers.ROOT, "docs", "pictures", "performance.svg")
START, END = "<!-- measured: written by benchmarks/run.py -->", "<!-- end of what is measured -->"


def holds(line: Line) -> bool:
    if line.bar is None:
        return True
    return line.value.median >= line.bar if line.least else line.value.median <= line.bar


def reaches_goal(line: Line) -> bool:
    if line.goal is None:
        return False
    return line.value.median >= line.goal if line.least else line.value.median <= line.goal


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 20 else f"{value:.2f}"


def _limit(line: Line, limit: float | None) -> str:
    return "–" if limit is None else f"{'≥' if line.least else '≤'} {limit:g}"


def _verdict(line: Line) -> str:
    if line.bar is None and line.goal is None:
        return "for comparison"
    if not holds(line):
        return "**misses the bar**"
    return "goal" if reaches_goal(line) else "bar" if line.bar is not None else "misses the goal"


def plain(line: Line) -> str:
    """One line for the terminal."""
    limits = f"bar {_limit(line, line.bar)}, goal {_limit(line, line.goal)}"
    value = f"{_figure(line.value.median)} {line.unit} ({_figure(line.value.low)}–{_figure(line.value.high)})"
    return f"{line.row:4} {line.what:58} {value:42} {limits:22} {_verdict(line).strip('*')}   {line.detail}"


class Kept(NamedTuple):
    """The lines of one row with the conditions they were measured under: how many rounds, the lowest and the highest
    load average, the day, and what took part on which machine."""

    lines: list[Line]
    rounds: list[int]
    load: list[float]
    day: str
    parts: str


def keep(row: str, lines: Sequence[Line], rounds: int, load: float) -> None:
    figures = _read()
    figures[row] = {"lines": [list(line) for line in lines], "rounds": [rounds], "load": [load, load],
                    "day": time.strftime("%Y-%m-%d"), "parts": _parts()}  # fmt: skip
    with open(KEPT, "w", encoding="utf-8") as file:
        file.write(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")


def _read() -> dict[str, Any]:
    if not os.path.exists(KEPT):
        return {}
    with open(KEPT, encoding="utf-8") as file:
        kept: dict[str, Any] = json.load(file)
    return kept


def _kept() -> dict[str, Kept]:
    figures = _read()
    return {row: _load(figures[row]) for row in ROWS if row in figures}


def _load(body: dict[str, Any]) -> Kept:
    lines = [Line(row, what, Spread(*value), *rest) for row, what, value, *rest in body["lines"]]
    return Kept(lines, body["rounds"], body["load"], body["day"], body["parts"])


def write_page() -> None:
    """Puts the table between the two markers of the page, and the picture beside it."""
    rows = _kept()
    if not rows:
        return
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    head, tail = text.partition(START)[0], text.partition(END)[2]
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(f"{head}{START}\n\n{_table(rows)}\n{_conditions(rows)}\n\n{END}{tail}")
    os.makedirs(os.path.dirname(PICTURE), exist_ok=True)
    with open(PICTURE, "w", encoding="utf-8") as file:
        file.write(_picture([line for kept in rows.values() for line in kept.lines if line.bar is not None]))


def _table(rows: dict[str, Kept]) -> str:
    parts = [
        "| row | work | measured (lowest–highest) | bar | goal | reached | beside |\n|---|---|---|---|---|---|---|\n"
    ]
    for kept in rows.values():
        for line in kept.lines:
            value = f"{_figure(line.value.median)} {line.unit} ({_figure(line.value.low)}–{_figure(line.value.high)})"
            cells = [line.row, line.what, value, _limit(line, line.bar), _limit(line, line.goal), _verdict(line)]
            parts.append(f"| {' | '.join([*cells, line.detail])} |\n")
    return "".join(parts)


def _conditions(rows: dict[str, Kept]) -> str:
    rounds = sorted({each for kept in rows.values() for each in kept.rounds})
    days = sorted({kept.day for kept in rows.values()})
    loads = [each for kept in rows.values() for each in kept.load]
    parts = dict.fromkeys(kept.parts for kept in rows.values())
    return (
        f"Medians of {' or '.join(map(str, rounds))} rounds, contenders in turn, measured on {', '.join(days)}: "
        f"{' or '.join(parts)}, load average {min(loads):.1f}–{max(loads):.1f} when the rows started. "
        f"Byte code is compiled, the journal is on with `synchronous=FULL`."
    )


def _parts() -> str:
    """What takes part, and the machine."""
    ours = peers.Environment("planrunner", os.path.join(peers.CACHE, "env", "planrunner")).version("planrunner")
    return (
        f"planrunner {ours}, CPython {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"{peers.versions(['ninja', 'yamllint', 'doit', 'dbos'])}; {os.cpu_count()} cores, {platform.system()} "
        f"{platform.release().split('-')[0]}"
    )


def _share(line: Line, bar: float, value: float) -> float:
    if line.least:
        return bar / value if value else math.inf
    return value / bar if bar else (math.inf if value else 0.0)


def _picture(lines: Sequence[Line]) -> str:
    """A bar for each figure as a share of its limit, on a logarithmic scale: left of the line at 1 is good."""
    height, left, width = 24, 400, 420
    low, high = 0.05, 4.0

    def x(share: float) -> float:
        share = min(max(share, low), high)
        return left + width * math.log(share / low) / math.log(high / low)

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 120} {height * len(lines) + 60}" '
            'font-family="ui-sans-serif, system-ui, sans-serif" font-size="13" role="img">\n'
            "<title>Each measured figure as a share of the bar it must stay under</title>\n"
            '<rect width="100%" height="100%" fill="#ffffff"/>\n'
            f'<text x="{left}" y="20" fill="#57606a">share of the bar (logarithmic); left of the line holds</text>\n'
        )
    ]
    for number, line in enumerate(lines):
        y = 34 + number * height
        bar, value = line.bar or 0.0, line.value.median
        share = _share(line, bar, value)
        colour = "#1a7f37" if holds(line) else "#cf222e"
        name = f"{line.row}  {line.what}".replace("`", "").replace("&", "&amp;").replace("<", "&lt;")
        parts.append(
            f'<text x="{left - 10}" y="{y + 13}" text-anchor="end" fill="#1f2328">{name}</text>'
            f'<rect x="{left}" y="{y + 2}" width="{x(share) - left:.1f}" height="{height - 8}" fill="{colour}"/>'
            f'<text x="{x(share) + 6:.1f}" y="{y + 13}" fill="#57606a">{_figure(value)} {line.unit}</text>\n'
        )
    bottom = 34 + len(lines) * height
    parts.append(
        f'<line x1="{x(1):.1f}" y1="28" x2="{x(1):.1f}" y2="{bottom}" stroke="#1f2328" stroke-dasharray="4 3"/>\n'
        "</svg>\n"
    )
    return "".join(parts)
