"""A run as data, as ``exec --json`` and ``show --json`` print it; its attempts as a timeline and with what they were
called with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from planrunner.escapes import harmless
from planrunner.jsontext import stable_json
from planrunner.later import Later
from planrunner.machine.events import AttemptEnded, AttemptStarted, Entry, Outcome, RunEnded
from planrunner.machine.names import is_gone, label
from planrunner.machine.state import State, TaskState
from planrunner.plan.expressions.quantities import duration_text
from planrunner.records import Struct
from planrunner.views.runs import lasted, rfc3339
from planrunner.views.status import is_dry, outputs_of, pairs, shown_status, waiting
from planrunner.views.terminal import Terminal, pad, width

if TYPE_CHECKING:
    from planrunner.machine.budgets import budget_state, scope_of, time_limit
    from planrunner.machine.hypotheses import belief_object, beliefs
    from planrunner.machine.recovery import is_done, left_text
    from planrunner.machine.verdicts import judge_unsure
    from planrunner.plan.model import Artifact
    from planrunner.views.agents import context_lines
    from planrunner.views.gates import question_objects
    from planrunner.views.rollback import rollback_object
else:
    budget_state = Later("planrunner.machine.budgets:budget_state")
    scope_of = Later("planrunner.machine.budgets:scope_of")
    time_limit = Later("planrunner.machine.budgets:time_limit")
    belief_object = Later("planrunner.machine.hypotheses:belief_object")
    beliefs = Later("planrunner.machine.hypotheses:beliefs")
    is_done = Later("planrunner.machine.recovery:is_done")
    left_text = Later("planrunner.machine.recovery:left_text")
    judge_unsure = Later("planrunner.machine.verdicts:judge_unsure")
    context_lines = Later("planrunner.views.agents:context_lines")
    rollback_object = Later("planrunner.views.rollback:rollback_object")
    question_objects = Later("planrunner.views.gates:question_objects")


Json = Any


FORMAT = 1
"""The version of the object; fields are added, never changed or removed. Its schema is ``schemas/run.schema.json``."""


def run_object(
    state: State, revision: str, exit_code: int | None, now: float, entries: Sequence[Entry] = ()
) -> dict[str, Json]:
    """The JSON object of the command-line contract.

    ``revision`` is the digest of the plan, ``exit_code`` is None while a process acts on the run. ``now`` (seconds
    since 1970) ends the time used by a run that still goes on. ``entries`` is its journal; a dry run has none, and
    tells nothing of times, parameters and attempts. ``rollback`` is there once something was undone.
    """
    history: dict[str, list[dict[str, Json]]] = {}
    for attempt in attempts(entries):
        history.setdefault(attempt.task, []).append(_attempt_object(attempt))
    document: dict[str, Json] = {
        "format": FORMAT,
        "run_id": state.run_id,
        **({"dry_run": True} if is_dry(state) else {}),
        "plan": state.plan.id,
        "plan_file": state.environment.get("plan"),
        "settings": state.environment.get("settings"),
        "revision": revision,
        "revision_number": state.revision,
        "status": state.status,
        "exit_code": exit_code,
        "reason": state.reason,
        "detail": state.detail,
        **({"params": state.params, **_times(state, entries)} if entries else {}),
        "stopped": stopped(state),
        "waiting": waiting(state),
        "gates": question_objects(state, now),
        "tasks": {
            task.id: task_object(state, number)
            | ({"attempt_history": history.get(task.id, [])} if entries else {})
            | (inner_object(state, task_state) if task_state.inner is not None else {})
            | (account_object(state, number) if state.ledger is not None else {})
            | (
                {"refused": list(task_state.outcome.refused)}
                if task_state.outcome is not None and task_state.outcome.refused
                else {}
            )
            for number, (task, task_state) in enumerate(pairs(state))
            if not is_gone(state, number)
        },
        "budget": budget_object(state, now),
        "outputs": state.outputs,
    }
    if state.plan.hypotheses:
        document["hypotheses"] = [belief_object(state, each) for each in beliefs(state)]
    if state.plan.artifacts:
        document["artifacts"] = [_artifact(state, each) for each in state.plan.artifacts]
    if state.compensation_log is not None and (report := rollback_object(state)):
        document["rollback"] = report
    return document


def _times(state: State, entries: Sequence[Entry]) -> dict[str, Json]:
    """When the run began, one that was made by a fork at the fork, and ended (null while it is not over), and the
    seconds from the one to the other."""
    started, last = state.begun_at, entries[-1]
    ended = last.at if isinstance(last.event, RunEnded) else None
    return {"started": rfc3339(started), "ended": rfc3339(ended), "duration": lasted(started, ended)}


class Attempt(Struct):
    """An attempt by the path of its task. Times are seconds since 1970; without an end there is no outcome."""

    task: str
    number: int
    started: float
    ended: float | None = None
    outcome: Outcome | None = None

    @property
    def failure(self) -> str:
        return self.outcome.failure if self.outcome is not None else ""


def attempts(entries: Iterable[Entry]) -> list[Attempt]:
    """The attempts of a run in the order of their start."""
    by_key: dict[tuple[str, int], Attempt] = {}
    for entry in entries:
        at, event = entry.at, entry.event
        if isinstance(event, AttemptStarted):
            by_key[event.task, event.attempt] = Attempt(event.task, event.attempt, at)
        elif isinstance(event, AttemptEnded):
            key = (event.task, event.attempt)
            started = by_key[key].started if key in by_key else at
            by_key[key] = Attempt(event.task, event.attempt, started, at, event.outcome)
    return list(by_key.values())


def _attempt_object(attempt: Attempt) -> dict[str, Json]:
    outcome = attempt.outcome
    return {
        "attempt": attempt.number,
        "started": rfc3339(attempt.started),
        "ended": rfc3339(attempt.ended),
        "duration": lasted(attempt.started, attempt.ended),
        "failure": outcome.failure if outcome is not None else None,
        "message": outcome.message if outcome is not None else None,
        "exit_code": outcome.exit_code if outcome is not None else None,
    }


def _artifact(state: State, wanted: Artifact) -> dict[str, Json]:
    """An artifact of the plan: the one of that name that its task kept, or the only one; without a digest until it
    is kept."""
    task, _, name = wanted.source.partition(".")
    number = state.index.get(task)
    outcome = state.tasks[number].outcome if number is not None else None
    records = [record for record in outcome.artifacts if "path" in record] if outcome is not None else []
    alike = [record for record in records if record.get("name") == (name or wanted.name)]
    kept = (alike or (records if not name else []))[:2]
    content = {key: kept[0].get(key) for key in ("sha256", "path", "size", "type")} if len(kept) == 1 else {}
    return {"name": wanted.name, "from": wanted.source, **content}


def stopped(state: State) -> dict[str, str] | None:
    """Why nothing starts any more, who asked for it, and what was said with it; None if it was not stopped."""
    if not state.stop_reason:
        return None
    return {"reason": state.stop_reason, "by": state.stop_by, "comment": state.stop_comment}


def task_object(state: State, number: int) -> dict[str, Json]:
    """One task of ``run_object``: ``reason`` is a short code, ``detail`` the sentence for people."""
    task_state = state.tasks[number]
    left = left_text(state, number)
    return {
        "status": shown_status(state, number),
        "attempts": task_state.attempts,
        "outputs": outputs_of(task_state),
        "reason": _left_reason(task_state) if left else task_state.reason,
        "detail": left or task_state.detail,
        "failure": task_state.failure,
        "started": rfc3339(task_state.started),
        "ended": rfc3339(task_state.ended),
        "duration": lasted(task_state.started, task_state.ended),
        "artifacts": [dict(record) for record in task_state.outcome.artifacts]
        if task_state.outcome is not None
        else [],
    }


def account_object(state: State, number: int) -> dict[str, Json]:
    """What a task adds that has a budget of its own, or spent something: the same as ``budget`` of the run."""
    return {"budget": budget_state(state, number)} if scope_of(state, number) is not None else {}


def inner_object(state: State, task_state: TaskState) -> dict[str, Json]:
    """What a task that holds others adds: which kind of frame it opened last, how many tasks are in it and how many of
    them are settled and failed; for a loop also its round."""
    frame = task_state.inner
    assert frame is not None
    inner: dict[str, Json] = {
        "kind": frame.kind,
        "tasks": frame.size,
        "settled": frame.size - frame.open - frame.finals_open,
        "failed": len(frame.failures),
    }
    if frame.kind == "round":
        inner["round"] = frame.round
    return {"inner": inner}


def reason_text(state: State, number: int) -> str:
    """Why a task stands as it does, for people; empty where nothing is to be said."""
    task_state = state.tasks[number]
    if left := left_text(state, number):
        return left
    if task_state.gate is not None and task_state.gate.waits:
        return "; ".join(filter(None, (task_state.detail, judge_unsure(task_state.gate))))
    return task_state.detail or task_state.reason.replace("_", " ")


def _left_reason(task_state: TaskState) -> str:
    if task_state.inner is not None:
        return "inside"
    if is_done(task_state):
        return "keeping files"
    return task_state.outcome.failure if task_state.outcome is not None else "cut off"


def budget_object(state: State, now: float) -> dict[str, Json]:
    """What the run used of each quantity that is measured or limited, and the limit where there is one. Time is seconds
    in which a process acted on the run; ``reserved`` is what running attempts have set aside of cost, tokens and calls;
    an unmeasured quantity has ``used`` null."""
    limits = {name: limit for name, limit in state.plan.budgets._asdict().items() if name in _QUANTITIES}
    used = {
        "time": round(max(0.0, state.spent_time(now)), 3),
        "attempts": sum(
            found.attempts + found.reissues for at, found in enumerate(state.tasks) if at not in state.containers
        ),
    }
    names = [name for name, limit in limits.items() if limit is not None or name in used]
    found: dict[str, Json] = {name: {"used": used.get(name), "limit": limits[name]} for name in names}
    if state.ledger is not None:
        found |= budget_state(state)
        found["time"]["limit"] = time_limit(state)
    return found


_QUANTITIES = ("time", "cost", "tokens", "calls", "attempts", "iterations", "depth")


def call_lines(terminal: Terminal, calls: Iterable[Any]) -> Iterator[str]:
    """The lines of calls as ``app/history/calls.py`` gives them."""
    for each in calls:
        what = "judge of visit" if each.judge else "attempt"
        yield terminal.paint(f"{what} {each.attempt}", "bold")
        if each.problem:
            yield f"  not rendered: {harmless(each.problem)}"
        elif not each.same:
            yield "  not what was recorded: its digest differs, since this version renders the call in another way"
        for name, value in each.call.items():
            text = value if isinstance(value, str) else stable_json(value)
            first, *rest = text.splitlines() or [""]
            yield f"  {name:<7} {harmless(first)}"
            yield from (f"          {harmless(line)}" for line in rest)
        if each.context:
            yield ""
            yield from (f"  {line}" for line in context_lines(terminal, each.context))
            yield ""
        for sent in each.sent:
            yield from _sent_lines(sent)


def _sent_lines(sent: Any) -> Iterator[str]:
    yield f"  {harmless(sent.name)}  {sent.size} bytes, sha256 {sent.sha256}"
    if sent.text is None:
        yield "    its content is not kept any more"
    else:
        yield from (f"    {harmless(line)}" for line in sent.text.splitlines())


MOST = 200
"""Attempts shown at most; the longest ones win."""


def timeline(terminal: Terminal, state: State, every: list[Attempt], now: float) -> list[str]:
    """A bar for each attempt; ``now`` ends those that still run."""
    if not every:
        return []
    shown = sorted(every, key=lambda one: one.started - (one.ended or now))[:MOST]
    shown.sort(key=lambda one: one.started)
    start = min(one.started for one in every)
    end = max(one.ended or now for one in every)
    names = [label(state, state.index[one.task]) + (f" #{one.number}" if one.number > 1 else "") for one in shown]
    column = min(28, max(width(name) for name in names))
    room = max(10, min(terminal.size()[0], 120) - column - 14)
    scale = room / max(end - start, 1e-9)
    lines = []
    for one, name in zip(shown, names, strict=True):
        ended = one.ended or now
        left = min(room - 1, int((one.started - start) * scale))
        length = max(1, min(room - left, round((ended - one.started) * scale)))
        color = "cyan" if one.ended is None else "red" if one.failure else "green"
        fill = ("▒" if one.failure else "█") if terminal.unicode else ("x" if one.failure else "=")
        bar = " " * left + terminal.paint(fill * length, color) + " " * (room - left - length)
        facts = f"{duration_text(ended - one.started)} {one.failure}"
        lines.append(f"{pad(_cut_front(terminal, name, column), column)}  {bar}  {facts}".rstrip())
    hidden = len(every) - len(shown)
    return lines + ([f"and {hidden} shorter attempts"] if hidden else [])


def _cut_front(terminal: Terminal, name: str, columns: int) -> str:
    """A path in so many columns: its end tells more than its beginning."""
    mark = "…" if terminal.unicode else "~"
    while width(name) > columns:
        name = mark + name[2 if name.startswith(mark) else 1 :]
    return name
