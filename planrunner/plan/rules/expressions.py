"""Every expression reads names that exist there, of types that fit, and decides something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.plan.expressions.check import Type, check_condition
from planrunner.plan.expressions.check import check as check_value
from planrunner.plan.expressions.tree import Tree, equalities
from planrunner.plan.expressions.values import Problem
from planrunner.plan.joins import WORDS
from planrunner.plan.model import Expression, Task
from planrunner.plan.nearest import nearest
from planrunner.plan.rules.namespace import OUTCOME, Naming
from planrunner.plan.rules.texts import Site, expressions_of, place_of
from planrunner.plan.rules.view import PlanView
from planrunner.source import Span


def check(view: PlanView) -> Iterable[Diagnostic]:
    sites = list(expressions_of(view))
    if not sites:
        return ()
    return judged(view, sites)


_SETTINGS = {
    "timeout": ("time", "number", "string"),
    "delay": ("time", "number", "string"),
    "retry": ("number",),
    "max_parallel": ("number",),
    "tolerate": ("number", "string", "percent"),
}
"""The kinds of values that settings take which are computed."""
_TAKES = {"timeout": "a duration such as `5m`", "delay": "a duration such as `5m`"}
_CRITERIA = frozenset({"expect", "postconditions", "checks", "done"})


def judged(view: PlanView, sites: Iterable[Site]) -> Iterable[Diagnostic]:
    """The findings about expressions of one view."""
    naming: Naming | None = None
    seen: dict[tuple[str, str], list[Problem]] = {}
    for site in sites:
        key = (site.expression.text, site.key)
        problems = seen.get(key)
        if problems is None:
            naming = naming or Naming(view)
            problems = [*_problems(view, site, naming), *_outside_choices(view, site), *_never_of(view, site)]
            if "run" not in site.expression.text and all(path[0] in OUTCOME for path in site.expression.paths):
                seen[key] = problems  # names that mean the same for every task: judged once
        for problem in problems:
            if site.key == "next" and problem.code == "PLAN206" and "always false" in problem.message:
                continue  # the edge is dead, which `reach` says
            yield _finding(view, site, problem)


def _problems(view: PlanView, site: Site, naming: Naming) -> list[Problem]:
    names = naming.names(site.here, site.moment)
    if site.key == "evidence":  # what is weighed follows from the result alone
        names = {name: kind for name, kind in names.items() if name != "hypotheses"}
    if site.key == "choose":
        return _choosing(site, names, view.plan.tasks[site.here])
    if site.key in _SETTINGS:
        type_, problems = check_value(site.expression, names)
        if type_.kind not in ("any", *_SETTINGS[site.key]):
            end = len(site.expression.text)
            said = f"`{site.expression.text}` is not a value for `{site.key}`"
            problems.append(Problem("PLAN205", said, 0, end, f"it takes {_TAKES.get(site.key, 'a whole number')}"))
        return problems
    if site.key not in ("foreach", "matrix", "options"):
        return check_condition(site.expression, names)
    type_, problems = check_value(site.expression, names)
    if type_.kind not in ("any", "list", "map", "object"):
        end = len(site.expression.text)
        problems.append(
            Problem("PLAN205", f"`{site.expression.text}` is not a list", 0, end, f"`{site.key}` iterates over a list")
        )
    return problems


def _choosing(site: Site, names: Mapping[str, Type], task: Task) -> list[Problem]:
    """What is wrong with an expression that gives the name of an option of the gate that ``task`` is."""
    type_, problems = check_value(site.expression, names)
    text, given = site.expression.text, task.gate.options if task.gate is not None else ()
    options = [option.name for option in given]
    is_text = type_.kind in ("any", "string")
    if text in options and (problems or not is_text):
        said = f"`{text}` is read as an expression, not as the name of an option"
        return [Problem("PLAN205", said, 0, len(text), _AS_TEXT % f"choose: \"'{text}'\"")]
    problems = [_unquoted(problem, text, options, task.id) for problem in problems]
    if not is_text:
        help_ = "write for example `hypotheses.best`"
        problems.append(Problem("PLAN205", f"`{text}` is not the name of an option", 0, len(text), help_))
    if all(option.each is None for option in given):
        problems += _no_options(site.expression, options)
    return problems


_AS_TEXT = "an option is text: `%s`"


def _unquoted(problem: Problem, text: str, options: list[str], own: str) -> Problem:
    """A name that stands where the text of an option was meant; the gate itself never was."""
    if problem.code != "PLAN201":
        return problem
    word = text[problem.start : problem.end]
    whole = word == text
    near = word if word in options else nearest(word, options) if whole else None
    if near:
        return problem._replace(help=_AS_TEXT % (f"choose: \"'{near}'\"" if whole else f"'{near}'"))
    return problem._replace(help="") if problem.help == f"did you mean `{own}`?" else problem


def _no_options(expression: Expression, options: list[str]) -> Iterable[Problem]:
    """The texts that an expression gives as they stand and that no option has as its name; an empty one asks people."""
    waiting = [expression.tree]
    while waiting:
        tree = waiting.pop()
        if tree[0] == "if":
            waiting += tree[4:6]
        elif tree[0] == "const" and isinstance(tree[3], str) and tree[3] not in ("", *options):
            near = nearest(tree[3], options)
            help_ = (
                f"did you mean `'{near}'`?" if near else f"its options are {', '.join(f'`{o}`' for o in options[:8])}"
            )
            said = expression.text[tree[1] : tree[2]]
            yield Problem("PLAN205", f"`{said}` is not the name of an option", tree[1], tree[2], help_)


def _outside_choices(view: PlanView, site: Site) -> Iterable[Problem]:
    """Comparisons of a parameter with a text that is not one of its choices."""
    choices = {param.name: param.choices for param in view.plan.params if param.choices}
    if not choices or "params" not in site.expression.text:
        return
    for path, (_, start, end, value) in equalities(site.expression.tree):
        allowed = choices.get(path[1]) if len(path) == 2 and path[0] == "params" else None
        if allowed and value not in allowed:
            said = ", ".join(f"`{each}`" for each in allowed[:8])
            near = nearest(str(value), [str(each) for each in allowed])
            help_ = f"did you mean `{near}`?" if near else f"its choices are {said}"
            yield Problem("PLAN206", f"the parameter `{path[1]}` is never `{str(value)[:40]}`", start, end, help_)


_ENDS = ("completed", "failed", "cancelled")
_UNDER_WAY = ("running", "failed")


def _never_of(view: PlanView, site: Site) -> Iterable[Problem]:
    if "run" not in site.expression.text or (site.moment == "results" and "run" in view.positions):
        return ()  # there the name of a task stands before that of the plan
    return never_so(view, site.here, site.expression.tree)


def never_so(view: PlanView, here: int, tree: Tree) -> Iterable[Problem]:
    """Comparisons of ``run.status`` with a word that it is never: under ``finally`` and in the outputs of the plan it
    is what the run comes to, elsewhere whether it is failing."""
    nested = bool(view.around.places) or not view.whole
    is_last = here < 0 or view.plan.tasks[here].finally_
    words = tuple(dict.fromkeys((*_ENDS, *_UNDER_WAY))) if nested else _ENDS if is_last else _UNDER_WAY
    for path, (_, start, end, value) in equalities(tree):
        if path != ("run", "status") or value in words:
            continue
        said, near = ", ".join(f"`{word}`" for word in words), nearest(str(value), words)
        help_ = f"it is {said}"
        if value in _ENDS:
            help_ += f"; `{value}` it is only under `finally`"
        elif near:
            help_ = f"did you mean `{near}`?"
        yield Problem("PLAN206", f"`run.status` is never `{str(value)[:40]}` here", start, end, help_)


def _misspelt_kind(problem: Problem, text: str) -> Problem:
    """One word that nothing defines was meant as a kind of join."""
    if problem.code != "PLAN201" or not text.isidentifier() or problem.help.startswith("did you mean"):
        return problem
    near = nearest(text, WORDS)
    return problem._replace(help=f"did you mean `{near}`?" if near else f"a join is one of {', '.join(WORDS)}")


def _finding(view: PlanView, site: Site, problem: Problem) -> Diagnostic:
    span = place_of(view, site, problem.start, problem.end)
    if site.key == "join":
        problem = _misspelt_kind(problem, site.expression.text)
    code = problem.code
    help_ = problem.help
    if site.key == "join" and code == "PLAN205" and site.expression.text[problem.start : problem.end] in view.positions:
        name = site.expression.text[problem.start : problem.end]
        help_ = (
            f"ask how it ended: `{name}.ok`; for tasks that must all have completed write a list: `needs: [{name}, …]`"
        )
    if code == "PLAN206" and site.key in _CRITERIA and "always true" in problem.message:
        code, help_ = "PLAN703", "a criterion that is always true checks nothing"
    return Diagnostic(code, worded(problem.message), span, help=help_, fix=renamed(view, span, problem))


_WORDING = {
    "`params` has no ": "the plan has no parameter ",
    "`tasks` has no ": "the plan has no task ",
    "`hypotheses` has no ": "the plan has no hypothesis ",
}


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
