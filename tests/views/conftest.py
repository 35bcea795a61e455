"""Runs made of events by hand, folded by the machine's own ``evolve``."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from planrunner.machine.events import Entry, RunStarted
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.plan.model import Plan, Retry, Task
from planrunner.views.terminal import Terminal

if TYPE_CHECKING:
    from planrunner.machine.events import Event

AT = 1_700_000_000.0


class Story:
    """A run that is told event by event, a second apart unless a time is given."""

    def __init__(self, plan: Plan) -> None:
        self.state = State(plan, "20231114-2213-abc123")
        self.entries: list[Entry] = []
        self.tell(RunStarted("d1g357", {}, 1))

    def tell(self, *events: Event, after: float = 1.0) -> None:
        for event in events:
            at = AT if not self.entries else self.entries[-1].at + after
            evolve(self.state, event, at)
            self.entries.append(Entry(len(self.entries) + 1, at, event))


@pytest.fixture
def story() -> Callable[..., Story]:
    def begin(*tasks: Task, **fields: object) -> Story:
        return Story(Plan("demo", tasks=tasks, **fields))  # type: ignore[arg-type]

    return begin


@pytest.fixture
def shell_task() -> Callable[..., Task]:
    def make(name: str, needs: Sequence[str] = (), attempts: int = 1, **fields: object) -> Task:
        run = fields.pop("run", f"do {name}")
        return Task(name, uses="shell", run=run, needs=tuple(needs), retry=Retry(attempts), **fields)  # type: ignore[arg-type]

    return make


@pytest.fixture
def screen() -> Callable[..., tuple[Terminal, io.StringIO]]:
    def make(color: bool = False, unicode: bool = True, live: bool = False) -> tuple[Terminal, io.StringIO]:
        stream = io.StringIO()
        return Terminal(stream, color, unicode, live), stream

    return make
