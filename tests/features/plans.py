"""Features of a whole plan: what comes last, what a failure does, budgets, services, hypotheses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from features.flows import goes_well
from features.pieces import Ids, Piece, feature
from planrunner.app.proof.world import Reply
from planrunner.machine.events import RollbackEnded, RunEnded, UndoSettled

Json = Any


@feature("finally", "what comes last begins before the rest is done, or not at all")
def finally_(x: Ids) -> Piece:
    keys = {"finally": [{"id": x("clean"), "run": "true"}]}

    def claim(ran: Any) -> Iterator[str]:
        found = ran.of(x("clean"))
        if not found:
            yield f"`{x('clean')}` is nowhere"
        for one in found:
            if one.state.status != "completed":
                yield f"`{one.id}` is {one.state.status} and comes last whatever happens"
            elif ran.calm and one.state.visit == 1:
                level = one.id.rpartition("/")[0]
                for other in ran.done(x("work"), level):
                    if ran.starts(one)[-1] < ran.settled(other):
                        yield f"`{one.id}` began before `{other.id}` was done"

    return Piece([{"id": x("work"), "run": "true"}], x("work"), [claim], keys, leaf=True)


@feature("services", "a task begins before the service it needs is ready")
def services(x: Ids) -> Piece:
    keys = {"services": {x("db"): {"run": "serve", "ready": "log: up", "timeout": "30s"}}}
    return Piece([{"id": x("query"), "needs": [x("db")], "run": "true"}], x("query"), [goes_well(x("query"))], keys)


@feature("hypotheses", "evidence is counted twice, or not at all")
def hypotheses(x: Ids) -> Piece:
    name = x("race").replace("-", "_")
    keys = {"hypotheses": {name: {"statement": "Two race", "prior": "50%"}}}
    evidence = [{"hypothesis": name, "supports": "exit_code == 0", "weight": "strong"}]
    tasks = [
        {"id": x("probe"), "run": "true", "evidence": evidence},
        {
            "id": x("tell"),
            "needs": [x("probe")],
            "uses": "noop",
            "with": {"value": f"{{{{ hypotheses.{name}.confidence }}}}"},
        },
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("tell"))
        for one in ran.done(x("tell")):
            if float(str(one.state.outputs.get("value")).rstrip("%")) <= 60:
                yield f"`{one.id}` read a confidence of {one.state.outputs.get('value')} after strong evidence"

    return Piece(tasks, x("probe"), [claim], keys, last=x("tell"))


@feature("breaker", "a breaker opens by failures of another task's kind, or never closes")
def breaker(x: Ids) -> Piece:
    keys = {"breakers": [{"uses": "http.head", "failures": 2, "cooldown": "5m"}]}
    tasks: list[dict[str, Json]] = []
    for name in ("one", "two", "three"):
        task = {"id": x(name), "uses": "http.head", "with": {"url": "http://example.org/"}, "allow_failure": True}
        tasks.append({**task, **({"needs": [x({"two": "one", "three": "two"}[name])]} if name != "one" else {})})

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("three"))
        for one in ran.done(x("three")):
            level = one.id.rpartition("/")[0]
            for other in ran.of(x("two"), level):
                same = other.id.rpartition("/")[0] == level and one.state.visit == 1 and len(ran.of(x("three"))) == 1
                same = same and len(ran.document.get("breakers", ())) == 1  # those of linked plans do not count
                if same and ran.starts(one)[0] - ran.settled(other) < 299:
                    yield f"`{one.id}` began {ran.starts(one)[0] - ran.settled(other)} s after the second failure in a row"

    failing = (Reply(failure="transient"),)
    replies = {x("one"): failing, x("two"): failing}
    return Piece(tasks, x("three"), [claim], keys, replies, open=frozenset({x("one"), x("two")}))


@feature("rollback", "something that was done is not undone, or in the wrong order")
def rollback(x: Ids) -> Piece:
    tasks = [
        {"id": x("a"), "run": "true", "rollback": {"run": "undo a"}},
        {"id": x("b"), "needs": [x("a")], "run": "true", "rollback": {"run": "undo b"}},
        {"id": x("bad"), "needs": [x("b")], "run": "exit 1"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        for name in ("a", "b"):
            for one in ran.of(x(name)):
                undone = [each.event.status for each in ran.events(UndoSettled, x(name)) if each.event.task == one.id]
                if one.state.status == "completed" and not ran.piece.ends:
                    yield f"`{one.id}` stands though the plan is rolled back"
                if one.state.status == "rolled_back" and undone[-1:] != ["undone"]:
                    yield f"`{one.id}` is rolled back and its action ended {undone}"
        failed = not ran.piece.ends and any(one.state.status == "failed" for one in ran.of(x("bad")))
        if failed and not any(isinstance(entry.event, RollbackEnded) for entry in ran.entries):
            yield "nothing was rolled back though a task failed"

    replies = {x("bad"): (Reply(failure="logic"),)}
    return Piece(tasks, x("b"), [claim], {"on_failure": "rollback"}, replies, last=x("bad"), fails=True)


@feature("on-failure-continue", "a failure stops what does not need it")
def on_failure_continue(x: Ids) -> Piece:
    tasks = [
        {"id": x("bad"), "run": "exit 1"},
        {"id": x("slow"), "run": "true"},
        {"id": x("next"), "needs": [x("slow")], "run": "true"},
        {"id": x("cut"), "needs": [x("bad")], "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        for one in ran.of(x("bad")):
            level = one.id.rpartition("/")[0]
            for other in ran.of(x("next"), level):
                same = other.id.rpartition("/")[0] == level and one.state.status == "failed"
                if same and not level and other.state.status != "completed" and not ran.piece.ends:
                    yield f"`{other.id}` is {other.state.status} though the plan goes on after failures"
            for other in ran.of(x("cut"), level):
                if other.id.rpartition("/")[0] == level and ran.starts(other):
                    yield f"`{other.id}` began though what it needs failed"

    replies = {x("bad"): (Reply(failure="logic"),), x("slow"): (Reply(takes=9.0),)}
    return Piece(tasks, x("slow"), [claim], {"on_failure": "continue"}, replies, last=x("next"), fails=True)


@feature("on-failure-stop", "something begins after a failure that stops")
def on_failure_stop(x: Ids) -> Piece:
    tasks = [
        {"id": x("bad"), "run": "exit 1"},
        {"id": x("slow"), "run": "true"},
        {"id": x("next"), "needs": [x("slow")], "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        for one in ran.of(x("bad")):
            level = one.id.rpartition("/")[0]
            for other in ran.of(x("next"), level):
                same = other.id.rpartition("/")[0] == level and one.state.status == "failed"
                number = ran.state.index[other.id]  # what follows a handler goes on
                if (
                    same
                    and number not in ran.state.shape.tolerant
                    and any(start > ran.settled(one) for start in ran.starts(other))
                ):
                    yield f"`{other.id}` began after `{one.id}` failed"

    replies = {x("bad"): (Reply(failure="logic"),), x("slow"): (Reply(takes=9.0),)}
    return Piece(tasks, x("slow"), [claim], {"on_failure": "stop"}, replies, last=x("next"), fails=True)


@feature("plan-cost", "the plan spends more than it may, or stops before it is spent")
def plan_cost(x: Ids) -> Piece:
    keys = {"budgets": {"cost": "$1000", "warn": "80%"}}
    tasks = [
        {"id": x("spend"), "run": "true", "budgets": {"cost": "$2"}},
        {"id": x("more"), "needs": [x("spend")], "run": "true", "budgets": {"cost": "$1"}},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("more"))
        told = sum(each.outcome.usage.get("cost", 0) for each in ran.ended(x("spend")))
        booked = ran.spent(x("spend"), "cost")
        if booked is not None and abs(told - booked) > 1e-9:
            yield f"`{x('spend')}` told of {told} and {booked} is booked"

    return Piece(tasks, x("spend"), [claim], keys, {x("spend"): (Reply(usage={"cost": 1.5}),)}, last=x("more"))


@feature("plan-tokens-gate", "the plan goes on beyond its tokens unasked, or nobody is asked")
def plan_tokens(x: Ids) -> Piece:
    keys = {"budgets": {"tokens": "100", "on_exhausted": "gate"}}
    tasks = [
        {"id": x("read"), "run": "true", "budgets": {"tokens": "80"}},
        {"id": x("write"), "needs": [x("read")], "run": "true", "budgets": {"tokens": "60"}},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("write"))
        if ran.done(x("write")) and not any(type(entry.event).__name__ == "BudgetExtended" for entry in ran.entries):
            yield "140 tokens were used of 100, and nobody has extended the budget"

    replies = {x("read"): (Reply(usage={"tokens": 80}),), x("write"): (Reply(usage={"tokens": 60}),)}
    return Piece(tasks, x("read"), [claim], keys, replies, last=x("write"))


@feature("plan-time", "the time of the plan is not counted")
def plan_time(x: Ids) -> Piece:
    keys = {"budgets": {"time": "9h"}, "deadline": "400d"}
    return Piece([{"id": x("work"), "run": "true"}], x("work"), [goes_well(x("work"))], keys, leaf=True)


@feature("iterations", "rounds of loops are not counted for the task around them")
def iterations(x: Ids) -> Piece:
    inner = {"id": x("turn"), "loop": {"max": 9, "until": "loop.round == 9", "tasks": [{"id": x("in"), "run": "true"}]}}
    task = {"id": x("box"), "subplan": [inner], "budgets": {"iterations": 3}, "allow_failure": True}
    then = {"id": x("then"), "needs": [x("box")], "run": "true"}

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("then"))
        for one in ran.of(x("box")):
            if ran.calm and one.state.status != "failed":
                yield f"`{one.id}` is {one.state.status} with nine rounds, and three may be"

    return Piece([task, then], x("then"), [claim], open=frozenset({x("box"), x("turn"), x("in")}))


@feature("plan-outputs", "an output of the plan is not that of its task")
def plan_outputs(x: Ids) -> Piece:
    keys = {
        "outputs": {x("told").replace("-", "_"): "{{ params.told }}"},
        "params": {"told": "yes"},
        "done": ["1 == 1 or params.told == 'no'"],
    }

    def claim(ran: Any) -> Iterator[str]:
        ends = [entry.event for entry in ran.entries if isinstance(entry.event, RunEnded)]
        well = "outputs" in ran.document and ends and ends[-1].status == "completed"
        if well and ends[-1].outputs.get(x("told").replace("-", "_")) != "yes":
            yield f"the plan gave {ends[-1].outputs}"

    return Piece([{"id": x("work"), "run": "true"}], x("work"), [claim], keys, leaf=True)
