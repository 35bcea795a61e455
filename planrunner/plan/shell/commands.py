"""The commands of a script as far as they can be told without running it, for patterns of a policy, and the programs
that get a variable as an argument.

Only what is plain is told: words, quotes, redirections, lists of commands, the words around ``if`` and ``while``.
Anything else (substitutions, functions, here documents …) makes the whole script one whose commands are not known, and
so does whatever shells read differently.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from planrunner.plan.patterns import UNKNOWN, Loose
from planrunner.plan.shell.scan import Scan
from planrunner.plan.shell.variables import steers
from planrunner.plan.shell.words import LEADS, Command, Word, started

_LEADS = LEADS | frozenset("fi done }".split())
_REFUSED = frozenset("for case esac function select coproc in [[ ]] time shopt".split())
"""What stands for more than one command, or changes how those behind it are read."""
_SETTING = frozenset("export readonly declare typeset local read printf getopts mapfile readarray let unset".split())
"""Built-in commands that set variables which their arguments name."""

_SHELL = r"\s*(?:\S*/)?(?:sh|bash|dash|ash)(?:\s+-[abefhkmnuvxCE]+|\s+-\w*o\s+[a-z]+)*\s*"
"""The shells whose scripts are read here. What else the key says may be another program, or a command of its own."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[.*\])?\+?=", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)(?!\\\n)|\{([A-Za-z_][A-Za-z0-9_]*)\}|[0-9@*#?$!-])")
_ONE_WORD = re.compile(r"[A-Za-z0-9_./:=@%+,-]+")
_ODD = re.compile(r"[^\S \t\n]|\0")
"""Blanks to some, letters to a shell."""


class _Puzzling(Exception):
    """The script holds something that is not told apart here."""


def commands(text: str, values: Mapping[str, str] | None = None, shell: str = "") -> tuple[tuple[str, ...], ...] | None:
    """The words of every command in a script for ``shell``, without redirections; None where they cannot be told.

    A template stands as ``UNKNOWN`` in its word, and so does a variable that ``values`` does not have; a word that the
    shell may make others of is ``Loose``. With ``values`` the text is what runs, and holds no templates.
    """
    if "\0" in text or ("{%" in text and values is None) or not re.fullmatch(_SHELL, shell or "sh"):
        return None
    reader = _Reader(text, values)
    try:
        reader.run()
    except _Puzzling:
        return None
    return None if reader.problems else tuple(reader.found)


def unread(text: str, shell: str = "") -> int | None:
    """Where a script, as it is written, begins to say what is not told apart here: an offset; None where all of it is
    told."""
    if "\0" in text or not re.fullmatch(_SHELL, shell or "sh"):
        return 0
    if "{%" in text:
        return text.index("{%")
    reader = _Reader(text, None)
    try:
        reader.run()
    except _Puzzling:
        return min(reader.at, len(text.rstrip()))
    return reader.problems[0].start if reader.problems else None


class _Reader(Scan):
    """Stops where the one that only follows quotes goes on."""

    def __init__(self, text: str, values: Mapping[str, str] | None) -> None:
        super().__init__(text, "PR_", values is None)
        self.values = values or {}
        self.found: list[tuple[str, ...]] = []

    def command(self) -> Command:
        return _Plain(self)

    def _beyond(self) -> None:
        raise _Puzzling

    def _operator(self, sign: str, command: Command) -> None:
        joined = self.text.startswith("&>", self.at)
        super()._operator(sign, command)
        if joined and isinstance(command, _Plain):
            command.lone = True

    def _dollar(self, word: Word | None, quoted: bool) -> None:
        found = _VARIABLE.match(self.text, self.at)
        if found is None or word is None:
            raise _Puzzling
        self.at = found.end()
        value = self.values.get(found[1] or found[2] or "")
        if (quoted and found[0] != "$@") or (value is not None and _ONE_WORD.fullmatch(value)):
            word.quote(UNKNOWN if value is None else value)
        else:
            word.spread(UNKNOWN)


class _Plain(Command):
    """The words of one command after the other, for the list of them."""

    __slots__ = ("_reader", "lone")

    def __init__(self, reader: _Reader) -> None:
        super().__init__(reader.problems)
        self._reader = reader
        self.lone = False
        """Whether no words may follow: behind ``&> file`` they belong to the command before it, or are one."""

    def redirected(self, sign: str) -> None:
        word = self.word
        if word is None and self._target is not None:
            raise _Puzzling
        if word is not None and word.bare and (word.text.startswith("{") or (word.text.isdigit() and word.text[1:])):
            raise _Puzzling  # a number of a file to some shells, an argument to others
        super().redirected(sign)

    def goes(self, sign: str, word: Word) -> None:
        if sign.endswith("&") and _told(word).startswith("-") and word.text != "-":
            raise _Puzzling  # to some shells the sign alone closes, and the rest is an argument

    def ends(self, branch: bool = False) -> None:
        if self.word is None and self._target is not None:
            raise _Puzzling
        super().ends(branch)

    def _case_word(self, word: Word) -> bool:
        return False  # `case` is refused where it leads

    def _leads(self, word: Word) -> bool:
        if word.text in _REFUSED or (word.text in _LEADS and not word.bare):
            raise _Puzzling
        return word.text in _LEADS

    def judge(self, words: list[Word]) -> None:
        if self.lone and words:
            raise _Puzzling
        self.lone, at = False, 0
        while at < len(words) and (assigned := _ASSIGNMENT.match(words[at].text)):
            self._sets(assigned[1])
            if assigned[2] or not _ASSIGNMENT.match(words[at].shape):
                raise _Puzzling
            at += 1
        told = [_told(word) for word in words[at:]]
        if not told:
            return
        head = told[0]
        if isinstance(head, Loose) or UNKNOWN in head or head in _LEADS or head in _REFUSED:
            raise _Puzzling
        if os.path.basename(head) in _SETTING:
            self._named_in(head, told[1:])
        self._reader.found.append(tuple(told))

    def _named_in(self, head: str, arguments: Sequence[str]) -> None:
        """The variables that a command sets; to hand on one as it is, is not to set it."""
        if head == "printf" and not any(re.match(r"-\w*v|\{\{", word) for word in arguments[:2]):
            return
        for word in arguments:
            if word.startswith("-") and "n" in word and head in ("declare", "typeset", "local"):
                raise _Puzzling  # another name for a variable
            name = re.split(r"[\[+=]", re.sub("^-[a-z]*", "", word))[0]
            if ("=" in word or head not in ("export", "readonly")) and (head != "printf" or name != UNKNOWN):
                self._sets(name)

    def _sets(self, name: str) -> None:
        if steers(name) or name in self._reader.values or UNKNOWN in name:
            raise _Puzzling


def _told(word: Word) -> str:
    if _ODD.search(word.shape):
        raise _Puzzling
    text = word.text.replace("\0", UNKNOWN)
    return Loose(text) if _spreads(word.shape) else text


def _spreads(shape: str) -> bool:
    """Whether a shell makes other words of one: patterns of files, the home directory, braces."""
    ranged = "[" in shape and "]" in shape
    braced = "{" in shape and ("," in shape or ".." in shape)
    return ranged or braced or any(sign in shape for sign in "*?~")


_BUILT_IN = frozenset(
    ": . [ [[ alias break case cd continue echo eval exit export false for local printf read readonly return select set"
    " shift source test true type umask unset wait".split()
)
"""Words with which no process begins, so that no arguments can be read."""


def passed_on(script: str, variable: str) -> str | None:
    """A program of a script that gets ``$variable`` among its arguments; None where none does. Words of the grammar,
    assignments, redirections and here-strings do not count."""
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
        """What a redirection names, or gives to be read, is not an argument."""

    def judge(self, words: list[Word]) -> None:
        program, *arguments = started(words) or [Word()]
        if program.text not in _BUILT_IN and any(id(word) in self._reader.holding for word in arguments):
            self._reader.found.append(program.text)
