"""Findings as people read them: rust's shape, with the lines they point into.

    error[PLAN101] needs `biuld`, which is not a task of the plan, did you mean `build`?
      --> release.yaml:12:13
       |
     4 |   - id: build
       |         ----- `build` is defined here
    ...
    12 |     needs: [biuld]
       |             ^^^^^
       |
       = help: …
       = fix: name `build`
       = docs: planrunner rule PLAN101

Everything here is text in, text out; ``findings_json`` holds the form for programs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unicodedata import category, combining, east_asian_width

from planrunner.diagnostics import RULES, Diagnostic, Fix, Severity
from planrunner.plan.fixes import preview
from planrunner.records import Struct
from planrunner.source import Source, Span
from planrunner.views.terminal import plural

TAB = 4
"""A tab is shown as this many spaces, wherever it stands: underlines stay below what they mark."""

LONGEST = 160
"""Characters of a line that are shown at most."""

BEFORE = 40
"""Characters shown before the marked part of a line that is cut."""


class Window(Struct):
    """The part of a line that is shown: characters ``start`` to ``end`` of it, with ``lead`` for what is cut before."""

    text: str
    start: int
    end: int
    lead: str = ""


def window(line: str, start: int, end: int) -> Window:
    """The line, or of a very long one the part around the characters ``start`` to ``end``."""
    if len(line) <= LONGEST:
        return Window(line, 0, len(line))
    first = 0 if end <= LONGEST - 1 else max(0, start - BEFORE)
    last = min(len(line), first + LONGEST)
    lead = "…" if first else ""
    return Window(lead + line[first:last] + ("…" if last < len(line) else ""), first, last, lead)


def expanded(text: str) -> str:
    """The text as a terminal shows it: tabs as spaces, control characters as ``\N{REPLACEMENT CHARACTER}``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join([character if " " <= character <= "~" else _shown(character) for character in text])


