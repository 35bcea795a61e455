"""The evidence of a gate, looked at in the world: files, reports of tests, data with its schema, changes of a tree.

Each thing looked for gives one record or more: ``kind``, ``name``, ``digest`` of all of it, ``text`` (what is shown of
it), ``counts`` where something is counted, and ``problem`` where it speaks against the gate.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from glob import glob
from typing import Any

from planrunner.capabilities.files.scope import Scope, scope_between
from planrunner.capabilities.jsonschema import faults
from planrunner.capabilities.validate.tests import NoReport, read_cases
from planrunner.engine.effects import Examine, Weigh
from planrunner.engine.evidence_diffs import diff
from planrunner.engine.evidence_files import SHOWN, Unfit, digest_of, file_record, read, require_inside
from planrunner.errors import PlanInvalid, UsageError
from planrunner.jsontext import stable_json
from planrunner.machine.events import GateExamined
from planrunner.plan.rights import Level
from planrunner.safety.people import read_project
from planrunner.safety.project import FILE, unsound
from planrunner.source import Source
from planrunner.syntax.read import parse
from planrunner.syntax.tree import to_json

Json = Any
Record = dict[str, Json]

SHOWN_ALL = 100_000
"""Characters that are kept of all evidence together: of what comes after, the digest alone."""

MOST = 2_000
"""Files that a pattern may fit."""


_FAULTS = (
    *(Unfit, OSError, subprocess.SubprocessError, ArithmeticError, AttributeError, LookupError, TypeError),
    *(ValueError, RecursionError),
)
"""Whatever a look at foreign data may end in: a gate that cannot be examined stays closed."""


def looking(effect: Examine | Weigh) -> tuple[Callable[[], Any], list[Any] | None]:
    """What a thread does for the effect, and the list that its result belongs into; None: among the events."""
    if isinstance(effect, Examine):
        return partial(examined, effect), None
    return partial(examine, effect.looks, effect.directory, effect.rights), effect.found


def examined(effect: Examine) -> GateExamined:
    """What is found of the evidence that a gate asks for."""
    return GateExamined(effect.task, effect.visit, *examine(effect.looks, effect.directory, effect.rights))


def examine(looks: Sequence[Record], directory: str, rights: Sequence[Level] = ()) -> tuple[tuple[Record, ...], str]:
    """The records of everything to be looked at below ``directory``, as far as ``rights`` let files be read, and the
    digest of the project's policy. What cannot be had is a record with a problem; nothing is raised."""
    found: list[Record] = []
    scope = scope_between(rights, directory, directory) if rights else None
    for look in looks:
        if look["kind"] == "judge":
            continue  # a model is asked elsewhere, and once
        try:
            found += _LOOKS[str(look["kind"])](look, directory, scope)
        except _FAULTS as error:
            name = str(look.get("path") or look.get("range") or look.get("name") or look["kind"])
            rule = {"rule": error.rule} if isinstance(error, Unfit) and error.rule else {}
            found.append(
                {"kind": look["kind"], "name": name, "digest": "", "problem": f"{name}: {_why(error)}", **rule}
            )
    try:
        policy = read_project(directory).digest
    except (UsageError, PlanInvalid) as error:
        policy = ""
        problem = unsound(error) if isinstance(error, PlanInvalid) else error.message
        found.append({"kind": "policy", "name": FILE, "digest": "", "problem": problem})
    return tuple(_cut(found)), policy


def _cut(found: list[Record]) -> Iterator[Record]:
    left = SHOWN_ALL
    for record in found:
        text = str(record.get("text", ""))
        yield record if len(text) <= left else {**record, "text": text[:left]}
        left = max(0, left - len(text))


def _why(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error) if isinstance(error, Unfit) else f"cannot be checked: {type(error).__name__} {error}"


