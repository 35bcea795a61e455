"""What a feature is to the generator: a piece of a plan with ids of its own, and what must be true after a run of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.app.proof.world import Reply
from planrunner.frozen import EMPTY

if TYPE_CHECKING:
    from features.played import Ran

Json = Any
Ids = Callable[[str], str]
"""The id that a task of a piece has, by the name it has in the feature."""
Claim = Callable[["Ran"], Iterator[str]]
"""What is not as it must be after a run: a sentence each."""


class Piece(NamedTuple):
    """Tasks of one level that bring about one thing. ``main`` is the task that keys of other features are written on,
    ``last`` the one after which the piece is done. ``keys`` are those of the plan, ``files`` the plans that it links, by
    path. ``replies``, ``gates`` and ``facts`` are as in a ``World``."""

    tasks: Sequence[dict[str, Json]]
    main: str
    claims: Sequence[Claim]
    keys: Mapping[str, Json] = EMPTY
    replies: Mapping[str, tuple[Reply, ...]] = EMPTY
    gates: Mapping[str, Json] = EMPTY
    facts: Mapping[str, Json] = EMPTY
    files: Mapping[str, Json] = EMPTY
    last: str = ""
    leaf: bool = False
    """``main`` is a script that does nothing but go well: other features may script its attempts."""
    fails: bool = False
    """The run fails by it, as it should: of the rest only what was reached can be claimed."""
    ends: bool = False
    """What runs beside it is stopped."""
    open: frozenset[str] = frozenset()
    """Tasks that need not complete though all goes well."""

    @property
    def end(self) -> str:
        return self.last or self.main


class Key(NamedTuple):
    """What a feature that is written on a task adds to it. ``replies`` count where the task is a leaf."""

    keys: Mapping[str, Json]
    claim: Claim
    replies: tuple[Reply, ...] = ()
    plan: Mapping[str, Json] = EMPTY
    more: Sequence[dict[str, Json]] = ()
    """Tasks beside it."""
    gates: Mapping[str, Json] = EMPTY
    facts: Mapping[str, Json] = EMPTY
    extra: Mapping[str, tuple[Reply, ...]] = EMPTY
    """Replies to the tasks beside it."""
    open: bool = False
    """The task need not complete though all goes well."""
    last: str = ""
    """The task after which all is done, where that is another one."""


class Feature(NamedTuple):
    """``fault`` names what would break its claim. ``hold`` puts the tasks of another piece inside a task of this one,
    ``dress`` writes its keys on the main task of another piece."""

    name: str
    fault: str
    make: Callable[[Ids], Piece]
    hold: Callable[[Ids, Piece], Piece] | None = None
    dress: Callable[[Ids, str, bool], Key] | None = None


FEATURES: dict[str, Feature] = {}


def feature(name: str, fault: str) -> Callable[[Callable[[Ids], Piece]], Callable[[Ids], Piece]]:
    """Register a piece that stands by itself."""

    def add(make: Callable[[Ids], Piece]) -> Callable[[Ids], Piece]:
        FEATURES[name] = Feature(name, fault, make)
        return make

    return add


def holder(name: str, fault: str) -> Callable[[Callable[[Ids, Piece], Piece]], Callable[[Ids, Piece], Piece]]:
    """Register a task that holds others."""

    def add(hold: Callable[[Ids, Piece], Piece]) -> Callable[[Ids, Piece], Piece]:
        FEATURES[name] = Feature(name, fault, lambda x: hold(x, step(x)), hold=hold)
        return hold

    return add


def key(name: str, fault: str) -> Callable[[Callable[[Ids, str, bool], Key]], Callable[[Ids, str, bool], Key]]:
    """Register keys of a task."""

    def add(dress: Callable[[Ids, str, bool], Key]) -> Callable[[Ids, str, bool], Key]:
        FEATURES[name] = Feature(name, fault, lambda x: dressed(step(x, "it"), dress(x, x("it"), True)), dress=dress)
        return dress

    return add


def step(x: Ids, name: str = "step") -> Piece:
    """One script that goes well."""
    return Piece([{"id": x(name), "run": "true"}], x(name), [], leaf=True)


class Clash(Exception):
    """Two pieces want different things of one key: they cannot meet."""


def dressed(piece: Piece, added: Key) -> Piece:
    """A piece with keys on its main task. Raises Clash where it has one of them."""
    if not added.keys:
        raise Clash("it says nothing about such a task")
    if added.open and (piece.fails or any(piece.main in _leads(task) for task in piece.tasks)):
        raise Clash("what fails, or handles a failure, has to run")
    tasks = []
    for task in piece.tasks:
        if task["id"] == piece.main:
            if both := task.keys() & added.keys.keys():
                raise Clash(f"both write `{min(both)}` on a task")
            task = {**task, **added.keys}
        tasks.append(task)
    replies = dict(piece.replies)
    if piece.leaf and added.replies:
        replies[piece.main] = added.replies
    return piece._replace(
        tasks=[*tasks, *added.more],
        claims=[*(map(loosely, piece.claims) if added.open else piece.claims), added.claim],
        keys=merged(piece.keys, added.plan),
        replies={**replies, **added.extra},
        gates={**piece.gates, **added.gates},
        facts={**piece.facts, **added.facts},
        leaf=False,
        open=piece.open | ({task["id"] for task in piece.tasks} if added.open else set()),
        last=added.last or piece.last,
    )


def loosely(claim: Claim) -> Claim:
    """The claim about what was reached alone."""

    def loose(ran: Ran) -> Iterator[str]:
        calm, ran.calm = ran.calm, False
        found = list(claim(ran))
        ran.calm = calm
        return iter(found)

    return loose


def merged(one: Mapping[str, Json], other: Mapping[str, Json]) -> dict[str, Json]:
    """The keys of a plan that two pieces want. Raises Clash."""
    both = dict(one)
    for name, value in other.items():
        have = both.get(name)
        if have is None or have == value:
            both[name] = value
        elif isinstance(have, dict) and isinstance(value, dict):
            both[name] = merged(have, value)
        elif isinstance(have, list) and isinstance(value, list):
            both[name] = [*have, *value]
        else:
            raise Clash(f"both write `{name}` of the plan")
    return both


def beside(one: Piece, other: Piece, after: bool = False) -> Piece:
    """Two pieces on one level, the other one after the first where that is said. Raises Clash."""
    tasks = [dict(task) for task in other.tasks]
    if after:
        inner = {task["id"] for task in tasks}
        led_to = {target for task in tasks for target in _leads(task)}
        for task in tasks:
            if not _needs(task) & inner and task["id"] not in led_to:
                if isinstance(task.get("needs"), str):
                    raise Clash("its needs are an expression")
                task["needs"] = [*task.get("needs", []), one.end]
    return Piece(
        [*one.tasks, *tasks],
        other.main,
        [*one.claims, *other.claims],
        merged(one.keys, other.keys),
        {**one.replies, **other.replies},
        {**one.gates, **other.gates},
        {**one.facts, **other.facts},
        {**one.files, **other.files},
        other.end,
        False,
        one.fails or other.fails,
        one.ends or other.ends,
        one.open | other.open,
    )


def holding(held: Piece, task: dict[str, Json], claim: Claim, **more: Json) -> Piece:
    """A piece of one task that holds those of another piece: what that wants of the world stays."""
    services = held.keys.get("services", {})
    if services and "services" in more.get("keys", held.keys):  # what a task needs stands on its level
        for each in held.tasks:
            each["needs"] = [name for name in each.get("needs", []) if name not in services]
        task = {**task, "needs": [*task.get("needs", []), *services]}
    said = {"keys": held.keys, "last": "", "leaf": False, **more}
    return held._replace(tasks=[task], main=task["id"], claims=[*held.claims, claim], **said)


def _needs(task: Mapping[str, Json]) -> set[str]:
    said = task.get("needs", [])
    return {said} if isinstance(said, str) else set(said)


def _leads(task: Mapping[str, Json]) -> Iterator[str]:
    """The tasks that edges of this one lead to."""
    todo: list[Json] = [task.get(name) for name in ("on_success", "on_failure", "next", "options", "on_reject")]
    while todo:
        each = todo.pop()
        if isinstance(each, list):
            todo += each
        elif isinstance(each, dict):
            todo.append(each.get("to"))
        elif isinstance(each, str):
            yield each
    for mode in task.get("failure_modes", ()):
        if "recover" in mode:
            yield mode["recover"]
