"""The evidence of a gate, looked at in the world: files, reports of tests, data with its schema, changes of a tree.

Each thing looked for gives one record or more: ``kind``, ``name``, ``digest`` of all of it, ``text`` (what is shown of
it), ``counts`` where something is counted, and ``problem`` where it speaks against the gate.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from glob import glob
from typing import Any, BinaryIO

from planrunner.engine.rare_effects import Examine, Weigh
from planrunner.errors import PlanInvalid, UsageError
from planrunner.jsontext import stable_json
from planrunner.machine.events import GateExamined
from planrunner.safety.people import read_project
from planrunner.safety.project import FILE, unsound

Json = Any
Record = dict[str, Json]

SHOWN = 8_000
"""Characters of a file or a diff that are kept to be shown."""

SHOWN_ALL = 100_000
"""Characters that are kept of all evidence together: of what comes after, the digest alone."""

MOST = 2_000
"""Files that a pattern may fit."""

LARGEST = 64 * 1024 * 1024
"""Bytes of a report or a document that are read to be checked."""

PATIENCE = 60.0
"""Seconds that git may take."""


class _Unfit(Exception):
    """What was looked for is not there, or cannot be read: the message says why."""


_FAULTS = (
    *(_Unfit, OSError, subprocess.SubprocessError, ArithmeticError, AttributeError, LookupError, TypeError),
    *(ValueError, RecursionError),
)
"""Whatever a look at foreign data may end in: a gate that cannot be examined stays closed."""


def looking(effect: Examine | Weigh) -> tuple[Callable[[], Any], list[Any] | None]:
    """What a thread does for the effect, and the list that its result belongs into; None: among the events."""
    if isinstance(effect, Examine):
        return partial(examined, effect), None
    return partial(examine, effect.looks, effect.directory), effect.found


def examined(effect: Examine) -> GateExamined:
    """What is found of the evidence that a gate asks for."""
    return GateExamined(effect.task, effect.visit, *examine(effect.looks, effect.directory))


def examine(looks: Sequence[Record], directory: str) -> tuple[tuple[Record, ...], str]:
    """The records of everything to be looked at below ``directory``, and the digest of the project's policy. What
    cannot be had is a record with a problem; nothing is raised."""
    found: list[Record] = []
    for look in looks:
        if look["kind"] == "judge":
            continue  # a model is asked elsewhere, and once
        try:
            found += _LOOKS[str(look["kind"])](look, directory)
        except _FAULTS as error:
            name = str(look.get("path") or look.get("range") or look.get("name") or look["kind"])
            found.append({"kind": look["kind"], "name": name, "digest": "", "problem": f"{name}: {_why(error)}"})
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
    return str(error) if isinstance(error, _Unfit) else f"cannot be checked: {type(error).__name__} {error}"


def _named(look: Record, key: str) -> str:
    value = look.get(key)
    if not isinstance(value, str) or not value:
        raise _Unfit(f"`evidence` of the gate names no {'file' if key == 'path' else key} to check")
    return value


def _files(look: Record, directory: str) -> Iterator[Record]:
    pattern = _named(look, "path")
    whole = os.path.join(directory, pattern)
    if os.path.lexists(whole) or not any(sign in pattern for sign in "*?["):
        yield _file(pattern, whole)
        return
    names = sorted(glob(pattern, root_dir=directory, recursive=True))
    files = [name for name in names if os.path.isfile(os.path.join(directory, name))]
    if not files:
        raise _Unfit("no file fits the pattern")
    if len(files) > MOST:
        raise _Unfit(f"{len(files)} files fit the pattern, and {MOST} may")
    for name in files:
        yield _file(name, os.path.join(directory, name))


def _file(name: str, path: str) -> Record:
    digest, size, start = hashlib.sha256(), 0, b""
    with _opened(path) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            size += len(piece)
            if len(start) < 4 * SHOWN:
                start += piece[: 4 * SHOWN]
    text = "" if b"\0" in start else start.decode("utf-8", "replace")[:SHOWN]
    return {"kind": "file", "name": name, "digest": f"sha256:{digest.hexdigest()}", "size": size, "text": text}


def _opened(path: str) -> BinaryIO:
    """A regular file: a pipe or a device may never come to its end."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _Unfit("is no regular file")
    return file


def _read(directory: str, path: str) -> bytes:
    with _opened(os.path.join(directory, path)) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise _Unfit(f"is larger than {LARGEST >> 20} MiB")
    return data


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _text(look: Record, directory: str) -> Iterator[Record]:
    value = look.get("value")
    text = value if isinstance(value, str) else stable_json(value)
    digest = _digest(text.encode("utf-8", "surrogatepass"))
    yield {"kind": "text", "name": str(look.get("name", "")), "digest": digest, "text": text[:SHOWN]}


