"""The working directory as it was at a checkpoint: what would be written and removed, and doing it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from planrunner.engine.backups import MOST
from planrunner.errors import NotFound, StorageFailed, UsageError
from planrunner.failures import Failure
from planrunner.files import snapshot
from planrunner.files.beneath import Beneath
from planrunner.files.listing import Listing, fits, listing
from planrunner.files.snapshot import difference, remove, restore
from planrunner.files.walk import FileState
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.machine.events import AttemptEnded, CheckpointTaken, Entry, TaskSettled
from planrunner.plan.model import Plan
from planrunner.plan.names import is_listed
from planrunner.records import Struct
from planrunner.safety.project import FILE

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
    state: FileState | None = None

    @property
    def writes(self) -> bool:
        return self.how in ("missing", "differs", "kind", "mode")


class Rewind(Struct):
    """What makes ``directory`` what it was: ``steps`` in the order of paths, ``seqs`` the entries that tell of the
    checkpoints it comes from."""

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
    covering = layers(entries[: taken or len(entries)])
    store, root = ArtifactStore(state_dir), os.path.realpath(directory)
    try:
        parts = [listing(directory, state_dir, one.taken.patterns, 2 * MOST) for one in covering]
    except Failure as refused:
        raise UsageError(f"the files of the checkpoint cannot be compared: {refused}") from None
    present = Listing({}, {}, frozenset())
    for part in parts:
        present = Listing(present.found | part.found, present.unread | part.unread, present.ignored | part.ignored)
    wanted: dict[str, FileState] = {}
    for layer in covering:
        states = snapshot.read(store, layer.taken.files).states
        wanted = {path: state for path, state in wanted.items() if not _covers(layer, path, present)} | states
    artifacts: dict[str, Restored] = {}
    for file in restorable(plan, entries, directory, state_dir):
        path = os.path.relpath(file.target, root)
        if not any(layer.seq > file.seq and _covers(layer, path, present) for layer in covering):
            artifacts[path] = file  # it tells more of its path than the checkpoints do
            wanted.pop(path, None)
    with Beneath(root) as tree:
        steps = [_compared(store, tree, path, state) for path, state in wanted.items()]
    theirs = [path for path in present.found if path not in wanted and path not in artifacts and _is_theirs(root, path)]
    steps += [Step(path, f"{'settings' if _is_settings(path) else 'a plan'} made since") for path in theirs]
    steps += [Step(path, "removed") for path in _came_since(present, wanted, set(artifacts), root, theirs)]
    steps += [
        Step(path, file.how, FileState("artifact", sha256=file.sha256, target=file.target))
        for path, file in artifacts.items()
        if file.how != "same"
    ]
    return Rewind(state_dir, root, tuple(one.seq for one in covering), tuple(sorted(filter(None, steps))))


def _covers(layer: Layer, path: str, present: Listing) -> bool:
    patterns = layer.taken.patterns
    return any(fits(path, pattern) for pattern in patterns) if patterns else not present.is_ignored(path)


def _is_theirs(root: str, path: str) -> bool:
    """Whether people write a file for planrunner, rather than a task as its result: a plan or settings."""
    return _is_settings(path) or is_listed(root, os.path.join(root, path))


def _is_settings(path: str) -> bool:
    return path == FILE


def _came_since(
    present: Listing, wanted: dict[str, FileState], artifacts: set[str], root: str, theirs: Sequence[str]
) -> list[str]:
    """What is to be removed. What could not be read stays, and so do repositories of their own, what git ignores, and
    what people write (``theirs``)."""
    spared = [path for path, state in wanted.items() if state.kind == "unread"] + list(present.unread) + list(theirs)
    spared += [
        path for path in present.found if path not in wanted and os.path.lexists(os.path.join(root, path, ".git"))
    ]
    needed = {*artifacts, *spared}
    for path in (*artifacts, *present.ignored, *spared):
        parts = path.split("/")
        needed |= {"/".join(parts[:count]) for count in range(1, len(parts))}
    return [
        path
        for path in present.found
        if path not in wanted and path not in needed and not any(path.startswith(f"{one}/") for one in spared)
    ]


def _compared(store: ArtifactStore, tree: Beneath, path: str, state: FileState) -> Step | None:
    """The step that a path calls for; None where it is as it was."""
    if state.kind == "unread":
        return Step(path, "it could not be read then")
    how = difference(tree, path, state)
    if how and state.kind == "file" and how != "mode" and not store.is_whole(state.sha256):
        return Step(path, "its content is not in the store any more")
    return Step(path, how, state) if how else None


class Done(Struct):
    """What became of one step: ``before`` is the artifact that holds the content before, ``problem`` why it could not
    be done."""

    step: Step
    before: str = ""
    problem: str = ""


class CarriedOut(Struct):
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
    lines = []
    for path, sha256 in before.items():
        if sha256:
            named = path.replace("\\", "\\\\").replace("\n", "\\n")
            lines.append(f"{os.path.abspath(store.path_of(sha256))}  {named}\n")
    kept = ""
    if lines:
        kept = store.path_of(str(store.keep_bytes("".join(lines).encode("utf-8", "surrogateescape"))["sha256"]))
    removing = [step for step in reversed(acting) if step.how == "removed"]
    writing = [step for step in acting if step.writes]
    with Beneath(plan.directory) as tree:
        done = [_tried(store, tree, step, before[step.path] or "") for step in [*removing, *writing]]
        for step in reversed(writing):
            if step.state is not None and step.state.kind == "folder":
                last = _tried(store, tree, step, "", last=True)
                done += [last] if last.problem else []
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


def _tried(store: ArtifactStore, tree: Beneath, step: Step, before: str, last: bool = False) -> Done:
    """Carry out one step. Folders are open to their owner until everything in them is written (``last``); an artifact
    has the mode of the file in its place."""
    path, state = step.path, step.state
    try:
        if state is None:
            with contextlib.suppress(FileNotFoundError):  # its folder was removed meanwhile
                remove(tree, path)
            return Done(step, before)
        if state.kind == "folder" and not last:
            state = state._replace(mode=state.mode | 0o700)
        elif state.kind == "artifact":
            try:
                mode = stat.S_IMODE(os.lstat(os.path.join(tree.directory, path)).st_mode)
            except (FileNotFoundError, NotADirectoryError):
                mode = 0o666 & ~_umask()
            state = FileState("file", mode, -1, state.sha256)
        restore(tree, path, state, partial(store.chunks, state.sha256))
    except OSError as error:
        return Done(step, before, error.strerror or str(error))
    except (Failure, NotFound, StorageFailed) as problem:
        return Done(step, before, str(problem))
    return Done(step, before)


def _umask() -> int:
    """The mask of this process, which ``os.umask`` could tell only by changing it for every thread."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next((int(line.split()[1], 8) for line in status if line.startswith("Umask:")), 0o022)


