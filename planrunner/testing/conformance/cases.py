"""What a family says so that the suite can try its capabilities: inputs, and the world that they need."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import GeneratorType
from typing import Any, NamedTuple, Union

from planrunner.capabilities.contract import declaration_of
from planrunner.files.match import name_fits
from planrunner.frozen import EMPTY
from planrunner.machine.events import Outcome
from planrunner.testing import bench as benches
from planrunner.testing.bench import Asked, Bench

ASPECTS = ("schema", "docs", "outcome", "cancel", "timeout", "effects", "replay", "twice", "preview", "undo", "secrets")
"""What is checked, in this order."""

Json = Any


class Ready(NamedTuple):
    """A world that is set up. ``settings`` are sections of ``planrunner.yaml``, ``env`` and ``run`` those of the task.
    ``look`` gives the state of what lies outside the directory and may be changed: rows of a table, what a server has
    stored; it is compared like the files."""

    inputs: Mapping[str, Json] = EMPTY
    settings: Mapping[str, Json] = EMPTY
    env: Mapping[str, str] = EMPTY
    run: str | Sequence[str] = ""
    look: Callable[[], Json] | None = None


Made = Union[Mapping[str, Json], Ready, Iterator[Any]]
Setup = Callable[[Path], Made]


class Case(NamedTuple):
    """One call that a capability is tried with.

    ``capability`` is a name, or a function marked with ``@capability``. ``setup`` gets the empty working directory and
    gives the inputs, or a ``Ready``; a generator yields one of these and puts things away afterwards. ``fails`` is the
    failure class the call is to end with. ``waits`` says that the call takes ten seconds and more unless it is stopped;
    such a case is for cancel and timeout alone. ``volatile`` outputs may differ from call to call; files that fit a
    glob of ``ignore`` do not count; ``secrets`` are texts that must not show up in what is kept. ``requires`` names
    programs, or modules as ``module:NAME``, without which the case is skipped. ``exempt`` gives for a check that cannot
    hold the reason why.
    """

    capability: str | Callable[..., Any]
    setup: Setup | None = None
    name: str = ""
    fails: str = ""
    waits: bool = False
    volatile: Sequence[str] = ()
    ignore: Sequence[str] = ()
    secrets: Sequence[str] = ()
    requires: Sequence[str] = ()
    exempt: Mapping[str, str] = EMPTY

    @property
    def title(self) -> str:
        """The name of the capability, and that of the case."""
        if isinstance(self.capability, str):
            of = self.capability
        else:
            declaration = declaration_of(self.capability)
            of = declaration.name if declaration is not None else repr(self.capability)
        return f"{of} {self.name}".strip()

    def lacks(self) -> str:
        """The first thing it requires that is not there."""
        return next((need for need in self.requires if not _is_there(need)), "")


@contextlib.contextmanager
def arranged(case: Case, directory: Path) -> Iterator[Ready]:
    """The world of a case, put away again afterwards."""
    made: Any = case.setup(directory) if case.setup is not None else {}
    if not isinstance(made, GeneratorType):
        yield _ready(made)
        return
    try:
        yield _ready(next(made))
    finally:
        next(made, None)


def _ready(made: Any) -> Ready:
    return made if isinstance(made, Ready) else Ready(dict(made or {}))


def _is_there(need: str) -> bool:
    kind, colon, name = need.partition(":")
    if colon and kind == "module":
        return find_spec(name) is not None
    return shutil.which(need) is not None or (os.sep in need and os.path.exists(need))


Tree = dict[str, tuple[str, int, str]]
"""Path to kind, permissions, and digest or target of a link."""


def tree(directory: str, ignore: Sequence[str] = ()) -> Tree:
    """Everything below a directory but what fits a glob of ``ignore``."""
    found: Tree = {}
    for path in _paths(directory, ""):
        if not any(name_fits(pattern, path) or name_fits(f"{pattern}/*", path) for pattern in ignore):
            found[path] = _entry(os.path.join(directory, path))
    return found


def difference(before: Tree, after: Tree) -> str:
    """What is not the same, in words; empty where everything is."""
    lines = [f"{path} was added" for path in after.keys() - before.keys()]
    lines += [f"{path} is gone" for path in before.keys() - after.keys()]
    for path in before.keys() & after.keys():
        if before[path] != after[path]:
            kinds = [name for name, a, b in zip(("kind", "mode", "content"), before[path], after[path]) if a != b]
            lines.append(f"{path} has another {' and '.join(kinds)}")
    return ", ".join(sorted(lines))


def _paths(directory: str, below: str) -> Iterator[str]:
    with os.scandir(os.path.join(directory, below)) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            path = os.path.join(below, entry.name)
            yield path
            if entry.is_dir(follow_symlinks=False):
                yield from _paths(directory, path)


def _entry(path: str) -> tuple[str, int, str]:
    about = os.lstat(path)
    mode = stat.S_IMODE(about.st_mode)
    if stat.S_ISLNK(about.st_mode):
        return "link", mode, os.readlink(path)
    if stat.S_ISREG(about.st_mode):
        with open(path, "rb") as file:
            return "file", mode, hashlib.file_digest(file, "sha256").hexdigest()
    return ("directory" if stat.S_ISDIR(about.st_mode) else "other"), mode, ""


class World(NamedTuple):
    """What a call may change: the files of the directory, and what the case looks at beside them."""

    files: Tree
    outside: Any


class Trial(NamedTuple):
    """``folder`` is for what the suite itself leaves behind; the working directory is in the bench."""

    case: Case
    ready: Ready
    bench: Bench
    folder: str

    def asked(self, timeout: float | None = None) -> Asked:
        """The call that the case makes."""
        ready = self.ready
        return Asked(ready.inputs, ready.env, ready.run, timeout)

    def to_its_end(self) -> Asked:
        """The call that the case makes, with time to end by itself."""
        return self.asked(benches.LOOK)

    def world(self) -> World:
        """How everything stands now."""
        outside = self.ready.look() if self.ready.look is not None else None
        return World(tree(self.bench.directory, self.case.ignore), outside)

    def changed(self, before: World) -> str:
        """What is no longer as it was, in words."""
        now = self.world()
        words = [difference(before.files, now.files)]
        if now.outside != before.outside:
            words.append(f"outside, {before.outside!r} became {now.outside!r}")
        return ", ".join(filter(None, words))

    def lasting(self, outcome: Outcome) -> dict[str, Any]:
        """The outputs that are to be the same each time."""
        return {name: value for name, value in outcome.outputs.items() if name not in self.case.volatile}

    def as_said(self, outcome: Outcome) -> str:
        """Why the outcome is not the one that the case names; empty where it is."""
        if outcome.failure == self.case.fails:
            return ""
        wanted = f"fail as `{self.case.fails}`" if self.case.fails else "go well"
        came = f"failed as `{outcome.failure}`: {outcome.message}" if outcome.failure else "went well"
        return f"the call was to {wanted} and {came}\n{outcome.stderr}".rstrip()
