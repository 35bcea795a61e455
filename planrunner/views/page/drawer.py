"""The drawer of a task: why it stands as it does, its attempts, what went in and came out, its rollback and its log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from planrunner.escapes import harmless, masked
from planrunner.jsontext import as_text
from planrunner.machine.compensation import steps_of
from planrunner.machine.explain import why
from planrunner.machine.names import label, labelled
from planrunner.machine.state import State
from planrunner.plan.model import Task
from planrunner.plan.tasks import tools_of
from planrunner.records import Struct
from planrunner.views.artifacts import size_text
from planrunner.views.page.figures import amount_text, anchor_of, count, duration, moment, plain
from planrunner.views.page.outline import Row, item_name
from planrunner.views.page.signs import Sign, task_sign
from planrunner.views.page.story import WORST, Piece, Story, end_text, place_of
from planrunner.views.run import account_object
from planrunner.views.status import about, command_text, outputs_of

Json = Any

TRIES = 24
"""Attempts and waits that a drawer lists; of more the last ones."""
ITEMS = 100
"""Items of a fan-out that its drawer shows."""
VALUE = 400
"""Characters of an output that are shown."""
REASONS = 12
"""Sentences that explain a task."""


Logs = Callable[[str, int], "Tail | None"]
"""The end of the log of an attempt, by the path of its task and its number; None where there is no file."""

ATTEMPTS = 2
"""Attempts of which a drawer shows the log: the last ones."""


class Tail(Struct):
    """The end of what an attempt wrote: ``text``, and how many bytes of it are not shown."""

    task: str
    attempt: int
    text: str
    hidden: int = 0
    size: int = 0
    """Bytes of the log so far."""


class Try(Struct):
    """An attempt, a wait, a visit of a gate or an undo. ``known`` is the entry that made its end known."""

    sign: Sign
    text: str
    meta: str
    known: int
    note: str = ""


class Kept(NamedTuple):
    """An artifact: its name, its file, what it is, and its address below that of the run."""

    name: str
    file: str
    meta: str
    address: str


class Item(Struct):
    """An item of a fan-out."""

    place: str
    name: str
    sign: Sign


class Drawer(Struct):
    """One place. ``task`` is the path of its newest task. ``known`` is the entry since which ``why`` holds,
    ``settled`` the one since which outputs and artifacts are there."""

    place: str
    anchor: str
    task: str
    label: str
    title: str
    sign: Sign
    why: tuple[str, ...]
    known: int
    settled: int
    tries: tuple[Try, ...]
    earlier: int
    calls: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    artifacts: tuple[Kept, ...]
    spent: str
    undo: str
    facts: tuple[tuple[str, str], ...]
    logs: tuple[Tail, ...]
    gate: bool
    held: bool
    doubtful: bool
    rounds: int
    items: tuple[Item, ...]
    items_said: str


def drawer(story: Story, row: Row, logs: Logs, now: float) -> Drawer:
    """The drawer of a row that stands for a task."""
    state, number = story.state, row.task
    task, task_state = state.specs[number], state.tasks[number]
    pieces = [piece for piece in story.pieces_of(row.tasks) if piece.kind != "span"]
    return Drawer(
        row.place,
        anchor_of(row.place),
        task.id,
        label(state, number),
        task.title or row.name,
        task_sign(story.statuses.get(row.place, "pending")),
        tuple(_reasons(state, task.id)),
        min((piece.seq for piece in pieces), default=0),
        max((piece.until for piece in pieces), default=0),
        tuple(_tries(pieces[-TRIES:], now)),
        max(0, len(pieces) - TRIES),
        tuple(_calls(task)),
        tuple((name, _value(value)) for name, value in outputs_of(task_state).items()),
        tuple(kept_artifacts(task_state.outcome.artifacts if task_state.outcome is not None else ())),
        _spent(state, number),
        _undo(state, number),
        tuple(_facts(about(state, number))),
        tuple(_logs(pieces, logs)),
        task_state.gate is not None and task_state.gate.waits,
        number in state.containers,
        task_state.status == "in_doubt" or story.statuses.get(row.place) == "in_doubt",
        task_state.inner.round if task.agent is not None and task_state.inner is not None else 0,
        *_items(story, number),
    )


def _items(story: Story, number: int) -> tuple[tuple[Item, ...], str]:
    """The items of a fan-out: what is not well first, then the rest in their order; and how many there are."""
    state = story.state
    frame = state.tasks[number].inner
    if frame is None or frame.kind != "items" or tools_of(state.specs[number]):
        return (), ""
    places = [(place_of(state.specs[at].id), at) for at in range(frame.first, frame.first + frame.size)]
    places.sort(key=lambda each: WORST.get(story.statuses.get(each[0], "pending"), len(WORST)))
    shown = places[:ITEMS]
    said = count(len(places), "item") + (f", {len(shown)} of them shown" if len(shown) < len(places) else "")
    made = (Item(place, item_name(state, at), task_sign(story.statuses.get(place, "pending"))) for place, at in shown)
    return tuple(made), said


def _facts(written: dict[str, Json]) -> Iterator[tuple[str, str]]:
    """What the plan says about a task beside its title."""
    for name, value in written.items():
        if name != "title":
            yield name.replace("_", " "), plain(as_text(value, VALUE))


def no_logs(task: str, attempt: int) -> Tail | None:
    """No file of any log: what the journal keeps of the output is shown."""
    return None


def _logs(pieces: list[Piece], logs: Logs) -> Iterator[Tail]:
    """The ends of the logs of the last attempts that printed anything."""
    for piece in [piece for piece in pieces if piece.kind == "attempt"][-ATTEMPTS:]:
        found = logs(piece.task, piece.number)
        if found is None and piece.outcome is not None:
            text = "\n".join(filter(None, (piece.outcome.stdout.rstrip("\n"), piece.outcome.stderr.rstrip("\n"))))
            found = Tail(piece.task, piece.number, text)
        if found is not None and found.text.strip():
            yield found._replace(text=readable(found.text))


def readable(text: str) -> str:
    """Output as a terminal would leave it: of a line that was written over itself the last state, and harmless."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    return "\n".join(harmless(line) for line in lines)


