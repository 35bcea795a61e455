"""Templates: syntax, names, places where nothing fills them in or no value is safe."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from planrunner.diagnostics import Diagnostic
from planrunner.plan.expressions.check import BOOL, NUMBER, Checker, Type, object_of
from planrunner.plan.expressions.check import check as check_value
from planrunner.plan.expressions.values import Problem
from planrunner.plan.lower.actions import variable_of
from planrunner.plan.model import Expression, Task
from planrunner.plan.params import numbers_of
from planrunner.plan.rules.expressions import never_so, renamed, worded
from planrunner.plan.rules.namespace import Naming
from planrunner.plan.rules.texts import Text, place_of, plain_references, texts_of
from planrunner.plan.rules.view import PlanView, find_text, region_of
from planrunner.plan.shell.quoting import problems as script_problems
from planrunner.plan.templated import is_template
from planrunner.plan.templates import LOOP, Branches, Loop, Node, Value, codes, tree_of
from planrunner.plan.templates import problems as template_problems

_SAME_EVERYWHERE = frozenset({"params", "env", "plan", "run"})
"""Names that mean the same for every task: a path that begins with one is judged once."""

MOST = 100
"""Findings with one code about one text."""

_PROGRAM = "name the program itself; to choose one, write a task with a `when` for each"


def check(view: PlanView) -> Iterable[Diagnostic]:
    naming, numbers = Naming(view), numbers_of(view.plan.params)
    seen: dict[tuple[str, ...], list[Problem]] = {}
    for text in texts_of(view):
        reads = plain_references(text.text)
        broken = [] if reads is not None else template_problems(text.text)
        told = Counter[str]()
        for problem in _few(_with_script(broken, text, numbers), told):
            yield _finding(view, text, problem, 0)
        if reads is None and not broken:
            nodes = tree_of(text.text).nodes
            computed = [*_computed(nodes, naming.names(text.here, text.moment)), *_never_so(view, text, nodes)]
            for problem in _few(computed, told):
                yield _finding(view, text, problem, 0)
        for path, start, end in reads or ():
            found = seen.get(path)
            if found is None:
                found = _path_problems(path, end - start, naming.names(text.here, text.moment))
                if path[0] in _SAME_EVERYWHERE:
                    seen[path] = found
            for problem in _few(found, told):
                yield _finding(view, text, problem, start)
    yield from _programs(view)


def _few(problems: Iterable[Problem], told: Counter[str]) -> Iterable[Problem]:
    """The problems of one text, at most ``MOST`` with one code: to find the place of each costs the text's length."""
    for problem in problems:
        told[problem.code] += 1
        if told[problem.code] <= MOST:
            yield problem


def _with_script(broken: list[Problem], text: Text, numbers: frozenset[str]) -> list[Problem]:
    """The problems of a template, and of its place in a script; one that is never closed is told once."""
    if not text.script:
        return broken
    return [
        *broken,
        *(problem for problem in script_problems(text.text, numbers) if not broken or problem.code != "PLAN210"),
    ]


def _path_problems(path: tuple[str, ...], length: int, names: Mapping[str, Type]) -> list[Problem]:
    """What is wrong with a path, with offsets from where it begins; ``length`` characters of text stand for it."""
    tree: Any = ("name", 0, len(path[0]) if len(path) > 1 else length, path[0])
    for number, member in enumerate(path[1:], 2):
        end = length if number == len(path) else min(tree[2] + 1 + len(member), length)
        tree = ("attr", 0, end, tree, member)
    _, problems = check_value(Expression(".".join(path), tree, (path,)), names)
    return problems


def _computed(nodes: Iterable[Node], names: Mapping[str, Type]) -> list[Problem]:
    """What is wrong with the expressions of a text, with offsets from its start."""
    problems: list[Problem] = []
    _walk(nodes, Checker(names), problems)
    return problems


