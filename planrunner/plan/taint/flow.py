"""From where each value of a plan comes: one step back at a time, as far as foreign text is concerned."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from planrunner.files.match import is_glob, shell_fits
from planrunner.plan.expressions.functions import FUNCTIONS
from planrunner.plan.expressions.tree import children
from planrunner.plan.model import Action, Plan, Task
from planrunner.plan.shell.variables import redirected
from planrunner.plan.taint.levels import KEPT, TOLD, Cell, Key, Levels, Place, is_of_tools, meant
from planrunner.plan.taint.positions import ASKING, asks
from planrunner.plan.taint.traits import CLOSED, DIGEST, Known, files_of, is_closed, member
from planrunner.plan.tasks import tools_of
from planrunner.plan.templated import holds_template, templates
from planrunner.plan.templates import codes, placeholders, references, tree_of
from planrunner.records import Struct

Json = Any


class Step(NamedTuple):
    """What stands one step before a value: other values, and whether it is untrusted."""

    foreign: bool
    cells: tuple[Cell, ...] = ()


LONGEST_NAME = 4096
"""Characters of the name of a file."""

DEEPEST_FOLDER = 40
"""Folders inside each other that are followed."""

MANY_FILES = 200
EVERY_FILE = "*/"
"""No name of a file: stands for all that the plan writes."""

_CLEAN = Step(False)
_WRITTEN = Step(True)


class Flow:
    """The values of one plan. ``known`` tells of each capability what it makes of foreign text."""

    def __init__(self, plan: Plan, known: Mapping[str, Known]) -> None:
        self.levels = Levels(plan)
        self._known = known
        self.near: dict[tuple[Key, str | None], tuple[Any, ...]] = {}
        """What was found out about tasks and their calls (``findings.py``)."""
        self._steps: dict[Cell, Step] = {}
        self._files: dict[str, list[tuple[tuple[str, ...], bool]]] | None = None

    def known(self, name: str) -> Known:
        return self._known.get(name, Known())

    def back(self, cell: Cell) -> Step:
        """One step back from a value."""
        found = self._steps.get(cell)
        if found is None:
            found = self._steps[cell] = _BACK[cell.kind](self, cell)
        return found

    def _output(self, cell: Cell) -> Step:
        place = self.levels.task(cell.at)
        found = self._given(place, cell)
        stands = _in_its_place(place, cell)
        return found._replace(cells=(*found.cells, *stands)) if stands else found

    def _given(self, place: Place, cell: Cell) -> Step:
        """What a task itself gave."""
        task = place.task
        assert task is not None
        declared = {output.name: output for output in task.outputs}
        named = declared.get(cell.name)
        if named is not None and named.type in CLOSED:
            return _CLEAN
        if cell.name == "*" and not tools_of(task):
            return self._whole(place)
        if named is not None and named.path and named.type not in _LEAD_THERE:
            return Step(_declared(place), (Cell("file", (), placed(task, named.path)),))
        inner = self.levels.inside(place)
        if inner is not None and is_of_tools(inner):
            return Step(False, tuple(Cell("output", (*place.key, name), "*") for name in inner.tasks))
        if inner is not None:
            return self._held(place, cell)
        if named is not None and named.value is not None and not (task.uses and _is_plain(named.value)):
            return Step(False, read(place._replace(after=True), named.value))
        if task.uses:
            return self._called(place, cell)
        return _CLEAN if _is_chosen(task, cell.name) else _WRITTEN

    def _whole(self, place: Place) -> Step:
        """All that a task gave."""
        task = place.task
        assert task is not None
        names = {output.name for output in task.outputs}
        if task.gate is not None:
            names |= {"reason", *(field.name for field in task.gate.form)}
        elif (inner := self.levels.inside(place)) is not None:
            names |= {output.name for output in (inner.plan.outputs if inner.linked else ())}
            names |= set(task.loop.carry or ()) if task.loop is not None else set()
        elif task.uses:
            names |= {*self.known(task.uses).foreign, *TOLD} - {"*"} or {"value"}
        else:
            names.add("text")
        return Step(False, tuple(Cell("output", place.key, name) for name in sorted(names)))

    def _held(self, place: Place, cell: Cell) -> Step:
        """An output of a task that holds others."""
        task, inner = place.task, self.levels.inside(place)
        assert task is not None and inner is not None
        if task.loop is not None and isinstance(task.loop.carry, dict) and cell.name in task.loop.carry:
            return Step(False, (Cell("carry", place.key, cell.name),))
        given = (*task.outputs, *(inner.plan.outputs if inner.linked else ()))
        values = [output.value for output in given if output.name == cell.name and output.type not in CLOSED]
        return Step(False, tuple(found for value in values for found in read(Place(inner), value)))

    def _called(self, place: Place, cell: Cell) -> Step:
        """An output of a capability."""
        task = place.task
        assert task is not None
        found = self.known(task.uses)
        foreign = _declared(place) or _reaches(task)
        if _is_own(found, cell) or _is_shaped(found, task.inputs, cell):
            return Step(foreign)
        foreign = foreign or cell.name in found.foreign or "*" in found.foreign
        foreign = foreign or (cell.name in (*TOLD, KEPT) and bool(found.foreign))
        return Step(foreign, (Cell("input", cell.at, "*"),) if cell.name != KEPT else ())

    def _input(self, cell: Cell) -> Step:
        place = self.levels.task(cell.at)
        task = place.task
        assert task is not None
        given: list[Json] = [
            task.inputs,
            task.run,
            task.stdin,
            task.ready,
            [value for _, value in (*place.level.plan.env, *task.env)],
        ]
        return Step(False, read(place, given))

    def _param(self, cell: Cell) -> Step:
        place = self.levels.task(cell.at)
        task = place.task
        assert task is not None
        given = task.params if isinstance(task.params, dict) else {}
        values = list(given.values()) if cell.name == "*" else given.get(cell.name)
        declared = next((param for param in (task.sub.params if task.sub else ()) if param.name == cell.name), None)
        if declared is not None and (declared.type in CLOSED or declared.choices):
            return _CLEAN
        return Step(False, _narrowed(read(place, values), cell.path, values))

    def _carry(self, cell: Cell) -> Step:
        inner = self.levels.level(cell.at)
        assert inner.holder is not None and inner.holder.loop is not None
        carry = inner.holder.loop.carry
        given = carry if isinstance(carry, dict) else {}
        values = list(given.values()) if cell.name == "*" else given.get(cell.name)
        return Step(False, _narrowed(read(Place(inner), values), cell.path, values))

    def _item(self, cell: Cell) -> Step:
        place = self.levels.task(cell.at)
        assert place.task is not None and place.task.fanout is not None
        fanout = place.task.fanout
        before = place._replace(task=None)  # what it multiplies by is read outside of its items
        values: list[Json] = [fanout.items] if fanout.matrix is None else []
        expressions = [fanout.foreach] if fanout.foreach is not None else []
        for axis in fanout.axes:
            if cell.name in ("*", axis.name):
                values.append(axis.items)
                expressions += [axis.expression] if axis.expression is not None else []
        if isinstance(fanout.matrix, dict):
            values.append(fanout.matrix.get("include"))
        paths = [path for each in expressions for path in expressed(each.tree)]
        found = [found for path in paths for found in meant(before, path)]
        return Step(False, (*found, *read(before, values)))

    def _told(self, cell: Cell) -> Step:
        return _WRITTEN

    def writer(self, cell: Cell) -> Cell | None:
        """The input of the task that writes a file with text from outside."""
        keys = [key for key, foreign in self._writers(cell.name) if foreign]
        return Cell("input", keys[0], "*") if keys else None

    def files(self) -> list[str]:
        """The files that capabilities and scripts of the plan write, by their names from the working directory."""
        self._writers("")
        return list(self._files or ())

    def written_by(self, place: Place) -> list[str]:
        """The files that a task writes, as far as their names stand in the plan."""
        return [name for name, _ in self._written(place)]

    def writers(self, file: str) -> list[Key]:
        """The tasks that write a file."""
        return [key for key, _ in self._writers(file)]

    def _writers(self, file: str) -> list[tuple[Key, bool]]:
        if self._files is None:
            self._files = {}
            for place in self.levels.every():
                for name, foreign in self._written(place):
                    self._files.setdefault(name, []).append((place.key, foreign))
        return self._files.get(file, [])

    def _file(self, cell: Cell) -> Step:
        """What a capability writes into a file whose name stands in the plan, or into the folder that it is in."""
        if cell.name == EVERY_FILE:
            names: list[str] = list(self._files or ())
            return Step(False, tuple(Cell("file", (), name) for name in names if name != EVERY_FILE))
        writers = self._writers(cell.name)
        cells = [cell for key, _ in writers for cell in (Cell("input", key, "*"), *self._copied(key, ""))]
        cells += [Cell("file", (), name) for name in self._fitting(cell.name)]
        parts = cell.name.split("/")
        for depth in range(1, len(parts) if len(parts) < DEEPEST_FOLDER else 0):
            for key, _ in self._writers("/".join(parts[:depth])):
                cells += self._copied(key, "/".join(parts[depth:]))
        return Step(any(foreign for _, foreign in writers), tuple(cells))

    def _fitting(self, pattern: str) -> list[str]:
        """The written files that a pattern of a shell means; of very many all are meant."""
        if not is_glob(pattern):
            return []
        names = list(self._files or ())
        if len(names) > MANY_FILES:
            return [EVERY_FILE]
        return [name for name in names if name != pattern and shell_fits(pattern, name)]

    def _copied(self, key: Key, inside: str) -> Iterator[Cell]:
        """The files that the writer of a file may take its content from; ``inside`` says which of a folder."""
        task = self.levels.task(key).task
        assert task is not None
        for name, value in task.inputs.items() if isinstance(task.inputs, dict) else ():
            named = name not in self.known(task.uses).writes and isinstance(value, str) and value
            if named and len(named) + len(inside) < LONGEST_NAME:
                yield Cell("file", (), posixpath.normpath(posixpath.join(placed(task, named), inside)))

    def _written(self, place: Place) -> Iterator[tuple[str, bool]]:
        task = place.task
        assert task is not None
        if isinstance(task.run, str):
            yield from ((placed(task, name), False) for name in redirected(task.run))
        if not task.uses or not isinstance(task.inputs, dict):
            return
        found = self.known(task.uses)
        pinned = any(task.inputs.get(name) for name, use in found.uses.items() if use == DIGEST)
        for name in found.writes:
            for written in files_of(task.inputs.get(name)):
                yield placed(task, written), bool(found.foreign) and not pinned


_BACK = {
    "output": Flow._output,
    "input": Flow._input,
    "param": Flow._param,
    "carry": Flow._carry,
    "item": Flow._item,
    "told": Flow._told,
    "file": Flow._file,
}


def read(place: Place, value: Json) -> tuple[Cell, ...]:
    """The values that the templates in data carry on."""
    result: dict[Cell, None] = {}
    for text in templates(value):
        for hole in holes(text):
            for path in hole.paths:
                result.update(dict.fromkeys(meant(place, path)))
    return tuple(result)


def placed(task: Task, path: str) -> str:
    """A file as the task names it, from the working directory of the run."""
    return posixpath.normpath(posixpath.join(task.cwd, path))


def actions_of(task: Task) -> list[tuple[str, Action]]:
    """The calls that a task may make, by the key that says them."""
    found = [("", Action(task.uses, task.inputs, task.run, task.script))] if task.uses else []
    return [*found, ("rollback", task.rollback)] if task.rollback is not None else found


_LEAD_THERE = ("any", "file", "path", "")
"""Types of outputs with a path that are the path itself, and not what the file says."""


def _in_its_place(place: Place, cell: Cell) -> tuple[Cell, ...]:
    """The same output of the tasks that stand in for one that failed."""
    task = place.task
    if task is None or cell.name in (*TOLD, KEPT):
        return ()
    tasks = place.level.tasks
    return tuple(
        cell._replace(at=(*place.level.key, edge.target))
        for edge in task.edges
        if edge.recovers and edge.target in tasks
    )


def _narrowed(cells: Iterable[Cell], path: tuple[str, ...], value: Json) -> tuple[Cell, ...]:
    """The values behind a member of what was handed on as a whole."""
    whole = isinstance(value, str) and value.startswith("{{") and value.endswith("}}") and value.count("{{") == 1
    if not (whole and path):
        return tuple(cells)
    return tuple(cell._replace(path=(*cell.path, *path)) for cell in cells)


def _is_plain(value: Json) -> bool:
    return not holds_template(value)


def _is_chosen(task: Task, name: str) -> bool:
    """Whether an output of a gate, or of an instruction in plain words, is not one that people write freely."""
    if task.gate is None:
        return name not in ("text", "reason", "comment") and all(output.name != name for output in task.outputs)
    field = next((field for field in task.gate.form if field.name == name), None)
    if field is not None:
        return field.type in CLOSED or bool(field.choices)
    return name not in ("reason", "comment")


def _declared(place: Place) -> bool:
    """Whether the plan says that untrusted people write what its tasks, or this one, give."""
    policies = (place.task.policy if place.task is not None else None, place.level.plan.policy)
    return any(isinstance(policy, dict) and policy.get("foreign") is True for policy in policies)


def _reaches(task: Task) -> bool:
    """Whether a command asks a server, as ``curl`` does."""
    if isinstance(task.run, str):
        return asks(task.run)
    return task.run is not None and bool(task.run) and posixpath.basename(task.run[0]) in ASKING


def _is_own(found: Known, cell: Cell) -> bool:
    whole = ".".join((cell.name, *cell.path))
    return cell.name in found.closed or any(name in ("*", cell.name, whole) for name in found.own)


def _is_shaped(found: Known, inputs: Json, cell: Cell) -> bool:
    """Whether the plan gives a schema by which the output is a closed choice."""
    named = found.shaped.get(cell.name)
    if named is None or not isinstance(inputs, dict):
        return False
    name, _, part = named.partition("/")
    schema, path = inputs.get(name), cell.path
    if part and isinstance(inputs.get(part), str) and inputs[part]:
        path = (inputs[part], *path)
    return not holds_template(schema) and is_closed(member(schema, path))


Path: TypeAlias = "tuple[str, ...]"

_PLAIN = r"\s*([A-Za-z_]\w*(?:\.[A-Za-z_][\w]*)*)\s*"
_NUMBERS = frozenset({"number", "bool", "time", "size"})
_COUNTING = frozenset("abs count float int length round sum wordcount".split())
_DECIDING = frozenset({"compare", "not", "and", "or", "kind", "empty", "quantity", "const", "sign"})


class Hole(Struct):
    """A ``{{ … }}`` of a text, with the paths whose values come out of it."""

    start: int
    end: int
    paths: tuple[Path, ...]


@lru_cache(maxsize=4096)
def holes(text: str) -> tuple[Hole, ...]:
    """The templates of a text in their order. A text with ``{% … %}`` counts as one template that carries whatever it
    reads."""
    if "{%" in text:
        return (Hole(0, len(text), tuple(dict.fromkeys(path for path, _, _ in references(text)))),)
    if "{{" not in text:
        return ()
    return tuple(Hole(found.start, found.end, carried(found.body)) for found in placeholders(text))


@lru_cache(maxsize=4096)
def carried(body: str) -> tuple[Path, ...]:
    """The paths whose values the inside of a template hands on; ``*`` stands for a member that is computed."""
    plain = re.fullmatch(_PLAIN, body)
    if plain is not None:
        return (tuple(plain[1].split(".")),)
    nodes = tree_of("{{" + body + "}}").nodes
    return tuple(dict.fromkeys(path for code in codes(nodes) for path in expressed(code.tree)))


def expressed(tree: Any) -> Iterator[Path]:
    """The paths whose values come out of an expression of the plan language."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        operation = node[0]
        if (path := _indexed(node)) is not None:
            yield path
        elif operation == "if" or operation == "each":
            waiting += [node[5], node[4]]
        elif operation in ("slice", "index"):
            waiting.append(node[3])
        elif operation in _DECIDING or (operation == "binary" and node[3] in ("-", "/", "//", "*")):
            continue
        elif operation != "call" or not _counts(node[3]):
            waiting.extend(reversed(children(node)))


