"""Comments that silence findings: ``# planrunner: ignore[PLAN501] reason``.

A comment covers its own line; alone on its line it covers the next line that is not a comment. On the head of a task
(the line of its id) it covers the whole task, scripts included. It works the same in both notations. Errors stay: a
plan that cannot run does not become one that can by a comment.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Task
from planrunner.records import Struct
from planrunner.source import Source

MARK = "planrunner: ignore["
_COMMENT = r"#\s*planrunner: ignore\[([A-Za-z0-9_,\s-]*)\]"


class Suppression(Struct):
    """Findings that stay, and how many a comment silenced."""

    findings: tuple[Diagnostic, ...]
    suppressed: int = 0


def suppress(findings: Sequence[Diagnostic], source: Source, tasks: Iterable[Task]) -> Suppression:
    """Leave out the findings that a comment in ``source`` covers; ``tasks`` tells where each task starts."""
    if MARK not in source.text:
        return Suppression(tuple(findings))
    lines = _covered_lines(source)
    heads = sorted({source.place(task.span.start).line for task in tasks if task.span.end})
    kept = tuple(finding for finding in findings if not _covered(finding, source, lines, heads))
    return Suppression(kept, len(findings) - len(kept))


def _covered(finding: Diagnostic, source: Source, lines: dict[int, set[str]], heads: list[int]) -> bool:
    if finding.severity == "error":
        return False
    line = source.place(finding.span.start).line
    if finding.code in lines.get(line, ()):
        return True
    at = bisect_right(heads, line)
    return at > 0 and finding.code in lines.get(heads[at - 1], ())


def _covered_lines(source: Source) -> dict[int, set[str]]:
    """The codes that comments silence, by line."""
    result: dict[int, set[str]] = {}
    for match in re.finditer(_COMMENT, source.text):
        line = source.place(match.start()).line
        codes = {code.strip() for code in match.group(1).split(",")}
        result.setdefault(line, set()).update(codes)
        if source.line(line).lstrip().startswith("#"):
            result.setdefault(_next_line(source, match.end()), set()).update(codes)
    return result


def _next_line(source: Source, offset: int) -> int:
    """The number of the first line after ``offset`` that says something and is not a comment."""
    at = source.text.find("\n", offset)
    while at >= 0:
        end = source.text.find("\n", at + 1)
        line = source.text[at + 1 : end if end >= 0 else None].strip()
        if line and not line.startswith("#"):
            return source.place(at + 1).line
        at = end
    return 0
