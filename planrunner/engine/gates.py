"""Gates at the edge: the question with its templates filled in, and criteria that an LLM judge answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from planrunner.capabilities.binding import Binding, invoke
from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.engine.attempts import Attempt, located
from planrunner.engine.calls import NO_VALUE, Place, prepare, rendered, rights_of, with_declared
from planrunner.engine.effects import Examine, RecheckEvidence
from planrunner.engine.evidence import examine, examined
from planrunner.engine.output import Record
from planrunner.engine.questions import WORK, Question
from planrunner.engine.services import AttemptServices
from planrunner.engine.taint import decides
from planrunner.errors import StorageFailed
from planrunner.jsontext import shown, stable_json
from planrunner.machine import gates
from planrunner.machine.approvals import digest
from planrunner.machine.commands import AskPeople, Start
from planrunner.machine.decide import INSTRUCTION
from planrunner.machine.events import Event, GateDecided, GateExamined, GateReopened, GateRequested, Outcome
from planrunner.machine.gates import spec
from planrunner.machine.hypotheses import belief_object, beliefs, home, ranked
from planrunner.machine.rights import POLICY, hook_asks
from planrunner.machine.scope import GateScope
from planrunner.machine.state import GateState, State
from planrunner.machine.verdicts import KIND, judge_allowance, llm_judge
from planrunner.plan.access import looks_at
from planrunner.plan.expressions.evaluate import evaluate
from planrunner.plan.expressions.values import EvaluationError, Scope, TemplateError, plain, text_of
from planrunner.plan.model import Budgets, Expression, Option, Task
from planrunner.plan.rights import Level
from planrunner.plan.templated import holds_template

Json = Any


Look = Callable[[Sequence[dict[str, Json]], str, Sequence[Level]], tuple[tuple[dict[str, Json], ...], str]]
"""Looks at evidence below a directory, as ``evidence.examine`` does."""

SMALL = 2_000
"""Characters of an input that are shown as they are; of a larger one its digest stands for it."""


def requested(state: State, command: AskPeople, place: Place) -> GateRequested:
    """The event that asks for a decision, with everything filled in. Raises TemplateError where a part of the question
    has no value."""
    number, stage = command.number, command.stage
    task_state = state.tasks[number]
    attempt = task_state.attempts if stage == "criteria" else 0
    reserved = (judge_allowance(state, number) or {}) if llm_judge(state, stage) else {}
    asked = request(state, number, stage, place)
    return GateRequested(state.specs[number].id, task_state.visit, stage, attempt, asked, reserved)


def request(state: State, number: int, stage: str, place: Place) -> dict[str, Json]:
    """What is asked: the same for the same state of the run. Raises TemplateError where a part of it has no value."""
    task, written = state.specs[number], spec(state, number, stage)
    scope = GateScope(state, number)
    words = _words(state, number, stage)
    asked: dict[str, Json] = {
        "kind": written.kind,
        "ask": _filled("ask", written.ask, scope) or _question(state, number, stage, words),
        "inputs": _inputs(state, number, stage, place),
    }
    if words:
        asked["words"] = words
    if written.options:
        asked["options"] = _options(written.options, scope)
    if written.options and (known := beliefs(state, home(state, state.tasks[number].frame))):
        asked["hypotheses"] = [belief_object(state, each) for each in ranked(known)]
    if stage == INSTRUCTION:
        asked["kind"], asked["form"] = stage, gates.instruction_form(task)
        asked["ask"] = _filled("command", asked["ask"], scope)
        if files := gates.instruction_files(task):
            asked["ask"] += f" (it is done when {' and '.join(files)} {'exists' if len(files) == 1 else 'exist'})"
    if written.form:
        asked["form"] = [_field(field._asdict(), scope) for field in written.form]
    looks = looks_at(written.kind, _filled("evidence", written.evidence, scope))
    if words and (model := llm_judge(state, stage)):
        looks.append({"kind": KIND, "name": model})
    if state.foreign and stage == "gate" and (against := decides(state, number)):
        looks.append(against)
    if looks:
        asked["looks"] = looks
    shown_request: dict[str, Json] = plain(asked)
    return shown_request


def missing_files(state: State, path: str, directory: str) -> list[str]:
    """The files that a task declares which a person carries out, and that are not there yet."""
    number = state.index.get(path)
    gate = None if number is None else state.tasks[number].gate
    if number is None or gate is None or gate.stage != INSTRUCTION:
        return []
    spec = state.specs[number]
    folder = os.path.join(directory, "" if holds_template(spec.cwd) else spec.cwd)
    files = [file for file in gates.instruction_files(spec) if not holds_template(file)]
    return [file for file in files if not os.path.exists(os.path.join(folder, file))]


def with_values(state: State, event: Event) -> Event:
    """A decision together with the outputs that the task declares by a ``value``; one that has no value is the
    decision's problem. Only what the task itself asks gives outputs, not what comes before or after its work."""
    assert isinstance(event, GateDecided)
    number = state.index[event.task]
    gate = state.tasks[number].gate
    asks = gate is not None and gate.stage in ("gate", INSTRUCTION) and event.decision in ("passed", "approved")
    if not asks:
        return event
    outcome = with_declared(state, number, Outcome(outputs=event.outputs))
    return event._replace(outputs=outcome.outputs, problem=outcome.message)


