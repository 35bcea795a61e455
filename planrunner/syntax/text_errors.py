"""What to say about a lexeme that the grammar of the text notation does not expect."""

from __future__ import annotations

from planrunner.diagnostics import Diagnostic
from planrunner.source import Span
from planrunner.syntax.text_values import Lexeme

_CLOSING = {"RSQB": "]", "RBRACE": "}"}


def unexpected(lexeme: Lexeme, expected: frozenset[str], text: str) -> Diagnostic:
    """The finding for ``lexeme`` where the parser expected one of the terminals ``expected``."""
    message, help = _words(lexeme, expected, text)
    return Diagnostic("PLAN001", message, Span(lexeme.start, lexeme.end), help=help)


def _words(lexeme: Lexeme, expected: frozenset[str], text: str) -> tuple[str, str]:
    shown = text[lexeme.start : lexeme.end]
    kind = lexeme.type
    if kind == "_INDENT":
        return "this line is indented deeper than the line above, which is complete", "indent it as its neighbours"
    if kind == "PLAN":
        return "the `plan` line stands once, at the top", "take this line away, or make it a task"
    if kind == "$END":
        return "the text ends too early", ""
    if "WORD" in expected and "TITLE" not in expected:
        return "the id of a task is expected here", "write `on failure -> task-id`"
    if "PAIR" in expected and kind in ("WORD", "TITLE"):
        return _head(kind, shown)
    if kind in _CLOSING and "_COMMA" in expected:
        return f"`{shown}` does not close the bracket that is open here", "close the inner bracket first"
    if "_COMMA" in expected:
        return f"a comma is missing before `{shown}`", "separate items with commas, or quote the whole text"
    if expected & {"LSQB", "SCALAR", "NAME"}:
        return f"a value is missing before `{shown}`" if shown else "a value is missing here", "write the value"
    return f"`{shown}` cannot stand here", ""


def _head(kind: str, shown: str) -> tuple[str, str]:
    if kind == "WORD":
        return f"`{shown}` is one word too many", 'an id is one word; put a title in quotes: task id "Title"'
    if kind == "TITLE":
        return "the title stands behind the id, before any `key:value`", 'write task id "Title" key:value'
    return f"`{shown}` cannot stand here", "write `key:value`"
