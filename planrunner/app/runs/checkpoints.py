"""Checkpoints of a run, what one contains, and new runs that continue from one. The original run does not change."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from planrunner.app.history.state import plan_after, stored_state, told_whose
from planrunner.app.people.persons import require_person
from planrunner.app.runs.occupancy import Restoring, directory_of, refuse_runs
from planrunner.app.runs.restore import Rewind, readable, rewind
from planrunner.caller import principal
from planrunner.errors import Hint, NextStep, NotFound, RunHeld, StorageFailed, UsageError
from planrunner.files import snapshot
from planrunner.journal.ports import Journal
from planrunner.journal.records import NewRun, RunRow, new_run_id
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_state, prepare_state
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.machine.checkpoints import positions, rest_after
from planrunner.machine.events import CheckpointTaken, Entry, GateDecided, RunEnded, RunForked, TaskSettled
from planrunner.machine.revision import forked as reset_by_fork
from planrunner.machine.rework import Unfit
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import State
from planrunner.machine.verdicts import unmet
from planrunner.plan.nearest import nearest
from planrunner.plan.params import bind_params
from planrunner.records import Struct
from planrunner.views.documents import document

Json = Any


class Checkpoint(Struct):
    """A place that a run can be taken up from: after the entry ``seq``, where ``task`` had completed at ``at`` (seconds
    since 1970), or a round of it (``task#round``). ``name`` is ``cp-TASK-TIME`` with the time in UTC. ``files`` tells
    what was kept of the working directory, None where nothing was asked for; ``taken`` is the entry that says so. Where
    the run ``ended`` with it nothing is left to continue with."""

    name: str
    task: str
    seq: int
    at: float
    ended: bool = False
    taken: int = 0
    files: CheckpointTaken | None = None


def checkpoints_document(run_id: str, places: Sequence[Checkpoint]) -> dict[str, Json]:
    """The checkpoints of a run; ``files`` of one is null where nothing was kept of the working directory."""
    rows = [{**one._asdict(), "files": None if one.files is None else one.files._asdict()} for one in places]
    return document(run_id=run_id, checkpoints=rows)


class ForkRequest(Struct):
    """From where a run is to go on as another one: ``checkpoint`` (a name, the beginning of one, or a task) or ``at``
    (the seq of an entry); neither is the last checkpoint. ``params`` replace those of the run."""

    run: str
    checkpoint: str = ""
    at: int | None = None
    params: tuple[tuple[str, Json], ...] = ()
    state: str | None = None


class Forked(Struct):
    """The new run, and the entry of ``parent`` after which it goes on; ``checkpoint`` is empty where there is none.
    ``files`` is how many files, links and folders are not as they were then; 0 if they were not kept."""

    run_id: str
    parent: str
    seq: int
    checkpoint: str
    files: int = 0


def checkpoints(wanted: str, state: str | None) -> tuple[RunRow, list[Checkpoint]]:
    """The checkpoints of a run, the oldest first. Raises NotFound."""
    with closing(open_journal(find_state(None, state), readonly=True)) as journal:
        row = journal.run(journal.find_run(wanted))
        return row, named(list(journal.entries(row.run)))


def named(entries: Sequence[Entry]) -> list[Checkpoint]:
    """The checkpoints in a record; a task that completed twice in a second gets numbers from 2 on."""
    checkpoints: dict[str, Checkpoint] = {}
    for task, seq, at, taken, ended in positions(entries):
        name = base = f"cp-{task}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(at))}"
        count = 1
        while name in checkpoints:
            count += 1
            name = f"{base}-{count}"
        files = entries[taken - 1].event if taken else None
        assert files is None or isinstance(files, CheckpointTaken)
        checkpoints[name] = Checkpoint(name, task, seq, at, ended, taken, files)
    return list(checkpoints.values())


def fork(request: ForkRequest) -> Forked:
    """Make a run that goes on from a place in another one, ready for ``resume``.

    Raises NotFound, RunHeld while a process acts on the run, RecordMismatch for a run that is not what was written,
    StorageFailed. A process that a run started is Denied. A place after the end of the run, parameters that do not fit
    and an attempt in doubt behind a gate are a UsageError.
    """
    require_person("fork", find_state(None, request.state))
    with closing(open_journal(find_state(None, request.state))) as journal:
        row = _free(journal, request.run)
        journal.prove(row.run)
        entries = list(journal.entries(row.run))
        seq, checkpoint, _ = _place(row, entries, request)
        params = _params(journal, row, entries[:seq], request)
        differs = _differing(journal, row, entries, request)
        now = time.time()
        run_id, idle = new_run_id(now, os.urandom(8)), max(0.0, now - entries[seq - 1].at)
        parent = _writer(row.run, entries[seq:])
        forked = Entry(seq + 1, now, RunForked(run_id, parent, seq, params, idle, principal().name))
        new = NewRun(run_id, row.plan_id, row.plan_digest, now)
        asked = _asks_again(journal, row.run, entries[:seq], forked)
        journal.release(journal.create_run(new, [*entries[:seq], forked, *asked]))
        return Forked(run_id, parent, seq, checkpoint, differs)


def _asks_again(journal: Journal, run: str, entries: Sequence[Entry], forked: Entry) -> list[Entry]:
    """What follows a fork: gates whose decision was for the other run ask again."""
    before, after = stored_state(journal, run, entries), stored_state(journal, run, [*entries, forked])
    try:
        reset = reset_by_fork(before, after)
    except Unfit as error:
        settle = NextStep("resume", run, "--settle", "all=retry")
        hint = Hint("say what became of it first (retry, completed or failed): ", settle)
        raise UsageError(f"run {run} cannot be forked here: {error}", hint) from None
    return [] if reset is None else [Entry(forked.seq + 1, forked.at, reset)]


def _writer(run: str, later: Sequence[Entry]) -> str:
    """The run that wrote the entries before ``later``: where a fork follows, the one that ``run`` took them over from.
    The keys of its attempts hold its name."""
    return next((entry.event.parent for entry in later if isinstance(entry.event, RunForked)), run)


def _differing(journal: Journal, row: RunRow, entries: Sequence[Entry], request: ForkRequest) -> int:
    """How many paths are not as a checkpoint before the place of the fork kept them."""
    if not any(isinstance(entry.event, CheckpointTaken) for entry in entries):
        return 0
    try:
        place, state_dir = _place(row, entries, request), find_state(None, request.state)
        steps = _rewind(journal, row, entries, place, state_dir).steps
    except (NotFound, StorageFailed, UsageError):
        return 0  # restoring them reports why it cannot be done
    return sum(step.writes or step.how == "removed" for step in steps)


def _free(journal: Journal, wanted: str) -> RunRow:
    """A run on which no process acts."""
    row = journal.run(journal.find_run(wanted))
    if row.leased:
        raise RunHeld(f"a process acts on run `{row.run}`", "let it end, or stop it first")
    return row


def restoring(request: ForkRequest) -> Restoring:
    """The right to put files back in the directory of a run, until it is left. Raises NotFound, RunHeld while another
    process has it, StorageFailed."""
    state_dir = find_state(None, request.state)
    with closing(open_journal(state_dir, readonly=True)) as journal:
        directory = directory_of(journal.entries(journal.find_run(request.run)))
    prepare_state(state_dir)  # with a journal that a team shares nothing may have been written here yet
    return Restoring(state_dir, directory)


def files_at(request: ForkRequest, over: bool = False) -> Rewind:
    """How to make the working directory what it was at the place of a fork; with ``over`` that may be a
    checkpoint that the run ended with. Raises as ``fork`` does, and RunHeld where any run acts in the directory."""
    state_dir = find_state(None, request.state)
    with closing(open_journal(state_dir, readonly=True)) as journal:
        row = _free(journal, request.run)
        journal.prove(row.run)
        entries = list(journal.entries(row.run))
        refuse_runs(journal, directory_of(entries))
        return _rewind(journal, row, entries, _place(row, entries, request, over), state_dir)


def _rewind(
    journal: Journal, row: RunRow, entries: Sequence[Entry], place: tuple[int, str, int], state_dir: str
) -> Rewind:
    seq, _, taken = place
    plan = plan_after(journal, row.plan_digest, entries[:seq])
    with told_whose(entries):
        return rewind(plan, entries[:seq], taken, directory_of(entries), state_dir)


def _place(row: RunRow, entries: Sequence[Entry], request: ForkRequest, over: bool = False) -> tuple[int, str, int]:
    """The entry to go on after, the name of the checkpoint, and the entry that tells of its own files. With ``over``
    it may be one that the run ended with."""
    if request.at is None:
        known = named(entries)
        ahead = [one for one in known if not one.ended]
        if known and not ahead and not request.checkpoint:
            message = f"run {row.run} ended with its first checkpoint: nothing is left to continue with"
            raise UsageError(message, Hint(NextStep("retry", row.run), ", or ", NextStep("exec"), " for a new run"))
        found = find(row.run, known if request.checkpoint else ahead, request.checkpoint)
        if found.ended and not over:
            message = f"run {row.run} ended with checkpoint `{found.name}`: nothing is left to continue with"
            files = Hint("; ", NextStep("checkpoints", row.run, found.name, "--restore-files"), " puts its files back")
            raise UsageError(message, Hint("choose an earlier one", *(files.parts if found.files is not None else ())))
        return found.seq, found.name, found.taken
    if not 0 < request.at <= len(entries):
        raise UsageError(f"run {row.run} has the entries 1 to {len(entries)}, not {request.at}")
    seq = rest_after(entries, request.at)
    if isinstance(entries[seq - 1].event, RunEnded):
        raise UsageError(
            f"run {row.run} ended with entry {seq}: nothing is left to continue with", "choose an earlier one"
        )
    return seq, "", 0


def find(run: str, known: Sequence[Checkpoint], wanted: str) -> Checkpoint:
    """The checkpoint that ``wanted`` means: a name, the beginning of one name only, or a task (its last one). Empty
    is the last one of all. Raises NotFound."""
    if not known:
        raise NotFound(f"run {run} has no checkpoints: no task completed before it ended", NextStep("show", run))
    if not wanted:
        return known[-1]
    exact = [one for one in known if wanted == one.name] or [one for one in known if wanted == one.task]
    if exact:
        return exact[-1]
    starts = [one for one in known if one.name.startswith(wanted)]
    if len(starts) == 1:
        return starts[0]
    if starts:
        shown = ", ".join(f"`{one.name}`" for one in starts[:8])
        raise NotFound(f"`{wanted}` may be any of these checkpoints: {shown}", "type more of the name")
    near = nearest(wanted, [one.name for one in known] + [one.task for one in known])
    way = Hint(f"did you mean `{near}`? " if near else "", NextStep("checkpoints", run), " lists them")
    raise NotFound(f"run {run} has no checkpoint `{wanted}`", way)


def _params(journal: Journal, row: RunRow, entries: Sequence[Entry], request: ForkRequest) -> dict[str, Json]:
    if not request.params:
        return {}
    plan = plan_after(journal, row.plan_digest, entries)
    given = dict(request.params)
    if not given.keys() <= {one.name for one in plan.params}:
        strange = [problem for problem in bind_params(plan, given).problems if "has no parameter" in problem]
        raise UsageError("; ".join(strange))
    bound = bind_params(plan._replace(params=tuple(one for one in plan.params if one.name in given)), given)
    if bound.problems:
        raise UsageError("; ".join(bound.problems))
    return bound.values


def look(run: str, wanted: str, state: str | None) -> dict[str, Json]:
    """One checkpoint as data: that a run has no such one raises NotFound. Times are seconds since 1970."""
    state_dir = find_state(None, state)
    with closing(open_journal(state_dir, readonly=True)) as journal:
        row = journal.run(journal.find_run(run))
        entries = list(journal.entries(row.run))
        known = named(entries)
        found = find(row.run, known, wanted)
        then = stored_state(journal, row.run, entries[: _completion(entries, found)])
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
        "tasks": {status: count for status, count in then.counts.items() if count},
        "outputs": {
            task: then.tasks[number].outputs for task, number in _completed(then) if then.tasks[number].outputs
        },
        "artifacts": [
            {"task": task, **record}
            for task, number in _completed(then)
            if (outcome := then.tasks[number].outcome) is not None
            for record in outcome.artifacts
        ],
        "decisions": [
            {"at": entry.at, **entry.event._asdict()}
            for entry in entries[: found.seq]
            if isinstance(entry.event, GateDecided)
        ],
        "evidence": list(_evidence(then)),
        "files": _files(found, known, ArtifactStore(state_dir)),
        "environment": then.environment,
    }


def _completion(entries: Sequence[Entry], checkpoint: Checkpoint) -> int:
    """The entry with which the task, or the round, had completed: the place to go on from has what begins next too."""
    before: Iterator[Entry] = reversed(entries[: checkpoint.seq])
    for entry in before:
        event = entry.event
        if entry.seq == checkpoint.taken or (isinstance(event, TaskSettled) and event.task == checkpoint.task):
            return entry.seq
    return checkpoint.seq


def _completed(state: State) -> Iterator[tuple[str, int]]:
    for number, task_state in enumerate(state.tasks):
        if task_state.status == "completed":
            yield state.specs[number].id, number


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


def _files(checkpoint: Checkpoint, known: Sequence[Checkpoint], store: ArtifactStore) -> dict[str, Json] | None:
    """The files that belong to a checkpoint: its own, or those of the newest one before that has some."""
    place = checkpoint.taken or checkpoint.seq
    with_files = [one for one in known if one.files is not None and one.files.files and one.taken <= place]
    if checkpoint.files is not None and not checkpoint.files.files:
        return {"of": checkpoint.name, "own": True, "problem": checkpoint.files.problem}
    if not with_files:
        return None
    newest = checkpoint if checkpoint.files is not None else max(with_files, key=lambda one: one.taken)
    assert newest.files is not None
    told = newest.files
    return {
        "of": newest.name,
        "own": newest is checkpoint,
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
        found = snapshot.changes(snapshot.read(store, since), snapshot.read(store, files))
    except (NotFound, StorageFailed, ValueError) as problem:
        return {"added": [], "changed": [], "removed": [], "lost": str(problem)}
    return {name: [readable(path) for path in paths] for name, paths in found._asdict().items()}
