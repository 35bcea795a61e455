"""Gates at the edge: the question with its templates filled in, and whether it still stands when somebody answers."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from planrunner.engine.calls import Place, no_value, plain_data, prepare, rendered, rights_of, with_declared
from planrunner.engine.choices import options_of
from planrunner.engine.effects import Weigh
from planrunner.engine.evidence import examine
from planrunner.engine.tainting import decides
from planrunner.jsontext import shown, stable_json
from planrunner.machine import instructions
from planrunner.machine.commands import AskPeople, Start
from planrunner.machine.events import Event, GateDecided, GateReopened, GateRequested, Outcome
from planrunner.machine.gates import digest, spec
from planrunner.machine.governing import STAGE
from planrunner.machine.judging import KIND, allowance, judge_of
from planrunner.machine.scope import GateScope
from planrunner.machine.starting import INSTRUCTION
from planrunner.machine.state import State
from planrunner.plan.access import looks_at
from planrunner.plan.expressions.values import Scope, TemplateError
from planrunner.plan.model import Gate, Option, Task

Json = Any

SMALL = 2_000
"""Characters of an input that are shown as they are; of a larger one its digest stands for it."""


def requested(state: State, command: AskPeople, place: Place) -> GateRequested:
    """The event that asks for a decision, with everything filled in. Raises TemplateError where a part of the question
    has no value."""
    number, stage = command
    found = state.tasks[number]
    attempt = found.attempts if stage == "criteria" else 0
    reserved = (allowance(state, number) or {}) if judge_of(state, stage) else {}
    asked = request(state, number, stage, place)
    return GateRequested(state.specs[number].id, found.visit, stage, attempt, asked, reserved)


def request(state: State, number: int, stage: str, place: Place) -> dict[str, Json]:
    """What is asked: the same for the same state of the run. Raises TemplateError where a part of it has no value."""
    task, written = state.specs[number], spec(state, number, stage)
    scope = GateScope(state, number)
    words = _words(state, number, stage)
    asked: dict[str, Json] = {
        "kind": written.kind,
        "ask": _filled("ask", written.ask, scope) or _question(task, stage, words, written),
        "inputs": _inputs(state, number, stage, place),
    }
    if words:
        asked["words"] = words
    if written.options:
        asked["options"] = _options(written.options, scope)
    if stage == INSTRUCTION:
        asked["kind"], asked["form"] = stage, instructions.form(task)
        asked["ask"] = _filled("command", asked["ask"], scope)
    if written.form:
        asked["form"] = [_field(field._asdict(), scope) for field in written.form]
    looks = looks_at(written.kind, _filled("evidence", written.evidence, scope))
    if words and (model := judge_of(state, stage)):
        looks.append({"kind": KIND, "name": model})
    if state.foreign and stage == "gate" and (against := _decides(state, number)):
        looks.append(against)
    if looks:
        asked["looks"] = looks
    found: dict[str, Json] = plain_data(asked)
    return found


def with_values(state: State, event: Event) -> Event:
    """A decision together with the outputs that the task declares by a ``value``; one that has no value is the
    decision's problem. Only what the task itself asks gives outputs, not what comes before or after its work."""
    assert isinstance(event, GateDecided)
    number = state.index[event.task]
    gate = state.tasks[number].gate
    asks = gate is not None and gate.stage in ("gate", INSTRUCTION) and event.decision in ("passed", "approved")
    if not asks or state.edition < 6:
        return event
    outcome = with_declared(state, number, Outcome(outputs=event.outputs))
    return event._replace(outputs=outcome.outputs, problem=outcome.message)


def _decides(state: State, number: int) -> dict[str, Json] | None:
    return decides(state, number)


def renewed(state: State, task: str, place: Place, weighed: Weigh | None = None) -> GateReopened | None:
    """The event by which what people were shown is replaced, where it is not the same any more. ``weighed`` is what was
    looked at already; what has to be looked at may have changed meanwhile."""
    number = state.index[task]
    found = state.tasks[number]
    gate = found.gate
    if gate is None or not gate.waits:
        return None
    asked = request(state, number, gate.stage, place)
    looks = tuple(asked.get("looks", ()))
    if weighed is not None and weighed.looks == looks:
        evidence, policy = weighed.found[0]
    else:
        evidence, policy = examine(looks, place.directory, rights_of(state, number))
    evidence += tuple(item for item in gate.evidence if item.get("kind") == KIND)  # asked once, about the same attempt
    shown = digest(state, number, asked, evidence, policy)
    if shown == gate.shown:
        return None
    before = {str(item["name"]): item.get("digest") for item in gate.evidence}
    after = {str(item["name"]): item.get("digest") for item in evidence}
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    parts = ("ask", "words", "inputs", "options", "form", "looks")
    changed += [part for part in parts if asked.get(part) != gate.request.get(part)]
    changed += ["the policy"] if policy != gate.policy else []
    return GateReopened(task, gate.visit, asked, evidence, policy, shown, tuple(changed))


