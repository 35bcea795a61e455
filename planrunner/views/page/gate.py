"""One gate for the page: its question, the evidence with what changed since the last visit, what follows from each
answer, the form that decides it, and its history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from planrunner.escapes import harmless
from planrunner.jsontext import as_text
from planrunner.machine.events import (
    AttemptEnded,
    Entry,
    Event,
    GateDecided,
    GateEscalated,
    GateExamined,
    GateOpened,
    GateReopened,
    GateVoted,
    TasksReset,
)
from planrunner.machine.gates import sentence
from planrunner.machine.names import label
from planrunner.machine.questions import named, tally, who_may
from planrunner.machine.state import GateState, State
from planrunner.plan.expressions.quantities import format_percent
from planrunner.records import Struct
from planrunner.views.hypotheses import arithmetic
from planrunner.views.page.consequences import Consequence, causes_rework, consequences
from planrunner.views.page.difference import Line, counted, difference, patch_lines
from planrunner.views.page.fields import Field, fields_of, param_of
from planrunner.views.page.figures import ago, count, largest_unit, moment, plain
from planrunner.views.status import about

Json = Any

_LONGEST = 2_000
"""Characters of an input or a fact about the task that are shown."""


class Evidence(Struct):
    """A piece of evidence. ``said`` stands beside its name; ``lines`` is its difference from the last visit or a patch,
    ``text`` its content otherwise; ``open`` says that it is shown unfolded."""

    name: str
    said: str
    digest: str
    problem: str = ""
    lines: tuple[Line, ...] = ()
    text: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    open: bool = False


class Choice(Struct):
    """An option of a decision."""

    name: str
    title: str
    description: str
    pros: tuple[str, ...]
    cons: tuple[str, ...]
    cost: str
    chosen: bool


class Step(NamedTuple):
    """A line of a gate's history. ``meta`` is when and in which visit, ``quote`` what was said with it."""

    state: str
    icon: str
    who: str
    text: str
    meta: str
    quote: str = ""


class Belief(Struct):
    """A hypothesis that a gate shows."""

    name: str
    said: str
    statement: str
    arithmetic: str


class GatePage(Struct):
    """Everything that is shown of a gate. ``waits`` is False for one that is decided, which ``outcome`` then tells.
    ``facts`` are who decides, how far it is and when it expires, in short words."""

    run: str
    plan: str
    gate: str
    label: str
    stage: str
    visit: int
    starter: str
    question: str
    shown: str
    waits: bool
    outcome: str
    facts: tuple[tuple[str, str], ...]
    words: tuple[str, ...]
    about: tuple[tuple[str, str], ...]
    inputs: tuple[tuple[str, str], ...]
    choices: tuple[Choice, ...]
    fields: tuple[Field, ...]
    beliefs: tuple[Belief, ...]
    evidence: tuple[Evidence, ...]
    follows: tuple[Consequence, ...]
    history: tuple[Step, ...]
    causes_rework: bool
    asks_done: bool
    """A person carries the task out: approving says that it is done."""


def gate_page(
    state: State, entries: Sequence[Entry], number: int, now: float, sent: Mapping[str, str] | None = None
) -> GatePage:
    """The gate of a task, that of its present visit. ``now`` is seconds since 1970. ``sent`` is what a form sent
    that was refused, by the name of the control, so that nothing has to be typed again."""
    sent = sent or {}
    gate = state.tasks[number].gate
    assert gate is not None, "the task has a gate"
    request, path = gate.request, state.specs[number].id
    params = [param_of(field) for field in request.get("form", ())]
    given = {name.removeprefix("f."): value for name, value in sent.items() if name.startswith("f.")}
    shown_inputs = request.get("inputs", {})
    return GatePage(
        run=state.run_id,
        plan=state.plan.title or state.plan.id,
        gate=path,
        label=label(state, number),
        stage=gate.stage,
        visit=gate.visit,
        starter=str(state.environment.get("user") or ""),
        question=plain(str(request.get("ask", "")) or path),
        shown=gate.shown,
        waits=gate.waits and state.tasks[number].status == "blocked",
        outcome="" if gate.waits else _outcome(state, number, gate),
        facts=tuple(_facts(gate, now)),
        words=tuple(harmless(word) for word in request.get("words", ()) if word not in request.get("ask", "")),
        about=tuple((name, _text(value)) for name, value in about(state, number).items()),
        inputs=tuple((name, _text(value)) for name, value in shown_inputs.items()),
        choices=tuple(_choices(request, sent.get("choice", ""))),
        fields=fields_of(params, "f.", given),
        beliefs=tuple(_beliefs(request)),
        evidence=tuple(_evidence(gate, _before(entries, path, gate.visit))),
        follows=consequences(state, number, gate) if gate.waits else (),
        history=tuple(_history(entries, path, gate, now)),
        causes_rework=causes_rework(state, number, gate),
        asks_done=gate.stage == "instruction",
    )


