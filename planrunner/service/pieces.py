"""Entries of runs as the text of streams, made once for all who read the same piece."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

from planrunner.app.follow.follower import Follower
from planrunner.views.progress.jsonl import entry_object

Json = Any

ENTRIES = 64
"""Entries of a piece at most."""
MOST = 256
"""Pieces that are kept, of ``LARGEST`` characters at most each."""
LARGEST = 100_000


class Piece(NamedTuple):
    """Consecutive entries as events; ``last`` is the number of the last one, that after which they begin if there is
    none."""

    last: int
    text: str


class Pieces:
    """The latest pieces of every run. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, int], Piece] = OrderedDict()
        self._making = [threading.Lock() for _ in range(16)]
        """A piece is made by one thread: all readers of a run go on from the same entries then."""

    def kept(self, follower: Follower, run: str, after: int) -> Piece | None:
        """The piece after an entry, where it was made before."""
        with self._lock:
            found = self._kept.get((follower.state, run, after))
            if found is not None:
                self._kept.move_to_end((follower.state, run, after))
            return found

    def made(self, follower: Follower, run: str, after: int) -> Piece:
        """The piece after an entry; an empty one where there is nothing yet. Raises what the journal raises."""
        with self._making[hash((run, after)) % len(self._making)]:
            return self.kept(follower, run, after) or self._make(follower, run, after)

    def _make(self, follower: Follower, run: str, after: int) -> Piece:
        objects = [entry_object(entry) for entry in follower.read(run, after, ENTRIES)]
        if not objects:
            return Piece(after, "")
        piece = Piece(objects[-1]["seq"], "".join(message(each, each["seq"]) for each in objects))
        if len(piece.text) <= LARGEST:
            with self._lock:
                self._kept[follower.state, run, after] = piece
                while len(self._kept) > MOST:
                    self._kept.popitem(last=False)
        return piece


def message(data: Json, number: int, kind: str = "") -> str:
    """An event of a stream: its id, its type where it has one, and its data."""
    name = f"event: {kind}\n" if kind else ""
    return f"id: {number}\n{name}data: {json.dumps(data, separators=(',', ':'), default=str)}\n\n"
