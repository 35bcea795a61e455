"""The verdict on an attempt: failure modes, criteria, class of a failure, LLM judge, and whether to try again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from planrunner.machine.budgets import chain, fits, ledger_of, limit_of
from planrunner.machine.events import GateExamined, GateRequested, Outcome
from planrunner.machine.graph import Frame
from planrunner.machine.ledger import SPENDABLE, units
from planrunner.machine.scope import FrameScope, TaskScope
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import explain, truth
from planrunner.plan.expressions.values import EvaluationError, Scope
from planrunner.plan.model import Criterion, Loop, Retry, Task
from planrunner.plan.tasks import reads_exit_code
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.machine.state import GateState


class Verdict(Struct):
    """``failure`` is the class of the failure, empty when the attempt did what the task asks; ``words`` are the
    criteria that only a judge or a person can decide."""

    failure: str = ""
    reason: str = ""
    detail: str = ""
    words: tuple[str, ...] = ()
    no_value: bool = False
    """An expression of the plan has no value."""


def judge(state: State, number: int) -> Verdict:
    """The verdict on the attempt that ended last."""
    task = state.specs[number]
    task_state = state.tasks[number]
    outcome = task_state.outcome
    assert outcome is not None
    if task_state.reason == "settled":
        return Verdict(outcome.failure, "doubt" if outcome.failure else "", outcome.message if outcome.failure else "")
    scope = TaskScope(state, number)
    mode = _failure_mode(task, scope, outcome)
    if mode is not None:
        return mode
    if outcome.failure and not _exit_is_judged(task, outcome):
        return Verdict(outcome.failure, "failed", outcome.message)
    verdict = _criteria((*task.expect, *task.postconditions), scope)
    return _lacks(task, outcome) if verdict == _DONE and outcome.failure else verdict


_DONE = Verdict()


def _exit_is_judged(task: Task, outcome: Outcome) -> bool:
    """A task whose own criteria read the exit code decides by them what a non-zero code means."""
    return outcome.failure == "logic" and bool(outcome.exit_code) and reads_exit_code(task)


def _lacks(task: Task, outcome: Outcome) -> Verdict:
    """The verdict on an exit code other than 0 that the criteria accept: all that is declared has to be there."""
    for output in task.outputs:
        if output.value is None and output.name not in outcome.outputs:
            return Verdict("logic", "failed", f"the declared output `{output.name}` was not given")
    return _DONE


def _failure_mode(task: Task, scope: TaskScope, outcome: Outcome) -> Verdict | None:
    """The first failure mode that the attempt shows. Where none does and a detector has no value, the attempt fails for
    that, under its own class where it failed already."""
    problem = ""
    for mode in task.failure_modes:
        if mode.detect is None or mode.detect.expression is None:
            continue
        try:
            if truth(mode.detect.expression.tree, scope):
                return Verdict(mode.name, "failure_mode", f"failure mode `{mode.name}`: `{mode.detect.text}`")
        except EvaluationError as error:
            problem = problem or f"`{mode.detect.text}`, which detects `{mode.name}`, has no value: {error}"
    if not problem:
        return None
    detail = f"{outcome.message}; {problem}" if outcome.failure and outcome.message else problem
    return Verdict(outcome.failure or "logic", "failure_mode", detail, no_value=True)


def _criteria(criteria: tuple[Criterion, ...], scope: TaskScope) -> Verdict:
    words = []
    for criterion in criteria:
        if criterion.expression is None:
            words.append(criterion.text)
            continue
        failed, no_value = _unmet(criterion, scope)
        if failed:
            return Verdict("logic", "criterion", failed, no_value=no_value)
    return Verdict(words=tuple(words)) if words else _DONE


def unmet(criterion: Criterion, scope: Scope) -> str:
    """Why an expression does not hold, with the values it read; empty when it holds."""
    return _unmet(criterion, scope)[0]


def _unmet(criterion: Criterion, scope: Scope) -> tuple[str, bool]:
    """The same, and whether that is because it has no value."""
    assert criterion.expression is not None
    tree = criterion.expression.tree
    try:
        return "" if truth(tree, scope) else explain(tree, scope), False
    except EvaluationError as error:
        return f"`{criterion.text}` has no value: {error}", True


def why_again(state: State, number: int, attempt: int) -> str:
    """The criterion for which an attempt without a message is followed by another one."""
    return (judge_failed(state.tasks[number].gate, attempt) or judge(state, number)).detail


_REASONS = ("when", "join", "edge", "settings")
"""Reasons of failures that are nothing but a value that is missing, or does not fit."""

_JUDGED = ("criterion", "failure_mode")
"""Reasons of failures by what the plan asks of an attempt, which may be false or have no value."""


def lacks_value(state: State, number: int) -> bool:
    """Whether that is why a failed task failed, or why a task inside it did."""
    task_state = state.tasks[number]
    if task_state.reason in _REASONS or (task_state.outcome is not None and task_state.outcome.no_value):
        return True
    if task_state.reason in _JUDGED:
        return judge(state, number).no_value
    if task_state.inner is None:
        return False
    loop = state.specs[number].loop
    return _until(state, task_state.inner, loop) or any(lacks_value(state, each) for each in task_state.inner.failures)


def _until(state: State, frame: Frame, loop: Loop | None) -> bool:
    if loop is None or loop.until is None or frame.kind != "round":
        return False
    try:
        truth(loop.until.tree, FrameScope(state, frame))
    except EvaluationError:
        return True
    return False


Json = Any

KIND = "judge"
"""The kind of the look, and of the evidence, that a judge gives."""


def llm_judge(state: State, stage: str) -> str:
    """The model that judges criteria in this run; empty where people decide at once."""
    return str(state.environment.get("judge", "")) if stage == "criteria" else ""


def judge_allowance(state: State, number: int) -> dict[str, Json] | None:
    """What the judge of a task may use, of each amount that is limited around it. None where the project does not say
    how much that is, or a budget leaves no room for it: the judge is not asked then."""
    if state.ledger is None:
        return {}
    limited = {what for scope in chain(state, number) for what in SPENDABLE if limit_of(state, scope, what) is not None}
    given = state.environment.get("judging") or {}
    amounts = {what: given.get(what) for what in SPENDABLE if what in limited}
    wanted = {what: units(what, value) for what, value in amounts.items()}
    if None in wanted.values() or fits(state, number, {what: more or 0 for what, more in wanted.items()}) is not None:
        return None
    return amounts


def judge_reserved(state: State, number: int, event: GateRequested) -> None:
    """What the judge may use is set aside with the intent to ask it."""
    if event.reserved:
        amounts = {what: units(what, given) or 0 for what, given in event.reserved.items()}
        ledger_of(state).reserve(chain(state, number), number, amounts)


def judge_settled(state: State, number: int, event: GateExamined) -> None:
    """The judge has answered, or was not asked."""
    if state.ledger is not None and (event.usage or number in state.ledger.holdings):
        state.ledger.settle(chain(state, number), number, event.usage)


def judge_met(evidence: Sequence[Mapping[str, Json]]) -> Mapping[str, Json] | None:
    """The evidence by which a judge found every criterion met."""
    return next((item for item in evidence if item.get("kind") == KIND and item.get("verdict") == "met"), None)


def judge_unsure(gate: GateState | None) -> str:
    """Why a judge left to people what they are asked now; empty where none did."""
    if gate is None or not gate.waits:
        return ""
    items = (item for item in gate.evidence if item.get("kind") == KIND and item.get("verdict") != "met")
    return next((f"judge `{item.get('name')}`: {item.get('text')}" for item in items), "")


def judge_failed(gate: GateState | None, attempt: int) -> Verdict | None:
    """The verdict on an attempt of which a judge found that a criterion is not met."""
    if gate is None or (gate.stage, gate.attempt, gate.decision) != ("criteria", attempt, "failed"):
        return None
    return Verdict("logic", "criterion", gate.reason)


def is_retried(retry: Retry, attempts: int, failure: str) -> bool:
    """True when attempts are left and the failure class is one that the task retries.

    Without a list every class is retried but policy, preconditions and what people have refused. A timeout counts as
    transient; a failure mode only under its name, since its author wrote down what to do about it.
    """
    if attempts >= retry.attempts:
        return False
    if not retry.on:
        return failure not in ("policy", "precondition", "rejected", "expired")
    return failure in retry.on or "any" in retry.on or (failure == "timeout" and "transient" in retry.on)


def retry_policy(retry: Retry, outcome: Outcome | None, attempts: int, failure: str) -> Retry | None:
    """The policy by which a failed attempt is followed by another one: that of the task, else the one that its
    capability asks for; None where neither repeats it."""
    return next((each for each in (retry, asked_retry(outcome)) if is_retried(each, attempts, failure)), None)


def asked_retry(outcome: Outcome | None) -> Retry:
    """The policy that a capability asks for with the failure of an attempt."""
    return Retry(**outcome.retry, on=(outcome.failure,)) if outcome is not None and outcome.retry else Retry()


def retry_delay(retry: Retry, attempts: int, key: str, asked: float | None = None) -> float:
    """Seconds before the next attempt: those of the backoff, or the ``asked`` ones of the other side where they are
    more, up to ``max_delay``. The jitter is a hash of ``key`` (seed, run, task and attempt), so that the same run waits
    the same time again."""
    if retry.backoff == "fixed":
        wait = retry.delay
    elif retry.backoff == "linear":
        wait = retry.delay * attempts
    else:
        wait = retry.delay * 2.0 ** min(attempts - 1, 60)
    wait = min(wait, retry.max_delay)
    part = int.from_bytes(sha256(key.encode()).digest()[:6], "big") / 2**48
    return max(min(asked or 0.0, retry.max_delay), wait * (1.0 + retry.jitter * (2.0 * part - 1.0)))
