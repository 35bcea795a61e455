"""What the evidence of a gate asks to be looked at: as it stands in a plan, and once its templates are filled in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = Any


def looks_at(wanted: str, evidence: Json) -> list[dict[str, Json]]:
    """What has to be looked at, by the kind of the gate: a bare path is a file, a report of tests, or a part of the
    tree whose changes are reviewed."""
    items = evidence if isinstance(evidence, list) else [] if evidence is None else [evidence]
    paths = [item for item in items if isinstance(item, str)]
    found: list[dict[str, Json]] = []
    if wanted == "tests":
        found += [{"kind": "junit", "path": path} for path in paths]
    elif wanted == "diff":
        if not any(isinstance(item, dict) and "diff" in item for item in items):
            found.append({"kind": "diff", "paths": paths})
    else:
        found += [{"kind": "file", "path": path} for path in paths]
    for item in items:
        if not isinstance(item, str):
            found += _explicit(item)
    kind = {"tests": "junit", "schema": "schema"}.get(wanted)
    if kind is not None and not any(look["kind"] == kind for look in found):
        found.append({"kind": kind, "name": "evidence"})
    return found


def _explicit(item: Json) -> list[dict[str, Json]]:
    if not isinstance(item, dict):
        return [{"kind": "text", "name": "", "value": item}]
    if "schema" in item:
        return [{"kind": "schema", "path": item.get("file", item.get("path")), "schema": item["schema"]}]
    if "diff" in item:
        what, paths = item["diff"], item.get("paths", [])
        more = paths if isinstance(paths, list) else [paths]
        named = [*(what if isinstance(what, list) else []), *more]
        return [{"kind": "diff", "range": what if isinstance(what, str) else "", "paths": named}]
    found: list[dict[str, Json]] = []
    for key, value in item.items():
        kind = {"file": "file", "files": "file", "path": "file", "junit": "junit", "tests": "junit"}.get(key)
        if kind is None:
            found.append({"kind": "text", "name": key, "value": value})
        else:
            found += [{"kind": kind, "path": path} for path in (value if isinstance(value, list) else [value])]
    return found


def paths_of(look: dict[str, Json]) -> Iterator[tuple[str, bool]]:
    """The paths that a look names, each with whether it may stand for several files: a pattern of files, or a folder
    whose changes are reviewed."""
    if look["kind"] == "diff":
        yield from ((path, True) for path in (look.get("range"), *look["paths"]) if isinstance(path, str) and path)
    else:
        named = (path for path in (look.get("path"), look.get("schema")) if isinstance(path, str) and path)
        yield from ((path, look["kind"] == "file" and any(sign in path for sign in "*?[")) for path in named)
