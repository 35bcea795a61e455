"""Findings as programs read them: ``{"format": 1, "findings": […]}``; fields are added, never changed or taken away."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from planrunner.diagnostics import RULES, Diagnostic, Fix
from planrunner.source import Source, Span
from planrunner.views.findings import gravest

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