def width(text: str) -> int:
    """How many columns a terminal needs for ``expanded(text)``."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(1 if " " <= character <= "~" else _columns(character) for character in text)


def _shown(character: str) -> str:
    if character == "\t":
        return " " * TAB
    return "\N{REPLACEMENT CHARACTER}" if _hidden(character) else character


def _columns(character: str) -> int:
    if character == "\t":
        return TAB
    if _hidden(character):
        return 1
    if combining(character) or category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _hidden(character: str) -> bool:
    """Control characters, and marks that turn the direction of writing and make a line look like another one."""
    turns = "\u202a" <= character <= "\u202e" or "\u2066" <= character <= "\u2069"
    return turns or category(character) in ("Cc", "Cs", "Zl", "Zp")


SHOWN = 50
"""Findings of one file that people are shown; programs get more."""
SHOWN_LABELS = 12
SHOWN_FIX_LINES = 6
_COLOURS: dict[str, str] = {
    "error": "1;31",
    "warning": "1;33",
    "note": "1;36",
    "frame": "1;34",
    "bold": "1",
    "+": "32",
    "-": "31",
}


class _Mark(Struct):
    """One underline: columns of one line, counted in characters from 0."""

    line: int
    start: int
    end: int
    text: str
    primary: bool


def render_text(findings: Iterable[Diagnostic], source: Source, colour: bool = False) -> str:
    """Every finding with its snippet, an empty line between two of them; of very many the gravest come first and a line
    tells how many are left out."""
    paint, every = _painter(colour), list(findings)
    parts = [_finding(finding, source, paint) for finding in gravest(every, SHOWN)]
    if len(every) > SHOWN:
        more = plural(len(every) - SHOWN, "more finding")
        parts.append(f"{more} about {expanded(source.name)}, all of them with `--format json`\n")
    return "\n".join(parts)


def gravest(findings: list[Diagnostic], most: int) -> list[Diagnostic]:
    """At most ``most`` findings, in the order of the text: errors before warnings, and those before notes."""
    if len(findings) <= most:
        return findings
    grades = ("error", "warning", "note")
    order = sorted(range(len(findings)), key=lambda at: grades.index(findings[at].severity))
    return [findings[at] for at in sorted(order[:most])]


def render_concise(findings: Iterable[Diagnostic], source: Source) -> str:
    """One line for each finding, as editors parse it: ``file:line:column: error[CODE] message``."""
    lines = []
    for finding in findings:
        line, column = source.place(finding.span.start)
        where = f"{expanded(source.name)}:{line}:{column}"
        lines.append(f"{where}: {finding.severity}[{finding.code}] {_single(finding.message)}\n")
    return "".join(lines)


def render_summary(findings: Sequence[Diagnostic], files: int = 1, suppressed: int = 0) -> str:
    """The last line of a lint: how many of each severity, how many can be fixed, how many a comment silenced."""
    counts = [(name, sum(finding.severity == name for finding in findings)) for name in ("error", "warning", "note")]
    parts = [plural(count, name) for name, count in counts if count]
    fixable = sum(finding.fix is not None for finding in findings)
    asides = [f"{fixable} fixable"] if fixable else []
    asides += [f"{suppressed} suppressed"] if suppressed else []
    about = f" ({', '.join(asides)})" if asides else ""
    where = f" in {plural(files, 'file')}" if files > 1 else ""
    return f"{', '.join(parts) or 'no findings'}{where}{about}"


Paint = Callable[[str, str], str]


def _painter(colour: bool) -> Paint:
    def paint(text: str, style: str) -> str:
        return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if colour and text else text

    return paint


def _single(text: str) -> str:
    """Text of one line that cannot steer a terminal, with long names clipped."""
    return expanded(_LONG_NAME.sub(r"`\1…`", " ".join(text.split())))


_LONG_NAME = re.compile(r"`([^`]{120})[^`]{8,}`")
"""A name, or a value, of which a reader needs the beginning alone."""


def _finding(finding: Diagnostic, source: Source, paint: Paint) -> str:
    severity: Severity = finding.severity
    line, column = source.place(finding.span.start)
    head = paint(f"{severity}[{finding.code}]", severity) + " " + paint(_single(finding.message), "bold")
    marks = _marks(finding, source)
    gutter = len(str(max(mark.line for mark in marks)))
    bar = paint(f"{' ' * gutter} |", "frame")
    lines = [head, f"{' ' * gutter}{paint('-->', 'frame')} {expanded(source.name)}:{line}:{column}", bar]
    lines += _snippet(marks, source, gutter, severity, paint)
    lines.append(bar)
    lines += _notes(finding, source, gutter, paint)
    return "\n".join(lines) + "\n"


def _notes(finding: Diagnostic, source: Source, gutter: int, paint: Paint) -> Iterable[str]:
    margin = f"{' ' * gutter} {paint('=', 'frame')} "
    if finding.help:
        yield f"{margin}{paint('help', 'bold')}: {_single(finding.help)}"
    if finding.fix is not None:
        yield from _fix(finding.fix, source, margin, " " * (gutter + 3), paint)
    if finding.code.startswith("PLAN"):  # rules of plugins have no page
        yield f"{margin}{paint('docs', 'bold')}: planrunner rule {finding.code}"


def _fix(fix: Fix, source: Source, margin: str, indent: str, paint: Paint) -> Iterable[str]:
    option = "--fix" if fix.safe else "--fix=all, may change what the plan means"
    yield f"{margin}{paint('fix', 'bold')}: {_single(fix.title)} ({option})"
    rows = [(sign, line) for pair in preview(source, fix) for sign, line in _changed(*pair)]
    at = _difference([line for _, line in rows])
    for sign, line in rows[:SHOWN_FIX_LINES]:
        yield indent + paint(f"{sign} {expanded(window(line, at, at).text)}".rstrip(), sign)
    if len(rows) > SHOWN_FIX_LINES:
        yield f"{indent}… {len(rows) - SHOWN_FIX_LINES} more lines"


def _difference(lines: Sequence[str]) -> int:
    """The first character in which lines differ, where a long line is shown around."""
    shortest, longest = min(lines, default=""), max(lines, default="")
    return next((at for at, pair in enumerate(zip(shortest, longest, strict=False)) if pair[0] != pair[1]), 0)


def _changed(before: str, after: str) -> Iterable[tuple[str, str]]:
    """Changed lines with their sign; lines that stay the same at both ends are left out."""
    old, new = before.splitlines(), after.splitlines()
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    yield from (("-", line) for line in old)
    yield from (("+", line) for line in new)


def _marks(finding: Diagnostic, source: Source) -> list[_Mark]:
    """The underlines of a finding, in the order of the lines; a span over lines is marked at its first and last one."""
    marks = _span_marks(source, finding.span.start, finding.span.end, finding.label, True)
    for label in finding.labels[:SHOWN_LABELS]:
        marks += _span_marks(source, label.span.start, label.span.end, label.text, False)
    return sorted(set(marks), key=lambda mark: (mark.line, mark.start, not mark.primary))


def _span_marks(source: Source, start: int, end: int, text: str, primary: bool) -> list[_Mark]:
    first = source.place(start)
    last = source.place(max(start, end - 1))
    if first.line == last.line:
        return [_Mark(first.line, first.column - 1, max(last.column, first.column), _single(text), primary)]
    ends = len(source.line(last.line))
    begins = len(source.line(last.line)) - len(source.line(last.line).lstrip())
    return [
        _Mark(first.line, first.column - 1, max(len(source.line(first.line)), first.column), "", primary),
        _Mark(last.line, begins, max(min(last.column, ends), begins + 1), _single(text), primary),
    ]


def _snippet(marks: Sequence[_Mark], source: Source, gutter: int, severity: Severity, paint: Paint) -> Iterable[str]:
    previous = 0
    for number in sorted({mark.line for mark in marks}):
        if previous and number == previous + 2:
            yield _source_line(previous + 1, gutter, paint, window(source.line(previous + 1), 0, 0))
        elif previous and number > previous + 2:
            yield paint("...", "frame")
        mine = [mark for mark in marks if mark.line == number]
        main = next((mark for mark in mine if mark.primary), mine[0])
        view = window(source.line(number), main.start, main.end)
        yield _source_line(number, gutter, paint, view)
        for mark in mine:
            row = _underline(mark, source.line(number), view, severity, paint)
            if row:
                yield paint(f"{' ' * gutter} |", "frame") + " " + row
        previous = number


def _source_line(number: int, gutter: int, paint: Paint, view: Window) -> str:
    return f"{paint(f'{number:>{gutter}} |', 'frame')} {expanded(view.text)}".rstrip()


def _underline(mark: _Mark, line: str, view: Window, severity: Severity, paint: Paint) -> str:
    start, end = max(mark.start, view.start), min(mark.end, view.end)
    if start >= max(end, view.end) and mark.start < len(line):
        return ""
    indent = width(view.lead) + width(line[view.start : start])
    length = max(1, width(line[view.start : max(end, start)]) - width(line[view.start : start]))
    sign = "^" if mark.primary else "-"
    text = sign * length + (f" {mark.text}" if mark.text else "")
    return " " * indent + paint(text, severity if mark.primary else "frame")


FORMAT = 1
MOST = 5_000
"""Findings of one file that are written."""


def render_json(files: Iterable[tuple[Source, Iterable[Diagnostic]]]) -> str:
    """The findings of several files as one JSON object."""
    return json.dumps(findings_data(files), indent=2, ensure_ascii=False) + "\n"


def findings_data(files: Iterable[tuple[Source, Iterable[Diagnostic]]]) -> dict[str, Any]:
    """The same as plain data. Lines and columns start at 1, ``offset`` counts from 0, ``end`` is exclusive.

    A file with more findings than ``MOST`` gives its gravest ones; ``left_out`` then counts the others of all files.
    """
    rows: list[dict[str, Any]] = []
    left_out = 0
    for source, findings in files:
        seen: Counter[str] = Counter()
        every = list(findings)
        left_out += max(0, len(every) - MOST)
        for finding in gravest(every, MOST):
            key = _fingerprint(finding, source, 0)
            rows.append(_finding_data(finding, source, _fingerprint(finding, source, seen[key])))
            seen[key] += 1
    return {"format": FORMAT, "findings": rows, **({"left_out": left_out} if left_out else {})}


def _finding_data(finding: Diagnostic, source: Source, fingerprint: str) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "message": finding.message,
        "file": source.name,
        "range": range_of(finding.span, source),
        "label": finding.label,
        "labels": [{"range": range_of(label.span, source), "message": label.text} for label in finding.labels],
        "help": finding.help,
        "url": rule_url(finding.code),
        "fix": _fix_data(finding.fix, source),
        "fingerprint": fingerprint,
    }


def range_of(span: Span, source: Source) -> dict[str, dict[str, int]]:
    """A span as lines and columns with its offsets."""
    return {name: _place(offset, source) for name, offset in (("start", span.start), ("end", span.end))}


def rule_url(code: str) -> str:
    """Where the explanation of a code stands in the documentation; empty for rules of plugins."""
    if not code.startswith("PLAN"):
        return ""
    return f"docs/reference/rules.md#{code.lower()}-{RULES[code].name.replace('.', '')}"


def _place(offset: int, source: Source) -> dict[str, int]:
    line, column = source.place(offset)
    return {"line": line, "column": column, "offset": offset}


def _fix_data(fix: Fix | None, source: Source) -> dict[str, Any] | None:
    if fix is None:
        return None
    edits = [{"range": range_of(edit.span, source), "text": edit.text} for edit in fix.edits]
    return {"title": fix.title, "safe": fix.safe, "edits": edits}


def _fingerprint(finding: Diagnostic, source: Source, number: int) -> str:
    """Stays the same when lines are added above: it is made of what is said, not of where it stands.

    ``number`` tells apart findings of one file that say the same.
    """
    parts = (finding.code, source.name, finding.message, str(number))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
