"""Random sound plans in which whatever a place of the schema takes, an expression or a template, is evaluated by a run.

A plan is made of fragments, each for one place of the schema. What stands there is a slot: the same seed gives the same
plan with one slot that has no value, so that both runs differ in nothing else.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Json = Any

DATA: dict[str, Json] = {
    "n": 3,
    "zero": 0,
    "text": "word",
    "flag": True,
    "list": ["a", "b"],
    "rows": [{"n": 1}, {"n": 2}],
}
"""What the sources of a plan give, as a value of any kind: lint cannot tell what it has."""


TIMED: Json = {"timeout": "1h"}


class Slot(NamedTuple):
    """What stands at a place of the schema: ``place`` is ``definition.property``, ``text`` what was written there,
    ``mark`` what every text of this slot holds and no other."""

    place: str
    text: str
    mark: str


CONDITIONS = (
    "{r}.n < {k}",
    "{r}.n != {k} and {r}.flag",
    "not ({r}.n == {k})",
    "len({r}.list) < {k}",
    '{r}.text != "{k}"',
    "default({r}.none, 1) < {k}",
    "{r}.rows[0].n < {k}",
    '{r}.text in ["word", "{k}"]',
)
"""True over DATA."""
UNDECIDABLE = (
    "{r}.absent{k} < {k}",
    "{r}.n / {r}.zero < {k}",
    "{r}.text < {k}",
    "{r}.list[9] == {k}",
    "len({r}.n) < {k}",
    "{r}.n.deep{k} == 1",
    "{r}.flag and {r}.n",
    "not ({r}.absent{k} == 1)",
    "{r}.list == {k} or {r}.absent{k}",
    '{r}.n contains "{k}"',
    "{r}.absent{k} in {r}.list",
    "int({r}.text) < {k}",
)
"""Without a value over DATA, which nothing tells before the run."""
TEXTS = (
    "t{k}-{{{{ {r}.n }}}}",
    "{{{{ {r}.text }}}}-{k}",
    "{{{{ {r}.list | length + {k} }}}}",
    "{{% if {r}.flag %}}t{k}{{% endif %}}",
    "{{{{ {r}.rows[1].n + {k} }}}}",
    "{{{{ {r}.none | default({k}) }}}}",
)
VALUES = ("{{{{ {r}.list | length + {k} }}}}", "{{{{ {r}.rows[1].n + {k} }}}}", "{{{{ {r}.none | default({k}) }}}}")
NUMBERS = ("{{{{ {r}.n + {k} - {k} }}}}", "{{{{ {r}.rows[1].n + {k} - {k} }}}}", "{{{{ {r}.zero - {k} + {k} + 2 }}}}")
WITHOUT_VALUE = (
    "t{k}-{{{{ {r}.absent{k} }}}}",
    "{{{{ {r}.absent{k} }}}}",
    "{{{{ {r}.n / {r}.zero + {k} }}}}",
    "{{{{ {r}.list[9] }}}}-{k}",
    "{{{{ {r}.text + {k} }}}}",
    "{{{{ {r}.n.deep{k} }}}}",
    "{{% if {r}.absent{k} %}}t{{% endif %}}{k}",
    "{{% for each in {r}.n %}}{{{{ each }}}}{{% endfor %}}{k}",
    "{{{{ {r}.text | round + {k} }}}}",
    "{{{{ {r}.absent{k}.deep | upper }}}}",
)
LISTS = ("{r}.list + [{k}]", "default({r}.none, [{k}])")
NO_LISTS = ("{r}.absent{k}", "{r}.list + {k}", "{r}.n + {k}", "{r}.list[9] + [{k}]", "first({r}.none + [{k}])")


class Maker:
    """Makes one plan. ``broken`` is the number of the slot that has no value, -1 for a sound plan."""

    def __init__(self, seed: int, places: list[str], broken: int = -1) -> None:
        self.random = random.Random(seed)
        self.broken, self.seed = broken, seed
        self.slots: list[Slot] = []
        self.level: list[Json] = []
        self.document: dict[str, Json] = {
            "plan": f"sound-{seed}",
            "params": {"data": {"type": "any", "default": DATA}},
            "defaults": TIMED,
            "tasks": self.level,
        }
        self.depth = self.count = 0
        self.in_linked = False
        self.fails = False
        """Whether the run ends as failed though every slot has a value."""
        for place in dict.fromkeys(places):
            self.fragment(FRAGMENTS.get(place) or KINDS[place], place)

    def fragment(self, make: Callable[[Maker], None], place: str) -> None:
        """A fragment, on the level of the plan or inside a task that contains others."""
        around = self.random.choice(_AROUND) if place not in AT_THE_TOP else _plain
        with around(self):
            make(self)

    def id(self, word: str) -> str:
        self.count += 1
        return f"{word}{self.count}x{self.random.randrange(10)}"

    def add(self, **task: Json) -> str:
        name = str(task.setdefault("id", self.id("task")))
        if "subplan" not in task and not task.keys() & _ACTS:
            task["run"] = ["true"]
        self.level.append(task)
        return name

    def source(self) -> str:
        """A task that gives DATA, and how to read it."""
        name = self.id("source")
        if self.random.random() < 0.5:
            self.level.append({"id": name, "uses": "noop", "with": {"value": DATA}})
            return f"tasks.{name}.outputs.value"
        self.level.append({"id": name, "run": ["echo", json.dumps(DATA)], "stdout": "json"})
        return f"tasks.{name}.outputs"

    def root(self) -> str:
        """Where DATA can be read before a task begins."""
        return self.source() if self.in_linked or self.random.random() < 0.6 else "params.data"

    def after(self, root: str) -> dict[str, Json]:
        """The keys of a task that waits for the source of a root."""
        return {"needs": [root.split(".")[1]]} if root.startswith("tasks.") else {}

    def condition(self, place: str, root: str) -> str:
        return self._slot(place, root, CONDITIONS, UNDECIDABLE)

    def text(self, place: str, root: str) -> str:
        return self._slot(place, root, TEXTS, WITHOUT_VALUE)

    def value(self, place: str, root: str) -> str:
        """A text that is one template."""
        return self._slot(place, root, VALUES, WITHOUT_VALUE[1:3])

    def number(self, place: str, root: str) -> str:
        """A text that is one template for a small number."""
        return self._slot(place, root, NUMBERS, WITHOUT_VALUE[1:3])

    def list(self, place: str, root: str) -> str:
        return self._slot(place, root, LISTS, NO_LISTS)

    def _slot(self, place: str, root: str, sound: tuple[str, ...], without: tuple[str, ...]) -> str:
        number = len(self.slots)
        chosen = random.Random(f"{self.seed}/{number}")
        form = chosen.choice(without if number == self.broken else sound)
        mark = str(70001 + number)
        text = form.format(r=root, k=mark)
        self.slots.append(Slot(place, text, mark))
        return text


_ACTS = frozenset(["run", "uses", "gate", "ask", "command", "loop", "kind", "checks", "options", "form"])
_Around = Callable[[Maker], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def _plain(made: Maker) -> Iterator[None]:
    yield


@contextlib.contextmanager
def _inside(made: Maker, **keys: Json) -> Iterator[None]:
    """A task that contains what is made meanwhile: ``keys`` with the list under ``tasks``."""
    outer, made.level = made.level, []
    made.depth += 1
    try:
        yield
    finally:
        inner, made.level = made.level, outer
        made.depth -= 1
        loop = keys.pop("loop", None)
        task = {"loop": {**loop, "tasks": inner}} if loop is not None else {"subplan": inner}
        made.add(id=made.id("around"), **keys, **task)


@contextlib.contextmanager
def _linked(made: Maker) -> Iterator[None]:
    """A subplan of the plan by its name, which sees none of the plan's parameters."""
    outer, made.level = made.level, []
    before, made.in_linked = made.in_linked, True
    try:
        yield
    finally:
        inner, made.level, made.in_linked = made.level, outer, before
        name = made.id("part")
        made.document.setdefault("subplans", {})[name] = {"tasks": inner, "defaults": TIMED}
        made.add(subplan=name)


