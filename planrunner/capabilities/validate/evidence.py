"""What every check is given and gives: paths as plans name them, and findings in one shape."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, TypedDict

from planrunner.capabilities.contract import Context, Doc, Failure
from planrunner.capabilities.files.scope import require_let
from planrunner.files.match import files

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
    version: Annotated[str, Doc("its version; empty where it has none")]
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


def evidence(tool: str, version: str, findings: Sequence[Finding], most: int) -> Evidence:
    """What a check of code or data found, errors first."""
    counts = {name: sum(entry["severity"] == name for entry in findings) for name in ("error", "warning", "note")}
    ordered = sorted(findings, key=lambda entry: ("error", "warning", "note").index(entry["severity"]))
    return Evidence(
        tool, version, not findings, {"total": len(findings), **counts}, ordered[:most], len(findings) > most
    )


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


Pattern = Annotated[str, Doc("", form="file-pattern")]
"""A file by its name, or a pattern of files."""

_MOST = 1_000
"""Files that patterns may fit."""


def names(value: str | list[str]) -> list[str]:
    """One name or several. Raises Failure for one that a tool could take for an option."""
    paths = [value] if isinstance(value, str) else [str(entry) for entry in value]
    if wrong := next((name for name in paths if name.startswith(("-", "@"))), None):
        raise Failure(f"{wrong} is an option here; a path that starts so is written ./{wrong}", rule="files.option")
    return paths


def require_paths(context: Context, paths: Sequence[str]) -> None:
    """Raises Failure for the first path where nothing stands: no tool has anything to say about it."""
    for path in paths:
        if not os.path.lexists(os.path.join(context.call.directory, path)):
            raise Failure(f"{path} does not exist")


def found_files(context: Context, patterns: Sequence[str]) -> list[str]:
    """The files that names and patterns stand for, in their order. Raises Failure where one stands for none."""
    directory, paths = context.call.directory, []
    for pattern in patterns:
        matching = [path for path in files(directory, pattern) if os.path.isfile(os.path.join(directory, path))]
        if not matching:
            raise Failure(f"no file matches {pattern}")
        paths += matching
    if len(paths) > _MOST:
        raise Failure(f"{len(paths)} files fit, and {_MOST} may")
    for path in paths:
        require_let(context, path)
    return list(dict.fromkeys(paths))


def relative(context: Context, path: str) -> str:
    """A path as people write it: relative where it lies below the working directory."""
    directory = os.path.realpath(context.call.directory)
    whole = os.path.realpath(os.path.join(directory, path))
    return os.path.relpath(whole, directory) if whole.startswith(f"{directory.rstrip('/')}/") else path
