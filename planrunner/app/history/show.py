"""Look at runs: status, output of tasks, journal and explanations."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

from planrunner.app.history.state import stored_state
from planrunner.app.runs.doubts import rest
from planrunner.engine.poller import TimeLine, boot
from planrunner.errors import Hint, NextStep, NotFound, PlanrunnerError, UsageError
from planrunner.journal.codec import event_types
from planrunner.journal.records import Head, RunRow
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_state, private
from planrunner.later import Later
from planrunner.machine.events import AttemptEnded, Entry
from planrunner.machine.names import label, labelled, named, picked
from planrunner.machine.state import State
from planrunner.records import Struct
from planrunner.views.status import exit_code, shown_status

if TYPE_CHECKING:
    from planrunner.app.history.state import stored_plan
    from planrunner.app.plans.tasks import task_number, unknown
    from planrunner.engine.output import log_name
    from planrunner.machine.explain import round_name, round_status, rounds_named, why, why_round
    from planrunner.plan.nearest import nearest
    from planrunner.source import Source
    from planrunner.views.revision import revisions
    from planrunner.views.run import run_object
    from planrunner.views.suggestions import suggestion_lines
else:
    stored_plan = Later("planrunner.app.history.state:stored_plan")
    task_number = Later("planrunner.app.plans.tasks:task_number")
    unknown = Later("planrunner.app.plans.tasks:unknown")
    log_name = Later("planrunner.engine.output:log_name")
    round_name = Later("planrunner.machine.explain:round_name")
    round_status = Later("planrunner.machine.explain:round_status")
    rounds_named = Later("planrunner.machine.explain:rounds_named")
    why = Later("planrunner.machine.explain:why")
    why_round = Later("planrunner.machine.explain:why_round")
    nearest = Later("planrunner.plan.nearest:nearest")
    revisions = Later("planrunner.views.revision:revisions")
    run_object = Later("planrunner.views.run:run_object")
    suggestion_lines = Later("planrunner.views.suggestions:suggestion_lines")


PLACES = ("/", "#", "[", "@")
"""What follows the path of a task in the path of one that it holds."""

Json = Any


class EntryQuery(Struct):
    """Entries of these ``types`` (``attempt_ended`` …), about ``task`` or one that it holds, after the entry with the
    number ``after``; ``limit`` of them at most (None: all)."""

    types: tuple[str, ...] = ()
    task: str = ""
    after: int = 0
    limit: int | None = None


def wanted(query: EntryQuery, entries: Iterable[tuple[RunRow, Entry]]) -> Iterator[tuple[RunRow, Entry]]:
    """Those of the entries that a query asks for. Raises UsageError for a type that no event has, and, once all
    entries were seen, NotFound for a task that none of them is about."""
    known = event_types()
    for name in query.types:
        if name not in known:
            raise UsageError(f"no event has the type `{name}`", _meant(name, known))
    return islice(_matching(query, frozenset(known[name] for name in query.types), entries), query.limit)


def _matching(
    query: EntryQuery, kinds: frozenset[type], entries: Iterable[tuple[RunRow, Entry]]
) -> Iterator[tuple[RunRow, Entry]]:
    about: dict[str, bool] = {}
    for row, entry in entries:
        event = entry.event
        one = getattr(event, "task", "")
        tasks = (one,) if one else tuple(getattr(event, "tasks", ()))
        for task in tasks:
            if task not in about:
                about[task] = not query.task or _is_part(task, query.task)
        fits = not kinds or type(event) in kinds
        if entry.seq > query.after and fits and (not query.task or any(about[task] for task in tasks)):
            yield row, entry
    if query.task and not any(about.values()):
        near = nearest(query.task, about)
        raise NotFound(
            f"no entry is about a task `{query.task}`",
            f"did you mean `{near}`?" if near else Hint(NextStep("show", "--all"), " lists the tasks"),
        )


def _is_part(path: str, task: str) -> bool:
    """Whether a path is that of the task, of one that it holds, or of a task of that name somewhere inside others."""
    inner = f"/{path}"
    at = inner.find(f"/{task}")
    while at >= 0:
        end = at + len(task) + 1
        if end == len(inner) or inner[end] in PLACES:
            return True
        at = inner.find(f"/{task}", at + 1)
    return False


def _meant(name: str, known: Iterable[str]) -> str | Hint:
    """The nearest type; else those that share a word with the name, of which one is about the same thing."""
    near = nearest(name, known)
    if near:
        return f"did you mean `{near}`?"
    words = set(name.lower().replace("-", "_").split("_"))
    alike = [kind for kind in sorted(known) if words & set(kind.split("_"))]
    if alike:
        return f"did you mean one of {', '.join(f'`{kind}`' for kind in alike[:8])}?"
    return Hint(NextStep("events", "last"), " shows the type of each entry, as in `attempt_ended`")


POLL = 0.2
"""Seconds between two looks of a follower."""


class Look(Struct):
    """How a run stands. ``exit_code`` is None while a process acts on it; ``entries`` is its journal; ``now`` is this
    moment on the time line of the run."""

    row: RunRow
    state: State
    exit_code: int | None
    entries: tuple[Entry, ...]
    directory: str
    source: Source
    now: float


class Log(Struct):
    """What one attempt wrote. ``path`` is the log file; ``text`` is what the journal keeps where there is none."""

    task: str
    attempt: int
    path: str
    text: str

    def size(self) -> int:
        """How many bytes there are so far."""
        try:
            return os.path.getsize(self.path)
        except OSError:
            return len(self.text.encode())


def with_hypotheses(heads: Iterable[Head], most: int) -> list[str]:
    """Of these runs the first ``most`` whose plans declare hypotheses; a plan that cannot be read declares none here,
    and shows why where its run is looked at."""
    runs = list(heads)
    if not runs:
        return []
    declares: dict[str, bool] = {}
    found: list[str] = []
    with closing(open_journal(find_state(None, None), readonly=True)) as journal:
        for head in runs:
            if head.plan_digest not in declares:
                try:
                    declares[head.plan_digest] = bool(stored_plan(journal, head.plan_digest).hypotheses)
                except PlanrunnerError:
                    declares[head.plan_digest] = False
            if declares[head.plan_digest]:
                found.append(head.run)
            if len(found) == most:
                break
    return found


def look(wanted: str, state: str | None) -> Look:
    """How a run stands; ``wanted`` is ``last``, an id or the start of one. Raises NotFound."""
    directory = find_state(None, state)
    with closing(open_journal(directory, readonly=True)) as journal:
        row = journal.run(journal.find_run(wanted))
        entries = tuple(journal.entries(row.run))
        found = stored_state(journal, row.run, entries)
        source = journal.plan(str(found.environment.get("text") or found.plan_digest)).source()
    if not row.leased:
        rest(found)
    line = TimeLine()
    for entry in entries:
        line.see(entry)
    now = line.clock(boot()).now()
    return Look(row, found, None if row.leased else exit_code(found), entries, directory, source, now)


def shown_document(found: Look) -> dict[str, Json]:
    """A run as data, with the revisions of its plan where it has several."""
    data = run_object(found.state, found.state.plan_digest, found.exit_code, found.now, found.entries)
    return {**data, "revisions": revisions(found.entries)} if found.state.revision > 1 else data


def journal_entries(wanted: str, state: str | None, follow: bool = False) -> Iterator[tuple[RunRow, Entry]]:
    """The entries of a run in order; with ``follow`` also those to come, as long as a process acts on the run."""
    directory = find_state(None, state)
    with closing(open_journal(directory, readonly=True)) as journal:
        run = journal.find_run(wanted)
        after = 0
        while True:
            row = journal.run(run)
            for entry in journal.entries(run, after):
                after = entry.seq
                yield row, entry
            if not (follow and row.leased):
                return
            time.sleep(POLL)


class Explained(Struct):
    """A task, or a round of one, with how it stands and the sentences that explain it, most important first."""

    task: str
    status: str
    why: list[str]


def why_task(found: Look, wanted: str) -> Explained:
    """What explains a task or a round (``polish#2``) of one. Raises NotFound with the nearest name."""
    state = found.state
    if "#" in wanted and not named(state, wanted):
        rounds = rounds_named(state, wanted)
        if len(rounds) == 1:
            frame = rounds[0]
            lines = why_round(state, frame)
            return Explained(round_name(state, frame), round_status(frame), lines)
    number = task_number(state, wanted)
    name = state.specs[number].id
    lines = [labelled(state, line) for line in why(state, name)]
    return Explained(name, shown_status(state, number), [*lines, *suggestion_lines(state, name)])


def failed_tasks(found: Look) -> list[str]:
    """The names of tasks that failed and hold no others, in the order in which the run came upon them."""
    state = found.state
    numbers = (number for number in range(len(state.specs)) if number not in state.containers)
    return [label(state, number) for number in numbers if shown_status(state, number) == "failed"]


def logs(found: Look, task: str | None, attempt: int | None) -> list[Log]:
    """What attempts wrote, in the order of the run: of one task with all it holds or of every task, of one attempt (1
    is the first) or each."""
    state = found.state
    numbers: Iterable[int] = range(len(state.specs))
    if task is not None:
        numbers = picked(state, task)
        if not numbers:
            raise unknown(state, task)
    texts: dict[tuple[str, int], str] = {}  # what the journal keeps of the output of each attempt
    for entry in found.entries:
        event = entry.event
        if isinstance(event, AttemptEnded):
            stdout, stderr = event.outcome.stdout, event.outcome.stderr
            between = "\n" if stdout and stderr and not stdout.endswith("\n") else ""
            texts[event.task, event.attempt] = f"{stdout}{between}{stderr}"
    folder = os.path.join(found.directory, "logs", found.row.run)
    kept: list[Log] = []
    for number in numbers:
        if number in state.containers:
            continue
        name, attempts = state.specs[number].id, state.tasks[number].attempts
        for count in range(1, attempts + 1) if attempt is None else [attempt]:
            if count <= attempts:
                path = os.path.join(folder, log_name(name, count))
                kept.append(Log(label(state, number), count, path, texts.get((name, count), "")))
    if attempt is not None and task is not None and not kept:
        raise NotFound(f"task `{task}` had no attempt {attempt}")
    return kept


def read_log(log: Log, after: int = 0, tail: int | None = None) -> Iterator[bytes]:
    """The bytes of a log in pieces from the place ``after`` on; with ``tail`` only its last lines. Memory stays
    bounded, whatever the log's size."""
    try:
        with open(log.path, "rb", opener=private) as file:
            if tail is not None:
                _seek_tail(file, tail)
            else:
                file.seek(after)
            while piece := file.read(65_536):
                yield piece
    except FileNotFoundError:
        data = log.text.encode()
        if tail is not None:
            lines = data.splitlines(keepends=True)
            data = b"".join(lines[max(0, len(lines) - tail) :])
        if after < len(data):
            yield data[after:]


def _seek_tail(file: Any, lines: int) -> None:
    """Place a binary file before its last ``lines`` lines."""
    if not lines:
        file.seek(0, os.SEEK_END)
        return
    at = file.seek(0, os.SEEK_END)
    size, seen = at, 0
    while at > 0:
        step = min(65_536, at)
        at -= step
        file.seek(at)
        piece = file.read(step)
        stop = len(piece) - 1 if at + step == size and piece.endswith(b"\n") else len(piece)
        while (stop := piece.rfind(b"\n", 0, stop)) >= 0:
            seen += 1
            if seen == lines:
                file.seek(at + stop + 1)
                return
    file.seek(0)
