"""What the attempts of a task were called with, and what was sent to models for it and came back.

A call is rendered once more from the journal up to the start of its attempt: secrets are redacted there already. Its
digest was recorded with the start, and tells whether it is the same call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from planrunner.app.history.state import stored_state
from planrunner.app.plans.tasks import task_number
from planrunner.caller import workspace
from planrunner.engine.calls import Place, digest, prepare
from planrunner.engine.containers import values_digest
from planrunner.errors import NextStep, NotFound
from planrunner.journal.ports import Journal
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_state
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.machine.commands import Start
from planrunner.machine.events import AttemptEnded, AttemptStarted, Entry, FrameOpened, GateExamined
from planrunner.plan.agents import ASKING
from planrunner.records import Struct
from planrunner.views.documents import document

Json = Any


LONGEST = 100_000
"""Bytes of a request or a reply that are shown."""
_SENT = ("request-", "reply-")
_ROUND = r"(?:@\d+)?#\d+/model"
"""After the path of a task of an agent: the request of a round."""


class Sent(Struct):
    """A request to a model or its reply. ``text`` is None where the content is not kept any more."""

    name: str
    sha256: str
    size: int
    text: str | None


class Called(Struct):
    """One attempt, or the judge of one (``judge``). ``recorded`` is the digest of its call as the journal has it;
    ``same`` tells whether ``call`` has it too. ``problem`` is why the call cannot be shown."""

    task: str
    attempt: int
    judge: bool
    call: dict[str, Json]
    recorded: str
    same: bool
    problem: str
    sent: tuple[Sent, ...]
    context: tuple[dict[str, Json], ...] = ()
    """Of an agent: what its model was sent where a prompt begins, part by part."""


def calls_document(calls: list[Called]) -> dict[str, Json]:
    """What a task was called with, attempt by attempt."""
    return document(calls=[{**each._asdict(), "sent": [sent._asdict() for sent in each.sent]} for each in calls])


def called(wanted: str, task: str, state: str | None) -> list[Called]:
    """Every attempt of a task and every question to a judge about it, in the order of the journal. Raises NotFound."""
    directory = find_state(None, state)
    with closing(open_journal(directory, readonly=True)) as journal:
        run = journal.find_run(wanted)
        entries = list(journal.entries(run))
        now = stored_state(journal, run, entries)
        name = now.specs[task_number(now, task)].id
        store = ArtifactStore(directory)
        spec = now.specs[now.index[name]]
        agent = spec.agent
        calls: list[Called] = []
        for at, entry in enumerate(entries):
            event = entry.event
            if isinstance(event, AttemptStarted) and event.task == name:
                if agent is not None:
                    calls.append(_of_agent(agent.name, event, entries[at + 1 : at + 2]))
                else:
                    calls.append(_attempt(journal, run, entries[: at + 1], event))
            elif isinstance(event, AttemptEnded) and event.task == name:
                sent = tuple(_sent(record, store) for record in event.outcome.artifacts if _is_sent(record))
                calls = [
                    one
                    if one.judge or one.attempt != event.attempt
                    else one._replace(sent=sent, context=_parts(event) if spec.uses == ASKING else one.context)
                    for one in calls
                ]
            elif calls and isinstance(event, AttemptEnded) and re.fullmatch(_ROUND, event.task.removeprefix(name)):
                calls[-1] = calls[-1]._replace(context=calls[-1].context or _parts(event))
            elif isinstance(event, GateExamined) and event.task == name:
                calls += _judged(event, store)
    if not calls:
        raise NotFound(f"`{name}` has not begun in run {run}", NextStep("why", run, name))
    return calls


def _parts(event: AttemptEnded) -> tuple[dict[str, Json], ...]:
    """What a model was sent for an agent, part by part."""
    return tuple(event.outcome.outputs.get("context") or ())


def _of_agent(agent: str, event: AttemptStarted, after: Iterable[Entry]) -> Called:
    """An attempt of a task that an agent carries out: what its first round is handed."""
    opened = next((each.event for each in after if isinstance(each.event, FrameOpened)), None)
    handed = opened.values if opened is not None and opened.task == event.task else None
    if handed is None:
        return Called(event.task, event.attempt, False, {"agent": agent}, event.inputs, True, "", ())
    shown = {"agent": agent, "prompt": handed["prompt"], "session": handed["transcript"]}
    shown["heard"] = "\n".join(filter(None, handed.get("objections") or ()))
    same = values_digest(handed) == event.inputs
    said = {name: text for name, text in shown.items() if text}
    return Called(event.task, event.attempt, False, said, event.inputs, same, "", ())


def _attempt(journal: Journal, run: str, entries: list[Entry], event: AttemptStarted) -> Called:
    state = stored_state(journal, run, entries[:-1])
    state.now = entries[-1].at
    place = Place(str(state.environment.get("directory") or workspace().root), "")
    start = Start(state.index[event.task], event.attempt, event.reissue, event.reserved)
    prepared = prepare(state, start, place, shown=True)
    call = prepared.call
    if call is None:
        why = prepared.outcome.message if prepared.outcome is not None else ""
        return Called(event.task, event.attempt, False, {}, event.inputs, False, why, ())
    parts = {
        "uses": call.task.uses,
        "with": call.inputs,
        "run": list(call.arguments) or call.script,
        "values": dict(call.values),
        "env": dict(call.env),
        "cwd": call.directory,
        "stdin": call.stdin,
        "ready": call.ready,
    }
    shown = {key: value for key, value in parts.items() if value}
    return Called(event.task, event.attempt, False, shown, event.inputs, digest(call) == event.inputs, "", ())


def _judged(event: GateExamined, store: ArtifactStore) -> list[Called]:
    result = []
    for item in event.evidence:
        records = item.get("kept") or [
            {"name": f"{part}-1.json", "sha256": item[f"{part}_sha256"]}
            for part in ("request", "reply")
            if item.get(f"{part}_sha256")
        ]
        if item.get("kind") == "judge" and records:
            sent = tuple(_sent(record, store) for record in records)
            call = {"uses": "llm.judge", "model": item.get("name", "")}
            result.append(Called(event.task, event.visit, True, call, "", True, "", sent))
    return result


def _is_sent(record: dict[str, Json]) -> bool:
    return not record.get("path") and str(record.get("name", "")).startswith(_SENT)


def _sent(record: dict[str, Json], store: ArtifactStore) -> Sent:
    name, sha256 = str(record.get("name", "")), str(record.get("sha256", ""))
    try:
        with store.open(sha256) as file:
            data = file.read(LONGEST)
            size = os.fstat(file.fileno()).st_size
    except (NotFound, OSError):
        return Sent(name, sha256, int(record.get("size") or 0), None)
    return Sent(name, sha256, size, data.decode("utf-8", "replace"))
