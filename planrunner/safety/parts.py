"""The files that make up a project's settings: ``planrunner.yaml`` and what it includes, each read once.

Included files lie below the root and no way to them is a link; every step is opened from the one before, so that nobody
can swap a folder meanwhile. Number, depth and size are bounded, because whoever sends a project writes these files.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import Any, NamedTuple

from planrunner.diagnostics import Diagnostic, arrange
from planrunner.source import Source
from planrunner.syntax.limits import MAX_TEXT
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

Json = Any

MOST = 32
"""Files that a project's settings may have."""
DEEPEST = 4
"""Files that include each other in turn, the project's own counted."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Said(NamedTuple):
    """One level of policy as the settings say it: ``name`` is ``planrunner.yaml``, the path of the user's file, or
    ``profile ci``; ``file`` where it stands, in words; ``data`` and ``tree`` are the same, as JSON and as nodes;
    ``pieces`` are what each file says of it."""

    name: str
    file: str
    data: Json
    tree: Node
    pieces: tuple[tuple[Part, Mapping], ...] = ()

    def place(self, section: str) -> tuple[Part, Mapping]:
        """The file that says something of a section such as ``network``, else the first, and what it says."""
        return next((piece for piece in self.pieces if piece[1].key(section)), self.pieces[0])


class Settings(NamedTuple):
    """The settings that hold. ``data`` has the sections, the user's beneath those of the project and the chosen profile
    over both; ``own`` those of the project and its profile alone. ``levels`` are the policies that hold at the same
    time: none widens another. ``files`` are the paths of included files, from the root."""

    data: dict[str, Json] = {}
    own: dict[str, Json] = {}
    profile: str = ""
    levels: tuple[Said, ...] = ()
    files: tuple[str, ...] = ()


class Part:
    """One file of the settings. ``name`` is its path from the root, as people know it; ``tree`` is None where the file
    is empty or does not parse; ``findings`` grow while it is checked."""

    __slots__ = ("findings", "name", "size", "source", "tree")

    def __init__(self, content: bytes, name: str, path: str) -> None:
        from planrunner.syntax.read import decode, parse

        source, found = decode(content, path)
        self.name = name
        self.size = len(content)
        self.source = source or Source("", path, "yaml")
        self.tree: Node | None = None
        self.findings: list[Diagnostic] = list(found)
        if source is not None and not _says_nothing(source.text):
            parsed = parse(source)
            self.tree = parsed.tree
            self.findings += parsed.findings

    def sections(self) -> Iterator[tuple[Scalar, Node]]:
        """Each section with its key; none where the file is no mapping."""
        if isinstance(self.tree, Mapping):
            yield from self.tree.entries

    def told(self) -> tuple[Diagnostic, ...]:
        """The findings as people read them: nothing mends settings but a person, so a fix is only what helps."""
        return arrange(
            each if each.fix is None else each._replace(fix=None, help=each.help or each.fix.title)
            for each in self.findings
        )

    def place(self, node: Node) -> str:
        """Where a node stands, as people write it: ``config/agents.yaml:3:5``."""
        line, column = self.source.place(node.start)
        return f"{self.name}:{line}:{column}"


def _says_nothing(text: str) -> bool:
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines())


def read_regular(path: str) -> bytes:
    """The content of a regular file, no more than a file of settings may have and one byte. Raises OSError; a pipe or a
    device, which may never end, is one."""
    return _content(os.open(path, _READ))


def _content(descriptor: int) -> bytes:
    with open(descriptor, "rb", closefd=True) as file:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "it is no regular file")
        return file.read(MAX_TEXT + 1)


def with_included(root: Part, directory: str) -> list[Part]:
    """The part and those it includes, in the order in which they are named; what cannot be included is a finding where
    it is named."""
    including = _Including(directory)
    including.follow(root, (root.name,))
    return including.parts


class _Including:
    """Goes along ``include`` from file to file."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.parts: list[Part] = []
        self._named: dict[str, str] = {}
        self._left = MAX_TEXT

    def follow(self, part: Part, trail: tuple[str, ...]) -> None:
        self.parts.append(part)
        self._left -= part.size
        for node in _includes(part):
            name, why = _inside(str(node.value))
            why = why or self._refusal(name, trail)
            found = None
            if not why:
                self._named[name] = part.place(node)
                found, why = self._read(name)
            if found is None:
                part.findings.append(Diagnostic("PLAN842", why, node.span))
            else:
                self.follow(found, (*trail, name))

    def _refusal(self, name: str, trail: tuple[str, ...]) -> str:
        if name in trail:
            return f"`{name}` includes itself: {' → '.join((*trail[trail.index(name) :], name))}"
        if name in self._named:
            return f"`{name}` is included already, at {self._named[name]}"
        if len(trail) == DEEPEST:
            return f"`{name}` is included too deep: {' → '.join(trail)} are the most there may be"
        if len(self._named) + 1 == MOST:
            return f"`{name}` is one file too many: a project's settings have at most {MOST}"
        return ""

    def _read(self, name: str) -> tuple[Part | None, str]:
        path = os.path.join(self._directory, name)
        try:
            content = _content(_opened(self._directory, name.split("/")))
        except OSError as error:
            return None, f"`{name}` cannot be included: {_words(error)}"
        if len(content) > self._left:
            return None, f"`{name}` is too large: the files of a project have at most {MAX_TEXT:,} bytes together"
        return Part(content, name, path), ""


def _includes(part: Part) -> Iterator[Scalar]:
    """The paths that a part names; whatever else stands there the schema refuses."""
    found = part.tree.get("include") if isinstance(part.tree, Mapping) else None
    for node in found.items if isinstance(found, Sequence) else [found]:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            yield node


def _inside(path: str) -> tuple[str, str]:
    """A path in its plain form, and why it cannot be one below the root."""
    steps = [step for step in path.split("/") if step not in ("", ".")]
    if path.startswith(("/", "~")) or ".." in steps:
        return "", f"`{path}` leads out of the project: name a file below the folder of planrunner.yaml"
    if not steps or "\0" in path:
        return "", f"`{path}` names no file"
    return "/".join(steps), ""


def _opened(directory: str, steps: list[str]) -> int:
    """Open a file below the directory, through no link. Raises OSError."""
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in steps[:-1]:
            below = os.open(step, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        return os.open(steps[-1], _READ | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)


def _words(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a link, and links are not followed"
    if error.errno == errno.ENOTDIR:
        return "a folder on the way is a link or no folder"
    return "there is no such file" if error.errno == errno.ENOENT else error.strerror or str(error)
