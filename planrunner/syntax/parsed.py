"""What parsing gives, whichever notation the text has."""

from __future__ import annotations

from typing import NamedTuple

from planrunner.diagnostics import Diagnostic
from planrunner.syntax.tree import Node


class Parsed(NamedTuple):
    """The tree of a text and the findings made on the way; ``tree`` is None where nothing sound could be read."""

    tree: Node | None
    findings: tuple[Diagnostic, ...]