def _never_so(view: PlanView, text: Text, nodes: Iterable[Node]) -> list[Problem]:
    """Comparisons in a text that are always the same, with offsets from its start."""
    if "status" not in text.text:
        return []
    return [
        each._replace(start=each.start + code.start, end=each.end + code.start)
        for code in codes(tuple(nodes))
        for each in never_so(view, text.here, code.tree)
    ]


def _walk(nodes: Iterable[Node], checker: Checker, problems: list[Problem]) -> None:
    for node in nodes:
        if isinstance(node, Value):
            checker.type(node.code.tree)
            _take(checker, node.code.start, problems)
        elif isinstance(node, Branches):
            for number, (code, body) in enumerate(node.found):
                if code is not None:
                    checker.behind += number > 0
                    checker.flag(code.tree)
                    checker.behind -= number > 0
                    _take(checker, code.start, problems)
                checker.behind += 1
                _walk(body, checker, problems)
                checker.behind -= 1
        elif isinstance(node, Loop):
            around = checker.bound
            checker.bind(node.code.tree)
            _take(checker, node.code.start, problems)
            checker.bound = {**checker.bound, "loop": _LOOP}
            _walk(node.body, checker, problems)
            checker.bound = around
            _walk(node.otherwise, checker, problems)


def _take(checker: Checker, start: int, problems: list[Problem]) -> None:
    """Move what was found to the offsets of the whole text."""
    problems += [each._replace(start=each.start + start, end=each.end + start) for each in checker.problems]
    checker.problems.clear()


_LOOP = object_of({name: BOOL if name in ("first", "last") else NUMBER for name in LOOP}, "`loop`")


def _finding(view: PlanView, text: Text, problem: Problem, offset: int) -> Diagnostic:
    span = place_of(view, text, problem.start + offset, problem.end + offset)
    help_ = _OWN_TEMPLATE if _own_template(view, text, problem) else _variable(view, text, problem) or problem.help
    return Diagnostic(problem.code, worded(problem.message), span, help=help_, fix=renamed(view, span, problem))


_OWN_TEMPLATE = (
    "the plan renders this before the task starts; put what the task renders between `{% raw %}` and "
    "`{% endraw %}`, or in a file named by `template`"
)


def _own_template(view: PlanView, text: Text, problem: Problem) -> bool:
    """Whether a name that nothing defines stands in a template that the capability fills in by itself, later."""
    task = view.plan.tasks[text.here] if text.here >= 0 else None
    if task is None or task.uses != "files.template" or problem.code != "PLAN201" or "did you mean" in problem.help:
        return False
    return text.key == "with" and isinstance(task.inputs, dict) and task.inputs.get("text") == text.text


def _variable(view: PlanView, text: Text, problem: Problem) -> str:
    """How a script reads the input that a name in a template means."""
    task = view.plan.tasks[text.here] if text.here >= 0 else None
    match = re.fullmatch(r"`(\w+)` is not defined here", problem.message)
    if task is None or match is None or task.uses != "shell" or text.key != "run":
        return ""
    name = variable_of(match[1])
    return f"the script has it as the variable `${name}`" if name in dict(task.env) else ""


def _programs(view: PlanView) -> Iterable[Diagnostic]:
    for task in view.plan.tasks:
        if "{" in task.shell and _names_program(task):
            part = re.search(r"\{[{%].*?(?:[%}]\}|$)", task.shell)
            span = find_text(view, part[0] if part else task.shell, region_of(view, task, "shell"))
            message = "`shell` is taken literally: templates are not rendered here"
            yield Diagnostic("PLAN217", message, span, help=_PROGRAM)


def _names_program(task: Task) -> bool:
    """Whether a template stands where the program of a script is named: none is called so, and the task fails. Behind
    it, as in ``env A={{ x }} bash``, the task may do something; a ``run`` that is a list needs no such program."""
    program = task.shell.split(maxsplit=1)[0] if task.shell.split() else ""
    return isinstance(task.run, str) and task.uses == "shell" and is_template(program)
