"""How a run stands, place by place of its plan: many items and rounds come to one status."""

from __future__ import annotations

from planrunner.machine.frame import Frame
from planrunner.machine.paths import local_name, written_name
from planrunner.machine.state import State
from planrunner.views.standing import shown_status

_FIRST = (
    "failed",
    "in_doubt",
    "blocked",
    "running",
    "queued",
    "pending",
    "cancelled",
    "abandoned",
    "rolled_back",
    "completed",
    "skipped",
    "omitted",
)
"""Of several statuses the first of these stands for all."""


def run_statuses(state: State) -> dict[str, str]:
    """Place in the plan (``polish/draft``) → status. Of a loop the last round counts, of a fan-out all items."""
    found: dict[str, set[str]] = {}
    todo: list[tuple[Frame, str]] = [(state.top, "")]
    while todo:
        frame, prefix = todo.pop()
        for number in range(frame.first, frame.first + frame.size):
            item = frame.kind == "items"
            path = prefix if item else f"{prefix}{written_name(local_name(state, number))}"
            task = state.tasks[number]
            if not item:
                found.setdefault(path, set()).add(shown_status(state, task))
            if task.inner is not None:
                todo.append((task.inner, path if task.inner.kind == "items" else f"{path}/"))
    return {path: min(statuses, key=_FIRST.index) for path, statuses in found.items()}
