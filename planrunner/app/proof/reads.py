"""What a plan reads of the results of its tasks, as shapes: an assumed result has the members that are read.

``tasks.repos.outputs.json[0].owner.login`` makes the assumed ``json`` a list of maps with a map ``owner``, and
``tasks.score.outputs.points >= 8`` makes ``points`` a number that is large enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from planrunner.app.proof.names import walk
from planrunner.plan.expressions.tree import children, paths_of
from planrunner.plan.model import Expression, Plan, Task
from planrunner.plan.tasks import inner
from planrunner.plan.templated import is_template
from planrunner.plan.templates import Branches, Loop, Value, tree_of
from planrunner.records import Struct, astuple

Json = Any


Tree = Any

NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_NUMERIC = frozenset(["int", "float", "round", "abs"])
_OF_ITEMS = frozenset(["first", "last", "min", "max"])
_HANDED_ON = _OF_ITEMS | {"sort", "unique", "reverse", "list", "default"}
_LENGTHS = frozenset(["len", "length", "count"])
_DEEPEST, _MOST = 32, 100
"""How deep an assumed value goes, and how many items it has."""


class Shape:
    """What is read of one value: members by name, items of a list and how many a comparison is glad of, and a value
    that one is glad of."""

    __slots__ = ("count", "fields", "item", "sample")

    def __init__(self) -> None:
        self.count = 2
        self.fields: dict[str, Shape] = {}
        self.item: Shape | None = None
        self.sample: Json = None

    def member(self, name: str) -> Shape:
        found = self.fields.get(name)
        if found is None:
            found = self.fields[name] = Shape()
        return found

    def each(self) -> Shape:
        if self.item is None:
            self.item = Shape()
        return self.item

    def suggest(self, value: Json) -> None:
        """A value that something compares this one with; the first suggestion counts."""
        if self.sample is None:
            self.sample = value

    def value(self, label: str, level: int = 0) -> Json:
        """A value of this shape; texts in it say what they stand for."""
        if level < _DEEPEST and self.fields:
            return {name: shape.value(f"{label}.{name}", level + 1) for name, shape in self.fields.items()}
        if level < _DEEPEST and self.item is not None:
            return [self.item.value(f"{label} {number}", level + 1) for number in range(1, self.count + 1)]
        return f"<{label}>" if self.sample is None else self.sample


class _Record(Shape):
    """A task as others read it: outputs of a fan-out are lists, and ``items`` are records of its items."""

    __slots__ = ("_many",)

    def __init__(self, many: bool) -> None:
        super().__init__()
        self._many = many
        self.fields["outputs"] = Shape()

    def member(self, name: str) -> Shape:
        if self._many and name == "outputs":
            return _Lists(self.fields["outputs"])
        return _Same(self) if self._many and name == "items" else super().member(name)

    def own(self) -> Shape:
        return self.fields["outputs"]


class _Same(Shape):
    """A list whose items are of one known shape."""

    __slots__ = ("_of",)

    def __init__(self, of: Shape) -> None:
        super().__init__()
        self._of = of

    def each(self) -> Shape:
        return _One(self._of) if isinstance(self._of, _Record) else self._of


class _One(Shape):
    """The record of one item of a fan-out."""

    __slots__ = ("_of",)

    def __init__(self, of: _Record) -> None:
        super().__init__()
        self._of = of

    def member(self, name: str) -> Shape:
        return self._of.own() if name == "outputs" else super().member(name)


class _Lists(Shape):
    """The outputs of a fan-out: a list for each name."""

    __slots__ = ("_of",)

    def __init__(self, of: Shape) -> None:
        super().__init__()
        self._of = of

    def member(self, name: str) -> Shape:
        return _Same(self._of.member(name))


def outputs_read(plan: Plan) -> dict[str, Shape]:
    """What a plan reads of the outputs of its tasks, by the id of the task, on whatever level it stands."""
    records: dict[str, _Record] = {}
    for path, task in walk(plan.tasks):
        name = path.rpartition("/")[2]
        if name not in records:
            records[name] = _Record(task.fanout is not None)
    tasks = Shape()
    tasks.fields.update(records)
    reader = _Reader({"tasks": tasks})
    _handed_on(plan, records, reader)
    reader.texts(plan.outputs)
    for task in plan.tasks:
        _read(reader, task, records)
    return {name: record.own() for name, record in records.items()}


CHAINED = 8
"""How many tasks one within the other, or one behind the other, hand a value on."""


def _handed_on(plan: Plan, records: dict[str, _Record], reader: _Reader) -> None:
    """Let what is read of an output with a value be read of what the value names: a subplan, a loop and a sequence of
    calls hand on what a task inside them gave."""
    given = [(task, output) for _, task in walk(plan.tasks) for output in _with_values(task)]
    for _ in range(CHAINED):
        for task, (name, value) in given:
            own = records[task.id].own()
            shape = _Reader({**reader.names, "outputs": own}).of(value)
            if shape is not None:
                own.fields[name] = shape


def _with_values(task: Task) -> Iterator[tuple[str, Json]]:
    """The outputs of a task that a template gives, by name; of a loop also what it carries."""
    for output in (*(task.sub.outputs if task.sub is not None else ()), *task.outputs):
        yield output.name, output.value
    carry = task.loop.carry if task.loop is not None else None
    for name, value in carry.items() if isinstance(carry, dict) else ():
        yield name, value.get("next") if isinstance(value, dict) else value


def _read(reader: _Reader, task: Task, records: dict[str, _Record]) -> None:
    """Follow what a task reads, and the tasks inside it, which see its item."""
    names = dict(reader.names)
    if task.fanout is not None:
        for fanned in (task.fanout.foreach, task.fanout.items):
            shape = reader.of(fanned)
            if shape is not None:
                names[task.fanout.name] = shape.each()
        matrix = names.setdefault("matrix", Shape()) if task.fanout.axes else Shape()
        for axis in task.fanout.axes:
            shape = reader.of(axis.expression) or reader.of(axis.items)
            if shape is not None:
                matrix.fields[axis.name] = shape.each()
    own = records[task.id].own()
    _Reader({**names, "outputs": own}).texts(
        task._replace(subplan=(), sub=None, loop=None if task.loop is None else task.loop._replace(tasks=()))
    )
    inside = _Reader(names)
    if task.sub is not None:
        inside.texts(task.sub.outputs)
    for step in inner(task):
        _read(inside, step, records)


class _Reader:
    """Follows names through expressions and templates."""

    __slots__ = ("names",)

    def __init__(self, names: dict[str, Shape]) -> None:
        self.names = names

    def texts(self, value: Json) -> None:
        """Every expression and template in a part of a plan."""
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Expression):
                self._conditions(item.tree)
            elif is_template(item):
                self._template(item)
            elif isinstance(item, dict):
                waiting.extend(reversed(item.values()))
            elif isinstance(item, (list, tuple)):
                waiting.extend(reversed(item))
            elif isinstance(item, Struct):
                waiting.extend(reversed(astuple(item)))

    def of(self, value: Json) -> Shape | None:
        """The shape that an expression, or a text that is one template, stands for."""
        if isinstance(value, Expression):
            return self._shape(value.tree)
        if isinstance(value, str) and "{{" in value:
            nodes = tree_of(value).nodes
            if len(nodes) == 1 and isinstance(nodes[0], Value):
                return self._shape(nodes[0].code.tree)
        return None

    def _shape(self, tree: Tree) -> Shape | None:
        """The shape that an expression stands for, where it is read from a name."""
        if tree[0] in ("name", "local"):
            return self.names.get(tree[3])
        if tree[0] == "slice":
            return self._shape(tree[3])
        if tree[0] == "call":
            return self._given(tree[3], tree[4])
        if tree[0] == "each":
            return self._turned(tree)
        if tree[0] not in ("attr", "index"):
            return None
        of = self._shape(tree[3])
        if of is None:
            return None
        key = tree[4]
        if tree[0] == "attr":
            return of.member(key)
        return of.member(key[3]) if key[0] == "const" and isinstance(key[3], str) else of.each()

    def _given(self, name: str, arguments: Tree) -> Shape | None:
        """The shape of what a function returns, if it passes its argument on."""
        of = self._shape(arguments[0]) if arguments and name in _HANDED_ON else None
        return of.each() if of is not None and name in _OF_ITEMS else of

    def _turned(self, tree: Tree) -> Shape | None:
        """A comprehension: the names it gives are items of its list, and one that changes nothing is that list."""
        source = self._shape(tree[4])
        inside = self.inside(tree[3], source)
        inside._follow(tree[5])
        if tree[6] is not None:
            inside._conditions(tree[6])
        value = inside._shape(tree[5])
        return source if tree[5][0] == "local" else None if value is None else _Same(value)

    def inside(self, names: tuple[str, ...], source: Shape | None) -> _Reader:
        """What reads inside a loop over a list."""
        one = source.each() if source is not None else None
        given = {name: one if len(names) == 1 else one.each() for name in names} if one is not None else {}
        return _Reader({**self.names, **given})

    def _conditions(self, tree: Tree) -> None:
        """As ``_follow`` of an expression that has to be true or false."""
        self._follow(tree)
        self._flags([tree])

    def _follow(self, tree: Tree) -> None:
        """Every name of an expression, and what its comparisons want."""
        waiting = [(tree, False)]
        while waiting:
            node, negated = waiting.pop()
            shape = self._shape(node)
            if node[0] == "each":
                waiting.append((node[4], False))
            elif shape is None or node[0] in ("index", "slice", "call"):
                turned = negated is not (node[0] == "not")
                waiting.extend((child, turned and node[0] in ("not", "and", "or")) for child in children(node))
            if node[0] == "call" and node[4]:
                self._called(node[3], node[4])
            if node[0] == "compare":
                self._compared(NEGATED.get(node[3], node[3]) if negated else node[3], node[4], node[5])
            elif node[0] == "binary":
                for one, other in ((node[4], node[5]), (node[5], node[4])):
                    self._computed(self._shape(one), other)
            elif node[0] in ("and", "or"):
                self._flags(node[3])
            elif node[0] == "not":
                self._flags([node[3]])

    def _flags(self, trees: Any) -> None:
        for tree in trees:
            shape = self._shape(tree)
            if shape is not None:
                shape.suggest(True)

    def _compared(self, operator: str, left: Tree, right: Tree) -> None:
        if left[0] == "const":
            operator, left, right = MIRRORED.get(operator, operator), right, left
        shape = self._shape(left)
        if left[0] == "call" and left[3] in _LENGTHS and left[4] and right[0] == "const":
            self._counted(self._shape(left[4][0]), beside(right[3], operator))
        elif shape is not None and right[0] == "const" and operator in ("==", "!=", "<", "<=", ">", ">="):
            shape.suggest(beside(right[3], operator))
        elif shape is not None and operator == "in" and right[0] == "list" and right[3] and right[3][0][0] == "const":
            shape.suggest(right[3][0][3])

    def _counted(self, shape: Shape | None, wanted: Json) -> None:
        """A length that something is compared with; the first that is not the usual one counts."""
        if shape is not None and type(wanted) is int and 0 <= wanted <= _MOST and shape.count == 2:
            shape.each()
            shape.count = wanted

    def _computed(self, shape: Shape | None, other: Tree) -> None:
        if shape is not None and other[0] == "list":
            shape.each()
        elif shape is not None and not (other[0] == "const" and isinstance(other[3], str)):
            shape.suggest(1)

    def _called(self, name: str, arguments: Tree) -> None:
        """What a function wants of its first argument."""
        shape = self._shape(arguments[0])
        if shape is not None and name in _NUMERIC:
            shape.suggest(1)
        elif shape is not None and name in ("sum", "min", "max") and len(arguments) == 1:
            shape.each().suggest(1)

    def _template(self, text: str) -> None:
        self._written(tree_of(text).nodes)

    def _written(self, nodes: Iterable[Any]) -> None:
        for node in nodes:
            if isinstance(node, Value):
                self._follow(node.code.tree)
            elif isinstance(node, Branches):
                for code, body in node.found:
                    if code is not None:
                        self._conditions(code.tree)
                    self._written(body)
            elif isinstance(node, Loop):
                self._follow(node.code.tree[4])
                self.inside(node.code.tree[3], self._shape(node.code.tree[4]))._written(node.body)
                self._written(node.otherwise)


def fitting(schema: Json, label: str, read: Shape, level: int = 0) -> Json:
    """A value that a JSON schema allows, as far as it says so by types, constants and members."""
    if not isinstance(schema, dict) or level > _DEEPEST:
        return read.value(label)
    if "const" in schema:
        return schema["const"]
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return read.sample if read.sample in choices else choices[0]
    kind = schema.get("type")
    properties = schema.get("properties")
    if isinstance(properties, dict) and kind in (None, "object"):
        members = {
            name: fitting(each, f"{label}.{name}", read.member(name), level + 1) for name, each in properties.items()
        }
        return {**(read.value(label) if read.fields else {}), **members}
    if kind == "array":
        return [
            fitting(schema.get("items"), f"{label} {number}", read.each(), level + 1)
            for number in range(1, read.count + 1)
        ]
    if kind in ("integer", "number"):
        asked = isinstance(read.sample, (int, float)) and not isinstance(read.sample, bool)
        return read.sample if asked else schema.get("minimum", 0)
    return True if kind == "boolean" else read.value(label)


def beside(constant: Json, operator: str) -> Json:
    """A value for which a comparison with a constant holds."""
    if isinstance(constant, bool):
        return constant if operator != "!=" else not constant
    if isinstance(constant, (int, float)):
        return constant + {">": 1, "<": -1, "!=": 1}.get(operator, 0)
    return f"not {constant}" if operator == "!=" else constant


def comparisons(tree: Tree) -> Iterator[tuple[tuple[str, ...], str, Json]]:
    """Names that an expression compares with constants: (path, operator, constant)."""
    todo = [tree]
    while todo:
        node = todo.pop()
        todo.extend(children(node))
        if node[0] != "compare":
            continue
        operator, left, right = node[3], node[4], node[5]
        if left[0] == "const":
            operator, left, right = MIRRORED.get(operator, operator), right, left
        found = paths_of(left)
        if right[0] == "const" and len(found) == 1:
            yield found[0], operator, right[3]
