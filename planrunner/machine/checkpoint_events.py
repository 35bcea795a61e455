"""Events that few runs meet: a checkpoint that holds the files of the working directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    Json = Any


class CheckpointAsked(NamedTuple):
    """The working directory is to be kept as it is now: an attempt of ``task`` ended well and the task is not settled
    yet, or ``round`` (from 1) of a loop is over and the next has not begun. ``patterns`` are what the task wants kept,
    relative to the directory of the run (empty: all of it). ``since`` is the manifest of the run's checkpoint before
    with the same patterns, empty for the first one."""

    task: str
    visit: int
    attempt: int
    round: int = 0
    patterns: tuple[str, ...] = ()
    since: str = ""


class CheckpointTaken(NamedTuple):
    """What was kept. ``files`` is the digest of the manifest in the artifact store, empty where nothing could be kept;
    ``held`` is how many files, links and folders it lists, ``size`` their bytes, ``added``, ``changed`` and
    ``removed`` how many paths differ from ``since``. ``git`` has ``head`` and ``branch`` inside a repository. A
    ``problem`` says what could not be kept; the run goes on."""

    task: str
    visit: int
    attempt: int
    round: int = 0
    patterns: tuple[str, ...] = ()
    since: str = ""
    files: str = ""
    held: int = 0
    size: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    git: dict[str, Json] = {}
    problem: str = ""
