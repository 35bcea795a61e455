"""Gates: decided by checks where they can be, else by people; what a rejection and an expiry lead to.

A gate stands before a task (the task is one, a label demands one, a precondition is in plain words) or behind its
attempt (a criterion is in plain words). It is requested, examined, opened and decided; a task that is reset asks again.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from planrunner.jsontext import as_text
from planrunner.machine import rework, verdicts
from planrunner.machine.approvals import approvers, digest, reason, stands, unvisited
from planrunner.machine.clocks import meters_run
from planrunner.machine.commands import AskPeople, Command, Record
from planrunner.machine.events import (
    GateDecided,
    GateEscalated,
    GateExamined,
    GateOpened,
    GateReopened,
    GateRequested,
    GateVoted,
    Outcome,
    TaskSettled,
)
from planrunner.machine.rights import POLICY, hook_asks, policy_asks
from planrunner.machine.scope import GateScope
from planrunner.machine.state import GateState, State
from planrunner.machine.statuses import SETTLED, free_slot, move
from planrunner.machine.stops import FINAL_STOPS, outlives, stopped, task_deadline
from planrunner.machine.verdicts import judge, unmet
from planrunner.plan.expressions.evaluate import evaluate
from planrunner.plan.expressions.values import EvaluationError
from planrunner.plan.model import Expression, Gate, Reject, Task

Json = Any

_PEOPLE = frozenset({"approval", "decision", "diff"})
"""Kinds of gates that people decide, whatever was checked before."""

_PLAIN = Gate()

_REASONS = {"criteria": "words", "preconditions": "words", "instruction": "instruction"}
"""Why a task is blocked, by the stage of its gate."""


def spec(state: State, number: int, stage: str) -> Gate:
    """The gate as the plan writes it; one that asks about plain words has nothing but its question."""
    task = state.specs[number]
    if stage == "gate" and task.gate is not None:
        return task.gate
    if stage.startswith("label:"):
        return _gated(state, number).get(stage[6:], _PLAIN)
    return _PLAIN


def asks_people(written: Gate) -> bool:
    """Whether people decide a gate, by its kind or by what it says of them."""
    named = written.roles or written.people or written.ask or written.options or written.form
    return bool(written.kind in _PEOPLE or named)


def stage_before(state: State, number: int) -> str:
    """The stage of the gate that is to be decided before the task starts: its own, or the first one not decided yet
    that one of its labels or a policy demands; empty where none is."""
    task, task_state = state.specs[number], state.tasks[number]
    if task.gate is not None:
        return "" if number in state.containers else "gate"
    if task.fanout is not None:
        return ""  # of a fan-out each item is decided by itself
    for label, gate in _gated(state, number).items() if task.labels else ():
        stage = f"label:{label}"
        if label in task.labels and stage not in task_state.cleared and not _decided_before(state, number, gate):
            return stage
    if POLICY in task_state.cleared:
        return ""
    return POLICY if hook_asks(state, number) or (state.restricted and policy_asks(state, number)) else ""


def undemanded(state: State, number: int) -> bool:
    """Whether a task waits at the gate of a label that it has no more, or that demands none."""
    task_state, gate = state.tasks[number], state.tasks[number].gate
    if gate is None or gate.decision or task_state.status != "blocked" or not gate.stage.startswith("label:"):
        return False
    label = gate.stage[6:]
    return label not in state.specs[number].labels or label not in _gated(state, number)


def _decided_before(state: State, number: int, demanded: Gate) -> bool:
    """Whether people have approved of a gate of the plan that stands before the task, or before what holds it, and that
    asked for no less than what is demanded. A choice between options is not an approval."""
    seen: set[int] = set()
    todo = [number]
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        task_state, gate = state.tasks[at], state.specs[at].gate
        asked = task_state.gate if gate is not None and task_state.dependency_outcome == "completed" else None
        if gate is not None and asked is not None and not gate.options and _asked_enough(asked, demanded):
            return True
        todo += state.shape.needs[at]
        if task_state.frame.owner >= 0:
            todo.append(task_state.frame.owner)
    return False


def _asked_enough(gate: GateState, demanded: Gate) -> bool:
    """Whether ``gate`` was approved by people who might decide ``demanded`` too, and as many of them had to; where it
    has escalated, those whom it asked in the end count."""
    if gate.stage != "gate" or gate.decision != "approved":
        return False
    named = bool(demanded.roles or demanded.people)
    allowed = not named or (
        bool(gate.roles or gate.people)
        and set(gate.roles) <= set(demanded.roles)
        and set(gate.people) <= set(demanded.people)
    )
    return allowed and gate.need >= demanded.need and (gate.not_starter or not demanded.not_starter)


def _gated(state: State, number: int) -> dict[str, Gate]:
    """The gates that labels demand here: those of the plan, and of every linked plan around the task. What the plan
    says comes before what a linked one says about the same label: nothing inside can ask for less."""
    gates: dict[str, Gate] = {}
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        if frame.linked is not None:
            gates = {**gates, **dict(frame.linked.gated)}
        frame = state.tasks[frame.owner].frame
    return {**gates, **dict(state.plan.gated)}


def step(state: State, number: int, now: float) -> Command | None:
    """What follows for a task whose gate is requested; None while people or the world have to answer first."""
    gate = state.tasks[number].gate
    assert gate is not None
    if gate.decision:
        return _after_decision(state, number, gate)
    if gate.cut and not gate.opened and state.stop_reason in FINAL_STOPS and not outlives(state, number):
        return stopped(state, state.specs[number])
    if not gate.examined:
        return None if number in state.asked else AskPeople(number, gate.stage)
    if not gate.opened:
        return Record(_examined(state, number, gate, now))
    if gate.verdict:
        return Record(_decided_by_votes(state, number, gate))
    if gate.expires_at is not None and gate.expires_at <= now:
        return Record(on_expiry(state, number, now))
    return None


def _examined(state: State, number: int, gate: GateState, now: float) -> GateOpened | GateDecided:
    """The checks first: a gate that is for people as well is not put to them when one fails."""
    task, written = state.specs[number], spec(state, number, gate.stage)
    failed = [str(item["problem"]) for item in gate.evidence if item.get("problem")]
    scope = GateScope(state, number)
    failed += [why for check in written.checks if check.expression is not None and (why := unmet(check, scope))]
    if failed:
        return GateDecided(task.id, gate.visit, "failed", ("checks",), "; ".join(failed))
    choice, unchosen = ("", "") if written.choose is None else chosen(gate.request, written.choose, scope)
    if written.choose is not None and choice:
        reason = f"`{written.choose.text.strip()}` is `{choice}`"
        outputs = {**_outputs("passed", CHOSEN[0], reason), "choice": choice}
        return GateDecided(task.id, gate.visit, "passed", CHOSEN, reason, outputs)
    judged = verdicts.judge_met(gate.evidence)
    if judged is not None or not (asks_people(written) or gate.request.get("words")):
        by, reason = ("checks", "") if judged is None else (f"judge {judged['name']}", str(judged["text"]))
        return GateDecided(task.id, gate.visit, "passed", (by,), reason, _outputs("passed", by, reason))
    request = gate.request
    return GateOpened(
        task.id,
        gate.visit,
        gate.attempt,
        gate.stage,
        written.kind,
        request.get("ask", ""),
        digest(state, number, gate),
        tuple(request.get("options", ())),
        tuple(request.get("form", ())),
        tuple({name: value for name, value in item.items() if name != "text"} for item in gate.evidence),
        written.roles,
        written.people,
        written.need,
        written.not_starter,
        _expiry(state, task, written, now),
        unchosen,
    )


CHOSEN = ("choose",)
"""Who decides a gate whose `choose` names one of its options."""
_LONGEST_CHOICE = 80
"""Characters of what `choose` gave that people are shown."""


def chosen(request: dict[str, Json], choose: Expression, scope: GateScope) -> tuple[str, str]:
    """The option that is taken without asking; or else why people are asked, with nothing to say where the expression
    gives an empty text."""
    try:
        name = evaluate(choose.tree, scope)
    except EvaluationError as error:
        return "", f"`choose` has no value: {error}"
    known = next((str(each["name"]) for each in request.get("options", ()) if each["name"] == name), "")
    given = " ".join(as_text(name).split())[:_LONGEST_CHOICE]
    return known, "" if known or name in ("", None) else f"`choose` gave `{given}`, which is not an option"


def _expiry(state: State, task: Task, written: Gate, now: float) -> float | None:
    """When people must have decided: the time that the gate leaves them, and the deadline of the task."""
    expires = None if written.expires is None else now + written.expires
    if task.due is None and task.due_in is None:
        return expires
    due = task_deadline(state, task)
    return due if expires is None else expires if due is None else min(expires, due)


def on_expiry(state: State, number: int, now: float) -> GateEscalated | GateDecided:
    """A gate expired without a decision: it escalates if the plan says so, else it is decided. Never an approval."""
    task_state = state.tasks[number]
    gate = task_state.gate
    assert gate is not None
    task, written = state.specs[number], spec(state, number, gate.stage)
    others = written.escalate
    if written.on_expiry == "escalate" and others is not None and not gate.escalated:
        due = None if written.expires is None else now + written.expires
        asked = (others.roles, others.people, others.need, others.not_starter)
        return GateEscalated(task.id, gate.visit, *asked, due)
    reason = "no decision in time"
    return GateDecided(task.id, gate.visit, "expired", (), reason, _outputs("expired", "", reason))


def _decided_by_votes(state: State, number: int, gate: GateState) -> GateDecided:
    """The outcome of enough votes: what the form was filled with becomes outputs, the last word on a field counts."""
    last = gate.votes[-1]
    if last.verdict == "reject":
        outputs = _outputs("rejected", last.by, last.reason)
        return GateDecided(state.specs[number].id, gate.visit, "rejected", (last.by,), last.reason, outputs)
    names = tuple(gate.agreeing(last.choice))
    outputs = {"choice": last.choice} if last.choice else {}
    for vote in gate.votes:
        outputs |= vote.fields if vote.choice == last.choice else {}
    outputs = {**_outputs("approved", ", ".join(names), last.reason), **outputs}
    outputs["decision"] = "approved"
    if gate.stage == "instruction":
        outputs = instruction_results(state.specs[number], outputs)
    return GateDecided(state.specs[number].id, gate.visit, "approved", names, last.reason, outputs)


def _outputs(decision: str, by: str, reason: str) -> dict[str, Json]:
    return {"decision": decision, "by": by, "reason": reason, "comment": reason}


_PASSED: dict[tuple[str, ...], str] = {("checks",): "passed its checks", CHOSEN: "chosen without asking"}


def sentence(gate: GateState) -> str:
    """How a decided gate was decided, for people."""
    last = gate.votes[-1] if gate.votes and not gate.decision else None
    by = gate.by if last is None else [last.by] if last.verdict == "reject" else gate.agreeing(last.choice)
    reason = gate.reason if last is None else last.reason
    who = ", ".join(by)
    text = {
        "passed": _PASSED.get(gate.by, f"passed by {who}"),
        "failed": "a check failed",
        "expired": "expired",
    }.get(gate.decision, "")
    if gate.stage == "instruction":
        text = f"{'done' if (gate.decision or gate.verdict) == 'approved' else 'failed'}, says {who}"
    text = text or f"{gate.decision or gate.verdict} by {who}"
    return f"{text}: {reason}" if reason else text


def _after_decision(state: State, number: int, gate: GateState) -> Command | None:
    task = state.specs[number]
    if gate.decision in ("passed", "approved"):
        if gate.stage in ("instruction", "gate"):
            return carried_out(state, number, sentence(gate))
        return Record(TaskSettled(task.id, "completed", "", sentence(gate)))
    written = spec(state, number, gate.stage)
    failure = "expired" if gate.decision == "expired" and written.on_expiry == "fail" else "rejected"
    if failure == "rejected":
        back = _back(state, number, gate, written.on_reject)
        if back is not None:
            return back
    reason = {"failed": "checks", "expired": "expired"}.get(gate.decision, "rejected")
    if gate.stage == "instruction":
        reason, failure = "failed", "logic"
    return Record(TaskSettled(task.id, "failed", reason, sentence(gate), failure))


def _back(state: State, number: int, gate: GateState, reject: Reject) -> Record | None:
    """The run goes back where the plan says so and rounds are left."""
    if gate.stage == "criteria":
        return rework.by_edge(state, number, sentence(gate), "rejected") if number in state.shape.reworks else None
    target = rework_target(state, number, reject)
    if target is None:
        return None
    return Record(rework.send_back(state, number, target, gate.reason, ", ".join(gate.by)))


def rework_target(state: State, number: int, reject: Reject) -> int | None:
    """The task that a rejection sends the run back to; None without such a task, or when its rounds are used up."""
    if reject.action != "rework" or state.sent_back.get(number, 0) >= reject.max:
        return None
    return state.tasks[number].frame.index.get(reject.target)


# Folds


def _gate_of(state: State, task: str, visit: int) -> tuple[int, GateState | None]:
    """The gate of that visit; None for what comes too late, after a reset or the end of the task."""
    number = state.index[task]
    task_state = state.tasks[number]
    late = task_state.gate is None or task_state.gate.visit != visit or task_state.status in SETTLED
    return number, None if late else task_state.gate


def gate_requested(state: State, event: GateRequested, at: float) -> None:
    number = state.index[event.task]
    task_state = state.tasks[number]
    task_state.gate = gate = GateState(event.visit, event.stage, event.attempt, event.request)
    kept = None if task_state.kept is None else task_state.kept.gate
    gate.again = state.again.pop(unvisited(event.task), "")
    if not gate.again and kept is not None and kept.decision == "approved" and not stands(state, number, kept):
        gate.again = reason((), kept.by)
    verdicts.judge_reserved(state, number, event)
    state.asked.add(number)
    state.candidates.pop(number, None)


def gate_examined(state: State, event: GateExamined, at: float) -> None:
    number, gate = _gate_of(state, event.task, event.visit)
    if event.failure == "interrupted" and gate is not None:
        gate.cut = True
        if state.stop_reason not in FINAL_STOPS:
            return  # the judge is asked again when the run goes on
    verdicts.judge_settled(state, number, event)
    if state.tasks[number].visit == event.visit:
        state.asked.discard(number)
    if gate is None or gate.opened:
        return
    gate.examined = True
    gate.evidence, gate.policy = event.evidence, event.policy
    state.candidates[number] = None


def gate_opened(state: State, event: GateOpened, at: float) -> None:
    number = state.index[event.task]
    task_state = state.tasks[number]
    gate = task_state.gate
    assert gate is not None
    gate.opened, gate.opened_at, gate.shown = True, at, event.shown
    gate.roles, gate.people, gate.need = event.roles, event.people, event.need
    gate.not_starter, gate.expires_at = event.not_starter, event.expires_at
    free_slot(state, number)
    if task_state.status != "blocked":
        move(state, number, task_state, "blocked")
    task_state.judged = True
    task_state.reason = _REASONS.get(event.stage, "gate")
    gate.unchosen = event.unchosen
    task_state.detail = asking(event.ask, event.unchosen)
    state.candidates.pop(number, None)
    if event.expires_at is not None:
        state.wheel.set(event.expires_at, number)
    if state.closing:
        state.candidates[number] = None


def asking(ask: str, unchosen: str) -> str:
    """What people are asked, and why they are where the plan could have chosen."""
    return f"{ask} ({unchosen})" if unchosen else ask


def gate_reopened(state: State, event: GateReopened, at: float) -> None:
    number, gate = _gate_of(state, event.task, event.visit)
    if gate is not None:
        gate.request, gate.evidence, gate.policy, gate.shown = event.request, event.evidence, event.policy, event.shown
        if event.changed:
            gate.again = reason(event.changed, approvers(gate))
        gate.votes = []
        state.tasks[number].detail = asking(str(event.request.get("ask", "")), gate.unchosen)


def gate_voted(state: State, event: GateVoted, at: float) -> None:
    number, gate = _gate_of(state, event.task, event.visit)
    if gate is not None:
        gate.votes = [
            *(vote for vote in gate.votes if vote.by != event.by),
            event,
        ]  # who votes again changes their mind
        state.candidates[number] = None


def gate_escalated(state: State, event: GateEscalated, at: float) -> None:
    number, gate = _gate_of(state, event.task, event.visit)
    if gate is None:
        return
    gate.escalated = True
    gate.roles, gate.people, gate.need = event.roles, event.people, event.need
    gate.not_starter, gate.expires_at = event.not_starter, event.expires_at
    gate.votes = []
    state.wheel.drop(number)
    if event.expires_at is not None:
        state.wheel.set(event.expires_at, number)
    state.candidates.pop(number, None)


def gate_decided(state: State, event: GateDecided, at: float) -> None:
    number, gate = _gate_of(state, event.task, event.visit)
    if gate is None:
        return
    task_state = state.tasks[number]
    gate.decision, gate.by, gate.reason = event.decision, event.by, event.reason
    meters_run(state, number, at)
    state.wheel.drop(number)
    state.candidates[number] = None
    if event.decision in ("passed", "approved"):
        task_state.cleared += (gate.stage,)
    if gate.stage in ("gate", "instruction"):
        failure = "logic" if event.problem else ""
        task_state.outcome = Outcome(failure, event.problem, event.outputs, no_value=bool(failure))
        task_state.outputs = event.outputs
    elif gate.is_behind:
        task_state.facts = None  # the world may have changed while people took their time
        task_state.reason = task_state.detail = ""
        if task_state.status == "blocked":
            move(state, number, task_state, "pending")


def ask_anew(state: State, changed: str) -> None:
    """What was approved or asked in another run, or under another policy, counts for nothing, where it is not behind a
    task that has ended: those that wait ask again, and those that were let through and have not begun do too.
    ``changed`` names what did."""
    for number, task_state in enumerate(state.tasks):
        gate = task_state.gate
        if gate is None or task_state.status in SETTLED:
            continue
        state.wheel.drop(number)
        state.asked.discard(number)
        state.candidates[number] = None
        task_state.cleared = ()
        task_state.gate = None
        if by := approvers(gate):
            state.again[unvisited(state.specs[number].id)] = reason((changed,), by)
        if task_state.status == "blocked" and gate.stage == "criteria":
            task_state.gate = GateState(gate.visit, gate.stage, gate.attempt, {})
        elif task_state.status == "blocked":
            move(state, number, task_state, "pending")
            task_state.reason = task_state.detail = ""


TEXT = "text"
"""The output, and the field of the form, that says what was done."""


def instruction_question(task: Task) -> str:
    """What a person is asked to do."""
    words = task.command.strip()
    return f"carry this out: {words}" if words else f"carry `{task.id}` out: nothing else says how to do it"


def instruction_files(task: Task) -> list[str]:
    """The files that a person leaves who carries a task out, relative to the directory of the run."""
    return [output.path for output in task.outputs if output.path]


def instruction_form(task: Task) -> list[dict[str, Json]]:
    """The fields to be filled: every declared output that nothing else gives, and what was done."""
    asked = [output for output in task.outputs if output.value is None and not output.path and output.name != TEXT]
    fields: list[dict[str, Json]] = []
    for output in asked:
        about = {"description": output.description} if output.description else {}
        fields.append({"name": output.name, "type": output.type, "required": True, **about})
    return [*fields, {"name": TEXT, "type": "string", "default": "", "description": "what was done, else the reason"}]


def instruction_results(task: Task, outputs: dict[str, Json]) -> dict[str, Json]:
    """The outputs of a task that was carried out: what was filled in, the text, and the files that it declares."""
    files = {output.name: output.path for output in task.outputs if output.path}
    constants = {output.name: output.value for output in task.outputs if output.value is not None}
    return {**files, **constants, **outputs, TEXT: outputs.get(TEXT) or outputs["reason"]}


def carried_out(state: State, number: int, how: str) -> Command:
    """People approved, or say that it is done: the criteria of the task decide; those in words are asked about."""
    task, task_state = state.specs[number], state.tasks[number]
    verdict = judge(state, number)
    if verdict.failure:
        return Record(TaskSettled(task.id, "failed", verdict.reason, verdict.detail, verdict.failure))
    if verdict.words and "criteria" not in task_state.cleared:
        return AskPeople(number, "criteria")
    return Record(TaskSettled(task.id, "completed", "", how))


def approved(state: State, number: int) -> tuple[str, ...]:
    """The digests, ``sha256:…``, of the evidence that people approved of at the gates that the task comes after, or at
    its own. Evidence of which they were shown but a part does not count, nor do gates that a check or a model passed.
    """
    return tuple(sorted({digest for gate in _gates_of(state, number) for digest in _shown_by(gate)}))


def _gates_of(state: State, number: int) -> Iterator[GateState]:
    todo, known = [number], {number}
    while todo:
        number = todo.pop()
        gate = state.tasks[number].gate
        if gate is not None and gate.decision == "approved":
            yield gate
        routes = [route.source for route in state.shape.routes_in.get(number, ())]
        owner = state.tasks[number].frame.owner
        for other in (*state.shape.needs[number], *routes, *((owner,) if owner >= 0 else ())):
            if other not in known:
                known.add(other)
                todo.append(other)


def _shown_by(gate: GateState) -> Iterator[str]:
    for item in gate.evidence:
        text, digest = item.get("text"), item.get("digest")
        if isinstance(text, str) and digest == f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}":
            yield digest