_AROUND: tuple[_Around, ...] = (
    _plain,
    _plain,
    lambda made: _inside(made),
    lambda made: _inside(made, loop={"max": 1}),
    lambda made: _inside(made, foreach=["one", "two"]),
    lambda made: _inside(made, matrix={"axis": ["one"]}),
    _linked,
)

FRAGMENTS: dict[str, Callable[[Maker], None]] = {}
"""What makes a slot at each place of the schema, by the place."""
AT_THE_TOP: set[str] = set()
"""Places that the plan itself has, or of which a plan has one."""


ALONE = {"action.run", "action.with", "task.rollback"}
"""Places that are evaluated where the run fails, which leaves others out."""


def fragment(*places: str, top: bool = False) -> Callable[[Callable[[Maker], None]], Callable[[Maker], None]]:
    def register(make: Callable[[Maker], None]) -> Callable[[Maker], None]:
        for place in places:
            FRAGMENTS[place] = make
            if top:
                AT_THE_TOP.add(place)
        return make

    return register


@fragment("task.when")
def _when(made: Maker) -> None:
    root = made.root()
    made.add(when=made.condition("task.when", root), **made.after(root))


def _criteria(made: Maker, place: str, key: str) -> None:
    own = key not in ("preconditions", "checks") and made.random.random() < 0.5
    if own:
        gives = {"run": ["echo", json.dumps({"value": DATA})], "stdout": "json"}
        made.add(**gives, **{key: _criterion(made, made.condition(place, "outputs.value"))})
        return
    root = made.root()
    made.add(**{key: _criterion(made, made.condition(place, root))}, **made.after(root))