def renewed(
    state: State, task: str, place: Place, weighed: RecheckEvidence | None = None, look: Look = examine
) -> GateReopened | None:
    """The event by which what people were shown is replaced, where it is not the same any more. ``weighed`` is what was
    looked at already; what has to be looked at may have changed meanwhile. ``look`` looks at evidence, as ``examine``
    does."""
    number = state.index[task]
    task_state = state.tasks[number]
    gate = task_state.gate
    if gate is None or not gate.waits:
        return None
    asked = request(state, number, gate.stage, place)
    looks = tuple(asked.get("looks", ()))
    if weighed is not None and weighed.looks == looks:
        evidence, policy = weighed.found[0]
    else:
        evidence, policy = look(looks, place.directory, rights_of(state, number))
    evidence += tuple(item for item in gate.evidence if item.get("kind") == KIND)  # asked once, about the same attempt
    seen = GateState(gate.visit, gate.stage, gate.attempt, asked)
    seen.evidence, seen.policy = evidence, policy
    shown = digest(state, number, seen)
    if shown == gate.shown:
        return None
    before = {str(item["name"]): item.get("digest") for item in gate.evidence}
    after = {str(item["name"]): item.get("digest") for item in evidence}
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    parts = ("ask", "words", "inputs", "options", "form", "hypotheses", "looks")
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


def _question(state: State, number: int, stage: str, words: list[str]) -> str:
    """What is asked where the gate itself does not say it."""
    task = state.specs[number]
    if stage == INSTRUCTION:
        return gates.instruction_question(task)
    if stage == "criteria":
        return "a person has to judge: " + "; ".join(words)
    if stage == "preconditions":
        return "a person has to confirm: " + "; ".join(words)
    if stage.startswith("label:"):
        return f"may `{task.id}` start? its label `{stage[6:]}` demands a decision"
    if stage == POLICY:
        return hook_asks(state, number) or f"may `{task.id}` start? a policy says to ask first"
    return "; ".join(words) or f"waits for a decision ({spec(state, number, stage).kind})"


def _inputs(state: State, number: int, stage: str, place: Place) -> dict[str, Json]:
    """What the decision rests on: the call that it allows, how the attempt went, or what the tasks before gave."""
    task, task_state = state.specs[number], state.tasks[number]
    if stage == "criteria":
        outcome = task_state.outcome
        assert outcome is not None
        kept = [{key: record.get(key) for key in ("name", "path", "sha256")} for record in outcome.artifacts]
        shown: dict[str, Json] = {"exit_code": outcome.exit_code, "outputs": outcome.outputs, "artifacts": kept}
        shown["stdout"] = outcome.stdout
        return {name: _short(value) for name, value in shown.items() if value not in (None, "", {}, [])}
    if stage != "gate" and task.uses:
        prepared = prepare(state, Start(number, task_state.attempts + 1), place, shown=True)
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
    if stage == INSTRUCTION and task.inputs:
        given["with"] = _filled("with", task.inputs, GateScope(state, number))
    return {**given, "params": _filled("params", task.params, GateScope(state, number))} if task.params else given


def _short(value: Json) -> Json:
    text = stable_json(plain(value))
    if len(text) <= SMALL:
        return value
    return {"digest": sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), "size": len(text), "start": text[:200]}


def _filled(key: str, value: Json, scope: Scope) -> Json:
    """With its templates filled in: a text without a value cannot be decided."""
    try:
        return rendered(value, scope)
    except NO_VALUE as error:
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
    """A field as it is shown, without the keys that say nothing. A default says something unless it is null: ``false``,
    0 and an empty text are values."""
    field.pop("span")
    filled = {
        key: _filled("form", value, scope)
        for key, value in field.items()
        if value not in (None, "", (), False) or (key == "default" and value is not None)
    }
    if "choices" in filled:
        filled["choices"] = _choices(str(field["name"]), plain(filled["choices"]))
    return filled


