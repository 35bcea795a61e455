"""Progress for GitHub Actions: plain lines, a folded group with the output of each task, annotations for failures."""

from __future__ import annotations

from os import urandom

from planrunner.machine.events import Entry, TaskSettled
from planrunner.machine.names import by_its_own, label
from planrunner.machine.statuses import status_word
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
        super().__init__(terminal, output)
        self._annotated = 0

    def event(self, entry: Entry) -> None:
        super().event(entry)
        event, state = entry.event, self._state
        if state is None or not isinstance(event, TaskSettled) or event.status not in ("failed", "in_doubt"):
            return
        number = state.index[event.task]
        if not by_its_own(state, number):
            return  # the task inside that failed has an annotation
        self._annotated += 1
        if self._annotated < ANNOTATIONS:
            title = f"{label(state, number)} {status_word(event.status)}"
            title = _data(title).replace(":", "%3A").replace(",", "%2C")
            self._lines.append(f"::error title={title}::{_data(event.detail or event.reason)}")
        elif self._annotated == ANNOTATIONS:
            self._lines.append("::error title=more failures::further failures are in the log only")

    def _grouped(self, group: Group) -> list[str]:
        return [f"::group::output of {_data(group.name)}", *self._verbatim(group.lines), "::endgroup::"]

    def _verbatim(self, lines: list[str]) -> list[str]:
        if not any("::" in line or "##[" in line for line in lines):
            return lines
        token = urandom(12).hex()
        return [f"::stop-commands::{token}", *lines, f"::{token}::"]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
