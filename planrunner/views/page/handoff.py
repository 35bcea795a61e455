"""The first page of an archive: how the run ended, what is to be done, why, what was decided, and what lies where."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.records import Struct
from planrunner.views.decisions import Decision, decision_text
from planrunner.views.page.render import Frame, standalone
from planrunner.views.page.signs import Sign, run_sign
from planrunner.views.postmortem import Postmortem


class File(Struct):
    """A file of the archive; ``size`` is text."""

    path: str
    about: str
    size: str


class Handoff(Struct):
    """What the page shows. ``facts`` are names and texts, ``verify`` a command, ``problems`` what a verification of the
    journal found, ``left_out`` what is not in the archive and why."""

    title: str
    description: str
    status: str
    reason: str
    facts: tuple[tuple[str, str], ...]
    looked_back: Postmortem
    decisions: tuple[Decision, ...]
    files: tuple[File, ...]
    verify: str
    problems: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]

    @property
    def sign(self) -> Sign:
        return run_sign(self.status, self.reason)

    @property
    def sorted(self) -> list[File]:
        """The files, those beside the page first."""
        return sorted(self.files, key=lambda each: ("/" in each.path, each.path))

    def said(self) -> Iterable[tuple[Decision, str]]:
        """Each decision with its sentence."""
        return [(each, decision_text(each)) for each in self.decisions]


def handoff_page(page: Handoff) -> str:
    """The page as a file of its own."""
    return standalone("handoff.html", Frame(), page=page)
