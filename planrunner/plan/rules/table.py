"""All lint rules, and how a plan is checked against them.

A rule looks only at the plan and its text. It never raises, never acts, and costs nothing for a plan that does not use
what it is about. Syntax and schema findings come from the rooms before; rules report beside them: nothing masks
anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from planrunner.diagnostics import Diagnostic
from planrunner.plan.agents import CHECK
from planrunner.plan.model import Capability, Plan, Task
from planrunner.plan.rules import (
    budgets,
    capability,
    characters,
    code,
    expressions,
    gates,
    hypotheses,
    joins,
    labels,
    literal,
    loops,
    order,
    people,
    policy,
    races,
    reach,
    rollback,
    scripts,
    secrets,
    sessions,
    sizes,
    taint,
    targets,
    templates,
    timeouts,
    unused,
    windows,
)
from planrunner.plan.rules.suppression import Suppression, suppress
from planrunner.plan.rules.view import Container, PlanView, Project, inside, view_of, written
from planrunner.plan.templates import is_template
from planrunner.source import Source
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import Node

Check = Callable[[PlanView], Iterable[Diagnostic]]

MOST_ERRORS = 100
"""Errors that one rule finds in a plan, or in a list of tasks inside it, before it is stopped."""
MOST_OTHERS = 50_000
"""Warnings and notes of one rule that are kept."""

TABLE: tuple[tuple[tuple[str, ...], Check], ...] = (
    (capability.CODES, capability.check),
    (capability.EXIT_CODES, capability.check_exit_codes),
    (policy.CAPABILITY_CODES, policy.check_capabilities),
    (characters.CODES, characters.check),
    (unused.KEY_CODES, unused.check_keys),
    (targets.CODES, targets.check),
    (loops.CYCLE_CODES, loops.check_cycles),
    (reach.CODES, reach.check),
    (reach.STEP_CODES, reach.check_steps),
    (joins.CODES, joins.check),
    (loops.CODES, loops.check),
    (loops.REWORK_CODES, loops.check_rework),
    (reach.ROLE_CODES, reach.check_roles),
    (expressions.CODES, expressions.check),
    (order.CODES, order.check),
    (races.CODES, races.check),
    (hypotheses.CODES, hypotheses.check),
    (templates.CODES, templates.check),
    (code.TEMPLATE_CODES, code.check_templates),
    (scripts.CODES, scripts.check),
    (code.CODES, code.check),
    (unused.PARAM_CODES, unused.check_params),
    (timeouts.CODES, timeouts.check),
    (timeouts.WATCHDOG_CODES, timeouts.check_watchdogs),
    (budgets.CODES, budgets.check),
    (rollback.CODES, rollback.check),
    (budgets.SPENDING_CODES, budgets.check_spending),
    (budgets.LIMIT_CODES, budgets.check_limits),
    (people.CODES, people.check),
    (gates.REJECTION_CODES, gates.check_rejections),
    (people.PROGRAM_CODES, people.check_programs),
    (gates.LABEL_CODES, gates.check_labels),
    (labels.CODES, labels.check),
    (labels.OPTION_CODES, labels.check_options),
    (gates.UNGATED_CODES, gates.check_ungated),
    (gates.APPROVER_CODES, gates.check_approvers),
    (windows.CODES, windows.check),
    (sizes.CODES, sizes.check),
    (sizes.NAME_CODES, sizes.check_names),
    (policy.CODES, policy.check),
    (policy.ENTRY_CODES, policy.check_entries),
    (taint.CODES, taint.check),
    (secrets.CODES, secrets.check),
    (secrets.LITERAL_CODES, secrets.check_literal),
    (sessions.CODES, sessions.check),
)
_NOTHING = Project()


class Parsed(NamedTuple):
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
    checks = (*(check for _, check in TABLE), *more)
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
    return _tolerated(check, view) if view.refused else _enough(check(view))


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
        yield from _enough(check(view))
    except (TypeError, AttributeError, ValueError, KeyError, IndexError):
        return


def _enough(found: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
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
