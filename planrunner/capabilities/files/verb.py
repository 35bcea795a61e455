"""How every capability of the family acts: plan the changes, then show them, keep what they replace, carry them out, or
carry out their inverse."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure, Preview
from planrunner.capabilities.files import records
from planrunner.capabilities.files.inputs import artifact_name, check
from planrunner.capabilities.files.scope import scope_in
from planrunner.files.beneath import Beneath
from planrunner.files.changes import Change, Planned, Step, fits, merged, stepped
from planrunner.files.diff import unified
from planrunner.files.staged import perform, settle
from planrunner.files.walk import CHUNK, FileState, entries, sha256, state_at
from planrunner.jsontext import read_json, stable_json, write_json

Json = Any
Plan = Callable[[Context, Beneath], Planned]

_INLINE = 50
"""Changes that a capture holds itself; more of them are kept as an artifact."""
_IN_MEMORY = 8 << 20
_FORMAT = 1
_LATE = "-late"
"""After the name of a record: nothing could be captured before the first attempt."""


def open_tree(context: Context, looks: bool = False, directory: str = "") -> Beneath:
    """The working directory of a call, or another one. A call that only ``looks`` needs no state folder and
    makes none. Raises Failure (policy where the task works in `.git` or in the state folder), StorageFailed."""
    state, directory = "", directory or context.call.directory
    if context.call.task.cwd and ".git" in os.path.realpath(directory).casefold().split("/"):
        raise Failure(f"plans do not work in `.git`: {directory}", rule="files.protected")
    if context.services is not None and not looks:
        state = records.place(context).removesuffix("/cache/files")
    return Beneath(directory, state, context.cancelled, scope_in(context), partial(_ruling, context))


def _ruling(context: Context) -> list[str]:
    """The files that planrunner.yaml includes. Raises Failure (policy) where its settings are not sound."""
    root = context.services.directory() if context.services is not None else context.call.directory
    return [os.path.join(root, name) for name in context.settings("include").get("files", ())]


class Verb:
    """One capability of the family: the same plan is what it shows, what it captures and what it carries out. ``still``
    says of one that must not act twice whether its work is there although others have continued it."""

    __slots__ = ("_defaults", "_name", "_plan", "_still")

    def __init__(
        self, name: str, plan: Callable[..., Plan], still: Callable[[Beneath, Sequence[Step]], bool] | None = None
    ) -> None:
        code, defaults = plan.__code__, plan.__defaults__ or ()
        names = code.co_varnames[: code.co_argcount]
        self._name = name
        self._plan = plan
        self._still = still
        self._defaults = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))

    def act(self, context: Context, **inputs: Json) -> dict[str, Json]:
        """Carry out what is planned, all or nothing, once in a visit of the task. Gives the outputs. Raises Failure."""
        name, digest = records.name_of_visit(context, self._name), self._digest(inputs)
        with open_tree(context) as tree:
            earlier = records.load(context, name)
            if earlier is not None and earlier.inputs == digest:
                if settle(tree, earlier.steps) or (self._still is not None and self._still(tree, earlier.steps)):
                    return earlier.outputs
                earlier = earlier._replace(steps=())
            planned = self._planned(inputs)(context, tree)
            before = earlier.changes() if earlier is not None else ()
            carry_out_late(context, tree, Act(name, self._name, digest, before), planned)
            return planned.outputs

    def preview(self, context: Context, **inputs: Json) -> Preview:
        """What would change, as a unified diff."""
        with open_tree(context, looks=True) as tree:
            changes = merged(self._planned(inputs)(context, tree).changes)
            return Preview(*unified(changes, lambda path: read(tree, path)))

    def capture(self, context: Context, **inputs: Json) -> dict[str, Json]:
        """What an undo has to know: each path with what stands there before and after, old contents in the store.

        Where the act would fail as things are, it is left to fail with a class of its own; should a later attempt
        succeed, that one keeps what it replaces.
        """
        name = records.name_of_visit(context, self._name)
        capture: dict[str, Json] = {"format": _FORMAT, "record": name}
        with open_tree(context) as tree:
            try:
                changes = merged(self._planned(inputs)(context, tree).changes)
            except Failure as failure:
                return late(context, name, str(failure))
            _keep_replaced(context, tree, changes)
        rows = records.rows_of(changes)
        if len(rows) <= _INLINE:
            return {**capture, "changes": rows}
        kept = context.keep(write_json(rows).encode("ascii"), "changes", "json")
        return {**capture, "kept": kept["sha256"]}

    def _planned(self, inputs: Mapping[str, Json]) -> Plan:
        check(inputs)
        return self._plan(**inputs)

    def _digest(self, inputs: Mapping[str, Json]) -> str:
        return sha256(stable_json({**self._defaults, **inputs}).encode())


class Act(NamedTuple):
    """What is about to change files: the name of its record, its capability, the digest of its inputs, and what acts of
    the same visit with other inputs have changed."""

    record: str
    capability: str
    inputs: str = ""
    earlier: tuple[Change, ...] = ()


def late(context: Context, name: str, why: str) -> dict[str, Json]:
    """What is captured of an act whose changes are not known before it: it keeps what it replaces itself, by
    ``carry_out_late`` under the same name."""
    records.save(context, name + _LATE, records.Record((), {}))
    return {"format": _FORMAT, "record": name, "late": why}


def carry_out_late(context: Context, tree: Beneath, act: Act, planned: Planned) -> None:
    """As ``carry_out``, of what may not have been captured: then what is replaced is kept now."""
    changes = merged(planned.changes)
    if changes:
        if records.load(context, act.record + _LATE) is not None:
            _keep_replaced(context, tree, changes)
        carry_out(context, tree, act, Planned(changes, planned.outputs))


def carry_out(context: Context, tree: Beneath, act: Act, planned: Planned) -> None:
    """Write down what is going to change, then change it."""
    steps = stepped(tree, planned.changes, records.mark(context, act.capability))
    records.save(context, act.record, records.Record(steps, planned.outputs, act.inputs, act.earlier))
    perform(tree, steps)


def _keep_replaced(context: Context, tree: Beneath, changes: tuple[Change, ...]) -> None:
    moved = _moved(changes)
    for change in changes:
        if change.before and change.before.kind == "file" and not (change.after is None and change.before in moved):
            keep(context, tree, change.path, change.before)


def keep(context: Context, tree: Beneath, path: str, state: FileState) -> None:
    """Keep the content of a file in the store. Raises Failure (transient) where it is no longer what it was."""
    if state.size <= _IN_MEMORY:
        record = context.keep(b"".join(read(tree, path)), artifact_name(path))
    else:
        record = context.keep_file(path, artifact_name(path))
    if record["sha256"] != state.sha256:
        raise Failure(f"{path}: its content has changed meanwhile", "transient")


def read(tree: Beneath, path: str) -> Iterator[bytes]:
    """The content of a file in parts, no link followed. Raises OSError, Failure."""
    try:
        handle = tree.open(path.split("/"))
    except OSError as error:  # it stood there a moment ago
        raise Failure(f"{path} was changed by another process meanwhile: {error.strerror}", "transient") from None
    try:
        while data := os.read(handle, CHUNK):
            yield data
    finally:
        os.close(handle)


def kept(context: Context, digest: str) -> Callable[[], Iterator[bytes]]:
    """The bytes of an artifact as the source of a change."""

    def source() -> Iterator[bytes]:
        with context.artifact(digest) as file:
            while data := file.read(CHUNK):
                yield data

    return source


def undone(context: Context, before: dict[str, Json], outputs: dict[str, Json] | None) -> dict[str, Json]:
    """Put back what was captured: the ``undo`` of the whole family. Raises Failure, with nothing changed, where
    another process has changed one of the paths since."""
    if before.get("format") != _FORMAT:
        raise Failure("what was kept for the undo was written by another version")
    if outputs is not None and outputs.get("changed") is False:
        return {"changed": False, "restored": 0}  # it was not this task that made it so
    with open_tree(context) as tree:
        earlier = records.load(context, before["record"])
        if "late" in before:
            changes = _whole(earlier.changes()) if earlier is not None else ()
        elif "changes" in before:
            changes = _as_made(records.changes_from(before["changes"]), earlier)
        else:
            with context.artifact(before["kept"]) as file:
                changes = _as_made(records.changes_from(read_json(file.read().decode("ascii"))), earlier)
        _refuse_foreign(tree, changes, earlier, cut_off=True)
        name = sha256(f"undo {before['record']}".encode())[:40]
        for record in (records.load(context, name), earlier):  # an undo that was cut off is the later of the two
            if record is not None:
                settle(tree, record.steps)
        _refuse_foreign(tree, changes, earlier)
        inverse = merged(back for change in changes if (back := _inverse(context, tree, change, changes)))
        if inverse:
            carry_out(context, tree, Act(name, "undo"), Planned(inverse, {}))
        return {"changed": bool(inverse), "restored": len(inverse)}


def _refuse_foreign(
    tree: Beneath, changes: tuple[Change, ...], earlier: records.Record | None, cut_off: bool = False
) -> None:
    """Nothing is put back over what another process has made of a path, before the task replaced it or after.
    ``cut_off``: a kill may have left a path between the two."""
    for change in changes:
        now = state_at(tree, change.path)
        known = fits(now, change.before) or fits(now, change.after) or (change.way and now is None)
        between = now is None or (now.kind == "folder" and "folder" in (_kind(change.before), _kind(change.after)))
        if not (known or (cut_off and between)):
            raise Failure(f"{change.path} was changed by another process since, so it is not put back")
    sides = {change.path: [change.before, change.after] for change in changes}
    for change in earlier.changes() if earlier is not None else ():
        known_sides = sides.setdefault(change.path, [None])
        if not any(fits(change.before, side) for side in known_sides):
            raise Failure(
                f"{change.path} was changed by another process before the task replaced it, so it is not put back"
            )
        known_sides.append(change.after)


def _as_made(captured: tuple[Change, ...], record: records.Record | None) -> tuple[Change, ...]:
    """What was captured before the task began, with what its attempts made of it: their inputs may have been others by
    then, such as a text with the time in it."""
    if record is None:
        return captured
    made = {change.path: change for change in _whole(record.changes())}
    same = tuple(
        change._replace(after=made[change.path].after) if change.path in made else change for change in captured
    )
    known = {change.path for change in captured}
    return (*same, *(change for change in made.values() if change.path not in known and change.before is None))


def _whole(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Changes one after the other as one for each path: from what stood there first to what stands there last."""
    paths: dict[str, Change] = {}
    for change in changes:
        first = paths.get(change.path)
        paths[change.path] = change if first is None else change._replace(before=first.before, source=None)
    return tuple(paths.values())


