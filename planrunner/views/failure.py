"""The block that tells of a failed task: what, after how long, why, what it wrote, what follows and how to go on."""

from __future__ import annotations

from planrunner.machine.events import Outcome
from planrunner.machine.state import State, TaskState
from planrunner.plan.model import Task
from planrunner.record import TYPE_CHECKING
from planrunner.views.run import attempt_text
from planrunner.views.symbols import duration_text
from planrunner.views.terminal import Terminal, cut, harmless

if TYPE_CHECKING:
    from collections.abc import Sequence

LINES = 20
BLOCKS = 10
_INDENT = 11
_CUT_OFF = ("cancelled", "stopped")


def failure_blocks(terminal: Terminal, state: State, run_id: str) -> list[str]:
    """The blocks of every task that failed for good or whose end is unknown, at most ten; the rest is counted.

    A failure that a handler recovered or that is allowed has no block: nobody has to do anything about it.
    """
    troubled = [
        number
        for number, found in enumerate(state.tasks)
        if found.status == "in_doubt" or (found.status == "failed" and found.standing not in ("completed", "tolerated"))
    ]
    lines: list[str] = []
    for number in troubled[:BLOCKS]:
        lines += ["", *failure_block(terminal, state, number, run_id)]
    if len(troubled) > BLOCKS:
        lines += ["", f"and {len(troubled) - BLOCKS} more: {terminal.program} show {run_id}"]
    return lines


def failure_block(terminal: Terminal, state: State, number: int, run_id: str) -> list[str]:
    """The lines of the block of one task, by its number in the plan."""
    task, found = state.specs[number], state.tasks[number]
    facts = [
        ("why", _why(found)),
        ("command", command_text(task)),
        *_output(found.outcome),
        ("then", _consequence(state, number)),
    ]
    lines = [_headline(terminal, task, found)]
    room = terminal.edge() - _INDENT
    for name, value in facts:
        lines += _fact(terminal, name, [cut(harmless(line), room, terminal.unicode) for line in value.splitlines()])
    return lines + _fact(terminal, "go on", _ways_on(terminal.program, task, found, run_id))


def _fact(terminal: Terminal, name: str, lines: Sequence[str]) -> list[str]:
    """Lines under one name; the name stands before the first."""
    names = [name, *[""] * (len(lines) - 1)]
    return [f"  {terminal.paint(f'{name:<9}', 'dim')}{line}" for name, line in zip(names, lines)]


def _headline(terminal: Terminal, task: Task, found: TaskState) -> str:
    kind = f" ({found.failure})" if found.failure else ""
    facts = [f"{task.id} {found.status.replace('_', ' ')}{kind}", attempt_text(task, found.attempts)]
    if found.outcome is not None and found.outcome.duration:
        facts.append(f"after {duration_text(found.outcome.duration)}")
    text = ", ".join(fact for fact in facts if fact)
    return f"{terminal.sign(found.status)} {terminal.paint(text, 'bold')}"


def _why(found: TaskState) -> str:
    message = found.outcome.message if found.outcome else ""
    detail = found.detail or found.reason.replace("_", " ")
    return "\n".join(part for part in (detail, message if message not in detail else "") if part)


def command_text(task: Task) -> str:
    """What a task calls, as its plan writes it: templates are not filled in, so no secret shows. At most four lines."""
    if isinstance(task.run, tuple):
        text = " ".join(task.run)
    else:
        text = task.run or task.command or (f"{task.uses} {_inputs(task.inputs)}" if task.uses else "")
    lines = text.strip().splitlines()
    return "\n".join(lines[:4] + ([f"({len(lines) - 4} more lines)"] if len(lines) > 4 else []))


def _inputs(inputs: object) -> str:
    if not isinstance(inputs, dict):
        return ""
    text = " ".join(f"{name}={value!r}" for name, value in inputs.items())
    return text if len(text) <= 120 else text[:119] + "~"


def _output(outcome: Outcome | None) -> list[tuple[str, str]]:
    """The last lines of both streams; standard error has the first claim on the room."""
    if outcome is None:
        return []
    errors = outcome.stderr.splitlines()[-LINES:]
    room = LINES - len(errors)
    prints = outcome.stdout.splitlines()[-room:] if room else []
    return [(name, "\n".join(lines)) for name, lines in (("stdout", prints), ("stderr", errors)) if lines]


def _consequence(state: State, number: int) -> str:
    task, found = state.specs[number], state.tasks[number]
    if found.status == "in_doubt":
        return "nobody saw how it ended: the run waits until somebody says"
    if found.recovered_by:
        return f"{found.recovered_by} stood in for it"
    if task.allow_failure:
        return "the run goes on without it"
    targets = [edge.target for edge in task.edges if edge.on in ("failure", "always") and edge.target in state.index]
    parts = [f"{name} {state.tasks[state.index[name]].status}" for name in targets]
    idle = _idle(state, number) - {state.index[name] for name in targets}
    if idle:
        parts.append(f"{len(idle)} not started")
    return ", ".join(parts)


def _idle(state: State, number: int) -> set[int]:
    """The tasks that this failure kept from starting: what follows the task, and what the stop of the run cut off."""
    found = {
        at
        for at in _following(state, number)
        if state.tasks[at].status in ("omitted", "cancelled", "pending") and state.tasks[at].reason != "not_selected"
    }
    if number in state.failures:
        found.update(at for at, other in enumerate(state.tasks) if (other.status, other.reason) == _CUT_OFF)
    return found


def _following(state: State, number: int) -> set[int]:
    """Every task that comes after one by needs or routes, directly or not."""
    shape, found, todo = state.shape, {number}, [number]
    while todo:
        at = todo.pop()
        fresh = {*shape.dependents[at], *(route.target for route in shape.routes_out.get(at, ()))} - found
        found |= fresh
        todo += fresh
    return found - {number}


def _ways_on(program: str, task: Task, found: TaskState, run_id: str) -> list[str]:
    """The commands to go on with; they are never cut, because people copy them."""
    if found.status == "in_doubt":
        return [f"{program} resume {run_id} --settle {task.id}=retry|completed|failed"]
    return [f"{program} logs {run_id} {task.id}", f"{program} why {run_id} {task.id}"]
