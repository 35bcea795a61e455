"""Which programs a script starts itself, as far as its text tells; what these start in turn nobody sees here."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planrunner.capabilities.shell import POSIX_SHELLS
from planrunner.plan.model import Action, Task
from planrunner.plan.shellwords import simple_command

_WORDS = frozenset(
    # what a shell does by itself, and what only leads to a command
    "! : [ [[ { } ( ) alias break case cd continue declare do done echo elif else esac exit export false fi for"
    " function getopts hash if in let local popd printf pushd pwd read readonly return select set shift shopt test"
    " then time times trap true type typeset ulimit umask unalias unset until wait while".split()
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_HERE = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_PARTS = re.compile(
    r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|#[^\n]*|\$\(\((?:[^()]|\([^()]*\))*\)\)|\$\{[\w#!@*?$-](?:[^{}]|\{[^}]*\})*\}"
    r"|\d*[<>]&[\d-]*|&>>?|\$\(|`|&&|\|\||[;&|\n(){}]|[^\s;&|(){}'\"`\\$#<>]+|\s+|.",
    re.DOTALL,
)
_REDIRECTION = re.compile(r"\d*[<>]&[\d-]*|&>>?")
_INSIDE = re.compile(r"\$\((?!\()([^)]*)|`([^`]*)`")
_BREAKS = frozenset(("$(", "`", "&&", "||", ";", "&", "|", "\n", "(", ")", "{", "}"))


def programs(each: Task | Action, shell: str = "") -> list[str]:
    """The programs that a task or an action names, in the order of the text, each once; a script for another
    interpreter is that interpreter alone."""
    run = each.run
    if not run:
        return []
    if isinstance(run, tuple):
        return [str(run[0])]
    interpreter = shell.split(maxsplit=1)[0] if shell.split() else "sh"
    if interpreter.rpartition("/")[2] not in POSIX_SHELLS:
        return [interpreter]
    if simple := simple_command(run):
        return [simple[0]]
    script = _TEMPLATE.sub("VALUE", _without_documents(run))
    return list(dict.fromkeys((interpreter, *_commands(script))))


def _without_documents(script: str) -> str:
    """The script without the text of its here-documents."""
    kept, ends = [], ""
    for line in script.split("\n"):
        if ends:
            ends = "" if line.strip() == ends else ends
            continue
        kept.append(line)
        found = _HERE.search(line)
        ends = found[2] if found else ""
    return "\n".join(kept)


def _commands(script: str) -> Iterator[str]:
    """The first word of each command, also of those inside others."""
    first, word = True, ""
    for part in (*(match[0] for match in _PARTS.finditer(script)), "\n"):
        if part in _BREAKS or part.isspace():
            if first and word and not _ASSIGNMENT.match(word):
                if word not in _WORDS:
                    yield word
                first = word in ("!", "{", "do", "else", "elif", "if", "then", "time", "until", "while")
            first, word = first or part in _BREAKS, ""
        elif not part.startswith("#") and not _REDIRECTION.fullmatch(part):
            word += part
            for inner in _INSIDE.finditer(part) if part.startswith(('"', "${", "$((")) else ():
                yield from _commands(inner[1] or inner[2] or "")
