"""The language of the project: what people read says things plainly, with the field's terms."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]

RULED_OUT = {
    r"\b(?:whoever|somebody|nobody)\b": "name the person, the process or the thing",
    r"\banew\b": "again, or: re-run, restart, reset",
    r"\bof now\b": "current",
    r"\bfor good\b": "permanently, or leave it out",
    r"\bwhat it takes\b": "name what is needed",
    r"(?<!there )(?<!There )\b(?:is|are|was|were) (?:none|no)\b(?! longer)": "`is not a`",
    r"\bcomes? to (?:rest|be|an end|nothing)\b": "ends, pauses",
}
"""What is ruled out, and what is written instead."""


class Text(NamedTuple):
    place: str
    text: str


def _docstrings(tree: ast.Module) -> set[int]:
    """Texts that stand as statements: docstrings of modules, classes, functions and constants."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def _messages() -> Iterator[Text]:
    for path in sorted((ROOT / "planrunner").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        silent = _docstrings(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
                yield Text(f"{path.relative_to(ROOT)}:{node.lineno}", node.value)


def _docstring_texts() -> Iterator[Text]:
    for path in sorted((ROOT / "planrunner").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield Text(f"{path.relative_to(ROOT)}:{node.lineno}", node.value.value)


def _pages() -> Iterator[Text]:
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "planrunner").rglob("*.md"), *ROOT.glob("*.md")]
    for path in sorted(pages):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield Text(f"{path.relative_to(ROOT)}:{number}", line)


def _ruled_out(texts: Iterator[Text]) -> list[str]:
    return [
        f"{text.place}: …{text.text[max(0, match.start() - 40) : match.end() + 30]!r}: {instead}"
        for text in texts
        for pattern, instead in RULED_OUT.items()
        for match in re.finditer(pattern, text.text)
    ]


LEFT = {"messages": 59, "docstrings": 250, "pages": 237}
"""Findings that are still there; whoever mends one lowers the number."""


@pytest.mark.parametrize(
    ("kind", "texts"), [("messages", _messages), ("docstrings", _docstring_texts), ("pages", _pages)]
)
def test_ruled_out_words_become_fewer(kind: str, texts: Callable[[], Iterator[Text]]) -> None:
    left = _ruled_out(texts())
    assert len(left) <= LEFT[kind], left