def _outcome(state: State, number: int, gate: GateState) -> str:
    """How a gate was decided; a rejection that sends the run back is called what its button says."""
    text = harmless(sentence(gate))
    sent_back = is_rejected(gate) and causes_rework(state, number, gate)
    return text.replace("rejected by", "pushed back by", 1) if sent_back else text


def is_rejected(gate: GateState) -> bool:
    return (gate.decision or gate.verdict) == "rejected"


def named_deciders(gate: GateState) -> str:
    """The roles and people that decide, without marks of code."""
    return harmless(named(gate)).replace("`", "")


def deciders(gate: GateState) -> str:
    """``2 of role release or ana, except the person who started the run``."""
    need = f"{gate.need} of " if gate.need > 1 else ""
    return need + harmless(who_may(gate)).replace("`", "")


def _facts(gate: GateState, now: float) -> Iterator[tuple[str, str]]:
    yield "Needs", deciders(gate)
    if gate.need > 1 or gate.votes:
        by = ", ".join(vote.by for vote in gate.votes if vote.verdict == "approve")
        yield "So far", tally(gate.votes, gate.need) + (f" ({by})" if by else "")
    if not gate.waits:
        return
    yield "Waiting", largest_unit(max(0.0, now - gate.opened_at))
    if gate.expires_at is None:
        yield "Expires", "never"
    else:
        left = gate.expires_at - now
        yield "Expires", f"in {largest_unit(left)}" if left > 0 else "expired; the run settles it when it continues"
    if gate.again:
        yield "Asks again", harmless(gate.again)
    if gate.escalated:
        yield "Escalated", "others were asked after the first time limit"


def _choices(request: Mapping[str, Json], chosen: str) -> Iterator[Choice]:
    for option in request.get("options", ()):
        name = str(option["name"])
        yield Choice(
            name,
            harmless(str(option.get("title") or name)),
            harmless(str(option.get("description") or "")),
            tuple(harmless(str(each)) for each in option.get("pros", ())),
            tuple(harmless(str(each)) for each in option.get("cons", ())),
            harmless(str(option.get("cost") or "")),
            name == chosen,
        )


def _beliefs(request: Mapping[str, Json]) -> Iterator[Belief]:
    for row in request.get("hypotheses", ()):
        said = f"{format_percent(row['confidence'])} {row['status']}"
        yield Belief(str(row["hypothesis"]), said, harmless(str(row["statement"] or "")), arithmetic(row))


