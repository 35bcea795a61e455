"""Reads a script the way a shell does, into its tree, as far as needed to know in which quotes each template stands.

A wrong guess cannot make a value run as code: what replaces a template is always an expansion of a variable, whose
result no shell parses again. The places where something else would evaluate it are the ones refused here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache

from planrunner.plan.expressions.parse import parse as parse_expression
from planrunner.plan.expressions.values import ExpressionError, Problem
from planrunner.plan.shell.tree import Command, Edit, Expansion, Part, Redirect, Script, Word
from planrunner.plan.templates import placeholders

DEEPEST = 40
"""Levels of ``$( … )`` and quotes inside each other."""

LEADS = frozenset("if then elif else while until do ! {".split())
"""Words of the grammar that a command follows."""

_WAY_OUT = "set a shell variable first, such as `value={{ … }}`, and use `$value`"
_ARITHMETIC = "in arithmetic, which the shell evaluates"
_NUMBERS = frozenset(("int", "len", "count"))
"""Functions that give a whole number or fail."""
_LEADING = LEADS | frozenset(("time", "coproc", "-p"))  # the last is an option of `time`
_PLAIN = re.compile(r"[^\s;&|<>()`$'\"\\{#]+")
_SINGLE = re.compile(r"[^'{]+|\{")
_DOUBLE = re.compile(r'[^"\\`${]+|\{')
_EMPTY_BRACKETS = re.compile(r"\([ \t]*\)")
_DIRECTION = re.compile(r"<>|[<>]&|>>|>\||[<>]")
_DESCRIPTOR = re.compile(r"[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\}")
_DELIMITER = re.compile(r"(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|<>()'\"\\])+)")
_INDEX = re.compile(r"[A-Za-z_]\w*\[[^\]]*")
_LIST = (" ", "\t", "\n", "|")
"""What follows ``${`` where bash runs a list of commands."""
_ESCAPED_IN_BACKTICKS = re.compile(r"\\([\\`$])")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9@*#?!-]|\$(?![({\[]))")
_EXPANSION = re.compile(r"\$(?:(\w+)|\{(\w+)(.{0,2}))", re.DOTALL)


@lru_cache(maxsize=128)
def parse(text: str, templates: bool = True, numbers: frozenset[str] = frozenset()) -> Script:
    """The tree of a script. Without ``templates`` two braces are plain text. ``numbers`` are the parameters of the plan
    that are numbers: these, and what gives a number whatever it is given, may stand in arithmetic."""
    return _Parser(text, templates, numbers=numbers).script()


def _is_number(body: str, numbers: frozenset[str]) -> bool:
    """Whether an expression gives a number or nothing: a parameter of that type, or a function such as ``int``."""
    try:
        waiting = [parse_expression(body.strip()).tree]
    except ExpressionError:
        return False
    for tree in waiting:
        if tree[0] == "binary" and tree[3] in ("+", "-", "*", "//", "%"):
            waiting += tree[4:6]
        elif tree[0] == "const":
            if type(tree[3]) is not int:
                return False
        elif tree[0] == "call":
            if tree[3] not in _NUMBERS:
                return False
        elif tree[0] != "attr" or tree[3][0] != "name" or tree[3][3] != "params" or tree[4] not in numbers:
            return False
    return True


class _Open:
    """The command being read, and the ``case`` constructs around it (their patterns end with a lone bracket)."""

    def __init__(self, parser: _Parser) -> None:
        self.word: Word | None = None
        self._parser = parser
        self._command = Command()
        self._cases: list[str] = []
        self._brackets = False
        self._begun = False
        self._named = False
        self._redirect: Redirect | None = None

    def current(self) -> Word:
        if self.word is None:
            self.word = Word()
        return self.word

    @property
    def in_pattern(self) -> bool:
        return bool(self._cases) and self._cases[-1] == "pattern"

    def word_ends(self) -> None:
        if self.word is None:
            return
        word, self.word = self.word, None
        word.end = self._parser.at
        command = self._command
        if self._redirect is not None:
            command.redirects.append(self._redirect._replace(target=word))
            self._redirect = None
            self._begun = True  # no word of the grammar stands behind a redirection
        elif self._case_word(word):
            self._parser.mark_beyond()
        elif not command.words and not self._begun and self._leads(word):
            command.leading.append(word)
        else:
            if not command.words and word.text == "[[":
                self._brackets = True
                self._parser.mark_beyond()
            command.words.append(word)
            if word.text == "]]":
                self._brackets = False

    def redirected(self, sign: str) -> None:
        """At a redirection, which takes the next word (with "" as ``sign`` none); a number before it is not a word."""
        if self._brackets:
            self.word_ends()  # there it compares
            return
        joined = self.word
        if joined is not None and joined.bare and _DESCRIPTOR.fullmatch(joined.text):
            self.word = None
        self.word_ends()
        self._target_missing()
        command = self._command
        redirect = Redirect(sign, self._parser.at, joined, len(command.leading) + len(command.words))
        if sign:
            self._redirect = redirect
        else:
            command.redirects.append(redirect)
            self._begun = True

    def _target_missing(self) -> None:
        if self._redirect is not None:
            self._command.redirects.append(self._redirect)
            self._redirect = None

    def defines(self) -> bool:
        """At ``()``: whether the one word before it names a function, whose commands follow."""
        self.word_ends()
        if len(self._command.words) != 1 or self._brackets:
            return False
        self._command.words = []
        return True

    def _leads(self, word: Word) -> bool:
        """Whether a word stands before the command."""
        if self._named:
            self._named = False
            return True
        self._named = word.bare and word.text == "function"
        return self._named or (word.bare and word.text in _LEADING)

    def _case_word(self, word: Word) -> bool:
        state = self._cases[-1] if self._cases else ""
        first, text = word.bare and not self._command.words, word.text
        if state == "subject":
            if text == "in":
                self._cases[-1] = "pattern"
            return True
        if state in ("pattern", "body") and text == "esac" and first:
            self._cases.pop()
            return True
        if text == "case" and first and state != "pattern":
            self._cases.append("subject")
            return True
        return state == "pattern"

    def pattern_ends(self) -> bool:
        """At a closing bracket: whether it ends the pattern of a ``case`` branch."""
        self.word_ends()
        if not self.in_pattern:
            return False
        self._cases[-1] = "body"
        return True

    def ends(self, branch: bool = False, joined: bool = False) -> None:
        """The command is complete; ``branch``: by ``;;``, after which the next pattern of a ``case`` follows."""
        self.word_ends()
        self._target_missing()
        if self._brackets:
            return
        command, self._command = self._command, Command(joined)
        command.end = self._parser.at
        if command.words or command.leading or command.redirects:
            self._parser.commands.append(command)
        self._begun = self._named = False
        if branch and self._cases:
            self._cases[-1] = "pattern"


class _Quotes:
    """The place in a script, its quotes and expansions, and what becomes of the templates up to there."""

    def __init__(
        self, text: str, templates: bool = True, level: int = 0, numbers: frozenset[str] = frozenset()
    ) -> None:
        self.at = 0
        self._numbers = numbers
        self._text = text
        self._holes = {hole.start: hole for hole in placeholders(text) if hole.closed} if templates else {}
        self._starts = sorted(self._holes)
        self.commands: list[Command] = []
        self._edits: list[Edit] = []
        self._refusals: list[Problem] = []
        self._beyond: int | None = None
        self._ambiguous = False
        """Whether shells disagree from here on."""
        self._level = level
        self._too_deep = False
        self._read_again = 0
        """Levels of ``${ …; }``, whose commands are read when all of it is known."""
        self._around: Word | None = None
        """The word of the ``${ … }`` around this place."""

    def mark_beyond(self) -> None:
        if self._beyond is None:
            self._beyond = self.at

    def _nested(self) -> None:
        """The commands of ``$( … )``, whose bracket has been read."""
        raise NotImplementedError

    def _substituted(self, script: str) -> None:
        """The script between backticks, or in ``${ …; }``: no value fits into it."""
        raise NotImplementedError

    def _single(self, word: Word) -> None:
        word.add(Part("quoted", "", self.at, self.at + 1, quoted=True))
        self.at += 1
        while self.at < len(self._text):
            if self.at in self._holes:
                word.add_hole(self._holes[self.at])
                word.single.append(self._holes[self.at])
                self._put("'\"${@}\"'")
            elif match := _SINGLE.match(self._text, self.at):
                word.add(Part("quoted", match[0], self.at, match.end(), quoted=True))
                self.at = match.end()
            else:
                self.at += 1
                return
        self.mark_beyond()

    def _double(self, word: Word) -> None:
        word.add(Part("quoted", "", self.at, self.at + 1, quoted=True))
        self.at += 1
        while self.at < len(self._text):
            if self.at in self._holes:
                word.add_hole(self._holes[self.at])
                self._put("${@}")
            elif self._text[self.at] == '"':
                self.at += 1
                return
            elif match := _DOUBLE.match(self._text, self.at):
                word.add(Part("quoted", match[0], self.at, match.end(), quoted=True))
                self.at = match.end()
            else:
                self._expanding(word)
        self.mark_beyond()

    def _ansi(self) -> None:
        """``$'…'``: bash reads escapes in it, other shells do not, so they may disagree about its end."""
        self.at += 1
        while self.at < len(self._text):
            if self.at in self._holes:
                self._refuse("inside `$'…'`", "close the quote before the template")
            elif self._text[self.at] == "\\":
                self._ambiguous |= self._text.startswith("'", self.at + 1)
                self._escape()
            else:
                self.at += 1
                if self._text[self.at - 1] == "'":
                    return

    def _backticks(self, word: Word | None = None) -> None:
        self.mark_beyond()
        before = len(self.commands)
        if word is not None:
            word.add(Part("expansion", "`", self.at, self.at + 1))
        self.at += 1
        start = self.at
        while self.at < len(self._text):
            if self.at in self._holes:
                self._refuse("inside backticks", "write `$( … )` instead")
            elif self._text[self.at] == "\\":
                self._escape()
            else:
                self.at += 1
                if self._text[self.at - 1] == "`":
                    break
        self._substituted(_ESCAPED_IN_BACKTICKS.sub(r"\1", self._text[start : self.at].removesuffix("`")))
        self._gives(word, before)

    def _escape(self, word: Word | None = None, inside: bool = False) -> None:
        """A backslash and what it quotes, which ``word`` gets; ``inside`` double quotes most of it stays as it is."""
        start = self.at
        self.at += 1
        if self.at in self._holes:
            self._refuse("right after a backslash", "put the template into quotes, without the backslash")
            return
        sign = self._text[self.at : self.at + 1]
        self.at += 1
        if not sign:
            self.mark_beyond()
        elif word is not None and sign != "\n":
            text = f"\\{sign}" if inside and sign not in '$`"\\' else sign
            word.add(Part("escaped", text, start, self.at, quoted=True))

    def _expanding(self, word: Word | None = None) -> None:
        """One sign where variables are expanded and quotes mean nothing; what it comes to belongs to ``word``."""
        sign = self._text[self.at]
        if sign == "\\":
            self._escape(word, inside=True)
        elif sign == "`":
            self._backticks(word)
        elif sign == "$":
            self._dollar(word, quoted=True)
        else:
            self.at += 1

    def _dollar(self, word: Word | None, quoted: bool) -> None:
        """An expansion."""
        text, start, before, around = self._text, self.at, len(self.commands), self._around
        holder = word or around
        if holder is not None and (expansion := _EXPANSION.match(text, start)):
            holder.expansions.append(Expansion(expansion[1] or expansion[2], expansion[3] or ""))
        variable = _VARIABLE.match(text, start)
        goes_on = variable is not None and variable[1] and text.startswith("\\\n", variable.end())
        if variable is not None and not goes_on:
            self.at = variable.end()
            if word is not None:
                word.add(Part("variable", variable[0], start, self.at, quoted))
            return
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
            self._around = holder  # `${a:-$b}` is made of both
            self._braces()
            self._around = around
        elif text.startswith("'", self.at) and not quoted:
            self._ansi()
        if word is not None:
            word.add(Part("expansion", "$", start, self.at, quoted, text[start : self.at]))
            self._gives(word, before)

    def _braces(self) -> None:
        """``${…}``, from its brace on."""
        start = self.at + 2
        runs = self._text.startswith(_LIST, self.at + 1)
        self._read_again += runs
        self._region("}", "inside `${…}`")
        self._read_again -= runs
        if runs:
            self._substituted(self._text[start : self.at].removesuffix("}"))

    def _arithmetic(self) -> None:
        self.at += 2
        depth = 0
        while self.at < len(self._text):
            if self.at in self._holes:
                if _is_number(self._holes[self.at].body, self._numbers):
                    self._put("(${@})")
                else:
                    self._refuse(_ARITHMETIC, "make it a number, such as `$(( {{ int(params.n) }} + 1 ))`")
                continue
            sign = self._text[self.at]
            self._inside(sign)
            if sign == "(":
                depth += 1
            elif sign == ")" and depth:
                depth -= 1
            elif sign == ")":
                self.at += self._text.startswith(")", self.at)
                return

    def _region(self, closing: str, where: str) -> None:
        """To the closing sign, with quotes and expansions inside; no value fits in here."""
        self.at += 1
        while self.at < len(self._text):
            if self.at in self._holes:
                self._refuse(where)
                continue
            sign = self._text[self.at]
            self._inside(sign)
            if sign == closing:
                return

    def _inside(self, sign: str) -> None:
        """One sign, or one quoted part, of a place that takes no values."""
        if self._level > DEEPEST or sign not in "'\"$`\\":
            self.at += 1
        elif sign in "'\"":
            end = self._text.find(sign, self.at + 1)
            first = bisect_left(self._starts, self.at + 1)
            held = end < 0 or (first < len(self._starts) and self._starts[first] < end)
            self.at = self.at + 1 if held else end + 1
        else:
            self._level += 1
            self._expanding()
            self._level -= 1

    def _gives(self, word: Word | None, before: int) -> None:
        """What the commands since the first ``before`` print is part of a word."""
        if word is not None:
            word.within += [inner for command in self.commands[before:] for inner in command.with_input]

    def _put(self, form: str) -> None:
        """Replace the template here."""
        hole = self._holes[self.at]
        if self._ambiguous:
            self._refuse("behind `$'…\\'…'`, which shells read differently")
            return
        self._edits.append(Edit(hole, form))
        self.at = hole.end

    def _refuse(self, where: str, way_out: str = _WAY_OUT) -> None:
        hole = self._holes[self.at]
        message = f"a value cannot be passed safely {where}"
        self._refusals.append(Problem("PLAN211", message, hole.start, hole.end, way_out))
        self.at = hole.end


class _Parser(_Quotes):
    """One pass over a script."""

    def __init__(
        self, text: str, templates: bool = True, level: int = 0, numbers: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(text, templates, level, numbers)
        self._here: list[tuple[str, bool, bool]] = []

    def script(self) -> Script:
        while self.at < len(self._text):
            self._list(nested=False)
        if self._too_deep:
            self._refusals.append(Problem("PLAN211", "the script is nested too deeply", 0, 0))
        return Script(self.commands, self._edits, self._refusals, self._beyond)

    def _list(self, nested: bool) -> None:
        """Plain text to its end, or to the bracket that closes it."""
        command, closes, text = _Open(self), nested, self._text
        self._level += 1
        while self.at < len(text):
            sign = text[self.at]
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
                self.mark_beyond()
                command.ends()
            elif sign in ";&|<>()":
                self._operator(sign, command)
            elif text.startswith("\\\n", self.at):
                self.at += 2  # the line goes on, in the midst of a word as well
            else:
                self._word_part(sign, command.current())
        command.ends()
        self._level -= 1

    def _word_part(self, sign: str, word: Word) -> None:
        if sign == "\\":
            self._escape(word)
        elif sign == "'":
            self._single(word)
        elif sign == '"':
            self._double(word)
        elif sign == "`":
            self._backticks(word)
        elif sign == "$":
            self._dollar(word, quoted=False)
        else:
            match = _PLAIN.match(self._text, self.at)
            start, self.at = self.at, match.end() if match else self.at + 1
            word.add(Part("plain", self._text[start : self.at], start, self.at))

    def _operator(self, sign: str, command: _Open) -> None:
        text, at = self._text, self.at
        if text.startswith("<<<", at):
            self.mark_beyond()
            command.redirected("<<<")
            self.at += 3
        elif text.startswith("<<", at):
            self.mark_beyond()
            command.redirected("")
            self._here_begins()
        elif sign in "<>" and text.startswith("(", at + 1):
            self.mark_beyond()
            word, before = command.current(), len(self.commands)
            word.add(Part("quoted", text[at : at + 2], at, at + 2, quoted=True))
            self.at += 2
            self._nested()
            self._gives(word, before)
        elif sign in "<>":
            match = _DIRECTION.match(text, at)
            assert match is not None  # it begins with the sign
            command.redirected(match[0])
            self.at = match.end()
        elif sign == "(":
            self.mark_beyond()
            self._bracket(command)
        elif sign == ")":
            self.at += 1
        else:
            command.word_ends()
            self.at += 2 if text.startswith((";;", "&&", "||"), at) else 1
            command.ends(text.startswith((";;", ";&"), at), joined=text.startswith("&>", at))

    def _bracket(self, command: _Open) -> None:
        """At an opening bracket: arithmetic, a function, a subshell, a list, or a sign of a pattern."""
        if command.in_pattern:
            self.at += 1
        elif self._text.startswith("((", self.at) and command.word is None:
            self._arithmetic()
        elif (match := _EMPTY_BRACKETS.match(self._text, self.at)) and command.defines():
            self.at = match.end()
        else:
            self.at += 1
            self._nested()
            command.word_ends()

    def _nested(self) -> None:
        if self._level > DEEPEST:
            self._too_deep = True
            self.at = len(self._text)
            return
        around, self._around = self._around, None
        self._list(nested=True)
        self._around = around

    def _substituted(self, script: str) -> None:
        if self._read_again:
            return
        if self._level > DEEPEST:
            self._too_deep = True
            return
        inner = _Parser(script, level=self._level)
        for command in inner.script().commands:
            command.apart = True
            self.commands.append(command)
        self._too_deep |= inner._too_deep

    def _comment(self) -> None:
        while self.at < len(self._text) and self._text[self.at] != "\n":
            if self.at in self._holes:
                self._put("")
            else:
                self.at += 1

    def _plain_value(self, command: _Open) -> None:
        word = command.current()
        if self._level > DEEPEST:
            self._refuse("nested that deeply")
        elif _INDEX.fullmatch(word.text):
            self._refuse("in the index of an array, which the shell computes")
        else:
            word.add_hole(self._holes[self.at])
            self._put('"${@}"')

    def _here_begins(self) -> None:
        self.at += 2
        match = _DELIMITER.match(self._text, self.at)
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
        while at < len(self._text):
            end = self._text.find("\n", at)
            end = len(self._text) if end < 0 else end
            line = self._text[at:end]
            if (line.lstrip("\t") if tabs else line) == delimiter:
                return at, end
            at = end + 1
        return len(self._text), len(self._text)
