"""``files.edit``: changes in the texts of files, by unified diff or by search and replace, in all of them or in none.

The diff is applied here and not by ``git apply``: git opens paths by name, so that a link put in place meanwhile leads
it astray; it makes links where a diff says so, tells no nearest place, and does not know what was applied already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypedDict

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.files.verb import Plan, Verb, undone
from planrunner.files.beneath import Beneath
from planrunner.files.changes import Change, Planned, ways
from planrunner.files.patch import (
    FilePatch,
    Misfit,
    Replacement,
    apply_hunks,
    apply_replacements,
    parse_diff,
)
from planrunner.files.walk import FileState, content, file_of, state_of

Json = Any

_LARGEST = 16 << 20
"""Bytes of a file that is edited."""


class Block(TypedDict, total=False):
    path: Annotated[str, Doc("", form="file-written")]
    search: str
    replace: str
    all: bool


class Edited(NamedTuple):
    changed: Annotated[bool, Doc("false where all of it was applied already")]
    files: Annotated[
        list[dict[str, Any]],
        Doc("each file's `path`, `changed`, whether it `exists` now, `first_line` and number of `lines` that are new"),
    ]


class _Desk:
    """The files of an edit, each as it stands and as it becomes."""

    __slots__ = ("_before", "_modes", "_now", "_tree")

    def __init__(self, tree: Beneath) -> None:
        self._tree = tree
        self._before: dict[str, tuple[FileState | None, str | None]] = {}
        self._now: dict[str, str | None] = {}
        self._modes: dict[str, int] = {}

    def key(self, path: str) -> str:
        """One spelling for each path. Raises Failure (policy) for what plans do not write to."""
        return "/".join(self._tree.writable(path))

    def text(self, path: str) -> str | None:
        """The text by now, None where the file does not exist. Raises Failure for what is not a text file inside."""
        path = self.key(path)
        if path not in self._now:
            present = state_of(self._tree, path.split("/"))
            if present is not None and present.kind == "link":
                raise Failure(f"{path} is a link", rule="files.link")
            if present is not None and present.kind != "file":
                raise Failure(f"{path} is a {present.kind}")
            text = None
            if present is not None:
                data = content(self._tree, path.split("/"), _LARGEST)
                if b"\0" in data:
                    raise Failure(f"{path} is binary")
                text = data.decode("utf-8", "surrogateescape")
            self._before[path] = (present, text)
            self._now[path] = text
        return self._now[path]

    def becomes(self, path: str, text: str | None, like: str = "") -> None:
        """Set what a path holds; ``like`` is the path whose permissions it takes."""
        self.text(path)
        self._now[self.key(path)] = text
        if like:
            present, _ = self._before[self.key(like)]
            self._modes[self.key(path)] = present.mode if present is not None else 0o644

    def planned(self) -> Planned:
        changes: list[Change] = []
        files: list[dict[str, Json]] = []
        for path, text in self._now.items():
            present, before = self._before[path]
            after = None
            if text is not None:
                data = text.encode("utf-8", "surrogateescape")
                mode = present.mode if present is not None else self._modes.get(path, 0o644)
                after = file_of(data, mode)
                if present is None:
                    changes += [way for way in ways(self._tree, path.split("/"), True) if way not in changes]
                changes.append(Change(path, present, after, lambda data=data: (data,)))  # type: ignore[misc]
            elif present is not None:
                changes.append(Change(path, present, None))
            files.append(_row(path, before, text))
        return Planned(tuple(changes), Edited(any(each["changed"] for each in files), files)._asdict())


def _row(path: str, before: str | None, after: str | None) -> dict[str, Json]:
    """What the outputs say of one file: the lines between the first and the last that differ."""
    old, new = (before or "").split("\n"), (after or "").split("\n")
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    return {
        "path": path,
        "changed": before != after,
        "exists": after is not None,
        "first_line": head + 1 if before != after else 0,
        "lines": len(new) - head - tail,
    }


def _alike(old: list[str], new: list[str]) -> int:
    """How many lines are the same from the beginning on."""
    return next((at for at, (one, other) in enumerate(zip(old, new)) if one != other), min(len(old), len(new)))


def _edit(diff: str = "", blocks: Sequence[Mapping[str, Json]] = ()) -> Plan:
    if bool(diff) == bool(blocks):
        raise Failure("either `diff` or `blocks` is needed")

    def plan(_: Context, tree: Beneath) -> Planned:
        desk = _Desk(tree)
        if diff:
            for patch in parse_diff(diff):
                _patch(desk, patch)
        else:
            _replace(desk, blocks)
        return desk.planned()

    return plan


def _patch(desk: _Desk, patch: FilePatch) -> None:
    old, new, hunks = patch
    try:
        if old and new and old != new:
            _rename(desk, patch)
        elif not new:
            text = desk.text(old)
            if text is not None:
                if any(hunk.new for hunk in hunks) or apply_hunks(text, hunks):
                    raise Failure(f"{old}: the diff removes the file but not all of its lines")
                desk.becomes(old, None)
        else:
            present = desk.text(new)
            if present is not None and old:
                desk.becomes(new, apply_hunks(present, hunks))
                return
            if any(hunk.old for hunk in hunks):
                raise Failure(f"{new} is not there" if present is None else f"{new} is there already")
            text = apply_hunks("", hunks)
            if present not in (None, "", text):
                raise Failure(f"{new} is there already, with other content")
            desk.becomes(new, text)
    except Misfit as misfit:
        raise Failure(f"{new or old}: {misfit}") from None


def _rename(desk: _Desk, patch: FilePatch) -> None:
    old, new = desk.text(patch.old), desk.text(patch.new)
    if old is None and new is not None:
        if apply_hunks(new, patch.hunks) != new:
            raise Failure(f"{patch.old} is not there, and {patch.new} is not what it would become")
        return
    if old is None or new is not None:
        raise Failure(f"{patch.old} is not there" if old is None else f"{patch.new} is there already")
    desk.becomes(patch.new, apply_hunks(old, patch.hunks), like=patch.old)
    desk.becomes(patch.old, None)


def _replace(desk: _Desk, blocks: Sequence[Mapping[str, Json]]) -> None:
    by_path: dict[str, list[Replacement]] = {}
    for number, block in enumerate(blocks, 1):
        replacement = _block(block, number)
        by_path.setdefault(desk.key(block["path"]), []).append(replacement)
    for path, replacements in by_path.items():
        text = desk.text(path)
        first = replacements[0]
        if not first.search and text in (None, "", first.replace):
            text, replacements = first.replace, replacements[1:]
        if text is None:
            raise Failure(f"{path} is not there")
        try:
            desk.becomes(path, apply_replacements(text, replacements))
        except Misfit as misfit:
            raise Failure(f"{path}: {misfit}") from None


def _block(block: Mapping[str, Json], number: int) -> Replacement:
    unknown = sorted(set(block) - {"path", "search", "replace", "all"})
    if unknown:
        raise Failure(f"block {number} has the unknown key `{unknown[0]}`: expected path, search, replace, all")
    texts = [block.get(key) for key in ("path", "search", "replace")]
    if not all(isinstance(text, str) for text in texts) or not texts[0]:
        raise Failure(f"block {number} needs `path`, `search` and `replace` as text")
    if not isinstance(block.get("all", False), bool):
        raise Failure(f"block {number}: `all` must be true or false")
    return Replacement(block["search"], block["replace"], block.get("all", False), number)


_EDIT = Verb("files.edit", _edit)


@capability(
    "files.edit",
    effect="idempotent",
    risks=("changes, makes and removes the files that the edit names",),
    preview=_EDIT.preview,
    capture=_EDIT.capture,
    undo=undone,
    own=("*",),
    writes=("blocks",),
)
def edit(
    context: Context,
    diff: Annotated[str, Doc("a unified diff; its paths are relative to the working directory", form="file-diff")] = "",
    blocks: Annotated[
        list[Block], Doc("instead of a diff: `path`, `search`, `replace`, and `all: true` for all places")
    ] = [],  # noqa: B006
) -> Edited:
    """Change the texts of files by a unified diff or by blocks of search and replace: all of them, or none.

    Line counts in the heads of hunks need not be right, hunks may have shifted, files may end their lines with CRLF;
    the lines of context must fit, at one place alone or where the head says. The text to search for must stand there
    once, unless the block says `all: true`. An edit that was applied already changes nothing and succeeds. Diffs that
    set modes, make links, copy files, or are binary are refused with the class `policy`, and so is every path outside
    the working directory, through a link, in `.git`, in `.planrunner` or of a `planrunner.yaml`.
    """
    return Edited(**_EDIT.act(context, diff=diff, blocks=blocks))
