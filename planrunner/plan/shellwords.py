"""Scripts that are one plain command: their words, so that the program can be started without a shell."""

from __future__ import annotations

import re

from planrunner.plan.placeholders import placeholders

_NEEDS_SHELL = frozenset(
    # words of the grammar, built-in commands of sh and bash, and what changes the shell itself
    ". : ! [ [[ { } alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc"
    " declare dirs disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts"
    " hash help history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return"
    " select set shift shopt source suspend test then time times trap true type typeset ulimit umask unalias unset"
    " until wait while".split()
)
_BLANK = " \t"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,@%^+=- \t")
_WORD = r"[A-Za-z0-9_./:,@%^+=\]-]+"
_SINGLE = r"'([^']*)'"


def simple_command(text: str) -> tuple[str, ...] | None:
    """The words of a script that is one command of plain and quoted words, else None.

    None for anything a shell would act on: operators, expansions, patterns, assignments, built-in commands, several
    lines. Templates stay in the words as written, but not in the first: what runs is known before the run.
    """
    if "{%" in text:
        return None
    holes = _holes(text) if "{{" in text else {}
    end = len(text.rstrip(" \t\n"))
    if len(text) - end > 1 and text[end:].count("\n") > 1:
        return None
    words = tuple(text.split()) if _PLAIN.issuperset(text[:end]) else _words(text, end, holes)
    if not words or words[0] in _NEEDS_SHELL or "{{" in words[0] or "=" in words[0] or not words[0]:
        return None
    return words


def _holes(text: str) -> dict[int, int]:
    return {found.start: found.end for found in placeholders(text) if found.closed}


def _words(text: str, end: int, holes: dict[int, int]) -> tuple[str, ...] | None:
    words: list[str] = []
    at = 0
    while at < end:
        if text[at] in _BLANK:
            at += 1
            continue
        word, at = _word(text, at, end, holes)
        if word is None:
            return None
        words.append(word)
    return tuple(words)


def _word(text: str, at: int, end: int, holes: dict[int, int]) -> tuple[str | None, int]:
    """One word and the offset behind it; None where a shell has to read it."""
    parts: list[str] = []
    while at < end and text[at] not in _BLANK:
        if at in holes:
            parts.append(text[at : holes[at]])
            at = holes[at]
            continue
        if text[at] == '"':
            part, at = _double(text, at, end, holes)
            if part is None:
                return None, at
            parts.append(part)
            continue
        quoted = re.compile(_SINGLE).match(text, at, end)
        plain = quoted or re.compile(_WORD).match(text, at, end)
        if plain is None:
            return None, at
        parts.append(plain[1] if quoted else plain[0])
        at = plain.end()
    return "".join(parts), at


def _double(text: str, at: int, end: int, holes: dict[int, int]) -> tuple[str | None, int]:
    start = at = at + 1
    while at < end:
        if at in holes:
            at = holes[at]
        elif text[at] == '"':
            return text[start:at], at + 1
        elif text[at] in "$`\\":
            return None, at
        else:
            at += 1
    return None, at
