"""Ask for runs through the queue, and for what becomes of them there.

Everything here acts for the principal and in the workspace of the context (``caller.acting``); ``state`` is a state
directory, None for that of the workspace.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from hashlib import sha256
from typing import Any

from planrunner.app.history.show import look
from planrunner.app.people.persons import require_person
from planrunner.app.queue.items import ENDS, Act, Item, Overview, Pause, Status
from planrunner.app.queue.lease import ring, worker_of
from planrunner.app.queue.limits import limits_of
from planrunner.app.queue.store import Store, Wish
from planrunner.app.runs import rerun, rollback
from planrunner.app.runs.control import steer
from planrunner.app.runs.doubts import answers
from planrunner.app.runs.execute import ExecRequest, promise
from planrunner.app.runs.groups import refuse_overlap
from planrunner.app.runs.rerun import RerunRequest
from planrunner.app.runs.rollback import RollbackRequest
from planrunner.caller import Workspace, principal, workspace
from planrunner.errors import NextStep, NotFound, UsageError
from planrunner.journal.records import new_run_id
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import NAME, find_project, find_state
from planrunner.jsontext import stable_json
from planrunner.statuses import ended

Json = Any

_TAKEN = 10.0
"""Seconds that a run which was taken from the queue may need to be in the journal, before it can be cancelled."""


def enqueue(request: ExecRequest, source: str, priority: int = 0, key: str = "", asked: str = "") -> Item:
    """Put a run into the queue, durably, and give its item; ``item.run`` is the id of the run to come. A living worker
    takes it at once where a slot is free.

    The plan is read, checked and admitted first, so that whatever would keep it from starting is told here: raises
    NotFound, PlanInvalid, UsageError (parameters, task names, a queue that is full), Denied, Unready, StorageFailed.
    ``request.ask`` asks here; what is answered holds for the run. A dry run is not queued: UsageError. ``key`` makes it
    once: where an item has it already, that item is given and nothing is added. ``asked`` is the digest of what came
    with the key, where that is not the request: RecordMismatch where the key came with something else before.
    """
    if request.dry_run:
        raise UsageError("a dry run is not queued: it needs no slot", "run it without the queue")
    here = workspace()
    path = os.path.normpath(os.path.join(here.root, request.plan))
    request = request._replace(plan=path, preview=_absolute(request.preview, here))
    state = find_state(path, request.state)
    asked = asked or _digest(request, priority)
    if request.group and request.overlap == "skip":
        refuse_overlap(state, request.group)
    if request.unconfined:
        require_person("sandbox", state)
    with Store(state) as store:
        if key and (known := store.with_key(key, asked)):
            return known
        promised = promise(request)
        now = time.time()
        wish = Wish(
            run=request.run_id or new_run_id(now, os.urandom(8)),
            plan=path,
            text=promised.text,
            digest=promised.digest,
            request=_written(promised.request),
            by=principal(),
            where=here._replace(state=state),
            source=source,
            priority=priority,
            key=key,
            asked=asked,
        )
        item, _ = store.add(wish, limits_of(find_project(path)).size)
    ring(state)
    return item


def take_up(
    run: str,
    act: Act = "resume",
    arguments: dict[str, Json] | None = None,
    source: str = "",
    state: str | None = None,
) -> Item:
    """Let the worker act on a run that exists, from the queue or from elsewhere: continue it (``resume``, with
    ``settle``: pairs of a task and how its doubt is settled), or ``retry``, ``rerun`` and ``rollback`` with the fields
    of ``RerunRequest`` and ``RollbackRequest`` as ``arguments``. Looked at beforehand: raises NotFound, UsageError
    where there is nothing to do, RunHeld for a run that is acted on, StorageFailed."""
    there = find_state(None, state)
    wanted = dict(arguments or {})
    if wanted.get("settle"):
        require_person("settle", there)
    with closing(open_journal(there, readonly=True)) as journal:
        row = journal.run(journal.find_run(run))
        journal.check_free(row.run)
        if act == "resume" and row.status:
            raise UsageError(ended(f"run {row.run}", row.status), NextStep("show", row.run))
        first = next(journal.entries(row.run)).event
        environment: dict[str, Json] = getattr(first, "environment", {})
        text = journal.plan(str(environment.get("text") or row.plan_digest)).text.encode("utf-8", "surrogatepass")
    if wanted.get("settle"):
        answers(look(row.run, there).state, wanted["settle"], principal().name)
    _look_ahead(act, row.run, wanted, there)
    wish = Wish(
        run=row.run,
        plan=str(environment.get("plan", "")),
        text=text,
        digest=sha256(text).hexdigest(),
        request={"params": list(getattr(first, "params", {}).items())},
        by=principal(),
        where=workspace()._replace(state=there),
        source=source,
        act=act,
        arguments=wanted,
        seen=row.last_seq,
    )
    with Store(there) as store:
        item, _ = store.add(wish)
    ring(there)
    return item


def _look_ahead(act: Act, run: str, arguments: dict[str, Json], state: str) -> None:
    """Raises what the use case would raise for these arguments, TypeError for fields that it does not have."""
    if act in ("retry", "rerun"):
        rerun.preview(rerun_request(run, act, arguments), state)
    elif act == "rollback":
        rollback.preview(rollback_request(run, arguments), state)


def rerun_request(run: str, act: Act, arguments: dict[str, Json]) -> RerunRequest:
    fields = {**arguments, "tasks": tuple(arguments.get("tasks", ()))}
    return RerunRequest(run, retry=act == "retry", **fields)


def rollback_request(run: str, arguments: dict[str, Json]) -> RollbackRequest:
    return RollbackRequest(run, **{**arguments, "only": tuple(arguments.get("only", ()))})


def cancel(run: str, reason: str = "", state: str | None = None, now: bool = False) -> Item:
    """Cancel what was asked for: an item that waits leaves the queue and never runs; a run that has begun is asked to
    end, as ``planrunner cancel`` does (``now``: without ``finally``), and is driven to its end by the worker. Raises
    NotFound, UsageError for one that is over."""
    there = find_state(None, state)
    with Store(there) as store:
        run = store.find(run)
        if (gone := _withdrawn(store, run, reason)) is not None:
            return gone
        _await_begun(store, run)
    body = {**({"reason": reason} if reason else {}), **({"now": True} if now else {})}
    steered = steer(run, "cancel", body, there)
    if not steered.answer.applied:
        raise UsageError(f"run {run}: {steered.answer.message}", NextStep("show", run))
    if not steered.held and not steered.ended:
        return take_up(run, state=there)
    return item(run, there)


def withdraw(run: str, reason: str = "", state: str | None = None) -> Item | None:
    """Take an item out of the queue that waits for its first turn; None for one that has begun. Raises NotFound."""
    with Store(find_state(None, state)) as store:
        return _withdrawn(store, store.find(run), reason)


def _withdrawn(store: Store, run: str, reason: str) -> Item | None:
    if not store.withdraw(run, reason):
        return None
    ring(store.state)
    return store.task(run).item


def _await_begun(store: Store, run: str) -> None:
    """Wait until a run that was taken from the queue is in the journal, which knows from then on how it stands. Raises
    UsageError for one that is over and never got there."""
    deadline = time.monotonic() + _TAKEN
    while not _exists(run, store.state):
        found = store.task(run).item
        if found.status in ENDS:
            raise UsageError(f"run {run} is over: {found.reason or found.status}", NextStep("queue"))
        if found.status != "running" or time.monotonic() > deadline:
            return
        time.sleep(0.02)


def _exists(run: str, state: str) -> bool:
    try:
        with closing(open_journal(state, readonly=True)) as journal:
            journal.run(run)
    except NotFound:
        return False
    return True


def pause(reason: str = "", state: str | None = None) -> Pause:
    """Let nothing more be taken from the queue; what runs goes on. Raises StorageFailed."""
    paused = Pause(principal().name, time.time(), reason)
    with Store(find_state(None, state)) as store:
        store.set_pause(paused)
    return paused


def resume_queue(state: str | None = None) -> Pause | None:
    """Let the queue be worked off again; gives the pause that this ends, None where there was none."""
    there = find_state(None, state)
    with Store(there) as store:
        before = store.pause()
        if before is not None:
            store.set_pause(None)
    ring(there)
    return before


def item(run: str, state: str | None = None) -> Item:
    """The item of a run: ``last``, an id or what it starts with. Raises NotFound where the run is not in the queue."""
    there = find_state(None, state)
    with Store(there, readonly=True) as store:
        found = store.task(store.find(run)).item
        place = store.places().get(found.run) if found.status == "waiting" else None
    return _as_it_stands([found._replace(ahead=place)], there)[0]


def items(
    statuses: tuple[Status, ...] = (), limit: int = 100, after: int = 0, state: str | None = None
) -> tuple[Item, ...]:
    """Items, those that are open first in the order in which they are taken, then those that are over, the last one
    first. ``statuses`` selects, ``after`` skips so many."""
    there = find_state(None, state)
    stored = tuple(dict.fromkeys(_STORED.get(status, status) for status in statuses))
    try:
        with Store(there, readonly=True) as store:
            found = store.page(stored, limit, after)
            places = store.places() if any(each.status == "waiting" for each in found) else {}
    except NotFound:
        return ()
    shown = _as_it_stands([each._replace(ahead=places.get(each.run)) for each in found], there)
    return tuple(each for each in shown if not statuses or each.status in statuses)


_STORED: dict[str, Status] = {"starting": "running", "interrupted": "running"}
"""What is stored of the statuses that are only known by looking at leases."""


def overview(state: str | None = None) -> Overview:
    """The queue at this moment; an empty one where nothing was ever queued. Raises as ``read_settings``."""
    there = find_state(None, state)
    directory = os.path.dirname(there) if os.path.basename(there) == NAME else workspace().root
    limits, worker = limits_of(directory), worker_of(there)
    try:
        with Store(there, readonly=True) as store:
            counts, paused = store.counts(), store.pause()
            acting = [task.item for task in store.tasks("running")]
    except NotFound:
        return Overview({}, None, worker, limits)
    counts.pop("running", None)
    for each in _as_it_stands(acting, there):
        counts[each.status] = counts.get(each.status, 0) + 1
    return Overview(counts, paused, worker, limits)


def _as_it_stands(found: list[Item], state: str) -> list[Item]:
    """Items with the statuses that leases tell: nothing is said to run that no process has the lease of."""
    doubtful = {each.run for each in found if each.status in ("running", "parked")}
    if not doubtful:
        return found
    worker = worker_of(state)
    leased = _leased(doubtful, state)

    def stands(each: Item) -> Status:
        if each.run in leased:
            return "running"
        return each.status if each.status == "parked" else "starting" if worker else "interrupted"

    return [each._replace(status=stands(each)) if each.run in doubtful else each for each in found]


def _leased(runs: set[str], state: str) -> set[str]:
    try:
        with closing(open_journal(state, readonly=True)) as journal:
            return {run for run in runs if journal.is_leased(run)}
    except NotFound:
        return set()


_KEPT = ("params", "only", "until", "max_parallel", "seed", "preview", "unattended", "unconfined", "trust", "beyond")
"""The fields of a request that an item keeps beside the plan."""


def _digest(request: ExecRequest, priority: int) -> str:
    """What a request is known by that is asked for once; the span that it is asked in does not count."""
    asked = [request.plan, _written(request._replace(traceparent="")), priority]
    return sha256(stable_json(asked).encode("utf-8", "surrogatepass")).hexdigest()


def _written(request: ExecRequest) -> dict[str, Json]:
    """What of a request differs from one that says nothing but the plan, as JSON."""
    plain = ExecRequest(request.plan)
    fields = {name: getattr(request, name) for name in (*_KEPT, "forced", "traceparent", "group", "overlap")}
    return {name: value for name, value in fields.items() if value != getattr(plain, name)}


def _absolute(path: str | None, here: Workspace) -> str | None:
    return None if path is None else os.path.join(here.root, path)
