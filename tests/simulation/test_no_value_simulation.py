"""Random sound plans with one expression that has no value, with one name misspelt, with one value of the wrong kind:
no run of the first completes, lint finds the second where it stands, and lint or the run says so of the third.

The figure at full size: ``PLANRUNNER_UNSOUND_PLANS=5000``.
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from misspelling import misspelt, names
from sound_plans import ALONE, FRAGMENTS, KINDS, Maker, Slot

from planrunner.app.proof.lives import PLACE, RUN_ID, START, Disk, Lived, Nobody, Stage, assumed, live
from planrunner.app.proof.world import decided, known_capabilities
from planrunner.capabilities.contract import Call, Failure
from planrunner.capabilities.outputs import stdout_outputs, typed
from planrunner.engine.loop import Driver
from planrunner.engine.simulated import Script
from planrunner.machine.events import Outcome, RunStarted
from planrunner.machine.state import State
from planrunner.plan import templates
from planrunner.plan.expressions import evaluate
from planrunner.plan.load import Loaded, load
from planrunner.plan.model import Plan
from planrunner.plan.schema import published
from planrunner.plugins.registry import Registry
from planrunner.source import Source

PLANS = int(os.environ.get("PLANRUNNER_UNSOUND_PLANS", "300"))
BLOCKS = 6
REGISTRY = Registry()
PLACES = sorted(FRAGMENTS)
Json = Any


class Shell:
    """A world of four programs: ``echo``, ``true``, ``false``, and ``flaky``, which fails the first time."""

    def __init__(self) -> None:
        self.tried: set[str] = set()

    def outcome(self, call: Call) -> Outcome:
        if call.task.uses == "noop":
            return Outcome(outputs={"value": (call.inputs or {}).get("value")})
        words = list(call.arguments) or shlex.split(call.script)
        failed = words[:1] == ["false"] or (words[:1] == ["flaky"] and call.name not in self.tried)
        self.tried.add(call.name)
        if failed:
            return Outcome("logic", "exit code 1", exit_code=1)
        stdout = " ".join(words[1:]) + "\n" if words[:1] == ["echo"] else ""
        try:
            outputs = stdout_outputs(call.task.stdout, stdout, call.task.outputs) if call.task.stdout else {}
            for output in call.task.outputs:
                if output.value is None and not output.path:
                    outputs[output.name] = typed(output.name, output.type, outputs.get(output.name))
        except Failure as failure:
            return Outcome(failure.failure, str(failure), exit_code=0)
        return Outcome(outputs=outputs, exit_code=0, stdout=stdout)


def read(document: Json) -> Loaded:
    return load(Source(json.dumps(document, indent=1), "p.json", "json"), REGISTRY)


def run(plan: Plan) -> Lived:
    traits = known_capabilities(plan).traits
    params = {param.name: param.default for param in plan.params}
    facts = Script(Shell().outcome, lambda names: dict.fromkeys(names, 1))
    return live(Stage(plan, facts, traits, params, answer=lambda state, number: decided(state, number, "approve")))


def told(lived: Lived) -> str:
    """Everything that the journal says of what failed."""
    words = []
    for event in (entry.event for entry in lived.entries):
        for part in (event, getattr(event, "outcome", None)):
            words += [str(getattr(part, name, "")) for name in ("detail", "message", "problem", "why", "reason")]
    return "\n".join(words)


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every expression and template that is evaluated from now on."""
    seen: list[str] = []
    expression, text = evaluate._guarded, templates.render_text

    def judged(tree: Any, *rest: Any) -> Any:
        seen.append(repr(tree))
        return expression(tree, *rest)

    def rendered(value: str, scope: Any) -> Any:
        seen.append(value)
        return text(value, scope)

    monkeypatch.setattr(evaluate, "_guarded", judged)
    monkeypatch.setattr(templates, "render_text", rendered)
    return seen


def places(seed: int) -> list[str]:
    """The places of which a plan has a slot: each in turn, and others."""
    rng = random.Random(f"places {seed}")
    first = PLACES[seed % len(PLACES)]
    return [first] if first in ALONE else [first, *rng.sample(sorted(set(PLACES) - ALONE), rng.randint(1, 4))]


def sound(seed: int) -> Maker:
    return Maker(seed, places(seed))


def broken(seed: int, made: Maker) -> tuple[Slot, Maker]:
    """The plan with one of its slots without a value: mostly that of the place whose turn it is."""
    first = len([slot for slot in made.slots if slot.place == made.slots[0].place])
    number = random.Random(f"broken {seed}").randrange(first if seed % 4 else len(made.slots))
    other = Maker(seed, places(seed), number)
    return other.slots[number], other


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_run_completes_in_which_an_expression_has_no_value(block: int, evaluated: list[str]) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block, PLANS, BLOCKS):
        made = sound(seed)
        calm = soundly_run(seed, made, evaluated)
        slot, other = broken(seed, made)
        plan = read(other.document).plan
        seen["run" if plan is not None else "lint"] += 1
        if plan is None:
            continue
        lived = run(plan)
        assert lived.state.status == "failed", (seed, slot, lived.state.status)
        more = [line for line in told(lived).splitlines() if line not in told(calm)]
        reason = next((line for line in more if says(line, slot)), "")
        assert reason, (seed, slot, more)
    assert seen["run"] > 20 * seen["lint"], seen


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_sound_plan_passes_a_dry_run(block: int) -> None:
    for seed in range(block, PLANS, BLOCKS):
        made = sound(seed)
        plan = read(made.document).plan
        assert plan is not None
        dry, disk = assumed(plan, START), Disk()
        state = State(dry.plan, RUN_ID)
        driver = Driver(state, disk.append, dry.effects, PLACE, Nobody(), 0)
        params = {param.name: param.default for param in plan.params}
        driver.record(RunStarted("sha256:dry", params, seed, traits=dry.traits))
        driver.run()
        assert state.status == "completed", (seed, [each.detail for each in state.tasks if each.status == "failed"])


