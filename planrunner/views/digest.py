"""A digest of progress and blockers, as data and as text."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from planrunner.escapes import harmless
from planrunner.frozen import EMPTY
from planrunner.machine.questions import Question
from planrunner.plan.expressions.quantities import duration_text, format_percent
from planrunner.records import Struct
from planrunner.views.gates import project_lines, project_object
from planrunner.views.runs import RunSummary, rfc3339, run_words
from planrunner.views.status import counts_text, listed
from planrunner.views.terminal import Terminal, cut

Json = Any


class Blocker(Struct):
    """What a run waits for: the name that people answer to, what is asked, since when (seconds since 1970, None: not
    known), and who may decide (empty: anybody)."""

    name: str
    ask: str
    since: float | None = None
    who: str = ""


class Digested(Struct):
    """A run of a digest. ``counts`` are its tasks by status (empty for one that completed and is only counted),
    ``failures`` the tasks that failed, each with the reason; ``done`` those that completed in the period, ``running``
    those under way, each with the start of its attempt (seconds since 1970), ``following`` those that come next."""

    run: RunSummary
    counts: dict[str, int] = EMPTY
    blockers: tuple[Blocker, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    done: tuple[str, ...] = ()
    running: tuple[tuple[str, float], ...] = ()
    following: tuple[str, ...] = ()
    spent: str = ""
    """What is used of the budget of the run."""
    hypotheses: tuple[dict[str, Json], ...] = ()
    whole: bool = False
    """Whether the run was named, so that it is listed however it ended."""


class Worded(Struct):
    """The facts in the words of a ``model``, and the run in which it was asked."""

    text: str
    model: str
    run_id: str


_WIDEST = 160
"""Characters of a question or a reason."""


def digest_object(runs: Sequence[Digested], since: float, asked: Sequence[Question] = ()) -> dict[str, Json]:
    """The digest as data; ``asked`` is what the project itself asks."""
    return {
        "format": 1,
        "since": rfc3339(since),
        "totals": _totals(runs),
        "runs": [_object(each) for each in runs],
        "project": [{name: fact[name] for name in _OF_PROJECT} for fact in map(project_object, asked)],
    }


_OF_PROJECT = ("kind", "gate", "ask", "who", "commands")


def _object(each: Digested) -> dict[str, Json]:
    run = each.run
    return {
        "run_id": run.run,
        "plan": run.plan_id,
        "status": run.status,
        "reason": run.reason,
        "started": rfc3339(run.created),
        "ended": rfc3339(run.ended),
        "tasks": each.counts,
        "blockers": [
            {"gate": one.name, "ask": one.ask, "since": rfc3339(one.since), "who": one.who} for one in each.blockers
        ],
        "failures": [{"task": task, "detail": detail} for task, detail in each.failures],
        "done": list(each.done),
        "running": [{"task": task, "since": rfc3339(since)} for task, since in each.running],
        "next": list(each.following),
        "spent": each.spent,
        "hypotheses": list(each.hypotheses),
    }


def _totals(runs: Sequence[Digested]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for each in runs:
        totals[each.run.status] = totals.get(each.run.status, 0) + 1
    return totals


def digest_lines(
    terminal: Terminal, runs: Sequence[Digested], since: float, now: float, asked: Sequence[Question] = ()
) -> list[str]:
    """A line with the totals, then the runs that are open, those that did not complete, what the project asks, and the
    completed by plan."""
    moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(since))
    totals = ", ".join(f"{count} {status}" for status, count in sorted(_totals(runs).items())) or "no runs"
    period = "since" if runs and all(each.whole for each in runs) else "open, or since"
    lines = [f"{period} {moment}: {totals}"]
    for each in sorted(runs, key=lambda one: one.run.ended is not None):
        if each.run.status != "completed" or each.whole:
            lines += _run_lines(terminal, each, now)
    for question in asked:
        lines += project_lines(terminal, question)
    completed: dict[str, int] = {}
    for each in runs:
        if each.run.status == "completed" and not each.whole:
            completed[each.run.plan_id] = completed.get(each.run.plan_id, 0) + 1
    if completed:
        named = ", ".join(f"{plan} ×{count}" if count > 1 else plan for plan, count in completed.items())
        lines.append(f"{terminal.sign('completed')} completed: {named}")
    if any(each.blockers for each in runs):
        lines.append(f"{terminal.program} gates")
    return lines


def _run_lines(terminal: Terminal, each: Digested, now: float) -> Iterator[str]:
    run = each.run
    status = run_words(run.status, run.reason)
    head = f"{terminal.sign(run.status)} {terminal.paint(run.plan_id, 'bold')}  {status}"
    yield f"{head}: {counts_text(each.counts)} (run {run.run})" if each.counts else f"{head} (run {run.run})"
    for one in each.blockers:
        waited = "" if one.since is None else f" for {duration_text(max(0.0, now - one.since))}"
        who = f" ({harmless(one.who)})" if one.who else ""
        yield f"    waits{waited}: {one.name}  {cut(harmless(one.ask), _WIDEST)}{who}"
    for task, detail in each.failures[:5]:
        yield f"    failed: {task}  {cut(harmless(detail), _WIDEST)}"
    if len(each.failures) > 5:
        yield f"    … {len(each.failures) - 5} more failed"
    if each.running:
        names = [f"{task} for {duration_text(max(0.0, now - since))}" for task, since in each.running]
        yield f"    running: {listed(names)}"
    for what, tasks in (("done", each.done), ("next", each.following)):
        if tasks:
            yield f"    {what}: {listed(tasks)}"
    if each.spent:
        yield f"    spent: {each.spent}"
    if each.hypotheses:
        known = [f"{row['hypothesis']} {format_percent(row['confidence'])} {row['status']}" for row in each.hypotheses]
        yield f"    hypotheses: {listed(known)}"


def worded_lines(told: Worded) -> list[str]:
    """The words of a model, marked as such: text from outside that decides nothing."""
    lines = [f"    {harmless(line)}" for line in told.text.splitlines()]
    return [f"in the words of the model `{told.model}` (run {told.run_id}):", *lines]
