"""Services that start again with their run: what comes after them by needs waits until they have settled."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.machine.commands import Command, settle
from planrunner.machine.moves import drop_timer, move
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED


def begun(state: State, numbers: Iterable[int]) -> None:
    """Some of these tasks, which were reset, are services."""
    for number in numbers:
        if state.specs[number].ready:
            state.restarts[number] = None
    for number, found in enumerate(state.tasks):
        if found.status == "queued" and waits(state, number):
            state.queue.remove(state.limited_labels(state.specs[number]), state.specs[number].priority, number)
            move(state, number, found, "pending")
        elif found.status == "pending" and found.due is not None and waits(state, number):
            drop_timer(state, number, found)


def settled(state: State, number: int) -> None:
    """A task has settled. Where it is a service that started again, what waited for it is looked at; one that did not
    become ready stays listed until it is reset, and keeps what comes after it from starting."""
    if number not in state.restarts:
        return
    if state.tasks[number].status != "failed":
        del state.restarts[number]
    for other, found in enumerate(state.tasks):
        if found.status not in SETTLED:
            state.candidates[other] = None


def waits(state: State, number: int) -> bool:
    """Whether a task waits for a service that starts again. Where the run stops nothing waits."""
    return not state.stop_reason and any(
        state.tasks[service].status not in SETTLED and _is_after(state, number, service) for service in state.restarts
    )


def omitted(state: State, number: int) -> Command | None:
    """The end of a task that comes after a service which failed to start again; what may follow failures runs."""
    if state.stop_reason or state.tasks[number].status != "pending" or _top(state, number) in state.shape.tolerant:
        return None
    for service in state.restarts:
        if state.tasks[service].status == "failed" and _is_after(state, number, service):
            why = f"the service `{state.specs[service].id}` failed to start again"
            return settle(state.specs[number], "omitted", "cut_off", why)
    return None


def _is_after(state: State, number: int, service: int) -> bool:
    """Whether a task, or one that contains it, needs the service, at once or through others. Those under ``finally``
    follow the main part, not single tasks of it."""
    top = _top(state, number)
    if state.specs[top].finally_:
        return False
    seen = {top}
    queue = [top]
    for each in queue:
        for need in state.shape.needs[each]:
            if need == service:
                return True
            if need not in seen:
                seen.add(need)
                queue.append(need)
    return False


def _top(state: State, number: int) -> int:
    while (owner := state.tasks[number].frame.owner) >= 0:
        number = owner
    return number
