"""What agents leave behind in a run: conversations that others continue, and plans that they propose.

A linked plan has conversations of its own. An item of a fan-out continues those around it, each item for itself. With a
proposal the run starts nothing more, pauses, and goes on once the plan is taken over or declined.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from planrunner.machine.events import AttemptEnded, RevisionDeclined, TaskSettled
from planrunner.machine.state import State
from planrunner.plan.agents import ASKING, PLANNING


def transcript_before(state: State, number: int) -> str:
    """The conversation that the agent of a task continues; empty where it begins one."""
    agent = state.specs[number].agent
    name = agent.session if agent is not None and not agent.fresh else ""
    if not name:
        return ""
    return next((digest for level in _levels(state, number) if (digest := state.sessions.get((level, name)))), "")


def attempt_ended(state: State, event: AttemptEnded, at: float) -> None:
    """A request has been answered: the conversation continues from there."""
    number = state.index[event.task]
    if state.specs[number].uses != ASKING:
        return
    owner = state.tasks[number].frame.owner
    agent = state.specs[owner].agent if owner >= 0 else None
    name = agent.session if agent is not None else ""
    said = event.outcome.outputs.get("transcript")
    if name and said and not event.outcome.failure:
        state.sessions[next(_levels(state, owner)), name] = said


def _levels(state: State, number: int) -> Iterator[int]:
    """The levels around a task, the nearest first: an item of a fan-out or a task that links a plan by its number, the
    plan as -1."""
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        if frame.kind == "items":
            yield number
        elif frame.linked is not None:
            yield frame.owner
            return
        number = frame.owner
        frame = state.tasks[number].frame
    yield -1


def proposed(state: State) -> int | None:
    """The number of the task whose proposal is open; None where there is none."""
    number = state.index.get(state.proposal) if state.proposal else None
    return number if number is not None and state.tasks[number].status == "completed" else None


def digest_of(text: str) -> str:
    """The digest that accepts a proposed plan."""
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def task_settled(state: State, event: TaskSettled, at: float) -> None:
    """A task that writes plans has ended: what it proposes replaces an earlier proposal."""
    number = state.index[event.task]
    task_state = state.tasks[number]
    given = task_state.outcome is not None and task_state.outcome.outputs.get("proposes") is True
    if state.specs[number].uses == PLANNING and event.status == "completed" and event.reason == "" and given:
        state.proposal = event.task


def declined(state: State, event: RevisionDeclined, at: float) -> None:
    state.proposal = ""
