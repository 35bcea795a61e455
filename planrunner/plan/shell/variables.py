"""What a script hands on inside itself: through its variables, through ``$( … )``, through a pipe, from folder to
folder.

Values are followed by name and not by time: whatever a variable is given anywhere counts wherever it is read.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from planrunner.plan.shell.parse import parse
from planrunner.plan.shell.programs import CARRIERS, DECLARING, SHELLS
from planrunner.plan.shell.tree import Word
from planrunner.plan.taint.traits import STEERING
from planrunner.records import Struct

ASSIGNMENT = r"(?s)([A-Za-z_][A-Za-z0-9_]*)(?:\[.*\])?\+?="
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)[^}]*\})")
_DECLARING = DECLARING | frozenset(("declare", "typeset"))
_READING = frozenset("read mapfile readarray".split())
_MOST = 16
"""Values of one variable that are told apart; one that is given more counts as made of all that the script holds."""
_LONGEST = 400
"""Characters of a folder that a script changes to, step by step."""


def read_script(text: str) -> list[list[Word]]:
    """The words of every command of a script, what it reads by redirection included."""
    return [words for command in parse(text).commands if (words := command.with_input)]


_REDIRECTED = re.compile(r"(?:>>?\||>>?|\btee\s+(?:-a\s+)?)\s*([\"']?)([\w.][\w./-]*)\1(?![\w{$*?\[-])")


def redirected(text: str) -> Iterator[str]:
    """The files that a script names behind `>`, `>>` and `tee`: what it prints may lie in them."""
    if ">" in text or "tee" in text:
        yield from dict.fromkeys(match[2] for match in _REDIRECTED.finditer(text))


class Carried(Struct):
    """What a variable of a script may hold: the ``templates`` of values, one text after the other, and ``texts``, which
    are names of files, or of files whose content it is."""

    templates: str = ""
    texts: tuple[str, ...] = ()


def variables_of(found: list[list[Word]]) -> dict[str, Carried]:
    """The variables that a script sets, with what each was given, by way of others too."""
    given: dict[str, list[Word]] = {}
    for name, words in _assigned(found):
        given.setdefault(name, []).extend(words)
    if not given:
        return {}
    every = [word for words in found for word in words]
    whole = Carried(templates_of(every), tuple(dict.fromkeys(names_in(every))))
    return {name: _reached(name, given, whole) for name in given}


def _reached(name: str, given: dict[str, list[Word]], whole: Carried) -> Carried:
    """What a variable holds, a few steps back: one that goes through more counts as made of everything."""
    holes: dict[str, None] = {}
    texts: dict[str, None] = {}
    waiting, names, read = [name], {name}, 0
    for each in waiting:
        for word in given[each]:
            read += 1 + len(word.within)
            if read > _MOST:
                return whole
            body = re.sub(ASSIGNMENT, "", word.text, count=1)
            holes.update(dict.fromkeys(_bodies(word)))
            texts.update(dict.fromkeys(names_in([word])))
            texts[body] = None
            for inner in (word, *word.within):
                for found in _VARIABLE.finditer(inner.text):
                    other = found[1] or found[2]
                    if other in given and other not in names:
                        names.add(other)
                        waiting.append(other)
    return Carried("".join(holes), tuple(texts))


def _assigned(found: list[list[Word]]) -> Iterator[tuple[str, list[Word]]]:
    every: list[Word] | None = None
    for words in found:
        name = words[0].text
        declares = name in _DECLARING
        for word in words[declares:]:
            if assigned := re.match(ASSIGNMENT, word.text):
                yield assigned[1], [word]
            elif not declares:
                break
        if name == "for" and len(words) > 3:
            yield words[1].text, words[3:]
        elif name in _READING:
            every = [word for each in found for word in each] if every is None else every
            for word in words[1:]:
                if not word.text.startswith("-") and not word.holes:
                    yield word.text, every[: _MOST + 1]


def templates_of(words: Iterable[Word]) -> str:
    """The templates in words and in what gives parts of them, each once."""
    return "".join(dict.fromkeys(body for word in words for body in _bodies(word)))


def _bodies(word: Word) -> Iterator[str]:
    for each in (word, *word.within):
        for hole in each.holes:
            yield f"{{{{{hole.body}}}}}"


def names_in(words: Iterable[Word]) -> Iterator[str]:
    """The words in ``$( … )`` that may be the names of files whose content comes out of it."""
    for word in words:
        for inner in word.within:
            if not inner.holes and inner.text and not inner.text.startswith("-"):
                yield inner.text


def spelt(text: str, variables: dict[str, Carried]) -> tuple[str, ...]:
    """The names that the word of a file may come to, with the variable in it filled in."""
    match = _VARIABLE.search(text)
    values = variables.get(match[1] or match[2]) if match else None
    if match is None or values is None:
        return (text,)
    return (text, *(text[: match.start()] + value + text[match.end() :] for value in values.texts if value))


def folders(found: list[list[Word]]) -> Iterator[tuple[list[Word], tuple[str, ...]]]:
    """Each command with the folders in which it may run: that of the task, and where the script went before."""
    here: tuple[str, ...] = ()
    for words in found:
        yield words, ("", *here)
        if os.path.basename(words[0].text) in ("cd", "pushd") and len(words) > 1 and not words[-1].holes:
            last = words[-1].text
            onward = posixpath.join(here[0], last) if here else last
            here = tuple(dict.fromkeys((posixpath.normpath(onward), last) if len(onward) < _LONGEST else (last,)))


_FAMILIES = re.compile(
    r"CDPATH|IFS|GCONV_PATH|BASH\w*|LD_\w*|DYLD_\w*|GIT_\w*|PYTHON\w*|PERL\w*|RUBY\w*|NODE_\w*|SHELL\w*"
)
"""Variables that are not told apart here: of these families some steer, others do not."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[.*\])?\+?=", re.DOTALL)
_HANDING_ON = CARRIERS | DECLARING | frozenset(("declare", "typeset"))


def steers(name: str) -> bool:
    """Whether a variable makes commands run something else than they say."""
    return (STEERING.fullmatch(name) or _FAMILIES.fullmatch(name)) is not None


def steered(names: Iterable[str]) -> str:
    """The first of some variables that makes commands others; empty where none does."""
    return next(filter(steers, names), "")


def set_in(run: str | Sequence[str] | None, shell: str = "") -> Iterator[str]:
    """The variables that a script, or a program with its arguments, sets where that can be read: before a command
    (``NAME=x make``), by ``export`` and the like, and by what hands them on to another program (``env NAME=x make``).
    Scripts for other interpreters set none."""
    if isinstance(run, str):
        if any(os.path.basename(word) in SHELLS for word in (shell or "sh").split()):
            for words in read_script(run):
                yield from _set_by([word.text for word in words])
    elif run:
        yield from _set_by(list(run))


def _set_by(words: list[str]) -> Iterator[str]:
    at = 0
    while at < len(words) and (match := _ASSIGNMENT.match(words[at])):
        yield match[1]
        at += 1
    if at < len(words) and os.path.basename(words[at]) in _HANDING_ON:
        yield from (match[1] for word in words[at + 1 :] if (match := _ASSIGNMENT.match(word)))
