"""Every need, edge and rework names a task of the plan, and every outcome and failure class is one that occurs."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Edit, Fix, Label
from planrunner.plan.model import Artifact, Reject, Task
from planrunner.plan.nearest import nearest
from planrunner.plan.rules.unused import without_effect
from planrunner.plan.rules.view import PlanView, find_default, find_text, find_word, names, region_of
from planrunner.plan.tasks import size
from planrunner.source import Span

CLASSES = (
    *("transient", "logic", "policy", "timeout", "stalled", "interrupted", "precondition", "rejected", "expired"),
    *("budget", "doubt", "exhausted", "breaker", "cancelled"),
)
"""The failure classes of planrunner itself. Failure modes name their own, and so may plugins."""


def check(view: PlanView) -> Iterable[Diagnostic]:
    yield from _earlier(view)
    if view.plan.artifacts and not view.outer:
        yield from _artifacts(view)
    index, known = view.positions, view.graph.needs
    for here, task in enumerate(view.plan.tasks):
        for name in task.needs if len(known[here]) < len(task.needs) else ():
            if name not in index and view.graph.find(name) < 0:
                yield _undefined(view, name, find_word(view, task, name, "needs"), "need")
        for edge in task.edges:
            if edge.target not in index and view.graph.find(edge.target) < 0:
                keys = ("on_success", "on_failure", "next", "failure_modes")
                span = edge.span if edge.span.end else find_word(view, task, edge.target, *keys)
                yield _undefined(
                    view, edge.target, _inside(view, edge.target, span), "rework" if edge.rework else "edge"
                )
        if task.gate is not None and task.gate.on_reject.target:
            yield from _rework(view, task, task.gate.on_reject)
        if task.retry.on or task.edges:
            yield from _classes(view, task)


def _classes(view: PlanView, task: Task) -> Iterable[Diagnostic]:
    """Failure classes and outcomes that look like a misspelt one: nothing ever fails with such a class."""
    modes = tuple(mode.name for mode in task.failure_modes)
    retried: tuple[str, ...] = (*CLASSES, "any")
    outcomes: tuple[str, ...] = (*CLASSES, "success", "failure", "always")
    named = [(each, "retry", retried) for each in task.retry.on]
    named += [(edge.failure_class, "next", outcomes) for edge in task.edges if edge.failure_class]
    for name, key, known in named:
        close = None if name in known or name in modes else nearest(name, (*known, *modes))
        if close is None:
            continue
        keys = (key,) if key == "retry" else ("next", "on_failure", "failure_modes")
        span = find_word(view, task, name, *keys)
        kind = "a failure class" if key == "retry" else "an outcome or failure class"
        if key == "retry" and view.source.text[span.start : span.end] != name:
            span = find_default(view, name) or span
        written = view.source.text[span.start : span.end] == name
        fix = Fix(f"write `{close}`", (Edit(span, close),), safe=False) if written else None
        yield Diagnostic("PLAN201", f"`{name}` is not {kind}, did you mean `{close}`?", span, fix=fix)


def _artifacts(view: PlanView) -> Iterable[Diagnostic]:
    """``from`` of the plan's artifacts: a task, or a task and one of its artifacts."""
    named = {artifact.name for task in view.plan.tasks for artifact in task.artifacts}
    for artifact in view.plan.artifacts:
        task = artifact.source.partition(".")[0]
        if task and view.graph.find(task) < 0 and artifact.source not in named:
            yield _undefined(view, task, _inside(view, task, artifact.span), "from")
        elif not _may_be_kept(view, artifact):
            instead = f"`{task}` declares no such artifact" if task else "tasks keep files: say `from: TASK`"
            yield without_effect(f"the artifact `{artifact.name}` of the plan", artifact.span, instead)


