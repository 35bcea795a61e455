"""Runs that were asked for and are not in the journal yet, shown as runs by every door."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from planrunner.app.history.show import Look, journal_entries, look
from planrunner.app.queue.items import OPEN
from planrunner.errors import Hint, NextStep, NotFound
from planrunner.journal.records import RunRow
from planrunner.journal.workspace import find_state
from planrunner.later import Later
from planrunner.machine.events import Entry

if TYPE_CHECKING:
    from planrunner.app.queue.items import Item, item_object
    from planrunner.app.queue.store import Store, plan_name
    from planrunner.views.documents import document
else:
    item_object = Later("planrunner.app.queue.items:item_object")
    Store = Later("planrunner.app.queue.store:Store")
    plan_name = Later("planrunner.app.queue.store:plan_name")
    document = Later("planrunner.views.documents:document")


Json = Any


def unbegun(run: str, state: str | None, missing: NotFound) -> Item:
    """The item of a run that the journal does not have. Raises ``missing``, what the journal said, where the run was
    never asked for."""
    try:
        with Store(find_state(None, state), readonly=True) as store:
            return store.task(store.find(run)).item
    except NotFound:
        raise missing from None


@contextmanager
def told_unbegun(run: str, state: str | None) -> Iterator[None]:
    """Lets a NotFound of the journal say that the run waits in the queue, or how it ended there."""
    try:
        yield
    except NotFound as missing:
        item = unbegun(run, state, missing)
        if item.status in OPEN:
            way = Hint(NextStep("queue"), " says what it waits for")
            raise NotFound(f"run {item.run} is queued and has not begun", way) from None
        why = f": {item.reason}" if item.reason else ""
        raise NotFound(f"run {item.run} ended in the queue ({item.status}) and never began{why}") from None


def looked_at(run: str, state: str | None) -> Look:
    """How a run stands. Raises NotFound, which says so of one that has not begun."""
    with told_unbegun(run, state):
        return look(run, state)


def entries_of(run: str, state: str | None, follow: bool) -> Iterator[tuple[RunRow, Entry]]:
    """The entries of a run. Raises NotFound, which says so of one that has not begun."""
    with told_unbegun(run, state):
        yield from journal_entries(run, state, follow)


def unbegun_document(item: Item) -> dict[str, Json]:
    """The run as ``show --json`` prints it: ``queued``, or how it ended without a beginning. Its ``item`` says what it
    waits for."""
    is_open = item.status in OPEN
    return document(
        run_id=item.run,
        plan=plan_name(item.plan),
        plan_file=item.plan,
        settings=None,
        revision=item.digest,
        revision_number=1,
        status="queued" if is_open else "cancelled" if item.status == "cancelled" else "failed",
        exit_code=item.code,
        reason="" if is_open else "queue",
        detail=item.reason,
        params=item.params,
        started=None,
        ended=None,
        duration=None,
        stopped=None,
        waiting=[],
        gates=[],
        tasks={},
        budget={},
        outputs={},
        item=item_object(item),
    )
