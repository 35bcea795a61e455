"""Plan text to a tree of nodes with places, and back, in three notations: YAML, JSON and the text notation.

The readers give the same tree for the same plan, so nothing behind this room knows how a plan was written. What a
notation needs is loaded when it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from planrunner.later import Later
from planrunner.source import Notation, Source
from planrunner.syntax.limits import decode
from planrunner.syntax.tree import Node, Parsed

if TYPE_CHECKING:
    from planrunner.syntax.comments import Comments, read_comments
else:
    read_comments = Later("planrunner.syntax.comments:read_comments")

__all__ = ["Parsed", "decode", "parse", "read_comments", "write"]

_READERS: dict[Notation, Callable[[Source], Parsed]] = {
    "yaml": Later("planrunner.syntax.yaml:parse_yaml"),
    "json": Later("planrunner.syntax.json:parse_json"),
    "text": Later("planrunner.syntax.text:parse_text"),
}
_WRITERS: dict[Notation, Callable[[Node, Comments | None], str]] = {
    "yaml": Later("planrunner.syntax.yaml_writer:write_yaml"),
    "text": Later("planrunner.syntax.text_writer:write_text"),
}
_write_json: Callable[[Node], str] = Later("planrunner.syntax.json:write_json")


def parse(source: Source) -> Parsed:
    """Read a text in its notation. Never raises, whatever the text: what is wrong with it is in ``findings``."""
    return _READERS[source.notation](source)


def write(tree: Node, notation: Notation, comments: Comments | None = None) -> str:
    """A tree as text; ``parse`` of the result gives equal data. JSON has no comments and drops them."""
    return _write_json(tree) if notation == "json" else _WRITERS[notation](tree, comments)
