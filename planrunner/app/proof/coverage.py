"""Cases of a plan test: as data, as they follow from the plan itself, and what of the plan they reached."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from planrunner.app.proof.lives import Lived, Mishap
from planrunner.app.proof.names import covered, demands, home, paths
from planrunner.app.proof.reads import beside, comparisons
from planrunner.app.proof.world import SAMPLES, Reply, World
from planrunner.frozen import EMPTY
from planrunner.jsontext import as_text
from planrunner.machine.events import GateDecided, RetryScheduled, TaskSettled, TasksReset, UndoSettled
from planrunner.machine.joins import fired
from planrunner.plan.model import Edge, Expression, Gate, Plan, Task
from planrunner.plan.params import bind_params
from planrunner.plan.tasks import is_container
from planrunner.records import Struct
from planrunner.source import Span

Json = Any


HERE = Span(0, 0)


class Expectation(Struct):
    """One thing that must hold: ``about`` names it (``status``, ``tasks.build.attempts``), ``wanted`` is data, ``span``
    its place in the test file, ``task`` the name or pattern of the task it is about."""

    about: str
    wanted: Json
    span: Span = HERE
    task: str = ""


class Crash(Struct):
    """The process dies at a journal write; ``write`` 0 means each in turn."""

    write: int
    stored: bool = True


class Case(Struct):
    """``plan`` is the path of the plan file, ``span`` the name of the case in its file. ``generated`` cases follow from
    the plan and stand in no file; ``guess`` marks one that is there for what it reaches alone."""

    name: str
    plan: str
    params: Mapping[str, Json] = EMPTY
    seed: int = 0
    env: Mapping[str, str] = EMPTY
    world: World = World()
    mishaps: tuple[Mishap, ...] = ()
    crash: Crash | None = None
    settle: Mapping[str, str] = EMPTY
    expect: tuple[Expectation, ...] = ()
    span: Span = HERE
    generated: bool = False
    guess: bool = False


KINDS = ("tasks", "edges", "gates", "failures", "conditions")


class Point(Struct):
    """Something that a run can reach: ``task`` is a written path, ``text`` says the rest."""

    kind: str
    task: str
    text: str


def points(plan: Plan) -> list[Point]:
    """Everything in a plan that its tests should reach, in the order of the plan."""
    points: list[Point] = []
    labelled = demands(plan)
    for path, task in covered(plan.tasks):
        points.append(Point("tasks", path, "starts"))
        points += [
            Point("conditions", path, f"when `{_when(task)}` is {word}") for word in ("true", "false") if task.when
        ]
        for edge in task.edges:
            points += [Point("edges", path, edge_text(edge)), Point("edges", path, edge_text(edge) + " not taken")]
        gates = [gate for _, gate in labelled.get(path, ())] if task.gate is None else [task.gate]
        words = dict.fromkeys(word for gate in gates for word in _decisions(gate))
        points += [Point("gates", path, word) for word in words]
        points += [Point("failures", path, text) for text in _failures(task)]
    return points


def _decisions(gate: Gate) -> list[str]:
    """The ways in which a gate can be decided."""
    words = any(check.expression is None for check in gate.checks)
    asks = gate.ask or gate.roles or gate.people or gate.options or gate.form
    if gate.kind not in ("approval", "decision", "diff") and not (words or asks):
        return ["passed", "failed"]
    return ["approved", "rejected", *(["expired"] if gate.expires is not None else [])]


def _when(task: Task) -> str:
    assert task.when is not None
    return task.when.text


def edge_text(edge: Edge) -> str:
    """An edge as a point names it."""
    only = f" ({edge.failure_class})" if edge.failure_class else ""
    condition = f" when `{edge.condition.text}`" if edge.condition is not None else " else" if edge.otherwise else ""
    return f"on {edge.on}{only} {'back ' if edge.rework else ''}to {edge.target}{condition}"


def _failures(task: Task) -> list[str]:
    texts = []
    if task.retry.attempts > 1:
        texts.append("is tried again")
    if task.allow_failure:
        texts.append("fails with leave")
    texts += [f"fails as {mode.name}" for mode in task.failure_modes]
    if task.rollback is not None:
        texts.append("is rolled back")
    return texts


class Coverage:
    """The points of a plan and those that runs of it have reached."""

    __slots__ = ("_known", "points", "reached", "tasks")

    def __init__(self, plan: Plan) -> None:
        self.points = points(plan)
        self.tasks = paths(plan)
        self._known = frozenset(self.points)
        self.reached: set[Point] = set()

    def note(self, lived: Lived) -> int:
        """Take a run in; gives how many points it was the first to reach."""
        before = len(self.reached)
        self.reached |= _reached(lived, self.tasks) & self._known
        return len(self.reached) - before

    def share(self) -> float:
        """The part of the points that was reached, from 0 to 1."""
        return len(self.reached) / len(self.points) if self.points else 1.0

    def counts(self) -> dict[str, tuple[int, int]]:
        """Reached and all, by kind; kinds that the plan does not have are left out."""
        result: dict[str, tuple[int, int]] = {}
        for kind in KINDS:
            every = [point for point in self.points if point.kind == kind]
            if every:
                result[kind] = (sum(point in self.reached for point in every), len(every))
        return result

    def missing(self) -> list[Point]:
        """The points that no run has reached."""
        return [point for point in self.points if point not in self.reached]


def reached_tasks(lived: Lived, every: Container[str]) -> set[str]:
    """The written paths of the tasks that a run reached; ``every`` are those that the plan has."""
    return {point.task for point in _reached(lived, every) if point.kind == "tasks"}


def _reached(lived: Lived, every: Container[str]) -> set[Point]:
    state = lived.state
    points: set[Point] = set()
    for number, task in enumerate(state.specs):
        path, seen = home(task.id, every), state.tasks[number]
        if seen.attempts or seen.status == "blocked" or seen.gate is not None:
            points.add(Point("tasks", path, "starts"))
            if task.when is not None:
                points.add(Point("conditions", path, f"when `{task.when.text}` is true"))
        if task.when is not None and seen.status == "skipped" and seen.reason == "when":
            points.add(Point("conditions", path, f"when `{task.when.text}` is false"))
        if seen.status == "failed" and task.allow_failure:
            points.add(Point("failures", path, "fails with leave"))
        for route in state.shape.routes_out.get(number, ()):
            text = edge_text(route.edge)
            verdict = fired(state, route)
            if verdict is not None:
                points.add(Point("edges", path, text if verdict else text + " not taken"))
        for route in state.shape.reworks.get(number, ()):
            if seen.dependency_outcome:
                points.add(Point("edges", path, edge_text(route.edge) + " not taken"))
    return points | _from_entries(lived, every)


def _from_entries(lived: Lived, every: Container[str]) -> set[Point]:
    """What only the journal tells: attempts that were tried again, the classes of failures, decisions, rework."""
    points: set[Point] = set()
    state = lived.state
    for entry in lived.entries:
        event = entry.event
        if isinstance(event, RetryScheduled):
            points.add(Point("failures", home(event.task, every), "is tried again"))
            points.add(Point("failures", home(event.task, every), f"fails as {event.failure}"))
        elif isinstance(event, TaskSettled):
            if event.failure:
                points.add(Point("failures", home(event.task, every), f"fails as {event.failure}"))
        elif isinstance(event, UndoSettled) and event.status == "undone":
            points.add(Point("failures", home(event.task, every), "is rolled back"))
        elif isinstance(event, GateDecided):
            points.add(Point("gates", home(event.task, every), event.decision))
        elif isinstance(event, TasksReset) and event.cause in state.index:
            for route in state.shape.reworks.get(state.index[event.cause], ()):
                if state.specs[route.target].id in event.tasks:
                    points.add(Point("edges", home(event.cause, every), edge_text(route.edge)))
    return points


def coverage_object(coverage: Coverage) -> dict[str, Json]:
    """The coverage of a plan as data."""
    return {
        "share": round(coverage.share(), 4),
        "kinds": {kind: {"reached": one, "all": every} for kind, (one, every) in coverage.counts().items()},
        "missing": [point._asdict() for point in coverage.missing()],
    }


_CLASSES = ("logic", "transient", "timeout", "policy")


def all_goes_well(plan: Plan, path: str) -> Case:
    """The case in which nothing goes wrong. Required parameters get a value of their type."""
    expected = (Expectation("status", "completed"),)
    return Case("all goes well", path, required(plan), world=World(judged=False), expect=expected, generated=True)


def implied(plan: Plan, path: str, started: Container[str]) -> Iterator[Case]:
    """The other cases of a plan without tests; ``started`` holds the written paths of tasks that start when all goes
    well."""
    whole = all_goes_well(plan, path)._replace(expect=())
    labelled = demands(plan)
    for name, task in covered(plan.tasks):
        for _, gate in labelled.get(name, ()):
            yield from _decided_cases(whole, name, gate)
        if task.gate is not None:
            yield from _decided_cases(whole, name, task.gate)
        elif is_container(task):
            continue
        elif name in started:
            yield from _failing_cases(whole, plan, name, task)
        else:
            yield from _later_failures(whole, plan, name)
    yield from _values(whole, plan)


def required(plan: Plan) -> dict[str, Json]:
    """Values for the parameters that have to be given."""
    return {
        param.name: param.choices[0] if param.choices else SAMPLES.get(param.type, f"<{param.name}>")
        for param in plan.params
        if param.required
    }


def _decided_cases(whole: Case, name: str, gate: Gate) -> Iterator[Case]:
    words: list[Json] = ["reject"]
    if gate.on_reject.action == "rework":
        words.append(["reject", "approve"])
    if gate.expires is not None:
        words.append("expire")
    words += [{"decision": "approve", "option": option.name} for option in gate.options[1:]]
    for word in words:
        world = whole.world._replace(gates={name: word})
        yield whole._replace(name=f"`{name}` is decided: {_decision_text(word)}", world=world, guess=True)


def _decision_text(word: Json) -> str:
    if isinstance(word, list):
        return ", then ".join(word)
    return word if isinstance(word, str) else str(word["option"])


def _failing_cases(whole: Case, plan: Plan, name: str, task: Task) -> Iterator[Case]:
    bad = _bad(task)
    undone = plan.on_failure == "rollback" and (task.rollback is not None or bool(task.backup))
    retried = task.retry.attempts > 1
    again = any(setting.name == "retry.attempts" for setting in task.computed) or any(e.rework for e in task.edges)
    certain = not undone and not again and "/" not in name and task.fanout is None
    once = whole._replace(name=f"`{name}` fails once", world=whole.world._replace(replies={name: (bad, Reply())}))
    yield _expecting(once, name, "completed" if retried else "failed", certain)
    if retried:
        always = whole.world._replace(replies={name: (bad,)})
        yield _expecting(whole._replace(name=f"`{name}` fails every time", world=always), name, "failed", certain)
    for mode in task.failure_modes:
        if mode.detect is not None and mode.detect.expression is not None:
            world = whole.world._replace(replies={name: (_detected(mode.detect.expression),)})
            yield whole._replace(name=f"`{name}` fails as {mode.name}", world=world, guess=True)


def _expecting(case: Case, name: str, status: str, certain: bool) -> Case:
    """The status of a task is certain only where nothing resets it."""
    if not certain:
        return case._replace(guess=True)
    return case._replace(expect=(Expectation(f"tasks.{name}.status", status, task=name),))


def _later_failures(whole: Case, plan: Plan, name: str) -> Iterator[Case]:
    """A task that starts only when another one fails: it fails as well."""
    every = dict(covered(plan.tasks))
    prefix, _, last = name.rpartition("/")
    for path, task in every.items():
        if path.rpartition("/")[0] != prefix:
            continue
        for edge in task.edges:
            if edge.target == last and edge.on in ("failure", "always"):
                first = _bad(task)
                for mode in task.failure_modes:
                    if (
                        mode.name == edge.failure_class
                        and mode.detect is not None
                        and mode.detect.expression is not None
                    ):
                        first = _detected(mode.detect.expression)
                world = whole.world._replace(replies={path: (first,), name: (_bad(every[name]),)})
                yield whole._replace(name=f"`{path}` fails, then `{name}`", world=world)
                return


def _bad(task: Task) -> Reply:
    """A reply that fails the task: in a class that it retries where it retries any."""
    failure = next((each for each in _CLASSES if not task.retry.on or each in task.retry.on), "logic")
    reads_exit = any(("exit_code",) in each.expression.paths for each in task.expect if each.expression is not None)
    return Reply(exit_code=0 if reads_exit or task.uses != "shell" else 1, failure=failure, done=False)


def _detected(expression: Expression) -> Reply:
    """A reply with the texts and numbers that a detector looks for, as far as it compares with constants."""
    fields: dict[str, Json] = {}
    for path, operator, constant in comparisons(expression.tree):
        name = path[-1]
        if name in ("stdout", "stderr", "message") and isinstance(constant, str):
            fields[name] = f"{fields.get(name, '')} {constant}".strip()
        elif (name == "exit_code" and isinstance(constant, int)) or name == "failure":
            fields[name] = beside(constant, operator)
    if not fields.get("exit_code") and "failure" not in fields:
        fields["failure"] = "logic"
    return Reply(**fields, done=False)


def _values(whole: Case, plan: Plan) -> Iterator[Case]:
    for param in plan.params:
        choices = param.choices or ((True, False) if param.type == "bool" else ())
        for choice in choices:
            if choice != param.default:
                params = {**whole.params, param.name: choice}
                yield whole._replace(name=f"{param.name} is {as_text(choice)}", params=params, guess=True)
    seen: set[tuple[str, str, str]] = set()
    for prefix, path, operator, constant in _compared(plan):
        for word in (operator, {"==": "!=", "!=": "=="}.get(operator, "<" if ">" in operator else ">")):
            value = beside(constant, word)
            if path[0] == "tasks" and len(path) == 4 and path[2] == "outputs":
                name, change = prefix + path[1], {path[3]: value}
                world = whole.world._replace(replies={name: (Reply(outputs=change),)})
                case = whole._replace(world=world, name=f"`{name}` gives {path[3]} {as_text(value)}", guess=True)
            elif path[0] == "params" and len(path) == 2 and _fits(plan, path[1], value):
                case = whole._replace(
                    params={**whole.params, path[1]: value}, name=f"{path[1]} is {as_text(value)}", guess=True
                )
            else:
                continue
            key = (path[0], path[1], case.name)
            if key not in seen:
                seen.add(key)
                yield case


def _fits(plan: Plan, name: str, value: Json) -> bool:
    return not bind_params(plan, {**required(plan), name: value}).problems


def _compared(plan: Plan) -> Iterator[tuple[str, tuple[str, ...], str, Json]]:
    """Names that conditions compare with constants, and the level on which they are read."""
    for path, task in covered(plan.tasks):
        level = path[: len(path) - len(task.id)]
        for condition in (task.when, task.join.expression, *(edge.condition for edge in task.edges)):
            if condition is not None:
                yield from ((level, *found) for found in comparisons(condition.tree))
        if task.loop is not None and task.loop.until is not None:
            yield from ((f"{path}/", *found) for found in comparisons(task.loop.until.tree))
