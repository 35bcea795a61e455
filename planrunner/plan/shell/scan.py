"""Reads a script the way a shell does, as far as needed to know in which quotes each template stands.

A wrong guess cannot make a value run as code: what replaces a template is always an expansion of a variable, whose
result no shell parses again. The places where something else would evaluate it are the ones refused here.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from planrunner.plan.expressions.values import Problem
from planrunner.plan.shell.words import Command, Word
from planrunner.plan.templates import placeholders

ARGUMENT = "set a shell variable first, such as `value={{ … }}`, and use `$value`"

DEEPEST = 40
"""Levels of ``$( … )`` and quotes inside each other."""

_ARITHMETIC = "in arithmetic, which the shell evaluates"
_PLAIN = re.compile(r"[^\s;&|<>()`$'\"\\{#]+")
_SINGLE = re.compile(r"[^'{]+|\{")
_DOUBLE = re.compile(r'[^"\\`${]+|\{')
_NOTHING = re.compile(r"\([ \t]*\)")
_DIRECTION = re.compile(r"<>|[<>]&|>>|>\||[<>]")
_DELIMITER = r"(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|<>()'\"\\])+)"
_RUN = (" ", "\t", "\n", "|")
"""What follows ``${`` where bash runs a list of commands."""
_TICKED = re.compile(r"\\([\\`$])")


class _Quotes:
    """The quoted and expanded parts of a script, and what becomes of the templates in them."""

    def __init__(self, text: str, prefix: str, templates: bool = True) -> None:
        self.text = text
        self.at = 0
        self.problems: list[Problem] = []
        self.names: dict[str, str] = {}
        self.ambiguous = False
        self._prefix = prefix
        self._holes = {hole.start: hole for hole in placeholders(text) if hole.closed} if templates else {}
        self._out: list[str] = []
        self._copied = 0
        self._level = 0

    def result(self) -> str:
        """The script with every template replaced."""
        return "".join([*self._out, self.text[self._copied :]])

    def _nested(self) -> None:
        """The commands of ``$( … )``, whose bracket has been read."""
        raise NotImplementedError

    def _substituted(self, script: str) -> None:
        """The script between backticks, or in ``${ …; }``: no value fits into it, so it is passed over here."""

    def _beyond(self) -> None:
        """At a place that is more than words, quotes and lists of commands, or that is never closed. Here all of it is
        passed over; a reader that must know every command stops."""

    def _single(self, word: Word) -> None:
        self.at += 1
        word.quote("")
        while self.at < len(self.text):
            if self.at in self._holes:
                word.hole(self._holes[self.at])
                self._put("'\"${@}\"'")
            elif match := _SINGLE.match(self.text, self.at):
                word.quote(match[0])
                self.at = match.end()
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
            elif match := _DOUBLE.match(self.text, self.at):
                word.quote(match[0])
                self.at = match.end()
            else:
                self._expanding(word)
        self._beyond()

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

    def _escaped(self, word: Word | None = None, inside: bool = False) -> None:
        """A backslash and what it quotes, which ``word`` gets; ``inside`` double quotes most of it stays as it is."""
        self.at += 1
        if self.at in self._holes:
            self._refuse("right after a backslash", "put the template into quotes, without the backslash")
            return
        sign = self.text[self.at : self.at + 1]
        self.at += 1
        if not sign:
            self._beyond()
        elif word is not None and sign != "\n":
            word.quote(f"\\{sign}" if inside and sign not in '$`"\\' else sign)

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
            self._refuse("right after `$`", "remove the `$`: the template is the value")
        elif text.startswith("((", self.at):
            self._arithmetic()
        elif text.startswith("[", self.at) and not quoted:
            self._region("]", _ARITHMETIC)
        elif text.startswith("(", self.at):
            self.at += 1
            self._nested()
        elif text.startswith("{", self.at):
            self._region("}", "inside `${…}`")
            if text.startswith(_RUN, at + 2):
                self._substituted(text[at + 3 : self.at].removesuffix("}"))
        elif text.startswith("'", self.at) and not quoted:
            self._ansi()

    def _arithmetic(self) -> None:
        self.at += 2
        depth = 0
        while self.at < len(self.text):
            if self.at in self._holes:
                self._refuse(_ARITHMETIC, "compute with `$(( … ))` on a variable that you checked to be a number")
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

    def _region(self, closing: str, where: str) -> None:
        """To the closing sign, with quotes and expansions inside; no value fits in here."""
        self.at += 1
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
            if end < 0 or any(self.at < start < end for start in self._holes):
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

    def _put(self, form: str) -> None:
        """Replace the template here; ``form`` holds ``@`` for the name of its variable."""
        hole = self._holes[self.at]
        if self.ambiguous:
            self._refuse("behind `$'…\\'…'`, which shells read differently", ARGUMENT)
            return
        template = self.text[hole.start : hole.end]
        name = self.names.setdefault(template, f"{self._prefix}{len(self.names)}") if form else ""
        self._out += [self.text[self._copied : hole.start], form.replace("@", name)]
        self._copied = self.at = hole.end

    def _refuse(self, where: str, way_out: str = ARGUMENT) -> None:
        hole = self._holes[self.at]
        self.problems.append(
            Problem("PLAN211", f"a value cannot be passed safely {where}", hole.start, hole.end, way_out)
        )
        self.at = hole.end


class Scan(_Quotes):
    """One pass over a script. ``names`` maps each template to its variable, ``problems`` lists the templates that
    cannot be passed; ``ambiguous``: shells disagree from here on. Without ``templates`` two braces are plain text.

    A reader of something else overrides ``command`` (what takes the words) and the steps that it has to see:
    ``_substituted``, ``_beyond``, and those for a quote, an expansion or an operator.
    """

    def __init__(self, text: str, prefix: str, templates: bool = True) -> None:
        super().__init__(text, prefix, templates)
        self._starts = sorted(self._holes)
        self._here: list[tuple[str, bool, bool]] = []

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
            match = _PLAIN.match(self.text, self.at)
            word.add(match[0] if match else sign)
            self.at = match.end() if match else self.at + 1

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
            match = _DIRECTION.match(text, at)
            assert match is not None  # it begins with the sign
            command.redirected(match[0])
            self.at = match.end()
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
            self._arithmetic()
        elif (match := _NOTHING.match(self.text, self.at)) and command.defines():
            self.at = match.end()
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

    def _plain_value(self, command: Command) -> None:
        word = command.current()
        if self._level > DEEPEST:
            self._refuse("nested that deeply")
        elif re.fullmatch(r"[A-Za-z_]\w*\[[^\]]*", word.text):
            self._refuse("in the index of an array, which the shell computes")
        else:
            word.hole(self._holes[self.at])
            self._put('"${@}"')

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
