"""Evaluation files: read, checked against their schema and their plans, and lowered to cases with exact places."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as List
from typing import Any

from planrunner.app.plans.lint import registry
from planrunner.app.proof.testfile import LoadPlan, Names, near_file
from planrunner.capabilities.contract import Failure
from planrunner.capabilities.jsonschema import require_schema
from planrunner.diagnostics import Diagnostic, arrange, has_errors
from planrunner.frozen import EMPTY
from planrunner.journal.workspace import find_project
from planrunner.plan.agents import MODEL_CHOICES
from planrunner.plan.expressions.check import (
    ANY,
    MAP,
    MONEY,
    NUMBER,
    STRING,
    TIME,
    Type,
    check_condition,
    declared,
    object_of,
)
from planrunner.plan.expressions.check import check as check_value
from planrunner.plan.expressions.parse import parse as parse_expression
from planrunner.plan.expressions.quantities import parse_percent
from planrunner.plan.expressions.tree import equalities
from planrunner.plan.expressions.values import ExpressionError, Problem
from planrunner.plan.lower.declarations import budgets
from planrunner.plan.lower.values import Lowering, criterion
from planrunner.plan.model import Budgets, Expression, Plan
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.rules.expressions import worded
from planrunner.plan.rules.namespace import Naming
from planrunner.plan.rules.view import view_of
from planrunner.plan.schema import document_check
from planrunner.records import Struct
from planrunner.safety.project import read_data
from planrunner.source import Source, Span
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import Node, Scalar, Sequence, to_json

Json = Any

OF_A_RUN: Mapping[str, Type] = {
    "status": STRING,
    "reason": STRING,
    "exit_code": NUMBER,
    "outputs": MAP,
    "duration": TIME,
    "cost": MONEY,
    "tokens": NUMBER,
}
"""What expectations may read of a run beside the names of its plan."""
_OF_ANY_PLAN: Mapping[str, Type] = {"params": MAP, "env": MAP, "plan": ANY, "run": ANY, "tasks": ANY}


STATUSES = ("completed", "failed", "cancelled", "blocked", "paused")
"""How a run may stand when its runner lets go of it."""


class Check(Struct):
    """One thing that must hold of a run: ``kind`` is holds (an expression), schema (``path`` is the value that it is
    about, ``schema`` what it has to fit) or judge (``text`` in plain words)."""

    kind: str
    text: str
    span: Span
    expression: Expression | None = None
    schema: Json = None


class Case(Struct):
    """``plan`` is the path of its file, empty for a case that scores a recorded ``run``; ``share`` is the part of the
    repeats that has to pass."""

    id: str
    plan: str
    params: Mapping[str, Json]
    run: str
    repeat: int
    share: float
    checks: tuple[Check, ...]
    span: Span


class Suite(Struct):
    """One evaluation file: its text, its cases and what is wrong with it. ``plans`` are the plans by path, ``replaces``
    the model whose place ``models`` take, empty for the default one."""

    source: Source
    name: str = ""
    cases: tuple[Case, ...] = ()
    models: tuple[str, ...] = ()
    replaces: str = ""
    budgets: Budgets = Budgets()
    parallel: int = 4
    findings: tuple[Diagnostic, ...] = ()
    plans: Mapping[str, Plan] = EMPTY


def read_suite(source: Source, load_plan: LoadPlan) -> Suite:
    """The evaluation of a file. Faults of the file are findings; those of its plans raise as ``load_plan`` does."""
    parsed = parse(source)
    if parsed.tree is None:
        empty = "an evaluation file has `eval:`, `plan:` and `cases:`"
        findings = [each._replace(help=empty) if not source.text.strip() else each for each in parsed.findings]
        return Suite(source, findings=arrange(findings))
    shape = document_check("plan-eval.schema.json", "the evaluation file", parsed.tree)
    findings = [*parsed.findings, *(each._replace(fix=None) for each in shape)]
    if has_errors(findings) or not isinstance(parsed.tree, MappingNode):
        return Suite(source, findings=arrange(findings))
    reader = _Reader(source, parsed.tree, load_plan)
    suite = reader.suite()
    return suite._replace(findings=arrange([*findings, *reader.findings]))


class _Reader:
    """Lowers one file."""

    def __init__(self, source: Source, top: MappingNode, load: LoadPlan) -> None:
        self._source, self._top, self._load = source, top, load
        self._plans: dict[str, Plan] = {}
        self._names: dict[str, Mapping[str, Type]] = {}
        self.findings: list[Diagnostic] = []

    def suite(self) -> Suite:
        top = self._top
        low = Lowering(self.findings)
        limits = top.get("budgets")
        replaces = top.get("replaces")
        models = top.get("models")
        named = models.items if isinstance(models, Sequence) else []
        if replaces is not None and not named:
            self._say("PLAN006", "`replaces` has no effect without `models`", replaces.span)
        cases = tuple(self._cases())
        self._known([*named, *([] if replaces is None else [replaces])])
        return Suite(
            self._source,
            str(self._value(None, "eval")),
            cases,
            tuple(str(to_json(node)) for node in named),
            str(to_json(replaces)) if replaces is not None else "",
            budgets(low, limits, Budgets()) if limits is not None else Budgets(),
            int(self._value(None, "parallel") or 4),
            plans=self._plans,
        )

    def _known(self, models: List[Node]) -> None:
        """Models that the project does not have are findings."""
        if not models:
            return
        section = read_data(find_project(next(iter(self._plans), self._source.name))).get("models") or {}
        known = [name for name in section if name not in MODEL_CHOICES]
        for node in models:
            name = str(to_json(node))
            if name not in known:
                near = nearest(name, known)
                help_ = (
                    f"it has {', '.join(f'`{each}`' for each in known[:8])}" if known else "it has no section `models`"
                )
                message = f"planrunner.yaml has no model `{name}`" + meant(near)
                self._say("PLAN841", message, node.span, help_)

    def _cases(self) -> Iterator[Case]:
        listed = self._top.get("cases")
        assert isinstance(listed, Sequence)
        seen: set[str] = set()
        for node in listed.items:
            assert isinstance(node, MappingNode)
            name = node.get("id")
            assert isinstance(name, Scalar)
            if str(name.value) in seen:
                self._say("PLAN002", f"two cases are called `{name.value}`", name.span)
            seen.add(str(name.value))
            yield self._case(node, name)

    def _case(self, node: MappingNode, name: Scalar) -> Case:
        run = node.get("run")
        for key in ("params", "plan", "repeat"):
            if run is not None and node.get(key) is not None:
                self._say("PLAN009", f"`{key}` has no effect on a recorded `run`", node.key(key).span)  # type: ignore[union-attr]
        path = "" if run is not None else self._plan_path(node)
        given = {**(self._value(None, "params") or {}), **(self._value(node, "params", own=True) or {})}
        if path:
            self.findings += Names(self._plans[path]).params(given, node.get("params") or name)
        checks = tuple(self._checks(node, path))
        if not checks:
            self._say("PLAN004", f"the case `{name.value}` expects nothing", name.span, "add `expect: [status == …]`")
        return Case(
            *(str(name.value), path, given, str(to_json(run)) if run is not None else ""),
            1 if run is not None else int(self._value(node, "repeat") or 1),
            parse_percent(str(self._value(node, "pass") or "100%")) or 0.0,
            checks,
            name.span,
        )

    def _value(self, node: MappingNode | None, key: str, own: bool = False) -> Json:
        """The value of a key of the case, else that of the file."""
        found = node.get(key) if node is not None else None
        found = found if found is not None or own else self._top.get(key)
        return to_json(found) if found is not None else None

    def _plan_path(self, node: MappingNode) -> str:
        named = node.get("plan") or self._top.get("plan")
        if not isinstance(named, Scalar):
            help_ = "begin the file with `plan: ../release.yaml`, from the folder of this file"
            self._say("PLAN004", "the case names no plan and no run", node.span, help_)
            return ""
        path = os.path.normpath(os.path.join(os.path.dirname(self._source.name), str(named.value)))
        if not os.path.isfile(path):
            near = near_file(path)
            help_ = f"did you mean `{near}`?" if near else "paths count from the folder of the evaluation file"
            self._say("PLAN006", f"there is no plan `{named.value}`", named.span, help_)
            return ""
        if path not in self._plans:
            self._plans[path] = plan = self._load(path)
            self._names[path] = names_of(plan, self._source)
        return path

    def _checks(self, node: MappingNode, path: str) -> Iterator[Check]:
        names = self._names.get(path) or {**_OF_ANY_PLAN, **OF_A_RUN}
        for holder in (self._top, node):
            listed = holder.get("expect")
            for item in listed.items if isinstance(listed, Sequence) else ():
                schema = item.get("schema") if isinstance(item, MappingNode) else None
                if isinstance(schema, MappingNode):
                    for key, value in schema.entries:
                        yield from self._schema(key, value, names)
                else:
                    yield from self._criterion(item, names)

    def _criterion(self, node: Node, names: Mapping[str, Type]) -> Iterator[Check]:
        read = criterion(Lowering(self.findings), node, frozenset(names))
        if read is None:
            return
        if read.expression is None:
            yield Check("judge", read.text, read.span)
            return
        problems = [*check_condition(read.expression, names), *_no_status(read.expression)]
        self.findings += _findings(problems, read.expression, node)
        yield Check("holds", read.text, read.span, read.expression)

    def _schema(self, key: Scalar, value: Node, names: Mapping[str, Type]) -> Iterator[Check]:
        try:
            parsed = parse_expression(str(key.value), key.start)
        except ExpressionError as error:
            self._say(error.code, error.message, key.span, "name a value such as `outputs` or `tasks.read.outputs`")
            return
        self.findings += _findings(check_value(parsed, names)[1], parsed, key)
        schema = to_json(value)
        try:
            require_schema(schema, "schema")
        except Failure as failure:
            self._say("PLAN006", str(failure), value.span)
        yield Check("schema", str(key.value), value.span, parsed, schema)

    def _say(self, code: str, message: str, span: Span, help: str = "") -> None:
        finding = Diagnostic(code, message, span, help=help)
        if finding not in self.findings:
            self.findings.append(finding)


def names_of(plan: Plan, source: Source) -> Mapping[str, Type]:
    """The names that expectations about the runs of a plan may read, with their types."""
    known = registry()
    used = {name: found for name in {task.uses for task in plan.tasks} if name and (found := known.find(name))}
    outputs = object_of({each.name: declared(each.type) for each in plan.outputs}, f"plan `{plan.id}`", "PLAN202")
    return {**Naming(view_of(plan, source, used)).names(-1, "before"), **OF_A_RUN, "outputs": outputs}


def _no_status(expression: Expression) -> Iterator[Problem]:
    """Comparisons of the status of the run with a word that is not a status."""
    for path, (_, start, end, value) in equalities(expression.tree):
        if path == ("status",) and value not in STATUSES:
            near = nearest(str(value), STATUSES)
            help_ = f"did you mean `{near}`?" if near else f"a run is {', '.join(STATUSES)}"
            yield Problem("PLAN006", f"the status of a run is never `{str(value)[:40]}`", start, end, help_)


def _findings(problems: Iterable[Problem], expression: Expression, node: Node) -> Iterator[Diagnostic]:
    """Exact inside the text where it is as written, else the whole value."""
    exact = isinstance(node, Scalar) and expression.text in node.raw
    for each in problems:
        start = expression.span.start
        span = Span(start + each.start, start + max(each.end, each.start + 1)) if exact else node.span
        yield Diagnostic(each.code, worded(each.message), span, help=each.help)
