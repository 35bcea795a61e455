"""All lint rules, and how a plan is checked against them.

A rule looks only at the plan and its text. It never raises, never acts, and costs nothing for a plan that does not use
what it is about. Syntax and schema findings come from the rooms before; rules report beside them: nothing masks
anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from planrunner.diagnostics import Diagnostic
from planrunner.later import load
from planrunner.plan.agents import CHECK
from planrunner.plan.model import Capability, Plan, Task
from planrunner.plan.rules import (
    characters,
    literal,
)
from planrunner.plan.rules.suppression import Suppression, suppress
from planrunner.plan.rules.texts import has_templates
from planrunner.plan.rules.view import Container, PlanView, Project, every_task, inside, meets_foreign, view_of, written
from planrunner.plan.templated import is_template
from planrunner.records import Struct
from planrunner.source import Source
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import Node

Check = Callable[[PlanView], Iterable[Diagnostic]]

MOST_ERRORS = 100
"""Errors that one rule finds in a plan, or in a list of tasks inside it, before it is stopped."""
MOST_OTHERS = 50_000
"""Warnings and notes of one rule that are kept."""


def _is_held_to_a_policy(view: PlanView) -> bool:
    held = (task.policy or (task.sub is not None and task.sub.policy) for task in every_task(view.plan.tasks))
    return bool(view.levels or view.plan.policy) or any(held)


def _lists_capabilities(view: PlanView) -> bool:
    return any(isinstance(task.notes, dict) and "capabilities" in task.notes for task in view.plan.tasks)


def _runs_python(view: PlanView) -> bool:
    return "python.run" in view.used


def _meets_foreign(view: PlanView) -> bool:
    return view.whole and meets_foreign(view.plan, view.capabilities)


def _has_hypotheses(view: PlanView) -> bool:
    return bool(view.plan.hypotheses) or any(task.evidence for task in view.plan.tasks)


def _has_windows(view: PlanView) -> bool:
    return "window" in view.source.text or any(gate.window for _, gate in view.plan.gated)


def _is_labelled(view: PlanView) -> bool:
    return any(task.labels or task.gate is not None for task in every_task(view.plan.tasks))


class Listed(Struct):
    """A rule by its place, ``module:function`` of this room, which is loaded for the first plan that ``acts`` says it
    acts on; without that for every plan."""

    place: str
    acts: Callable[[PlanView], bool] | None = None

    def __call__(self, view: PlanView) -> Iterable[Diagnostic]:
        if self.acts is not None and not self.acts(view):
            return ()
        check: Check = load(f"planrunner.plan.rules.{self.place}")
        return check(view)


TABLE: tuple[Listed, ...] = (
    Listed("capability:check"),
    Listed("capability:check_exit_codes"),
    Listed("policy:check_capabilities", _lists_capabilities),
    Listed("characters:check"),
    Listed("unused:check_keys"),
    Listed("targets:check"),
    Listed("loops:check_cycles"),
    Listed("reach:check"),
    Listed("reach:check_steps"),
    Listed("joins:check"),
    Listed("loops:check"),
    Listed("loops:check_rework"),
    Listed("reach:check_roles"),
    Listed("expressions:check"),
    Listed("order:check"),
    Listed("races:check"),
    Listed("hypotheses:check", _has_hypotheses),
    Listed("templates:check", has_templates),
    Listed("code:check_templates", has_templates),
    Listed("scripts:check"),
    Listed("code:check", _runs_python),
    Listed("unused:check_params"),
    Listed("timeouts:check"),
    Listed("timeouts:check_watchdogs"),
    Listed("budgets:check"),
    Listed("rollback:check"),
    Listed("budgets:check_spending"),
    Listed("budgets:check_limits"),
    Listed("people:check"),
    Listed("gates:check_rejections"),
    Listed("people:check_programs"),
    Listed("gates:check_labels"),
    Listed("labels:check", _is_labelled),
    Listed("labels:check_options", _is_labelled),
    Listed("gates:check_ungated"),
    Listed("gates:check_approvers"),
    Listed("windows:check", _has_windows),
    Listed("sizes:check"),
    Listed("sizes:check_names"),
    Listed("policy:check", _is_held_to_a_policy),
    Listed("policy:check_entries", _is_held_to_a_policy),
    Listed("taint:check", _meets_foreign),
    Listed("secrets:check"),
    Listed("secrets:check_literal"),
    Listed("order:check_sessions"),
)
_NOTHING = Project()


class Parsed(Struct):
    """The canonical tree of a plan (None: it is not looked at), and what was found before the rules."""

    tree: Node | None = None
    findings: tuple[Diagnostic, ...] = ()


_UNPARSED = Parsed()


def run(
    plan: Plan,
    source: Source,
    capabilities: Mapping[str, Capability],
    more: Iterable[Check] = (),
    subplans: Iterable[Plan] = (),
    project: Project = _NOTHING,
    parsed: Parsed = _UNPARSED,
) -> list[Diagnostic]:
    """Every finding about a plan that no comment in it silences; ``more`` are the checks of plugins, ``subplans`` the
    plans that stand in the same text, ``project`` what else it is held to, ``parsed`` what came before the rules."""
    return list(examine(plan, source, capabilities, more, subplans, project, parsed).findings)


def examine(
    plan: Plan,
    source: Source,
    capabilities: Mapping[str, Capability],
    more: Iterable[Check] = (),
    subplans: Iterable[Plan] = (),
    project: Project = _NOTHING,
    parsed: Parsed = _UNPARSED,
) -> Suppression:
    """Like ``run``, together with the number of silenced findings."""
    checks: tuple[Check, ...] = (*TABLE, *more)
    findings: list[Diagnostic] = []
    tasks: list[Task] = []
    views: list[PlanView] = []
    for view in _views([plan, *subplans], source, capabilities):
        view = view._replace(
            people=project.people,
            levels=project.levels,
            credentials=project.credentials,
            hidden=project.hidden,
            directory=project.directory,
            refused=project.refused,
            judge=project.roster.judge if project.roster is not None else "",
        )
        views.append(view)
        tasks += view.plan.tasks
        for check in checks:
            findings += _named(view, _found(check, view))
    if _spoils_timeouts(parsed):
        findings = [each for each in findings if each.code != "PLAN501"]
    if parsed.tree is not None and is_template(source.text):
        findings += _found(_literal(parsed.tree, views, (*parsed.findings, *findings)), views[0])
    if parsed.tree is not None and source.notation != "json" and "#" in source.text:
        findings += characters.check_cut(source, parsed.tree)
    return suppress(findings, source, tasks)


def _spoils_timeouts(parsed: Parsed) -> bool:
    """Whether the timeout that tasks have by default is wrong: then none of them is told that it has none."""
    if not isinstance(parsed.tree, MappingNode):
        return False
    plans = [parsed.tree]
    if isinstance(subplans := parsed.tree.get("subplans"), MappingNode):
        plans += [plan for _, plan in subplans.entries if isinstance(plan, MappingNode)]
    defaults = [found for plan in plans if isinstance(found := plan.get("defaults"), MappingNode)]
    given = [node for each in defaults if (node := each.get("timeout")) is not None]
    wrong = [each.span for each in parsed.findings if each.severity == "error"]
    return any(node.start <= span.start < max(node.end, node.start + 1) for node in given for span in wrong)


def _literal(tree: Node, views: list[PlanView], said: tuple[Diagnostic, ...]) -> Check:
    """The check of what no other rule reads: it looks at the tree of all views together."""
    return lambda _: literal.check(tree, views, said)


def _found(check: Check, view: PlanView) -> Iterable[Diagnostic]:
    return _tolerated(check, view) if view.refused else _capped(check(view))


def _named(view: PlanView, found: Iterable[Diagnostic]) -> Iterable[Diagnostic]:
    """What is found of the check of an agent's work by a name that its author knows."""
    if not view.checked:
        return found
    whole = f"the check under `until` of `{view.checked}`"
    return [each._replace(message=each.message.replace(f"`{CHECK}`", whole)) for each in found]