def _criterion(made: Maker, condition: str) -> Json:
    return made.random.choice(
        [condition, [condition], [{"check": condition}], ["exit_code == 0 or true", condition]][:3]
    )


@fragment("task.expect", "criterion.check")
def _expect(made: Maker) -> None:
    _criteria(made, "task.expect", "expect")


@fragment("task.preconditions")
def _preconditions(made: Maker) -> None:
    _criteria(made, "task.preconditions", "preconditions")


@fragment("task.postconditions")
def _postconditions(made: Maker) -> None:
    _criteria(made, "task.postconditions", "postconditions")


@fragment("task.validation")
def _validation(made: Maker) -> None:
    _criteria(made, "task.validation", "validation")


def _edge(made: Maker, place: str, key: str, many: bool, fails: bool, **more: Json) -> None:
    root = made.root()
    target = made.id("target")
    edge = {**more, "to": target, "when": made.condition(place, root)}
    keys = {"run": ["false"]} if fails else {}
    made.add(**{key: [edge] if many else edge}, **keys, **made.after(root))
    made.add(id=target)


@fragment("success_edge.when")
def _success_edges(made: Maker) -> None:
    _edge(made, "success_edge.when", "on_success", True, False)


@fragment("on_success.when")
def _success_edge(made: Maker) -> None:
    _edge(made, "on_success.when", "on_success", False, False)


@fragment("failure_edge.when")
def _failure_edges(made: Maker) -> None:
    _edge(made, "failure_edge.when", "on_failure", True, True, recovers=True)


@fragment("on_failure.when")
def _failure_edge(made: Maker) -> None:
    _edge(made, "on_failure.when", "on_failure", False, True, recovers=True)


@fragment("next_edge.when")
def _next_edges(made: Maker) -> None:
    on = made.random.choice(["success", "always", None, "logic"])
    more = {} if on is None else {"on": on}
    if on == "logic":
        more["recovers"] = True
    if made.random.random() < 0.3:
        _sent_back(made)
    else:
        _edge(made, "next_edge.when", "next", True, on == "logic", **more)


@fragment("next.when")
def _next_edge(made: Maker) -> None:
    _edge(made, "next.when", "next", False, False, on="success")


def _sent_back(made: Maker) -> None:
    """A task that fails at first, which sends the run back to one before it."""
    root = made.root()
    earlier = made.add(**made.after(root))
    back = {"on": "failure", "rework": earlier, "max": 2, "when": made.condition("next_edge.when", root)}
    made.add(run=["flaky"], needs=[earlier], next=[back])


@fragment("failure_mode.detect")
def _detect(made: Maker) -> None:
    handler = made.id("handler")
    place = "failure_mode.detect"
    if made.random.random() < 0.5:
        root = made.root()
        detect = made.condition(place, root)
        mode = {"name": "known", "detect": detect, "recover": handler}
        made.add(run=["false"], failure_modes=[mode], **made.after(root))
    else:
        gives = {"run": ["echo", json.dumps({"value": DATA})], "stdout": "json"}
        detect = made.condition(place, "outputs.value")
        made.add(**gives, failure_modes=[{"name": "known", "detect": detect, "recover": handler}])
    made.add(id=handler)


