"""Commands that are programs: `command` is for calls and for instructions in plain words, `run` starts programs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.plan.rules.view import PlanView, span_of

PROGRAM_CODES = ("PLAN609",)

_PROGRAMS = frozenset(
    "ansible ansible-playbook apt apt-get aws awk az bash brew bundle cargo cat cd chmod chown clang cmake composer "
    "conda cp curl deno df docker docker-compose dotnet du env export flake8 flutter g++ gcc gcloud gem gh git gradle "
    "grep gunzip gzip helm java javac jq kubectl ls mkdir mv mvn mypy mysql mysqldump ninja node npm npx nvm php pip "
    "pip3 pipx pnpm podman poetry pre-commit psql pwd pytest python python3 rake redis-cli rm rmdir rsync ruby ruff "
    "rustc scp sed sh sqlite3 ssh sudo systemctl tar terraform tofu tox tsc uname unzip uv uvx vite wget xargs yarn zsh"
    "".split()
)
"""First words that begin no sentence."""
_VERBS = frozenset(
    "black bazel cut date dig echo find go host install just kill ln make meson nice nox open ping printf seq sleep "
    "sort source split swift tail task tee test time touch tr watch zip".split()
)
"""Programs that are words as well: what follows decides."""
_ARGUMENT = re.compile(r"-\w|--\w|\S*[/*=$]\S*|\.{1,3}|\S+\.[a-z]{1,4}")
_OPERATOR = re.compile(r"\s(?:&&|\|\||\||>>?|2>&1)\s")
_TARGET = re.compile(r"[a-z][a-z0-9_-]*")


def check_programs(view: PlanView) -> Iterable[Diagnostic]:
    for task in view.plan.tasks:
        if task.command and not task.uses and names_program(task.command):
            span = span_of(task, "command")
            first = task.command.split()[0]
            message = f"`{task.id}` is carried out by a person, though its `command` looks like the program `{first}`"
            written = view.source.text[span.start : span.end] == "command"
            fix = Fix("rename `command` to `run`", (Edit(span, "run"),), safe=False) if written else None
            help_ = "write `run` to start a program; `command` is for calls of capabilities and for plain words"
            yield Diagnostic("PLAN609", message, span, help=help_, fix=fix)


def names_program(command: str) -> bool:
    """Whether a command looks like a line for a shell, by its first word and what follows; nothing is looked up."""
    words = command.split()
    if not words or words[0][-1:] in ",:;":
        return False
    first, rest = words[0], words[1:]
    if first in _PROGRAMS or re.match(r"\.{1,2}/\w|/(?:bin|usr|opt)/", first):
        return True
    if first not in _VERBS:
        return False
    if _OPERATOR.search(command) or any(_ARGUMENT.fullmatch(word) or word.startswith("-") for word in rest):
        return True
    return first in ("make", "just", "task", "nox") and len(rest) <= 1 and all(map(_TARGET.fullmatch, rest))