def _text(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return plain(text[:_LONGEST] + ("…" if len(text) > _LONGEST else ""))


# Evidence


def _before(entries: Sequence[Entry], task: str, visit: int) -> dict[str, dict[str, Json]] | None:
    """The evidence of the last visit before this one, or of what was shown before it changed, by name; None for the
    first time that the gate asks."""
    seen: list[tuple[dict[str, Json], ...]] = []
    for entry in entries:
        event = entry.event
        if isinstance(event, GateExamined | GateReopened) and event.task == task and event.visit <= visit:
            seen.append(event.evidence)
    if len(seen) < 2:
        return None
    return {str(item["name"]): item for item in seen[-2]}


def _evidence(gate: GateState, before: dict[str, dict[str, Json]] | None) -> Iterator[Evidence]:
    for item in gate.evidence:
        name, text = str(item["name"]), plain(str(item.get("text") or ""))
        earlier = None if before is None else before.get(name)
        digest = str(item.get("digest", "")).removeprefix("sha256:")
        lines = _lines(str(item["kind"]), text, earlier)
        problem = harmless(str(item.get("problem") or ""))
        yield Evidence(
            f"judge {name}" if item["kind"] == "judge" else harmless(name),
            _said(item, digest, earlier, before is not None, lines),
            digest[:8],
            problem,
            lines,
            "" if lines else text,
            tuple((kind, str(number)) for kind, number in (item.get("counts") or {}).items()),
            bool(problem) or earlier is None or str(earlier.get("digest", "")).removeprefix("sha256:") != digest,
        )


def _lines(kind: str, text: str, earlier: dict[str, Json] | None) -> tuple[Line, ...]:
    if kind == "diff":
        return patch_lines(text)
    return () if earlier is None else difference(plain(str(earlier.get("text") or "")), text)


def _said(
    item: Mapping[str, Json], digest: str, earlier: dict[str, Json] | None, again: bool, lines: Sequence[Line]
) -> str:
    parts: list[str] = []
    if again:
        if earlier is None:
            parts.append("not shown before")
        elif str(earlier.get("digest", "")).removeprefix("sha256:") == digest:
            parts.append("unchanged since the last time")
        else:
            parts.append(f"{counted(lines)} since the last time" if lines else "changed since the last time")
    if isinstance(item.get("size"), int):
        parts.append(count(item["size"], "byte"))
    elif item["kind"] not in ("file", "text"):
        parts.append(str(item["kind"]))
    return " · ".join(parts)


# History


def _history(entries: Sequence[Entry], task: str, gate: GateState, now: float) -> Iterator[Step]:
    """What happened at the gate, the newest first; with what ran again after it pushed back."""
    steps: list[Step] = []
    again: set[str] = set()
    for entry in entries:
        event, when = entry.event, moment(entry.at, now)
        if isinstance(event, TasksReset) and event.cause == task:
            again = set(event.tasks) - {task}
            steps = [_sent_back(step) if step is steps[-1] else step for step in steps]
        elif isinstance(event, AttemptEnded) and event.task in again:
            again.discard(event.task)
            word = "failed again" if event.outcome.failure else "ran again"
            steps.append(Step("", "retry", "", f"{event.task} {word}", when))
        elif getattr(event, "task", "") == task and (step := _step(event, when)):
            steps.append(step)
    if gate.waits:
        missing = f"Waiting for {tally(gate.votes, gate.need)}" if gate.votes else f"Waiting for {deciders(gate)}"
        steps.append(Step("gate", "wait", "", missing, ago(gate.opened_at, now)))
    return reversed(steps)


def _sent_back(step: Step) -> Step:
    """A rejection that sent the run back."""
    return step._replace(state="gate", icon="back", text="pushed back") if step.text == "rejected" else step


def _step(event: Event, when: str) -> Step | None:
    visit = f"{when} · visit {getattr(event, 'visit', 1)}"
    if isinstance(event, GateOpened):
        return Step("gate", "gate", "", "Asked", visit)
    if isinstance(event, GateReopened):
        what = ", ".join(event.changed[:3])
        return Step("wait", "chg", "", f"What was shown changed ({what}); earlier approvals no longer count", visit)
    if isinstance(event, GateEscalated):
        return Step("wait", "arrow", "", "Escalated: no decision in time", visit)
    if isinstance(event, GateVoted):
        return _vote_step(event, visit)
    if isinstance(event, GateDecided) and event.decision in ("passed", "failed", "expired"):
        words = {"passed": "Passed its checks", "failed": "A check failed", "expired": "Expired without a decision"}
        sign = "ok" if event.decision == "passed" else "bad"
        return Step(sign, sign, "", words[event.decision], visit, harmless(event.reason))
    return None


def _vote_step(event: GateVoted, visit: str) -> Step:
    given = [f"{name} = {as_text(value)}" for name, value in event.fields.items()]
    said = " · ".join(filter(None, (event.choice, *given)))
    if event.verdict == "reject":
        return Step("bad", "bad", event.by, "rejected", visit, harmless(event.reason))
    word = f"chose {said}" if event.choice else f"answered {said}" if said else "approved"
    return Step("ok", "ok", event.by, harmless(word), visit, harmless(event.reason))