@fragment("fresh.when")
def _fresh(made: Maker) -> None:
    root = made.root()
    made.add(fresh={"when": made.condition("fresh.when", root)}, **made.after(root))


@fragment("fresh.inputs")
def _fresh_inputs(made: Maker) -> None:
    root = made.root()
    made.add(fresh={"inputs": [made.text("fresh.inputs", root)]}, **made.after(root))


@fragment("fresh.outputs")
def _fresh_outputs(made: Maker) -> None:
    root = made.root()
    made.add(fresh={"inputs": ["in.txt"], "outputs": [made.text("fresh.outputs", root)]}, **made.after(root))


@fragment("loop.until")
def _until(made: Maker) -> None:
    outer, made.level = made.level, []
    root = made.source()
    inner, made.level = made.level, outer
    made.add(loop={"max": 3, "until": made.condition("loop.until", root), "tasks": inner})


@fragment("loop.carry")
def _carry(made: Maker) -> None:
    root = made.root()
    kind = made.random.choice(["first", "next", "plain", "last"])
    place = "loop.carry"
    inner: Json = [{"id": "round", "run": ["echo", json.dumps(DATA)], "stdout": "json"}]
    if kind == "first":
        carry: Json = {"first": made.text(place, root), "next": "x"}
    elif kind == "next":
        carry = {"first": "x", "next": made.text(place, "tasks.round.outputs")}
    else:
        carry = made.text(place, "tasks.round.outputs")
    loop: dict[str, Json] = {"max": 1 if kind == "last" else 2, "tasks": inner, "carry": {"kept": carry}}
    made.add(loop=loop, **made.after(root))


@fragment("task.foreach")
def _foreach(made: Maker) -> None:
    root = made.root()
    place = "task.foreach"
    given: Json = [made.text(place, root), "b"] if made.random.random() < 0.4 else made.list(place, root)
    made.add(foreach=given, run=["echo", "{{ item }}"], **made.after(root))


@fragment("task.matrix", "matrix")
def _matrix(made: Maker) -> None:
    root = made.root()
    place = "task.matrix"
    given: Json = [made.text(place, root), "b"] if made.random.random() < 0.5 else made.list(place, root)
    made.add(matrix={"one": given, "two": [1]}, run=["echo", "{{ matrix.one }}"], **made.after(root))


@fragment("matrix.include")
def _include(made: Maker) -> None:
    root = made.root()
    extra = {"one": made.text("matrix.include", root)}
    made.add(matrix={"one": ["a"], "include": [extra]}, run=["echo", "{{ matrix.one }}"], **made.after(root))


@fragment("matrix.exclude")
def _exclude(made: Maker) -> None:
    root = made.root()
    extra = {"one": made.text("matrix.exclude", root)}
    made.add(matrix={"one": ["a", "b"], "exclude": [extra]}, run=["echo", "{{ matrix.one }}"], **made.after(root))


@fragment("task.checks")
def _checks(made: Maker) -> None:
    root = made.root()
    made.add(checks=_criterion(made, made.condition("task.checks", root)), **made.after(root))


@fragment("gate_entry.checks", top=True)
def _entry_checks(made: Maker) -> None:
    root = made.root()
    name = made.id("gate")
    made.level.append({"id": name, **made.after(root)})
    made.document.setdefault("gates", []).append({"id": name, "checks": [made.condition("gate_entry.checks", root)]})


@fragment("label_gate.checks", top=True)
def _label_checks(made: Maker) -> None:
    root = made.root()
    label = made.id("label")
    gates = made.document.setdefault("policy", {}).setdefault("gates", {})
    gates[label] = {"checks": [made.condition("label_gate.checks", root)]}
    made.add(labels=[label], **made.after(root))


@fragment("label_gate.ask", top=True)
def _label_ask(made: Maker) -> None:
    root = made.root()
    label = made.id("label")
    made.document.setdefault("policy", {}).setdefault("gates", {})[label] = {"ask": made.text("label_gate.ask", root)}
    made.add(labels=[label], **made.after(root))


@fragment("task.ask")
def _ask(made: Maker) -> None:
    root = made.root()
    made.add(ask=made.text("task.ask", root), **made.after(root))