_SAID_ELSEWHERE = ("attempt ", "its gate asks:", "its gate asked:", "for what has the digest", "gave ")
"""How the sentences begin that repeat what the drawer shows in another part."""


def text_of(data: bytes) -> str | None:
    """The text of some bytes, harmless; None for what is not text."""
    if b"\0" in data:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(data) - 4:  # a character may be cut off at the end
            return None
        text = data.decode("utf-8", "ignore")
    return readable(text)


def _reasons(state: State, task: str) -> Iterator[str]:
    """The sentences of ``planrunner why`` without the attempts, which have a list of their own."""
    for line in why(state, task)[:REASONS]:
        if not line.lstrip().startswith(_SAID_ELSEWHERE):
            line = line.replace("; decide with `resume --settle`", "")
            yield harmless(labelled(state, _clocked(line)))


def _clocked(line: str) -> str:
    """A sentence about when something starts or expires, with a time of day as the page writes it."""
    return re.sub(_MOMENT, lambda at: at[1] + moment(datetime.fromisoformat(at[2]).timestamp(), 0.0), line)


_MOMENT = re.compile(r"((?:starts|expires) at )(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$")


def _tries(pieces: Iterable[Piece], now: float) -> Iterator[Try]:
    for piece in pieces:
        known = "" if piece.status == "in_doubt" else f" · {duration(piece.lasted(now))}"
        meta = f"{moment(piece.began, now)}{known}"
        note = harmless(piece.note)
        if piece.kind == "wait":
            yield Try(task_sign("retrying"), "Waited before the next attempt", duration(piece.lasted(now)), piece.until)
        elif piece.kind == "gate":
            sign = task_sign("blocked")._replace(icon="back" if piece.status == "rejected" else "gate")
            yield Try(sign, f"Visit {piece.number}: {piece.status or 'waiting'}", meta, piece.until or piece.seq)
        else:
            name = "Rollback" if piece.kind == "undo" else f"{_round(piece.task)}Attempt {piece.number}"
            status = "running" if piece.ended is None else piece.status or "completed"
            verb = "runs" if piece.ended is None else end_text(piece)
            yield Try(task_sign(status), f"{name} {verb}", meta, piece.until or piece.seq, note)


def _round(path: str) -> str:
    """``Round 2: `` for a task inside a loop."""
    rounds = re.findall(r"#(\d+)", path)
    return f"Round {'.'.join(rounds)}: " if rounds else ""


def _calls(task: Task) -> Iterator[tuple[str, str]]:
    """What a task calls, as its plan writes it: templates are not filled in, so no secret shows."""
    if task.uses:
        yield "Uses", task.uses
    if task.run or task.command:
        yield "Command", plain(command_text(task))
    if isinstance(task.inputs, dict):
        for name, value in task.inputs.items():
            yield harmless(str(name)), plain(masked(as_text(value, 10_000)))[:VALUE]


def _value(value: Json) -> str:
    text = plain(masked(as_text(value, 10_000)))
    return text if len(text) <= VALUE else f"{text[: VALUE - 1]}…"


def kept_artifacts(records: Iterable[dict[str, Json]]) -> Iterator[Kept]:
    """What an attempt kept, as the page names it."""
    for record in records:
        sha256 = str(record.get("sha256") or "")
        name = harmless(str(record.get("name") or record.get("path") or "artifact"))
        size = record.get("size")
        kind, failed = str(record.get("type") or ""), "of a failed attempt" if record.get("failed") else ""
        facts = [kind, size_text(size) if isinstance(size, int) else "", sha256[:12], failed]
        yield Kept(name, harmless(str(record.get("path") or "")), " · ".join(filter(None, facts)), sha256)


def _spent(state: State, number: int) -> str:
    """What a task used of its own budget: ``$0.084 of $0.20, 10,420 of 20,000 tokens``."""
    account: dict[str, dict[str, float | None]] = account_object(state, number).get("budget", {})
    parts = []
    for what, found in account.items():
        used, limit = found.get("used"), found.get("limit")
        if what not in ("cost", "tokens", "calls") or not (used or limit):
            continue
        of = f" of {amount_text(what, limit)}" if limit is not None else ""
        parts.append(f"{amount_text(what, used or 0)}{of}" + ("" if what == "cost" else f" {what}"))
    return ", ".join(parts)


_FATES = {"undone": "Undone.", "failed": "Could not be undone.", "left": "Left as it is.", "": "Would be undone."}


def _undo(state: State, number: int) -> str:
    """How a task is undone, or what became of that."""
    task = state.specs[number]
    steps = steps_of(state, number)
    log = state.compensation_log
    said = ""
    if log is not None and steps:
        step = log.steps[steps[-1]]
        said = _FATES[step.fate] + (f" {harmless(step.detail)}" if step.detail else "")
    if task.rollback is not None:
        run = task.rollback.run if isinstance(task.rollback.run, str) else " ".join(task.rollback.run or ())
        text = plain(masked(run or task.rollback.uses).strip())
        return f"{said or 'Declared; recorded before the task starts.'} {text}"
    if task.backup:
        return f"{said or 'Files are saved before the task starts:'} {', '.join(task.backup)}"
    return said
