"""The tree of a script: its commands with their words and redirections, and the templates in them.

``parse`` makes it, once for each text, and everything that has to be known of a script is read off it. No node is
changed after that.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from planrunner.plan.expressions.values import Problem
from planrunner.plan.templates import Placeholder
from planrunner.records import Struct

HOLE = "\0"
"""Stands for a template in the text of a word."""
_QUOTED = "\1"

_LEADING = frozenset("builtin command exec time".split())
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^]]*\])?\+?=")
"""An assignment to a variable or, in bash, to one place of an array."""


class Part(Struct):
    """A part of a word. ``text`` is without quotes; of an expansion it is the source if that is the name of a variable
    alone (a ``variable``), else one sign with the whole in ``source``. ``escaped`` is quoted by a backslash; ``quoted``
    tells it of an expansion."""

    kind: Literal["plain", "quoted", "escaped", "hole", "variable", "expansion"]
    text: str
    at: int
    end: int
    quoted: bool = False
    source: str = ""


class Expansion(NamedTuple):
    """A variable that a word is made of; ``operator`` are the two signs behind its name in ``${name…}``."""

    name: str
    operator: str = ""


class Word:
    """A word without its quotes, with a NUL for each template, and the templates.

    The text is joined when it is asked for: to lengthen it sign by sign costs the square of its length.
    """

    __slots__ = ("_fresh", "_text", "end", "expansions", "holes", "parts", "single", "within")

    def __init__(self) -> None:
        self._text = ""
        self._fresh: list[str] = []
        self.parts: list[Part] = []
        self.end = 0
        self.expansions: list[Expansion] = []
        self.holes: list[Placeholder] = []
        self.single: list[Placeholder] = []
        """The templates in single quotes."""
        self.within: list[Word] = []
        """The words of the commands whose output is part of it."""

    @property
    def text(self) -> str:
        if self._fresh:
            self._text += "".join(self._fresh)
            self._fresh.clear()
        return self._text

    @property
    def shape(self) -> str:
        """What of the text is not quoted, with one sign that is in no name for each part that is."""
        return "".join(_QUOTED if part.quoted else part.text for part in self.parts)

    @property
    def bare(self) -> bool:
        """Whether nothing of it is quoted: only then it can be a word of the grammar."""
        return not any(part.quoted for part in self.parts)

    def add(self, part: Part) -> None:
        self.parts.append(part)
        self._fresh.append(part.text)

    def add_hole(self, hole: Placeholder) -> None:
        self.add(Part("hole", HOLE, hole.start, hole.end, quoted=True))
        self.holes.append(hole)


class Redirect(Struct):
    """A redirection: its sign (empty for a here-document), where it stands, the word right before the sign, how many
    words of the command come before, and the word it names."""

    sign: str
    at: int
    joined: Word | None
    before: int
    target: Word | None = None


class Command:
    """One command. ``leading`` are the words of the grammar before it; ``joined``: it follows on ``&`` without a blank,
    as a redirection. ``end`` is the offset where it was complete. ``apart``: it stands in backticks or in ``${ …; }``,
    and its offsets count in the text between them."""

    __slots__ = ("apart", "end", "joined", "leading", "redirects", "words")

    def __init__(self, joined: bool = False) -> None:
        self.leading: list[Word] = []
        self.words: list[Word] = []
        self.redirects: list[Redirect] = []
        self.joined = joined
        self.apart = False
        self.end = 0

    @property
    def with_input(self) -> list[Word]:
        """The words, and behind them what is read by redirection: it counts like an argument, for an interpreter runs
        it."""
        read = [each.target for each in self.redirects if each.target is not None and each.sign in ("<", "<>", "<<<")]
        return [*self.words, *read]


class Edit(NamedTuple):
    """A template that can be passed; ``form`` takes its place, with ``@`` for the name of a variable."""

    hole: Placeholder
    form: str


class Script(Struct):
    """A script: every command that it may run, wherever it stands, an inner one before the one around it; the templates
    that can be passed, and the ``refusals`` of others. ``beyond`` is the offset of the first construct that is more
    than words, quotes and lists of commands, or that is never closed; behind it the commands are a guess."""

    commands: list[Command]
    edits: list[Edit]
    refusals: list[Problem]
    beyond: int | None


def started(words: list[Word]) -> list[Word]:
    """The program that a command starts, with its arguments: without the assignments before it, and without those words
    of the shell that only lead to it. Empty without one."""
    at = 0
    while at < len(words) and _ASSIGNED.match(words[at].shape):
        at += 1
    while at < len(words) and words[at].text in _LEADING:
        at += 1
        while at < len(words) and words[at].text.startswith("-"):
            at += 1
    return words[at:]
