"""The status of a run and of its tasks, in words and numbers, and what a task says about itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planrunner import errors
from planrunner.escapes import harmless, masked
from planrunner.jsontext import as_text
from planrunner.jsontext import shown as value_text
from planrunner.later import Later
from planrunner.machine.names import by_its_own, label, local_name, replaced_tasks, written_name
from planrunner.machine.state import State
from planrunner.plan.expressions.quantities import duration_text
from planrunner.statuses import status_word
from planrunner.views.terminal import cut, word

if TYPE_CHECKING:
    from planrunner.machine.budgets import shown
    from planrunner.machine.compensation import is_undoable
    from planrunner.machine.graph import Frame
    from planrunner.machine.ledger import units
    from planrunner.machine.recovery import is_done, on_resume
    from planrunner.machine.state import TaskState
    from planrunner.plan.model import Task
else:
    shown = Later("planrunner.machine.budgets:shown")
    is_undoable = Later("planrunner.machine.compensation:is_undoable")
    units = Later("planrunner.machine.ledger:units")
    is_done = Later("planrunner.machine.recovery:is_done")
    on_resume = Later("planrunner.machine.recovery:on_resume")


Json = Any


_REST_CODES = {
    "interrupted": errors.INTERRUPTED,
    "terminated": errors.TERMINATED,
    "hangup": errors.HUNG_UP,
    "quit": errors.QUIT,
    "storage": errors.STORAGE,
}


def exit_code(state: State) -> int:
    """The exit code of the contract for a run as its runner leaves it."""
    if state.status == "completed":
        return errors.OK
    if state.status == "blocked":
        return errors.WAITING
    if state.status == "paused":
        return _REST_CODES.get(state.reason, errors.WAITING)
    if state.reason in ("budget", "deadline"):
        return errors.BUDGET
    if not state.failures:
        return errors.FAILED
    number = state.failures[0]
    failed = state.tasks[number]
    if failed.failure in ("rejected", "expired"):
        return errors.REJECTED
    if failed.failure == "budget":
        return errors.BUDGET
    if failed.reason == "backup" and state.compensation_log is not None:
        rule = state.compensation_log.problems.get(number, ("", "", ""))[2]
    else:
        rule = "" if failed.outcome is None else failed.outcome.rule
    return errors.DENIED if rule else errors.FAILED


def amount_text(what: str, value: float | None) -> str:
    """``$0.25``, ``12.3s`` or ``1200``."""
    if value is None:
        return "?"
    if what == "time":
        return duration_text(value)
    if what == "cost":
        return shown(what, units(what, value) or 0)
    return f"{value:g}" if value != int(value) else str(int(value))


def shown_status(state: State, number: int) -> str:
    """The status to show: no task runs while no process holds the run.

    An attempt that was cut off or stopped half-way is paused where a resumed run settles it by itself, and in doubt
    where a person has to decide. A task that holds others does nothing itself: it waits with them.
    """
    task_state = state.tasks[number]
    if is_decided(task_state):
        return "paused"
    if task_state.status != "running" or not is_resting(state):
        return task_state.status
    if task_state.inner is not None:
        return "blocked" if state.status == "blocked" else "paused"
    return "paused" if is_done(task_state) or on_resume(state, number) else "in_doubt"


def doubtful(state: State) -> list[int]:
    """The tasks, by number, whose end is unknown and for a person to tell."""
    open_ = (number for number, task in enumerate(state.tasks) if task.status in ("in_doubt", "running"))
    return [n for n in open_ if n not in state.containers and shown_status(state, n) == "in_doubt"]


def doubt_answers(state: State, number: int) -> list[str]:
    """What a person may say of a task in doubt, as ``resume --settle`` takes it."""
    return ["completed", "failed", "retry", *(["rollback"] if is_undoable(state, number) else [])]


def settling_commands(program: str, state: State, number: int, run_id: str) -> list[str]:
    """The commands that decide a task in doubt, one for each answer."""
    name = word(label(state, number))
    return [f"{program} resume {run_id} --settle {name}={how}" for how in doubt_answers(state, number)]


def is_decided(task_state: TaskState) -> bool:
    """Whether people have said what a task waited for, and the run was not resumed since."""
    return task_state.status == "blocked" and task_state.reason == "decided"


def has_failed(task_state: TaskState) -> bool:
    """Whether a task failed, also where a rollback has undone since what it had begun: why is still to be known."""
    undone = task_state.status == "rolled_back" and task_state.dependency_outcome == "failed"
    return task_state.status == "failed" or undone


def outputs_of(task_state: TaskState) -> dict[str, Json]:
    """What a task gave; of one that failed what its last attempt gave all the same, such as counts of tests or the
    status of an answer, and where another stood in for it what that one gave."""
    if task_state.outcome is None or task_state.recovered_by or not has_failed(task_state):
        return task_state.outputs
    return task_state.outcome.outputs


def is_dry(state: State) -> bool:
    """Whether a run only happens on paper: nothing of it is done, nothing is kept."""
    return bool(state.environment.get("dry_run"))


def is_resting(state: State) -> bool:
    """Whether no process holds the run: it is paused, was interrupted, or has ended."""
    return state.status not in ("pending", "running")


def shown_counts(state: State) -> dict[str, int]:
    """How many tasks there are of each status, as ``shown_status`` gives it. A task that stands for those it holds is
    not counted beside them, unless it failed by itself; what a later attempt has replaced is not counted at all."""
    counts: dict[str, int] = dict(state.counts.items())
    replaced: set[int] = set()
    if state.gone is not None or any(state.tasks[number].attempts > 1 for number in state.containers):
        replaced = replaced_tasks(state)
    for number in replaced:
        counts[state.tasks[number].status] -= 1
    for number in state.containers.keys() - replaced:
        task_state = state.tasks[number]
        if task_state.inner is not None and task_state.inner.size and not _own_trouble(state, number):
            counts[task_state.status] -= 1
    if counts.get("blocked") and is_resting(state):
        decided = sum(map(is_decided, state.tasks))
        counts["blocked"] -= decided
        counts["paused"] = counts.get("paused", 0) + decided
    if is_resting(state) and counts.get("running"):
        for number, task_state in enumerate(state.tasks):
            if task_state.status == "running" and task_state.inner is None and number not in replaced:
                status = shown_status(state, number)
                counts["running"] -= 1
                counts[status] = counts.get(status, 0) + 1
    return counts


def _own_trouble(state: State, number: int) -> bool:
    return state.tasks[number].status in ("failed", "in_doubt", "blocked") and by_its_own(state, number)


ORDER = (
    "completed",
    "failed",
    "in_doubt",
    "blocked",
    "running",
    "queued",
    "pending",
    "paused",
    "skipped",
    "omitted",
    "cancelled",
    "abandoned",
    "rolled_back",
)
"""The order in which counts of statuses are listed."""


def counts_text(counts: Mapping[str, int]) -> str:
    """``12 completed, 1 failed, 3 not run``: every status that occurs."""
    counted = [(status, counts.get(status, 0)) for status in ORDER]
    return ", ".join(f"{count:,} {status_word(status)}" for status, count in counted if count) or "no tasks"


def pairs(state: State) -> Iterator[tuple[Task, TaskState]]:
    """Each task with its state, in the order of the plan."""
    return zip(state.specs, state.tasks, strict=True)


def waiting(state: State) -> list[str]:
    """The tasks that wait for a person or an answer."""
    counts = state.counts
    if not (counts.get("blocked") or counts.get("in_doubt")):
        return []
    return [
        task.id
        for task, task_state in pairs(state)
        if task_state.status == "in_doubt" or (task_state.status == "blocked" and not is_decided(task_state))
    ]


NAMED = 8
"""Tasks that a line lists by name."""


def listed(names: Sequence[str], most: int = NAMED) -> str:
    """``a, b``; of many names the first ``most`` and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def attempt_text(task: Task, attempt: int, past: int = 0, asked: int = 1) -> str:
    """``attempt 2 of 3``, or nothing where there is only one; ``past`` ones were made before the task was reset;
    ``asked`` is how many its capability wants. Of one beyond those that the plan allows no total is known here."""
    allowed, attempt = max(task.retry.attempts, asked), attempt - past
    if attempt > allowed:
        return f"attempt {attempt}"
    return f"attempt {attempt} of {allowed}" if allowed > 1 else ""


