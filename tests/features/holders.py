"""Features that hold others: loops, fan-outs, subplans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from features.pieces import Ids, Piece, holder, holding, merged
from planrunner.app.proof.world import Reply

Json = Any
OWN = ("params", "hypotheses", "finally", "on_failure", "rollback", "env", "budgets", "outputs")
"""Keys of a plan that a subplan with a name has as well."""


def _inside(ran: Any, piece: Piece, around: str) -> Iterator[str]:
    """Where all goes well, the tasks of a piece stand inside a path."""
    if ran.calm:
        for task in piece.tasks:
            name = task["id"]
            if name not in piece.open and not name.endswith("*") and not ran.of(name, f"{around}/"):
                yield f"`{name}` is not inside `{around}`"


def _at_last(held: Piece) -> dict[str, Json]:
    """Keys of a task that begins when all of a piece is done."""
    return {"needs": [task["id"] for task in held.tasks], "join": "all_done"}


@holder("loop-until", "a round too many or too few, or rounds without their tasks")
def loop_until(x: Ids, held: Piece) -> Piece:
    task = {
        "id": x("loop"),
        "loop": {"max": 5, "until": "loop.round == 2", "tasks": list(held.tasks)},
    }

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("loop"))
        for one in ran.done(x("loop")):
            if one.state.outputs.get("rounds") != 2:
                yield f"`{one.id}` gave {one.state.outputs}, and should have reached its end in 2 rounds"
            for number in (1, 2):
                mark = f"@{one.state.attempts}" if one.state.attempts > 1 else ""
                yield from _inside(ran, held, f"{one.id}{mark}#{number}")

    return holding(held, task, claim)


@holder("loop-carry", "a value that is carried is lost, or that of another round or copy")
def loop_carry(x: Ids, held: Piece) -> Piece:
    add = {"id": x("add"), "uses": "noop", "with": {"value": "{{ carry.sum + loop.round }}"}}
    task = {
        "id": x("loop"),
        "loop": {
            "max": 3,
            "carry": {"sum": {"first": 10, "next": f"{{{{ tasks.{x('add')}.outputs.value }}}}"}},
            "tasks": [add, *held.tasks],
        },
        "outputs": {"sum": {"type": "int", "value": f"{{{{ tasks.{x('add')}.outputs.value }}}}"}},
    }

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("loop"))
        for one in ran.done(x("loop")):
            if one.state.outputs.get("sum") != 16:
                yield f"`{one.id}` carried {one.state.outputs.get('sum')}, and should have come to 10 + 1 + 2 + 3"
            sums = [each.state.outputs.get("value") for each in ran.done(x("add"), one.id)]
            if sums != [11, 13, 16]:
                yield f"`{one.id}` carried {sums} and not 11, 13, 16"

    return holding(held, task, claim)


@holder("foreach", "an item is left out, begins twice, or reads another item")
def foreach(x: Ids, held: Piece) -> Piece:
    show = {"id": x("show"), "uses": "noop", "with": {"value": "{{ each }}"}}
    task = {"id": x("each"), "foreach": [5, 6, 7], "as": "each", "max_parallel": 2, "subplan": [show, *held.tasks]}

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("each"))
        for one in ran.done(x("each")):
            seen = [each.state.outputs.get("value") for each in ran.done(x("show"), f"{one.id}")]
            if sorted(seen, key=str) != [5, 6, 7] and not ran.piece.ends:
                yield f"the copies of `{one.id}` read {seen}"

    return holding(held, task, claim)


@holder("foreach-tolerate", "a copy too many may fail, or what it does is lost")
def foreach_tolerate(x: Ids, held: Piece) -> Piece:
    bad = {"id": x("bad"), "run": "exit {{ item }}", **_at_last(held)}
    task = {"id": x("some"), "foreach": [0, 1], "tolerate": 1, "subplan": [*held.tasks, bad]}
    replies = {**held.replies, f"*{x('bad')}": (Reply(),), f"*{x('some')}[1]*/{x('bad')}": (Reply(failure="logic"),)}

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("some"))
        for one in ran.done(x("some")):
            copies = sorted(each.state.status for each in ran.of(f"{x('some')}[]", one.id))
            if ran.calm and copies != ["completed", "failed"]:
                yield f"the copies of `{one.id}` are {copies}"

    quiet = frozenset({x("some"), x("bad")})
    return holding(held, task, claim, replies=replies, open=held.open | quiet)


@holder("matrix", "a combination is left out")
def matrix(x: Ids, held: Piece) -> Piece:
    show = {"id": x("cell"), "uses": "noop", "with": {"value": "{{ matrix.os }} {{ matrix.n }}"}}
    task = {
        "id": x("grid"),
        "matrix": {"os": ["a", "b"], "n": [1, 2], "exclude": [{"os": "b", "n": 1}]},
        "subplan": [show, *held.tasks],
    }

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("grid"))
        for one in ran.done(x("grid")):
            seen = sorted(str(each.state.outputs.get("value")) for each in ran.done(x("cell"), one.id))
            if seen != ["a 1", "a 2", "b 2"] and not ran.piece.ends:
                yield f"the cells of `{one.id}` are {seen}"

    return holding(held, task, claim)


@holder("subplan", "the subplan is done before its steps are")
def subplan(x: Ids, held: Piece) -> Piece:
    task = {"id": x("sub"), "subplan": list(held.tasks)}
    return holding(held, task, _of_subplan(x, held))


@holder("subplan-named", "a parameter does not arrive, or the outputs of the subplan do not come out")
def subplan_named(x: Ids, held: Piece) -> Piece:
    own = {name: value for name, value in held.keys.items() if name in OWN}
    rest = {name: value for name, value in held.keys.items() if name not in OWN or name == "params"}
    plan = _linked(x, held, own)
    task = {"id": x("sub"), "subplan": x("named"), "params": {"what": "told"}}
    keys = merged(rest, {"subplans": {x("named"): plan}})
    return holding(held, task, _of_linked(x, held), keys=keys)


@holder("subplan-file", "a parameter does not arrive in the file of a plan, or its outputs do not come out")
def subplan_file(x: Ids, held: Piece) -> Piece:
    plan = {"plan": x("file"), **_linked(x, held, dict(held.keys))}
    task = {"id": x("sub"), "subplan": f"./parts/{x('file')}.json", "params": {"what": "told"}}
    files = {**held.files, f"parts/{x('file')}.json": plan}
    for name in held.files:
        files[f"parts/{name}"] = held.files[name]
    return holding(held, task, _of_linked(x, held), keys={}, files=files)


def _linked(x: Ids, held: Piece, keys: dict[str, Json]) -> dict[str, Json]:
    said = {"id": x("say"), "uses": "noop", "with": {"value": "{{ params.what }}"}}
    more = {
        "params": {"what": {"type": "string", "required": True}},
        "outputs": {"what": {"type": "string", "value": f"{{{{ tasks.{x('say')}.outputs.value }}}}"}},
        "defaults": {"timeout": "1h"},
    }
    return {**merged(keys, more), "tasks": [said, *held.tasks]}


def _of_subplan(x: Ids, held: Piece) -> Any:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("sub"))
        for one in ran.done(x("sub")):
            for task in held.tasks:
                for each in ran.of(task["id"], f"{one.id}/"):
                    if each.state.status in ("pending", "queued", "running", "blocked"):
                        yield f"`{one.id}` completed while `{each.id}` is {each.state.status}"
            yield from _inside(ran, held, one.id if one.state.attempts == 1 else f"{one.id}@{one.state.attempts}")

    return claim


def _of_linked(x: Ids, held: Piece) -> Any:
    def claim(ran: Any) -> Iterator[str]:
        yield from _of_subplan(x, held)(ran)
        for one in ran.done(x("sub")):
            if one.state.outputs.get("what") != "told":
                yield f"`{one.id}` gave {one.state.outputs}"

    return claim


@holder("loop-until-ok", "the loop ends by a round that failed, or fails by one that it repeats")
def loop_until_ok(x: Ids, held: Piece) -> Piece:
    test = {"id": x("test"), "run": "test {{ loop.round }} -ge 3", **_at_last(held)}
    task = {"id": x("mend"), "loop": {"max": 4, "until": f"tasks.{x('test')}.ok", "tasks": [*held.tasks, test]}}
    replies = {f"*{x('test')}": (Reply(),)}
    for number in (1, 2):
        replies[f"*{x('mend')}#{number}/{x('test')}"] = (Reply(failure="logic"),)
        replies[f"*{x('mend')}@2#{number}/{x('test')}"] = (Reply(failure="logic"),)

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("mend"))
        for one in ran.done(x("mend")):
            if one.state.outputs.get("rounds") != 3:
                yield f"`{one.id}` took {one.state.outputs.get('rounds')} rounds and should take 3"

    quiet = frozenset({x("test")})
    more = {"replies": {**held.replies, **replies}, "open": held.open | quiet}
    return holding(held, task, claim, **more)
