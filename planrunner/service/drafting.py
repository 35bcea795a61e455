"""Plans that are being drafted: by a template at once, by a model while the page waits."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict

from planrunner.app.drafts.draft import Draft, DraftRequest, draft, write_draft
from planrunner.app.runs.execute import Silent
from planrunner.errors import PlanrunnerError, UsageError
from planrunner.service.context import Project, Visitor, behalf
from planrunner.service.problems import Problem

KEPT = 50
"""Drafts that stay in memory."""
AT_ONCE = 4
"""Drafts that models write at the same time."""


class Drafting:
    """One draft on its way. ``done`` is set once there is ``made``, with the ``path`` that it was written to (empty for
    one with errors), or an ``error``. ``since`` is in seconds since 1970."""

    def __init__(self, goal: str, model: str, project: Project, visitor: Visitor) -> None:
        self.goal, self.model, self.project, self.visitor = goal, model, project, visitor
        self.since = time.time()
        self.done = threading.Event()
        self.made: Draft | None = None
        self.path = ""
        self.error: PlanrunnerError | None = None

    def work(self, request: DraftRequest) -> None:
        """Draft, and write what has no errors to its file."""
        try:
            with behalf(self.visitor, self.project):
                self.made = draft(request, Silent())
                if self.made.review is not None:
                    self.path = write_draft(self.made)
        except PlanrunnerError as error:
            self.error = error
        except Exception as fault:
            self.error = UsageError(f"the draft ended with a fault: {type(fault).__name__}")
            raise
        finally:
            self.done.set()


class Drafts:
    """The drafts of a service, by ids that cannot be guessed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._every: OrderedDict[str, Drafting] = OrderedDict()

    def begin(self, drafting: Drafting, request: DraftRequest) -> str:
        """Begin a draft in a thread of its own, and give its id. Raises Problem 503 for one too many."""
        with self._lock:
            going = sum(not each.done.is_set() for each in self._every.values())
            if going >= AT_ONCE:
                raise Problem(503, f"{going} plans are being drafted", "try again when one of them is done")
            name = secrets.token_urlsafe(12)
            self._every[name] = drafting
            while len(self._every) > KEPT:
                self._every.popitem(last=False)
        threading.Thread(target=drafting.work, args=(request,), name="planrunner-draft", daemon=True).start()
        return name

    def one(self, name: str, project: Project, visitor: Visitor) -> Drafting:
        """A draft that this visitor began in this project. Raises Problem 404 for any other."""
        found = self._every.get(name)
        if found is None or found.project != project or found.visitor.principal.name != visitor.principal.name:
            raise Problem(404, "this draft is not there any more", "draft the plan again")
        return found
