"""What a project knows, for the page: notes and claims, the memory, hypotheses of runs, and a digest of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from planrunner.escapes import harmless
from planrunner.jsontext import as_text
from planrunner.plan.expressions.quantities import format_percent
from planrunner.records import Struct
from planrunner.views.digest import Digested
from planrunner.views.hypotheses import arithmetic
from planrunner.views.page.figures import count, largest_unit, plain
from planrunner.views.page.signs import Sign, counted, run_sign
from planrunner.views.status import listed

Json = Any

_VALUE = 160
"""Characters of a value that a list shows."""
_WHOLE = 100_000
"""Characters of a value that its own page shows."""

CLAIMS: dict[str, Sign] = {
    "confirmed": Sign("ok", "ok", "Confirmed"),
    "supported": Sign("run", "book", "Supported"),
    "open": Sign("todo", "todo", "Open"),
    "disputed": Sign("wait", "doubt", "Disputed"),
}
"""By the status of a claim."""
BELIEFS: dict[str, Sign] = {
    "supported": Sign("ok", "ok", "Supported"),
    "confirmed": Sign("ok", "ok", "Confirmed"),
    "refuted": Sign("off", "off", "Refuted"),
    "open": Sign("todo", "todo", "Open"),
}
"""By the status of a hypothesis."""
_NOTE = Sign("todo", "file", "Note")


class NoteLine(Struct):
    """A note or a claim in the list; ``query`` is that of its address."""

    id: str
    title: str
    sign: Sign
    confidence: str
    sources: str
    tags: tuple[str, ...]
    query: str = ""


class Source(Struct):
    """What speaks for or against a claim: an address is a link only where it is one of the web."""

    sign: Sign
    place: str
    quote: str = ""
    link: str = ""


class NotePage(Struct):
    """A note or a claim as a whole."""

    id: str
    title: str
    sign: Sign
    said: str
    text: str
    facts: tuple[tuple[str, str], ...]
    sources: tuple[Source, ...]


class Remembered(Struct):
    """An entry of the memory. ``value`` is cut in a list and whole on its own page; times are seconds since 1970.
    ``query`` is that of its address."""

    key: str
    value: str
    by: str
    trusted: bool
    tags: tuple[str, ...]
    created: float
    updated: float
    run: str
    score: str = ""
    query: str = ""


class Hypothesis(Struct):
    """A hypothesis of a run: ``percent`` is its confidence, ``evidence`` what each task said about it."""

    name: str
    statement: str
    sign: Sign
    percent: str
    width: str
    within: str
    arithmetic: str
    evidence: tuple[tuple[str, str], ...]


class DigestLine(Struct):
    """A run of the digest: ``lines`` are what waits, failed, runs, was done and comes next, each with its word."""

    run: str
    plan: str
    sign: Sign
    counts: str
    lines: tuple[tuple[str, str], ...]


def note_line(note: dict[str, Json]) -> NoteLine:
    """A note as ``knowledge/claims.py`` gives it, for the list."""
    claim = note["kind"] == "claim"
    sources = int(note["sources"]) if claim else len(note.get("citations", ()))
    return NoteLine(
        str(note["id"]),
        harmless(str(note["title"])),
        CLAIMS.get(str(note.get("status")), _NOTE) if claim else _NOTE,
        f"{note['confidence']:.0%}" if claim else "",
        count(sources, "source") if sources else "none",
        tuple(harmless(str(tag)) for tag in note.get("tags", ())),
    )


def note_page(note: dict[str, Json]) -> NotePage:
    """A note with what speaks for it and against it."""
    line = note_line(note)
    said = ""
    if note["kind"] == "claim":
        sources = count(note["sources"], "independent source")
        said = f"{sources}, {count(note['tested'], 'test')}, confidence {note['confidence']:.0%}"
    facts = [(name, harmless(str(note[name]))) for name in ("by", "created") if note.get(name)]
    if line.tags:
        facts.append(("tags", ", ".join(line.tags)))
    return NotePage(
        line.id, line.title, line.sign, said, plain(str(note.get("text") or "")), tuple(facts), tuple(_sources(note))
    )


def _sources(note: dict[str, Json]) -> Iterator[Source]:
    for cited in note.get("citations", ()):
        url = str(cited.get("url") or "")
        place = url or cited.get("file") or f"artifact {str(cited.get('artifact', ''))[:12]}"
        sign = Sign("ok", "ok", "Checked") if cited.get("checked") else Sign("todo", "todo", "Unchecked")
        if cited.get("copy_of"):
            sign = Sign("todo", "todo", "Copy")
        link = url if url.startswith(("https://", "http://")) else ""
        yield Source(sign, harmless(str(place)), harmless(str(cited.get("quote") or "")), link)
    for test in note.get("tests", ()):
        text = f"{test['task']} of run {test['run']}"
        yield Source(Sign("ok", "tool", "Tested"), harmless(text), harmless(str(test.get("command", ""))))
    for other in note.get("contradicted_by", ()):
        yield Source(Sign("wait", "doubt", "Against it"), harmless(str(other)))


def remembered(entry: dict[str, Json], whole: bool = False, score: float | None = None) -> Remembered:
    """An entry of the memory as ``Entry.as_json`` gives it; the ``whole`` of its value for a page of its own."""
    source = entry["source"]
    longest = _WHOLE if whole else _VALUE
    text = as_text(entry["value"], longest)
    return Remembered(
        harmless(entry["key"]),
        plain(text[:longest] + ("…" if len(text) > longest else "")),
        harmless(f"{source['kind']} {source['name']}".strip()),
        bool(entry["trusted"]),
        tuple(harmless(tag) for tag in entry["tags"]),
        float(entry["created"]),
        float(entry["updated"]),
        str(source.get("run") or ""),
        "" if score is None else f"{score:.3g}",
    )


def hypotheses(rows: Iterable[dict[str, Json]]) -> tuple[Hypothesis, ...]:
    """The hypotheses of a run as ``hypotheses_document`` gives them, the most probable first."""
    return tuple(_hypothesis(row) for row in sorted(rows, key=lambda row: -float(row["confidence"])))


def _hypothesis(row: dict[str, Json]) -> Hypothesis:
    return Hypothesis(
        str(row["hypothesis"]),
        harmless(str(row["statement"] or "")),
        BELIEFS.get(str(row["status"]), Sign("todo", "todo", str(row["status"]).capitalize())),
        format_percent(row["confidence"]),
        f"{100 * float(row['confidence']):.1f}%",
        str(row.get("within") or ""),
        arithmetic(row),
        tuple((harmless(str(given["task"])), _said(given)) for given in row["evidence"]),
    )


def _said(given: dict[str, Json]) -> str:
    said = [f"{word} it" + (f" {given[word]} times" if given[word] > 1 else "") for word in _WORDS if given[word]]
    why = f": {given['why']}" if given.get("why") else ""
    return harmless(", ".join(said) + why)


_WORDS = ("supports", "refutes", "neutral")


def digest_lines(runs: Sequence[Digested], now: float) -> tuple[DigestLine, ...]:
    """The runs of a digest that are open or did not complete, the open ones first."""
    wanted = [each for each in runs if each.run.status != "completed"]
    return tuple(_digest_line(each, now) for each in sorted(wanted, key=lambda one: one.run.ended is not None))


def _digest_line(each: Digested, now: float) -> DigestLine:
    run = each.run
    sign = run_sign(run.status, run.reason)
    return DigestLine(run.run, run.plan_id, sign, counted(each.counts), tuple(_told(each, now)))


def _told(each: Digested, now: float) -> Iterator[tuple[str, str]]:
    for one in each.blockers:
        since = "" if one.since is None else f", for {largest_unit(max(0.0, now - one.since))}"
        who = f" ({one.who})" if one.who else ""
        yield "waits", harmless(f"{one.name}{since}: {one.ask}{who}")
    for task, detail in each.failures:
        yield "failed", harmless(f"{task}: {detail}")
    if each.running:
        yield (
            "runs",
            harmless(", ".join(f"{task} for {largest_unit(max(0.0, now - since))}" for task, since in each.running)),
        )
    if each.done:
        yield "done", harmless(listed(each.done))
    if each.following:
        yield "next", harmless(listed(each.following))
    if each.spent:
        yield "spent", each.spent
