"""The working directory as it was at a checkpoint: what would be written and removed, and doing it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from planrunner.engine.backups import MOST, remove, restore
from planrunner.errors import NotFound, StorageFailed, UsageError
from planrunner.files.listing import Listing, Refused, fits, listing
from planrunner.knowledge import directories
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.knowledge.directories import Piece
from planrunner.machine.events import AttemptEnded, CheckpointTaken, Entry, TaskSettled
from planrunner.plan.model import Plan

Json = Any


class Layer(NamedTuple):
    """The newest checkpoint of one set of patterns: the entry that tells of it and what that says."""

    seq: int
    taken: CheckpointTaken


class Step(NamedTuple):
    """One path that is not as it was. ``how`` is missing, differs, kind, mode (all of these are written), removed, or
    why it is left out."""

    path: str
    how: str
    piece: Piece | None = None

    @property
    def writes(self) -> bool:
        return self.how in ("missing", "differs", "kind", "mode")


class Rewind(NamedTuple):
    """How to make ``directory`` what it was: ``steps`` in the order of paths, ``seqs`` the entries that tell
    of the checkpoints it comes from."""

    state_dir: str
    directory: str
    seqs: tuple[int, ...]
    steps: tuple[Step, ...]

    @property
    def acts(self) -> bool:
        return any(step.writes or step.how == "removed" for step in self.steps)


def layers(entries: Iterable[Entry]) -> list[Layer]:
    """The checkpoints with files that tell how the directory was, the oldest first."""
    newest: dict[tuple[str, ...], Layer] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, CheckpointTaken) and event.files:
            newest[event.patterns] = Layer(entry.seq, event)
    return sorted(newest.values())


def rewind(plan: Plan, entries: Sequence[Entry], taken: int, directory: str, state_dir: str) -> Rewind:
    """What differs from how it was after ``entries``. ``taken`` is the entry that tells of the files of that very
    place, 0 where the newest ones before count. Nothing is changed. Raises NotFound and StorageFailed for a manifest
    that is lost or damaged, UsageError for a directory that cannot be looked at."""
    found = layers(entries[: taken or len(entries)])
    store = ArtifactStore(state_dir)
    there = _there(directory, state_dir, found)
    want = _want(store, found, there)
    kept = [file for file in restorable(plan, entries, directory, state_dir) if _counts(file, found, there, directory)]
    root = os.path.realpath(directory)
    for file in kept:
        want.pop(os.path.relpath(file.target, root), None)
    steps = [_compared(store, root, path, piece) for path, piece in want.items()]
    steps += [Step(path, "removed") for path in _came_since(there, want, kept, root)]
    steps += [_of_artifact(file, root) for file in kept if file.how != "same"]
    return Rewind(state_dir, root, tuple(one.seq for one in found), tuple(sorted(filter(None, steps))))


def _there(directory: str, state_dir: str, found: Sequence[Layer]) -> Listing:
    """What there is now, of what the checkpoints cover."""
    try:
        parts = [listing(directory, state_dir, one.taken.patterns, 2 * MOST) for one in found]
    except Refused as refused:
        raise UsageError(f"the files of the checkpoint cannot be compared: {refused}") from None
    whole = Listing({}, {}, frozenset())
    for part in parts:
        whole = Listing(whole.found | part.found, whole.unread | part.unread, whole.ignored | part.ignored)
    return whole


def _covers(layer: Layer, path: str, there: Listing) -> bool:
    patterns = layer.taken.patterns
    return any(fits(path, pattern) for pattern in patterns) if patterns else not there.is_ignored(path)


def _want(store: ArtifactStore, found: Sequence[Layer], there: Listing) -> dict[str, Piece]:
    want: dict[str, Piece] = {}
    for layer in found:
        pieces = directories.read(store, layer.taken.files).pieces
        want = {path: piece for path, piece in want.items() if not _covers(layer, path, there)} | pieces
    return want


def _counts(file: Restored, found: Sequence[Layer], there: Listing, directory: str) -> bool:
    """Whether an artifact tells more of its path than the checkpoints do."""
    path = os.path.relpath(file.target, os.path.realpath(directory))
    return not any(layer.seq > file.seq and _covers(layer, path, there) for layer in found)


def _came_since(there: Listing, want: dict[str, Piece], kept: Sequence[Restored], root: str) -> list[str]:
    """What is to be removed. What could not be read stays, and so do repositories of their own and what git ignores."""
    spared = [path for path, piece in want.items() if piece.kind == "unread"] + list(there.unread)
    spared += [path for path in there.found if path not in want and os.path.lexists(os.path.join(root, path, ".git"))]
    artifacts = {os.path.relpath(file.target, root) for file in kept}
    stays = [*artifacts, *there.ignored, *spared]
    needed = {path for one in stays for path in _around(one)} | {*artifacts, *spared}
    return [
        path
        for path in there.found
        if path not in want and path not in needed and not any(path.startswith(f"{one}/") for one in spared)
    ]


def _around(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:at]) for at in range(1, len(parts))]


def _of_artifact(file: Restored, root: str) -> Step:
    piece = Piece("artifact", sha256=file.sha256, target=file.target)
    return Step(os.path.relpath(file.target, root), file.how, piece)


def _compared(store: ArtifactStore, root: str, path: str, piece: Piece) -> Step | None:
    """The step that a path calls for; None where it is as it was."""
    if piece.kind == "unread":
        return Step(path, "it could not be read then")
    whole = os.path.join(root, path)
    folder = os.path.dirname(whole)
    how = _how(whole, piece) if os.path.realpath(folder) == folder else "missing"  # never through a link
    if how and piece.kind == "file" and how != "mode" and not store.is_whole(piece.sha256):
        return Step(path, "its content is not in the store any more")
    return Step(path, how, piece) if how else None


def _how(whole: str, piece: Piece) -> str:
    try:
        return _differs(whole, piece)
    except (FileNotFoundError, NotADirectoryError):
        return "missing"  # or gone while it was looked at


def _differs(whole: str, piece: Piece) -> str:
    found = os.lstat(whole)
    kinds = {"file": stat.S_ISREG, "folder": stat.S_ISDIR, "link": stat.S_ISLNK}
    if not kinds[piece.kind](found.st_mode):
        return "kind"
    if piece.kind == "link":
        return "" if os.readlink(whole) == piece.target else "differs"
    if piece.kind == "file" and (found.st_size != piece.size or _digest(whole) != piece.sha256):
        return "differs"
    return "" if stat.S_IMODE(found.st_mode) == piece.mode else "mode"


def _digest(whole: str) -> str:
    try:
        with open(whole, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


class Done(NamedTuple):
    """What became of one step: ``before`` is the artifact that holds the content before, ``problem`` why it could not
    be done."""

    step: Step
    before: str = ""
    problem: str = ""


class CarriedOut(NamedTuple):
    """What became of every step. ``kept`` is the file that lists what was there before, each path with the file of its
    content; empty where there was nothing to lose."""

    done: list[Done]
    kept: str = ""


def carry_out(plan: Rewind) -> CarriedOut:
    """Make the directory what it was. Every file that is written over or removed is kept first; then each path changes
    all at once or not at all, and doing it again does the rest. Raises StorageFailed when something cannot be kept:
    then nothing has changed."""
    store = ArtifactStore(plan.state_dir)
    acting = [step for step in plan.steps if step.writes or step.how == "removed"]
    before = {step.path: _kept(store, plan.directory, step) for step in acting}
    unsafe = [step for step in acting if before[step.path] is None]
    if unsafe:
        raise StorageFailed(f"{unsafe[0].path!r} cannot be read, and so not be kept before it changes")
    kept = _listed(store, {path: sha256 for path, sha256 in before.items() if sha256})
    removing = [step for step in reversed(acting) if step.how == "removed"]
    writing = [step for step in acting if step.writes]
    done = [_tried(store, plan.directory, step, before[step.path] or "") for step in [*removing, *writing]]
    for step in reversed(writing):
        if step.piece is not None and step.piece.kind == "folder":
            done += [found for found in [_tried(store, plan.directory, step, "", last=True)] if found.problem]
    return CarriedOut(done, kept)


def restored_object(plan: Rewind, carried: CarriedOut) -> dict[str, Json]:
    """What became of each path, as data; ``kept`` lists the replaced files."""
    counts = Counter("removed" if done.step.how == "removed" else "wrote" for done in carried.done)
    paths = [
        (done.step.path, "removed" if done.step.how == "removed" else "wrote", done.step.how, done.before or None)
        for done in carried.done
    ]
    left_out = [step for step in plan.steps if not (step.writes or step.how == "removed")]
    paths += [(step.path, "left out", step.how, None) for step in left_out]
    return {
        "written": counts["wrote"],
        "removed": counts["removed"],
        "left_out": len(left_out),
        "kept": carried.kept or None,
        "paths": [
            {"path": readable(path), "did": did, "why": why, "before": before} for path, did, why, before in paths
        ],
    }


def readable(path: str) -> str:
    """A path as text, with an escape for each undecodable byte."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _listed(store: ArtifactStore, kept: dict[str, str]) -> str:
    """A list of what was there, as a file in the store: a line for each path with the file that has its content."""
    if not kept:
        return ""
    lines = [f"{os.path.abspath(store.path_of(sha256))}  {_line(path)}\n" for path, sha256 in kept.items()]
    listed = store.keep_bytes("".join(lines).encode("utf-8", "surrogateescape"))
    return store.path_of(str(listed["sha256"]))


