"""A recorded run as a file of its own, and its replay with its own plan or an edited one. Nothing is started."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple

from planrunner.app.history.state import later_plans, plan_of
from planrunner.app.runs.setup import prepare_plan
from planrunner.engine.replay import replay, replay_edited
from planrunner.errors import Hint, NextStep, NotFound, StorageFailed, UsageError
from planrunner.journal.codec import decode_rows, encode_rows
from planrunner.journal.records import StoredPlan
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_project, find_state
from planrunner.machine.events import Entry, RunStarted
from planrunner.machine.replay import Replayed
from planrunner.plan.model import Plan
from planrunner.plan.params import bind_params
from planrunner.plugins.registry import Registry
from planrunner.records import Struct
from planrunner.views.documents import document
from planrunner.views.proof import replay_object

Json = Any


FORMAT = 2
SUFFIX = ".jsonl"
_EXPORT = Hint(NextStep("events", "RUN", "--export", "FILE"), " writes one")


class History(NamedTuple):
    """A recorded run apart from the journal it came from."""

    run_id: str
    plan_id: str
    plan: StoredPlan
    entries: tuple[Entry, ...]
    revisions: tuple[StoredPlan, ...] = ()
    """The plans that it was given later."""


def history_of(wanted: str, state: str | None) -> History:
    """A run of the journal (``last``, an id or the start of one). Raises NotFound."""
    with closing(open_journal(find_state(None, state), readonly=True)) as journal:
        row = journal.run(journal.find_run(wanted))
        entries = tuple(journal.entries(row.run))
        later = tuple(journal.plan(key) for key in later_plans(entries))
        return History(row.run, row.plan_id, journal.plan(row.plan_digest), entries, later)


def written(history: History) -> str:
    """The text of a history: a line about the run, then a line for each entry as the journal stores it."""
    head = {
        "format": FORMAT,
        "type": "history",
        "run": history.run_id,
        "plan": history.plan_id,
        **_written(history.plan),
        **({"revisions": [_written(plan) for plan in history.revisions]} if history.revisions else {}),
    }
    lines = [json.dumps(head, ensure_ascii=False)]
    for seq, at, kind, version, body in encode_rows(0, history.entries):
        lines.append(f'{{"seq":{seq},"at":{at!r},"kind":"{kind}","version":{version},"body":{body}}}')
    return "\n".join(lines) + "\n"


def _written(plan: StoredPlan) -> dict[str, Json]:
    """The plan as its text, and as it was loaded: the files that the text links need not be where it is read."""
    text = {"digest": plan.digest, "name": plan.name, "notation": plan.notation, "text": plan.text}
    return text if plan.compiled is None else {**text, "compiled": plan.compiled.decode()}


def export(wanted: str, state: str | None, path: str) -> History:
    """Write a run to a file, which must not exist. Raises NotFound, UsageError."""
    history = history_of(wanted, state)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(written(history))
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error
    return history


class _Unusable(ValueError):
    """A file that is not a history: the message says why."""


def history(wanted: str, state: str | None) -> History:
    """A run of the journal (``last``, an id or the start of one) or one in a file. Raises NotFound, and UsageError for
    a file that is not a history."""
    if wanted.endswith(SUFFIX) and (os.path.isfile(wanted) or not os.path.lexists(wanted)):
        return read_history(wanted)
    try:
        return history_of(wanted, state)
    except NotFound:
        if not os.path.isfile(wanted):
            raise
        return read_history(wanted)


def _read(plan: dict[str, Json]) -> StoredPlan:
    compiled = plan.get("compiled")
    loaded = None if compiled is None else compiled.encode()
    return StoredPlan(plan["digest"], plan["text"], plan["name"], plan["notation"], loaded)


def read_history(path: str) -> History:
    """The history in a file. Raises NotFound, and UsageError for one that is damaged or of another format."""
    try:
        with open(path, encoding="utf-8") as file:
            head, *lines = [json.loads(line) for line in file]
        if head.get("type") != "history" or head["format"] != FORMAT:
            raise _Unusable("it is not a history in the format of this planrunner")
        rows = [(one["seq"], one["at"], one["kind"], one["version"], json.dumps(one["body"])) for one in lines]
        later = tuple(_read(plan) for plan in head.get("revisions", ()))
        return History(head["run"], head["plan"], _read(head), tuple(decode_rows(rows)), later)
    except OSError as error:
        raise NotFound(f"`{path}` cannot be read: {error.strerror}", _EXPORT) from error
    except (StorageFailed, ValueError, KeyError, TypeError, AttributeError) as error:
        why = str(error) if isinstance(error, _Unusable) else "it is damaged, or no file that `events --export` wrote"
        raise UsageError(f"the history `{path}` cannot be used: {why}", _EXPORT) from error


class ReplayReport(Struct):
    """What a replay found. ``revision`` is the digest of the plan the run is pinned to, ``edited`` that of the plan it
    was replayed with, empty where it is the same."""

    run_id: str
    plan_id: str
    revision: str
    edited: str
    replayed: Replayed


def replay_document(report: ReplayReport) -> dict[str, Json]:
    """Whether the decisions of a run follow from its record, and the first difference."""
    head = document(run_id=report.run_id, plan=report.plan_id, revision=report.revision, edited=report.edited or None)
    return {**head, **replay_object(report.replayed)}


def replay_run(wanted: str, state: str | None, plan: str | None = None) -> ReplayReport:
    """Replay a run (``last``, an id, the start of one, or the file of an exported one), with the plan file ``plan``
    instead of its own where given.

    Raises NotFound, PlanInvalid for an edited plan that cannot run, UsageError for one with a run that was revised, and
    StorageFailed for a damaged journal.
    """
    run_id, plan_id, stored, entries, later = history(wanted, state)
    pinned = plan_of(stored)
    if plan is None:
        plans = {each.digest: plan_of(each) for each in later}
        last = later[-1].digest if later else stored.digest
        return ReplayReport(run_id, plan_id, last, "", replay(pinned, run_id, entries, plans))
    if later:
        raise UsageError(
            f"run {run_id} was revised: it is replayed with the plans it had, not with another one",
            NextStep("replay", wanted),
        )
    edited, replayed = _edited(plan, pinned, run_id, entries)
    return ReplayReport(run_id, plan_id, stored.digest, edited, replayed)


def _edited(path: str, pinned: Plan, run_id: str, entries: Sequence[Entry]) -> tuple[str, Replayed]:
    """The digest of the edited plan, and what the replay with it found."""
    seen = prepare_plan(path, None, Registry(project=find_project(path)))
    started = entries[0].event if entries else None
    if not isinstance(started, RunStarted):
        raise StorageFailed(f"the journal of run {run_id} does not begin with its start")
    traits = {**seen.traits, **started.traits}
    begun = started._replace(params=_params(started, pinned, seen.plan), traits=traits)
    return seen.digest, replay_edited(pinned, seen.plan, run_id, entries, begun)


def _params(started: RunStarted, pinned: Plan, edited: Plan) -> dict[str, Json]:
    """The parameters of the run as the edited plan takes them: what was given stays, what had its default gets the
    default of the edited plan."""
    before = bind_params(pinned, {}).values
    now = bind_params(edited, {}).values
    given = {name: value for name, value in started.params.items() if name in now and value != before.get(name)}
    return {**now, **given}
