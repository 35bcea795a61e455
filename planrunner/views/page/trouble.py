"""A failure for the page: why, command, output, place and what followed, with a hint where the journal supports one."""

from __future__ import annotations

from planrunner.machine.compensation import is_undoable
from planrunner.machine.names import label
from planrunner.machine.state import State
from planrunner.records import Struct
from planrunner.source import Source
from planrunner.views.failure import BLOCKS, failure_facts, troubled
from planrunner.views.page.drawer import Logs, readable
from planrunner.views.page.figures import duration, plain
from planrunner.views.page.signs import Sign, task_sign
from planrunner.views.page.story import Story, place_of
from planrunner.views.status import attempt_text, doubtful, has_failed, shown_status


class Line(Struct):
    """A line of output; ``error`` is one of standard error."""

    text: str
    error: bool


class Trouble(Struct):
    """The failure block of a task. ``facts`` are names and texts, ``place`` is the file and ``line`` where the task
    stands in its plan (0: not known); ``hint`` says what two attempts have in common. ``doubtful`` is a task whose end
    is unknown, ``undoable`` one that can be rolled back."""

    task: str
    place: str
    label: str
    title: str
    sign: Sign
    head: str
    why: str
    command: str
    output: tuple[Line, ...]
    facts: tuple[tuple[str, str], ...]
    file: str
    line: int
    hint: str
    doubtful: bool
    undoable: bool


_SHOWN = {"in": "In", "refused": "Refused", "lost": "Lost", "gave": "Gave", "advice": "Advice", "then": "Then"}


LINES = 40
"""Lines of the log of a task in doubt that are shown."""


def troubles(story: Story, source: Source | None, logs: Logs) -> tuple[list[Trouble], int]:
    """The failure blocks of a run, the cause first, and how many more there are. ``logs`` gives the end of the log of
    an attempt: of one in doubt the journal has no output."""
    numbers = [*dict.fromkeys((*troubled(story.state), *doubtful(story.state)))]
    return [_trouble(story, number, source, logs) for number in numbers[:BLOCKS]], max(0, len(numbers) - BLOCKS)


def _trouble(story: Story, number: int, source: Source | None, logs: Logs) -> Trouble:
    state = story.state
    task, task_state = state.specs[number], state.tasks[number]
    known = [(name, plain(text)) for name, text in failure_facts(state, number, source) if text]
    texts = dict(known)
    file, line = _place(texts.get("place", ""))
    file = from_directory(state, file)
    attempt = attempt_text(task, task_state.attempts, task_state.past)
    attempts = [piece for piece in story.pieces.get(task.id, ()) if piece.kind == "attempt" and piece.outcome]
    took = duration(attempts[-1].lasted(story.last)) if attempts else ""
    kind = f"class {task_state.failure}" if task_state.failure else ""
    status = shown_status(state, number)
    is_doubtful = status == "in_doubt"
    return Trouble(
        task.id,
        place_of(task.id),
        label(state, number),
        task.title,
        task_sign("failed" if has_failed(task_state) else status),
        " · ".join(part for part in (attempt, f"after {took}" if took else "", kind) if part),
        texts.get("why") or ("its attempt was cut off" if is_doubtful else ""),
        texts.get("command", ""),
        tuple(_output(known)) or (_printed(logs, task.id, task_state.attempts) if is_doubtful else ()),
        tuple((_SHOWN[name], text) for name, text in known if name in _SHOWN),
        file,
        line,
        _hint(story, task.id),
        is_doubtful,
        is_undoable(state, number),
    )


def from_directory(state: State, file: str) -> str:
    """A file of a plan, from the directory of the run where it lies below it."""
    directory = str(state.environment.get("directory") or "")
    return file.removeprefix(directory.rstrip("/") + "/") if directory else file


def _place(text: str) -> tuple[str, int]:
    """``plans/release.yaml:14:9`` as file and line."""
    file, _, rest = text.partition(":")
    line = rest.partition(":")[0]
    return file, int(line) if line.isdigit() else 0


def _output(known: list[tuple[str, str]]) -> list[Line]:
    return [
        Line(line, name == "stderr")
        for name, text in known
        if name in ("stdout", "stderr")
        for line in text.splitlines()
    ]


def _printed(logs: Logs, task: str, attempt: int) -> tuple[Line, ...]:
    """The end of what an attempt printed."""
    tail = logs(task, attempt)
    text = "" if tail is None else readable(tail.text)
    return tuple(Line(line, False) for line in text.splitlines()[-LINES:])


def _hint(story: Story, task: str) -> str:
    """What the last two attempts have in common: a retry alone would do the same."""
    ended = [piece.outcome for piece in story.pieces.get(task, ()) if piece.kind == "attempt" and piece.outcome]
    if len(ended) < 2 or not ended[-1].failure or ended[-1].failure == "transient":
        return ""  # what passes by itself looks the same until it has passed
    before, last = ended[-2:]
    alike = (before.stdout, before.stderr, before.message) == (last.stdout, last.stderr, last.message)
    if not alike:
        return ""
    if last.stdout or last.stderr:
        which = "Both" if len(ended) == 2 else "The last two"
        return f"{which} attempts printed the same lines. A retry alone is unlikely to help."
    return "The last two attempts failed in the same way. A retry alone is unlikely to help."
