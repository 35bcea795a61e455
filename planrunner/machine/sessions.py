"""Conversations that agents continue: the digest of the newest transcript of each, by level and name.

A linked plan has conversations of its own. An item of a fan-out continues those around it, each item for itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from planrunner.machine.events import AttemptEnded
from planrunner.machine.state import State


def transcript_before(state: State, number: int) -> str:
    """The conversation that the agent of a task continues; empty where it begins one."""
    agent = state.specs[number].agent
    name = agent.session if agent is not None and not agent.fresh else ""
    if not name:
        return ""
    return next((digest for level in _levels(state, number) if (digest := state.sessions.get((level, name)))), "")


def attempt_ended(state: State, number: int, event: AttemptEnded) -> None:
    """A request has been answered: the conversation continues from there."""
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
