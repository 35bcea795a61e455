"""What the engine does for a capability that writes plans: the language as this project may use it, and the run as it
stands."""

from __future__ import annotations

from typing import NamedTuple

from planrunner.machine.state import State
from planrunner.plan import rights
from planrunner.plan.load import Capabilities, Loaded, load
from planrunner.plan.model import Capability
from planrunner.safety.obligations import obligations
from planrunner.source import Source, notation_of

_LONGEST = 600
"""Characters that are told of what a task printed."""


class Running(NamedTuple):
    """The plan of a run as text, its path, and the state of the run."""

    text: str
    path: str
    state: State


class Planning:
    """The ``Planning`` of one attempt, in a project."""

    def __init__(self, known: Capabilities, directory: str, running: Running | None = None) -> None:
        self._known = known
        self._directory = directory
        self._running = running

    def check(self, text: str, path: str) -> Loaded:
        """The plan of a text, and every finding about it; ``path`` is where it would lie."""
        source = Source(text, path, notation_of(path))
        return load(source, self._known, obligations(self._directory))

    def callable(self) -> list[Capability]:
        """The built-in and installed capabilities that the project's policy does not refuse, by name."""
        levels = obligations(self._directory).levels
        usable = [name for name in self._known.names() if rights.capability(levels, rights.Use(name)).verdict != "deny"]
        return [each for each in map(self._known.find, sorted(usable)) if each is not None]

    def current(self) -> tuple[str, str]:
        """The plan of the run as text, and its path; empty where none is known."""
        return ("", "") if self._running is None else (self._running.text, self._running.path)

    def progress(self) -> str:
        """A line for each task of the run that has begun: its status and, of a failed one, what it said."""
        if self._running is None:
            return ""
        state, lines = self._running.state, []
        for task, at in zip(state.plan.tasks, state.tasks):
            if at.status == "pending":
                continue
            why = at.detail or (at.outcome.message if at.outcome is not None else "")
            printed = at.outcome.stderr or at.outcome.stdout if at.outcome is not None and at.status == "failed" else ""
            lines.append(f"{task.id}: {at.status}{f', {why}' if why else ''}")
            lines += [f"    {line}" for line in printed[-_LONGEST:].splitlines()]
        return "\n".join(lines)
