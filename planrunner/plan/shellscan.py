"""Reads a script the way a shell does, as far as needed to know in which quotes each template stands.

A wrong guess cannot make a value run as code: what replaces a template is always an expansion of a variable, whose
result no shell parses again. The places where something else would evaluate it are the ones refused here.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from planrunner.plan.expressions.problem import Problem
from planrunner.plan.shellcommand import Command
from planrunner.plan.shellquotes import DEEPEST, Quotes

_PLAIN = re.compile(r"[^\s;&|<>()`$'\"\\{#]+")
_NOTHING = re.compile(r"\([ \t]*\)")
_DIRECTION = re.compile(r"<>|[<>]&|>>|>\||[<>]")
_DELIMITER = r"(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|<>()'\"\\])+)"


class Scan(Quotes):
    """One pass over a script. ``names`` maps each template to its variable; ``problems`` is what cannot be passed.
    Without ``templates`` two braces are text like any other."""

    def __init__(self, text: str, prefix: str, templates: bool = True) -> None:
        super().__init__(text, prefix, templates)
        self._here: list[tuple[str, bool, bool]] = []
        self._starts = sorted(self._holes)

    def run(self) -> None:
        while self.at < len(self.text):
            self._commands(False)

    def command(self) -> Command:
        """What takes the words of one command after the other."""
        return Command(self.problems)

    def _commands(self, nested: bool) -> None:
        """Plain text to its end, or to the bracket that closes it."""
        command, closes = self.command(), nested
        self._level += 1
        while self.at < len(self.text):
            sign = self.text[self.at]
            if self.at in self._holes:
                self._plain_value(command)
            elif sign in " \t":
                command.word_ends()
                self.at += 1
            elif sign == "\n":
                command.ends()
                self.at += 1
                self._here_documents()
            elif sign == "#" and command.word is None:
                self._comment()
            elif sign == ")" and not command.pattern_ends():
                self.at += 1
                if closes:
                    break
                self._beyond()
                command.ends()
            elif sign in ";&|<>()":
                self._operator(sign, command)
            else:
                self._part(sign, command)
        command.ends()
        self._level -= 1

    def _plain_value(self, command: Command) -> None:
        word = command.current()
        if self._level > DEEPEST:
            self._refuse("nested that deeply")
        elif re.fullmatch(r"[A-Za-z_]\w*\[[^\]]*", word.text):
            self._refuse("in the index of an array, which the shell computes")
        else:
            word.hole(self._holes[self.at])
            self._put('"${@}"')

    def _part(self, sign: str, command: Command) -> None:
        """Something that belongs to a word."""
        if self.text.startswith("\\\n", self.at):
            self.at += 2  # the line goes on, in the midst of a word as well
            return
        word = command.current()
        if sign == "\\":
            self._escaped(word)
        elif sign == "'":
            self._single(word)
        elif sign == '"':
            self._double(word)
        elif sign == "`":
            self._backticks(word)
        elif sign == "$":
            self._dollar(word, quoted=False)
        else:
            found = _PLAIN.match(self.text, self.at)
            word.add(found[0] if found else sign)
            self.at = found.end() if found else self.at + 1

    def _operator(self, sign: str, command: Command) -> None:
        text, at = self.text, self.at
        if text.startswith("<<<", at):
            self._beyond()
            command.redirected("<<<")
            self.at += 3
        elif text.startswith("<<", at):
            self._beyond()
            command.redirected("")
            self._here_begins()
        elif sign in "<>" and text.startswith("(", at + 1):
            self._beyond()
            command.current().quote(text[at : at + 2])
            self.at += 2
            self._nested()
        elif sign in "<>":
            found = _DIRECTION.match(text, at)
            assert found is not None  # it begins with the sign
            command.redirected(found[0])
            self.at = found.end()
        elif sign == "(":
            self._beyond()
            self._bracket(command)
        elif sign == ")":
            self.at += 1
        else:
            self.at += 2 if text.startswith((";;", "&&", "||"), at) else 1
            command.ends(text.startswith((";;", ";&"), at))

    def _bracket(self, command: Command) -> None:
        """At an opening bracket: arithmetic, a function, a subshell, a list, or a sign of a pattern."""
        if command.in_pattern:
            self.at += 1
        elif self.text.startswith("((", self.at) and command.word is None:
            self._arithmetic(2, "in arithmetic, which the shell evaluates")
        elif (found := _NOTHING.match(self.text, self.at)) and command.defines():
            self.at = found.end()
        else:
            self.at += 1
            self._nested()
            command.word_ends()

    def _nested(self) -> None:
        if self._level > DEEPEST:
            self.at = len(self.text)
            self.problems.append(Problem("PLAN211", "the script is nested too deeply", 0, 0))
            return
        self._commands(True)

    def _comment(self) -> None:
        while self.at < len(self.text) and self.text[self.at] != "\n":
            if self.at in self._holes:
                self._put("")
            else:
                self.at += 1

    def _here_begins(self) -> None:
        self.at += 2
        match = re.compile(_DELIMITER).match(self.text, self.at)
        if match is None:
            return
        first = bisect_left(self._starts, self.at)
        if first < len(self._starts) and self._starts[first] < match.end():
            self.at = self._starts[first]
            self._refuse("as the end mark of a here-document", "write a fixed word")
            return
        word = match[2]
        quoted = any(sign in word for sign in "'\"\\")
        self._here.append((re.sub(r"\\(.)|['\"]", r"\1", word), quoted, match[1] == "-"))
        self.at = match.end()

    def _here_documents(self) -> None:
        waiting, self._here = self._here, []
        for delimiter, quoted, tabs in waiting:
            end, after = self._here_end(delimiter, tabs)
            while self.at < end:
                if self.at not in self._holes:
                    if quoted:
                        self.at += 1
                    else:
                        self._expanding()
                elif quoted:
                    self._refuse(
                        "in a here-document with a quoted end mark", f"write `<<{delimiter}` without quotes around it"
                    )
                else:
                    self._put("${@}")
            self.at = max(self.at, after)

    def _here_end(self, delimiter: str, tabs: bool) -> tuple[int, int]:
        """Where the body ends and where the line after the end mark begins."""
        at = self.at
        while at < len(self.text):
            end = self.text.find("\n", at)
            end = len(self.text) if end < 0 else end
            line = self.text[at:end]
            if (line.lstrip("\t") if tabs else line) == delimiter:
                return at, end
            at = end + 1
        return len(self.text), len(self.text)
