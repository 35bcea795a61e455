"""What a family says so that the suite can try its capabilities: inputs, and the world that they need."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import GeneratorType
from typing import Any, NamedTuple, Union

from planrunner.capabilities.contract import declaration_of

ASPECTS = ("schema", "docs", "outcome", "cancel", "timeout", "effects", "replay", "twice", "preview", "undo", "secrets")
"""What is checked, in this order."""

Json = Any


class Ready(NamedTuple):
    """A world that is set up. ``settings`` are sections of ``planrunner.yaml``, ``env`` and ``run`` those of the task.
    ``look`` gives the state of what lies outside the directory and may be changed: rows of a table, what a server has
    stored; it is compared like the files."""

    inputs: Mapping[str, Json] = {}
    settings: Mapping[str, Json] = {}
    env: Mapping[str, str] = {}
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
    exempt: Mapping[str, str] = {}

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