class Restored(Struct):
    """One artifact of a checkpoint: where its file belongs (``path`` as people see it, ``target`` in full) and its
    digest. ``how`` is ``missing``, ``differs`` (both are to be written), ``same``, or why it is left out. ``seq`` is
    the entry that tells of it."""

    path: str
    target: str
    sha256: str
    how: str
    seq: int = 0


def restorable(plan: Plan, entries: Sequence[Entry], directory: str, state_dir: str) -> list[Restored]:
    """The artifacts of completed tasks in the working directory of the run, the latest of each path, in order."""
    store, folders = ArtifactStore(state_dir), {task.id: task.cwd for task in plan.tasks}
    ended: dict[str, tuple[int, AttemptEnded]] = {}
    latest: dict[str, tuple[int, dict[str, Json]]] = {}
    for seq, _, event, _ in entries:
        if isinstance(event, AttemptEnded):
            ended[event.task] = seq, event
        elif isinstance(event, TaskSettled) and event.status == "completed" and event.task in ended:
            at, last = ended[event.task]
            for record in last.outcome.artifacts:
                if "path" in record and "sha256" in record:
                    latest[os.path.join(folders.get(event.task, ""), str(record["path"]))] = at, record
    files = []
    for path, (seq, record) in sorted(latest.items()):
        target = os.path.normpath(os.path.join(directory, path))
        files.append(
            Restored(path, target, str(record["sha256"]), _how_kept(path, target, record, directory, store), seq)
        )
    return files


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
