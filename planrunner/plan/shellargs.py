"""Which program of a script gets the value of a variable as an argument, where everybody on the machine can read it."""

from __future__ import annotations

import re

from planrunner.plan.shellcommand import Command, Word, started
from planrunner.plan.shellscan import Scan

_BUILT_IN = frozenset(
    ": . [ [[ alias break case cd continue echo eval exit export false for local printf read readonly return select set"
    " shift source test true type umask unset wait".split()
)
"""Words with which no process begins, so that no arguments can be read."""


def passed_on(script: str, variable: str) -> str | None:
    """A program of a script that gets ``$variable`` among its arguments; None where none does. Words of the grammar,
    assignments, redirections and here-strings are no arguments."""
    if variable not in script:
        return None
    reader = _Passing(script, re.compile(rf"\$(?:{variable}\b|\{{{variable}(?:[}}\[#%/,^@=?-]|:[^+]))"))
    reader.run()
    return reader.found[0] if reader.found else None


class _Passing(Scan):
    """Notes the words that hold the variable; ``found`` are the programs that get one of them."""

    def __init__(self, text: str, wanted: re.Pattern[str]) -> None:
        super().__init__(text, "PR_")
        self.found: list[str] = []
        self.holding: dict[int, Word] = {}
        """The words with the variable by their ``id``; they are kept, so that no other word comes to have it."""
        self._wanted = wanted
        self._around: Word | None = None

    def command(self) -> Command:
        return _Arguments(self)

    def _substituted(self, script: str) -> None:
        inner = _Passing(script, self._wanted)
        inner.run()
        self.found += inner.found

    def _nested(self) -> None:
        around, self._around = self._around, None
        super()._nested()
        self._around = around

    def _dollar(self, word: Word | None, quoted: bool) -> None:
        around, word = self._around, word or self._around
        if word is not None and self._wanted.match(self.text, self.at):
            self.holding[id(word)] = word
        if self.text.startswith("${", self.at):
            self._around = word  # `${a:-$b}` is made of both
        super()._dollar(word, quoted)
        self._around = around


class _Arguments(Command):
    """The words of one command after the other."""

    __slots__ = ("_reader",)

    def __init__(self, reader: _Passing) -> None:
        super().__init__(reader.problems)
        self._reader = reader

    def goes(self, sign: str, word: Word) -> None:
        """What a redirection names, or gives to be read, is no argument."""

    def judge(self, words: list[Word]) -> None:
        program, *arguments = started(words) or [Word()]
        if program.text not in _BUILT_IN and any(id(word) in self._reader.holding for word in arguments):
            self._reader.found.append(program.text)
