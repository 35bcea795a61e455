"""What a run would do, as facts of a page: made from the document of ``preview --json``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from planrunner.escapes import harmless
from planrunner.records import Struct
from planrunner.views.page.figures import amount_text, duration
from planrunner.views.status import listed

Json = Any

_COUNTED = (
    ("runs", "runs", "run"),
    ("asks", "asks people", "ask people"),
    ("decided", "is decided while it runs", "are decided while it runs"),
    ("on failure", "runs only after a failure", "run only after a failure"),
    ("skipped", "is skipped", "are skipped"),
    ("omitted", "does not run", "do not run"),
    ("left out", "is not selected", "are not selected"),
)
_SHOWN = 6


class Fact(Struct):
    """One line of a list of facts. ``state`` and ``icon`` mark what wants attention; ``code`` asks for monospace."""

    term: str
    text: str
    state: str = ""
    icon: str = ""
    code: bool = False


def forecast(document: dict[str, Json], missing: Sequence[dict[str, Json]] = ()) -> list[Fact]:
    """The worst case of a run: what runs, time, cost, budgets, people, files, and what no rollback reverts."""
    return [*_facts(document["envelope"]), *_missing(missing)]


def _facts(envelope: dict[str, Json]) -> Iterator[Fact]:
    yield Fact("Tasks", _counts(envelope["tasks"]))
    yield _time(envelope)
    yield from _worst(envelope["worst"])
    for row in envelope["budgets"]:
        yield _budget(row)
    if envelope["asks"]:
        yield Fact("People", _listed(envelope["asks"]), "gate", "gate")
    if envelope["writes"]:
        yield Fact("Writes", _listed([write["path"] for write in envelope["writes"]]), code=True)
    if envelope["irreversible"]:
        yield Fact("No rollback", _listed(envelope["irreversible"]))


def _rows(rows: Sequence[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    for row in rows:
        yield row
        yield from _rows(row.get("inner", ()))


def _counts(tasks: Sequence[dict[str, Json]]) -> str:
    every = [row["what"] for row in _rows(tasks)]
    parts = [(every.count(what), one, many) for what, one, many in _COUNTED]
    return ", ".join(f"{number:,} {one if number == 1 else many}" for number, one, many in parts if number) or "none"


def _time(envelope: dict[str, Json]) -> Fact:
    time = envelope["time"]
    limit = f"; stopped after {duration(time['limit'])}" if time["limit"] is not None else ""
    people = ", beside waiting for people" if envelope["asks"] else ""
    if time["critical_path"] is None or time["at_most"] is None:
        why = f"no timeout for {_listed(time['unknown'])}" if time["unknown"] else ""
        uncounted = f"the run alone tells how often {_listed(time['uncounted'])} runs" if time["uncounted"] else ""
        return Fact("Time", f"no bound: {'; '.join(filter(None, (why, uncounted)))}{limit}", "wait", "doubt")
    along = " → ".join(map(harmless, time["along"][:_SHOWN])) + (" …" if len(time["along"]) > _SHOWN else "")
    path = f"; critical path {along}, {duration(time['critical_path'])}" if along else ""
    return Fact("Time", f"at most {duration(time['at_most'])}{people}{path}{limit}")


def _worst(worst: dict[str, Json]) -> Iterator[Fact]:
    if worst["attempts"] is None:
        yield Fact("Attempts", "known once it runs")
    else:
        yield Fact("Attempts", f"at most {worst['attempts']:,}")
    for name, term in (("cost", "Cost"), ("tokens", "Tokens")):
        if worst[name]:
            yield Fact(term, f"at most {amount_text(name, worst[name])}")
        elif worst[name] is None:
            yield Fact(term, f"no bound: {_listed(worst['unknown'])}", "wait", "doubt")


def _budget(row: dict[str, Json]) -> Fact:
    what = row["budget"]
    most = "no bound" if row["worst"] is None else f"at most {amount_text(what, row['worst'])}"
    text = f"{most} of {amount_text(what, row['limit'])}: {row['verdict']}"
    fits = row["worst"] is not None and row["worst"] <= row["limit"]
    term = f"Budget: {what}"
    return Fact(term, text) if fits else Fact(term, text, "wait", "doubt")


def _missing(rows: Sequence[dict[str, Json]]) -> Iterator[Fact]:
    for row in rows:
        text = f"{_listed(row['tasks'])}: {harmless(row['text'])}"
        if row["refuses"]:
            yield Fact("Missing", f"{text}; no run starts without it", "bad", "bad")
        else:
            way = "; its failure is allowed" if row.get("allowed") else ", unless a task before it makes it"
            yield Fact("Missing", f"{text}{way}", "wait", "doubt")


def _listed(names: Sequence[str]) -> str:
    return listed([harmless(name) for name in dict.fromkeys(names)], _SHOWN)