def _kind(state: FileState | None) -> str:
    return "" if state is None else state.kind


def _moved(changes: Sequence[Change]) -> dict[FileState, str]:
    """Files that come to stand somewhere new, with their paths: what goes away elsewhere may be found there again."""
    return {change.after: change.path for change in changes if change.after is not None and change.before is None}


def _inverse(context: Context, tree: Beneath, change: Change, changes: tuple[Change, ...]) -> Change | None:
    now = state_at(tree, change.path)
    if fits(now, change.before) or (now is None and change.before is None):
        return None
    if now is not None and now.kind == "folder" and (change.before is None or change.before.kind != "folder"):
        ours = {each.path for each in changes}
        foreign = next(
            (entry.path for entry in entries(tree, change.path.split("/"), lambda _: True) if entry.path not in ours),
            "",
        )
        if foreign and change.way:
            return None
        if foreign:
            raise Failure(f"{change.path} holds {foreign}, which the task did not make, so it is not removed")
    before = change.before
    if before is None or before.kind != "file":
        return Change(change.path, now, before)
    moved = _moved(changes).get(before) if change.after is None else None
    if moved is not None:
        return Change(change.path, now, before, lambda: read(tree, moved), origin=moved)
    return Change(change.path, now, before, kept(context, before.sha256))
