"""The verdict of a run: its state, the cause and the next action, in one sentence."""

from __future__ import annotations

from planrunner.machine.compensation import outstanding
from planrunner.machine.ledger import PLAN, amount
from planrunner.machine.names import label, labelled
from planrunner.machine.questions import Question, gate_at, questions
from planrunner.machine.state import GateState, State
from planrunner.machine.stops import stop_text
from planrunner.records import Struct
from planrunner.views.failure import troubled
from planrunner.views.page.figures import ago, amount_text, count, duration, sentence
from planrunner.views.page.gate import deciders, named_deciders
from planrunner.views.page.signs import Sign, run_sign
from planrunner.views.status import doubtful, listed, shown_counts


class Verdict(Struct):
    """``lead`` stands out, ``text`` follows it, ``dim`` is the rest. ``gate`` is the task whose gate is the next thing
    to look at; ``act`` is the action that most people take next: review, resume, retry, again, settle or empty."""

    sign: Sign
    lead: str
    text: str = ""
    dim: str = ""
    act: str = ""
    gate: str = ""


def verdict(state: State, now: float, leased: bool) -> Verdict:
    """What stands below the title of a run at ``now``; ``leased`` says that a process acts on it."""
    sign = run_sign(state.status, state.reason)
    if state.status in ("completed", "failed", "cancelled"):
        return _ENDED[state.status](state, sign)
    if asked := [question for question in questions(state, now) if question.kind != "doubt"]:
        return _asked(state, asked, leased)
    if state.status == "running":
        return _running(state, sign, now)
    if state.status in ("paused", "blocked"):
        return _paused(state, sign, now)
    return Verdict(sign, "Not started", ".")


def _finished(state: State) -> str:
    took = duration((state.ended_at or state.now) - state.begun_at)
    return f" in {took}" if took else ""


def _counted(state: State) -> dict[str, int]:
    return {status: number for status, number in shown_counts(state).items() if number}


def _completed(state: State, sign: Sign) -> Verdict:
    counts = _counted(state)
    settled = sum(counts.values())
    parts = []
    retried = sum(task.attempts - task.past > 1 for task in state.tasks)
    if retried:
        parts.append(f"{count(retried, 'task')} needed a retry")
    if failed := counts.get("failed", 0):
        parts.append(f"{count(failed, 'failure')} recovered or tolerated")
    if idle := counts.get("omitted", 0) + counts.get("skipped", 0):
        parts.append(f"{count(idle, 'task')} not run")
    parts += _spent(state)
    dim = f"{'; '.join(parts)}." if parts else ""
    return Verdict(sign, sign.word, f"{_finished(state)}: {count(settled, 'task')}.", dim)


def _failed(state: State, sign: Sign) -> Verdict:
    failed = troubled(state)
    undone = state.compensation_log is not None and state.compensation_log.main.status == "rolled_back"
    if failed:
        number = failed[0]
        task = state.tasks[number]
        tries = task.attempts - task.past
        why = labelled(state, task.detail or task.reason.replace("_", " "))
        again = f" in all {tries} attempts" if tries > 1 else ""
        more = f"; {count(len(failed) - 1, 'other task')} failed too" if len(failed) > 1 else ""
        text = f": {label(state, number)} failed{again}{f', {why}' if why else ''}{more}."
    else:
        text = f": {state.detail or state.reason.replace('_', ' ')}."
    parts = []
    if idle := _counted(state).get("omitted", 0):
        parts.append(f"{count(idle, 'task')} not run")
    if undone:
        bare = len(state.compensation_log.main.bare) if state.compensation_log is not None else 0
        all_ = "everything it changed was rolled back"
        parts.append(f"rolled back, but for {count(bare, 'task')} without a rollback" if bare else all_)
    elif left := len(outstanding(state)):
        parts.append(f"{count(left, 'step')} that changed something {'is' if left == 1 else 'are'} still in place")
    dim = sentence("; ".join(parts + _spent(state)))
    return Verdict(sign, "Failed", text, dim, "" if undone else "retry")


def _cancelled(state: State, sign: Sign) -> Verdict:
    by = f" by {state.stop_by}" if state.stop_by else ""
    why = f": {state.stop_comment}" if state.stop_comment else ""
    left = len(outstanding(state))
    parts = [f"{count(left, 'step')} that changed something can be rolled back"] if left else []
    dim = sentence("; ".join(parts + _spent(state)))
    return Verdict(sign, sign.word, f"{by}{why}." if by or why else ".", dim, "again")


