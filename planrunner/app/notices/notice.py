"""What people are told of a run, each with an identity by which a receiver knows what it was told before."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any

from planrunner.app.follow.feed import Seen
from planrunner.app.follow.summary import first_failure
from planrunner.escapes import harmless
from planrunner.machine.events import GateOpened, RunEnded, TaskSettled, Warned
from planrunner.machine.names import label
from planrunner.records import Struct
from planrunner.views.runs import rfc3339
from planrunner.views.status import counts_text, is_dry, shown_counts

Json = Any

FORMAT = 1
KINDS = ("waiting", "failed", "done", "cancelled")
"""What a notice may be of."""

_KIND_OF = {"completed": "done", "failed": "failed", "cancelled": "cancelled"}
"""The kind of a notice by how the run ended."""
LONGEST = 500
"""Characters of a text from a run."""


class Notice(Struct):
    """One notice. ``id`` is the same whenever it is sent; ``at`` is seconds since 1970.

    ``task`` is what waits or failed first, ``text`` the question, the failure or the counts of tasks; ``command`` is
    what is typed to act on it.
    """

    id: str
    kind: str
    at: float
    run: str
    plan: str
    title: str
    task: str
    text: str
    command: str

    def __str__(self) -> str:
        """One line for people."""
        what = {"waiting": f"waits at {self.task}", "done": "completed"}.get(self.kind, self.kind)
        return harmless(f"{self.plan} {what}: {self.text} (run {self.run}; {self.command})")

    def document(self, project: str, address: str) -> dict[str, Json]:
        """What a webhook gets. ``address`` is that of the service, empty where there is none."""
        return {
            "format": FORMAT,
            "id": self.id,
            "type": f"run.{self.kind}",
            "timestamp": rfc3339(self.at),
            "data": {
                "project": project,
                "run_id": self.run,
                "plan": self.plan,
                "title": self.title,
                "task": self.task or None,
                "text": self.text,
                "command": self.command,
                "url": f"{address}/{project}/runs/{self.run}" if address else None,
            },
        }


class Wanted(Struct):
    """Which notices a receiver gets: their kinds, and patterns for the ids of plans (empty: all)."""

    kinds: tuple[str, ...]
    plans: tuple[str, ...] = ()

    def fits(self, notice: Notice) -> bool:
        """Whether a notice is among them."""
        return notice.kind in self.kinds and (
            not self.plans or any(fnmatchcase(notice.plan, pattern) for pattern in self.plans)
        )


def notices_of(seen: Seen) -> Iterator[Notice]:
    """What an entry tells people. A run on paper tells nothing."""
    event, state = seen.entry.event, seen.state
    if is_dry(state):
        return
    if isinstance(event, GateOpened):
        yield _asking(seen, event.task, event.ask, f"{event.visit}:{event.stage}:{event.shown}")
    elif isinstance(event, TaskSettled) and event.status == "in_doubt":
        yield _asking(seen, event.task, event.detail or "the result of its attempt is unknown", str(seen.entry.seq))
    elif isinstance(event, TaskSettled) and event.status == "blocked" and event.reason == "budget":
        yield _asking(seen, event.task, event.detail, str(seen.entry.seq))
    elif isinstance(event, Warned) and event.do == "ask":
        yield _asking(seen, event.task, f"it still runs after {event.after:g} seconds", f"watchdog:{event.attempt}")
    elif isinstance(event, RunEnded) and event.status in _KIND_OF:
        yield _ended(seen, event)


def _asking(seen: Seen, task: str, text: str, what: str) -> Notice:
    run = seen.state.run_id
    name = label(seen.state, seen.state.index[task]) if task in seen.state.index else task
    return _notice(seen, "waiting", f"{task}:{what}", name, text, f"planrunner gates {run}")


def _ended(seen: Seen, event: RunEnded) -> Notice:
    run, state = seen.state.run_id, seen.state
    kind = _KIND_OF[event.status]
    failed = first_failure(state) if kind == "failed" else None
    task = "" if failed is None else label(state, failed)
    text = "" if failed is None else state.tasks[failed].detail
    text = text or event.detail or counts_text(shown_counts(state))
    return _notice(seen, kind, str(seen.entry.seq), task, text, f"planrunner show {run}")


def _notice(seen: Seen, kind: str, what: str, task: str, text: str, command: str) -> Notice:
    state = seen.state
    identity = sha256(f"{state.run_id}\0{kind}\0{what}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    shown = " ".join(text.split())[:LONGEST]
    return Notice(
        f"msg_{identity}", kind, seen.entry.at, state.run_id, state.plan.id, state.plan.title, task, shown, command
    )