def _earlier(view: PlanView) -> Iterable[Diagnostic]:
    """Addresses of artifacts that a task of this plan keeps, which need not have run before they are taken."""
    if "files.artifact" not in view.used:
        return
    for here, task in enumerate(view.plan.tasks):
        said = task.inputs.get("artifact") if task.uses == "files.artifact" and isinstance(task.inputs, dict) else None
        if not isinstance(said, str) or "{{" in said or "@" in said:
            continue
        parts = said.split("/")
        maker, name = (parts[1:] if len(parts) > 2 and parts[0] == view.plan.id else parts)[0], parts[-1]
        at = view.graph.find(maker) if len(parts) > 1 else -1
        if at >= 0 and at not in view.graph.upstream(here):
            message = f"`{said}` is what `{maker}` kept in an earlier run: it need not run before `{task.id}`"
            value = f"`{{{{ tasks.{maker}.artifacts.{name} }}}}`"
            help_ = f"write {value} for that of this run, `{said}@last` for the newest of any"
            yield Diagnostic("PLAN237", message, find_text(view, said, region_of(view, task, "with")), help=help_)


def _may_be_kept(view: PlanView, artifact: Artifact) -> bool:
    """Whether some task keeps what an artifact of the plan comes from."""
    task, _, name = artifact.source.partition(".")
    there = [each for each in view.plan.tasks if each.id == task]
    if not there:
        return artifact.source != ""
    kept = [each.name for each in there[0].artifacts if each.path]
    return (name or artifact.name) in kept or (not name and len(kept) == 1)


def _rework(view: PlanView, task: Task, reject: Reject) -> Iterable[Diagnostic]:
    if reject.target not in view.positions and view.graph.find(reject.target) < 0:
        kind = "rework" if reject.action == "rework" else "edge"
        yield _undefined(view, reject.target, find_word(view, task, reject.target, "on_reject"), kind)


def _undefined(view: PlanView, name: str, span: Span, kind: str) -> Diagnostic:
    message = {
        "need": f"needs `{name}`, which is not a task of the plan",
        "edge": f"leads to `{name}`, which is not a task of the plan",
        "rework": f"sends back to `{name}`, which is not a task of the plan",
        "from": f"comes from `{name}`, which is not a task of the plan",
    }[kind]
    if kind == "edge" and name in _NOT_TARGETS:
        return Diagnostic("PLAN101", message, span, help=_NOT_TARGETS[name])
    members = _members(view, name)
    if members:
        return Diagnostic("PLAN101", f"{message}: {members}", span)
    close = nearest(name, view.graph.ids)
    if close is None:
        way = "" if len(view.graph) > 8 else f"the tasks are {names(view.graph.ids)}"
        return Diagnostic("PLAN101", message, span, help=way)
    label = Label(view.plan.tasks[view.positions[close]].span, f"`{close}` is defined here")
    written = view.source.text[span.start : span.end] == name
    fix = Fix(f"name `{close}`", (Edit(span, close),), safe=False) if written else None
    return Diagnostic("PLAN101", f"{message}, did you mean `{close}`?", span, labels=(label,), fix=fix)


_GO_ON = "for a task that may fail write `allow_failure: true` and leave the edge out"
_NOT_TARGETS = {
    **dict.fromkeys(("continue", "ignore", "skip", "proceed", "pass"), _GO_ON),
    **dict.fromkeys(("stop", "fail", "abort", "exit"), "leave the edge out: a plan stops by itself when a task fails"),
    **dict.fromkeys(("retry", "rerun"), "write `retry: 3`, or `retry: {attempts: 3, backoff: exponential}`"),
    "rollback": "`on_failure: rollback` is a key of the plan, beside `tasks`",
}
"""Words that people write where the name of a task belongs, and what they mean."""


def _members(view: PlanView, name: str) -> str:
    """What the family makes that a name looks like a member of, or nothing."""
    for task in view.plan.tasks:
        count = size(task) if task.id[-1:] == "*" and name.startswith(task.id[:-1]) else None
        if count is not None:
            stem = task.id[:-1]
            made = f"`{stem}1` to `{stem}{count}`" if count > 1 else f"`{stem}1` alone" if count else "no tasks"
            return f"the family `{task.id}` makes {made}"
    return ""


def _inside(view: PlanView, name: str, span: Span) -> Span:
    at = view.source.text.find(name, span.start, span.end)
    return Span(at, at + len(name)) if at >= 0 else span