def _junit(look: Record, directory: str) -> Iterator[Record]:
    from planrunner.capabilities.validate.junit import NoReport, read_cases  # late: few gates read a report

    path = _named(look, "path")
    data = _read(directory, path)
    try:
        cases = read_cases(data)
    except NoReport as error:
        raise _Unfit(str(error)) from None
    bad = [case.name for case in cases if case.result in ("failed", "error")]
    skipped = sum(case.result == "skipped" for case in cases)
    counts = {
        "total": len(cases),
        "passed": len(cases) - len(bad) - skipped,
        "failed": len(bad),
        "skipped": skipped,
    }
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    record = {"kind": "junit", "name": path, "digest": _digest(data), "text": text, "counts": counts}
    if bad:
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        record["problem"] = f"{path}: {len(bad)} of {len(cases)} tests failed: {', '.join(bad[:5])}{more}"
    elif not cases:
        record["problem"] = f"{path}: the report holds no tests"
    yield record


def _schema(look: Record, directory: str) -> Iterator[Record]:
    from planrunner.capabilities.jsonschema import faults  # late: few gates check data

    path, schema_path = _named(look, "path"), _named(look, "schema")
    data, schema = _read(directory, path), _read(directory, schema_path)
    found = faults(_document(schema_path, schema), _document(path, data))
    name = f"{path} by {schema_path}"
    record = {"kind": "schema", "name": name, "digest": _digest(data + b"\0" + schema), "text": "fits the schema"}
    if found:
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        record["problem"] = f"{path} does not fit {schema_path}: {'; '.join(found[:3])}{more}"
        record["text"] = "does not fit the schema"
    yield record


def _document(path: str, data: bytes) -> Json:
    """JSON, or YAML by the name of the file."""
    text = data.decode("utf-8")
    if not path.endswith((".yaml", ".yml")):
        import json  # late, as above: this one says where a fault is

        try:
            return json.loads(text)
        except ValueError as error:
            raise _Unfit(f"{path} is no JSON: {error}") from None
    from planrunner import syntax
    from planrunner.source import Source
    from planrunner.syntax.tree import to_json

    parsed = syntax.parse(Source(text, path, "yaml"))
    if parsed.tree is None:
        raise _Unfit(f"{path} is no sound YAML: {parsed.findings[0].message if parsed.findings else 'it is empty'}")
    return to_json(parsed.tree)


def _diff(look: Record, directory: str) -> Iterator[Record]:
    """The changes of the working tree, or of a range of commits; what is named as a range and is a path that exists
    stands for the changes of that path. Without a range what git does not know yet is part of it."""
    range_, paths = str(look.get("range") or ""), [str(path) for path in look.get("paths", ())]
    if range_.startswith("-"):
        raise _Unfit("a range of commits does not begin with a dash")
    if range_ and (any(sign in range_ for sign in "*?[") or os.path.lexists(os.path.join(directory, range_))):
        range_, paths = "", [range_, *paths]
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--binary")
    data = _git(directory, "diff", *options, range_ or "HEAD", "--", *paths)
    new = [] if range_ else _unknown_files(directory, paths)
    whole = data + b"".join(f"{name} {record['digest']}\n".encode() for name, record in new)
    text = data.decode("utf-8", "replace")
    lines = text.splitlines()
    counts = {
        "files": sum(line.startswith("diff --git ") for line in lines) + len(new),
        "added": sum(line.startswith("+") and not line.startswith("+++") for line in lines),
        "removed": sum(line.startswith("-") and not line.startswith("---") for line in lines),
    }
    shown = "".join(f"new file {name}\n" for name, _ in new) + text
    name = f"git diff {range_}".strip() + (f" -- {' '.join(paths)}" if paths else "")
    yield {"kind": "diff", "name": name, "digest": _digest(whole), "text": shown[:SHOWN], "counts": counts}


def _unknown_files(directory: str, paths: Sequence[str]) -> list[tuple[str, Record]]:
    listed = _git(directory, "ls-files", "--others", "--exclude-standard", "-z", "--", *paths)
    names = [name for name in listed.decode("utf-8", "surrogateescape").split("\0") if name]
    return [
        (name, _file(name, os.path.join(directory, name)))
        for name in sorted(names)
        if os.path.isfile(os.path.join(directory, name)) and not name.startswith(".planrunner/")
    ]


def _git(directory: str, *arguments: str) -> bytes:
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *(argument for argument in arguments if argument)],
            cwd=directory,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except FileNotFoundError:
        raise _Unfit("git is not installed") from None
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip()
        if "not a git repository" in words.casefold() or "must be run in a work tree" in words:
            raise _Unfit("this is no work tree of git")
        if "bad revision" in words:
            raise _Unfit("there is no such file, and git knows no such range of commits")
        raise _Unfit(f"git: {words[:300]}")
    return done.stdout


_LOOKS = {"file": _files, "text": _text, "junit": _junit, "schema": _schema, "diff": _diff}