def _words(state: State, number: int, stage: str) -> list[str]:
    task = state.specs[number]
    written = {
        "preconditions": task.preconditions,
        "criteria": (*task.expect, *task.postconditions),
        "gate": task.gate.checks if task.gate is not None else (),
    }.get(stage, ())
    return [criterion.text for criterion in written if criterion.expression is None]


def _question(task: Task, stage: str, words: list[str], written: Gate) -> str:
    if stage == INSTRUCTION:
        return instructions.question(task)
    if stage == "criteria":
        return "a person has to judge: " + "; ".join(words)
    if stage == "preconditions":
        return "a person has to confirm: " + "; ".join(words)
    if stage.startswith("label:"):
        return f"may `{task.id}` start? its label `{stage[6:]}` demands a decision"
    if stage == STAGE:
        return f"may `{task.id}` start? a policy says to ask first"
    return "; ".join(words) or f"waits for a decision ({written.kind})"


def _inputs(state: State, number: int, stage: str, place: Place) -> dict[str, Json]:
    """What the decision rests on: the call that it allows, how the attempt went, or what the tasks before gave."""
    task, found = state.specs[number], state.tasks[number]
    if stage == "criteria":
        outcome = found.outcome
        assert outcome is not None
        kept = [{key: record.get(key) for key in ("name", "path", "sha256")} for record in outcome.artifacts]
        shown: dict[str, Json] = {"exit_code": outcome.exit_code, "outputs": outcome.outputs, "artifacts": kept}
        shown["stdout"] = outcome.stdout
        return {name: _short(value) for name, value in shown.items() if value not in (None, "", {}, [])}
    if stage != "gate" and task.uses:
        prepared = prepare(state, Start(number, found.attempts + 1), place, shown=True)
        call = prepared.call
        if call is None:
            return {"problem": prepared.outcome.message if prepared.outcome is not None else ""}
        named = {
            "uses": task.uses,
            "with": call.inputs,
            "run": list(call.arguments) or call.script,
            "values": dict(call.values),
            "stdin": call.stdin,
            "ready": call.ready,
            "cwd": call.directory,
        }
        return {name: _short(value) for name, value in named.items() if value}
    given = {
        state.specs[need].id: _short(state.tasks[need].outputs)
        for need in state.shape.needs[number]
        if state.tasks[need].outputs
    }
    if stage == INSTRUCTION and task.inputs and state.edition > 5:
        given["with"] = _filled("with", task.inputs, GateScope(state, number))
    return {**given, "params": _filled("params", task.params, GateScope(state, number))} if task.params else given


def _short(value: Json) -> Json:
    text = stable_json(plain_data(value))
    if len(text) <= SMALL:
        return value
    return {"digest": sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), "size": len(text), "start": text[:200]}


def _filled(key: str, value: Json, scope: Scope) -> Json:
    """With its templates filled in: nobody can decide about a text that has no value."""
    try:
        return rendered(value, scope)
    except no_value() as error:
        raise TemplateError(f"`{key}` has no value: {error}") from error


def _options(written: Sequence[Option], scope: Scope) -> list[dict[str, Json]]:
    """The options as they are shown. Raises TemplateError."""
    if written[0].each is not None:
        return options_of(written[0].each, scope)
    fields = [option._asdict() for option in written]
    for each in fields:
        del each["span"]
    return [{key: _filled("options", value, scope) for key, value in each.items() if value} for each in fields]


def _field(field: dict[str, Json], scope: Scope) -> dict[str, Json]:
    field.pop("span")
    found = {key: _filled("form", value, scope) for key, value in field.items() if value not in (None, "", (), False)}
    if "choices" in found:
        found["choices"] = _choices(str(field["name"]), plain_data(found["choices"]))
    return found


def _choices(name: str, given: Sequence[Json]) -> list[Json]:
    """The choices of a field; a template among them that gives a list stands for its items. Raises TemplateError."""
    found = [item for each in given for item in (each if isinstance(each, (list, tuple)) else [each])]
    if not found:
        raise TemplateError(f"the choices of `{name}` in `form` are an empty list")
    if strange := [item for item in found if not isinstance(item, (str, int, float))]:
        raise TemplateError(
            f"a choice of `{name}` in `form` is a text, a number or true or false, this is {shown(strange[0])}"
        )
    return found
