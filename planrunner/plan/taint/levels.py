"""The levels of a plan: which task a name means from where it is read, through subplans, loops and fan-outs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from planrunner.plan.model import Plan, Task
from planrunner.plan.tasks import inside, tools_of
from planrunner.records import Struct

Key: TypeAlias = "tuple[str, ...]"
Path: TypeAlias = "tuple[str, ...]"
Json = Any


class TaskScope(Struct):
    """Tasks that see each other. ``key`` are the ids from the plan down to the task that holds them, ``holder`` is that
    task; ``plan`` is the one they are written in. Behind a ``linked`` level nothing of the levels around is seen."""

    key: Key
    plan: Plan
    tasks: dict[str, Task]
    outer: TaskScope | None = None
    holder: Task | None = None
    linked: bool = False


class Place(NamedTuple):
    """Where something is read: a level, and the task there (None: the level itself, as for the outputs of a plan).
    ``after``: the task has acted and sees what it gave."""

    level: TaskScope
    task: Task | None = None
    after: bool = False

    @property
    def key(self) -> Key:
        return self.level.key if self.task is None else (*self.level.key, self.task.id)


class Cell(Struct):
    """A value: an ``output`` of the task ``at``, all of its ``input``, a ``param`` of the linked plan or what the loop
    there carries (``carry``), the ``item`` of a fan-out, or what people ``told`` who sent the run back. ``*`` is any
    name; ``path`` is the member that is meant."""

    kind: str
    at: Key
    name: str
    path: Path = ()


class Levels:
    """The levels of one plan, each made on demand."""

    def __init__(self, plan: Plan) -> None:
        self._made: dict[Key, TaskScope] = {(): TaskScope((), plan, _named(plan.tasks))}

    def level(self, key: Key) -> TaskScope:
        """The tasks inside the task that a key names; raises KeyError for unknown ones."""
        found = self._made.get(key)
        if found is None:
            outer = self.level(key[:-1])
            container = outer.tasks[key[-1]]
            tasks = _held(container)
            if not tasks:
                raise KeyError(key)
            plan = outer.plan if container.sub is None else container.sub
            found = TaskScope(key, plan, _named(tasks), outer, container, container.sub is not None)
            self._made[key] = found
        return found

    def task(self, key: Key) -> Place:
        """The task that a key names, and where it stands."""
        level = self.level(key[:-1])
        return Place(level, level.tasks[key[-1]])

    def inside(self, place: Place) -> TaskScope | None:
        """The tasks that a task holds."""
        assert place.task is not None
        return self.level(place.key) if _held(place.task) else None

    def every(self) -> Iterator[Place]:
        """All tasks of the plan and of the levels in it, from the outside to the inside."""
        waiting = [self.level(())]
        for level in waiting:
            for task in level.tasks.values():
                place = Place(level, task)
                yield place
                if (inner := self.inside(place)) is not None:
                    waiting.append(inner)


def _held(task: Task) -> tuple[Task, ...]:
    """The tasks inside one; of calls that a model asks for, those of its tools."""
    return inside(task) or tools_of(task)


def is_of_tools(level: TaskScope) -> bool:
    """Whether the tasks of a level are the tools of a model, which chooses their inputs."""
    return level.holder is not None and bool(tools_of(level.holder))


def _named(tasks: tuple[Task, ...]) -> dict[str, Task]:
    return {task.id: task for task in tasks}


def climbing(level: TaskScope) -> Iterator[TaskScope]:
    """A level and those around it that it sees."""
    here: TaskScope | None = level
    while here is not None:
        yield here
        here = None if here.linked else here.outer


def meant(place: Place, path: Path) -> list[Cell]:
    """The values that a path means where it is read; nothing for what no foreign text can be in."""
    root, rest = path[0], path[1:]
    if root == "tasks":
        return _of_task(place.level, rest[0], rest[1:]) if rest else []
    if root == "params":
        at = next((level.key for level in climbing(place.level) if level.linked), ())
        return [Cell("param", at, rest[0] if rest else "*", rest[1:])] if at else []
    if root == "carry":
        loops = (level for level in climbing(place.level) if level.holder is not None and level.holder.loop is not None)
        return [Cell("carry", level.key, rest[0] if rest else "*", rest[1:]) for level in loops][:1]
    if root == "rework":
        return [Cell("told", place.level.key, "comment")] if rest[:1] in ((), ("comment",)) else []
    if path[:2] == ("run", "failures"):
        tasks = [Place(level, task) for level in climbing(place.level) for task in level.tasks.values()]
        return [cell for each in tasks for name in ("message", "reason") for cell in of_task(each, (name,))]
    return _item(place, root, rest) or _own(place, path)


def _of_task(level: TaskScope, name: str, rest: Path) -> list[Cell]:
    for around in climbing(level):
        if name in around.tasks:
            return of_task(Place(around, around.tasks[name]), rest)
    return []


def of_task(place: Place, rest: Path) -> list[Cell]:
    """The values that the record of a task means, by the path inside of it."""
    key = place.key
    if rest[:1] == ("items",):
        rest = rest[2:] if rest[1:2] == ("*",) else rest[1:]
        if rest[:1] == ("item",):
            return [Cell("item", key, "*")]
    if not rest:
        return [Cell("output", key, "*")]
    if rest[0] == "outputs":
        assert place.task is not None
        name, path = rest[1] if len(rest) > 1 else "*", rest[2:]
        if place.task.fanout is not None and path[:1] == ("*",):
            path = path[1:]
        return [Cell("output", key, name, path)]
    if rest[0] == "artifacts" and (len(rest) < 3 or rest[2] == "path"):
        return [Cell("output", key, KEPT)]
    return [Cell("output", key, rest[0])] if rest[0] in TOLD else []


KEPT = "artifacts"
"""What a task keeps as files: where they lie leads to what was written."""


TOLD = ("stdout", "stderr", "reason", "message")
"""What a task says beside its outputs."""


def _item(place: Place, root: str, rest: Path) -> list[Cell]:
    """What the nearest fan-out gives by a name."""
    levels = list(climbing(place.level))
    holders = [(level.outer, level.holder) for level in levels if level.holder is not None and not level.linked]
    for level, task in [(place.level, place.task), *holders]:
        if level is None or task is None or task.fanout is None:
            continue
        matrix = task.fanout.matrix is not None
        if root == ("matrix" if matrix else task.fanout.name):
            name = rest[0] if matrix and rest else "*"
            return [Cell("item", (*level.key, task.id), name)]
    return []


def _own(place: Place, path: Path) -> list[Cell]:
    """What a task that has acted gave, and what a gate sees of the tasks before it."""
    task = place.task
    if task is None:
        return []
    if path[0] in ("attempt", "now", "uuid", "retry"):
        said = ("message", "reason") if path[:2] == ("retry", "reason") else ()
        return [cell for name in said for cell in of_task(place, (name,))]
    if task.gate is not None:
        if path[0] in place.level.tasks:
            return _of_task(place.level, path[0], path[1:])
        needs = task.needs if path[0] == "outputs" else ()
        return [cell for need in needs for cell in _of_task(place.level, need, path)]
    if not place.after:
        return []
    return of_task(place, path if path[0] in ("outputs", *TOLD) else ("outputs", *path))