@fragment("task.evidence")
def _evidence(made: Maker) -> None:
    root = made.root()
    text = made.text("task.evidence", root)
    given = made.random.choice([[text], [{"about": text}], [{"file": text}]])
    made.add(gate="approval", evidence=given, **made.after(root))


def _option(made: Maker, key: str, many: bool = False) -> None:
    root = made.root()
    text = made.text(f"option.{key}", root)
    option = {"id": "one", key: [text] if many else text}
    made.add(gate="decision", ask="which?", options=[option, {"id": "two"}], **made.after(root))


@fragment("option.title")
def _option_title(made: Maker) -> None:
    _option(made, "title")


@fragment("option.description")
def _option_description(made: Maker) -> None:
    _option(made, "description")


@fragment("option.pros")
def _option_pros(made: Maker) -> None:
    _option(made, "pros", many=True)


@fragment("option.cons")
def _option_cons(made: Maker) -> None:
    _option(made, "cons", many=True)


@fragment("option.cost")
def _option_cost(made: Maker) -> None:
    _option(made, "cost")


@fragment("task.needs")
def _needs(made: Maker) -> None:
    root = made.source()
    name = root.split(".")[1]
    made.add(needs=f"{name}.ok and {made.condition('task.needs', root)}")


@fragment("task.join")
def _join(made: Maker) -> None:
    root = made.source()
    name = root.split(".")[1]
    made.add(needs=[name], join=f"{name}.ok and {made.condition('task.join', root)}")


@fragment("task.with")
def _with(made: Maker) -> None:
    root = made.root()
    text = made.text("task.with", root)
    value = made.random.choice([text, [text], {"deep": {"deeper": [text]}}])
    made.add(uses="noop", **{"with": {"value": value}}, **made.after(root))


@fragment("task.run")
def _run(made: Maker) -> None:
    root = made.root()
    if made.random.random() < 0.5:
        made.add(run=["echo", made.text("task.run", root)], **made.after(root))
    else:
        made.add(run=f"echo {made.value('task.run', root)} && true", **made.after(root))


@fragment("task.env")
def _env(made: Maker) -> None:
    root = made.root()
    made.add(env={"GIVEN": made.text("task.env", root)}, **made.after(root))


@fragment("task.cwd")
def _cwd(made: Maker) -> None:
    root = made.root()
    made.add(cwd=made.text("task.cwd", root), **made.after(root))


@fragment("plan.env", top=True)
def _plan_env(made: Maker) -> None:
    made.document.setdefault("env", {})[made.id("GIVEN")] = made.text("plan.env", "params.data")
    made.add()


@fragment("task.command")
def _command(made: Maker) -> None:
    root = made.root()
    made.add(command=f"Write down {made.text('task.command', root)}", **made.after(root))


@fragment("output.value")
def _output(made: Maker) -> None:
    place = "output.value"
    if made.random.random() < 0.5:
        gives = {"run": ["echo", json.dumps({"value": DATA})], "stdout": "json"}
        root, more = "outputs.value", gives
    else:
        root = made.root()
        more = made.after(root)
    text = made.text(place, root)
    made.add(outputs={"given": made.random.choice([text, {"value": text}, {"value": {"deep": [text]}}])}, **more)


@fragment("output.path")
def _output_path(made: Maker) -> None:
    root = made.root()
    made.add(outputs={"given": {"path": made.text("output.path", root)}}, **made.after(root))


@fragment("artifact.path")
def _artifact(made: Maker) -> None:
    root = made.root()
    text = made.text("artifact.path", root)
    made.add(artifacts=[made.random.choice([text, {"name": "kept", "path": text}])], **made.after(root))


@fragment("plan.outputs", top=True)
def _plan_outputs(made: Maker) -> None:
    root = made.root()
    text = made.text("plan.outputs", root)
    given = made.random.choice([text, {"value": text}, {"value": [text], "type": "list"}])
    made.document.setdefault("outputs", {})[made.id("given")] = given
    made.add()


@fragment("subplan_of_plan.outputs")
def _linked_outputs(made: Maker) -> None:
    outer, made.level = made.level, []
    root = made.source()
    inner, made.level = made.level, outer
    name = made.id("part")
    outputs = {"given": made.text("subplan_of_plan.outputs", root)}
    made.document.setdefault("subplans", {})[name] = {"tasks": inner, "outputs": outputs, "defaults": TIMED}
    made.add(subplan=name)