@pytest.mark.parametrize("block", range(BLOCKS))
def test_lint_finds_a_misspelt_name_where_it_stands(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block, PLANS, BLOCKS):
        document = sound(seed).document
        text, rng = json.dumps(document, indent=1), random.Random(f"misspelt {seed}")
        candidates = names(text, document)
        kind = rng.choice(sorted({name.kind for name in candidates}))
        name = rng.choice([each for each in candidates if each.kind == kind])
        wrong = misspelt(rng, text, name)
        last = name.end + len(wrong) - len(text)
        findings = [
            each for each in load(Source(wrong, "p.json", "json"), REGISTRY).findings if each.severity != "note"
        ]
        line = wrong[wrong.rfind("\n", 0, name.start) : wrong.find("\n", name.end)]
        quoted = name.start - (wrong[name.start - 1] == '"')
        assert any(quoted <= each.span.start < last for each in findings), (seed, kind, line, findings)
        seen[kind] += 1
    assert len(seen) >= min(30, PLANS // BLOCKS // 3), seen


@pytest.mark.parametrize("block", range(BLOCKS))
def test_lint_or_the_run_says_that_a_value_is_of_the_wrong_kind(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block, PLANS, BLOCKS):
        rng = random.Random(f"kind {seed}")
        kind = sorted(KINDS)[seed % len(KINDS)]
        wanted = [kind, *rng.sample(sorted(set(PLACES) - ALONE), 2)]
        loaded = read(Maker(seed, wanted).document)
        assert loaded.plan is not None, (seed, kind, [each.message for each in loaded.findings])
        assert not [each for each in loaded.findings if each.severity != "note"], (seed, kind)
        assert run(loaded.plan).state.status == "completed", (seed, kind)
        wrong = Maker(seed, wanted, 0)
        loaded = read(wrong.document)
        if loaded.plan is None:
            codes = {each.code for each in loaded.findings if each.severity == "error"}
            assert codes <= {"PLAN005", "PLAN008", "PLAN114"}, (seed, wrong.slots[0], codes)
            seen["lint"] += 1
            continue
        lived = run(loaded.plan)
        assert lived.state.status == "failed", (seed, kind, wrong.slots[0])
        seen["run"] += 1
    assert seen["lint"]
    assert seen["run"]


@pytest.mark.parametrize("block", range(BLOCKS))
def test_lint_finds_a_value_of_a_kind_that_the_schema_does_not_allow(block: int) -> None:
    validator = jsonschema.Draft7Validator(published())
    for seed in range(block, PLANS, BLOCKS):
        rng = random.Random(f"literal {seed}")
        document = sound(seed).document
        ways = list(ways_in(document))
        while True:
            way = rng.choice(ways)
            value = rng.choice([True, 17, "word", ["word"], {"word": 1}, None])
            if not validator.is_valid(replaced(document, way, value)):
                break
        at = json.dumps(replaced(document, way, "@@@"), indent=1).index('"@@@"')
        text = json.dumps(replaced(document, way, value), indent=1)
        line, end = text.rfind("\n", 0, at), at + len(json.dumps(value, indent=1)) + len(way)
        findings = load(Source(text, "p.json", "json"), REGISTRY).findings
        here = [each for each in findings if each.severity == "error" and line <= each.span.start <= end]
        assert here, (seed, way, value, findings)


def ways_in(value: Json, way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value inside data."""
    if way:
        yield way
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from ways_in(each, (*way, key))


def replaced(document: Json, way: tuple[str | int, ...], value: Json) -> Json:
    """The document with another value at the end of a way."""
    other = copy.deepcopy(document)
    holder = other
    for key in way[:-1]:
        holder = holder[key]
    holder[way[-1]] = value
    return other


def soundly_run(seed: int, made: Maker, evaluated: list[str]) -> Lived:
    """The run of a plan in which every slot has a value; each is evaluated."""
    loaded = read(made.document)
    said = [f"{each.code} {each.message}" for each in loaded.findings if each.severity != "note"]
    assert loaded.plan is not None, (seed, said)
    assert not said, (seed, said)
    evaluated.clear()
    calm = run(loaded.plan)
    assert (calm.state.status == "completed") is not made.fails, (seed, calm.state.status, told(calm))
    reached = "\n".join(evaluated)
    for slot in made.slots:
        assert slot.mark in reached, (seed, slot)
    return calm


def says(line: str, slot: Slot) -> bool:
    """Whether a line of the journal names what has no value: the expression or template, or a path in it."""
    parts = [slot.mark, *re.findall(r"\{\{.*?\}\}|\{%.*?%\}", slot.text)]
    parts += re.findall(r"[a-z]\w*(?:\.\w+)+", slot.text)
    return any(part in line for part in parts)
