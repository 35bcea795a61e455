"""What a capability is about to change, written down durably before it begins and kept until long after.

An attempt that is issued again after a kill finds here whether it was cut off or done, which the tree alone cannot
always tell: a line that was to be removed once may stand there twice.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context
from planrunner.errors import StorageFailed
from planrunner.files.changes import Change, Step
from planrunner.files.walk import sha256, state_from
from planrunner.jsontext import read_json, stable_json, write_json

Json = Any

_KEPT = 30 * 86400.0
"""Seconds after which a file is not read again: its run has ended or was given up."""


class Record(NamedTuple):
    """The steps of one act and the outputs it has when they are done. ``inputs`` is the digest of what it was called
    with; ``earlier`` are the changes of acts of the same visit that were called otherwise."""

    steps: tuple[Step, ...]
    outputs: dict[str, Json]
    inputs: str = ""
    earlier: tuple[Change, ...] = ()

    def changes(self) -> tuple[Change, ...]:
        """All that the visit changed until now, in order."""
        return (*self.earlier, *(step.change for step in self.steps))


def name_of(context: Context, capability: str, inputs: Mapping[str, Json]) -> str:
    """A name for what this call is to do, the same for every attempt of the task's visit."""
    call = context.call
    return sha256(stable_json([call.run_id, call.once or call.key, capability, inputs]).encode())[:40]


def name_of_visit(context: Context, capability: str) -> str:
    """The same whatever the call was given: templates such as ``{{ now }}`` give each attempt other inputs."""
    return sha256(stable_json([context.call.run_id, context.call.once or context.call.key, capability]).encode())[:40]


def load(context: Context, name: str) -> Record | None:
    """The record of that name; None where it does not exist. Raises StorageFailed."""
    text = context.noted(f"files {name}")
    if not text:
        return None
    outputs, steps, *more = read_json(text)
    inputs, earlier = more or ("", [])
    return Record(tuple(_step(row) for row in steps), outputs, inputs, changes_from(earlier))


def save(context: Context, name: str, record: Record) -> None:
    """Keep a record; it is durable on return. Without an engine nothing is kept, and nothing is issued again. Raises
    StorageFailed."""
    rows = [_row(step) for step in record.steps]
    context.note(f"files {name}", write_json([record.outputs, rows, record.inputs, rows_of(record.earlier)]))


def place(context: Context) -> str:
    """The folder for files on their way into the store. Raises StorageFailed."""
    with storing("the cache"):
        return context.cache("files")


@contextlib.contextmanager
def storing(place: str) -> Iterator[None]:
    """What is written here is the runner's own: where it cannot be, the run parks and the attempt is issued again."""
    try:
        yield
    except OSError as error:
        hint = "free some space or repair the disk, then run the command again"
        raise StorageFailed(f"`{place}` cannot be written: {error.strerror}", hint) from None


def _row(step: Step) -> list[Json]:
    change = step.change
    sides = [None if side is None else side.as_json() for side in (change.before, change.after)]
    return [change.path, *sides, change.way, change.origin, step.place, step.aside]


def _step(row: Sequence[Json]) -> Step:
    path, before, after, way, origin, place, aside = row
    return Step(Change(path, state_from(before), state_from(after), None, way, origin), place, aside)


def forget_old(folder: str) -> None:
    """Remove what has not been touched for long."""
    limit = time.time() - _KEPT
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            if os.stat(path).st_mtime < limit:
                os.unlink(path)


def mark(context: Context, capability: str) -> str:
    """What the names aside begin with. It is the attempt's own: one that was given up may still be at work."""
    return sha256(f"{context.call.key} {capability}".encode())[:12]


def rows_of(changes: Sequence[Change]) -> list[list[Json]]:
    """Changes as JSON data."""
    return [_row(Step(change, "", ""))[:5] for change in changes]


def changes_from(rows: Sequence[Sequence[Json]]) -> tuple[Change, ...]:
    """What ``rows_of`` wrote."""
    return tuple(_step((*row, "", "")).change for row in rows)