def _spent(state: State) -> list[str]:
    """What the models of a run cost, as part of a sentence; nothing where they cost nothing."""
    ledger = state.ledger
    spent = ledger.accounts[PLAN].spent if ledger is not None and PLAN in ledger.accounts else {}
    cost = amount("cost", spent.get("cost", 0))
    return [f"models cost {amount_text('cost', cost)}"] if cost else []


_ENDED = {"completed": _completed, "failed": _failed, "cancelled": _cancelled}


def _asked(state: State, asked: list[Question], leased: bool) -> Verdict:
    sign, meanwhile = run_sign("blocked"), _meanwhile(state, leased)
    gates = [question for question in asked if question.kind == "gate"]
    names = listed([label(state, question.task) for question in gates or asked if question.limit is None])
    if not gates:
        limits = [question.ask for question in asked if question.limit is not None]
        text = f": {limits[0]}" if limits else f": {names} still runs; let it continue, or end it."
        return Verdict(sign, "Waiting for a decision", text, meanwhile, "inbox")
    if len(gates) > 1:
        return Verdict(sign, f"Waiting for {len(gates)} decisions", f": {names}.", meanwhile, "inbox")
    return Verdict(sign, *_missing(gate_at(state, gates[0].task)), meanwhile, "review", gates[0].name)


def _missing(gate: GateState) -> tuple[str, str]:
    """How many approvals are missing, of whom."""
    who = named_deciders(gate)
    given = max((len(gate.agreeing(vote.choice)) for vote in gate.votes), default=0)
    left = gate.need - given
    kind = str(gate.request.get("kind", ""))
    if gate.stage == "instruction":
        return "Waiting for a person", " to carry out an instruction."
    if kind == "decision":
        return "Waiting for a decision", f" of {who}."
    if gate.need > 1:
        lead = f"Waiting for {count(left, 'more approval')}" if given else f"Waiting for {count(left, 'approval')}"
        return lead, f" of {gate.need} from {who}."
    return "Waiting for approval", f" from {deciders(gate)}."


def _meanwhile(state: State, leased: bool) -> str:
    running = [number for number in state.running if number not in state.containers]
    if running and leased:
        return f"{count(len(running), 'other task')} {'runs' if len(running) == 1 else 'run'} meanwhile."
    return "" if leased else "Nothing else can run; the run holds no process."


def _running(state: State, sign: Sign, now: float) -> Verdict:
    counts = _counted(state)
    every = sum(counts.values())
    open_ = sum(counts.get(status, 0) for status in ("pending", "queued", "running", "blocked", "in_doubt"))
    names = [label(state, number) for number in state.running if number not in state.containers]
    waits = [number for number in state.wheel.waiting() if state.tasks[number].reason == "retry"]
    if names:
        text = f" {listed(names)}." if len(names) <= 3 else f" {count(len(names), 'task')}: {listed(names[:3])} …"
    elif waits:
        due = state.wheel.due(waits[0])
        text = f": {label(state, waits[0])} is tried again {ago(due, now)}."
    else:
        text = "."
    log = state.compensation_log
    lead = "Rolling back" if log is not None and log.main.active else "Running"
    return Verdict(sign, lead, text, f"{every - open_:,} of {every:,} tasks settled.")


def _paused(state: State, sign: Sign, now: float) -> Verdict:
    if doubts := [label(state, number) for number in doubtful(state)]:
        several = len(doubts) > 1
        end, each = (f"the ends of {listed(doubts)} are", "each") if several else (f"the end of {doubts[0]} is", "it")
        text = f": {end} unknown. Say what became of {each}, and the run continues."
        return Verdict(run_sign("paused", "cut off"), "In doubt", text, "", "settle")
    if state.reason == "cut off":
        text = ": its process ended in the middle. Resume it; what had completed is kept."
        return Verdict(sign, "Interrupted", text, "", "resume")
    if state.reason == "timer":
        due = min((state.wheel.due(number) or 0.0 for number in state.wheel.waiting()), default=None)
        return Verdict(sign, "Waiting for a time", f": it is due {ago(due, now)}." if due else ".", "", "resume")
    if state.reason == "decided":
        return Verdict(sign, "Decided", ": resume the run to take the decision up.", "", "resume")
    if state.stop_reason:
        return Verdict(sign, "Paused", f": {stop_text(state)}.", "", "resume")
    return Verdict(sign, sign.word, f" ({state.reason})." if state.reason else ".", "", "resume")
