"""The commands of a script as far as they can be told without running it, for patterns of a policy, and the programs
that get a variable as an argument.

Only what is plain is told: words, quotes, redirections, lists of commands, the words around ``if`` and ``while``.
Anything else (substitutions, functions, here documents …) makes the whole script one whose commands are not known, and
so does whatever shells read differently.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from planrunner.plan.patterns import UNKNOWN, Loose
from planrunner.plan.shell.parse import LEADS, parse
from planrunner.plan.shell.tree import Command, Redirect, Word, started
from planrunner.plan.shell.variables import steers
from planrunner.records import Struct

_LEADS = LEADS | frozenset("fi done }".split())
_REFUSED = frozenset("for case esac function select coproc in [[ ]] time shopt".split())
"""What stands for more than one command, or changes how those behind it are read."""
_SETTING = frozenset("export readonly declare typeset local read printf getopts mapfile readarray let unset".split())
"""Built-in commands that set variables which their arguments name."""

_SHELL = r"\s*(?:\S*/)?(?:sh|bash|dash|ash)(?:\s+-[abefhkmnuvxCE]+|\s+-\w*o\s+[a-z]+)*\s*"
"""The shells whose scripts are read here. What else the key says may be another program, or a command of its own."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[.*\])?\+?=", re.DOTALL)
_ONE_WORD = re.compile(r"[A-Za-z0-9_./:=@%+,-]+")
_ODD = re.compile(r"[^\S \t\n]|\0")
"""Blanks to some, letters to a shell."""


class _Puzzling(Exception):
    """A command holds something that is not told apart here, as is known ``at`` an offset of the script."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def commands(text: str, values: Mapping[str, str] | None = None, shell: str = "") -> tuple[tuple[str, ...], ...] | None:
    """The words of every command in a script for ``shell``, without redirections; None where they cannot be told.

    A template stands as ``UNKNOWN`` in its word, and so does a variable that ``values`` does not have; a word that the
    shell may make others of is ``Loose``. With ``values`` the text is what runs, and holds no templates.
    """
    if "\0" in text or ("{%" in text and values is None) or not re.fullmatch(_SHELL, shell or "sh"):
        return None
    script = parse(text, values is None)
    if script.beyond is not None or script.refusals:
        return None
    try:
        every = [_command(command, values or {}) for command in script.commands]
    except _Puzzling:
        return None
    return tuple(words for words in every if words)


def unread(text: str, shell: str = "") -> int | None:
    """Where a script, as it is written, begins to say what is not told apart here: an offset; None where all of it is
    told."""
    if "\0" in text or not re.fullmatch(_SHELL, shell or "sh"):
        return 0
    if "{%" in text:
        return text.index("{%")
    script = parse(text)
    puzzling = [] if script.beyond is None else [script.beyond]
    for command in script.commands:
        try:
            if not command.apart:
                _command(command, {})
        except _Puzzling as error:
            puzzling.append(error.at)
    if puzzling:
        return min(*puzzling, len(text.rstrip()))
    return script.refusals[0].start if script.refusals else None


class _Read(Struct):
    """A word with the values of its variables; ``shape`` is what of it is not quoted, with ``*`` for each part that the
    shell may make other words of."""

    text: str
    shape: str
    bare: bool
    end: int

    def told(self) -> str:
        if _ODD.search(self.shape):
            raise _Puzzling(self.end)
        return Loose(self.text) if _spreads(self.shape) else self.text


def _command(command: Command, values: Mapping[str, str]) -> tuple[str, ...]:
    """The words of a command; empty where it has none."""
    words: list[_Read] = []
    leads = command.redirects[0].before if command.redirects else len(command.leading) + len(command.words)
    for number, node in enumerate((*command.leading, *command.words)):
        word = _read(node, values)
        if number < leads and not words:
            if word.text in _REFUSED or (word.text in _LEADS and not word.bare):
                raise _Puzzling(word.end)
            if word.text in _LEADS:
                continue
        words.append(word)
    for redirect in command.redirects:
        _redirected(redirect, command, values)
    if command.joined and words:
        raise _Puzzling(command.end)  # behind `&> file` they belong to the command before it, or are one
    start = 0
    while start < len(words) and (assigned := _ASSIGNMENT.match(words[start].text)):
        if assigned[2] or not _ASSIGNMENT.match(words[start].shape) or _matters(assigned[1], values):
            raise _Puzzling(command.end)
        start += 1
    told = [word.told() for word in words[start:]]
    if told:
        head = told[0]
        if isinstance(head, Loose) or UNKNOWN in head or head in _LEADS or head in _REFUSED:
            raise _Puzzling(command.end)
        if os.path.basename(head) in _SETTING and any(_matters(name, values) for name in _set_by(head, told[1:])):
            raise _Puzzling(command.end)
    return tuple(told)


def _read(word: Word, values: Mapping[str, str]) -> _Read:
    text, shape = [], []
    for part in word.parts:
        told, sign = part.text, "\1" if part.quoted else part.text
        if part.kind == "expansion":
            raise _Puzzling(part.at)
        if part.kind == "hole":
            told = UNKNOWN
        elif part.kind == "variable":
            value = values.get(part.text.strip("${}"))
            fixed = (part.quoted and part.text != "$@") or (value is not None and _ONE_WORD.fullmatch(value))
            told, sign = UNKNOWN if value is None or not fixed else value, "\1" if fixed else "*"
        text.append(told)
        shape.append(sign)
    return _Read("".join(text), "".join(shape), "\1" not in shape, word.end)


def _redirected(redirect: Redirect, command: Command, values: Mapping[str, str]) -> None:
    """Raises _Puzzling for a redirection that shells read differently, or that has no target."""
    if redirect.joined is not None:
        joined = _read(redirect.joined, values)
        number = joined.text.startswith("{") or (joined.text.isdigit() and joined.text[1:])
        if joined.bare and number:
            raise _Puzzling(redirect.at)  # a number of a file to some shells, an argument to others
    if redirect.target is None:
        raise _Puzzling(command.end)
    target = _read(redirect.target, values)
    if redirect.sign.endswith("&") and target.told().startswith("-") and target.text != "-":
        raise _Puzzling(target.end)  # to some shells the sign alone closes, and the rest is an argument


def _set_by(head: str, arguments: Sequence[str]) -> Iterator[str]:
    """The variables that a built-in command sets, ``UNKNOWN`` where it may be any; to hand on one as it is, is not to
    set it."""
    if head == "printf" and not any(re.match(r"-\w*v|\{\{", word) for word in arguments[:2]):
        return
    for word in arguments:
        if word.startswith("-") and "n" in word and head in ("declare", "typeset", "local"):
            yield UNKNOWN  # another name for a variable
        name = re.split(r"[\[+=]", re.sub("^-[a-z]*", "", word))[0]
        if ("=" in word or head not in ("export", "readonly")) and (head != "printf" or name != UNKNOWN):
            yield name


def _matters(name: str, values: Mapping[str, str]) -> bool:
    return steers(name) or name in values or UNKNOWN in name


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
    for command in parse(script).commands:
        program, *arguments = started(command.words) or [Word()]
        if program.text not in _BUILT_IN and any(_holds(word, variable) for word in arguments):
            return program.text
    return None


def _holds(word: Word, variable: str) -> bool:
    """Whether the value of a variable is part of a word; ``${name:+…}`` asks only whether there is one."""
    return any(
        name == variable and (not operator or operator[0] in "}[#%/,^@=?-" or re.match(":[^+]", operator))
        for name, operator in word.expansions
    )
