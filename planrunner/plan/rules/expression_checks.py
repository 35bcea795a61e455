"""What is wrong with expressions: names that do not exist, types that do not fit, conditions that decide nothing."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.plan.expressions.check import Problem, check_condition
from planrunner.plan.expressions.check import check as check_value
from planrunner.plan.rules.naming import OUTCOME, Naming
from planrunner.plan.rules.places import place_of
from planrunner.plan.rules.reading import Site
from planrunner.plan.rules.view import PlanView
from planrunner.source import Span

_CRITERIA = frozenset({"expect", "postconditions", "checks"})


def judged(view: PlanView, sites: Iterable[Site]) -> Iterable[Diagnostic]:
    """The findings about expressions of one view."""
    naming: Naming | None = None
    seen: dict[tuple[str, str], list[Problem]] = {}
    for site in sites:
        key = (site.expression.text, site.key)
        problems = seen.get(key)
        if problems is None:
            naming = naming or Naming(view)
            problems = _problems(site, naming)
            if all(path[0] in OUTCOME for path in site.expression.paths):
                seen[key] = problems  # names that mean the same for every task: judged once
        for problem in problems:
            if site.key == "next" and problem.code == "PLAN206" and "always false" in problem.message:
                continue  # the edge is dead, which `reach` says
            yield _finding(view, site, problem)


def _problems(site: Site, naming: Naming) -> list[Problem]:
    names = naming.names(site.here, site.moment)
    if site.key not in ("foreach", "matrix"):
        return check_condition(site.expression, names)
    type_, problems = check_value(site.expression, names)
    if type_.kind not in ("any", "list", "map", "object"):
        end = len(site.expression.text)
        problems.append(
            Problem("PLAN205", f"`{site.expression.text}` is no list", 0, end, f"`{site.key}` goes through a list")
        )
    return problems


def _finding(view: PlanView, site: Site, problem: Problem) -> Diagnostic:
    span = place_of(view, site, problem.start, problem.end)
    code = problem.code
    help_ = problem.help
    if code == "PLAN206" and site.key in _CRITERIA and "always true" in problem.message:
        code, help_ = "PLAN703", "a criterion that cannot fail lets everything pass"
    return Diagnostic(code, worded(problem.message), span, help=help_, fix=renamed(view, span, problem))


_WORDING = {"`params` has no ": "the plan has no parameter ", "`tasks` has no ": "no task is called "}


def worded(message: str) -> str:
    """A message about the members of a group of names in the words that plans use for them."""
    for group, words in _WORDING.items():
        if message.startswith(group):
            return words + message[len(group) :]
    return message


def renamed(view: PlanView, span: Span, problem: Problem) -> Fix | None:
    """The fix for a misspelt name, where the help names the right one and the name stands in the text as it is."""
    before, _, rest = problem.help.partition("did you mean `")
    meant = rest.partition("`")[0]
    if (
        before
        or not meant
        or not rest.startswith(f"{meant}`?")
        or f"`{view.source.text[span.start : span.end]}`" not in problem.message
    ):
        return None
    return Fix(f"write `{meant}`", (Edit(span, meant),), safe=False)
