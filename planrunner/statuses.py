"""How people are shown the statuses of tasks and runs: one word a state, in every list, message, graph and page."""

from __future__ import annotations

from typing import NamedTuple


class Shown(NamedTuple):
    """How people are shown a status, on a terminal and on a page: its ``word``, the ``verb`` of a sentence, the
    ``sign``, the same in ASCII (``plain``) with its ``color``, the colour of the page (``tone``) and the ``icon``."""

    word: str
    verb: str
    sign: str
    plain: str
    color: str
    tone: str
    icon: str


SHOWN: dict[str, Shown] = {
    "pending": Shown("pending", "is pending", "·", ".", "dim", "todo", "todo"),
    "queued": Shown("queued", "is queued", "·", ".", "dim", "wait", "wait"),
    "running": Shown("running", "is running", "●", "*", "cyan", "run", "run"),
    "retrying": Shown("retrying", "is retrying", "↻", "~", "yellow", "retry", "wait"),
    "blocked": Shown("blocked", "is blocked", "◷", "?", "yellow", "gate", "gate"),
    "paused": Shown("paused", "is paused", "◷", "?", "yellow", "wait", "pause"),
    "completed": Shown("completed", "completed", "✔", "+", "green", "ok", "ok"),
    "failed": Shown("failed", "failed", "✘", "x", "red", "bad", "bad"),
    "skipped": Shown("skipped", "was skipped", "○", "-", "dim", "off", "off"),
    "omitted": Shown("not run", "did not run", "○", "-", "dim", "off", "off"),
    "cancelled": Shown("cancelled", "was cancelled", "⊘", "/", "yellow", "off", "cancelled"),
    "abandoned": Shown("abandoned", "was abandoned", "⊘", "/", "yellow", "off", "cancelled"),
    "in_doubt": Shown("in doubt", "is in doubt", "?", "?", "magenta", "doubt", "doubt"),
    "rolled_back": Shown("rolled back", "was rolled back", "↩", "<", "yellow", "undone", "undone"),
}
"""Every status of a task and of a run, and ``retrying``: a task that waits for its next attempt."""


def status_word(status: str) -> str:
    """A status as it is shown: ``in doubt``, ``not run``."""
    return SHOWN[status].word if status in SHOWN else status


def status_verb(status: str) -> str:
    """A status as the verb of a sentence: ``failed``, ``was skipped``, ``is running``."""
    return SHOWN[status].verb if status in SHOWN else f"is {status}"


def ended(run: str, status: str) -> str:
    """The sentence for a run that cannot do what was asked, since it has ended."""
    return f"{run} {'was already' if status == 'cancelled' else 'has already'} {status}"