@fragment("subplan_of_plan.env")
def _linked_env(made: Maker) -> None:
    name = made.id("part")
    env = {"GIVEN": made.text("subplan_of_plan.env", "params.given")}
    inner = [{"id": "inner", "run": ["true"]}]
    part = {"tasks": inner, "env": env, "defaults": TIMED, "params": {"given": {"type": "any"}}}
    made.document.setdefault("subplans", {})[name] = part
    made.add(subplan=name, params={"given": DATA})


@fragment("task.params")
def _params(made: Maker) -> None:
    root = made.root()
    name = made.id("part")
    part = {"tasks": [{"id": "inner", "run": ["true"]}], "defaults": TIMED, "params": {"given": {"type": "any"}}}
    made.document.setdefault("subplans", {})[name] = part
    made.add(subplan=name, params={"given": made.text("task.params", root)}, **made.after(root))


@fragment("task.backup")
def _backup(made: Maker) -> None:
    root = made.root()
    made.add(backup=[made.text("task.backup", root)], **made.after(root))


def _undo(made: Maker, place: str, action: Callable[[str], Json]) -> None:
    """A task that is undone, since one behind it fails."""
    made.fails = True
    made.document["on_failure"] = "rollback"
    root = made.root()
    done = made.add(rollback=action(made.text(place, root)), **made.after(root))
    made.add(run=["false"], needs=[done])


@fragment("action.run", "task.rollback", top=True)
def _rollback(made: Maker) -> None:
    _undo(made, "action.run", lambda text: {"run": ["echo", text]})


@fragment("action.with", top=True)
def _rollback_with(made: Maker) -> None:
    _undo(made, "action.with", lambda text: {"uses": "noop", "with": {"value": text}})


@fragment("plan.done", top=True)
def _done(made: Maker) -> None:
    root = made.root()
    made.add(**made.after(root))
    made.document.setdefault("done", []).append(made.condition("plan.done", root))


@fragment("task.options")
def _options(made: Maker) -> None:
    root = made.root()
    made.add(gate="decision", ask="which?", options=made.list("task.options", root), **made.after(root))


@fragment("task.stdin")
def _stdin(made: Maker) -> None:
    root = made.root()
    made.add(stdin=made.text("task.stdin", root), **made.after(root))


@fragment("task.form")
def _form(made: Maker) -> None:
    root = made.root()
    key = made.random.choice(["description", "default"])
    made.add(ask="how many?", form={"field": {"type": "any", key: made.text("task.form", root)}}, **made.after(root))


def _setting(made: Maker, place: str, make: Callable[[str], dict[str, Json]]) -> None:
    """A number that is computed when the task starts."""
    root = made.root()
    made.add(**make(made.number(place, root)), **made.after(root))


@fragment("task.timeout")
def _timeout(made: Maker) -> None:
    _setting(made, "task.timeout", lambda text: {"timeout": text})


@fragment("task.delay")
def _delay(made: Maker) -> None:
    _setting(made, "task.delay", lambda text: {"delay": text})


@fragment("retry.attempts", "task.retry")
def _attempts(made: Maker) -> None:
    retry = made.random.choice([lambda text: text, lambda text: {"attempts": text}])
    _setting(made, "retry.attempts", lambda text: {"retry": retry(text)})


@fragment("task.max_parallel")
def _max_parallel(made: Maker) -> None:
    _setting(made, "task.max_parallel", lambda text: {"foreach": ["a", "b"], "max_parallel": text})


@fragment("task.tolerate")
def _tolerate(made: Maker) -> None:
    _setting(made, "task.tolerate", lambda text: {"foreach": ["a", "b"], "tolerate": text})


KINDS: dict[str, Callable[[Maker], None]] = {}
"""What makes a slot for a value of a declared kind, by how the value is given."""
WRONG: dict[str, list[Json]] = {
    "int": ["word", 1.5, ["a"], {"a": 1}, True],
    "number": ["word", ["a"], {"a": 1}],
    "bool": ["word", 3, ["a"]],
    "list": [3, {"a": 1}, True],
    "map": ["word", 3, ["a"]],
    "duration": ["word", ["a"], {"a": 1}],
    "size": ["word", ["a"], True],
    "money": ["word", {"a": 1}],
}
RIGHT: dict[str, Json] = {
    "int": 3,
    "number": 1.5,
    "bool": True,
    "list": ["a"],
    "map": {"a": 1},
    "duration": "1h",
    "size": "3MB",
    "money": "$2",
}


