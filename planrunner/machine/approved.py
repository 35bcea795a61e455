"""What people were shown and approved of before a task, so that code runs only as it was seen."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.machine.gate import GateState
    from planrunner.machine.state import State


def approved(state: State, number: int) -> tuple[str, ...]:
    """The digests, ``sha256:…``, of the evidence that people approved of at the gates that the task comes after, or at
    its own. Evidence of which they were shown but a part does not count, nor do gates that a check or a model passed.
    """
    return tuple(sorted({digest for gate in _gates(state, number) for digest in _seen(gate)}))


def _gates(state: State, number: int) -> Iterator[GateState]:
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


def _seen(gate: GateState) -> Iterator[str]:
    for item in gate.evidence:
        text, digest = item.get("text"), item.get("digest")
        if isinstance(text, str) and digest == f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}":
            yield digest
