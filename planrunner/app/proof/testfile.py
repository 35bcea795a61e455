"""Test files: read, checked against their schema and their plan, and lowered to cases with exact places."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from planrunner.app.proof.coverage import Case, Crash, Expectation
from planrunner.app.proof.lives import Mishap
from planrunner.app.proof.names import asks, demands, known, matches, paths, written
from planrunner.app.proof.world import NO_DIGEST, Reply, World
from planrunner.capabilities.outputs import usage_of
from planrunner.diagnostics import Diagnostic, arrange, has_errors
from planrunner.machine.events import EVENTS
from planrunner.plan.expressions.check import Type, check_condition
from planrunner.plan.expressions.parse import parse as parse_expression
from planrunner.plan.expressions.quantities import parse_duration, parse_size
from planrunner.plan.expressions.values import FACTS, ExpressionError
from planrunner.plan.model import BEST, RANKED, Plan, Task
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.params import bind_params
from planrunner.plan.schema import document_check
from planrunner.records import Struct
from planrunner.source import Source, Span
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import Node, Scalar, Sequence, to_json
from planrunner.syntax.yaml_errors import other_digits

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
            "PLAN201", f"plan `{self._plan.id}` has no task `{name}`" + meant(near), node.span,
            help="" if near else _listing("its tasks are", self._paths),
        )  # fmt: skip

    def gate(self, node: Scalar) -> Diagnostic | None:
        """A task that a person may have to decide about."""
        fault = self.task(node)
        if fault is not None:
            return fault
        labelled = demands(self._plan)
        gates = [path for path, task in self._paths.items() if asks(task) or path in labelled]
        path = written(str(node.value))
        if not self._meant(path) or any(matches(path, gate) for gate in gates):
            return None
        help_ = _listing("people decide", gates) if gates else "no task of this plan waits for a person"
        return Diagnostic("PLAN201", f"`{node.value}` is not a gate: there is nothing to decide", node.span, help=help_)

    def output(self, task: str, node: Scalar) -> Diagnostic | None:
        """An output that a mock gives; only what looks like a slip of the pen is refused."""
        declared = {output.name for each in self._meant(task) for output in each.outputs}
        name = str(node.value)
        near = nearest(name, sorted(declared)) if declared and name not in declared else None
        if near is None:
            return None
        return Diagnostic("PLAN202", f"`{task}` has no output `{name}`" + meant(near), node.span)

    def plan_output(self, node: Scalar) -> Diagnostic | None:
        """An output of the plan."""
        names = [output.name for output in self._plan.outputs]
        if node.value in names:
            return None
        near = nearest(str(node.value), names)
        help_ = "" if near else _listing("its outputs are", names) if names else "it declares no outputs"
        return Diagnostic(
            "PLAN202", f"plan `{self._plan.id}` has no output `{node.value}`" + meant(near), node.span, help=help_
        )

    def fact(self, node: Scalar) -> Diagnostic | None:
        """A fact of the world."""
        if node.value in FACTS:
            return None
        near = nearest(str(node.value), tuple(FACTS))
        help_ = "" if near else _listing("conditions may read", tuple(FACTS))
        return Diagnostic("PLAN201", f"there is no fact `{node.value}`" + meant(near), node.span, help=help_)

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
                "PLAN006", f"there is no event `{kind.value}`" + meant(near), kind.span,
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
            if path[0] not in _READ_AFTER:
                near = nearest(path[0], _READ_AFTER)
                yield Diagnostic("PLAN201", f"`{path[0]}` is not defined here" + meant(near), node.span)
            elif path[0] == "tasks" and len(path) > 1 and not known(path[1], self._plan):
                near = nearest(path[1], self._paths)
                yield Diagnostic("PLAN201", f"plan `{self._plan.id}` has no task `{path[1]}`" + meant(near), node.span)

            elif path[0] == "hypotheses" and len(path) > 1 and path[1] not in self._hypotheses:
                near = nearest(path[1], self._hypotheses)
                message = f"plan `{self._plan.id}` has no hypothesis `{path[1]}`"
                yield Diagnostic("PLAN201", message + meant(near), node.span)

    @property
    def _hypotheses(self) -> list[str]:
        return [*(each.name for each in self._plan.hypotheses), BEST, RANKED]

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


LoadPlan = Callable[[str], Plan]
"""Gives the plan of a path; raises NotFound or PlanInvalid."""

_READ_AFTER = ("tasks", "params", "env", "plan", "run", "hypotheses")
"""What expressions about an ended run read."""

_INHERITED = ("params", "env", "facts", "mocks", "gates")


class Suite(Struct):
    """One test file: its text, its cases and what is wrong with it."""

    source: Source
    cases: tuple[Case, ...]
    findings: tuple[Diagnostic, ...]


def check_shape(tree: Node) -> list[Diagnostic]:
    """Every fault of a test file against ``schemas/plan-test.schema.json``."""
    return document_check("plan-test.schema.json", "the test file", tree)


def read_tests(source: Source, load_plan: LoadPlan) -> Suite:
    """The cases of a test file. Faults of the file are findings; those of its plans raise as ``load_plan`` does."""
    parsed = parse(source)
    if parsed.tree is None:
        empty = "a test file has `plan:` and `cases:`"
        findings = [each._replace(help=empty) if not source.text.strip() else each for each in parsed.findings]
        return Suite(source, (), arrange(findings))
    findings = [*parsed.findings, *(each._replace(fix=None) for each in check_shape(parsed.tree))]
    if has_errors(findings) or not isinstance(parsed.tree, MappingNode):
        return Suite(source, (), arrange(findings))
    reader = _Reader(source, parsed.tree, load_plan)
    cases = tuple(reader.cases())
    findings += reader.findings
    return Suite(source, cases, arrange(findings))


class _Reader:
    """Lowers one file."""

    __slots__ = ("_load", "_names", "_source", "_top", "findings")

    def __init__(self, source: Source, top: MappingNode, load: LoadPlan) -> None:
        self._source = source
        self._top = top
        self._load = load
        self._names: dict[str, Names] = {}
        self.findings: list[Diagnostic] = []

    def cases(self) -> Iterable[Case]:
        listed = self._top.get("cases")
        assert isinstance(listed, Sequence)
        seen: dict[str, Scalar] = {}
        for node in listed.items:
            assert isinstance(node, MappingNode)
            name = node.get("name")
            assert isinstance(name, Scalar)
            if str(name.value) in seen:
                self.findings.append(Diagnostic("PLAN002", f"two cases are called `{name.value}`", name.span))
            seen[str(name.value)] = name
            yield self._case(node, name)

    def _case(self, node: MappingNode, name: Scalar) -> Case:
        path = self._plan_path(node)
        names = self._plan_names(path) if path else None
        case = Case(
            str(name.value),
            path,
            self._merged(node, "params"),
            int(self._value(node, "seed") or 0),
            self._merged(node, "env"),
            self._world(node, names),
            span=name.span,
        )
        if names is not None:
            self.findings += other_digits(self._node(node, "params"))
            self.findings += names.params(case.params, self._node(node, "params") or name)
        expect = node.get("expect")
        if isinstance(expect, MappingNode):
            case = case._replace(expect=tuple(self._expectations(expect, names)))
        faults = node.get("faults")
        if isinstance(faults, Sequence):
            for fault in faults.items:
                assert isinstance(fault, MappingNode)
                case = self._with_fault(case, fault, names)
        return case

    def _plan_path(self, node: MappingNode) -> str:
        named = node.get("plan") or self._top.get("plan")
        if not isinstance(named, Scalar):
            self.findings.append(
                Diagnostic(
                    "PLAN004",
                    "the test file names no plan",
                    self._top.entries[0][0].span,
                    help="begin it with `plan: ../release.yaml`, from the folder of this file",
                )
            )
            return ""
        path = os.path.normpath(os.path.join(os.path.dirname(self._source.name), str(named.value)))
        if not os.path.isfile(path):
            near = near_file(path)
            help_ = f"did you mean `{near}`?" if near else "paths count from the folder of the test file"
            self.findings.append(Diagnostic("PLAN006", f"there is no plan `{named.value}`", named.span, help=help_))
            return ""
        return path

    def _plan_names(self, path: str) -> Names:
        if path not in self._names:
            self._names[path] = Names(self._load(path))
        return self._names[path]

    def _node(self, node: MappingNode, key: str) -> Node | None:
        return node.get(key) or self._top.get(key)

    def _value(self, node: MappingNode, key: str) -> Json:
        found = self._node(node, key)
        return to_json(found) if found is not None else None

    def _entries(self, node: MappingNode, key: str) -> list[tuple[Scalar, Node]]:
        """What stands under a key of the file and of the case; the latter is later and wins."""
        result: list[tuple[Scalar, Node]] = []
        for holder in (self._top, node):
            under = holder.get(key)
            if isinstance(under, MappingNode):
                result += under.entries
        return result

    def _merged(self, node: MappingNode, key: str) -> dict[str, Json]:
        return {str(name.value): to_json(value) for name, value in self._entries(node, key)}

    def _world(self, node: MappingNode, names: Names | None) -> World:
        mocks: dict[str, tuple[Reply, ...]] = {}
        for name, value in self._entries(node, "mocks"):
            self._say(names.task(name) if names else None)
            listed = value.items if isinstance(value, Sequence) else [value]
            mocks[str(name.value)] = tuple(self._reply(each, str(name.value), names) for each in listed)
        for name, _ in self._entries(node, "gates"):
            self._say(names.gate(name) if names else None)
        facts: dict[str, Json] = {}
        for name, value in self._entries(node, "facts"):
            self._say(names.fact(name) if names else None)
            fact, fault = fact_value(str(name.value), to_json(value))
            facts[str(name.value)] = fact
            if fault:
                self.findings.append(Diagnostic("PLAN006", fault, value.span))
        return World(mocks, self._merged(node, "gates"), facts, bool(self._value(node, "strict")))

    def _reply(self, node: Node, task: str, names: Names | None) -> Reply:
        if isinstance(node, Scalar):
            return reply_of(str(node.value))
        assert isinstance(node, MappingNode)
        outputs = node.get("outputs")
        if isinstance(outputs, MappingNode) and names is not None:
            for name, _ in outputs.entries:
                self._say(names.output(task, name))
        return reply_of(to_json(node))

    def _with_fault(self, case: Case, node: MappingNode, names: Names | None) -> Case:
        crash = node.get("crash")
        if isinstance(crash, Scalar):
            stored = self._plain(node, "entries") != "lost"
            return case._replace(crash=Crash(crash.value if isinstance(crash.value, int) else 0, stored))
        attempt = int(self._plain(node, "attempt") or 1)
        for key in ("timeout", "interrupted", "done-but-error", "in-doubt"):
            named = node.get(key)
            if isinstance(named, Scalar):
                self._say(names.task(named) if names else None)
                case = with_fault(case, key, str(named.value), attempt)
                settle = self._plain(node, "settle")
                if settle:
                    case = case._replace(settle={**case.settle, str(named.value): str(settle)})
        return case

    @staticmethod
    def _plain(node: MappingNode, key: str) -> Json:
        found = node.get(key)
        return found.value if isinstance(found, Scalar) else None

    def _say(self, finding: Diagnostic | None) -> None:
        if finding is not None:
            self.findings.append(finding)

    def _expectations(self, node: MappingNode, names: Names | None) -> Iterable[Expectation]:
        for key, value in node.entries:
            about = str(key.value)
            if about == "tasks":
                assert isinstance(value, MappingNode)
                yield from self._task_expectations(value, names)
            elif about in ("order", "never", "waiting"):
                assert isinstance(value, Sequence)
                for item in value.items:
                    assert isinstance(item, Scalar)
                    self._say(names.task(item) if names else None)
                yield Expectation(about, to_json(value), value.span)
            elif about == "outputs":
                assert isinstance(value, MappingNode)
                for name, wanted in value.entries:
                    self._say(names.plan_output(name) if names else None)
                    yield Expectation(f"outputs.{name.value}", to_json(wanted), wanted.span)
            elif about == "duration":
                assert isinstance(value, Scalar)
                self.findings += duration_faults(value)
                yield Expectation(about, value.value, value.span)
            elif about in ("holds", "events"):
                yield from self._listed(about, value, names)
            else:
                yield Expectation(about, to_json(value), value.span)

    def _task_expectations(self, node: MappingNode, names: Names | None) -> Iterable[Expectation]:
        for name, value in node.entries:
            task = str(name.value)
            self._say(names.task(name) if names else None)
            if isinstance(value, Scalar):
                yield Expectation(f"tasks.{task}.status", value.value, value.span, task)
                continue
            assert isinstance(value, MappingNode)
            for key, wanted in value.entries:
                if key.value == "outputs" and isinstance(wanted, MappingNode):
                    for output, each in wanted.entries:
                        yield Expectation(f"tasks.{task}.outputs.{output.value}", to_json(each), each.span, task)
                else:
                    yield Expectation(f"tasks.{task}.{key.value}", to_json(wanted), wanted.span, task)

    def _listed(self, about: str, node: Node, names: Names | None) -> Iterable[Expectation]:
        assert isinstance(node, Sequence)
        if about == "events":
            for item in node.items:
                if names is not None:
                    self.findings += names.event(item)
            yield Expectation("events", to_json(node), node.span)
            return
        for item in node.items:
            assert isinstance(item, Scalar)
            if names is not None:
                self.findings += names.condition(item)
            yield Expectation("holds", item.value, item.span)


def reply_of(said: Json) -> Reply:
    """An outcome as a test writes it: one word, or a mapping."""
    if isinstance(said, str):
        return {
            "ok": Reply(),
            "fails": Reply(failure="logic", done=False),
            "transient": Reply(failure="transient", done=False),
            "policy": Reply(failure="policy", done=False),
            "timeout": Reply(takes=TOO_LONG, done=False),
        }[said]
    takes = said.get("takes")
    return Reply(
        said.get("exit_code"),
        said.get("stdout", ""),
        said.get("stderr", ""),
        said.get("outputs"),
        said.get("failure", ""),
        said.get("message", ""),
        parse_duration(takes) if takes is not None else None,
        usage_of(said.get("usage", {})).amounts,
        tuple(_artifact(name, value) for name, value in said.get("artifacts", {}).items()),
        bool(said.get("done", not (said.get("failure") or said.get("exit_code")))),
    )


TOO_LONG = 10.0**9
"""Seconds: longer than any timeout."""


def _artifact(name: str, value: Json) -> dict[str, Json]:
    fields = value if isinstance(value, dict) else {"size": value}
    return {"name": name, "path": name, "sha256": NO_DIGEST, **fields}


def with_fault(case: Case, kind: str, task: str, attempt: int) -> Case:
    """The case with one more thing that goes wrong."""
    if kind == "interrupted":
        return case._replace(mishaps=(*case.mishaps, Mishap(task, attempt, "stop")))
    if kind == "in-doubt":
        return case._replace(mishaps=(*case.mishaps, Mishap(task, attempt, "crash")))
    fault = reply_of("timeout") if kind == "timeout" else DONE_BUT_ERROR
    said = case.world.replies.get(task, ())
    filled = [*said, *[said[-1] if said else Reply()] * (attempt - len(said))]
    filled[attempt - 1] = fault
    if not said or len(said) < attempt + 1:
        filled.append(said[-1] if said else Reply())
    return case._replace(world=case.world._replace(replies={**case.world.replies, task: tuple(filled)}))


DONE_BUT_ERROR = Reply(failure="transient", message="it took effect, and its answer was lost", done=True)

_SIZES = frozenset({"memory.has_space", "disk.free", "host.memory"})


def fact_value(name: str, value: Json) -> tuple[Json, str]:
    """A fact as the machine reads it, and what is wrong with it; sizes are bytes."""
    if name not in _SIZES or not isinstance(value, str):
        return value, ""
    size = parse_size(value)
    return size, "" if size is not None else f"`{name}` is a size such as `50MB`, not `{value[:40]}`"


def near_file(path: str) -> str:
    """The file beside a path that has nearly its name; empty where there is none."""
    folder = os.path.dirname(path) or "."
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return ""
    near = nearest(os.path.basename(path), names)
    return os.path.join(folder, near) if near else ""
