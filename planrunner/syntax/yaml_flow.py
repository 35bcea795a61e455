"""The findings about a colon in braces or brackets that libyaml, unlike YAML 1.2, does not take as part of a text."""

from __future__ import annotations

import re

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.source import Span

_REST = re.compile(r"[^,\[\]{}\n]*")
_KEY = re.compile(r"[A-Za-z_][\w.-]*(?=:)")
_SHOWN = 60


def colon_in_flow(text: str, begin: int, at: int) -> Diagnostic:
    """What to do about the colon at ``at`` in the text that begins at ``begin``: quote it, or put a space after it."""
    key = _KEY.match(text, begin)
    if key is not None and key.end() == at and _is_key(text, begin):
        fix = Fix("put a space after the colon", (Edit(Span(at + 1, at + 1), " "),))
        message, help_ = f"a space is missing after `{key[0]}:`", f"write `{key[0]}: …`"
        return Diagnostic("PLAN001", message, Span(at, at + 1), help=help_, fix=fix)
    rest = _REST.match(text, at)
    assert rest is not None, "nothing is a rest as well"
    raw = text[begin : rest.end()].rstrip()
    message = "a text with `:` in it must be quoted in braces or brackets"
    if set(raw) & set('"\\'):
        return Diagnostic("PLAN001", message, Span(at, at + 1), help="quote the whole value")
    help_ = f'write "{raw}"' if len(raw) <= _SHOWN else "quote the value"
    span = Span(begin, begin + len(raw))
    return Diagnostic("PLAN001", message, span, help=help_, fix=Fix("quote it", (Edit(span, f'"{raw}"'),)))


def _is_key(text: str, begin: int) -> bool:
    """Whether a text in a flow collection begins where a key of a mapping does."""
    before = text[:begin].rstrip()
    if before[-1:] != ",":
        return before[-1:] == "{"
    depth = 0
    for sign in reversed(before):
        depth += (sign in "]}") - (sign in "[{")
        if depth < 0:
            return sign == "{"
    return False
