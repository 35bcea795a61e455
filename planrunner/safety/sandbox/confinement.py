"""What a process is shut into: plain data, worked out from the policy and the same for every way to enforce it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

Kind = Literal["none", "landlock", "bubblewrap", "docker"]
Network = Literal["open", "judged", "none"]

KINDS: tuple[Kind, ...] = ("none", "landlock", "bubblewrap", "docker")
"""The profiles of ``policy.sandbox``, each stricter than the one before it."""


class Limits(NamedTuple):
    """The most that an attempt may use, None for no bound: processor seconds and bytes of memory of all its processes
    together, how many processes live at once, seconds since the start, bytes printed, open files of one process."""

    cpu: float | None = None
    memory: int | None = None
    processes: int | None = None
    time: float | None = None
    output: int | None = None
    files: int | None = None


STANDARD = Limits(memory=4 << 30, processes=512, output=1 << 30, files=4096)
"""What holds in a sandbox where no level says otherwise."""


class Missing(NamedTuple):
    """Something that may be written and is not there yet: it has to be made before it can be let in."""

    path: str
    folder: bool


class Confinement(NamedTuple):
    """What a process is shut into. Paths are absolute and real; of two that lie in each other the inner one counts, and
    for the same path the later of ``readable``, ``writable``, ``guarded``, ``denied``.

    ``guarded`` may be read and never written, ``denied`` not even be seen. ``own`` is a folder of this attempt alone,
    which lies in the state directory and is let in whatever is denied around it; ``fresh`` is one that starts empty and
    is gone afterwards, where there are namespaces: what programs remember for later would reach tasks that are not shut
    in. ``network`` is ``judged`` where each
    host is asked about. ``environment`` names the variables that pass beside those of the task. ``origins`` says which
    level set a limit; ``image`` is for docker.
    """

    kind: Kind
    root: str
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    own: str = ""
    fresh: str = ""
    network: Network = "none"
    limits: Limits = STANDARD
    environment: tuple[str, ...] = ()
    origins: Mapping[str, str] = {}
    image: str = ""
    made: str = ""
    """The code for whose sake alone it is shut in, since it was made while the run went on."""


class Command(NamedTuple):
    """What is to be shut in; ``name`` is unique to the attempt, ``proxy`` the socket of the proxy, if any."""

    arguments: Sequence[str]
    env: Mapping[str, str]
    directory: str
    name: str = ""
    proxy: str = ""
    first: int = 0
    """The number that the first of the descriptors of ``Wrapped`` will have; 0: each keeps its own."""
    title: str = ""
    """What the program is called by, where that is not its path."""


class Refused(Exception):
    """A process may not be started, because it cannot be shut in as the policy demands. ``hint`` is the way out,
    ``rule`` the name of the rule."""

    def __init__(self, message: str, hint: str = "", rule: str = "sandbox") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.hint = hint
        self.rule = rule
