"""The evidence of a gate, looked at in the world: files, reports of tests, data with its schema, changes of a tree.

Each thing looked for gives one record or more: ``kind``, ``name``, ``digest`` of all of it, ``text`` (what is shown of
it), ``counts`` where something is counted, and ``problem`` where it speaks against the gate.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.capabilities.files.scope import Scope, scope_between
from planrunner.capabilities.git.command import Git, Refused
from planrunner.capabilities.git.repository import Repository, open_repository
from planrunner.capabilities.jsonschema import faults
from planrunner.capabilities.validate.tests import NoReport, read_cases
from planrunner.engine.effects import Examine, RecheckEvidence
from planrunner.engine.services import AttemptServices
from planrunner.errors import PlanInvalid, UsageError
from planrunner.files.beneath import Beneath, steps
from planrunner.files.match import files
from planrunner.frozen import EMPTY
from planrunner.jsontext import stable_json
from planrunner.machine.events import GateExamined
from planrunner.plan.model import Task
from planrunner.plan.rights import Level
from planrunner.safety.project import FILE, read_project, unsound
from planrunner.source import Source
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import to_json

Json = Any
Record = dict[str, Json]


SHOWN = 8_000
"""Characters of a file or a diff that are kept to be shown."""

LARGEST = 64 * 1024 * 1024
"""Bytes of a report or a document that are read to be checked."""


class Unfit(Exception):
    """What was looked for is not there, cannot be read or is refused: the message says why, ``rule`` which rule refuses
    it."""

    def __init__(self, message: str, rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule


def require_inside(directory: str, path: str) -> None:
    """Raises Unfit for a path, or a pattern of paths, that leads out of the directory by its words alone."""
    try:
        steps(directory, path)
    except Failure as failure:
        raise Unfit(str(failure), failure.rule) from None


def require_readable(directory: str, path: str, scope: Scope | None) -> None:
    """Raises Unfit for a path, from the directory on, that a policy does not let be read; ``..`` may lead out."""
    try:
        if scope is not None:
            scope.require("read", (os.path.relpath(os.path.join(directory, path), directory),))
    except Failure as failure:
        raise Unfit(str(failure), failure.rule) from None


def file_record(directory: str, name: str, scope: Scope | None = None) -> Record:
    """The record of a file: its digest, its size, and the start of its text. Raises Unfit, also where the file is
    outside of what a policy lets be read, and OSError."""
    digest, size, start = hashlib.sha256(), 0, b""
    with _opened(directory, name, scope) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            size += len(piece)
            if len(start) < 4 * SHOWN:
                start += piece[: 4 * SHOWN]
    text = "" if b"\0" in start else start.decode("utf-8", "replace")[:SHOWN]
    return {"kind": "file", "name": name, "digest": f"sha256:{digest.hexdigest()}", "size": size, "text": text}


def _opened(directory: str, path: str, scope: Scope | None) -> BinaryIO:
    """A regular file below the directory, links followed as long as they stay inside: a pipe or a device may never come
    to its end."""
    try:
        with Beneath(directory, scope=scope) as tree:
            handle = tree.open_to_read(path)
    except Failure as failure:
        raise Unfit(str(failure), failure.rule) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Unfit("is not a regular file")
    return os.fdopen(handle, "rb")


def read(directory: str, path: str, scope: Scope | None = None) -> bytes:
    """The content of a file that is to be checked. Raises Unfit and OSError."""
    with _opened(directory, path, scope) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Unfit(f"is larger than {LARGEST >> 20} MiB")
    return data


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


PATIENCE = 60.0
"""Seconds that git may take."""


class _Silent:
    """A log that is dropped."""

    usage: Mapping[str, Json] = EMPTY

    def write(self, data: bytes, stream: str = "stdout") -> None: ...

    def beat(self) -> None: ...

    def spend(self, amounts: Mapping[str, Json]) -> None: ...


def diff(look: Record, directory: str, scope: Scope | None = None) -> Iterator[Record]:
    """The changes of the working tree, or of a range of commits; what is named as a range and is a path that exists
    stands for the changes of that path. Without a range what git does not know yet is part of it. Where one of the
    files may not be read by ``scope`` nothing is shown: a review of a part would pass for one of all."""
    range_, paths = str(look.get("range") or ""), [str(path) for path in look.get("paths", ())]
    if range_.startswith("-"):
        raise Unfit("a range of commits does not begin with a dash")
    if range_ and (any(sign in range_ for sign in "*?[") or os.path.lexists(os.path.join(directory, range_))):
        range_, paths = "", [range_, *paths]
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--binary")
    repository = _repository(directory)
    git = repository.git._replace(
        variables={**repository.git.variables, "GIT_LITERAL_PATHSPECS": "0"}
    )  # may be patterns here
    if scope is not None:
        _require_commits(git, range_)
        for name in _split(_asked(git, "diff", "--name-only", "--no-renames", "-z", range_ or "HEAD", "--", *paths)):
            require_readable(directory, os.path.join(repository.top, name), scope)
    data = _asked(git, "diff", *options, range_ or "HEAD", "--", *paths)
    new = [] if range_ else _unknown_files(git, paths, scope)
    whole = data + b"".join(f"{name} {record['digest']}\n".encode() for name, record in new)
    text = data.decode("utf-8", "replace")
    lines = text.splitlines()
    counts = {
        "files": sum(line.startswith("diff --git ") for line in lines) + len(new),
        "added": sum(line.startswith("+") and not line.startswith("+++") for line in lines)
        + sum(len(str(record["text"]).splitlines()) for _, record in new),
        "removed": sum(line.startswith("-") and not line.startswith("---") for line in lines),
    }
    shown = "".join(_new_file(name, record) for name, record in new) + text
    name = f"git diff {range_}".strip() + (f" -- {' '.join(paths)}" if paths else "")
    yield {"kind": "diff", "name": name, "digest": digest_of(whole), "text": shown[:SHOWN], "counts": counts}


def _new_file(name: str, record: Record) -> str:
    """A file that git does not know yet, its lines as those of a diff."""
    text = str(record["text"])
    if not text:
        return f"new file {name}, {record['size']} bytes\n"
    return f"new file {name}\n" + "".join(f"+{line}\n" for line in text.splitlines())


def _require_commits(git: Git, range_: str) -> None:
    """Raises Unfit where a range names anything but commits: the paths in a folder or a file that git keeps say nothing
    of where it lies, by which a policy would judge it."""
    for each in _asked(git, "rev-parse", "--revs-only", range_, "--").decode().split() if range_ else ():
        try:
            git.raw("rev-parse", "--quiet", "--verify", f"{each.removeprefix('^')}^{{commit}}")
        except Refused:
            said = f"`{range_}` names no commits, by which a policy could judge the files; name those under `paths`"
            raise Unfit(said) from None


def _split(listed: bytes) -> list[str]:
    return [name for name in listed.decode("utf-8", "surrogateescape").split("\0") if name]


def _unknown_files(git: Git, paths: Sequence[str], scope: Scope | None) -> list[tuple[str, Record]]:
    names = _split(_asked(git, "ls-files", "--others", "--exclude-standard", "-z", "--", *paths))
    return [
        (name, file_record(git.directory, name, scope))
        for name in sorted(names)
        if os.path.isfile(os.path.join(git.directory, name)) and not name.startswith(".planrunner/")
    ]


def _repository(directory: str) -> Repository:
    """The repository around the directory. Raises Unfit where there is none, or its settings are refused."""
    end = time.monotonic() + PATIENCE
    call = Call("", Task("gate"), 1, "", {}, "", (), {}, {}, directory, "", None)
    context = Context(call, _Silent(), lambda: time.monotonic() > end, AttemptServices("", directory, None, {}))
    try:
        return open_repository(context)
    except Failure as failure:
        if "lies in no git repository" in str(failure):
            raise Unfit("this is not a git work tree") from None
        raise Unfit(str(failure), failure.rule) from None


def _asked(git: Git, *arguments: str) -> bytes:
    try:
        return git.raw(*arguments)
    except Refused as refused:
        if "bad revision 'HEAD'" in refused.said:
            raise Unfit("the repository has no commit yet to compare with") from None
        if "bad revision" in refused.said:
            raise Unfit("there is no such file, and git knows no such range of commits") from None
        raise Unfit(str(refused)) from None
    except Failure as failure:
        raise Unfit(str(failure), failure.rule) from None


SHOWN_ALL = 100_000
"""Characters that are kept of all evidence together: of what comes after, the digest alone."""

MOST = 2_000
"""Files that a pattern may fit."""


_FAULTS = (
    *(Unfit, OSError, subprocess.SubprocessError, ArithmeticError, AttributeError, LookupError, TypeError),
    *(ValueError, RecursionError),
)
"""Whatever a look at foreign data may end in: a gate that cannot be examined stays closed."""


def looking(effect: Examine | RecheckEvidence) -> tuple[Callable[[], Any], list[Any] | None]:
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
    records: list[Record] = []
    scope = scope_between(rights, directory, directory) if rights else None
    for look in looks:
        if look["kind"] == "judge":
            continue  # a model is asked elsewhere, and once
        try:
            records += _LOOKS[str(look["kind"])](look, directory, scope)
        except _FAULTS as error:
            name = str(look.get("path") or look.get("range") or look.get("name") or look["kind"])
            rule = {"rule": error.rule} if isinstance(error, Unfit) and error.rule else {}
            records.append(
                {"kind": look["kind"], "name": name, "digest": "", "problem": f"{name}: {_why(error)}", **rule}
            )
    try:
        policy = read_project(directory).digest
    except (UsageError, PlanInvalid) as error:
        policy = ""
        problem = unsound(error) if isinstance(error, PlanInvalid) else error.message
        records.append({"kind": "policy", "name": FILE, "digest": "", "problem": problem})
    return tuple(_cut(records)), policy


def _cut(records: list[Record]) -> Iterator[Record]:
    left = SHOWN_ALL
    for record in records:
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
    names = files(directory, pattern)
    if not names:
        raise Unfit("no file fits the pattern")
    if len(names) > MOST:
        raise Unfit(f"{len(names)} files fit the pattern, and {MOST} may")
    for name in names:
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
    problems = faults(_document(schema_path, schema), _document(path, data))
    name = f"{path} by {schema_path}"
    record = {"kind": "schema", "name": name, "digest": digest_of(data + b"\0" + schema), "text": "fits the schema"}
    if problems:
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        record["problem"] = f"{path} does not fit {schema_path}: {'; '.join(problems[:3])}{more}"
        record["text"] = "does not fit the schema"
    yield record


def _document(path: str, data: bytes) -> Json:
    """JSON, or YAML by the name of the file."""
    text = data.decode("utf-8")
    if not path.endswith((".yaml", ".yml")):
        try:
            return json.loads(text)
        except ValueError as error:
            raise Unfit(f"{path} is not JSON: {error}") from None
    parsed = parse(Source(text, path, "yaml"))
    if parsed.tree is None:
        raise Unfit(f"{path} is not valid YAML: {parsed.findings[0].message if parsed.findings else 'it is empty'}")
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