def _counts(name: str) -> bool:
    function = FUNCTIONS.get(name)
    return name in _COUNTING or name == "exists" or (function is not None and function.gives in _NUMBERS)


def _indexed(tree: Any) -> Path | None:
    """The path of names, with ``*`` for an index that is computed."""
    names: list[str] = []
    while tree[0] in ("attr", "index"):
        key = tree[4]
        if tree[0] == "index":
            key = key[3] if key[0] == "const" and isinstance(key[3], str) else "*"
        names.append(key)
        tree = tree[3]
    return (tree[3], *reversed(names)) if tree[0] == "name" else None


def searched(tree: Any) -> Iterator[Path]:
    """The paths of texts in which a condition looks for something, where it does not compare the whole text: the test
    whether a reply holds a word is met by any author of that word."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node[0] == "call" and node[3] in ("contains", "matches", "starts_with", "ends_with"):
            yield from expressed(node[4][0])
        elif node[0] == "compare" and (at := _WHERE.get(node[3])):
            yield from expressed(node[at])
        waiting.extend(reversed(children(node)))


_WHERE = {"in": 5, "not in": 5, "contains": 4, "not contains": 4, "matches": 4, "not matches": 4, "=~": 4, "!~": 4}
"""Operators that look for something, with the place of the operand in which they do."""
