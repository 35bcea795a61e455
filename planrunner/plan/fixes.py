"""Mend a plan text with the edits that findings carry; comments, quotes and layout around them stay."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.records import Struct
from planrunner.source import Source, Span


class Applied(Struct):
    """The mended text and the findings whose fix is in it; a fix that overlaps an earlier one is left for later."""

    text: str
    findings: tuple[Diagnostic, ...]


def apply_fixes(source: Source, findings: Iterable[Diagnostic], unsafe: bool = False) -> str:
    """The text with every fix that can be applied; ``unsafe`` takes also those that may change what the plan means."""
    return apply(source, findings, unsafe).text


def apply(source: Source, findings: Iterable[Diagnostic], unsafe: bool = False) -> Applied:
    """Like ``apply_fixes``, with the findings that were mended. A fix is applied whole or not at all."""
    taken: list[Edit] = []
    mended: list[Diagnostic] = []
    for finding in findings:
        fix = finding.fix
        if fix is None or not (fix.safe or unsafe):
            continue
        if all(edit in taken for edit in fix.edits):
            mended.append(finding)
        elif not any(_overlap(edit.span, other.span) for edit in fix.edits for other in taken):
            taken += fix.edits
            mended.append(finding)
    return Applied(_edited(source.text, taken), tuple(mended))


def preview(source: Source, fix: Fix) -> list[tuple[str, str]]:
    """The lines a fix changes, as pairs of before and after; either may hold several lines."""
    pairs = []
    for edit in sorted(fix.edits):
        first, last = source.place(edit.span.start).line, source.place(edit.span.end).line
        start, end = source.offset(first), source.offset(last) + len(source.line(last))
        before = source.text[start:end]
        after = source.text[start : edit.span.start] + edit.text + source.text[edit.span.end : end]
        pairs.append((before, after))
    return pairs


def _edited(text: str, edits: Iterable[Edit]) -> str:
    parts: list[str] = []
    at = 0
    for edit in sorted(edits):
        parts += (text[at : edit.span.start], edit.text)
        at = edit.span.end
    return "".join([*parts, text[at:]])


def _overlap(one: Span, other: Span) -> bool:
    return one.start == other.start or (one.start < other.end and other.start < one.end)
