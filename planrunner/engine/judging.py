"""A model judges criteria in plain words: what it is shown, and what its answer is worth as evidence."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from planrunner.capabilities.binding import Binding, invoke
from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.engine.attempts import Attempt, located
from planrunner.engine.calls import Place, plain_data
from planrunner.engine.effects import Examine
from planrunner.engine.evidence import examined
from planrunner.engine.questions import WORK, Question
from planrunner.engine.services import AttemptServices
from planrunner.engine.tails import Record
from planrunner.errors import StorageFailed
from planrunner.jsontext import stable_json
from planrunner.machine.events import GateExamined, GateRequested, Outcome
from planrunner.machine.judging import KIND, allowance
from planrunner.machine.state import State
from planrunner.plan.model import Budgets, Task

Json = Any

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
    room = bool(event.reserved) or allowance(state, number) is not None
    if room:
        inputs = {
            "criteria": list(event.request["words"]),
            "material": _said(state, number),
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


def _said(state: State, number: int) -> list[str]:
    """What an attempt gave and printed, which is to be judged."""
    outcome = _outcome(state, number)
    parts = []
    if outcome.outputs:
        parts.append(f"outputs: {stable_json(plain_data(outcome.outputs))}")
    for name, text in (("standard output", outcome.stdout), ("standard error", outcome.stderr)):
        if text.strip():
            parts.append(f"{name}:\n{text}")
    return parts


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
    name: str, found: GateExamined, attempt: Attempt, binding: Binding | Outcome, stopped: Callable[[], bool]
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
        return found._replace(
            evidence=(*found.evidence, _evidence(name, f"the judge could not tell: {why}", kept=kept)), usage=usage
        )
    return found._replace(evidence=(*found.evidence, {**_verdict(name, answer.outputs), "kept": kept}), usage=usage)


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
