"""The names that a test file may use, by the plan it tests: tasks, gates, outputs, facts, parameters, events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from planrunner.app.proof.names import asks, demands, known, matches, paths, written
from planrunner.diagnostics import Diagnostic
from planrunner.machine.events import EVENTS
from planrunner.plan.expressions.check import Type, check_condition
from planrunner.plan.expressions.evaluate import FACTS
from planrunner.plan.expressions.parse import parse as parse_expression
from planrunner.plan.expressions.values import ExpressionError
from planrunner.plan.model import Plan, Task
from planrunner.plan.nearest import nearest
from planrunner.plan.params import bind_params
from planrunner.source import Span
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import Node, Scalar

Json = Any


class Names:
    """Each method gives a finding for a name that the plan does not have, with the nearest one."""

    __slots__ = ("_paths", "_plan")

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._paths = paths(plan)

    def task(self, node: Scalar) -> Diagnostic | None:
        """A task or a pattern of tasks."""
        name = str(node.value)
        if known(name, self._plan):
            return None
        if "*" in name:
            return Diagnostic("PLAN201", f"no task of plan `{self._plan.id}` is called like `{name}`", node.span)
        near = nearest(written(name), self._paths)
        return Diagnostic(
            "PLAN201", f"plan `{self._plan.id}` has no task `{name}`" + _meant(near), node.span,
            help="" if near else _listing("its tasks are", self._paths),
        )  # fmt: skip

    def gate(self, node: Scalar) -> Diagnostic | None:
        """A task that a person may have to decide about."""
        fault = self.task(node)
        if fault is not None:
            return fault
        labelled = demands(self._plan)
        gates = [path for path, task in self._paths.items() if asks(task) or path in labelled]
        meant = written(str(node.value))
        if not self._meant(meant) or any(matches(meant, path) for path in gates):
            return None
        help_ = _listing("people decide", gates) if gates else "no task of this plan waits for a person"
        return Diagnostic("PLAN201", f"nobody decides about `{node.value}`: it is no gate", node.span, help=help_)

    def output(self, task: str, node: Scalar) -> Diagnostic | None:
        """An output that a mock gives; only what looks like a slip of the pen is refused."""
        declared = {output.name for each in self._meant(task) for output in each.outputs}
        name = str(node.value)
        near = nearest(name, sorted(declared)) if declared and name not in declared else None
        if near is None:
            return None
        return Diagnostic("PLAN202", f"`{task}` has no output `{name}`" + _meant(near), node.span)

    def plan_output(self, node: Scalar) -> Diagnostic | None:
        """An output of the plan."""
        names = [output.name for output in self._plan.outputs]
        if node.value in names:
            return None
        near = nearest(str(node.value), names)
        help_ = "" if near else _listing("its outputs are", names) if names else "it declares no outputs"
        return Diagnostic(
            "PLAN202", f"plan `{self._plan.id}` has no output `{node.value}`" + _meant(near), node.span, help=help_
        )

    def fact(self, node: Scalar) -> Diagnostic | None:
        """A fact of the world."""
        if node.value in FACTS:
            return None
        near = nearest(str(node.value), tuple(FACTS))
        help_ = "" if near else _listing("conditions may read", tuple(FACTS))
        return Diagnostic("PLAN201", f"there is no fact `{node.value}`" + _meant(near), node.span, help=help_)

    def params(self, given: Mapping[str, Json], node: Node) -> Iterable[Diagnostic]:
        """Values of parameters: each fault at the value it is about."""
        for problem in bind_params(self._plan, given).problems:
            yield Diagnostic("PLAN006", problem.replace(": -p", "; in a test:"), _place_of(problem, node))

    def event(self, node: Node) -> Iterable[Diagnostic]:
        """An expected event: its kind, and the task it is about."""
        kinds = [kind.__name__ for kind in EVENTS]
        kind = node.get("kind") if isinstance(node, MappingNode) else node
        assert isinstance(kind, Scalar)
        if kind.value not in kinds:
            near = nearest(str(kind.value), kinds)
            yield Diagnostic(
                "PLAN006", f"there is no event `{kind.value}`" + _meant(near), kind.span,
                help="" if near else "docs/reference/events.md lists them",
            )  # fmt: skip
        task = node.get("task") if isinstance(node, MappingNode) else None
        fault = self.task(task) if isinstance(task, Scalar) else None
        if fault is not None:
            yield fault

    def condition(self, node: Scalar) -> Iterable[Diagnostic]:
        """An expression about the ended run."""
        try:
            parsed = parse_expression(str(node.value), node.start)
        except ExpressionError as error:
            yield Diagnostic(error.code, error.message, _inside(node, error.start, error.end), help=error.help)
            return
        for path in parsed.paths:
            if path[0] not in ("tasks", "params", "env", "plan", "run"):
                near = nearest(path[0], ("tasks", "params", "env", "plan", "run"))
                yield Diagnostic("PLAN201", f"`{path[0]}` is not defined here" + _meant(near), node.span)
            elif path[0] == "tasks" and len(path) > 1 and not known(path[1], self._plan):
                near = nearest(path[1], self._paths)
                yield Diagnostic("PLAN201", f"plan `{self._plan.id}` has no task `{path[1]}`" + _meant(near), node.span)

    def _meant(self, name: str) -> list[Task]:
        return [task for path, task in self._paths.items() if matches(written(name), path)]


def duration_faults(node: Scalar) -> Iterable[Diagnostic]:
    """What is wrong with a comparison such as ``< 10m``."""
    lead = "duration "
    try:
        problems = check_condition(parse_expression(f"{lead}{node.value}"), {"duration": Type("time")})
    except ExpressionError as error:
        yield Diagnostic(
            error.code,
            error.message,
            _inside(node, error.start - len(lead), error.end - len(lead)),
            help="write a comparison such as `< 10m`",
        )
        return
    for problem in problems:
        yield Diagnostic(problem.code, problem.message, node.span, help="write a comparison such as `< 10m`")


def _meant(near: str | None) -> str:
    return f", did you mean `{near}`?" if near else ""


def _listing(start: str, names: Iterable[str]) -> str:
    every = list(names)
    shown = ", ".join(f"`{name}`" for name in every[:8])
    return f"{start} {shown}" + (f" and {len(every) - 8} more" if len(every) > 8 else "")


def _place_of(problem: str, node: Node) -> Span:
    """The value of the parameter that a problem names, or the whole node."""
    if isinstance(node, MappingNode):
        for key, value in node.entries:
            if f"`{key.value}`" in problem:
                return key.span if "no parameter" in problem else value.span
    return node.span


def _inside(node: Scalar, start: int, end: int) -> Span:
    """A part of a scalar's text, where it stands in the file as it is."""
    at = node.raw.find(str(node.value))
    return node.span if at < 0 else Span(node.start + at + start, node.start + at + max(end, start + 1))