def _named(look: Record, key: str) -> str:
    value = look.get(key)
    if not isinstance(value, str) or not value:
        raise Unfit(f"`evidence` of the gate names no {'file' if key == 'path' else key} to check")
    return value


def _files(look: Record, directory: str, scope: Scope | None) -> Iterator[Record]:
    pattern = _named(look, "path")
    require_inside(directory, pattern)
    if os.path.lexists(os.path.join(directory, pattern)) or not any(sign in pattern for sign in "*?["):
        yield file_record(directory, pattern, scope)
        return
    names = sorted(glob(pattern, root_dir=directory, recursive=True))
    files = [name for name in names if os.path.isfile(os.path.join(directory, name))]
    if not files:
        raise Unfit("no file fits the pattern")
    if len(files) > MOST:
        raise Unfit(f"{len(files)} files fit the pattern, and {MOST} may")
    for name in files:
        yield file_record(directory, name, scope)


def _text(look: Record, directory: str, scope: Scope | None) -> Iterator[Record]:
    value = look.get("value")
    text = value if isinstance(value, str) else stable_json(value)
    digest = digest_of(text.encode("utf-8", "surrogatepass"))
    yield {"kind": "text", "name": str(look.get("name", "")), "digest": digest, "text": text[:SHOWN]}


def _junit(look: Record, directory: str, scope: Scope | None) -> Iterator[Record]:
    path = _named(look, "path")
    data = read(directory, path, scope)
    try:
        cases = read_cases(data)
    except NoReport as error:
        raise Unfit(str(error)) from None
    bad = [case.name for case in cases if case.result in ("failed", "error")]
    skipped = sum(case.result == "skipped" for case in cases)
    counts = {
        "total": len(cases),
        "passed": len(cases) - len(bad) - skipped,
        "failed": len(bad),
        "skipped": skipped,
    }
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    record = {"kind": "junit", "name": path, "digest": digest_of(data), "text": text, "counts": counts}
    if bad:
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        record["problem"] = f"{path}: {len(bad)} of {len(cases)} tests failed: {', '.join(bad[:5])}{more}"
    elif not cases:
        record["problem"] = f"{path}: the report holds no tests"
    yield record


def _schema(look: Record, directory: str, scope: Scope | None) -> Iterator[Record]:
    path, schema_path = _named(look, "path"), _named(look, "schema")
    data, schema = read(directory, path, scope), read(directory, schema_path, scope)
    found = faults(_document(schema_path, schema), _document(path, data))
    name = f"{path} by {schema_path}"
    record = {"kind": "schema", "name": name, "digest": digest_of(data + b"\0" + schema), "text": "fits the schema"}
    if found:
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        record["problem"] = f"{path} does not fit {schema_path}: {'; '.join(found[:3])}{more}"
        record["text"] = "does not fit the schema"
    yield record


def _document(path: str, data: bytes) -> Json:
    """JSON, or YAML by the name of the file."""
    text = data.decode("utf-8")
    if not path.endswith((".yaml", ".yml")):
        try:
            return json.loads(text)
        except ValueError as error:
            raise Unfit(f"{path} is no JSON: {error}") from None
    parsed = parse(Source(text, path, "yaml"))
    if parsed.tree is None:
        raise Unfit(f"{path} is no sound YAML: {parsed.findings[0].message if parsed.findings else 'it is empty'}")
    return to_json(parsed.tree)


def _diff(look: Record, directory: str, scope: Scope | None) -> Iterator[Record]:
    return diff(look, directory, scope)


def _told(look: Record, directory: str, scope: Scope | None) -> Iterator[Record]:
    """What was found out before anybody looked at the world."""
    yield {"kind": look["kind"], "name": look["name"], "digest": "", "problem": look["problem"]}


_LOOKS: dict[str, Callable[[Record, str, Scope | None], Iterator[Record]]] = {
    "file": _files,
    "text": _text,
    "junit": _junit,
    "schema": _schema,
    "diff": _diff,
    "taint": _told,
}