def elapsed(task_state: TaskState, now: float) -> float:
    """Seconds from the start of the first attempt to the end of the last one, or to ``now`` while the task goes on,
    without those in which no process acted on the run."""
    if task_state.started is None:
        return 0.0
    going = task_state.status in ("running", "pending", "queued") or task_state.ended is None
    return max(0.0, (now if going else task_state.ended or now) - task_state.started - task_state.idle)


_FIRST = (
    "failed",
    "in_doubt",
    "blocked",
    "running",
    "queued",
    "paused",
    "pending",
    "cancelled",
    "abandoned",
    "rolled_back",
    "completed",
    "skipped",
    "omitted",
)
"""Of several statuses the first of these stands for all."""


def run_statuses(state: State) -> dict[str, str]:
    """Place in the plan (``polish/draft``) → status. Of a loop the last round counts, of a fan-out all items."""
    by_place: dict[str, set[str]] = {}
    todo: list[tuple[Frame, str]] = [(state.top, "")]
    while todo:
        frame, prefix = todo.pop()
        for number in range(frame.first, frame.first + frame.size):
            item = frame.kind == "items"
            path = prefix if item else f"{prefix}{written_name(local_name(state, number))}"
            task = state.tasks[number]
            if not item:
                by_place.setdefault(path, set()).add(shown_status(state, number))
            if task.inner is not None:
                todo.append((task.inner, path if task.inner.kind == "items" else f"{path}/"))
    return {path: min(statuses, key=_FIRST.index) for path, statuses in by_place.items()}


