"""The block of a failed task: what failed, after how long, why, its output, what follows and the next commands; and
what sandboxes refused."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from planrunner.escapes import harmless, masked
from planrunner.later import Later
from planrunner.machine.events import LOST, Outcome
from planrunner.machine.names import below, by_its_own, label, labelled, stands
from planrunner.machine.state import State, TaskState
from planrunner.plan.agents import ASKING
from planrunner.plan.expressions.quantities import duration_text
from planrunner.source import Source, Span, notation_of
from planrunner.statuses import status_word
from planrunner.views.containers import around_text
from planrunner.views.status import (
    advice,
    attempt_text,
    command_text,
    has_failed,
    is_dry,
    outputs_of,
    settling_commands,
)
from planrunner.views.terminal import Terminal, cut, plural, word

if TYPE_CHECKING:
    from planrunner.extras import installing, named_in
    from planrunner.machine.joins import without_value
    from planrunner.views.budget import extending
else:
    installing = Later("planrunner.extras:installing")
    named_in = Later("planrunner.extras:named_in")
    without_value = Later("planrunner.machine.joins:without_value")
    extending = Later("planrunner.views.budget:extending")


Json = Any


LINES = 20
BLOCKS = 10
GIVEN = 8
"""Outputs of a failure that its block lists."""
FOLDS = 8
"""Lines that the message of a refusal may take."""
_MCP = "mcp."
"""How the names of the capabilities begin that call MCP servers."""
_LONG = 160
_INDENT = 11
_CUT_OFF = ("cancelled", "stopped")


def failure_blocks(terminal: Terminal, state: State, run_id: str, source: Source | None = None) -> list[str]:
    """The blocks of every task that has failed or whose end is unknown, at most ten; the rest is counted. With the
    ``source`` of the plan they name the place of the task.

    A failure that a handler recovered or that is allowed has no block: it needs no action. Neither has
    a task that failed because of one inside it, nor a failure that a later round or attempt made up for.
    """
    failed = troubled(state)
    lines: list[str] = []
    for number in failed[:BLOCKS]:
        lines += ["", *failure_block(terminal, state, number, run_id, source)]
    if len(failed) > BLOCKS:
        lines += ["", f"and {len(failed) - BLOCKS} more: {terminal.program} show {run_id}"]
    return lines


def troubled(state: State) -> list[int]:
    """The tasks that failed or whose end is unknown and that need an action, by number, the cause first."""
    numbers = [number for number, task_state in enumerate(state.tasks) if _matters(state, number, task_state)]
    return sorted(numbers, key=lambda number: state.tasks[number].ended or float("inf"))


def _matters(state: State, number: int, task_state: TaskState) -> bool:
    if has_failed(task_state):
        if task_state.dependency_outcome in ("completed", "tolerated", "skipped"):
            return False
    elif task_state.status != "in_doubt":
        return False
    return (not state.containers or by_its_own(state, number)) and stands(state, number)


def failure_block(
    terminal: Terminal, state: State, number: int, run_id: str, source: Source | None = None
) -> list[str]:
    """The lines of the block of one task, by its number in the run."""
    task, task_state = state.specs[number], state.tasks[number]
    kind = f" ({task_state.failure})" if task_state.failure else ""
    status = "failed" if has_failed(task_state) else task_state.status
    head = [
        f"{label(state, number)} {status_word(status)}{kind}",
        attempt_text(task, task_state.attempts, task_state.past),
    ]
    if task_state.outcome is not None and task_state.outcome.duration:
        head.append(f"after {duration_text(task_state.outcome.duration)}")
    headline = terminal.paint(", ".join(fact for fact in head if fact), "bold")
    lines = [f"{terminal.sign(status)} {headline}"]
    room = terminal.edge() - _INDENT
    for name, value in failure_facts(state, number, source):
        parts = map(harmless, value.splitlines())
        shown = _folded(parts, room) if (name, task_state.failure) == ("why", "policy") else parts
        lines += _fact(terminal, name, [cut(line, room, terminal.unicode) for line in shown])
    return lines + _fact(terminal, "go on", _ways_on(terminal.program, state, number, run_id))


def failure_facts(state: State, number: int, source: Source | None = None) -> list[tuple[str, str]]:
    """What is known of the failure of a task, as names and texts: why, in, place, command, stdout, stderr, refused,
    lost, gave, advice and then. Texts may be empty and have lines."""
    task, task_state = state.specs[number], state.tasks[number]
    own = not (task.concluding or task.uses == ASKING)
    return [
        ("why", labelled(state, _why(task_state))),
        ("in", around_text(state, number) if state.tasks[number].frame.owner >= 0 else ""),
        ("place", _place(state, number, source)),
        ("command", command_text(task) if own else ""),
        *_output(task_state.outcome),
        ("refused", refused_text(task_state.outcome)),
        ("lost", lost_text(task_state.outcome)),
        ("gave", _given(task_state) if own else ""),
        ("advice", advice(task, task_state.failure)),
        ("then", _consequence(state, number)),
    ]


def _folded(lines: Iterable[str], room: int) -> list[str]:
    """The lines in as many as it takes, up to some: a refusal ends with the line to write or the command to give."""
    return [part for line in lines for part in wrap(line, room, break_on_hyphens=False)[:FOLDS]]


def _place(state: State, number: int, source: Source | None) -> str:
    """``plans/release.yaml:14:9``: where the task stands in its plan, or in the file of the plan that it links; of one
    that failed since the condition of an edge has no value, where that condition stands."""
    if source is None:
        return ""
    if file := _linked_file(state, number, source.name):
        return file + _in_linked(state, number)
    line, column = source.place(_span(state, number).start)
    return f"{source.name}:{line}:{column}"


def _span(state: State, number: int) -> Span:
    if state.tasks[number].reason == "edge":
        route = without_value(state, number)
        if route is not None and route.edge.condition is not None and route.edge.condition.span.end:
            return route.edge.condition.span
    return state.specs[number].span


def _fact(terminal: Terminal, name: str, lines: Sequence[str]) -> list[str]:
    """Lines under one name; the name stands before the first."""
    names = [name, *[""] * (len(lines) - 1)]
    return [f"  {terminal.paint(f'{name:<9}', 'dim')}{line}" for name, line in zip(names, lines)]


def _why(task_state: TaskState) -> str:
    message = task_state.outcome.message if task_state.outcome else ""
    detail = task_state.detail or task_state.reason.replace("_", " ")
    return "\n".join(part for part in (detail, message if message not in detail else "") if part)


def _output(outcome: Outcome | None) -> list[tuple[str, str]]:
    """The last lines of both streams; standard error has the first claim on the room."""
    if outcome is None:
        return []
    errors = outcome.stderr.splitlines()[-LINES:]
    room = LINES - len(errors)
    prints = outcome.stdout.splitlines()[-room:] if room else []
    return [(name, "\n".join(lines)) for name, lines in (("stdout", prints), ("stderr", errors)) if lines]


def _given(task_state: TaskState) -> str:
    """The outputs of the failure, a line each; of many the first few and how many more there are."""
    given = outputs_of(task_state)
    lines = [f"{name}={_short(value)}" for name, value in list(given.items())[:GIVEN]]
    return "\n".join([*lines, f"({len(given) - GIVEN} more)"] if len(given) > GIVEN else lines)


def _short(value: object) -> str:
    """A value on one line, masked before it is cut."""
    text = masked(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    return " ".join(text.split() if len(text) <= _LONG else (*text[:_LONG].split(), "…"))


def _consequence(state: State, number: int) -> str:
    task, task_state = state.specs[number], state.tasks[number]
    if task_state.status == "in_doubt":
        return "result unknown: the run waits for a decision"
    if task_state.recovered_by:
        return f"{task_state.recovered_by} stood in for it"
    if task.allow_failure:
        return "the run goes on without it"
    handlers = [
        route.target for route in state.shape.routes_out.get(number, ()) if route.edge.on in ("failure", "always")
    ]
    fell = _fell(state, number)
    parts = [f"{label(state, at)} {status_word(state.tasks[at].status)}" for at in (*handlers, *fell)]
    idle = set().union(*(_idle(state, at) for at in (number, *fell))) - set(handlers)
    if idle:
        parts.append(f"{len(idle)} not run")
    return ", ".join(parts)


def _fell(state: State, number: int) -> list[int]:
    """The tasks around a failed one that failed because of it, the innermost first."""
    fallen: list[int] = []
    owner = state.tasks[number].frame.owner
    while owner >= 0 and state.tasks[owner].status == "failed":
        fallen.append(owner)
        owner = state.tasks[owner].frame.owner
    return fallen


def _idle(state: State, number: int) -> set[int]:
    """The tasks that this failure kept from starting: what follows the task, and what the stop of its level cut off."""
    idle = {
        at
        for at in _following(state, number)
        if state.tasks[at].status in ("omitted", "cancelled", "pending") and state.tasks[at].reason != "not_selected"
    }
    frame = state.tasks[number].frame
    if len(frame.failures) > frame.tolerate and frame.failures[frame.tolerate] == number:
        level = list(range(frame.first, frame.first + frame.size))
        if state.containers:
            level = below(state, level)
        tasks = [(at, state.tasks[at]) for at in level]
        idle.update(at for at, task in tasks if not task.attempts and (task.status, task.reason) == _CUT_OFF)
    return idle


def _following(state: State, number: int) -> set[int]:
    """Every task that comes after one by needs or routes, directly or not."""
    shape, following, todo = state.shape, {number}, [number]
    while todo:
        at = todo.pop()
        fresh = {*shape.dependents[at], *(route.target for route in shape.routes_out.get(at, ()))} - following
        following |= fresh
        todo += fresh
    return following - {number}


def _ways_on(program: str, state: State, number: int, run_id: str) -> list[str]:
    """The commands to continue with; never cut, because people copy them. A dry run has none."""
    if is_dry(state):
        return []
    task_state = state.tasks[number]
    if task_state.status == "in_doubt":
        return settling_commands(program, state, number, run_id)
    name = word(label(state, number))
    if task_state.failure == "budget" and " budget of " in task_state.detail:
        return [f"{program} budget {run_id} {extending(task_state.detail)}", f"{program} retry {run_id}"]
    ways = [f"{program} logs {run_id} {name}", f"{program} why {run_id} {name}"]
    written = str(state.environment.get("plan") or "")
    if not written or task_state.failure in ("rejected", "expired"):
        return ways
    if extra := named_in(task_state.detail):
        return [f"{installing(extra)}, then: {program} retry {run_id}", *ways]
    file = plan_file(written)
    mend = _linked_file(state, number, file) or file
    uses = state.specs[number].uses
    if place := _of_plugin(task_state.outcome, uses):
        return [f"fix {place}, then: {program} retry {run_id}", *ways]
    if task_state.failure in ("policy", "budget") or uses == ASKING or uses.startswith(_MCP):
        mend += " or planrunner.yaml"
    again = [f"{program} retry {run_id}"] if task_state.failure == "transient" else []
    return [*again, f"fix {mend}, then: {program} retry {run_id} --plan {word(file)}", *ways]


def _of_plugin(outcome: Outcome | None, uses: str) -> str:
    """Where a capability of the project raised, as ``words.py:8``; empty where it did not, or runs code of the plan."""
    if outcome is None or uses.partition(".")[0] in _RUNS_CODE or not outcome.stderr.startswith("Traceback "):
        return ""
    places = re.findall(r'^  File "([^"<]+)", line (\d+)', outcome.stderr, re.MULTILINE)
    own = [f"{harmless(plan_file(path))}:{line}" for path, line in places if plan_file(path) != path]
    return own[-1] if own else ""


_RUNS_CODE = ("shell", "python", "dask", "validate")
"""Families whose tracebacks are those of programs and of code in plans."""


def plan_file(path: str) -> str:
    """A plan file as the caller would type it here: from the working directory, or whole where it lies outside."""
    near = os.path.relpath(path)
    return path if near.startswith(os.pardir) else near


def _linked_file(state: State, number: int, path: str) -> str:
    """The file of the linked plan that a task stands in; empty where that is the plan of the run."""
    linked = _linked(state, number)
    return os.path.normpath(os.path.join(os.path.dirname(path), linked)) if linked else ""


def _linked(state: State, number: int) -> str:
    """The same from the folder of the plan of the run."""
    frame = state.tasks[number].frame
    while frame.owner >= 0 and frame.linked is None:
        frame = state.tasks[frame.owner].frame
    return "" if frame.linked is None else frame.linked.file


def _in_linked(state: State, number: int) -> str:
    """``:14:9`` in the file of a linked plan, as long as that is what it was when the run took it."""
    linked = _linked(state, number)
    path = os.path.join(os.path.dirname(str(state.environment.get("plan", ""))), linked)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return ""
    if sha256(data).hexdigest() != state.environment.get("files", {}).get(linked):
        return ""
    source = Source(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"), linked, notation_of(linked))
    line, column = source.place(_span(state, number).start)
    return f":{line}:{column}"


_ROWS, _TASKS = 5, 10


def refused_text(outcome: Outcome | None) -> str:
    """What was refused during an attempt, a line each, with how it is allowed where its message does not say so yet."""
    return "" if outcome is None else "\n".join(_lines(outcome, outcome.message))


def lost_text(outcome: Outcome | None) -> str:
    """Which files of an attempt are gone with its sandbox, and what keeps them."""
    rows = [] if outcome is None else [row for row in outcome.refused if row["rule"] == LOST]
    return "\n".join(f"{plural(row['count'], 'file')}: {row['what']}\n  {row.get('message', '')}" for row in rows)


def tolerated_lines(terminal: Terminal, state: State) -> list[str]:
    """What was refused to tasks that did not fail, which did without it, and what was lost with their sandboxes."""
    refused = [
        (number, task.outcome)
        for number, task in enumerate(state.tasks)
        if task.outcome is not None and task.outcome.refused and not task.outcome.failure
    ]
    lines = []
    for number, outcome in refused[:_TASKS]:
        if rows := list(_lines(outcome, "")):
            lines.append(f"  refused to `{label(state, number)}`, which went well without:")
            lines += [f"    {harmless(line)}" for line in rows]
        if text := lost_text(outcome):
            lines.append(f"  lost by `{label(state, number)}`:")
            lines += [f"    {harmless(line)}" for line in text.splitlines()]
    if len(refused) > _TASKS:
        hint = f"{terminal.program} events {state.run_id} --type attempt_ended"
        lines.append(f"  and to {plural(len(refused) - _TASKS, 'task')} more: {hint}")
    return lines


def _lines(outcome: Outcome, known: str) -> Iterator[str]:
    refused = [row for row in outcome.refused if row["rule"] != LOST]
    for row in refused[:_ROWS]:
        times = f", {row['count']} times" if row["count"] > 1 else ""
        message = row.get("message", "")
        yield f"{row['what'] or 'others'} ({row['rule']}{times})"
        if message and message not in known:
            yield f"  {message}"
    if len(refused) > _ROWS:
        yield f"and {len(refused) - _ROWS} more"
