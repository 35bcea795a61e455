"""Quotes and expansions of shell text: what may stand inside, where each ends, and how a template in it is replaced."""

from __future__ import annotations

import re

from planrunner.plan.shellcommand import Word
from planrunner.plan.shellvalues import ARGUMENT, Values

DEEPEST = 40
"""Levels of ``$( … )`` and quotes inside each other."""

_SINGLE = re.compile(r"[^'{]+|\{")
_DOUBLE = re.compile(r'[^"\\`${]+|\{')
_RUN = (" ", "\t", "\n", "|")
"""What follows ``${`` where bash runs a list of commands."""
_TICKED = re.compile(r"\\([\\`$])")


class Quotes(Values):
    """Reads one quoted or expanded part at a time; what is inside ``$( … )`` is read by ``_nested``."""

    def __init__(self, text: str, prefix: str, templates: bool = True) -> None:
        super().__init__(text, prefix, templates)
        self._level = 0

    def _nested(self) -> None:
        raise NotImplementedError

    def _substituted(self, script: str) -> None:
        """The script between backticks, or in ``${ …; }``: no value fits into it, so it is passed over here."""

    def _single(self, word: Word) -> None:
        self.at += 1
        word.quote("")
        while self.at < len(self.text):
            if self.at in self._holes:
                word.hole(self._holes[self.at])
                self._put("'\"${@}\"'")
            elif found := _SINGLE.match(self.text, self.at):
                word.quote(found[0])
                self.at = found.end()
            else:
                self.at += 1
                return
        self._beyond()

    def _double(self, word: Word) -> None:
        self.at += 1
        word.quote("")
        while self.at < len(self.text):
            if self.at in self._holes:
                word.hole(self._holes[self.at])
                self._put("${@}")
            elif self.text[self.at] == '"':
                self.at += 1
                return
            elif found := _DOUBLE.match(self.text, self.at):
                word.quote(found[0])
                self.at = found.end()
            else:
                self._expanding(word)
        self._beyond()

    def _expanding(self, word: Word | None = None) -> None:
        """One sign where variables are expanded and quotes mean nothing; what it comes to belongs to ``word``."""
        sign = self.text[self.at]
        if sign == "\\":
            self._escaped(word, inside=True)
        elif sign == "`":
            self._backticks(word)
        elif sign == "$":
            self._dollar(word, quoted=True)
        else:
            self.at += 1

    def _dollar(self, word: Word | None, quoted: bool) -> None:
        """An expansion; the name of a plain variable is read on as text."""
        if word is not None:
            word.add("$")
        text, at = self.text, self.at
        self.at += 1
        if self.at in self._holes:
            self._refuse("right after `$`", "leave the `$` out: the template is the value")
        elif text.startswith("((", self.at):
            self._arithmetic(2, "in arithmetic, which the shell evaluates")
        elif text.startswith("[", self.at) and not quoted:
            self._region("]", "in arithmetic, which the shell evaluates", 1)
        elif text.startswith("(", self.at):
            self.at += 1
            self._nested()
        elif text.startswith("{", self.at):
            self._region("}", "inside `${…}`", 1)
            if text.startswith(_RUN, at + 2):
                self._substituted(text[at + 3 : self.at].removesuffix("}"))
        elif text.startswith("'", self.at) and not quoted:
            self._ansi()

    def _ansi(self) -> None:
        """``$'…'``: bash reads escapes in it, other shells do not, so they may disagree about its end."""
        self.at += 1
        while self.at < len(self.text):
            if self.at in self._holes:
                self._refuse("inside `$'…'`", "close the quote before the template")
            elif self.text[self.at] == "\\":
                self.ambiguous |= self.text.startswith("'", self.at + 1)
                self._escaped()
            else:
                self.at += 1
                if self.text[self.at - 1] == "'":
                    return

    def _backticks(self, word: Word | None = None) -> None:
        self._beyond()
        if word is not None:
            word.add("`")
        self.at += 1
        start = self.at
        while self.at < len(self.text):
            if self.at in self._holes:
                self._refuse("inside backticks", "write `$( … )` instead")
            elif self.text[self.at] == "\\":
                self._escaped()
            else:
                self.at += 1
                if self.text[self.at - 1] == "`":
                    break
        self._substituted(_TICKED.sub(r"\1", self.text[start : self.at].removesuffix("`")))

    def _arithmetic(self, opening: int, where: str) -> None:
        self.at += opening
        depth = 0
        while self.at < len(self.text):
            if self.at in self._holes:
                self._refuse(where, "compute with `$(( … ))` on a variable that you checked to be a number")
                continue
            sign = self.text[self.at]
            self._inside(sign)
            if sign == "(":
                depth += 1
            elif sign == ")" and depth:
                depth -= 1
            elif sign == ")":
                self.at += self.text.startswith(")", self.at)
                return

    def _region(self, closing: str, where: str, opening: int) -> None:
        """To the closing sign, with quotes and expansions inside; no value fits in here."""
        self.at += opening
        while self.at < len(self.text):
            if self.at in self._holes:
                self._refuse(where, ARGUMENT)
                continue
            sign = self.text[self.at]
            self._inside(sign)
            if sign == closing:
                return

    def _inside(self, sign: str) -> None:
        """One sign, or one quoted part, of a place that takes no values."""
        if sign in "'\"" and self._level <= DEEPEST:
            end = self.text.find(sign, self.at + 1)
            if end < 0 or self._hole_before(end):
                self.at += 1
            else:
                self.at = end + 1
            return
        if sign in "$`\\" and self._level <= DEEPEST:
            self._level += 1
            self._expanding()
            self._level -= 1
            return
        self.at += 1

    def _hole_before(self, end: int) -> bool:
        return any(self.at < start < end for start in self._holes)
