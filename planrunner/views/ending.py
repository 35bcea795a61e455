"""The last words of a run: one line of counts, what it waits for, and the failures at the very end, where eyes are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.escapes import harmless
from planrunner.later import Later
from planrunner.machine.names import label
from planrunner.machine.state import State
from planrunner.machine.stops import called_off_inside, deadline_text, stop_text
from planrunner.plan.agents import CRITIQUE
from planrunner.plan.expressions.quantities import duration_text
from planrunner.views.runs import run_words
from planrunner.views.status import NAMED, counts_text, doubt_answers, doubtful, is_dry, listed, shown_counts, waiting
from planrunner.views.terminal import Terminal, plural, word

if TYPE_CHECKING:
    from planrunner.plan.expressions.tree import paths_of
    from planrunner.source import Source
    from planrunner.views.budget import budget_line, extending
    from planrunner.views.checkpoint import warnings
    from planrunner.views.failure import failure_blocks, tolerated_lines
    from planrunner.views.gates import next_commands
    from planrunner.views.hypotheses import hypotheses_line
    from planrunner.views.revision import proposal_commands
    from planrunner.views.rollback import rollback_lines
    from planrunner.views.suggestions import suggestion_lines
else:
    paths_of = Later("planrunner.plan.expressions.tree:paths_of")
    budget_line = Later("planrunner.views.budget:budget_line")
    extending = Later("planrunner.views.budget:extending")
    warnings = Later("planrunner.views.checkpoint:warnings")
    failure_blocks = Later("planrunner.views.failure:failure_blocks")
    tolerated_lines = Later("planrunner.views.failure:tolerated_lines")
    next_commands = Later("planrunner.views.gates:next_commands")
    hypotheses_line = Later("planrunner.views.hypotheses:hypotheses_line")
    proposal_commands = Later("planrunner.views.revision:proposal_commands")
    rollback_lines = Later("planrunner.views.rollback:rollback_lines")
    suggestion_lines = Later("planrunner.views.suggestions:suggestion_lines")


DRY = "dry run: nothing was done, nothing is kept"
"""What stands for the id of a run that only happened on paper."""
_LEFT = ("pending", "queued", "running", "paused", "blocked", "in_doubt")


def ending(terminal: Terminal, state: State, run_id: str, source: Source | None = None) -> list[str]:
    """The lines to print when a run ended or was parked; with the ``source`` of its plan, failures name places."""
    lines = [summary(terminal, state, run_id)]
    if not is_dry(state):
        lines += _next_steps(terminal, state, run_id)
    elif decided := _decided_on_paper(state):
        lines.append(f"  made-up outputs decided in this dry run: {decided}")
        lines.append(f"  what only a run can tell: {terminal.program} preview PLAN")
    if state.ledger is not None:
        text = budget_line(state, state.ended_at or state.active_since or 0.0)
        lines += [f"  {text}"] if text else []
    if state.evidence and (text := hypotheses_line(terminal, state)):
        lines.append(f"  {text}")
    if CRITIQUE in state.traits:
        lines += [f"  {line}" for line in suggestion_lines(state)]
    if any(task_state.outcome is not None and task_state.outcome.refused for task_state in state.tasks):
        lines += tolerated_lines(terminal, state)
    if any(state.counts.get(status) for status in ("failed", "in_doubt", "rolled_back")):
        lines += failure_blocks(terminal, state, run_id, source)
    if state.checkpoints is not None:
        lines += warnings(terminal, state)
    if state.compensation_log is not None:
        lines += rollback_lines(terminal, state)
    return lines


def _decided_on_paper(state: State) -> str:
    """The tasks that a dry run took up or left out by outputs, all of which it assumed; empty where there are none."""
    names = []
    for number, task in enumerate(state.specs):
        whens = [edge.condition for edge in task.edges]
        read = [task.when, task.join.expression, task.loop.until if task.loop is not None else None, *whens]
        paths = [path for each in read if each is not None for path in paths_of(each.tree)]
        if state.tasks[number].status != "pending" and any("outputs" in path for path in paths):
            names.append(f"`{label(state, number)}`")
    return listed(names)


def _called_off(state: State) -> list[str]:
    """Which tasks were cancelled or abandoned one by one, by whom and why."""
    cancelled = called_off_inside(state)
    lines = [
        f"  `{label(state, at)}` was {state.tasks[at].status}{_by(state.tasks[at].detail)}" for at in cancelled[:NAMED]
    ]
    more = [f"  and {len(cancelled) - NAMED:,} more"] if len(cancelled) > NAMED else []
    return [*map(harmless, lines), *more]


def _by(detail: str) -> str:
    detail = detail.removeprefix("stopped: ")
    return f" {detail}" if detail.startswith("by ") else f": {detail}" if detail else ""


def summary(terminal: Terminal, state: State, run_id: str, now: float | None = None) -> str:
    """``✔ release-check completed in 12.3s: 4 completed (run 01J…)``; ``now`` is for runs that still go on."""
    seconds = state.spent_time(now) if now is not None else state.active
    took = f" in {duration_text(seconds)}" if seconds else ""
    head = terminal.paint(f"{state.plan.id} {run_words(state.status, state.reason)}", "bold")
    which = DRY if is_dry(state) else f"run {run_id}"
    return f"{terminal.sign(state.status)} {head}{took}: {counts_text(shown_counts(state))} ({which})"


def _next_steps(terminal: Terminal, state: State, run_id: str) -> list[str]:
    lines = []
    if state.stop_by and state.status != "completed":
        lines.append(f"  {harmless(stop_text(state))}")
    if state.detail:
        lines += [f"  {harmless(part)}" for part in state.detail.split("; ")]
    if state.reason == "task":
        lines += _called_off(state)
    if state.reason == "budget" and state.ended_at is not None:
        lines.append(f"  more budget: {terminal.program} budget {run_id} {extending(stop_text(state))}")
        lines.append(f"  then go on:  {terminal.program} retry {run_id}")
    if state.reason == "deadline":
        lines.append(f"  {deadline_text(state.plan)}, and no budget prolongs it: a new run is needed")
    if state.status not in ("paused", "blocked"):
        return lines
    if state.reason == "revision":
        return [*lines, *proposal_commands(terminal, run_id)]
    names = [label(state, state.index[name]) for name in waiting(state)]
    lines += [f"  waits for {listed(names)}"] if names else []
    if state.counts.get("blocked"):
        lines += next_commands(terminal, state)
    counts = shown_counts(state)
    left = sum(counts.get(status, 0) for status in _LEFT)
    undoing = (
        [] if state.compensation_log is None else [state.compensation_log.main, *state.compensation_log.frames.values()]
    )
    steps = sum(len(each.todo) for each in undoing)
    parts = [plural(left, "task")] if left or not steps else []
    parts += [f"{plural(steps, 'step')} to undo"] if steps else []
    ways, settling = _settling(state)
    return [*lines, f"  {' and '.join(parts)} left{ways}: {terminal.program} resume {run_id}{settling}"]


def _settling(state: State) -> tuple[str, str]:
    """The answers about tasks whose end is unknown, and how a resume gives them; empty where there are none."""
    doubts = doubtful(state)
    if not doubts:
        return "", ""
    name = word(label(state, doubts[0])) if len(doubts) == 1 else "all"
    common = [how for how in doubt_answers(state, doubts[0]) if all(how in doubt_answers(state, at) for at in doubts)]
    common.sort(key="retry".__ne__)
    return f" ({', '.join(common[:-1])} or {common[-1]})", f" --settle {name}={common[0]}"
