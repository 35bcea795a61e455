"""Features that wait for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from features.pieces import Ids, Piece, feature
from planrunner.app.proof.world import Reply
from planrunner.machine.events import GateDecided, GateOpened

Json = Any


def _gate(x: Ids, keys: dict[str, Json], answer: Json, decision: str, outputs: dict[str, Json], **more: Json) -> Piece:
    """A gate, what it asks about before it, and a task that it lets through. ``outputs`` is what it has to give."""
    tasks = [
        {"id": x("make"), "run": "true"},
        {"id": x("gate"), "needs": [x("make")], **keys},
        {"id": x("go"), "needs": [x("gate")], "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        passes = decision in ("approved", "passed")
        if passes:
            yield from ran.lost(x("go"))
        for one in ran.of(x("gate")):
            decided = [entry.event.decision for entry in ran.events_of("GateDecided", one.id)]
            if ran.calm and decided[-1:] != [decision]:
                yield f"`{one.id}` was decided {decided} and should be {decision}"
            if ran.calm and passes:
                wrong = {
                    name: one.state.outputs.get(name)
                    for name in outputs
                    if one.state.outputs.get(name) != outputs[name]
                }
                if wrong:
                    yield f"`{one.id}` gave {wrong} and should give {outputs}"
            opened = ran.events_of("GateOpened", one.id)
            if len({entry.event.visit for entry in opened}) != len(opened):
                yield f"`{one.id}` was asked twice in one visit"
        for one in ran.done(x("go")):
            level = one.id.rpartition("/")[0]
            if not any(each.id.rpartition("/")[0] == level for each in ran.done(x("gate"))):
                yield f"`{one.id}` ran though its gate was not passed"

    gates = {} if answer is None else {x("gate"): answer}
    return Piece(tasks, x("gate"), [claim], gates=gates, last=x("go"), **more)


@feature("approval", "a gate lets through without a vote, or is asked twice")
def approval(x: Ids) -> Piece:
    keys = {"gate": "approval", "ask": "Is it good?", "approvers": {"roles": ["release"], "count": 2}}
    return _gate(x, keys, "approve", "approved", {"decision": "approved"})


@feature("decision", "another way is taken than people chose, or a field of the form is lost")
def decision(x: Ids) -> Piece:
    options = [{"id": "one", "to": x("first")}, {"id": "two", "to": x("second")}]
    tasks = [
        {
            "id": x("way"),
            "gate": "decision",
            "ask": "Which?",
            "options": options,
            "form": {"size": {"type": "int", "default": 3}},
        },
        {"id": x("first"), "needs": [x("way")], "run": "true"},
        {
            "id": x("second"),
            "needs": [x("way")],
            "uses": "noop",
            "with": {"value": f"{{{{ tasks.{x('way')}.outputs.size }}}}"},
        },
        {"id": x("joined"), "needs": [x("first"), x("second")], "join": "any", "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("second"))
        yield from ran.lost(x("first"), status="omitted")
        yield from ran.lost(x("joined"))
        for one in ran.done(x("second")):
            if one.state.outputs.get("value") != 7:
                yield f"`{one.id}` read {one.state.outputs} and 7 was said"

    gates = {x("way"): {"decision": "approve", "option": "two", "values": {"size": 7}}}
    return Piece(tasks, x("way"), [claim], gates=gates, last=x("joined"), open=frozenset({x("first")}))


@feature("choose", "people are asked though an option is named, or another one is taken")
def choose(x: Ids) -> Piece:
    options = [{"id": "one", "to": x("first")}, {"id": "two", "to": x("second")}]
    tasks = [
        {"id": x("pick"), "run": "true", "outputs": {"best": "string"}},
        {
            "id": x("way"),
            "needs": [x("pick")],
            "gate": "decision",
            "ask": "Which?",
            "options": options,
            "choose": f"tasks.{x('pick')}.outputs.best",
        },
        {"id": x("first"), "needs": [x("way")], "run": "true"},
        {"id": x("second"), "needs": [x("way")], "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("first"))
        yield from ran.lost(x("second"), status="omitted")
        if ran.events(GateOpened, x("way")):
            yield "people were asked though an option was named"

    replies = {x("pick"): (Reply(outputs={"best": "one"}),)}
    return Piece(tasks, x("way"), [claim], replies=replies, last=x("first"), open=frozenset({x("second")}))


@feature("question", "an answer that is a form does not come out as outputs")
def question(x: Ids) -> Piece:
    keys = {"gate": "decision", "ask": "What is the name?", "form": {"name": {"type": "string"}}}
    answer = {"decision": "approve", "values": {"name": "Ada"}}
    return _gate(x, keys, answer, "approved", {"name": "Ada"})


@feature("checks", "a gate of checks asks people, or passes what does not hold")
def checks(x: Ids) -> Piece:
    tasks = [
        {"id": x("measure"), "run": "true", "outputs": {"n": "int"}},
        {
            "id": x("check"),
            "needs": [x("measure")],
            "gate": "checks",
            "checks": [f"tasks.{x('measure')}.outputs.n < 100"],
        },
        {"id": x("go"), "needs": [x("check")], "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("go"))
        if ran.events(GateOpened, x("check")):
            yield "people were asked though the checks hold"

    return Piece(tasks, x("check"), [claim], replies={x("measure"): (Reply(outputs={"n": 3}),)}, last=x("go"))


@feature("window", "one approval does not decide all gates of a window, or those of another one")
def window(x: Ids) -> Piece:
    tasks = []
    for name in ("docs", "code"):
        tasks += [
            {"id": x(name), "run": "true"},
            {"id": x(f"see-{name}"), "needs": [x(name)], "gate": "approval", "ask": "Right?", "window": x("win")},
        ]
    tasks.append({"id": x("go"), "needs": [x("see-docs"), x("see-code")], "run": "true"})

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("go"))

    return Piece(tasks, x("see-docs"), [claim], last=x("go"))


@feature("expiry", "a gate that nobody decides in time stays open, or passes")
def expiry(x: Ids) -> Piece:
    tasks = [
        {
            "id": x("gate"),
            "gate": "approval",
            "ask": "Now?",
            "expires": "2d",
            "on_expiry": "reject",
            "on_failure": {"to": x("then"), "recovers": True},
        },
        {"id": x("then"), "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("gate"), status="failed")
        yield from ran.lost(x("then"))
        for entry in ran.events(GateDecided, x("gate")):
            asked = [
                each.at
                for each in ran.events_of("GateOpened", entry.event.task)
                if each.event.visit == entry.event.visit
            ]
            if entry.event.decision == "expired" and entry.at - asked[-1] < 2 * 86400 - 1:
                yield f"`{entry.event.task}` expired after {entry.at - asked[-1]} s of two days"
            if ran.calm and entry.event.decision != "expired":
                yield f"`{entry.event.task}` was {entry.event.decision} and nobody said anything"

    return Piece(tasks, x("then"), [claim], gates={x("gate"): "expire"}, open=frozenset({x("gate")}))


@feature("escalate", "who is asked when the time is over is not asked")
def escalate(x: Ids) -> Piece:
    tasks = [
        {
            "id": x("gate"), "gate": "approval", "ask": "Now?", "expires": "1h", "on_expiry": "escalate",
            "approvers": {"users": ["ana"]}, "escalate": {"users": ["boss"]}, "on_failure": {"to": x("then"), "recovers": True},
        },
        {"id": x("then"), "run": "true"},
    ]  # fmt: skip

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("then"))
        for one in ran.of(x("gate")):
            if ran.calm and not ran.events_of("GateEscalated", one.id):
                yield f"`{one.id}` was not escalated"

    return Piece(tasks, x("then"), [claim], gates={x("gate"): "expire"}, open=frozenset({x("gate")}))


@feature("gate-rework", "a rejection does not send back, or what was said does not arrive")
def gate_rework(x: Ids) -> Piece:
    tasks = [
        {"id": x("draft"), "uses": "noop", "with": {"value": "{{ rework.comment }}"}},
        {
            "id": x("review"),
            "needs": [x("draft")],
            "gate": "approval",
            "ask": "Good?",
            "on_reject": {"rework": x("draft"), "max": 2},
        },
        {
            "id": x("print"),
            "needs": [x("review")],
            "uses": "noop",
            "with": {"value": f"{{{{ tasks.{x('draft')}.outputs.value }}}}"},
        },
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("print"))
        for one in ran.done(x("print")):
            if one.state.outputs.get("value") != "shorter":
                yield f"`{one.id}` printed {one.state.outputs}, and the reviewer said `shorter`"

    gates = {x("review"): [{"decision": "reject", "comment": "shorter"}, "approve"]}
    return Piece(tasks, x("draft"), [claim], gates=gates, last=x("print"))


@feature("reject-to", "a rejection does not lead where it should")
def reject_to(x: Ids) -> Piece:
    tasks = [
        {"id": x("gate"), "gate": "approval", "ask": "Good?", "on_reject": {"to": x("sorry")}, "allow_failure": True},
        {"id": x("sorry"), "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("gate"), status="failed")
        yield from ran.lost(x("sorry"))

    return Piece(tasks, x("sorry"), [claim], gates={x("gate"): "reject"}, open=frozenset({x("gate")}))


@feature("judge", "a criterion in plain words is decided by nobody")
def judge(x: Ids) -> Piece:
    tasks = [
        {"id": x("text"), "run": "true", "expect": ["judge: it is friendly"]},
        {"id": x("send"), "needs": [x("text")], "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("send"))
        for one in ran.done(x("text")):
            if not ran.events_of("GateOpened", one.id):
                yield f"`{one.id}` completed and nobody judged it"

    return Piece(tasks, x("text"), [claim], last=x("send"))


@feature("label-gate", "a label that people decide about goes through without them")
def label_gate(x: Ids) -> Piece:
    tasks = [
        {"id": x("deploy"), "run": "true", "labels": [x("prod")]},
        {"id": x("tell"), "needs": [x("deploy")], "run": "true"},
    ]
    keys = {"policy": {"gates": {x("prod"): {"gate": "approval", "ask": "Deploy?"}}}}

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("tell"))
        for one in ran.done(x("deploy")):
            passed = [entry.at for entry in ran.entries if isinstance(entry.event, GateDecided)]
            if not passed or min(passed) > ran.starts(one)[0]:
                yield f"`{one.id}` began before anybody was asked"

    return Piece(tasks, x("deploy"), [claim], keys, last=x("tell"))


@feature("confirmation", "a task that its policy asks about runs unasked")
def confirmation(x: Ids) -> Piece:
    tasks = [{"id": x("act"), "run": "rm -f thing", "policy": {"capabilities": {"ask": ["shell"]}}}]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("act"))
        for one in ran.done(x("act")):
            if not ran.events_of("GateOpened", one.id):
                yield f"`{one.id}` ran and nobody was asked"

    return Piece(tasks, x("act"), [claim])
