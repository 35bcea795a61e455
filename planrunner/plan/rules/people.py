"""What a task leaves to people: instructions without an agent, programs in `command`, gates that cannot be met,
criteria in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.plan.commands.statements import looks_like_calls
from planrunner.plan.model import Criterion, FailureMode, Gate, Task
from planrunner.plan.rules.view import PlanView, span_of

_WAITS = "the run pauses there with exit code 8; use `run` or `uses` for work of a program, `agent` for work of a model"


def check(view: PlanView) -> Iterable[Diagnostic]:
    said = bool(view.outer) and all(not task.spans for task in view.plan.tasks)
    for task in view.plan.tasks:
        unsaid = view.refused and not task.command and not task.steps  # the key that was refused may say how
        if not task.uses and not said and not unsaid and _left_to_people(task):
            yield _instruction(task)
        if (
            task.id[-1:] == "*"
            and task.fanout is not None
            and not {"foreach", "matrix"} & {key for key, _ in task.spans}
        ):
            message = f"`{task.id}` has no `foreach`: a person is asked for its items"
            yield Diagnostic(
                "PLAN601", message, task.span, help="give them with `foreach: [one, two]` or an expression"
            )
        if task.gate is not None:
            yield from _unmet(task, task.gate)
        if task.expect or task.gate is not None or task.postconditions or task.preconditions:
            yield from _in_words(view, task)
        for mode in task.failure_modes:
            if mode.detect is not None and mode.detect.expression is None:
                yield _undetected(task, mode)


def _left_to_people(task: Task) -> bool:
    if task.run is not None or task.gate or task.loop or task.subplan_file:
        return False
    if task.command:
        return not looks_like_calls(task.command) and not names_program(
            task.command
        )  # one that does not parse is not an instruction either
    words = [step for step in task.steps if isinstance(step, str)]
    return len(words) == len(task.steps) and not (words and all(map(looks_like_calls, words)))


def _instruction(task: Task) -> Diagnostic:
    if task.command or task.steps:
        message = f"`{task.id}` is an instruction in plain words without an agent"
        return Diagnostic("PLAN601", message, span_of(task, "command", "subplan"), help=_WAITS)
    return Diagnostic("PLAN601", f"nothing says how `{task.id}` is done", task.span, help=_WAITS)


def _unmet(task: Task, gate: Gate) -> Iterable[Diagnostic]:
    """More decisions than there are people to make them; how many share a role only the operator knows."""
    for who, need, roles, key in (
        (gate.people, gate.need, gate.roles, "approvers"),
        (gate.escalate.people, gate.escalate.need, gate.escalate.roles, "escalate") if gate.escalate else _NOBODY,
    ):
        if who and not roles and need > len(set(who)):
            count = "1 person" if len(set(who)) == 1 else f"{len(set(who))} people"
            message = f"the gate `{task.id}` needs {need} approvals but names {count}"
            help_ = "name more of them, name a role, or lower `count`"
            yield Diagnostic("PLAN603", message, span_of(task, key, "gate"), help=help_)


_NOBODY: tuple[tuple[str, ...], int, tuple[str, ...], str] = ((), 0, (), "")


def _in_words(view: PlanView, task: Task) -> Iterable[Diagnostic]:
    """Criteria in plain words; those of an attempt may be said to be for the judge of the project."""
    groups = [
        ("expect", task.expect),
        ("postconditions", task.postconditions),
        ("preconditions", task.preconditions),
        ("checks", task.gate.checks if task.gate is not None else ()),
    ]
    for key, criteria in groups:
        for criterion in criteria:
            judged = view.judge if key in ("expect", "postconditions") else ""
            if criterion.expression is None and not (judged and _is_said(view, criterion)):
                yield _unverifiable(task, key, criterion, judged)


def _is_said(view: PlanView, criterion: Criterion) -> bool:
    """Whether the plan says by `judge:` that a criterion is meant to be words."""
    before = view.source.text[max(criterion.span.start - _BEFORE, 0) : criterion.span.start]
    return re.search(r"judge[\"']?\s*:[\s|>+-]*[\"']?$", before) is not None


_BEFORE = 80
"""So many characters before its words the key of a criterion is looked for."""


def _undetected(task: Task, mode: FailureMode) -> Diagnostic:
    span = mode.detect.span if mode.detect is not None and mode.detect.span.end else span_of(task, "failure_modes")
    message = f"`{mode.name}` is described in plain words: people see it, but it is not detected"
    return Diagnostic("PLAN701", message, span, help="an expression over the outcome detects it: `exit_code == 3`")


def _unverifiable(task: Task, key: str, criterion: Criterion, judged: str) -> Diagnostic:
    span = criterion.span if criterion.span.end else span_of(task, key)
    message = f"`{_shortened(criterion.text)}` is in plain words: only an LLM judge or a person can decide it"
    help_ = "the task waits for that; an expression is checked automatically, such as `exit_code == 0`"
    if judged:
        help_ = f"`{judged}` judges it; write `judge: …` if that is meant, or an expression such as `exit_code == 0`"
    return Diagnostic("PLAN701", message, span, help=help_)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:57] + "…"


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
