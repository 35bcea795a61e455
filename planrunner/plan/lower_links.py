"""A task that links to a subplan: the plan behind the word, and the values for its parameters."""

from __future__ import annotations

from planrunner.plan import lower_values as values
from planrunner.plan.linking import Fault
from planrunner.plan.lower_values import Lowering
from planrunner.plan.model import Param, Plan
from planrunner.plan.nearest import nearest
from planrunner.plan.params import misfit
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar

_SEVERAL = 8
"""Parameters that a message lists."""


def linked(low: Lowering, node: Scalar) -> Plan | None:
    """The plan that ``subplan: word`` links to; why there is none is reported at the word."""
    word = values.text(node)
    if low.links is None or not word:
        return None
    found = low.links.find(word)
    if isinstance(found, Fault):
        low.report(found.code, found.message, node.span, found.help)
        return None
    if services := [task.id for task in found.tasks if task.ready]:
        message = f"the subplan `{word}` has the service `{services[0]}`; only those of the outermost plan are started"
        low.report("PLAN020", message, node.span, "declare it in this plan, and let the task of the subplan need it")
    return found


def check_params(low: Lowering, word: str, plan: Plan, node: Node | None, place: Span) -> None:
    """Report parameters that the subplan does not have, those it needs and does not get, and literals that do not
    fit; ``place`` is where a missing one is told."""
    given = {str(key.value): (key, value) for key, value in node.entries} if isinstance(node, Mapping) else {}
    known = {param.name: param for param in plan.params}
    for name, (key, value) in given.items():
        if name not in known:
            low.report("PLAN114", *_unknown(word, name, known, key))
        else:
            _check_value(low, known[name], value)
    for param in plan.params:
        if param.required and param.name not in given:
            help_ = param.description or f"it is of type {param.type}"
            low.report("PLAN114", f"the subplan `{word}` needs the parameter `{param.name}`", place, help_)


def _unknown(word: str, name: str, known: dict[str, Param], key: Scalar) -> tuple[str, Span, str]:
    near = nearest(name, known)
    way = f", did you mean `{near}`?" if near else ""
    listed = ", ".join(f"`{other}`" for other in list(known)[:_SEVERAL])
    help_ = "" if near else f"it has {listed}" if known else "it has no parameters"
    return f"the subplan `{word}` has no parameter `{name}`{way}", key.span, help_


def _check_value(low: Lowering, param: Param, node: Node) -> None:
    value = values.data(node)
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        return
    _, problem = misfit(param._replace(default=value))
    if problem:
        low.report("PLAN114", problem, node.span)
