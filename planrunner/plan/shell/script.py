"""Scripts with values: each ``{{ … }}`` becomes a reference to an environment variable that fits the quotes around it.

So a value reaches the command as data, whatever characters it holds: the shell expands the variable and never parses
what is in it. Where that cannot be done (inside backticks, arithmetic, code for another shell …) the script is refused.
The text is read the way ``sh`` and ``bash`` read it; a script without templates stays as it is, to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from planrunner.plan.expressions.values import EvaluationError, Problem, text_of
from planrunner.plan.model import Script
from planrunner.plan.shell.scan import Scan
from planrunner.plan.templates import placeholders

Json: TypeAlias = "Any"

LARGEST_VALUE = 131_072
"""Bytes of one environment variable, name and end included: the kernel takes no more. The same holds for one argument,
such as the script of a shell."""


class ScriptError(Exception):
    """A script that cannot get its values safely, or a value that no environment variable can carry."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@lru_cache(maxsize=1024)
def compile_script(text: str) -> Script:
    """The script with its templates taken out. Raises ScriptError for what ``problems`` reports."""
    if too_long := _too_long(text):
        raise ScriptError(too_long[0].message)
    if "{{" not in text:
        return Script(text, (), simple_command(text))
    scan = _scanned(text, _prefix(text))
    found = _found(text, scan)
    if found:
        line = text.count("\n", 0, found[0].start) + 1
        raise ScriptError(f"{found[0].message} (line {line} of the script)")
    return Script(scan.result(), tuple((name, template) for template, name in scan.names.items()), simple_command(text))


def problems(text: str) -> list[Problem]:
    """PLAN211 for every template of a script where a value cannot be passed safely, PLAN210 for one that is never
    closed, PLAN011 for a script that is too long for a shell; in that one nothing else is checked.

    Offsets count from the start of the script.
    """
    if too_long := _too_long(text):
        return too_long
    if "{{" not in text:
        return []
    return _found(text, _scanned(text, "PR_"))


def environment(script: Script, rendered: Mapping[str, Json]) -> dict[str, str]:
    """The environment variables of a script; ``rendered`` holds the rendered value of each name in ``script.values``.

    A list or a map arrives as JSON in one word: it is never split. Raises ScriptError for a value with a NUL character,
    one that is not text, and one larger than 128 KiB.
    """
    return {name: _carried(name, template, rendered[name]) for name, template in script.values}


def _too_long(text: str) -> list[Problem]:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size < LARGEST_VALUE:
        return []
    message = f"the script has {size:,} bytes, the limit is {LARGEST_VALUE:,}"
    return [Problem("PLAN011", message, 0, 1, "put it into a file of the project and run that")]


def _found(text: str, scan: Scan) -> list[Problem]:
    way_out = "for two braces as text write `{{ '{{' }}`"
    unclosed = [
        Problem("PLAN210", "`{{` is never closed", found.start, found.start + 2, way_out)
        for found in placeholders(text)
        if not found.closed
    ]
    return sorted([*scan.problems, *unclosed], key=lambda problem: problem.start)


def _scanned(text: str, prefix: str) -> Scan:
    scan = Scan(text, prefix)
    scan.run()
    return scan


def _carried(name: str, template: str, value: Json) -> str:
    try:
        text = text_of(value)
        size = len(text.encode("utf-8", "surrogateescape"))
    except (EvaluationError, UnicodeEncodeError) as error:
        raise ScriptError(f"the value of `{template}` cannot be written as text: {error}") from error
    if "\0" in text:
        raise ScriptError(f"the value of `{template}` holds a NUL character, which no argument of a command can carry")
    if size + len(name) + 2 > LARGEST_VALUE:
        raise ScriptError(
            f"the value of `{template}` has {size:,} bytes, the limit is {LARGEST_VALUE:,}:"
            " write it to a file first and pass the path"
        )
    return text


def _prefix(text: str) -> str:
    """What the variables begin with; longer where the script itself uses such names."""
    prefix = "PR_"
    while re.search(rf"{prefix}[0-9]", text):
        prefix = prefix[:-1] + "V_"
    return prefix


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