def _choices(name: str, given: Sequence[Json]) -> list[Json]:
    """The choices of a field; a template among them that gives a list stands for its items. Raises TemplateError."""
    choices = [item for each in given for item in (each if isinstance(each, (list, tuple)) else [each])]
    if not choices:
        raise TemplateError(f"the choices of `{name}` in `form` are an empty list")
    if strange := [item for item in choices if not isinstance(item, (str, int, float))]:
        raise TemplateError(
            f"a choice of `{name}` in `form` is a text, a number or true or false, this is {shown(strange[0])}"
        )
    return choices


_GIVEN = ("id", "title", "description", "pros", "cons", "cost")
"""The keys of an option that a list gives."""


def options_of(each: Expression, scope: Scope) -> list[dict[str, Json]]:
    """The options as a gate shows them. Raises TemplateError."""
    text = f"`options: {each.text}`"
    try:
        given = plain(evaluate(each.tree, scope))
    except EvaluationError as error:
        raise TemplateError(f"{text} has no value: {error}") from None
    if not isinstance(given, (list, tuple)) or not given:
        what = "an empty list" if isinstance(given, (list, tuple)) else "nothing" if given is None else shown(given)
        raise TemplateError(f"{text} takes a list with one item or more, this is {what}")
    options: list[dict[str, Json]] = []
    for item in given:
        option = _from_item(item, text)
        if any(one["name"] == option["name"] for one in options):
            raise TemplateError(f"{text} gives two options called `{option['name']}`")
        options.append(option)
    return options


def _from_item(item: Json, text: str) -> dict[str, Json]:
    """An option out of an item of a list: a text or a number, or a map with the keys of an option but ``to``."""
    if not isinstance(item, dict):
        if item is None or isinstance(item, (list, tuple)) or item == "":
            raise TemplateError(
                f"{text} gives {shown(item)}, which is not an option: it takes texts, or maps with an `id`"
            )
        return {"name": text_of(item)}
    name = item.get("id") or item.get("title")
    if strange := [key for key in item if key not in _GIVEN]:
        raise TemplateError(f"{text} gives an option with `{strange[0]}`; it takes {', '.join(_GIVEN)}")
    if not name:
        raise TemplateError(f"{text} gives {shown(item)}, an option without an `id`")
    words = {key: text_of(item[key]) for key in ("title", "description", "cost") if item.get(key)}
    reasons = {key: _texts(item[key]) for key in ("pros", "cons") if item.get(key)}
    return {"name": text_of(name), **words, **reasons}


def _texts(value: Json) -> list[str]:
    return [text_of(each) for each in value] if isinstance(value, (list, tuple)) else [text_of(value)]


_LARGEST = 32_768
"""Bytes of an artifact that the judge sees; a larger one is named and left out."""

_NO_ROOM = (
    "the judge was not asked: a budget is limited, and leaves no room for what `models.judging` of planrunner.yaml "
    "says a judgement may use"
)


def judging(state: State, event: GateRequested, place: Place) -> Call | None:
    """The call of the judge; one without inputs where no budget leaves room for it."""
    number = state.index[event.task]
    task = state.specs[number]
    inputs: dict[str, Json] = {}
    room = bool(event.reserved) or judge_allowance(state, number) is not None
    if room:
        outcome = _outcome(state, number)
        parts = []
        if outcome.outputs:
            parts.append(f"outputs: {stable_json(plain(outcome.outputs))}")
        for name, text in (("standard output", outcome.stdout), ("standard error", outcome.stderr)):
            if text.strip():
                parts.append(f"{name}:\n{text}")
        inputs = {
            "criteria": list(event.request["words"]),
            "material": parts,
            "artifacts": _outcome(state, number).artifacts,
            "model": state.environment["judge"],
            "fail": False,
        }
    key = f"{state.run_id}:{task.id}:judge:{event.visit}.{event.attempt}"
    directory = place.directory
    asks = Task(
        task.id, uses="llm.judge", timeout=task.timeout, budgets=Budgets(**(state.environment.get("judging") or {}))
    )
    call = Call(state.run_id, asks, event.attempt, key, inputs, "", (), {}, {}, directory, "", task.timeout, once=key)
    return call._replace(reserved=event.reserved)


def _outcome(state: State, number: int) -> Outcome:
    outcome = state.tasks[number].outcome
    assert outcome is not None, "only an ended attempt is judged"
    return outcome


