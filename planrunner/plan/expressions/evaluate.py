"""Values of expressions: pure, total and bounded. Nothing here knows the parser.

A tree is a tuple (or, read back from JSON, a list) ``(operation, start, end, …)``:

    const value · quantity amount dimension · name text · local text · attr tree text · index tree tree
    slice tree first last · list trees · map pairs · not tree · and trees · or trees · if condition then else
    compare operator left right · binary sign left right · concat trees · sign sign tree · empty tree · kind tree kind
    each names list value condition · call name trees place-of-the-name

A ``local`` is a name that a comprehension or a loop around gives; first, last and condition may be null.

Whatever the tree and the values, the only exception is EvaluationError. Of conditions of which only some names are
known, ``decided``, ``constant`` and ``possible`` say what is certain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.plan.expressions.functions import BUILT_IN, FUNCTIONS, contains, matches
from planrunner.plan.expressions.quantities import Quantity
from planrunner.plan.expressions.tree import children, path_of, paths_of, show
from planrunner.plan.expressions.values import NAMES as KIND_NAMES
from planrunner.plan.expressions.values import (
    ROOTS,
    Absent,
    EvaluationError,
    MissingName,
    Names,
    Scope,
    Undecided,
    before,
    compute,
    items_of,
    joined,
    kind,
    negative,
    same,
    shown,
    text_of,
)
from planrunner.records import Struct

Json = Any
Tree = Any


DEEPEST = 100
"""Levels of a tree; the parser makes fewer."""
_BROKEN = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError, MemoryError)


def evaluate(tree: Tree, scope: Scope, limit: int = 100_000) -> Json:
    """The value of a tree. ``limit`` counts operations, with long lists and texts counted by their length.

    Raises EvaluationError for missing names (MissingName), kinds that do not fit and results that are too large.
    """
    return evaluated(tree, Evaluation(scope, limit))


def truth(tree: Tree, scope: Scope, limit: int = 100_000) -> bool:
    """Whether a condition holds. Only true and false are conditions: text such as "false" raises EvaluationError."""
    return holds(tree, Evaluation(scope, limit))


def explain(tree: Tree, scope: Scope) -> str:
    """One sentence, such as ``exit_code == 0`` is false: exit_code is 3. Never raises for a tree of the parser.

    Of several conditions joined by ``and`` it names the first that is false; of alternatives it names each.
    """
    try:
        verdict = truth(tree, scope)
    except EvaluationError as error:
        return f"`{show(tree)}` cannot be decided: {error.message}"
    return f"`{show(tree)}` is true{_reads(tree, scope)}" if verdict else _why_false(tree, scope)


def evaluated(tree: Tree, run: Evaluation) -> Json:
    """As ``evaluate``, with the names and the steps that several expressions share."""
    return _guarded(tree, run, _data)


def holds(tree: Tree, run: Evaluation) -> bool:
    """As ``truth``, with the names and the steps that several expressions share."""
    return bool(_guarded(tree, run, _flag))


def _guarded(tree: Tree, run: Evaluation, judge: Callable[[Json, Tree], Json]) -> Json:
    try:
        return judge(run.value(tree), tree)
    except EvaluationError:
        raise
    except _BROKEN as error:
        raise EvaluationError(f"the expression cannot be evaluated ({type(error).__name__})") from error


def _data(value: Json, tree: Tree) -> Json:
    if kind(value) in ("group", "unknown"):
        raise EvaluationError(f"`{show(tree)}` is {KIND_NAMES[kind(value)]}, not a value: name a member of it")
    return value


def _flag(value: Json, tree: Tree) -> bool:
    if value is True or value is False:
        return bool(value)
    hint = ""
    if isinstance(value, str):
        hint = ': compare it, such as `… == "true"`, or ask `… is not empty`'
    elif kind(value) in ("list", "map", "null"):
        hint = ": ask `… is not empty`"
    raise EvaluationError(f"`{show(tree)}` is {KIND_NAMES[kind(value)]}, not true or false{hint}")


class Evaluation:
    """Walks over trees, which count their steps; ``bound`` are the names that loops around give."""

    __slots__ = ("bound", "left", "level", "scope")

    def __init__(self, scope: Scope, limit: int) -> None:
        self.scope = scope
        self.bound: dict[str, Json] = {}
        self.left = limit
        self.level = 0

    def value(self, tree: Tree) -> Json:
        self.level += 1
        if self.level > DEEPEST:
            raise EvaluationError("the expression is nested too deeply")
        self.left -= 1
        if self.left < 0:
            raise EvaluationError("the expression takes too many steps")
        result = _OPERATIONS[tree[0]](self, tree)
        self.level -= 1
        return result

    def charge(self, *values: Json) -> None:
        """Long data costs steps: an operation may have to look at all of it."""
        for value in values:
            if isinstance(value, (str, list, tuple, dict)):
                self.left -= len(value) >> (10 if isinstance(value, str) else 3)
        if self.left < 0:
            raise EvaluationError("the expression takes too many steps")

    def name(self, tree: Tree) -> Json:
        try:
            return self.scope.resolve(tree[3])
        except KeyError:
            raise MissingName(f"`{tree[3]}` is not defined here") from None

    def local(self, tree: Tree) -> Json:
        return self.bound[tree[3]]

    def attribute(self, tree: Tree) -> Json:
        return self.member(self.value(tree[3]), tree[4], tree)

    def index(self, tree: Tree) -> Json:
        container, key = self.value(tree[3]), self.value(tree[4])
        if not isinstance(key, str):
            container = items_of(container)
        if kind(container) in ("list", "string") and kind(key) == "number":
            if not isinstance(key, int):
                raise EvaluationError(f"`{show(tree)}` has a fraction as its index")
            if not -len(container) <= key < len(container):
                raise MissingName(f"`{show(tree[3])}` has {len(container)} items, index {key} is out of range")
            return container[key]
        if isinstance(key, str):
            return self.member(container, key, tree)
        raise EvaluationError(
            f"`{show(tree[3])}` is {KIND_NAMES[kind(container)]}, {show(tree[4])} names no item of it"
        )

    def member(self, container: Json, key: str, tree: Tree) -> Json:
        if isinstance(container, dict):
            if key in container:
                return container[key]
        elif kind(container) == "group":
            try:
                return container.resolve(key)
            except KeyError:
                pass
        elif container is None:
            raise MissingName(f"`{show(tree[3])}` is null, it has no `{key}`")
        else:
            raise EvaluationError(f"`{show(tree[3])}` is {KIND_NAMES[kind(container)]}, it has no `{key}`")
        raise MissingName(f"`{show(tree[3])}` has no `{key}`{_members(container)}")

    def part(self, tree: Tree) -> Json:
        _, _, _, holder_tree, first, last = tree
        container = self.value(holder_tree)
        if kind(container) not in ("list", "string"):
            raise EvaluationError(f"`{show(holder_tree)}` is {KIND_NAMES[kind(container)]}, it has no parts by number")
        ends = [None if end is None else self.value(end) for end in (first, last)]
        if not all(end is None or (kind(end) == "number" and isinstance(end, int)) for end in ends):
            raise EvaluationError(f"`{show(tree)}` takes whole numbers")
        self.charge(container)
        return container[ends[0] : ends[1]]

    def each(self, tree: Tree) -> list[Json]:
        _, _, _, names, source, value, condition = tree
        items = self.value(source)
        if kind(items) != "list":
            hint = ": write `keys(…)` or `items(…)`" if kind(items) == "map" else ""
            raise EvaluationError(f"`{show(source)}` is {KIND_NAMES[kind(items)]}, not a list{hint}")
        self.charge(items)
        around, result = self.bound, []
        for item in items:
            self.bound = {**around, **named(names, item)}
            if condition is None or self.holds(condition):
                result.append(_data(self.value(value), value))
        self.bound = around
        return result

    def concat(self, tree: Tree) -> str:
        values = [_data(self.value(item), item) for item in tree[3]]
        self.charge(*values)
        return joined([text_of(value) for value in values])

    def choose(self, tree: Tree) -> Json:
        return self.value(tree[4] if self.holds(tree[3]) else tree[5])

    def holds(self, tree: Tree) -> bool:
        return _flag(self.value(tree), tree)

    def compare(self, tree: Tree) -> bool:
        _, _, _, operator, left_tree, right_tree = tree
        left, right = self.value(left_tree), self.value(right_tree)
        self.charge(left, right)
        try:
            return _COMPARISONS[operator](left, right)
        except EvaluationError as error:
            raise type(error)(f"`{show(tree)}`: {error.message}") from None

    def call(self, tree: Tree) -> Json:
        name, arguments = tree[3], tree[4]
        if name in BUILT_IN and not BUILT_IN[name][0] <= len(arguments) <= BUILT_IN[name][1]:
            raise EvaluationError(f"`{name}` does not take {len(arguments)} arguments")
        if name == "default":
            return self.default(arguments)
        if name == "exists":
            return self.optional(arguments[0]) is not None
        function = FUNCTIONS.get(name)
        if function is None:
            raise EvaluationError(f"unknown function `{name}`")
        values = [self.value(argument) for argument in arguments]
        if len(values) < function.least or (function.most is not None and len(values) > function.most):
            raise EvaluationError(f"`{name}` does not take {len(values)} arguments")
        self.charge(*values)
        result = function.call(*values)
        self.charge(result)
        return result

    def default(self, arguments: Tree) -> Json:
        value = self.optional(arguments[0])
        stands_in = len(arguments) > 2 and not value and self.holds(arguments[2])
        return self.value(arguments[1]) if value is None or stands_in else value

    def optional(self, tree: Tree) -> Json:
        """The value of a tree, or None where a name on the way is missing."""
        level, bound = self.level, self.bound
        try:
            value = self.value(tree)
            return None if isinstance(value, Absent) else value
        except MissingName:
            self.level, self.bound = level, bound
            return None


def named(names: tuple[str, ...], item: Json) -> dict[str, Json]:
    """The names of one turn with their values; several names take a list of as many items apart."""
    if len(names) == 1:
        return {names[0]: item}
    if kind(item) != "list" or len(item) != len(names):
        found = f"a list of {len(item)}" if kind(item) == "list" else KIND_NAMES[kind(item)]
        raise EvaluationError(f"`{', '.join(names)}` takes lists of {len(names)} items, not {found}")
    return dict(zip(names, item, strict=True))


def _members(container: Json) -> str:
    names = list(container)[:9] if isinstance(container, dict) else []
    return f" (it has {', '.join(f'`{str(name)[:40]}`' for name in names)})" if 0 < len(names) < 9 else ""


def _is_empty(value: Json) -> bool:
    return value is None or (kind(value) in ("string", "list", "map") and not value)


_COMPARISONS: dict[str, Callable[[Json, Json], bool]] = {
    "==": same,
    "!=": lambda left, right: not same(left, right),
    "<": before,
    ">": lambda left, right: before(right, left),
    "<=": lambda left, right: before(left, right) or same(left, right),
    ">=": lambda left, right: before(right, left) or same(left, right),
    "in": lambda left, right: contains(right, left),
    "not in": lambda left, right: not contains(right, left),
    "contains": contains,
    "not contains": lambda left, right: not contains(left, right),
    "matches": matches,
    "not matches": lambda left, right: not matches(left, right),
}

_OPERATIONS: dict[str, Callable[[Evaluation, Tree], Json]] = {
    "const": lambda _, tree: tree[3],
    "quantity": lambda _, tree: Quantity(tree[3], tree[4]),
    "name": Evaluation.name,
    "local": Evaluation.local,
    "attr": Evaluation.attribute,
    "slice": Evaluation.part,
    "each": Evaluation.each,
    "concat": Evaluation.concat,
    "index": Evaluation.index,
    "list": lambda run, tree: [run.value(item) for item in tree[3]],
    "map": lambda run, tree: {key: run.value(item) for key, item in tree[3]},
    "not": lambda run, tree: not run.holds(tree[3]),
    "and": lambda run, tree: all(run.holds(item) for item in tree[3]),
    "or": lambda run, tree: any(run.holds(item) for item in tree[3]),
    "if": Evaluation.choose,
    "compare": Evaluation.compare,
    "binary": lambda run, tree: compute(tree[3], run.value(tree[4]), run.value(tree[5])),
    "sign": lambda run, tree: negative(run.value(tree[4])) if tree[3] == "-" else run.value(tree[4]),
    "empty": lambda run, tree: _is_empty(run.value(tree[3])),
    "kind": lambda run, tree: kind(run.value(tree[3])) == tree[4],
    "call": Evaluation.call,
}


def _why_false(tree: Tree, scope: Scope) -> str:
    operation = tree[0]
    if operation == "and":
        for item in tree[3]:
            if not truth(item, scope):
                return _why_false(item, scope)
    if operation == "or":
        return "; ".join(_why_false(item, scope) for item in tree[3][:5])
    return f"`{show(tree)}` is false{_reads(tree, scope)}"


def _reads(tree: Tree, scope: Scope) -> str:
    """The values behind the names of a condition, such as ``: exit_code is 3``; nothing where it reads none."""
    seen: dict[str, str] = {}
    waiting = [tree]
    while waiting and len(seen) < 5:
        node = waiting.pop()
        if path_of(node) is not None:
            seen[show(node)] = _value(node, scope)
        else:
            waiting.extend(reversed(children(node)))
    if tree[0] == "compare" and tree[4][0] in ("call", "binary", "index") and path_of(tree[4]) is None:
        seen = {show(tree[4]): _value(tree[4], scope), **seen}  # `len(sources)` says more than all of `sources`
    return ": " + ", ".join(f"{name} is {value}" for name, value in seen.items()) if seen else ""


def _value(tree: Tree, scope: Scope) -> str:
    try:
        return shown(evaluate(tree, scope))
    except EvaluationError:
        return "missing"


_ENDED = "`{}` is known once the task has ended: in `expect` and `next`; of another task it is `tasks.ID.{}`"
ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(ROOTS, "`{}` is read before a task starts: in `when`, `preconditions` and `fresh`"),
    **dict.fromkeys(("exit_code", "duration", "stdout", "stderr", "outputs"), _ENDED),
    **dict.fromkeys(("item", "index"), "`{}` is there in tasks with `foreach` and in those inside them"),
    "matrix": "`{}` is there in tasks with `matrix` and in those inside them",
    **dict.fromkeys(("loop", "carry"), "`{}` is there in the tasks of a `loop` and in its `until`"),
    "artifacts": "what a task before this one keeps is `tasks.TASK.artifacts.NAME`; `uses: files.artifact` puts it, or"
    " that of another run, into a file",
    "rework": "`{}` is there in plans with a gate that sends tasks back",
    **dict.fromkeys(("failure", "message"), "`{}` is there in `failure_modes`; of another task it is `tasks.ID.{}`"),
}
"""Names that some places of a plan know → where, for a name that stands in another; ``{}`` is the name."""


def elsewhere(name: str) -> str:
    """Where a name is known that is not known here; empty for one that no place knows."""
    return ELSEWHERE.get(name, "").replace("{}", name)


def decided(tree: Tree, scope: Scope) -> bool | None:
    """Whether a condition holds, whatever becomes of the tasks that have not ended; None where that depends on them.

    Under ``and``, ``or`` and ``not`` a flag of such a task (``a.ok``) leaves the others to decide; anything else that
    is read of it is waited for. Raises EvaluationError where the condition has no value.
    """
    try:
        return _decided(tree, scope)
    except Undecided:
        return None


def _decided(tree: Tree, scope: Scope) -> bool | None:
    if tree[0] == "not":
        inner = _decided(tree[3], scope)
        return None if inner is None else not inner
    if tree[0] in ("and", "or"):
        return _decided_parts(tree, scope)
    try:
        return truth(tree, scope)
    except Undecided as error:
        if error.flag and path_of(tree) is not None:
            return None
        raise


def _decided_parts(tree: Tree, scope: Scope) -> bool | None:
    deciding = tree[0] == "or"
    is_open = False
    for item in tree[3]:
        try:
            found = _decided(item, scope)
        except Undecided:
            raise
        except EvaluationError as error:
            if is_open:  # whether this is read at all depends on what is before it
                raise Undecided(error.message) from error
            raise
        if found is deciding:
            return deciding
        is_open = is_open or found is None
    return None if is_open else not deciding


def constant(tree: Tree) -> bool | None:
    """True or False for a condition that is always so, None for one that depends on a name or has no value."""
    operation = tree[0]
    if operation == "not":
        inner = constant(tree[3])
        return None if inner is None else not inner
    if operation in ("and", "or"):
        parts, decisive = [constant(item) for item in tree[3]], operation == "or"
        return decisive if decisive in parts else None if None in parts else not decisive
    if operation == "compare" and paths_of(tree) and _bare(tree[4]) == _bare(tree[5]):
        return {"==": True, "<=": True, ">=": True, "!=": False, "<": False, ">": False}.get(tree[3])
    if paths_of(tree):
        return None
    try:
        return truth(tree, Names({}))
    except EvaluationError:
        return None


def _bare(tree: Tree) -> Any:
    """A tree without its places."""
    if isinstance(tree, (tuple, list)):
        if len(tree) > 3 and isinstance(tree[0], str) and isinstance(tree[1], int) and isinstance(tree[2], int):
            return (tree[0], *(_bare(part) for part in tree[3:]))
        return tuple(_bare(part) for part in tree)
    return (type(tree).__name__, tree)


class Possible(Struct):
    """Which ends the evaluation of a condition may have."""

    true: bool
    false: bool
    fails: bool


def possible(tree: Tree, scope: Scope, may_fail: Callable[[Tree], bool] = lambda tree: False) -> Possible:
    """The possible ends of a condition. ``may_fail`` says of a part whose value is not known whether it may have
    none. The right side of ``and`` and ``or`` counts only where it may be read."""
    operation = tree[0]
    if operation == "not":
        inner = possible(tree[3], scope, may_fail)
        return Possible(inner.false, inner.true, inner.fails)
    if operation in ("and", "or"):
        return _possible_parts(operation == "or", [possible(item, scope, may_fail) for item in tree[3]])
    if operation == "if":
        return _chosen(*(possible(part, scope, may_fail) for part in tree[3:6]))
    try:
        found = truth(tree, scope)
    except Undecided:
        return Possible(True, True, may_fail(tree))
    except EvaluationError:
        return Possible(False, False, True)
    return Possible(found, not found, False)


def _possible_parts(deciding: bool, items: list[Possible]) -> Possible:
    """``and`` is decided by a part that is false, ``or`` by one that is true; the parts after it are not read."""
    decided = fails = False
    goes_on = True
    for item in items:
        if not goes_on:
            break
        decided = decided or (item.true if deciding else item.false)
        fails = fails or item.fails
        goes_on = item.false if deciding else item.true
    return Possible(decided, goes_on, fails) if deciding else Possible(goes_on, decided, fails)


def _chosen(condition: Possible, one: Possible, other: Possible) -> Possible:
    read = [branch for branch, taken in ((one, condition.true), (other, condition.false)) if taken]
    return Possible(
        any(branch.true for branch in read),
        any(branch.false for branch in read),
        condition.fails or any(branch.fails for branch in read),
    )
