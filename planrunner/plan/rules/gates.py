"""Gates that are missing, mute, decided by too few people, or whose rejection stops nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from planrunner.diagnostics import Diagnostic, Label
from planrunner.later import Later
from planrunner.plan.graph import Graph
from planrunner.plan.model import Approvers, Edge, Gate, Task
from planrunner.plan.nearest import nearest
from planrunner.plan.rights import Level, texts
from planrunner.plan.rules.view import PlanView, every_task, find_word, label_of_no_task, names, span_of
from planrunner.plan.tasks import inner
from planrunner.records import Struct
from planrunner.source import Span

if TYPE_CHECKING:
    from planrunner.plan.policy_checks import commands_of, judged
else:
    commands_of = Later("planrunner.plan.policy_checks:commands_of")
    judged = Later("planrunner.plan.policy_checks:judged")


LABELS = frozenset("prod production data-deletion large-spend schema-migration".split())
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


class _Reason(Struct):
    """What calls for a gate, and the label that says so."""

    what: str
    label: str = ""


class _Above(Struct):
    """What the tasks of a graph are held to: the labels for which a policy demands a gate, and its levels."""

    labels: frozenset[str]
    levels: tuple[Level, ...]


def check_ungated(view: PlanView) -> Iterable[Diagnostic]:
    if not view.whole:
        return
    reasons = {id(task): found for task in every_task(view.plan.tasks) if (found := _reason(task, view)) is not None}
    if reasons:
        own = Level("the plan", view.plan.policy)
        labels = {label for level in view.levels for label in gated_labels(level.data)}
        above = _Above(frozenset(labels | dict(view.plan.gated).keys()), (*view.levels, own))
        yield from _Walk(view, reasons).level(view.plan.tasks, above, None)


def gated_labels(policy: object) -> Iterator[str]:
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
        return Diagnostic("PLAN610", f"`{name}` {reason.what}, but no gate comes before it", place, help=_HELP)

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


def spelt(label: str) -> str:
    """A label in the spelling of those that are usual."""
    return re.sub(r"[\s_]+", "-", label.strip().lower())


def _reason(task: Task, view: PlanView) -> _Reason | None:
    """What of a task calls for a gate; nothing of a gate, and nothing of what only reads."""
    capability = view.capabilities.get(task.uses) if task.uses else None
    if task.gate is not None or (capability is not None and capability.effect in ("pure", "read")):
        return None
    for label in task.labels:
        if spelt(label) in LABELS:
            return _Reason(f"has the label `{label}`", label)
    inputs = task.inputs if isinstance(task.inputs, dict) else {}
    if task.uses == "git.push":
        return _push(inputs)
    if task.uses == "http.delete":
        return _Reason("deletes irreversibly (`http.delete`)")
    if task.uses == "sql.execute":
        statements = [text for value in inputs.values() for text in texts(value)]
        found = next((match[0] for text in statements if (match := _LOSING.search(text))), "")
        return _Reason(f"deletes irreversibly (`{' '.join(found.split())}`)") if found else None
    return _command(task)


def _push(inputs: dict[str, Any]) -> _Reason | None:
    target = str(inputs.get("to") or inputs.get("ref") or "")
    if inputs.get("force") is True:
        return _Reason("may overwrite commits of others (`git.push` with `force`)")
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


_BY_PEOPLE = frozenset({"approval", "decision"})


def check_labels(view: PlanView) -> Iterable[Diagnostic]:
    if not view.plan.gated or not view.whole:
        return
    tasks = list(every_task(view.plan.tasks))
    elsewhere = any(task.subplan_file and task.sub is None for task in tasks)  # labels that are not known here
    labels = list(dict.fromkeys(label for task in tasks for label in task.labels))
    for label, gate in view.plan.gated:
        if label not in labels:
            if not elsewhere and _is_named(view, label):
                message = f"the gate for the label `{label}` has no effect: no task has that label"
                yield label_of_no_task(view, ("PLAN606", message, label_place(view, label)), label, labels)
        elif _is_mute(gate):
            yield _mute(view, label)


def _is_named(view: PlanView, label: str) -> bool:
    """Whether the policy names the label itself; `requireGateForProd` stands in plans that deploy nothing as well."""
    policy = view.plan.policy if isinstance(view.plan.policy, dict) else {}
    named = [policy.get(key) for key in ("gates", "labels")]
    return any(isinstance(labels, (dict, list, tuple, str)) and label in labels for labels in named)


def _is_mute(gate: Gate) -> bool:
    """Whether people are asked and nothing is said or shown but the call."""
    asks = gate.kind in _BY_PEOPLE or gate.roles or gate.people
    return bool(asks) and not (gate.ask or gate.options or gate.form or gate.checks or gate.evidence)


def _mute(view: PlanView, label: str) -> Diagnostic:
    message = f"the gate for the label `{label}` has no question: approvers see only the call"
    help_ = f'state the question: `gates: {{{label}: {{ask: "…"}}}}`'
    return Diagnostic("PLAN605", message, label_place(view, label), help=help_)


def label_place(view: PlanView, label: str) -> Span:
    """Where a label stands under `gates` or `labels` of the policy, else the word that demands a gate for it, else the
    plan's name."""
    text = view.source.text
    policy = re.search(r"(?m)(?:^|[{,])\s*[\"']?polic(?:y|ies)[\"']?\s*:", text)
    if policy is None:
        return view.plan.span
    word = re.compile(rf"(?<![\w-]){re.escape(label)}(?![\w-])")
    lists = re.compile(r"[\"']?\b(?:gates|labels)[\"']?\s*:")
    places = [word.search(text, key.end()) for key in lists.finditer(text, policy.end())]
    first = min((match.span() for match in places if match is not None), default=None)
    if _is_named(view, label) and first is not None:
        return Span(*first)
    at = text.find("requireGateForProd", policy.end())
    return Span(at, at + len("requireGateForProd")) if at >= 0 else view.plan.span


