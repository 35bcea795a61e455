"""The commands of a script as far as they can be told without running it, for patterns of a policy.

Only what is plain is told: words, quotes, redirections, lists of commands, the words around ``if`` and ``while``.
Anything else (substitutions, functions, here documents …) makes the whole script one that nobody can tell.
"""

from __future__ import annotations

import re

from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN = "{{}}"
"""Stands in a word for what is known only when the script runs."""

_LEADS = frozenset("if then else elif while until do ! {".split())
_ENDS = frozenset("fi done }".split())
_REFUSED = frozenset("for case esac function select coproc [[ time".split())
_STEERING = re.compile(
    r"PATH|IFS|ENV|BASH\w*|LD_\w*|GIT_\w*|PYTHON\w*|PERL\w*|RUBY\w*|NODE_\w*|PS4|PROMPT_COMMAND|SHELL\w*"
)
"""Variables that make a command run something else than it says."""

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_HOLE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_BLANK = re.compile(r"[ \t]+|\\\n|(?<![^\s;&|])#[^\n]*")
_SEPARATOR = re.compile(r"\n|;|&&|\|\||\|&?|&(?!>)")
_REDIRECTION = re.compile(r"(?:\d*(?:>>|>&|>\||<&|<>|>|<(?![<(]))|&>>?)[ \t]*")
_PLAIN = re.compile(r"[^\s;&|<>()`$'\"\\{}#]+|[{}#]")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\}|[0-9@*#?$!-])")
_QUOTED = re.compile(r"[^\"\\`$]+|\\.", re.DOTALL)


class _Puzzling(Exception):
    """The script holds something that is not told apart here."""


def commands(text: str, values: Mapping[str, str] | None = None) -> tuple[tuple[str, ...], ...] | None:
    """The words of every command in a script, without redirections; None where they cannot be told.

    A template stands as ``UNKNOWN`` in its word, and so does a variable that ``values`` does not have.
    """
    if "{%" in text and values is None:
        return None
    try:
        found = [_stripped(words) for words in _Reader(text, values).run()]
    except _Puzzling:
        return None
    return tuple(words for words in found if words)


class _Reader:
    """One pass over a script."""

    __slots__ = ("at", "text", "values")

    def __init__(self, text: str, values: Mapping[str, str] | None) -> None:
        self.text = text
        self.values = values
        self.at = 0

    def run(self) -> list[list[str]]:
        found: list[list[str]] = [[]]
        while self.at < len(self.text):
            if self._take(_BLANK):
                continue
            if self._take(_SEPARATOR):
                found.append([])
            elif self._take(_REDIRECTION):
                self._word()
            else:
                found[-1].append(self._word())
        return found

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def _word(self) -> str:
        parts: list[str] = []
        start = self.at
        while self.at < len(self.text) and (part := self._part()) is not None:
            parts.append(part)
        if self.at == start:
            raise _Puzzling
        return "".join(parts)

    def _part(self) -> str | None:
        sign = self.text[self.at]
        if sign in " \t\n;&|<>":
            return None
        if sign == "{" and self.values is None and self._take(_HOLE):
            return UNKNOWN
        if sign == "'":
            return self._single()
        if sign == '"':
            return self._double()
        if sign == "\\":
            self.at += 2
            return "" if self.text[self.at - 1 : self.at] == "\n" else self.text[self.at - 1 : self.at]
        if sign == "$":
            return self._variable()
        return self._plain()

    def _plain(self) -> str:
        found = self._take(_PLAIN)
        if found is None:
            raise _Puzzling
        return found[0]

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise _Puzzling
        inside, self.at = self.text[self.at + 1 : end], end + 1
        return _HOLE.sub(UNKNOWN, inside) if self.values is None else inside

    def _double(self) -> str:
        self.at += 1
        parts: list[str] = []
        while self.text[self.at : self.at + 1] != '"':
            if self.values is None and self._take(_HOLE):
                parts.append(UNKNOWN)
            elif self.text.startswith("$", self.at):
                parts.append(self._variable())
            elif found := self._take(_QUOTED if self.values is not None else _QUOTED_HOLES):
                parts.append(re.sub(r"\\([\"\\`$\n])", r"\1", found[0]))
            else:
                raise _Puzzling
        self.at += 1
        return "".join(parts)

    def _variable(self) -> str:
        found = self._take(_VARIABLE)
        if found is None:
            raise _Puzzling
        value = (self.values or {}).get(found[1] or found[2] or "")
        return UNKNOWN if value is None else value


_QUOTED_HOLES = re.compile(r"[^\"\\`${]+|\\.|\{(?!\{)", re.DOTALL)


def _stripped(words: list[str]) -> tuple[str, ...]:
    """A command without the words of the grammar and the assignments before it."""
    at = 0
    while at < len(words):
        assigned = _ASSIGNMENT.match(words[at])
        if assigned is not None:
            if _STEERING.fullmatch(assigned[1]):
                raise _Puzzling
        elif words[at] in _REFUSED:
            raise _Puzzling
        elif words[at] not in _LEADS and words[at] not in _ENDS:
            break
        at += 1
    if at < len(words) and UNKNOWN in words[at]:
        raise _Puzzling
    return tuple(words[at:])