def _tolerated(check: Check, view: PlanView) -> Iterator[Diagnostic]:
    """What a rule finds in a plan that the schema has refused. Rules may rely on the schema, so one that stumbles over
    a value that it does not allow is left out: what is wrong with that value has been told."""
    try:
        yield from _capped(check(view))
    except (TypeError, AttributeError, ValueError, KeyError, IndexError):
        return


def _capped(found: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """What one rule finds, up to a limit: a plan without hope must not cost its size times its faults.
    It goes on behind many warnings and notes, since an error decides whether a plan runs, and keeps only so many."""
    errors = others = 0
    for finding in found:
        if finding.severity != "error":
            others += 1
            if others <= MOST_OTHERS:
                yield finding
            continue
        yield finding
        errors += 1
        if errors == MOST_ERRORS:
            message = f"one rule found {MOST_ERRORS} errors; the rest is not checked"
            yield Diagnostic("PLAN011", message, finding.span, help="fix these first")
            return


def _views(plans: list[Plan], source: Source, capabilities: Mapping[str, Capability]) -> Iterator[PlanView]:
    """The plan and its subplans, then each list of steps inside a loop or a task as a graph of its own."""
    views = [view_of(plan, source, capabilities) for plan in plans]
    around = Container(bounded=plans[0].budgets.time is not None)
    views[1:] = [view._replace(whole=False, around=around) for view in views[1:]]
    for view in views:
        yield view
        for task in view.plan.tasks:
            for steps in (task.subplan, written(task)):
                if steps:
                    outer = {**view.outer, **{other.id: other for other in view.plan.tasks}}
                    nested = view_of(view.plan._replace(tasks=steps), source, capabilities)
                    checked = task.id if task.agent is not None else ""
                    views.append(nested._replace(outer=outer, whole=False, around=inside(view, task), checked=checked))