Place = Callable[[str], Span]
"""Where a role stands in the text."""


def check_approvers(view: PlanView) -> Iterable[Diagnostic]:
    if view.people is None:
        return
    for task in view.plan.tasks:
        for key, asked in _asked(task.gate):
            yield from _unmet(view, asked, f"the gate `{task.id}`", partial(_in_task, view, task, key))
    if view.whole:
        for label, gate in view.plan.gated:
            for _, asked in _asked(gate):
                yield from _unmet(view, asked, f"the gate for the label `{label}`", partial(_in_policy, view, label))


def _asked(gate: Gate | None) -> Iterable[tuple[str, Approvers]]:
    if gate is not None:
        yield "approvers", Approvers(gate.roles, gate.people, gate.need)
        if gate.escalate is not None:
            yield "escalate", gate.escalate


def _in_task(view: PlanView, task: Task, key: str, role: str) -> Span:
    return find_word(view, task, role, key, "gate") if role else span_of(task, key, "gate")


def _in_policy(view: PlanView, label: str, role: str) -> Span:
    return label_place(view, label)


def _unmet(view: PlanView, asked: Approvers, whose: str, place: Place) -> Iterable[Diagnostic]:
    """Roles without a user, or fewer people with one of them than have to agree."""
    staff = view.people or {}
    known = list(dict.fromkeys(role for roles in staff.values() for role in roles))
    lacking = [role for role in asked.roles if role not in known]
    for role in lacking:
        close = nearest(role, known)
        message = f"{whose} requires the role `{role}`, which no user of the project has"
        help_ = (
            f"did you mean `{close}`?" if close else f"`people` in planrunner.yaml gives {names(known) or 'no roles'}"
        )
        yield Diagnostic("PLAN607", message, place(role), help=help_)
    able = {name for name, roles in staff.items() if set(roles) & set(asked.roles)} | set(asked.people)
    if asked.roles and not lacking and len(able) < asked.need:
        count = "1 person" if len(able) == 1 else f"{len(able)} people"
        message = f"{whose} needs {asked.need} approvals, but only {count} may approve: {names(sorted(able))}"
        yield Diagnostic("PLAN607", message, place(""), help="give the role to more people, or lower `count`")


_OF_PEOPLE = ("approval", "decision")
"""Kinds of gates that people decide."""


def check_rejections(view: PlanView) -> Iterable[Diagnostic]:
    for here, task in enumerate(view.plan.tasks):
        if task.gate is None or task.gate.kind not in _OF_PEOPLE:
            continue
        edge = next((edge for edge in task.edges if _lets_through(view, edge)), None)
        if not task.allow_failure and edge is None:
            continue
        follower = next((each for each in _followers(view, here) if not _asks_decision(each, task.id)), None)
        if follower is not None:
            yield _finding(task, follower, edge)


def _lets_through(view: PlanView, edge: Edge) -> bool:
    """Whether a task that is not decided by people stands in for the gate that was rejected."""
    target = view.graph.find(edge.target)
    if not edge.recovers or edge.failure_class not in ("", "rejected") or target < 0:
        return False
    gate = view.graph.tasks[target].gate
    return gate is None or gate.kind not in _OF_PEOPLE


def _followers(view: PlanView, here: int) -> Iterable[Task]:
    return (view.graph.tasks[there] for there in view.graph.dependents[here])


def _asks_decision(task: Task, gate: str) -> bool:
    """Whether a task asks how the gate was decided before it starts."""
    read = [path[1:] for path in task.when.paths if path[0] == "tasks"] if task.when is not None else []
    if task.join.expression is not None:
        read += [path[1:] if path[0] == "tasks" else path for path in task.join.expression.paths]
    return any(path[:1] == (gate,) and path[1:2] != ("done",) for path in read)


def _finding(task: Task, follower: Task, edge: Edge | None) -> Diagnostic:
    label = Label(follower.span, f"`{follower.id}` needs `{task.id}`")
    if task.allow_failure:
        message = f"the rejection of `{task.id}` has no effect: with `allow_failure` `{follower.id}` runs anyway"
        help_ = f"leave it out, or ask in `{follower.id}`: `when: tasks.{task.id}.completed`"
        return Diagnostic("PLAN611", message, span_of(task, "allow_failure"), labels=(label,), help=help_)
    assert edge is not None
    message = f"the rejection of `{task.id}` has no effect: `{edge.target}` replaces it and `{follower.id}` runs"
    help_ = "leave `recovers` out, lead to another approval, or send the work back: `on_reject: {rework: TASK, max: 2}`"
    span = edge.span if edge.span.end else span_of(task, "on_failure", "next")
    return Diagnostic("PLAN611", message, span, labels=(label,), help=help_)
