"""What one checkpoint of a run holds: parameters, outputs so far, decisions, evidence, files, environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from planrunner.app.forking import Checkpoint, find, named
from planrunner.app.reading import stored_state
from planrunner.errors import NotFound, StorageFailed
from planrunner.journal.sqlite import open_journal
from planrunner.journal.workspace import find_state
from planrunner.knowledge import directories
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.machine.events import Entry, TaskSettled
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import State
from planrunner.machine.verdicts import unmet

Json = Any


def look(run: str, wanted: str, state: str | None) -> dict[str, Json]:
    """One checkpoint as data: that a run has no such one raises NotFound. Times are seconds since 1970."""
    state_dir = find_state(None, state)
    journal = open_journal(state_dir, readonly=True)
    try:
        row = journal.run(journal.find_run(run))
        entries = list(journal.entries(row.run))
        known = named(entries)
        found = find(row.run, known, wanted)
        then = stored_state(journal, row.run, entries[: _completion(entries, found)])
    finally:
        journal.close()
    return {
        "format": 1,
        "run_id": row.run,
        "plan": row.plan_id,
        "plan_digest": row.plan_digest,
        "checkpoint": found.name,
        "task": found.task,
        "entry": found.seq,
        "at": found.at,
        "ended": found.ended,
        "params": then.params,
        "tasks": _statuses(then),
        "outputs": {
            task: then.tasks[number].outputs for task, number in _completed(then) if then.tasks[number].outputs
        },
        "artifacts": list(_artifacts(then)),
        "decisions": list(_decisions(entries[: found.seq])),
        "evidence": list(_evidence(then)),
        "files": _files(found, known, ArtifactStore(state_dir)),
        "environment": then.environment,
    }


def _completion(entries: Sequence[Entry], found: Checkpoint) -> int:
    """The entry with which the task, or the round, had completed: the place to go on from has what begins next too."""
    before: Iterator[Entry] = reversed(entries[: found.seq])
    for entry in before:
        event = entry.event
        if entry.seq == found.taken or (isinstance(event, TaskSettled) and event.task == found.task):
            return entry.seq
    return found.seq


def _completed(state: State) -> Iterator[tuple[str, int]]:
    for number, found in enumerate(state.tasks):
        if found.status == "completed":
            yield state.specs[number].id, number


def _statuses(state: State) -> dict[str, int]:
    return {status: count for status, count in state.counts.items() if count}


def _artifacts(state: State) -> Iterator[dict[str, Json]]:
    for task, number in _completed(state):
        outcome = state.tasks[number].outcome
        for record in outcome.artifacts if outcome is not None else ():
            yield {"task": task, **record}


def _decisions(entries: Iterable[Entry]) -> Iterator[dict[str, Json]]:
    """What was decided at gates, by whom, and what they said."""
    for entry in entries:
        if entry.event.__class__.__name__ == "GateDecided":
            yield {"at": entry.at, **entry.event._asdict()}


def _evidence(state: State) -> Iterator[dict[str, Json]]:
    """The criteria of completed tasks, with whether they hold; those in words were decided by people."""
    for task, number in _completed(state):
        spec, scope = state.specs[number], TaskScope(state, number)
        if state.tasks[number].outcome is None:
            continue
        for criterion in (*spec.expect, *spec.postconditions):
            failed = "" if criterion.expression is None else unmet(criterion, scope)
            yield {
                "task": task,
                "criterion": criterion.text,
                "by": "people" if criterion.expression is None else "expression",
                "holds": not failed,
                **({"why": failed} if failed else {}),
            }


def _files(found: Checkpoint, known: Sequence[Checkpoint], store: ArtifactStore) -> dict[str, Json] | None:
    """The files that belong to a checkpoint: its own, or those of the newest one before that has some."""
    place = found.taken or found.seq
    with_files = [one for one in known if one.files is not None and one.files.files and one.taken <= place]
    if found.files is not None and not found.files.files:
        return {"of": found.name, "own": True, "problem": found.files.problem}
    if not with_files:
        return None
    newest = found if found.files is not None else max(with_files, key=lambda one: one.taken)
    assert newest.files is not None
    told = newest.files
    return {
        "of": newest.name,
        "own": newest is found,
        "manifest": told.files,
        "held": told.held,
        "size": told.size,
        "patterns": list(told.patterns),
        "git": told.git,
        "problem": told.problem,
        "since": next((one.name for one in known if one.files is not None and one.files.files == told.since), ""),
        **_changes(store, told.since, told.files),
    }


def _changes(store: ArtifactStore, since: str, files: str) -> dict[str, Json]:
    """The paths that differ from the checkpoint before; nothing where there was none, or a manifest is lost."""
    if not since:
        return {"added": [], "changed": [], "removed": []}
    try:
        found = directories.changes(directories.read(store, since), directories.read(store, files))
    except (NotFound, StorageFailed, ValueError) as problem:
        return {"added": [], "changed": [], "removed": [], "lost": str(problem)}
    return {name: [readable(path) for path in paths] for name, paths in found._asdict().items()}


def readable(path: str) -> str:
    """A path as text, with an escape for each byte that is none."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