def _line(path: str) -> str:
    return path.replace("\\", "\\\\").replace("\n", "\\n")


def _kept(store: ArtifactStore, root: str, step: Step) -> str | None:
    """The artifact that holds what a path has now; empty where there is no content to lose, None where it cannot be
    read."""
    whole = os.path.join(root, step.path)
    try:
        if step.how in ("missing", "mode") or not stat.S_ISREG(os.lstat(whole).st_mode):
            return ""
        return str(store.keep(whole)["sha256"])
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return None if os.path.lexists(whole) else ""  # gone meanwhile: there is nothing to lose any more


def _tried(store: ArtifactStore, root: str, step: Step, before: str, last: bool = False) -> Done:
    try:
        if step.piece is None:
            _gone(root, step.path)
        else:
            restore(store, root, _record(root, step.path, step.piece, last))
    except OSError as error:
        return Done(step, before, error.strerror or str(error))
    except (Refused, NotFound, StorageFailed) as problem:
        return Done(step, before, str(problem))
    return Done(step, before)


def _gone(root: str, path: str) -> None:
    try:
        remove(root, path)
    except FileNotFoundError:
        return  # its folder was removed meanwhile


def _record(root: str, path: str, piece: Piece, last: bool) -> dict[str, Json]:
    """A path for ``restore``. Folders are open to their owner until everything in them is done; an artifact has the
    mode of the file in its place."""
    if piece.kind == "link":
        return {"path": path, "link": piece.target}
    if piece.kind == "folder":
        return {"path": path, "mode": piece.mode if last else piece.mode | 0o700, "folder": True}
    if piece.kind == "file":
        return {"path": path, "mode": piece.mode, "sha256": piece.sha256, "size": piece.size}
    try:
        mode = stat.S_IMODE(os.lstat(os.path.join(root, path)).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        mode = 0o666 & ~_umask()
    return {"path": path, "mode": mode, "sha256": piece.sha256, "size": -1}


def _umask() -> int:
    """The mask of this process, which ``os.umask`` could tell only by changing it for every thread."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next((int(line.split()[1], 8) for line in status if line.startswith("Umask:")), 0o022)


class Restored(NamedTuple):
    """One artifact of a checkpoint: where its file belongs (``path`` as people see it, ``target`` in full) and its
    digest. ``how`` is ``missing``, ``differs`` (both are to be written), ``same``, or why it is left out. ``seq`` is
    the entry that tells of it."""

    path: str
    target: str
    sha256: str
    how: str
    seq: int = 0


def restorable(plan: Plan, entries: Sequence[Entry], directory: str, state_dir: str) -> list[Restored]:
    """What the artifacts in a record come to in the working directory of the run, in the order of their paths."""
    store = ArtifactStore(state_dir)
    files = _kept_files(plan, entries)
    latest = {os.path.join(folder, str(record["path"])): (seq, record) for seq, folder, record in files}
    return [_look(path, *latest[path], directory, store) for path in sorted(latest)]


def _kept_files(plan: Plan, entries: Sequence[Entry]) -> Iterator[tuple[int, str, dict[str, Json]]]:
    """The artifacts of completed tasks with their entry and the folder that their paths start from, in the order of
    completion."""
    folders = {task.id: task.cwd for task in plan.tasks}
    ended: dict[str, tuple[int, AttemptEnded]] = {}
    for seq, _, event, _ in entries:
        if isinstance(event, AttemptEnded):
            ended[event.task] = seq, event
        elif isinstance(event, TaskSettled) and event.status == "completed" and event.task in ended:
            at, last = ended[event.task]
            for record in last.outcome.artifacts:
                if "path" in record and "sha256" in record:
                    yield at, folders.get(event.task, ""), record


def _look(path: str, seq: int, record: dict[str, Json], directory: str, store: ArtifactStore) -> Restored:
    target = os.path.normpath(os.path.join(directory, path))
    sha256 = str(record["sha256"])
    return Restored(path, target, sha256, _how_kept(path, target, record, directory, store), seq)


def _how_kept(path: str, target: str, record: dict[str, Json], directory: str, store: ArtifactStore) -> str:
    sha256 = str(record["sha256"])
    inside = os.path.realpath(os.path.dirname(target))
    root = os.path.realpath(directory)
    if "{{" in path or (inside != root and not inside.startswith(root + os.sep)):
        return "it lies outside the working directory"
    if str(record.get("type", "")) == "directory" or os.path.isdir(target):
        return "it is a directory"
    if os.path.islink(target):
        return "a symbolic link is in its place"
    if not store.is_whole(sha256):
        return "its content is not in the store any more"
    try:
        with open(target, "rb") as file:
            return "same" if hashlib.file_digest(file, "sha256").hexdigest() == sha256 else "differs"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:
        return "differs"  # overwriting it reads it first, and reports the error