def kind(name: str) -> Callable[[Callable[[Maker], None]], Callable[[Maker], None]]:
    def register(make: Callable[[Maker], None]) -> Callable[[Maker], None]:
        KINDS[name] = make
        AT_THE_TOP.add(name)
        return make

    return register


def _typed(made: Maker, place: str) -> tuple[str, Json]:
    """A type, and a value of that type or, where the slot is broken, of another one."""
    word = made.random.choice(sorted(RIGHT))
    wrong = made.random.choice(WRONG[word])
    value = wrong if len(made.slots) == made.broken else RIGHT[word]
    made.slots.append(Slot(place, json.dumps(value), ""))
    return word, value


@kind("the default of a parameter")
def _of_default(made: Maker) -> None:
    word, value = _typed(made, "parameter.default")
    name = made.id("param")
    made.document["params"][name] = {"type": word, "default": value}
    made.add(run=["echo", f"{{{{ params.{name} }}}}"])


@kind("a choice of a parameter")
def _of_choice(made: Maker) -> None:
    value = "word" if len(made.slots) == made.broken else 3
    made.slots.append(Slot("parameter.choices", json.dumps(value), ""))
    name = made.id("param")
    made.document["params"][name] = {"type": "int", "default": 1, "choices": [1, value]}
    made.add(run=["echo", f"{{{{ params.{name} }}}}"])


@kind("an output that a program gives")
def _of_output(made: Maker) -> None:
    word, value = _typed(made, "output.type")
    made.add(run=["echo", json.dumps({"given": value, "other": 1})], stdout="json", outputs={"given": word})


@kind("an output with a value")
def _of_value(made: Maker) -> None:
    word, value = _typed(made, "output.value")
    source = made.add(uses="noop", **{"with": {"value": value}})
    template = f"{{{{ tasks.{source}.outputs.value }}}}"
    made.add(outputs={"given": {"type": word, "value": template}}, needs=[source])


@kind("an output of the plan")
def _of_plan_output(made: Maker) -> None:
    word, value = _typed(made, "plan.outputs")
    source = made.add(uses="noop", **{"with": {"value": value}})
    template = f"{{{{ tasks.{source}.outputs.value }}}}"
    made.document.setdefault("outputs", {})[made.id("given")] = {"type": word, "value": template}


@kind("a parameter of a subplan")
def _of_parameter(made: Maker) -> None:
    word, value = _typed(made, "task.params")
    name = made.id("part")
    inner = {"id": "inner", "run": ["echo", "{{ params.given }}"]}
    part = {"tasks": [inner], "params": {"given": {"type": word, "required": True}}, "defaults": TIMED}
    made.document.setdefault("subplans", {})[name] = part
    if made.random.random() < 0.5:
        made.add(subplan=name, params={"given": value})
        return
    source = made.add(uses="noop", **{"with": {"value": value}})
    made.add(subplan=name, params={"given": f"{{{{ tasks.{source}.outputs.value }}}}"}, needs=[source])


@kind("an output of a subplan")
def _of_linked_output(made: Maker) -> None:
    word, value = _typed(made, "subplan_of_plan.outputs")
    name = made.id("part")
    inner = {"id": "inner", "uses": "noop", "with": {"value": value}}
    outputs = {"given": {"type": word, "value": "{{ tasks.inner.outputs.value }}"}}
    made.document.setdefault("subplans", {})[name] = {"tasks": [inner], "outputs": outputs, "defaults": TIMED}
    made.add(subplan=name)


@kind("the default of a field")
def _of_field(made: Maker) -> None:
    word, value = _typed(made, "task.form")
    made.add(ask="how many?", form={"field": {"type": word, "default": value}})


@kind("an input of a capability")
def _of_input(made: Maker) -> None:
    value = made.random.choice([["a"], {"a": 1}, "word"]) if len(made.slots) == made.broken else "1s"
    made.slots.append(Slot("task.with", json.dumps(value), ""))
    made.add(uses="sleep", **{"with": {"duration": value}})
