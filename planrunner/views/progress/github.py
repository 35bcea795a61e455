"""Progress for GitHub Actions: plain lines, a folded group with the output of each task, annotations for failures."""

from __future__ import annotations

from os import urandom

from planrunner.machine.events import Entry, TaskSettled
from planrunner.machine.names import by_its_own, label
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.views.progress.output import Group
from planrunner.views.progress.plain import PlainProgress
from planrunner.views.terminal import Terminal

ANNOTATIONS = 10
"""What the service shows of each kind in one step; what is left out is counted."""


class GithubProgress(PlainProgress):
    """A watch of a run whose output is read by the runner of the service.

    Lines of tasks that look like commands to that runner are printed while commands are switched off by an
    unguessable token.
    """

    def __init__(self, terminal: Terminal, output: str = "grouped") -> None:
        super().__init__(terminal, output=output)
        self._annotated = 0

    def started(self, run_id: str, plan: Plan, state: State) -> None:
        super().started(run_id, plan, state)
        self._annotated = 0

    def event(self, entry: Entry) -> None:
        super().event(entry)
        event = entry.event
        if self._state is None or not isinstance(event, TaskSettled) or event.status not in ("failed", "in_doubt"):
            return
        if not self._told_inside(self._state, event):
            self._annotate(self._state, event)

    def _told_inside(self, state: State, event: TaskSettled) -> bool:
        """Whether a task failed because of one that it holds, which has an annotation of its own."""
        return not by_its_own(state, state.index[event.task])

    def _grouped(self, group: Group) -> list[str]:
        return [f"::group::output of {_data(group.name)}", *self._verbatim(group.lines), "::endgroup::"]

    def _verbatim(self, lines: list[str]) -> list[str]:
        if not any("::" in line or "##[" in line for line in lines):
            return lines
        token = urandom(12).hex()
        return [f"::stop-commands::{token}", *lines, f"::{token}::"]

    def _annotate(self, state: State, event: TaskSettled) -> None:
        self._annotated += 1
        if self._annotated < ANNOTATIONS:
            title = _property(f"{label(state, state.index[event.task])} {event.status.replace('_', ' ')}")
            self._lines.append(f"::error title={title}::{_data(event.detail or event.reason)}")
        elif self._annotated == ANNOTATIONS:
            self._lines.append("::error title=more failures::further failures are in the log only")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