WORDS = (
    "assumptions",
    "risks",
    "effects",
    "environment",
    "evidence",
    "validation",
    "deadline",
    "status",
    "capabilities",
)
"""Keys of a task in words, in the order in which they are shown."""
_LONG = 300


def about(state: State, number: int) -> dict[str, Json]:
    """Title, description, owner, labels and words of a task, its item where it is one of a fan-out, and what the author
    says about failures; without what the task does not say."""
    task = state.specs[number]
    notes = task.notes if isinstance(task.notes, dict) else {}
    facts: dict[str, Json] = {"title": task.title, "description": task.description, "owner": task.owner}
    facts |= {"within": _within(state, number), "labels": list(task.labels), "item": _item(state, number)}
    facts |= {name: notes[name] for name in WORDS if name in notes}
    facts["failure_modes"] = failure_modes(task)
    return {name: value for name, value in facts.items() if value not in ("", None, [], {})}


def failure_modes(task: Task) -> list[dict[str, str]]:
    """The failures that the author foresaw: what each is called, how it shows and what to do about it."""
    return [
        {"name": mode.name, "detect": mode.detect.text if mode.detect is not None else "", "recover": mode.recover}
        for mode in task.failure_modes
    ]


def advice(task: Task, failure: str) -> str:
    """The author's advice on a failure of this class; empty if there is none, or if a task handles it."""
    for mode in task.failure_modes:
        if mode.name == failure and mode.recover not in {edge.target for edge in task.edges}:
            return mode.recover
    return ""


def about_lines(state: State, number: int) -> list[str]:
    """The same as text, a line for each."""
    told = about(state, number)
    modes = told.pop("failure_modes", [])
    lines = [f"{name}: {_text(value)}" for name, value in told.items()]
    for mode in modes:
        detect = f", when {mode['detect']}" if mode["detect"] else ""
        recover = f": {mode['recover']}" if mode["recover"] else ""
        lines.append(f"may fail with {mode['name']}{detect}{recover}")
    return [harmless(cut(line, _LONG)) for line in lines]


def _text(value: Json) -> str:
    if isinstance(value, list):
        return "; ".join(map(_text, value))
    if isinstance(value, dict):
        return "; ".join(f"{name} {_text(item)}" for name, item in value.items())
    return " ".join(as_text(value, 2000).split())


def _item(state: State, number: int) -> Json:
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        if frame.kind == "items":
            return (
                frame.values[number - frame.first] if frame.first <= number < frame.first + len(frame.values) else None
            )
        number, frame = frame.owner, state.tasks[frame.owner].frame
    return None


def _within(state: State, number: int) -> list[str]:
    """The titles of the tasks around it, the outermost first."""
    titles: list[str] = []
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        around = state.specs[frame.owner]
        if around.title and around.title != state.specs[number].title:
            titles.insert(0, around.title)
        frame = state.tasks[frame.owner].frame
    return titles


def command_text(task: Task) -> str:
    """What a task calls, as its plan writes it: templates are not filled in, so no secret shows, and a password
    that the plan itself has in an address is masked. At most four lines."""
    if isinstance(task.run, tuple):
        text = " ".join(task.run)
    else:
        text = task.run or task.command or (f"{task.uses} {_inputs(task.inputs)}" if task.uses else "")
    lines = masked(text).strip().splitlines()
    more = len(lines) - 4
    return "\n".join(lines[:4] + ([f"({more} more line{'s' * (more > 1)})"] if more > 0 else []))


def _inputs(inputs: object) -> str:
    if not isinstance(inputs, dict):
        return ""
    text = masked(" ".join(f"{name}={value_text(value, 1000)}" for name, value in inputs.items()))
    return text if len(text) <= 120 else text[:119] + "~"
