"""Prove that a journal is what was written: verify it, keep an anchor of it elsewhere, or take it as it stands."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

from planrunner.app.asking import user
from planrunner.errors import NotFound, StorageFailed, UsageError
from planrunner.journal import foreign, proof
from planrunner.journal.proof import Anchor, Verdict
from planrunner.journal.sqlite import open_journal
from planrunner.journal.workspace import check_state, find_state

Json = Any

_ANCHOR = "`planrunner audit head` prints them: RUN:SEQ:LINK"


def verify(run: str | None, state: str | None, heads: Sequence[str] = ()) -> Verdict:
    """Compare the journal, or one run, with its chain; ``heads`` are anchors, or files of them. Raises NotFound,
    UsageError for what is no anchor, StorageFailed for a state directory or a key that is not safe."""
    directory = _directory(state)
    meant = None if run is not None and _is_gone(directory) else _whole_id(run, directory)
    return proof.verify(directory, meant, anchors_of(heads))


def accept(run: str | None, state: str | None, because: str) -> Verdict:
    """Take the journal, or one run, as it stands from now on; what was found and ``because`` are kept. Raises NotFound,
    RunHeld, StorageFailed."""
    directory = _directory(state)
    said = {"at": time.time(), "by": user(), "uid": os.getuid(), "host": os.uname().nodename, "because": because}
    return foreign.accept(directory, _whole_id(run, directory), said)


def accepted(state: str | None) -> list[dict[str, Json]]:
    """What people accepted of this journal, the first first."""
    return foreign.accepted(find_state(None, state))


def anchors_of(heads: Iterable[str]) -> list[Anchor]:
    """Anchors from words ``RUN:SEQ:LINK`` and from files with one in each line. Raises UsageError, NotFound."""
    found: list[Anchor] = []
    for head in heads:
        lines = [head] if _anchor(head) is not None else _lines(head)
        for line in lines:
            anchor = _anchor(line)
            if anchor is None:
                raise UsageError(f"`{line[:100]}` is no anchor", _ANCHOR)
            found.append(anchor)
    return found


def _anchor(text: str) -> Anchor | None:
    run, seq, link = [*text.strip().split(":"), "", ""][:3]
    whole = text.count(":") == 2 and seq.isascii() and seq.isdigit() and len(link) == 64
    return Anchor(run, int(seq), link) if whole and not link.strip("0123456789abcdef") else None


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return [line for line in file.read().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise NotFound(f"`{path}` is neither an anchor nor a file of anchors: {why}", _ANCHOR) from error


def _directory(state: str | None) -> str:
    directory = find_state(None, state)
    try:
        check_state(directory)
    except FileNotFoundError:
        pass  # the heads may know that something was there
    return directory


def _whole_id(run: str | None, directory: str) -> str | None:
    """The id of the run that is meant, also of one that only the heads know. A journal that cannot be read is told of
    as a whole (None)."""
    if run is None:
        return None
    try:
        journal = open_journal(directory, readonly=True)
        try:
            return journal.find_run(run)
        finally:
            journal.close()
    except StorageFailed:
        return None
    except NotFound:
        if run in _known(directory):
            return run
        raise


def _is_gone(directory: str) -> bool:
    """Whether there is no journal any more, though the heads know of runs."""
    try:
        open_journal(directory, readonly=True).close()
    except NotFound:
        return bool(_known(directory))
    except StorageFailed:
        return False
    return False


def _known(directory: str) -> frozenset[str]:
    """The runs that the heads know of."""
    chain = proof.known_chain(directory)
    try:
        heads, _ = proof.read_heads(chain)
    finally:
        chain.close()
    return frozenset(name for _, _, _, name in heads.values())