def _shown(inputs: dict[str, Json], context: Context) -> dict[str, Json]:
    """The inputs of the judge, with the text of the artifacts as it was kept, whatever lies at their paths by now."""
    given = {key: value for key, value in inputs.items() if key != "artifacts"}
    kept = [f"artifact {record.get('name')}:\n{_text_of(record, context)}" for record in inputs["artifacts"]]
    return {**given, "material": "\n\n".join([*given["material"], *kept]) or "(the task left nothing behind)"}


def _text_of(record: dict[str, Json], context: Context) -> str:
    """Text of an artifact that the plan names, where it is short. What a capability keeps for itself is named alone."""
    digest, size = str(record.get("sha256", "")), int(record.get("size") or 0)
    if record.get("path") and size <= _LARGEST:
        try:
            with context.artifact(digest) as file:
                return file.read(_LARGEST).decode("utf-8")
        except (Failure, OSError, UnicodeDecodeError):
            pass
    return f"({size} bytes, sha256 {digest})"


def judged(
    effect: Examine, resolve: Callable[[str], Callable[..., Any]], serve: Callable[[Call], AttemptServices]
) -> Question:
    """The judge is asked, beside everything else that the gate looks at; where it does not answer in its time people
    decide, and where the run was stopped meanwhile it is asked again when that goes on."""
    call = effect.call
    assert call is not None
    name = next(str(look["name"]) for look in effect.looks if look["kind"] == KIND)
    looked: list[GateExamined] = []

    def unanswered(failure: str, words: str) -> GateExamined:
        if not looked:  # not even the rest of the evidence came: nothing is put to people without it
            nothing = {**_evidence(name, words), "problem": f"its evidence was not looked at in time: {words}"}
            return GateExamined(effect.task, effect.visit, (nothing,), "", {}, failure)
        evidence = (*looked[0].evidence, _evidence(name, f"the judge could not tell: {words}"))
        return looked[0]._replace(evidence=evidence, failure=failure)

    def work(stopped: Callable[[], bool]) -> GateExamined | StorageFailed | None:
        looked.append(examined(effect))
        if not call.inputs:
            return looked[0]._replace(evidence=(*looked[0].evidence, _evidence(name, _NO_ROOM)))
        return _answered(name, looked[0], Attempt(call, Record(""), serve), located(resolve, call.task.uses), stopped)

    return Question(f"`{call.task.uses}`", call.timeout or WORK, work, unanswered)


def _answered(
    name: str, examined_gate: GateExamined, attempt: Attempt, binding: Binding | Outcome, stopped: Callable[[], bool]
) -> GateExamined | StorageFailed | None:
    """What the gate looks at with the verdict of the judge among it; None where the judge was stopped."""
    context = attempt.context._replace(cancelled=stopped)
    answer: Any = binding
    if isinstance(binding, Binding):
        answer = invoke(binding, _shown(context.call.inputs, context), context)
    if isinstance(answer, StorageFailed):
        return answer
    if stopped():
        return None
    usage = {what: value for what, value in attempt.usage.items() if value is not None}
    kept = [{name: record.get(name) for name in ("name", "sha256", "size")} for record in attempt.kept]
    if not isinstance(answer, Outcome) or answer.failure:
        why = answer.message if isinstance(answer, Outcome) else "it gave no answer"
        return examined_gate._replace(
            evidence=(*examined_gate.evidence, _evidence(name, f"the judge could not tell: {why}", kept=kept)),
            usage=usage,
        )
    return examined_gate._replace(
        evidence=(*examined_gate.evidence, {**_verdict(name, answer.outputs), "kept": kept}), usage=usage
    )


def _evidence(name: str, text: str, **more: Json) -> dict[str, Json]:
    return {"kind": KIND, "name": name, "digest": sha256(text.encode()).hexdigest(), "text": text, **more}


def _verdict(name: str, outputs: dict[str, Json]) -> dict[str, Json]:
    """The evidence of an answer: met where every criterion is, a problem where one is not, else left to people."""
    verdicts = outputs.get("verdicts") or []
    kept = {key: outputs.get(key, "") for key in ("request_sha256", "reply_sha256")}
    lines = [f"{each['criterion']}: {each['met']}, {each['reason']}{_quoted(each['quotes'])}" for each in verdicts]
    text = "; ".join(lines)
    refused = [line for line, each in zip(lines, verdicts) if each["met"] == "no"]
    if refused:
        return _evidence(name, text, verdicts=verdicts, problem="; ".join(refused), **kept)
    met = bool(verdicts) and all(each["met"] == "yes" for each in verdicts)
    return _evidence(name, text, verdicts=verdicts, verdict="met" if met else "open", **kept)


def _quoted(quotes: list[str]) -> str:
    return " (" + ", ".join(f"“{quote}”" for quote in quotes) + ")" if quotes else ""
