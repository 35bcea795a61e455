"""Expressions against the static types of names: what the linter says before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from planrunner.frozen import EMPTY
from planrunner.plan.expressions.evaluate import constant, elsewhere
from planrunner.plan.expressions.functions import BUILT_IN, CALLED, FUNCTIONS, Function
from planrunner.plan.expressions.patterns import compiled
from planrunner.plan.expressions.tree import show
from planrunner.plan.expressions.values import NAMES, EvaluationError, Problem, misfit
from planrunner.plan.model import Expression
from planrunner.plan.nearest import nearest
from planrunner.records import Struct

Json = Any
Tree = Any


Kind = Literal["any", "string", "number", "bool", "null", "time", "size", "money", "percent", "list", "map", "object"]


class Type(Struct):
    """``item`` is the type of the items of a list or of the values of a map (None: any), ``fields`` the members of an
    object, which has no others, and those of a map that are known. ``optional``: the value may be missing when it is
    read. ``what`` names an object in messages, such as "task `test`"; ``code`` is the finding for a member it does not
    have."""

    kind: Kind
    item: Type | None = None
    fields: Mapping[str, Type] = EMPTY
    optional: bool = False
    what: str = ""
    code: str = "PLAN201"
    without: Mapping[str, str] = EMPTY
    """Names that a map or an object does not have though they look as if it had, each with what is meant."""
    counts: Literal["", "time", "size"] = ""
    """Of a number: the quantity of which it counts the seconds or bytes, which it can be compared with."""
    late: bool = False
    """It is null when it is read for the first time: a value that a loop carries on without a first one."""


_FEW = 12
"""So many names are listed, and so many tasks looked through, for a way out."""

ANY = Type("any")
STRING = Type("string")
NUMBER = Type("number")
BOOL = Type("bool")
NULL = Type("null")
TIME = Type("time")
SIZE = Type("size")
MONEY = Type("money")
PERCENT = Type("percent")
LIST = Type("list")
MAP = Type("map")

_DECLARED: dict[str, Type] = {
    "string": STRING,
    "str": STRING,
    "text": STRING,
    "url": STRING,
    "path": STRING,
    "int": NUMBER,
    "integer": NUMBER,
    "float": NUMBER,
    "number": NUMBER,
    "bool": BOOL,
    "boolean": BOOL,
    "duration": TIME,
    "size": SIZE,
    "money": MONEY,
    "percent": PERCENT,
    "list": LIST,
    "array": LIST,
    "map": MAP,
    "object": MAP,
    "any": ANY,
}


def list_of(item: Type) -> Type:
    return Type("list", item)


def map_of(item: Type) -> Type:
    return Type("map", item)


def object_of(fields: Mapping[str, Type], what: str = "", code: str = "PLAN201") -> Type:
    """An object with exactly these members; an unknown one is reported as ``code``: "``what`` has no …"."""
    return Type("object", None, fields, False, what, code)


def optional(found: Type) -> Type:
    """The type of a value that may be missing when it is read, such as an output of a task that may be skipped."""
    return found._replace(optional=True)


UNDECLARED = "a parameter that has text as its default and no type"
_TYPE_WORDS = {"time": "duration", "size": "size", "money": "money", "percent": "percent"}


def declared(word: str) -> Type:
    """The type that a word of a plan names, such as ``int``, ``duration`` or ``list[url]``; any for unknown words."""
    word = word.strip()
    if word.endswith("]") and "[" in word:
        outer, _, inner = word[:-1].partition("[")
        return declared(outer)._replace(item=declared(inner)) if outer in ("list", "array", "map") else ANY
    return _DECLARED.get(word, ANY)


_SIMPLE = {"string": STRING, "number": NUMBER, "integer": NUMBER, "boolean": BOOL, "null": NULL}
_COUNTS: dict[Json, Literal["time", "size"]] = {"seconds": "time", "bytes": "size"}
_COMBINED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "not", "patternProperties"})


def of_schema(schema: Json, what: str, *, closed: bool) -> Type:
    """The type of data that fits a JSON Schema, as far as its ``type``, ``properties`` and ``items`` tell. ``closed``
    says of objects without ``additionalProperties`` that they have no members but those that are listed."""
    if not isinstance(schema, dict) or not _COMBINED.isdisjoint(schema):
        return ANY
    kind = schema.get("type")
    if kind == "array":
        return list_of(of_schema(schema.get("items"), f"an item of {what}", closed=closed))
    if kind != "object":
        found = _SIMPLE.get(kind, ANY) if isinstance(kind, str) else ANY
        return found._replace(counts=_COUNTS.get(schema.get("format"), "")) if found == NUMBER else found
    properties = schema.get("properties")
    if (
        not isinstance(properties, dict)
        or not properties
        or schema.get("additionalProperties", not closed) is not False
    ):
        return MAP
    fields = {str(name): of_schema(each, f"`{name}` of {what}", closed=closed) for name, each in properties.items()}
    return object_of(fields, what)


UNITS = ("time", "size", "money")
ORDERED = ("number", "percent", "string", *UNITS)


def check(expression: Expression, names: Mapping[str, Type]) -> tuple[Type, list[Problem]]:
    """The type of an expression and what is wrong with it; ``names`` are the names that exist, with their types.

    Offsets of problems count from the start of the expression's text (see ``Problem`` for places in the file). Codes:
    PLAN201 unknown name, PLAN202 unknown output, PLAN204 may be missing, PLAN205 types that do not fit, PLAN207 a
    pattern that cannot be read, PLAN208 unknown function or wrong number of arguments, PLAN236 null in the first round.
    """
    checker = Checker(names)
    return checker.type(expression.tree), checker.problems


def check_condition(expression: Expression, names: Mapping[str, Type]) -> list[Problem]:
    """Like ``check`` for an expression that must be true or false, with PLAN206 for one that is always the same."""
    checker = Checker(names)
    checker.flag(expression.tree)
    problems = checker.problems
    _, start, end, *_ = expression.tree
    verdict = None if problems else constant(expression.tree)
    if verdict is not None:
        problems.append(Problem("PLAN206", f"`{show(expression.tree)}` is always {str(verdict).lower()}", start, end))
    return problems


class Checker:
    """Looks at trees; ``problems`` grows, ``bound`` are the names that loops around give."""

    __slots__ = ("behind", "bound", "guarded", "names", "problems")

    def __init__(self, names: Mapping[str, Type]) -> None:
        self.names = names
        self.bound: dict[str, Type] = {}
        self.problems: list[Problem] = []
        self.guarded = 0
        self.behind = 0
        """How many conditions stand before what is read, which may keep it from being read at all."""

    def type(self, tree: Tree) -> Type:
        return _TYPES[tree[0]](self, tree)

    def report(self, code: str, message: str, tree: Tree, way_out: str = "", start: int | None = None) -> Type:
        self.problems.append(Problem(code, message, tree[1] if start is None else start, tree[2], way_out))
        return ANY

    def read(self, tree: Tree) -> Type:
        """A name or a member: the type, with the finding where it may be missing."""
        found = self.reach(tree)
        if found.optional and not self.guarded:
            way_out = f"write `default({show(tree)}, …)` or `exists(…)`"
            self.report("PLAN204", f"`{show(tree)}` may be missing here", tree, way_out)
        return found._replace(optional=False)

    def reach(self, tree: Tree) -> Type:
        if tree[0] == "name":
            found = self.names.get(tree[3])
            if found is None:
                return self.unknown("PLAN201", f"`{tree[3]}` is not defined here", tree, tree[3], self.names)
            return found
        if tree[0] == "attr":
            return self.member(tree, self.reach(tree[3]), tree[4])
        if tree[0] == "index":
            return self.item(tree)
        return self.type(tree)

    def member(self, tree: Tree, container: Type, name: str) -> Type:
        if container.kind == "object":
            found = container.fields.get(name)
            if found is None:
                what = container.what or f"`{show(tree[3])}`"
                if help_ := container.without.get(name, ""):
                    return self.report(container.code, f"{what} has no `{name}`", tree, help_, _name_start(tree, name))
                return self.unknown(
                    container.code, f"{what} has no {_noun(container)}`{name}`", tree, name, container.fields
                )
            return found._replace(optional=True) if container.optional else found
        if container.kind == "map" and name in container.without:
            message = f"{container.what} has no {_noun(container)}`{name}`"
            return self.report(container.code, message, tree, container.without[name], _name_start(tree, name))
        if container.kind == "map":
            return container.fields.get(name, container.item or ANY)._replace(optional=container.optional)
        if container.kind == "any":
            return container
        return self.report("PLAN205", f"`{show(tree[3])}` is {_name(container)}, it has no `{name}`", tree)

    def item(self, tree: Tree) -> Type:
        container, key = self.reach(tree[3]), tree[4]
        if key[0] == "const" and isinstance(key[3], str):
            return self.member(tree, container, key[3])
        index = self.type(key)
        if container.kind in ("list", "string"):
            if index.kind not in ("number", "any"):
                self.report("PLAN205", f"an item of a list is named by a number, not by {_name(index)}", key)
            item = STRING if container.kind == "string" else container.item or ANY
            return item._replace(optional=container.optional)
        if container.kind in ("map", "object"):
            return container.item or ANY
        if container.kind != "any":
            self.report("PLAN205", f"`{show(tree[3])}` is {_name(container)}, it has no items", tree)
        return ANY

    def unknown(self, code: str, message: str, tree: Tree, name: str, known: Mapping[str, Type]) -> Type:
        renamed = name == "item" and "index" in known  # of a `foreach` that says `as`
        way_out = elsewhere(name) if tree[0] == "name" and not renamed else ""
        meant = "matrix" if name == "item" and "matrix" in known else "" if way_out else nearest(name, known)
        meant = meant or _output_named(self.names, tree, name)
        way_out = f"did you mean `{meant}`?" if meant else way_out
        if not way_out and 0 < len(known) <= _FEW:
            way_out = f"there is {', '.join(f'`{item}`' for item in known)}"
        return self.report(code, message, tree, way_out, _name_start(tree, name))

    def guard(self, tree: Tree) -> Type:
        """Inside ``exists`` and ``default`` a value may be missing."""
        self.guarded += 1
        found = self.type(tree)
        self.guarded -= 1
        return found

    def flag(self, tree: Tree) -> None:
        self.judge(tree, self.type(tree))

    def judge(self, tree: Tree, found: Type, way_out: str = "") -> None:
        """A condition has to be true or false; ``way_out`` is what was meant where it is not."""
        if found.kind not in ("bool", "any"):
            if not way_out:
                filled = found.kind in ("string", "list", "map") and tree[0] != "const"
                way_out = f"compare it, or ask `{show(tree)} is not empty`" if filled else "compare it"
            self.report("PLAN205", f"`{show(tree)}` is {_name(found)}, not true or false", tree, way_out)
        elif found.late and not self.behind and not way_out:
            help_ = f"ask `{show(tree)} is not empty`, or give it a `first` value under `carry`"
            self.report("PLAN236", f"`{show(tree)}` is null in the first round, not true or false", tree, help_)

    def local(self, tree: Tree) -> Type:
        return self.bound.get(tree[3], ANY)

    def part(self, tree: Tree) -> Type:
        _, _, _, holder_tree, first, last = tree
        container = self.type(holder_tree)
        if container.kind not in ("list", "string", "any"):
            self.report("PLAN205", f"`{show(holder_tree)}` is {_name(container)}, it has no parts by number", tree)
        for end in (first, last):
            if end is not None and (found := self.type(end)).kind not in ("number", "any"):
                self.report("PLAN205", f"`{show(end)}` is {_name(found)}, not a number", end)
        return container

    def each(self, tree: Tree) -> Type:
        around = self.bound
        self.bind(tree)
        found = self.type(tree[5])
        self.bound = around
        return list_of(found)

    def bind(self, tree: Tree) -> None:
        """The names of a comprehension from here on, and what is wrong with its list and its condition."""
        _, _, _, names, source_tree, _, condition = tree
        source = self.type(source_tree)
        if source.kind not in ("list", "any"):
            help_ = "go through `keys(…)` or `items(…)`" if source.kind in ("map", "object") else ""
            self.report("PLAN205", f"`{show(source_tree)}` is {_name(source)}, not a list", source_tree, help_)
        item = source.item or ANY
        parts = item.item or ANY if item.kind == "list" else ANY
        self.bound = {**self.bound, **dict.fromkeys(names, item if len(names) == 1 else parts)}
        if condition is not None:
            self.flag(condition)

    def texts(self, tree: Tree) -> Type:
        for item in tree[3]:
            self.type(item)
        return STRING

    def choose(self, tree: Tree) -> Type:
        self.flag(tree[3])
        self.behind += 1
        then, otherwise = self.type(tree[4]), self.type(tree[5])
        self.behind -= 1
        return _either(then, otherwise)._replace(late=False) if then.kind == otherwise.kind else ANY

    def compare(self, tree: Tree) -> Type:
        _, _, _, operator, left_tree, right_tree = tree
        left, right = self.type(left_tree), self.type(right_tree)
        words = "" if _of_one_measure(left, right) else _misfit(operator, left.kind, right.kind)
        for text, other, of in ((left, right, left_tree), (right, left, right_tree)):
            if text.what == UNDECLARED and other.kind in _TYPE_WORDS:
                way_out = f"declare it: `{of[-1]}: {{type: {_TYPE_WORDS[other.kind]}, default: …}}`"
                return self.report("PLAN205", f"`{show(tree)}`: `{show(of)}` is text", tree, way_out)
        if words:
            self.report("PLAN205", f"`{show(tree)}`: {words}", tree, self.hyphen(tree) or _unit_hint(left, right))
        if operator.endswith("matches") and not words:
            self.pattern(right_tree)
        return BOOL

    def pattern(self, tree: Tree) -> None:
        if tree[0] != "const" or not isinstance(tree[3], str):
            return
        try:
            compiled(tree[3])
        except EvaluationError as error:
            self.report("PLAN207", error.message, tree)

    def binary(self, tree: Tree) -> Type:
        _, _, _, sign, left_tree, right_tree = tree
        before = len(self.problems)
        left, right = self.type(left_tree), self.type(right_tree)
        if hint := self.hyphen(tree):
            self.problems[before:] = [item._replace(help=hint) for item in self.problems[before:]]
        result = _computed(sign, left, right)
        return result or self.report("PLAN205", misfit(sign, _plain(left), _plain(right)), tree, self.hyphen(tree))

    def hyphen(self, tree: Tree) -> str:
        """The way out where a name with a hyphen was read as a subtraction: ``params.base-branch``."""
        if tree[0] != "binary" or tree[3] != "-" or tree[4][0] != "attr" or tree[5][0] != "name":
            return ""
        if tree[4][2] + 1 != tree[5][1]:
            return ""
        meant = f"{tree[4][4]}-{tree[5][3]}"
        container = Checker(self.names).reach(tree[4][3])
        if container.kind == "object":
            meant = nearest(meant, container.fields) or ""
        return f'a name with a hyphen is written `{show(tree[4][3])}["{meant}"]`' if meant else ""

    def sign(self, tree: Tree) -> Type:
        found = self.type(tree[4])
        if found.kind not in ("number", "any", "percent", *UNITS):
            return self.report("PLAN205", f"`{tree[3]}` does not take {_name(found)}", tree)
        return found

    def test(self, tree: Tree) -> Type:
        self.type(tree[3])
        return BOOL

    def items(self, tree: Tree) -> Type:
        types = [self.type(item) for item in tree[3]]
        return list_of(types[0] if types and all(each == types[0] for each in types) else ANY)

    def pairs(self, tree: Tree) -> Type:
        return Type("object", None, {key: self.type(value) for key, value in tree[3]})

    def call(self, tree: Tree) -> Type:
        name, arguments = tree[3], tree[4]
        start = tree[5] if len(tree) > 5 else tree[1]
        function = FUNCTIONS.get(name)
        if function is None and name not in BUILT_IN:
            meant = nearest(name, CALLED)
            help_ = f"did you mean `{meant}`?" if meant else ""
            self.problems.append(Problem("PLAN208", f"unknown function `{name}`", start, start + len(name), help_))
            return ANY
        least, most = BUILT_IN[name] if function is None else (function.least, function.most)
        if len(arguments) < least or (most is not None and len(arguments) > most):
            self.report("PLAN208", f"`{name}` takes {_count(least, most)}, not {len(arguments)}", tree)
            return ANY
        return self.built_in(name, arguments) if function is None else self.result(name, function, arguments)

    def built_in(self, name: str, arguments: Tree) -> Type:
        value = self.guard(arguments[0])._replace(late=False)
        if name == "exists":
            return BOOL
        other = self.type(arguments[1])
        if len(arguments) > 2:
            self.flag(arguments[2])
        if value.kind == other.kind:
            return _either(value, other)
        return value if value.kind == "any" else other if value.kind == "null" else ANY

    def result(self, name: str, function: Function, arguments: Tree) -> Type:
        types = [self.type(argument) for argument in arguments]
        first = types[0]
        kind = "map" if first.kind == "object" else first.kind
        if function.takes and kind != "any" and kind not in function.takes:
            expected = " or ".join(NAMES[item] for item in function.takes[:3])
            self.report("PLAN205", f"`{name}` takes {expected}, not {_name(first)}", arguments[0])
        if name in ("matches", "split_pattern", "replace_pattern"):
            self.pattern(arguments[1])
        return _given(name, function.gives, types)


def _output_named(names: Mapping[str, Type], tree: Tree, name: str) -> str:
    """The output of another task that a name alone means; empty where there is none, or several."""
    tasks = names.get("tasks", ANY).fields
    if tree[0] != "name" or len(tasks) > _FEW:
        return ""
    found = [task for task in tasks if name in tasks[task].fields.get("outputs", ANY).fields]
    return f"tasks.{found[0]}.outputs.{name}" if len(found) == 1 else ""


def _flags(checker: Checker, tree: Tree) -> Type:
    conditions = [tree[3]] if tree[0] == "not" else tree[3]
    kinds = []
    for number, item in enumerate(conditions):
        checker.behind += number > 0
        kinds.append(checker.type(item))
        checker.behind -= number > 0
    way_out = _instead(conditions, kinds) if tree[0] == "or" else ""
    for number, (item, found) in enumerate(zip(conditions, kinds, strict=True)):
        checker.behind += number > 0
        before = len(checker.problems)
        checker.judge(item, found, way_out)
        checker.behind -= number > 0
        if way_out and len(checker.problems) > before:
            break  # the way out tells of both ends
    return BOOL


def _instead(conditions: list[Tree], kinds: list[Type]) -> str:
    """What is meant by an ``or`` that chooses between two values; empty where it asks conditions."""
    one, *others = [found.kind for found in kinds]
    if len(others) != 1 or "bool" in (one, *others) or one == others[0] == "any":
        return ""
    value, other = map(show, conditions)
    empty = f"; where it may be empty, `{value} if {value} is not empty else {other}`"
    return f"write `default({value}, {other})`" + (empty if one in ("any", "string", "list", "map") else "")


def _given(name: str, gives: str, types: list[Type]) -> Type:
    first = types[0]
    if gives == "first":
        return first
    if gives == "item":
        return STRING if first.kind == "string" else first.item or ANY
    if name in ("split", "split_pattern", "lines", "keys"):
        return list_of(STRING)
    if name in ("unique", "sort") or (name == "list" and first.kind == "list"):
        return first
    if name == "range":
        return list_of(NUMBER)
    if name == "batch":
        return list_of(Type("list", first.item))
    if name in ("zip", "items", "dictsort", "groupby"):
        return list_of(LIST)
    if name == "merge":
        known = all(each.kind == "object" for each in types)
        return object_of({key: found for each in types for key, found in each.fields.items()}) if known else MAP
    kinds: dict[str, Kind] = {"number": "number", "string": "string", "bool": "bool", "time": "time", "size": "size"}
    return Type(kinds[gives]) if gives in kinds else Type("list") if gives == "list" else ANY


def _misfit(operator: str, left: str, right: str) -> str:
    """Why two kinds cannot be compared; empty where they can, or where too little is known."""
    if "any" in (left, right):
        return ""
    left, right = ("map" if kind == "object" else kind for kind in (left, right))
    if operator.endswith("matches"):
        wrong = next((kind for kind in (left, right) if kind != "string"), "")
        return f"`matches` takes text, not {NAMES[wrong]}" if wrong else ""
    if operator in ("in", "not in"):
        return _misfit("contains", right, left)
    if operator.endswith("contains"):
        if left not in ("string", "list", "map"):
            return f"{NAMES[left]} contains nothing"
        return f"text contains text, not {NAMES[right]}" if left == "string" and right != "string" else ""
    if left == right or {left, right} == {"number", "percent"}:
        return f"{NAMES[left]} has no order" if operator in ("<", "<=", ">", ">=") and left not in ORDERED else ""
    if operator in ("==", "!=") and "null" in (left, right):
        return ""
    return f"{NAMES[left]} is compared with {NAMES[right]}"


def _of_one_measure(left: Type, right: Type) -> bool:
    """Whether one is a quantity and the other the number of its seconds or bytes."""
    return (left.kind in UNITS and right.counts == left.kind) or (right.kind in UNITS and left.counts == right.kind)


def _either(one: Type, other: Type) -> Type:
    """The type of a value that is of one of two types of the same kind."""
    return one if one.counts else other if other.counts else one


def _unit_hint(left: Type, right: Type) -> str:
    kinds = {left.kind, right.kind}
    for unit, example in (("time", "10s"), ("size", "10MB"), ("money", "$10")):
        if unit in kinds and kinds & {"number", "percent"}:
            made, of = {"time": ("duration", "seconds"), "size": ("size", "bytes")}.get(unit, ("", ""))
            way = f", or `{made}(…)` around {of}" if made else ""
            return f"write a unit, such as `{example}`{way}"
    return "read text as a number by `int(…)` or `float(…)`" if kinds == {"string", "number"} else ""


def _computed(sign: str, left: Type, right: Type) -> Type | None:
    """The type of an operation, or None where the types do not fit."""
    one, other = left.kind, right.kind
    if "any" in (one, other):
        return ANY
    if left.counts or right.counts:
        if _of_one_measure(left, right):
            return (left if one in UNITS else right) if sign in ("+", "-") else None
        if one == other:
            return _counted(sign, left, right)
    if one == other:
        if one == "number" or (one in ("string", "list") and sign == "+"):
            return left
        if one in UNITS or one == "percent":
            return NUMBER if sign in ("/", "//") else left if sign != "*" or one == "percent" else None
        return None
    if {one, other} == {"number", "percent"}:
        return NUMBER
    if one in UNITS and other in ("number", "percent") and sign in ("*", "/"):
        return left
    return right if other in UNITS and one in ("number", "percent") and sign == "*" else None


def _counted(sign: str, left: Type, right: Type) -> Type:
    """What an operation on numbers gives of which one counts seconds or bytes."""
    same = left.counts == right.counts
    if sign in ("+", "-"):
        return _either(left, right) if same or not (left.counts and right.counts) else NUMBER
    if sign == "*":
        return NUMBER if left.counts and right.counts else _either(left, right)
    return NUMBER if right.counts and sign != "%" else left


def _count(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least} argument{'s' if least > 1 else ''}"
    if least == most:
        return f"{least} argument{'s' if least > 1 else ''}"
    return f"{least} to {most} arguments"


def _name_start(tree: Tree, name: str) -> int:
    """Where the last name of a path begins: the finding points at it, not at the whole path."""
    if tree[0] == "index":
        return int(tree[4][1])
    return int(tree[2]) - len(name)


def _noun(container: Type) -> str:
    return "output " if container.code == "PLAN202" else ""


def _plain(found: Type) -> str:
    return "map" if found.kind == "object" else found.kind


def _name(found: Type) -> str:
    return NAMES[_plain(found)]


def _const(_: Checker, tree: Tree) -> Type:
    value = tree[3]
    if value is None:
        return NULL
    return BOOL if isinstance(value, bool) else STRING if isinstance(value, str) else NUMBER


def _quantity(_: Checker, tree: Tree) -> Type:
    return PERCENT if tree[4] == "percent" else Type(tree[4])


_TYPES: dict[str, Callable[[Checker, Tree], Type]] = {
    "const": _const,
    "quantity": _quantity,
    "name": Checker.read,
    "local": Checker.local,
    "attr": Checker.read,
    "slice": Checker.part,
    "each": Checker.each,
    "concat": Checker.texts,
    "index": Checker.read,
    "list": Checker.items,
    "map": Checker.pairs,
    "not": _flags,
    "and": _flags,
    "or": _flags,
    "if": Checker.choose,
    "compare": Checker.compare,
    "binary": Checker.binary,
    "sign": Checker.sign,
    "empty": Checker.test,
    "kind": Checker.test,
    "call": Checker.call,
}
