"""The text of a plan as lines with colours, what findings say of each, and underlines of what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from markupsafe import Markup, escape

from planrunner.diagnostics import Diagnostic, Severity
from planrunner.escapes import harmless
from planrunner.records import Struct
from planrunner.source import Notation, Source
from planrunner.views.page.signs import Sign

SEVERITIES: dict[Severity, Sign] = {
    "error": Sign("bad", "bad", "Error"),
    "warning": Sign("wait", "doubt", "Warning"),
    "note": Sign("off", "note", "Note"),
}
"""How findings are shown."""
_GRAVE = {"bad": 0, "wait": 1, "off": 2}

_COMMENT = r"(?P<c>(?:^|(?<=\s))#.*$)"
_TEMPLATE = r"(?P<v>\{\{.*?\}\})"
_STRING = r"(?P<s>\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*')"
_PATTERNS: dict[Notation, re.Pattern[str]] = {
    "yaml": re.compile(
        rf"(?:^ *(?:- +)*|[{{,] *)(?P<k>\"[^\"]*\"|[A-Za-z_$][\w$.-]*)(?= *:(?:\s|$))|{_COMMENT}|{_TEMPLATE}|{_STRING}"
    ),
    "json": re.compile(rf"(?P<k>\"(?:[^\"\\]|\\.)*\"(?= *:))|{_STRING}"),
    "text": re.compile(
        r"(?P<k>^ *(?:plan|task|gate|params?|on (?:success|failure|always)|[a-z_]+(?= *:)|finally|tasks)\b)"
        rf"|{_COMMENT}|{_TEMPLATE}|{_STRING}"
    ),
}
"""Keys, comments, templates and strings of a line. ``static/editor.js`` has the same ones."""


class Note(Struct):
    """What a finding says beside a line."""

    state: str
    icon: str
    text: str


class CodeLine(Struct):
    """A line from 1. ``state`` is that of its gravest finding, empty without one."""

    number: int
    html: Markup
    state: str = ""
    notes: tuple[Note, ...] = ()


class Underline(Struct):
    """Columns from 0 of a line that a finding means."""

    start: int
    end: int
    state: str


def code_lines(source: Source, findings: Sequence[Diagnostic] = ()) -> list[CodeLine]:
    """Every line of a text; the last one is empty where the text ends with a line end."""
    marks, notes = _by_line(source, findings)
    lines = []
    for number, text in enumerate(source.text.split("\n"), 1):
        said = tuple(dict.fromkeys(notes.get(number, ())))
        state = min((note.state for note in said), key=_GRAVE.__getitem__, default="")
        lines.append(CodeLine(number, coloured(text, source.notation, marks.get(number, ())), state, said))
    return lines


def _by_line(
    source: Source, findings: Iterable[Diagnostic]
) -> tuple[dict[int, list[Underline]], dict[int, list[Note]]]:
    marks: dict[int, list[Underline]] = {}
    notes: dict[int, list[Note]] = {}
    for finding in findings:
        sign = SEVERITIES[finding.severity]
        place = source.place(finding.span.start)
        length = max(1, min(finding.span.end - finding.span.start, len(source.line(place.line)) - place.column + 1))
        start = place.column - 1
        marks.setdefault(place.line, []).append(Underline(start, start + length, sign.state))
        notes.setdefault(place.line, []).append(Note(sign.state, sign.icon, note_text(finding)))
    return marks, notes


def note_text(finding: Diagnostic) -> str:
    """What stands beside the line: the message on one line, without the signs around names."""
    return harmless(" ".join(finding.message.replace("`", "").split()))[:160]


def coloured(text: str, notation: Notation, marks: Sequence[Underline] = ()) -> Markup:
    """A line as HTML: spans of the classes k, c, v and s, and ``u`` around what findings mean."""
    parts: list[Markup] = []
    found = [(each, str(each.lastgroup)) for each in _PATTERNS[notation].finditer(text)]
    pieces = [(each.start(kind), each.end(kind), kind) for each, kind in found]
    cuts = sorted({0, len(text), *(edge for each in pieces for edge in each[:2]), *_edges(marks, len(text))})
    for start, end in pairwise(cuts):
        kind = next((each[2] for each in pieces if each[0] <= start < each[1]), "")
        mark = next((each for each in marks if each.start <= start < each.end), None)
        parts.append(_piece(text[start:end], kind, mark))
    return Markup("").join(parts)


def _edges(marks: Sequence[Underline], length: int) -> set[int]:
    return {min(edge, length) for mark in marks for edge in (mark.start, mark.end)}


def _piece(text: str, kind: str, mark: Underline | None) -> Markup:
    shown = escape(harmless(text))
    if mark is not None:
        kind = Markup(' class="{}"').format(kind) if kind else Markup("")
        return Markup('<u{} data-s="{}">{}</u>').format(kind, mark.state, shown)
    return Markup('<span class="{}">{}</span>').format(kind, shown) if kind else shown
