"""A downloaded file in its place: put there as a whole or not at all, and taken away again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.acting import open_tree
from planrunner.capabilities.files.beneath import Beneath
from planrunner.capabilities.files.changes import Change, stepped, ways
from planrunner.capabilities.files.standing import Standing, look
from planrunner.capabilities.files.switching import perform


def standing(context: Context, path: str) -> Standing | None:
    """The file at a path, None where there is none. Raises Failure for what is no file, or cannot be one; policy for a
    link, and for a path that plans do not write to."""
    with open_tree(context) as tree:
        return _standing(tree, path)


def put(
    context: Context, path: str, wanted: Standing | None, source: Callable[[], Iterable[bytes]] | None, mark: str
) -> None:
    """Have ``wanted`` stand at a path, with the bytes of ``source``, or nothing. Readers see the one or the other.

    Meanwhile files lie beside it whose names begin with ``mark``; ``clean`` knows them by it after a kill. Raises
    Failure where it cannot be done, also because somebody else changes the file at the same time.
    """
    with open_tree(context) as tree:
        before = _standing(tree, path)
        change = Change("/".join(tree.writable(path)), before, wanted, source)
        perform(tree, stepped(tree, (change,), mark))


def clean(context: Context, path: str, mark: str) -> None:
    """Remove what a kill left beside a path."""
    with open_tree(context) as tree, contextlib.suppress(OSError, Failure):
        parts = tree.writable(path)
        (step,) = stepped(tree, (Change("/".join(parts), None, None),), mark)
        folder = tree.folder(parts[:-1])
        try:
            os.unlink(step.aside, dir_fd=folder)
        finally:
            os.close(folder)


def _standing(tree: Beneath, path: str) -> Standing | None:
    parts = tree.writable(path)
    ways(tree, parts, False, "make it before, by files.mkdir with `parents: true`")
    found = look(tree, parts)
    if found is None or found.kind == "file":
        return found
    if found.kind == "link":
        raise Failure(f"{path} is a link", "policy", rule="files.link")
    raise Failure(f"{path} is a {found.kind}")
