"""What the engine does for a capability that writes plans: the language as this project may use it, and the run as it
stands."""

from __future__ import annotations

from planrunner.machine.state import State
from planrunner.plan import rights
from planrunner.plan.load import Capabilities, Loaded, load
from planrunner.plan.model import Capability
from planrunner.records import Struct
from planrunner.safety.obligations import obligations
from planrunner.source import Source

_LONGEST = 600
"""Characters that are told of what a task printed."""


class Planner(Struct):
    """The ``Planning`` of a run in a ``directory``: the capabilities that plans may name, the text and path of the
    run's own plan, and its state."""

    capabilities: Capabilities
    directory: str
    text: str
    path: str
    state: State

    def check(self, text: str, path: str) -> Loaded:
        """The plan of a text in YAML, and every finding about it; ``path`` is where it would lie."""
        return load(Source(text, path, "yaml"), self.capabilities, obligations(self.directory))

    def callable(self) -> list[Capability]:
        """The built-in and installed capabilities that the project's policy does not refuse, by name."""
        levels, known = obligations(self.directory).levels, self.capabilities
        usable = [
            name for name in known.names() if rights.capability(levels, rights.CapabilityUse(name)).verdict != "deny"
        ]
        return [each for each in map(known.find, sorted(usable)) if each is not None]

    def current(self) -> tuple[str, str, str]:
        """The plan of the run as text, its path and its name."""
        return self.text, self.path, self.state.plan.id

    def progress(self) -> str:
        """A line for each task of the run that has begun: its status and, of a failed one, what it said."""
        state, lines = self.state, []
        for task, at in zip(state.plan.tasks, state.tasks):
            if at.status == "pending":
                continue
            why = at.detail or (at.outcome.message if at.outcome is not None else "")
            printed = at.outcome.stderr or at.outcome.stdout if at.outcome is not None and at.status == "failed" else ""
            lines.append(f"{task.id}: {at.status}{f', {why}' if why else ''}")
            lines += [f"    {line}" for line in printed[-_LONGEST:].splitlines()]
        return "\n".join(lines)
