"""The one shape in which every check tells what it found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, TypedDict

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.declare import Doc

_LONGEST = 1_000
"""Characters of a message."""


class Finding(TypedDict):
    """``severity`` is error, warning or note; ``line`` and ``column`` count from 1, 0 means the whole file."""

    rule: str
    severity: str
    message: str
    file: str
    line: int
    column: int


class Evidence(NamedTuple):
    """``counts`` is of all findings, ``findings`` holds the first of them; ``truncated`` tells that there are more."""

    tool: Annotated[str, Doc("what looked")]
    version: Annotated[str, Doc("its version; empty where there is none")]
    ok: Annotated[bool, Doc("nothing was found")]
    counts: Annotated[dict[str, int], Doc("total, error, warning and note: how many findings there are of each")]
    findings: Annotated[list[Finding], Doc("rule, severity, message, file, line and column of each, errors first")]
    truncated: Annotated[bool, Doc("there are more findings than are given")]


def finding(
    message: str, severity: str = "error", rule: str = "", file: str = "", place: tuple[int, int] = (0, 0)
) -> Finding:
    """A finding whose message is bounded."""
    text = message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…"
    return {"rule": rule, "severity": severity, "message": text, "file": file, "line": place[0], "column": place[1]}


def evidence(tool: str, version: str, found: Sequence[Finding], most: int) -> Evidence:
    """What a check of code or data found, errors first."""
    counts = {name: sum(each["severity"] == name for each in found) for name in ("error", "warning", "note")}
    ordered = sorted(found, key=lambda each: ("error", "warning", "note").index(each["severity"]))
    return Evidence(tool, version, not found, {"total": len(found), **counts}, ordered[:most], len(found) > most)


def judged(given: Any, fail: bool, failure: str = "findings") -> Any:
    """The evidence again, or a Failure that carries it where something was found and that is to count."""
    if given.ok or not fail:
        return given
    raise Failure(f"{given.tool}: {headline(given.findings, given.counts['total'])}", failure, given._asdict())


def headline(findings: Sequence[Finding], total: int) -> str:
    """The first finding in a line, and how many more there are."""
    if not findings:
        return "not well"
    first = findings[0]
    place = ":".join(str(part) for part in (first["file"], first["line"]) if part)
    rule = f"{first['rule']} " if first["rule"] else ""
    text = first["message"].splitlines()[0] if first["message"] else ""
    more = f" and {total - 1} more" if total > 1 else ""
    return f"{rule}{text}{f' ({place})' if place else ''}{more}"
