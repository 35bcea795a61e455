"""Which program of a script gets the value of a variable as an argument, where everybody on the machine can read it."""

from __future__ import annotations

import re
from itertools import pairwise

_BUILT_IN = frozenset(
    ": . [ [[ alias break cd command continue echo eval exec exit export false local printf read readonly return set"
    " shift source test true type umask unset wait".split()
)
"""Commands that a shell carries out itself: no process begins, so no arguments can be read."""

_GRAMMAR = frozenset("if then elif else while until do ! { ( time".split())
_PIECE = re.compile(
    r"""\n|;|&&?|\|\|?|\$\(|[()`]|(?<!\\)\#[^\n]*|'[^']*'|"(?:\\.|[^"\\])*"|(?:\$(?!\()|[^\s;&|()`'"\#$])+|[ \t]+|.""",
    re.DOTALL,
)
_SEPARATORS = frozenset(("\n", ";", "&", "&&", "|", "||", "$(", "(", ")", "`"))
_HERE_DOCUMENT = re.compile(r"(<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n).*?^\s*\2$", re.DOTALL | re.MULTILINE)
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


def passed_on(script: str, variable: str) -> str | None:
    """The first program of a script that gets ``$variable`` among its arguments; None where none does. Words of the
    grammar, assignments and here-strings are no arguments."""
    wanted = re.compile(rf"\$(?:{re.escape(variable)}\b|\{{{re.escape(variable)}[}}:#%/,^])")
    for words in _commands(script):
        while words and (words[0] in _GRAMMAR or _ASSIGNED.match(words[0])):
            words.pop(0)
        if not words or words[0] in _BUILT_IN:
            continue
        for before, word in pairwise(words):
            single = word.startswith("'") and word.endswith("'")
            if wanted.search(word) and not single and before != "<<<" and not word.startswith(("<<<", ">", "<")):
                return words[0]
    return None


def _commands(script: str) -> list[list[str]]:
    """The words of each command, with their quotes."""
    commands: list[list[str]] = [[]]
    word = ""
    for piece in _PIECE.findall(_HERE_DOCUMENT.sub(r"\1", script.replace("\\\n", " "))):
        if piece in _SEPARATORS or not piece.strip() or (piece.startswith("#") and not word):
            if word:
                commands[-1].append(word)
                word = ""
            if piece in _SEPARATORS:
                commands.append([])
        else:
            word += piece
    if word:
        commands[-1].append(word)
    return commands
