"""The node tree that every notation gives: scalars, sequences and mappings, each with its place in the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, Union

from planrunner.diagnostics import Diagnostic
from planrunner.records import Struct
from planrunner.source import Span

Plain: TypeAlias = "Union[str, int, float, bool, None]"


class Scalar:
    """A leaf. ``value`` is typed by YAML 1.2 core rules, ``raw`` is the text as written, ``style`` one of ``'"|>``
    or empty."""

    __slots__ = ("anchor", "end", "raw", "start", "style", "value")

    def __init__(self, value: Plain, start: int, end: int, raw: str = "", style: str = "") -> None:
        self.value = value
        self.start = start
        self.end = end
        self.raw = raw
        self.style = style
        self.anchor = ""

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


class Sequence:
    """An ordered list of nodes; ``flow`` tells ``[a, b]`` from lines that start with a dash."""

    __slots__ = ("anchor", "end", "flow", "items", "start")

    def __init__(self, items: list[Node], start: int, end: int, flow: bool = False) -> None:
        self.items = items
        self.start = start
        self.end = end
        self.flow = flow
        self.anchor = ""

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


class Mapping:
    """Keys and values in the order of the text; merge keys are resolved into ``entries`` and kept in ``merged`` too.

    The readers give keys as strings, as written. A key that the text notation implies has no width and no ``raw``.
    """

    __slots__ = ("anchor", "end", "entries", "flow", "merged", "start")

    def __init__(self, entries: list[tuple[Scalar, Node]], start: int, end: int, flow: bool = False) -> None:
        self.entries = entries
        self.start = start
        self.end = end
        self.flow = flow
        self.anchor = ""
        self.merged: tuple[Mapping, ...] = ()

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)

    def get(self, key: str) -> Node | None:
        """The value of a key, or None."""
        for name, value in self.entries:
            if name.value == key:
                return value
        return None

    def key(self, key: str) -> Scalar | None:
        """The node of a key itself, for labels that point at it."""
        for name, _ in self.entries:
            if name.value == key:
                return name
        return None


Node: TypeAlias = "Union[Scalar, Sequence, Mapping]"

Json: TypeAlias = "Union[str, int, float, bool, list[Json], dict[str, Json], None]"


def to_json(node: Node) -> Json:
    """The plain data of a tree; keys become strings. The caller has bounded depth and size while parsing."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [to_json(item) for item in node.items]
    return {str(key.value): to_json(value) for key, value in node.entries}


def entries(node: Node | None) -> Iterator[tuple[str, Node]]:
    """The entries of a section by name, whether it is a mapping or a list of entries with an ``id``."""
    if isinstance(node, Mapping):
        yield from ((str(key.value), value) for key, value in node.entries)
    for item in node.items if isinstance(node, Sequence) else ():
        name = item.get("id") if isinstance(item, Mapping) else None
        if isinstance(name, Scalar):
            yield str(name.value), item


class Parsed(Struct):
    """The tree of a text and the findings made on the way; ``tree`` is None where nothing sound could be read."""

    tree: Node | None
    findings: tuple[Diagnostic, ...]
