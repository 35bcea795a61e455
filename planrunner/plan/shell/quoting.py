"""Scripts with values: each ``{{ … }}`` becomes a reference to an environment variable that fits the quotes around it.

So a value reaches the command as data, whatever characters it holds: the shell expands the variable and never parses
what is in it. Where that cannot be done (inside backticks, arithmetic, code for another shell …) the script is refused.
The text is read the way ``sh`` and ``bash`` read it; a script without templates stays as it is, to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from planrunner.plan.expressions.values import EvaluationError, Problem, text_of
from planrunner.plan.model import Script
from planrunner.plan.shell.parse import parse
from planrunner.plan.shell.programs import DECLARING, SHELLS
from planrunner.plan.shell.tree import Part, Word
from planrunner.plan.shell.tree import Script as Tree
from planrunner.plan.templates import placeholders

Json: TypeAlias = "Any"

LARGEST_VALUE = 131_072
"""Bytes of one environment variable, name and end included: the kernel takes no more. The same holds for one argument,
such as the script of a shell."""


_EVALUATING = frozenset("eval let unset read declare typeset getopts mapfile readarray alias source . trap".split())
"""Built-in commands that evaluate an argument as code, as arithmetic or as the name of a variable."""
_NUMERIC = frozenset("-eq -ne -lt -le -gt -ge -v".split())
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


class ScriptError(Exception):
    """A script that cannot get its values safely, or a value that no environment variable can carry."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@lru_cache(maxsize=1024)
def compile_script(text: str, numbers: frozenset[str] = frozenset()) -> Script:
    """The script with its templates taken out; ``numbers`` as in ``parse``. Raises ScriptError for what ``problems``
    reports."""
    if too_long := _too_long(text):
        raise ScriptError(too_long[0].message)
    if "{{" not in text:
        return Script(text, (), simple_command(text))
    tree = parse(text, numbers=numbers)
    if refused := _refusals(text, tree):
        line = text.count("\n", 0, refused[0].start) + 1
        raise ScriptError(f"{refused[0].message} (line {line} of the script)")
    prefix, names, out, copied = _prefix(text), dict[str, str](), list[str](), 0
    for hole, form in tree.edits:
        template = text[hole.start : hole.end]
        name = names.setdefault(template, f"{prefix}{len(names)}") if form else ""
        out += [text[copied : hole.start], form.replace("@", name)]
        copied = hole.end
    values = tuple((name, template) for template, name in names.items())
    return Script("".join([*out, text[copied:]]), values, simple_command(text))


def problems(text: str, numbers: frozenset[str] = frozenset()) -> list[Problem]:
    """PLAN211 for every template of a script where a value cannot be passed safely, PLAN210 for one that is never
    closed, PLAN011 for a script that is too long for a shell; in that one nothing else is checked.

    Offsets count from the start of the script.
    """
    if too_long := _too_long(text):
        return too_long
    if "{{" not in text:
        return []
    return _refusals(text, parse(text, numbers=numbers))


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


def _refusals(text: str, tree: Tree) -> list[Problem]:
    way_out = "for two braces as text write `{{ '{{' }}`"
    unclosed = [
        Problem("PLAN210", "`{{` is never closed", hole.start, hole.start + 2, way_out)
        for hole in placeholders(text)
        if not hole.closed
    ]
    evaluated = [each for command in tree.commands if not command.apart for each in _evaluated(command.with_input)]
    return sorted([*tree.refusals, *evaluated, *unclosed], key=lambda problem: problem.start)


def _evaluated(words: list[Word]) -> Iterator[Problem]:
    """The templates of a command that it would evaluate."""
    if not any(word.holes for word in words):
        return
    start = 0
    while start < len(words) and (_ASSIGNMENT.match(words[start].text) or words[start].text in ("command", "builtin")):
        start += 1
    if start == len(words):
        return
    name, arguments = words[start].text.rpartition("/")[2], words[start + 1 :]
    texts = [word.text for word in arguments]
    if name in _EVALUATING or (name in ("printf", "test", "[") and "-v" in texts):
        yield from _refused(arguments, f"to `{name}`, which evaluates its arguments")
    elif name == "[[" and _NUMERIC & set(texts):
        yield from _refused(arguments, "to a numeric test in `[[ … ]]`, which evaluates it", "use `[ … ]` instead")
    elif name in DECLARING:
        unsafe = any(re.match(r"-\w*[inA]", text) for text in texts)
        declared = [word for word in arguments if unsafe or not _ASSIGNMENT.match(word.text)]
        yield from _refused(declared, f"to `{name}`")
    # `bash -c "…"` anywhere in the command, also behind `sudo` or `xargs`: its code takes no values
    for position, word in enumerate(words[start:], start):
        shell = word.text.rpartition("/")[2]
        if shell in SHELLS:
            for option, code in zip(words[position + 1 :], words[position + 2 :], strict=False):
                if re.fullmatch(r"-[A-Za-z]*c|--command", option.text):
                    way_out = f"pass it as an argument: `{shell} -c '… \"$1\" …' {shell} {{{{ … }}}}`"
                    yield from _refused([code], f"into code for `{shell} -c`", way_out)
                    break


def _refused(
    words: list[Word], where: str, way_out: str = "pass the value to a command that takes data"
) -> Iterator[Problem]:
    for hole in (hole for word in words for hole in word.holes):
        yield Problem("PLAN211", f"a value cannot be passed safely {where}", hole.start, hole.end, way_out)


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
            f" hand it over with `stdin: '{template}'`, or write it to a file first and pass the path"
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
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,@%^+=- \t")
_WORD = re.compile(r"[A-Za-z0-9_./:,@%^+=\]-]+")


def simple_command(text: str) -> tuple[str, ...] | None:
    """The words of a script that is one command of plain and quoted words, else None.

    None for anything a shell would act on: operators, expansions, patterns, assignments, built-in commands, several
    lines. Templates stay in the words as written, but not in the first: what runs is known before the run.
    """
    end = len(text.rstrip(" \t\n"))
    if "{%" in text or text.count("\n", end) > 1:
        return None
    words = tuple(text.split()) if _PLAIN.issuperset(text[:end]) else _plain_words(text, end)
    if not words or words[0] in _NEEDS_SHELL or "{{" in words[0] or "=" in words[0] or not words[0]:
        return None
    return words


def _plain_words(text: str, end: int) -> tuple[str, ...] | None:
    tree = parse(text)
    if len(tree.commands) != 1 or tree.beyond is not None or tree.refusals or "\\\n" in text:
        return None
    (command,) = tree.commands
    if command.leading or command.redirects or not all(word.parts for word in command.words):
        return None
    if text[: command.words[0].parts[0].at].strip(" \t") or command.words[-1].end != end:
        return None  # a comment or an operator
    if not all(_is_literal(part) for word in command.words for part in word.parts):
        return None
    return tuple(
        "".join(text[part.at : part.end] if part.kind == "hole" else part.text for part in word.parts)
        for word in command.words
    )


def _is_literal(part: Part) -> bool:
    """Whether a shell takes a part of a word as it is written."""
    return part.kind in ("quoted", "hole") or (part.kind == "plain" and _WORD.fullmatch(part.text) is not None)
