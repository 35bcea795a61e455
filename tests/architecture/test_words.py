"""The language of the project: what people read says things plainly, with the field's terms."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from rows import rows
from workbench import ROOT

RULED_OUT = {
    r"(?i)\b(?:whoever|somebody|(?<!`)nobody)\b": "name the person, the process or the thing",
    r"(?i)\banew\b": "again, or: re-run, restart, reset",
    r"(?i)\bof\s+now\b": "current",
    r"(?i)\bfor\s+good\b": "permanently, or leave it out",
    r"(?i)\bwhat\s+it\s+takes\b": "name what is needed",
    r"(?<!there )(?<!There )\b(?:is|are|was|were)\s+(?:none|no)\b(?!\s+longer)": "`is not a`",
    r"(?i)\b(?:comes?|came|coming)\s+to\s+(?:rest|be|an\s+end|nothing)\b": "ends, pauses",
    r"(?i)\b(?:goes|going|go|went|gone)\s+on\s+with\b": "continues",
    r"(?i)`planrunner [^`]*` tells?\b|^ tells\b": "see `…`",
}
"""What is ruled out, and what is written instead."""

LONGEST = 40
"""The most words of a sentence; code in backquotes and placeholders count as one."""

_END = re.compile(r"(?<=[.:;!?])\s+|\n\s*\n|\n\s*(?:[-*|#>]|\d+\.)\s?")
_CODE = re.compile(r"``.*?``|`[^`]*`|\{[^}]*\}|\]\([^)]*\)|https?:\S+", re.DOTALL)
_WORD = re.compile(r"[A-Za-z][\w'’-]*")
_PROSE = re.compile(r"\b(?:the|an?|is|are|that)\b")
_BLOCK = re.compile(r"^ *```.*?^ *```$|^\|[^\n]*$|^ +\S[^\n]*\S {3,}\S[^\n]*$", re.MULTILINE | re.DOTALL)


class Text(NamedTuple):
    place: str
    text: str


def _sources() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "planrunner").rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


@cache
def _strings() -> tuple[list[Text], list[Text]]:
    """The strings of the code: those that stand as statements (docstrings of modules, classes, functions and
    constants), and all others."""
    stated: list[Text] = []
    others: list[Text] = []
    for name, source in _sources():
        tree = ast.parse(source)
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts = stated if id(node) in docstrings else others
                texts.append(Text(f"{name}:{node.lineno}", node.value))
    return stated, others


def _docstrings() -> Iterator[Text]:
    yield from _strings()[0]


def _messages() -> Iterator[Text]:
    yield from _strings()[1]


def _comments() -> Iterator[Text]:
    for name, source in _sources():
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield Text(f"{name}:{token.start[0]}", token.string)


def _pages() -> Iterator[Text]:
    """The pages, explanations and readme files; a line of one word, as programs print it, is not a text."""
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "planrunner").rglob("*.md"), *ROOT.glob("*.md")]
    for path in sorted(pages):
        lines = path.read_text(encoding="utf-8").split("\n")
        yield Text(str(path.relative_to(ROOT)), "\n".join(line if " " in line else line[:3] for line in lines))


def _descriptions(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (schema[key] for key in ("description", "markdownDescription") if isinstance(schema.get(key), str))
    for child in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _descriptions(child)


def _schemas() -> Iterator[Text]:
    """What editors show of the keys of plans and settings."""
    for path in sorted((ROOT / "schemas").rglob("*.json")):
        for text in _descriptions(json.loads(path.read_text(encoding="utf-8"))):
            yield Text(str(path.relative_to(ROOT)), text)


def _plans() -> Iterator[Text]:
    """The plans of the gallery, whose comments and descriptions are read with them. A comment of several lines is one
    text."""
    files = [path for room in ("plans", "examples") for path in (ROOT / room).rglob("*") if path.is_file()]
    for path in sorted(files):
        if path.suffix in (".yaml", ".plan", ".md") and ".planrunner" not in path.parts:
            text = re.sub(r"(?m)^ *# ?", "", path.read_text(encoding="utf-8"))
            yield Text(str(path.relative_to(ROOT)), text)


def _rows() -> Iterator[Text]:
    """The cells of the tables of the pages, each a text."""
    for page in _pages():
        for line in page.text.split("\n"):
            if line.startswith("|"):
                yield from (Text(page.place, cell) for cell in re.split(r"(?<!\\)\|", line))


@rows("texts", [_messages, _docstrings, _comments, _pages, _plans, _schemas])
def test_ruled_out_words_are_not_used(texts: Callable[[], Iterator[Text]]) -> None:
    assert not [
        f"{text.place}: …{text.text[max(0, match.start() - 40) : match.end() + 30]!r}: {instead}"
        for text in texts()
        for pattern, instead in RULED_OUT.items()
        for match in re.finditer(pattern, text.text)
    ]


@rows("texts", [_messages, _docstrings, _pages, _rows, _plans, _schemas])
def test_sentences_are_short_enough_to_be_read_once(texts: Callable[[], Iterator[Text]]) -> None:
    assert not [
        f"{text.place}: {words} words: {sentence}"
        for text in texts()
        for sentence in _END.split(_BLOCK.sub("", text.text))
        if (words := len(_WORD.findall(_CODE.sub("X", sentence)))) > LONGEST
        and ", " in sentence
        and _PROSE.search(sentence)
    ]
