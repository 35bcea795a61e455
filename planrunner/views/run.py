"""How a run stands, as data: what ``exec --json`` and ``show --json`` print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planrunner.machine.state import State, TaskState
from planrunner.plan.model import Task

Json = Any


def run_object(state: State, revision: str, exit_code: int | None, now: float) -> dict[str, Json]:
    """The JSON object of the command-line contract.

    ``revision`` is the digest of the plan, ``exit_code`` is None while a process acts on the run. ``now`` (seconds
    since 1970) ends the time used by a run that still goes on.
    """
    return {
        "run_id": state.run_id,
        "plan": state.plan.id,
        "revision": revision,
        "status": state.status,
        "exit_code": exit_code,
        "reason": state.reason,
        "waiting": waiting(state),
        "tasks": {task.id: task_object(found) for task, found in pairs(state)},
        "budget": budget_object(state, now),
        "outputs": state.outputs,
    }


def task_object(found: TaskState) -> dict[str, Json]:
    """One task of ``run_object``: ``reason`` is a short code, ``detail`` the sentence for people."""
    return {
        "status": found.status,
        "attempts": found.attempts,
        "outputs": found.outputs,
        "reason": found.reason,
        "detail": found.detail,
    }


def budget_object(state: State, now: float) -> dict[str, Json]:
    """What the run used of each quantity that is measured or limited, and the limit where there is one. Time is seconds
    in which a process acted on the run; a quantity nobody measured has ``used`` null."""
    limits = state.plan.budgets._asdict()
    used = {
        "time": round(state.spent_time(now), 3),
        "attempts": sum(found.attempts + found.reissues for found in state.tasks),
    }
    names = [name for name, limit in limits.items() if limit is not None or name in used]
    return {name: {"used": used.get(name), "limit": limits[name]} for name in names}


def pairs(state: State) -> Iterator[tuple[Task, TaskState]]:
    """Each task with its state, in the order of the plan."""
    return zip(state.plan.tasks, state.tasks, strict=True)


def waiting(state: State) -> list[str]:
    """The tasks that wait for a person or an answer."""
    counts = state.counts
    if not (counts.get("blocked") or counts.get("in_doubt")):
        return []
    return [task.id for task, found in pairs(state) if found.status in ("blocked", "in_doubt")]


def attempt_text(task: Task, attempt: int) -> str:
    """``attempt 2 of 3``, or nothing where there is only one."""
    allowed = task.retry.attempts
    return f"attempt {attempt} of {max(allowed, attempt)}" if allowed > 1 or attempt > 1 else ""


def elapsed(found: TaskState, now: float) -> float:
    """Seconds from the start of the first attempt to the end, or to ``now`` while the task goes on."""
    if found.started is None:
        return 0.0
    going = found.status in ("running", "pending", "queued") or found.ended is None
    return max(0.0, (now if going else found.ended or now) - found.started)
