"""Features with real tasks: a shell, git, files, requests over loopback. Each is a piece of a plan that says what must be
true after a run of it, and that leaves nothing when it is rolled back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from planrunner.frozen import EMPTY

Json = Any
Ids = Callable[[str], str]
"""The id that a task of a piece has, by the name it has in the feature."""


class Real(NamedTuple):
    """Tasks of one level. ``main`` is the one that keys are written on, ``end`` the one after which all is done;
    ``status`` is what tasks come to that do not complete, ``keys`` are those of the plan."""

    tasks: Sequence[dict[str, Json]]
    main: str
    end: str = ""
    status: Mapping[str, str] = EMPTY
    keys: Mapping[str, Json] = EMPTY
    leaf: bool = False
    """``main`` is one script that goes well."""

    @property
    def last(self) -> str:
        return self.end or self.main


MADE: dict[str, Callable[[Ids], Real]] = {}
HELD: dict[str, Callable[[Ids, Real], Real]] = {}
DRESSED: dict[str, Callable[[Ids, Real], Real]] = {}


def made(make: Callable[[Ids], Real]) -> Callable[[Ids], Real]:
    """Register a piece that stands by itself."""
    MADE[make.__name__] = make
    return make


def held(hold: Callable[[Ids, Real], Real]) -> Callable[[Ids, Real], Real]:
    """Register a task that holds those of another piece."""
    HELD[hold.__name__] = hold
    return hold


def dressed(dress: Callable[[Ids, Real], Real]) -> Callable[[Ids, Real], Real]:
    """Register keys of the main task of another piece."""
    DRESSED[dress.__name__] = dress
    return dress


def _read(name: str, run: str = "true", **keys: Json) -> dict[str, Json]:
    return {"id": name, "run": run, "effect": "read", **keys}


# Pieces


@made
def shell(x: Ids) -> Real:
    file = x("made")
    undo = {"rollback": {"run": f"rm -f {file}-*"}}
    return Real([{"id": x("make"), "run": f"echo made > {file}-$PLANRUNNER_RUN_ID", **undo}], x("make"), leaf=True)


@made
def files(x: Ids) -> Real:
    write = {
        "id": x("write"),
        "uses": "files.write",
        "with": {"path": f"{x('out')}/a.txt", "content": "hello\n", "parents": True},
    }
    return Real([write, _read(x("look"), f"grep hello {x('out')}/a.txt", needs=[x("write")])], x("look"), leaf=True)


@made
def git(x: Ids) -> Real:
    folder = x("repo")
    script = f"mkdir -p {folder} && cd {folder} && git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one"
    tasks = [
        {"id": x("init"), "run": script, "rollback": {"run": f"rm -rf {folder}"}},
        _read(x("log"), f"cd {folder} && git log --format=%s | grep one", needs=[x("init")]),
    ]
    return Real(tasks, x("log"), leaf=True)


@made
def request(x: Ids) -> Real:
    get = {"id": x("get"), "uses": "http.get", "with": {"url": "{{ params.address }}/thing"}}
    return Real([get], x("get"), keys={"params": {"address": {"type": "string"}}})


@made
def outputs(x: Ids) -> Real:
    tasks = [
        _read(x("tell"), 'echo "n=7" >> "$PLANRUNNER_OUTPUT"', outputs={"n": "int"}),
        _read(x("hear"), f"test {{{{ tasks.{x('tell')}.outputs.n }}}} = 7", needs=[x("tell")]),
    ]
    return Real(tasks, x("hear"), leaf=True)


@made
def artifact(x: Ids) -> Real:
    keep = {
        "artifacts": [{"name": x("kept"), "path": f"{x('kept')}.txt"}],
        "rollback": {"run": f"rm -f {x('kept')}.txt"},
    }
    return Real([{"id": x("keep"), "run": f"echo kept > {x('kept')}.txt", **keep}], x("keep"))


@made
def approval(x: Ids) -> Real:
    tasks = [_read(x("before")), {"id": x("gate"), "needs": [x("before")], "ask": "Is it good?"}]
    return Real([*tasks, _read(x("after"), needs=[x("gate")])], x("gate"), x("after"))


@made
def decision(x: Ids) -> Real:
    options = [{"id": "one", "title": "One", "to": x("first")}, {"id": "two", "title": "Two", "to": x("second")}]
    tasks = [
        {"id": x("way"), "gate": "decision", "ask": "Which?", "options": options},
        _read(x("first"), needs=[x("way")]),
        _read(x("second"), needs=[x("way")]),
        _read(x("joined"), needs=[x("first"), x("second")], join="any"),
    ]
    return Real(tasks, x("way"), x("joined"), {x("second"): "omitted"})


@made
def form(x: Ids) -> Real:
    ask = {"id": x("ask"), "gate": "decision", "ask": "How many?", "form": {"count": {"type": "int", "default": 2}}}
    return Real(
        [ask, _read(x("use"), f"test {{{{ tasks.{x('ask')}.outputs.count }}}} = 2", needs=[x("ask")])],
        x("ask"),
        x("use"),
    )


@made
def instruction(x: Ids) -> Real:
    return Real([{"id": x("do"), "command": "Put the kettle on."}], x("do"))


@made
def allowed(x: Ids) -> Real:
    tasks = [_read(x("bad"), "exit 3", allow_failure=True), _read(x("on"), needs=[x("bad")])]
    return Real(tasks, x("on"), status={x("bad"): "failed"})


@made
def handled(x: Ids) -> Real:
    tasks = [
        _read(x("bad"), "exit 3", on_failure={"to": x("mend"), "recovers": True}),
        _read(x("mend")),
        _read(x("on"), needs=[x("bad")]),
    ]
    return Real(tasks, x("on"), status={x("bad"): "failed"})


@made
def skipped(x: Ids) -> Real:
    tasks = [_read(x("not"), when="1 > 2"), _read(x("on"), needs=[x("not")], join="none_failed")]
    return Real(tasks, x("on"), status={x("not"): "skipped"})


@made
def family(x: Ids) -> Real:
    tasks = [
        {"id": x("find"), "uses": "noop", "with": {"value": ["a", "b"]}},
        _read(
            f"{x('dig')}-*",
            "echo {{ gap }}",
            needs=[x("find")],
            foreach=f"tasks.{x('find')}.outputs.value",
            **{"as": "gap"},
        ),
        _read(x("tell"), needs=[f"{x('dig')}-*"]),
    ]
    return Real(tasks, x("tell"))


@made
def believed(x: Ids) -> Real:
    evidence = [{"hypothesis": x("h"), "supports": "exit_code == 0", "weight": 9}]
    return Real(
        [_read(x("try"), evidence=evidence)],
        x("try"),
        keys={"hypotheses": {x("h"): {"statement": "It is so", "prior": "50%"}}},
    )


# Holders


@held
def subplan(x: Ids, one: Real) -> Real:
    return one._replace(tasks=[{"id": x("sub"), "subplan": list(one.tasks)}], main=x("sub"), end="", leaf=False)


@held
def fan_out(x: Ids, one: Real) -> Real:
    task = {
        "id": x("fan"),
        "foreach": [1, 2],
        "as": x("it").replace("-", "_"),
        "max_parallel": 1,
        "subplan": list(one.tasks),
    }
    return one._replace(tasks=[task], main=x("fan"), end="", leaf=False)


@held
def loop(x: Ids, one: Real) -> Real:
    task = {"id": x("loop"), "loop": {"max": 2, "until": "loop.round == 2", "tasks": list(one.tasks)}}
    return one._replace(tasks=[task], main=x("loop"), end="", leaf=False)


@held
def linked(x: Ids, one: Real) -> Real:
    keys = {name: value for name, value in one.keys.items() if name == "params"}
    params = {name: f"{{{{ params.{name} }}}}" for name in keys.get("params", {})}
    inner = {**keys, "defaults": {"timeout": "1m"}, "tasks": list(one.tasks)}
    plan = {**one.keys, "subplans": {x("plan"): inner}}
    task: dict[str, Json] = {"id": x("linked"), "subplan": x("plan"), **({"params": params} if params else {})}
    return one._replace(tasks=[task], main=x("linked"), end="", keys=plan, leaf=False)


# Keys


def _with(one: Real, keys: Mapping[str, Json], plan: Mapping[str, Json] = EMPTY) -> Real:
    tasks = [{**task, **keys} if task["id"] == one.main else task for task in one.tasks]
    return one._replace(tasks=tasks, keys=merged(one.keys, plan))


@dressed
def retry(x: Ids, one: Real) -> Real:
    keys: dict[str, Json] = {"retry": {"attempts": 2, "delay": "0s"}}
    if one.leaf:
        main = next(task for task in one.tasks if task["id"] == one.main)
        keys["run"] = f'test "$PLANRUNNER_ATTEMPT" -ge 2 || exit 75; {main["run"]}'
    return _with(one, keys)


@dressed
def priced(x: Ids, one: Real) -> Real:
    main = next(task for task in one.tasks if task["id"] == one.main)
    keys: dict[str, Json] = {"budgets": {"cost": "$1"}}
    if one.leaf:
        keys["run"] = f'echo "cost=0.1" >> "$PLANRUNNER_USAGE"; {main["run"]}'
    return _with(one, keys, {"budgets": {"cost": "$9", "attempts": 90}})


@dressed
def limited(x: Ids, one: Real) -> Real:
    return _with(one, {"labels": [x("db")]}, {"limits": {x("db"): 1}})


@dressed
def saved(x: Ids, one: Real) -> Real:
    return _with(one, {"backup": ["kept/**"]}) if one.leaf else one


@dressed
def kept(x: Ids, one: Real) -> Real:
    return _with(one, {"checkpoint": True}) if one.leaf else one


@dressed
def later(x: Ids, one: Real) -> Real:
    return _with(one, {"delay": "50ms", "priority": "high"})


@dressed
def watched(x: Ids, one: Real) -> Real:
    return _with(one, {"watchdog": [{"after": "20s", "do": "warn"}]}) if one.leaf else one


@dressed
def expected(x: Ids, one: Real) -> Real:
    return _with(one, {"expect": ["exit_code == 0"]}) if one.leaf else one


def merged(one: Mapping[str, Json], other: Mapping[str, Json]) -> dict[str, Json]:
    """The keys of a plan that two pieces want."""
    both = dict(one)
    for name, value in other.items():
        have = both.get(name)
        both[name] = merged(have, value) if isinstance(have, dict) and isinstance(value, dict) else value
    return both


def beside(one: Real, other: Real, after: bool) -> Real:
    """Two pieces on one level, the other one after the first where that is said."""
    led_to = {task["on_failure"]["to"] for task in other.tasks if "on_failure" in task}
    tasks = []
    for task in other.tasks:
        first = "needs" not in task and task["id"] not in led_to
        tasks.append({**task, "needs": [*task.get("needs", ()), one.last]} if after and first else task)
    status = {**one.status, **other.status}
    return Real([*one.tasks, *tasks], other.main, other.last, status, merged(one.keys, other.keys))
