"""Tasks that call for a gate by their label or by what they do, and that no gate stands before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from planrunner.diagnostics import Diagnostic
from planrunner.plan.graph import Graph
from planrunner.plan.holding import inner
from planrunner.plan.judging import commands_of, judged
from planrunner.plan.model import Task
from planrunner.plan.rights import Level, texts
from planrunner.plan.rules.view import PlanView, every_task, find_word, span_of
from planrunner.source import Span

UNGATED_CODES = ("PLAN610",)

_LABELS = frozenset("prod production data-deletion large-spend schema-migration".split())
"""Labels of work that people decide about in most teams."""

_MAIN = r"(?:refs/heads/)?(?:main|master|trunk|prod|production|release(?:/.*)?)"
_PUSHES = rf"-f|--force(?:-with-lease.*)?|--mirror|--delete|-d|\+.*|(?:.*:)?{_MAIN}"
"""Arguments of `git push` that replace or remove commits, or that name a branch that others build upon."""
_LOSING = re.compile(r"(?i)^\s*(?:drop\s+(?:table|database|schema)|truncate)\b", re.MULTILINE)
_PROGRAMS = re.compile(r"\b(?:git|kubectl|helm|terraform|tofu|dropdb)\b")
_COMMANDS = (
    ("git push", _PUSHES),
    ("kubectl delete", ""),
    ("helm uninstall", ""),
    ("terraform destroy", ""),
    ("tofu destroy", ""),
    ("dropdb", ""),
)


class _Reason(NamedTuple):
    """What calls for a gate, and the label that says so."""

    what: str
    label: str = ""


class _Above(NamedTuple):
    """What the tasks of a graph are held to: the labels for which a policy demands a gate, and its levels."""

    labels: frozenset[str]
    levels: tuple[Level, ...]


def check_ungated(view: PlanView) -> Iterable[Diagnostic]:
    if not view.whole:
        return
    reasons = {id(task): found for task in every_task(view.plan.tasks) if (found := _reason(task, view)) is not None}
    if reasons:
        own = Level("the plan", view.plan.policy)
        labels = {label for level in view.levels for label in _labels(level.data)}
        above = _Above(frozenset(labels | dict(view.plan.gated).keys()), (*view.levels, own))
        yield from _Walk(view, reasons).level(view.plan.tasks, above, None)


def _labels(policy: object) -> Iterator[str]:
    """The labels for which a policy demands a gate."""
    if isinstance(policy, dict):
        for key in ("labels", "gates"):
            yield from map(str, policy.get(key) or ())
        if policy.get("requireGateForProd") is True:
            yield "prod"


class _Walk:
    def __init__(self, view: PlanView, reasons: dict[int, _Reason]) -> None:
        self._view = view
        self._reasons = reasons
        self._seen: set[int] = set()

    def level(self, tasks: tuple[Task, ...], above: _Above, owner: Task | None) -> Iterator[Diagnostic]:
        """The tasks of one graph; ``owner`` is the task of this file whose linked plan they stand in."""
        graph: Graph | None = None
        for here, task in enumerate(tasks):
            inside, reason = inner(task), self._reasons.get(id(task))
            if reason is None and not inside:
                continue
            graph = graph or Graph(self._view.plan._replace(tasks=tasks))
            around = above._replace(levels=(*above.levels, Level(f"task {task.id}", task.policy)))
            if _asks_people(task) or any(_decides(tasks[there]) for there in graph.upstream(here)):
                continue
            if reason is not None and not _is_asked(task, around):
                yield self._finding(task, reason, owner)
            if inside and id(inside) not in self._seen:
                self._seen.add(id(inside))
                linked = task.sub is not None and bool(task.sub.file)
                gates = dict(task.sub.gated) if task.sub is not None else {}
                below = around._replace(labels=around.labels | gates.keys())
                yield from self.level(inside, below, owner or (task if linked else None))

    def _finding(self, task: Task, reason: _Reason, owner: Task | None) -> Diagnostic:
        place = span_of(owner, "subplan") if owner is not None else self._place(task, reason)
        name = f"{owner.id}/{task.id}" if owner is not None else task.id
        return Diagnostic("PLAN610", f"`{name}` {reason.what}, and no gate stands before it", place, help=_HELP)

    def _place(self, task: Task, reason: _Reason) -> Span:
        return find_word(self._view, task, reason.label, "labels") if reason.label else span_of(task, "uses", "run")


_HELP = (
    "put a task with `gate: approval` among its `needs`, or demand one for its label: "
    '`policy: {gates: {LABEL: {ask: "…"}}}`'
)


def _decides(task: Task) -> bool:
    """Whether a task that runs before is a gate, or has criteria in words, which people decide."""
    criteria = (*task.preconditions, *task.postconditions, *task.expect)
    return task.gate is not None or any(each.expression is None for each in criteria)


def _asks_people(task: Task) -> bool:
    """Whether people decide about words before the task starts."""
    return any(each.expression is None for each in task.preconditions)


def _is_asked(task: Task, above: _Above) -> bool:
    """Whether the policy asks about the task, by its label or by what it does."""
    if not above.labels.isdisjoint(task.labels):
        return True
    levels = [level for level in above.levels if isinstance(level.data, dict)]
    return any(right.verdict != "allow" for _, right in judged(levels, task))


def _reason(task: Task, view: PlanView) -> _Reason | None:
    """What of a task calls for a gate; nothing of a gate, and nothing of what only reads."""
    capability = view.capabilities.get(task.uses) if task.uses else None
    if task.gate is not None or (capability is not None and capability.effect in ("pure", "read")):
        return None
    for label in task.labels:
        if re.sub(r"[\s_]+", "-", label.strip().lower()) in _LABELS:
            return _Reason(f"has the label `{label}`", label)
    inputs = task.inputs if isinstance(task.inputs, dict) else {}
    if task.uses == "git.push":
        return _push(inputs)
    if task.uses == "http.delete":
        return _Reason("deletes what nothing takes back (`http.delete`)")
    if task.uses == "sql.execute":
        statements = [text for value in inputs.values() for text in texts(value)]
        found = next((match[0] for text in statements if (match := _LOSING.search(text))), "")
        return _Reason(f"deletes what nothing takes back (`{' '.join(found.split())}`)") if found else None
    return _command(task)


def _push(inputs: dict[str, Any]) -> _Reason | None:
    target = str(inputs.get("to") or inputs.get("ref") or "")
    if inputs.get("force") is True:
        return _Reason("may replace commits of others (`git.push` with `force`)")
    return _Reason(f"pushes to `{target}`") if re.fullmatch(_MAIN, target) else None


def _command(task: Task) -> _Reason | None:
    text = task.run if isinstance(task.run, str) else " ".join(task.run or ())
    if not _PROGRAMS.search(text):
        return None
    for words in commands_of(task.run, task.shell)[0] or ():
        for name, arguments in _COMMANDS:
            head = name.split()
            rest = words[len(head) :]
            fits = list(words[: len(head)]) == head and not any(word.startswith("--dry-run") for word in rest)
            if fits and (not arguments or any(re.fullmatch(arguments, word) for word in rest)):
                return _Reason(f"runs `{' '.join(words)[:60]}`")
    return None
