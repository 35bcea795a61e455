"""Which programs a script starts itself, as far as its text tells; what these start in turn nobody sees here."""

from __future__ import annotations

import re

from planrunner.capabilities.core import POSIX_SHELLS
from planrunner.plan.model import Action, Task
from planrunner.plan.shell.scan import Scan
from planrunner.plan.shell.script import simple_command
from planrunner.plan.shell.words import Command, Word, started

_BUILT_IN = frozenset(
    ": [ alias break cd continue declare echo exit export false getopts hash let local popd printf pushd pwd read"
    " readonly return set shift shopt test times trap true type typeset ulimit umask unalias unset wait".split()
)
"""What a shell does by itself, without a program."""
_GRAMMAR = frozenset("[[ } done fi for select".split())
"""Words that begin or end what holds commands, and are none; others the reader of scripts takes for what they are."""
_STATEMENT = re.compile(r"\{%.*?%\}", re.DOTALL)


def programs(each: Task | Action, shell: str = "") -> list[str]:
    """The programs that a task or an action names, each once; a script for another interpreter is that interpreter
    alone."""
    run = each.run
    if not run:
        return []
    if isinstance(run, tuple):
        return [str(run[0])]
    interpreter = shell.split(maxsplit=1)[0] if shell.split() else "sh"
    if interpreter.rpartition("/")[2] not in POSIX_SHELLS:
        return [interpreter]
    if simple := simple_command(run):
        return [simple[0]]
    return list(dict.fromkeys((interpreter, *_named(_STATEMENT.sub("", run)))))


def _named(script: str) -> list[str]:
    reader = _Reader(script)
    reader.run()
    return reader.found


class _Reader(Scan):
    """Finds the first word of each command, also of those inside others."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "PR_")
        self.found: list[str] = []

    def command(self) -> Command:
        return _First(self)

    def _substituted(self, script: str) -> None:
        self.found += _named(script)

    def _dollar(self, word: Word | None, quoted: bool) -> None:
        start = self.at + 1
        super()._dollar(word, quoted)
        if word is not None:
            word.add(self.text[start : self.at])  # a program that is called so is shown as it is written


class _First(Command):
    """The words of one command after the other, of which the first is a program."""

    __slots__ = ("_reader",)

    def __init__(self, reader: _Reader) -> None:
        super().__init__(reader.problems)
        self._reader = reader

    def judge(self, words: list[Word]) -> None:
        for word in started(words)[:1]:
            is_grammar = word is words[0] and word.bare and word.text in _GRAMMAR
            if word.text and word.text not in _BUILT_IN and not is_grammar:
                self._reader.found.append(word.text.replace("\0", "VALUE"))
