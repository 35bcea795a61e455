"""Plan text to a tree of nodes with places, and back, in three notations: YAML, JSON and the text notation.

Both readers give the same tree for the same plan, so nothing behind this room knows how a plan was written. What a
notation needs is imported when it is used: reading YAML does not import the parser of the text notation, and the other
way round.
"""

from __future__ import annotations

from types import ModuleType

from planrunner.source import Notation, Source
from planrunner.syntax.comments import Comments
from planrunner.syntax.comments import read_comments as read
from planrunner.syntax.json import parse_json, write_json
from planrunner.syntax.limits import decode
from planrunner.syntax.tree import Node, Parsed
from planrunner.syntax.yaml import parse_yaml
from planrunner.syntax.yaml_writer import write_yaml

__all__ = ["Parsed", "decode", "parse", "read_comments", "write"]


def parse(source: Source) -> Parsed:
    """Read a text in its notation. Never raises, whatever the text: what is wrong with it is in ``findings``."""
    if source.notation == "yaml":
        return parse_yaml(source)
    if source.notation == "json":
        return parse_json(source)
    parsed: Parsed = _text_notation()[0].parse_text(source)
    return parsed


def write(tree: Node, notation: Notation, comments: Comments | None = None) -> str:
    """A tree as text; ``parse`` of the result gives equal data. JSON has no comments and drops them."""
    if notation == "yaml":
        return write_yaml(tree, comments)
    if notation == "json":
        return write_json(tree)
    written: str = _text_notation()[1].write_text(tree, comments)
    return written


def read_comments(source: Source, tree: Node) -> Comments:
    """The comments of a text, each tied to the node of ``tree`` that it belongs to."""
    return read(source, tree)


def _text_notation() -> tuple[ModuleType, ModuleType]:
    """Its reader and its writer, with Lark, which takes as long as all else that a command imports."""
    from planrunner.syntax import text, text_writer

    return text, text_writer
