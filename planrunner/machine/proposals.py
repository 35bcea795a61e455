"""Plans that a task of a run proposes as its next revision: the run starts nothing more, pauses, and goes on once the
plan is taken over or declined."""

from __future__ import annotations

from hashlib import sha256

from planrunner.machine.events import RevisionDeclined, TaskSettled
from planrunner.machine.state import State


def proposed(state: State) -> int | None:
    """The number of the task whose proposal is open; None where there is none."""
    number = state.index.get(state.proposal) if state.proposal else None
    return number if number is not None and state.tasks[number].status == "completed" else None


def digest_of(text: str) -> str:
    """The digest that accepts a proposed plan."""
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def settled(state: State, event: TaskSettled) -> None:
    """A task that writes plans has ended: what it proposes replaces an earlier proposal."""
    task_state = state.tasks[state.index[event.task]]
    given = task_state.outcome is not None and task_state.outcome.outputs.get("proposes") is True
    if event.status == "completed" and event.reason == "" and given:
        state.proposal = event.task


def declined(state: State, event: RevisionDeclined, at: float) -> None:
    state.proposal = ""
