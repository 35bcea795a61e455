"""Features of several tasks: kinds of tasks, joins, edges, families, endings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from features.pieces import Ids, Piece, feature
from planrunner.app.proof.world import Reply

Json = Any


def goes_well(*names: str) -> Callable[[Any], Iterator[str]]:
    """The claim that each of these tasks completes."""

    def claim(ran: Any) -> Iterator[str]:
        for name in names:
            yield from ran.lost(name)

    return claim


@feature("shell", "a script is not run, or once too often")
def shell(x: Ids) -> Piece:
    return Piece([{"id": x("run"), "run": "echo {{ 1 + 1 }}"}], x("run"), [_once(x("run"))], leaf=True)


@feature("arguments", "a list of arguments is not run")
def arguments(x: Ids) -> Piece:
    return Piece([{"id": x("args"), "run": ["echo", "{{ 1 + 1 }}"]}], x("args"), [_once(x("args"))], leaf=True)


def _once(name: str) -> Callable[[Any], Iterator[str]]:
    def claim(ran: Any) -> Iterator[str]:
        for one in ran.of(name):
            if ran.calm and one.state.status == "completed" and not ran.starts(one):
                yield f"`{one.id}` completed without an attempt"

    return claim


@feature("noop", "a value loses its type, or is that of another copy")
def noop(x: Ids) -> Piece:
    value = {"id": x("value"), "uses": "noop", "with": {"value": [1, {"two": 2.5}, None]}}
    read = {
        "id": x("read"),
        "needs": [x("value")],
        "uses": "noop",
        "with": {"value": f"{{{{ tasks.{x('value')}.outputs.value[1].two }}}}"},
    }

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("read"))
        for one in ran.done(x("read")):
            if one.state.outputs.get("value") != 2.5:
                yield f"`{one.id}` read {one.state.outputs}"

    return Piece([value, read], x("value"), [claim], last=x("read"))


@feature("python", "code is not called, or its values do not come back")
def python(x: Ids) -> Piece:
    tasks = [
        {
            "id": x("py"),
            "uses": "python.run",
            "with": {"code": "result = {'value': args['a'] * 2}", "args": {"a": 4}},
            "outputs": {"value": "int"},
        },
        {
            "id": x("use"),
            "needs": [x("py")],
            "uses": "noop",
            "with": {"value": f"{{{{ tasks.{x('py')}.outputs.value }}}}"},
        },
    ]
    claim = goes_well(x("py"), x("use"))
    return Piece(tasks, x("py"), [claim], replies={x("py"): (Reply(outputs={"value": 8}),)}, last=x("use"))


@feature("files", "a file is not written before it is read")
def files(x: Ids) -> Piece:
    tasks = [
        {"id": x("write"), "uses": "files.write", "with": {"path": f"out/{x('f')}", "content": "text"}},
        {"id": x("cat"), "needs": [x("write")], "uses": "files.read", "with": {"path": f"out/{x('f')}"}},
    ]
    return Piece(tasks, x("write"), [goes_well(x("write"), x("cat"))], last=x("cat"))


@feature("http", "a request that is tried again for a moment's failure is given up")
def http(x: Ids) -> Piece:
    task = {
        "id": x("get"),
        "uses": "http.get",
        "with": {"url": "http://example.org/{{ 1 + 1 }}"},
        "retry": {"attempts": 2, "delay": "1s"},
    }
    claim = goes_well(x("get"))
    return Piece([task], x("get"), [claim], replies={x("get"): (Reply(failure="transient"), Reply())})


@feature("sleep", "a wait ends too early")
def sleep(x: Ids) -> Piece:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("wait"))
        for one in ran.done(x("wait")):
            if ran.settled(one) - ran.starts(one)[-1] < 10:
                yield f"`{one.id}` slept {ran.settled(one) - ran.starts(one)[-1]} s of 10"

    task = {"id": x("wait"), "uses": "sleep", "with": {"duration": "10s"}}
    return Piece([task], x("wait"), [claim], replies={x("wait"): (Reply(takes=10.0),)})


@feature("commands", "a call of a sequence is left out, or its result has another name")
def commands(x: Ids) -> Piece:
    tasks = [
        {"id": x("calls"), "command": 'noop(value="a") -> first; noop(value=first.value) -> second'},
        {
            "id": x("use"),
            "needs": [x("calls")],
            "uses": "noop",
            "with": {"value": f"{{{{ tasks.{x('calls')}.outputs.second }}}}"},
        },
    ]
    return Piece(tasks, x("calls"), [goes_well(x("calls"), x("use"))], last=x("use"))


@feature("words", "an instruction in plain words is passed over, or nobody is asked to do it")
def words(x: Ids) -> Piece:
    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("do"))
        for one in ran.done(x("do")):
            if not ran.events_of("GateOpened", one.id):
                yield f"`{one.id}` completed and nobody was asked"

    return Piece([{"id": x("do"), "command": "Compare the three sources with care."}], x("do"), [claim])


@feature("fail", "a failure is lost, or fails more than its own way")
def fail(x: Ids) -> Piece:
    tasks = [
        {"id": x("bad"), "uses": "fail", "with": {"message": "on purpose"}, "allow_failure": True},
        {"id": x("then"), "needs": [x("bad")], "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("bad"), status="failed")
        yield from ran.lost(x("then"))

    replies = {x("bad"): (Reply(failure="logic", message="on purpose"),)}
    return Piece(tasks, x("then"), [claim], replies=replies, open=frozenset({x("bad")}))


def _three(x: Ids) -> list[dict[str, Json]]:
    """Tasks of which the first fails and may."""
    return [
        {"id": x("bad"), "run": "exit 1", "allow_failure": True},
        {"id": x("well"), "run": "true"},
        {"id": x("also"), "run": "true"},
    ]


def _joined(name: str, join: Json, fault: str, expected: str, bad: str = "skip") -> None:
    """A join over a need that was not run and two that were."""

    @feature(f"join-{name}", fault)
    def make(x: Ids) -> Piece:
        first: dict[str, Json] = {"id": x("not"), "run": "true", "when": "params.no"}
        others = [{"id": x("well"), "run": "true"}, {"id": x("also"), "run": "true"}]
        needs = [x("not"), x("well"), x("also")]
        meet: dict[str, Json] = {"id": x("meet"), "needs": needs, "join": join, "run": "true"}
        if name == "expression":
            meet = {
                "id": x("meet"),
                "needs": f"{x('well')}.ok and ({x('also')}.ok or {x('not')}.skipped)",
                "run": "true",
            }
        tasks = [first, *others, meet]

        def claim(ran: Any) -> Iterator[str]:
            yield from ran.lost(x("meet"), status=expected)
            for one in ran.done(x("meet")):
                level = one.id.rpartition("/")[0]
                before = [
                    ran.settled(each)
                    for need in (x("well"), *([x("also")] if name != "expression" else []))
                    for each in ran.done(need, level)
                ]
                if (
                    name in ("all-done", "expression", "none-failed")
                    and ran.starts(one)[0] < max(before, default=0.0)
                    and one.state.visit == 1
                ):
                    yield f"`{one.id}` began before what it needs was done"

        open_ = {x("not")} | ({x("meet")} if expected != "completed" else set())
        return Piece(
            tasks,
            x("well"),
            [claim],
            {"params": {"no": False}},
            last=x("meet") if expected == "completed" else x("also"),
            open=frozenset(open_),
        )


_joined("all", "all", "a task begins though a need was skipped", "omitted")
_joined("any", "any", "one need that is done does not do", "completed")
_joined("at-least", {"at_least": 2}, "fewer needs do, or two do not", "completed")
_joined("all-done", "all_done", "a need that was skipped holds its task up", "completed")
_joined("none-failed", "none_failed", "a need that was skipped counts as failed", "completed")
_joined("expression", "", "needs in words are read as all of them", "completed")


@feature("join-one-failed", "what waits for a failure does not begin, or the run fails though it stands in")
def join_one_failed(x: Ids) -> Piece:
    tasks = [
        {"id": x("bad"), "run": "exit 1", "on_failure": {"to": x("mend"), "recovers": True}},
        {"id": x("well"), "run": "true"},
        {"id": x("mend"), "run": "true"},
        {"id": x("one"), "needs": [x("bad"), x("well")], "join": "one_failed", "run": "true"},
        {"id": x("both"), "needs": [x("bad"), x("well")], "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("mend"))
        yield from ran.lost(x("both"))
        yield from ran.lost(x("one"), status="omitted")

    replies = {x("bad"): (Reply(failure="logic"),)}
    return Piece(tasks, x("well"), [claim], replies=replies, last=x("both"), open=frozenset({x("bad"), x("one")}))


@feature("on-success", "an edge does not lead on, or leads on after a failure")
def on_success(x: Ids) -> Piece:
    tasks = [
        {"id": x("first"), "run": "true", "on_success": [x("then")], "on_failure": x("else")},
        {"id": x("then"), "run": "true"},
        {"id": x("else"), "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("then"))
        yield from ran.lost(x("else"), status="omitted")

    return Piece(tasks, x("first"), [claim], last=x("then"), open=frozenset({x("else")}))


@feature("recovers", "what stands in for a task does not run, or its outputs are not those of the task")
def recovers(x: Ids) -> Piece:
    given = {"from": "string"}
    tasks = [
        {"id": x("fetch"), "run": "exit 1", "outputs": given, "on_failure": {"to": x("mirror"), "recovers": True}},
        {"id": x("mirror"), "run": "true", "outputs": given},
        {
            "id": x("use"),
            "needs": [x("fetch")],
            "uses": "noop",
            "with": {"value": f"{{{{ tasks.{x('fetch')}.outputs.from }}}}"},
        },
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("use"))
        for one in ran.done(x("use")):
            if one.state.outputs.get("value") != "mirror":
                yield f"`{one.id}` read {one.state.outputs} and not what the mirror gave"

    replies = {x("fetch"): (Reply(failure="logic"),), x("mirror"): (Reply(outputs={"from": "mirror"}),)}
    return Piece(tasks, x("mirror"), [claim], replies=replies, last=x("use"), open=frozenset({x("fetch")}))


@feature("next-else", "both ways are taken, or neither")
def next_else(x: Ids) -> Piece:
    ways = [
        {"on": "success", "to": x("large"), "when": f"tasks.{x('size')}.outputs.n > 100"},
        {"on": "success", "to": x("small"), "else": True},
    ]
    tasks = [
        {"id": x("size"), "run": "true", "outputs": {"n": "int"}, "next": ways},
        {"id": x("small"), "run": "true"},
        {"id": x("large"), "run": "true"},
        {"id": x("joined"), "needs": [x("small"), x("large")], "join": "any", "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("small"))
        yield from ran.lost(x("large"), status="omitted")
        yield from ran.lost(x("joined"))

    replies = {x("size"): (Reply(outputs={"n": 42}),)}
    return Piece(tasks, x("small"), [claim], replies=replies, last=x("joined"), open=frozenset({x("large")}))


@feature("rework", "the run does not go back, what it gave before is read again, or attempts of an earlier visit count")
def rework(x: Ids) -> Piece:
    again = {"attempts": 2, "delay": "1s"}
    draft = {
        "id": x("draft"),
        "run": "echo {{ rework.round }}",
        "retry": again,
        "outputs": {"version": "{{ rework.round + 1 }}"},
    }
    tasks = [
        draft,
        {"id": x("review"), "needs": [x("draft")], "run": "true", "on_failure": {"rework": x("draft"), "max": 4}},
        {
            "id": x("print"),
            "needs": [x("review")],
            "uses": "noop",
            "with": {"value": f"{{{{ tasks.{x('draft')}.outputs.version }}}}"},
        },
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("print"))
        for one in ran.done(x("print")):
            if one.state.outputs.get("value") != 3:
                yield f"`{one.id}` prints version {one.state.outputs.get('value')} and not 3"

    twice = (Reply(failure="logic"), Reply()) * 3
    replies = {x("draft"): twice, x("review"): (Reply(failure="logic"), Reply(failure="logic"), Reply())}
    return Piece(tasks, x("draft"), [claim], replies=replies, last=x("print"))


@feature("too-many-fail", "more copies fail than may, and the fan-out completes")
def too_many_fail(x: Ids) -> Piece:
    each = {"foreach": [1, 2, 3], "tolerate": 1, "run": "exit {{ item }}"}
    tasks = [
        {"id": x("many"), **each, "on_failure": {"to": x("mend"), "recovers": True}},
        {"id": x("mend"), "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("many"), status="failed")
        yield from ran.lost(x("mend"))

    replies = {f"*{x('many')}*": (Reply(failure="logic"),), f"*{x('many')}[0]": (Reply(),)}
    return Piece(tasks, x("mend"), [claim], replies=replies, open=frozenset({x("many")}))


@feature("family", "what needs a family does not wait for all of it, or one of another copy counts")
def family(x: Ids) -> Piece:
    tasks = [
        {"id": x("list"), "uses": "noop", "with": {"value": ["p", "q", "r"]}},
        {
            "id": x("dive-*"),
            "needs": [x("list")],
            "foreach": f"tasks.{x('list')}.outputs.value",
            "run": "echo {{ item }}",
        },
        {"id": x("report"), "needs": [x("dive-*")], "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("report"))
        for one in ran.done(x("report")):
            level = one.id.rpartition("/")[0]
            within = f"{level}/" if level else ""
            ends = [
                ran.settled(each)
                for number in (1, 2, 3)
                for each in ran.done(x(f"dive-{number}"), within)
                if each.id.rpartition("/")[0] == level
            ]
            if len(ends) != 3:
                yield f"`{one.id}` ran after {len(ends)} of 3 members"
            elif one.state.visit == 1 and ran.starts(one)[0] < max(ends):
                yield f"`{one.id}` began before its family was done"

    return Piece(tasks, x("list"), [claim], last=x("report"))


@feature("ends-plan", "the plan goes on after its end, or fails by it")
def ends_plan(x: Ids) -> Piece:
    tasks = [
        {"id": x("stop"), "run": "true", "ends_plan": True},
        {"id": x("more"), "needs": [x("stop")], "run": "true"},
    ]

    def claim(ran: Any) -> Iterator[str]:
        for one in ran.done(x("stop")):
            level = one.id.rpartition("/")[0]
            for other in ran.of(x("more"), level):
                if other.id.rpartition("/")[0] == level and ran.starts(other):
                    yield f"`{other.id}` began after the end of its plan"

    return Piece(tasks, x("stop"), [claim], ends=True, open=frozenset({x("more")}))


@feature("exit-role", "a task that is declared the exit is not the last")
def exit_role(x: Ids) -> Piece:
    tasks = [{"id": x("work"), "run": "true"}, {"id": x("out"), "role": "EXIT", "needs": [x("work")], "run": "true"}]
    return Piece(tasks, x("work"), [goes_well(x("out"))], last=x("work"))


@feature("agent", "an agent ends before what it is to come to, or a call of its tools is left out")
def agent(x: Ids) -> Piece:
    task = {
        "id": x("agent"),
        "agent": {"model": "scripted", "tools": ["noop"]},
        "prompt": "Find out.",
        "schema": {"ok": "bool"},
        "until": "outputs.ok",
        "rounds": 5,
        "budgets": {"cost": "$1", "tokens": "50", "calls": 20},
    }
    use = {
        "id": x("use"),
        "needs": [x("agent")],
        "uses": "noop",
        "with": {"value": f"{{{{ tasks.{x('agent')}.outputs.ok }}}}"},
    }

    def claim(ran: Any) -> Iterator[str]:
        yield from ran.lost(x("use"))
        for one in ran.done(x("agent")):
            if one.state.outputs.get("ok") is not True:
                yield f"`{one.id}` ended with {one.state.outputs}"
            if one.state.outputs.get("rounds") != 2:
                yield f"`{one.id}` took {one.state.outputs.get('rounds')} rounds, and the answer of the second is good"

    def says(ok: bool) -> Reply:
        answer = {
            "text": "{}",
            "done": True,
            "answer": {"ok": ok},
            "calls": [],
            "transcript": "sha256:0",
            "context": [],
            "refused": [],
        }
        return Reply(outputs=answer, usage={"cost": 0.01, "tokens": 10, "calls": 1})

    replies = {f"*{x('agent')}/model": (says(True),)}
    for mark in ("", "@2", "@3"):
        replies[f"*{x('agent')}{mark}#1/model"] = (says(False),)
        replies[f"*{x('agent')}[*]{mark}#1/model"] = (says(False),)
    return Piece([task, use], x("agent"), [claim], replies=replies, last=x("use"))
