"""A preview for people; made from the object of ``--json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planrunner.escapes import escaped, escaped_line, harmless
from planrunner.jsontext import as_text
from planrunner.plan.expressions.quantities import duration_text
from planrunner.views.agents import agents_lines
from planrunner.views.status import amount_text
from planrunner.views.terminal import Terminal, cut, plural

Json = Any


_MARKS = {"runs": "+", "asks": "!", "decided": "?", "on failure": "-", "skipped": "·", "omitted": "·", "left out": "·"}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_WORDS = {"runs": "run", "asks": "ask", "decided": "decide", "on failure": "if failed"}
_WORDS |= dict.fromkeys(("omitted", "left out"), "not run")


def preview_lines(screen: Terminal, document: dict[str, Json]) -> Iterator[str]:
    """What runs in which order, then the worst case of everything."""
    envelope = document["envelope"]
    params = " ".join(f"{name}={as_text(value)}" for name, value in document["params"].items())
    digest = document["digests"]["plan"].partition(":")[2][:12]
    yield f"{screen.paint(harmless(envelope['plan']), 'bold')} @ {digest}" + (
        f"   {harmless(params)}" if params else ""
    )
    longest = max((len(row["task"]) for row in _every(envelope["tasks"])), default=4)
    yield from _tasks(screen, envelope["tasks"], longest, 1)
    if document.get("agents"):
        yield ""
        yield from agents_lines(screen, document["agents"])
    if "changes" in document:
        yield ""
        yield from _changes(screen, document["changes"])
    yield ""
    yield from _sums(envelope)
    yield from _missing(document.get("missing", []))


def _missing(rows: list[dict[str, Json]]) -> Iterator[str]:
    for row in rows:
        way = " (its failure is allowed)" if row.get("allowed") else " (unless a task before it makes it)"
        fate = "" if row["refuses"] else way
        yield f"missing   {_named(row['tasks'])}: {escaped(row['text'])}{fate}"
    if any(row["refuses"] for row in rows):
        yield "          a run does not start without it (code 5)"


def _changes(screen: Terminal, rows: list[dict[str, Json]]) -> Iterator[str]:
    if not rows:
        yield "no task has a capability that can tell what it would change"
    for row in rows:
        said = escaped(row["summary"] or row["problem"])
        yield f"{screen.paint(harmless(row['task']), 'bold')}  {row['uses']}  {said}"
        yield from (f"  $ {escaped(call)}" for call in row["calls"])
        for line in row["diff"].removesuffix("\n").split("\n") if row["diff"] else ():
            yield "  " + screen.paint(escaped_line(line), _COLOURS.get(line[:1], ""))


def _every(rows: list[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    for row in rows:
        yield row
        yield from _every(row.get("inner", []))


def _tasks(screen: Terminal, rows: list[dict[str, Json]], longest: int, depth: int) -> Iterator[str]:
    wave = 0
    for row in rows:
        if row["wave"] != wave and depth == 1:
            wave = row["wave"]
            yield screen.paint(f"  wave {wave}", "dim")
        mark, word = _MARKS[row["what"]], _WORDS.get(row["what"], row["what"])
        facts = "; ".join(fact for fact in _facts(row) if fact)
        line = f"{'  ' * depth}{mark} {harmless(row['task']):<{longest}}  {word:<9}  {harmless(facts)}".rstrip()
        yield cut(line, screen.edge(), screen.unicode)
        yield from _tasks(screen, row.get("inner", []), longest, depth + 1)


def _facts(row: dict[str, Json]) -> Iterator[str]:
    yield row["why"]
    if row.get("first"):
        yield f"asks first: {' and '.join(row['first'])}"
    if row.get("items") is not None:
        yield plural(row["items"], "item")
    if row.get("rounds"):
        yield f"at most {plural(row['rounds'], 'round')}"
    if row.get("expires"):
        yield f"expires after {row['expires']}"
    if row.get("reuse"):
        yield row["reuse"]
    if row["what"] in ("runs", "decided", "on failure"):
        command = " ⏎ ".join(line.strip() for line in row["command"].splitlines() if line.strip())
        yield command or row["calls"]
        if row["attempts"] is None:
            yield "attempts computed when it starts"
        elif row["attempts"] > 1:
            yield f"{row['attempts']} attempts"
        if row.get("rollback"):
            yield f"undone by {row['rollback']}"


def _sums(envelope: dict[str, Json]) -> Iterator[str]:
    rows = list(_every(envelope["tasks"]))
    counts = [(sum(row["what"] == what for row in rows), word) for what, word in _COUNTED]
    yield " · ".join(f"{count} {word}" for count, word in counts if count)
    waits = ", beside waiting for people" if envelope["asks"] else ""
    yield f"time      {_time(envelope['time'], envelope['max_parallel'])}{waits}"
    worst = envelope["worst"]
    amounts = [
        f"at most {plural(worst['attempts'], 'attempt')}" if worst["attempts"] is not None else "attempts unknown"
    ]
    for name, unit in (("cost", ""), ("tokens", " tokens")):
        if worst[name]:
            amounts.append(f"at most {amount_text(name, worst[name])}{unit}")
        elif worst[name] is None:
            amounts.append(f"{name} unknown ({', '.join(worst['unknown'][:5])})")
    yield f"worst     {', '.join(amounts)}"
    for row in envelope["budgets"]:
        what = row["budget"]
        most = "unknown" if row["worst"] is None else amount_text(what, row["worst"])
        yield f"budget    {what} {amount_text(what, row['limit'])}: worst case {most}, {row['verdict']}"
    if envelope["asks"]:
        yield f"people    {_named(envelope['asks'])}"
    if envelope["writes"]:
        yield f"writes    {_named([write['path'] for write in envelope['writes']])}"
    if envelope["irreversible"]:
        yield f"no undo   not reverted by a rollback: {_named(envelope['irreversible'])}"


_COUNTED = (
    ("runs", "to run"),
    ("asks", "to ask"),
    ("decided", "decided while it runs"),
    ("on failure", "only if something fails"),
    ("skipped", "skipped"),
    ("omitted", "not run"),
    ("left out", "not selected"),
)


def _time(time: dict[str, Json], parallel: int) -> str:
    if time["critical_path"] is None or time["at_most"] is None:
        why = [f"no timeout for {_named(time['unknown'])}"] if time["unknown"] else []
        why += (
            [f"only the run can tell how many items or attempts {_named(time['uncounted'])} has"]
            if time["uncounted"]
            else []
        )
        text = f"unknown: {'; '.join(why)}"
    else:
        along = " → ".join(time["along"][:8]) + (" …" if len(time["along"]) > 8 else "")
        path = duration_text(time["critical_path"])
        text = f"at most {duration_text(time['at_most'])} with {parallel} at once; critical path {path} ({along})"
    if time["limit"] is not None:
        text += f"; stopped after {duration_text(time['limit'])}"
    return text


def _named(names: list[str]) -> str:
    every = [escaped(name) for name in dict.fromkeys(names)]
    return ", ".join(every[:8]) + (f" and {len(every) - 8} more" if len(every) > 8 else "")
