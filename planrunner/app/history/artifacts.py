"""Artifacts by plan, task and name: versions, origin, content; the store checked, and collected where nothing refers
to it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

from planrunner.app.history.state import stored_state, whose
from planrunner.errors import Hint, NextStep, NotFound, StorageFailed, UsageError
from planrunner.journal.artifacts import Version, picked, plain_path, versions
from planrunner.journal.ports import Journal
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import NAME, find_project, find_state
from planrunner.knowledge.artifacts import ArtifactStore, Collected, collect
from planrunner.machine.events import AttemptStarted
from planrunner.records import Struct
from planrunner.safety.project import read_data

Json = Any


FOREVER = "forever"
_CHUNK = 1 << 20
_VERIFY = Hint(NextStep("artifacts verify"), " looks at all")


class Wanted(Struct):
    """A filter of artifacts; an empty field matches all."""

    plan: str = ""
    task: str = ""
    name: str = ""
    type: str = ""
    run: str = ""


class Provenance(Struct):
    """What a version came from: the capability, the digest of the inputs of the attempt and the revision of the plan;
    the other refs that have the same content, and whether that is still in the store."""

    version: Version
    capability: str
    inputs: str
    same: tuple[str, ...]
    stored: bool


def version_object(version: Version) -> dict[str, Json]:
    """One version as data; ``made`` is seconds since 1970."""
    data = version._asdict()
    data["run_id"], data["version"] = data.pop("run"), data.pop("number")
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.made))
    return {"ref": version.ref, **data, "when": when}


def origin_object(origin: Provenance) -> dict[str, Json]:
    """A version with where it came from."""
    return {
        **version_object(origin.version),
        **{key: each for key, each in origin._asdict().items() if key != "version"},
    }


def listed(wanted: Wanted, state: str | None) -> list[Version]:
    """The versions that fit, the newest first. Raises NotFound where there are no runs."""
    state_dir = find_state(None, state)
    with closing(open_journal(state_dir, readonly=True)) as journal:
        run = journal.find_run(wanted.run) if wanted.run else ""
        found = versions(journal, default_retention(state_dir))
    fitting = [
        version
        for version in found
        if (not wanted.plan or version.plan == wanted.plan)
        and (not wanted.task or version.task == plain_path(wanted.task))
        and (not wanted.name or version.name == wanted.name)
        and (not wanted.type or version.type == wanted.type)
        and (not run or version.run == run)
    ]
    return sorted(fitting, key=lambda version: version.made, reverse=True)


def shown(ref: str, state: str | None) -> Provenance:
    """All about one version. Raises NotFound, UsageError for a ref that may mean several."""
    state_dir = find_state(None, state)
    with closing(open_journal(state_dir, readonly=True)) as journal:
        every = versions(journal, default_retention(state_dir))
        version = picked(ref, every, journal)
        capability, inputs = _attempt(journal, version)
    same = tuple(other.ref for other in every if other.sha256 == version.sha256 and other != version)
    return Provenance(version, capability, inputs, same, ArtifactStore(state_dir).has(version.sha256))


def found(ref: str, state: str | None) -> tuple[Version, ArtifactStore]:
    """The version that a ref names and the store that has its content. Raises NotFound, UsageError, RecordMismatch for
    a run that is not what was written here."""
    state_dir = find_state(None, state)
    with closing(open_journal(state_dir, readonly=True)) as journal:
        version = picked(ref, versions(journal, default_retention(state_dir)), journal)
        journal.prove(version.run)
        store = ArtifactStore(state_dir)
        gone = not store.has(version.sha256)
        elsewhere = whose(journal.entries(version.run)) if gone else ""
    if gone and elsewhere and not version.over:
        raise NotFound(f"the content of `{version.ref}` is not on this machine", elsewhere)
    if gone:
        why = Hint(f"its retention is `{version.retention}`") if version.over else _VERIFY
        raise NotFound(f"the content of `{version.ref}` is not kept any more", why)
    return version, store


def default_retention(state_dir: str) -> str:
    """How long artifacts are kept whose tasks do not say it, by the file of the project that the state belongs to.
    Raises as ``read_data``."""
    beside = os.path.basename(state_dir) == NAME  # the working directory may be another project
    section = read_data(os.path.dirname(state_dir) if beside else find_project(None)).get("artifacts")
    return str(section.get("retention", FOREVER)) if isinstance(section, dict) else FOREVER


def _attempt(journal: Journal, version: Version) -> tuple[str, str]:
    """The capability of the attempt that made a version, and the digest of its inputs."""
    capability = inputs = task = ""
    for entry in journal.entries(version.run):
        event = entry.event
        if not isinstance(event, AttemptStarted) or event.attempt != version.attempt:
            continue
        if plain_path(event.task) == version.task and entry.at <= version.made:
            inputs, task = event.inputs, event.task
    if task:
        state = stored_state(journal, version.run)
        capability = state.specs[state.index[task]].uses if task in state.index else ""
    return capability, inputs


def written(version: Version, store: ArtifactStore, target: str, force: bool = False) -> None:
    """Write the content of a version to a file, whole or not at all. Raises UsageError, StorageFailed where the
    content is damaged."""
    if os.path.isdir(target):
        raise UsageError(f"`{target}` is a folder", "name a file with -o")
    if os.path.lexists(target) and not force:
        raise UsageError(f"`{target}` is there already", "name another file with -o, or write over it with --force")
    staged = f"{target}.{os.getpid()}-{os.urandom(4).hex()}.planrunner"
    try:
        with store.open(version.sha256) as source, open(staged, "xb") as file:
            hashed = hashlib.sha256()
            while data := source.read(_CHUNK):
                hashed.update(data)
                file.write(data)
            if hashed.hexdigest() != version.sha256:
                raise damaged(version)
            if version.executable:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                os.fchmod(file.fileno(), mode | (mode & 0o444) >> 2)
        os.replace(staged, target)
    except OSError as error:
        raise UsageError(f"`{target}` cannot be written: {error.strerror or error}") from error
    finally:
        if os.path.lexists(staged):
            os.unlink(staged)


def damaged(version: Version) -> StorageFailed:
    return StorageFailed(f"the content of `{version.ref}` is damaged", _VERIFY)


GRACE = 86_400.0
"""Seconds for which a content that nothing refers to is kept all the same."""

COARSE = 1.0
"""Seconds by which the times of files may lag behind the clock."""

_RESULTS = frozenset({"attempt_ended", "frame_opened", "run_ended", "task_settled"})
"""Kinds of events that hold what tasks gave."""
_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_LARGEST = 256 << 20
"""Bytes of a JSON content that is looked through."""
_CACHED_CHUNK = 1 << 20


class Checked(NamedTuple):
    """The state of a store: how many contents are whole, which are damaged, and which versions have lost theirs before
    their time."""

    whole: int
    damaged: tuple[str, ...]
    lost: tuple[str, ...]
    over: int


def verified(state: str | None) -> Checked:
    """Compare every content with its digest, and every version with the store. Raises NotFound."""
    state_dir = find_state(None, state)
    with closing(open_journal(state_dir, readonly=True)) as journal:
        every = versions(journal, default_retention(state_dir))
    store = ArtifactStore(state_dir)
    there = list(store)
    damaged = tuple(sha256 for sha256 in there if not store.is_whole(sha256))
    known = set(there)
    missing = [version for version in every if version.sha256 not in known]
    lost = tuple(version.ref for version in missing if not version.over)
    return Checked(len(there) - len(damaged), damaged, lost, len(missing) - len(lost))


def collected(state: str | None, older: float = GRACE, dry: bool = False) -> Collected:
    """Remove contents without a reference, untouched for ``older`` seconds. Raises NotFound, StorageFailed."""
    state_dir = find_state(None, state)
    store = ArtifactStore(state_dir)
    if not os.path.isdir(os.path.join(state_dir, "artifacts")):
        raise NotFound(f"there are no artifacts in `{state_dir}`", "a task keeps a file with `artifacts: [PATH]`")
    with closing(open_journal(state_dir, readonly=True)) as journal:
        # first: what a run keeps from here on is younger, and is its own until it has told of it
        before = min([time.time() - max(older, 0.0) - COARSE, *(holder.since for holder in journal.holders())])
        live = _referred(journal, default_retention(state_dir))
    live.update(_cached(os.path.join(state_dir, "cache")))
    _follow(store, live)
    return collect(store, live, before, dry)


def _referred(journal: Journal, default: str) -> set[str]:
    """The digests that the journal names, without the artifacts whose time is over."""
    every = versions(journal, default)
    live = {version.sha256 for version in every if not version.over}
    over = {version.sha256 for version in every if version.over} - live
    for kind, text in journal.texts():
        digests = set(_digests(text.encode("utf-8", "surrogatepass")))
        live |= digests - over if kind in _RESULTS else digests
    return live


def _digests(data: bytes) -> Iterator[str]:
    return (found.decode("ascii") for found in _DIGEST.findall(data))


def _cached(folder: str) -> Iterator[str]:
    """The digests in the files of the caches: what a later run takes from there is still in the store."""
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                with open(os.path.join(place, name), "rb") as file:
                    rest = b""
                    while data := file.read(_CACHED_CHUNK):
                        yield from _digests(rest + data)
                        rest = data[-128:]
            except OSError:
                continue


def _follow(store: ArtifactStore, live: set[str]) -> None:
    """Add what the JSON contents among the live ones refer to, and what those do."""
    waiting = list(live)
    while waiting:
        for sha256 in _inside(store, waiting.pop()):
            if sha256 not in live:
                live.add(sha256)
                waiting.append(sha256)


def _inside(store: ArtifactStore, sha256: str) -> list[str]:
    try:
        with store.open(sha256) as file:
            if file.peek(1)[:1] not in (b"{", b"[") or os.fstat(file.fileno()).st_size > _LARGEST:
                return []
            return list(_digests(file.read()))
    except (NotFound, OSError):
        return []
