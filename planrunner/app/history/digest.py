"""A digest of progress and blockers: facts from the journal, and on request a model's words for them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from planrunner.app.follow.summaries import Summaries
from planrunner.app.history.state import stored_state
from planrunner.app.runs.doubts import rest
from planrunner.app.runs.errands import run_errand
from planrunner.app.runs.execute import Silent
from planrunner.errors import Hint, NextStep, NotFound, UsageError
from planrunner.journal.ports import Journal
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_project, find_state
from planrunner.machine.hypotheses import belief_object, beliefs, ranked
from planrunner.machine.names import by_its_own, label, owners, stands
from planrunner.machine.questions import is_limited, questions, who_may
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED
from planrunner.records import Struct
from planrunner.views.budget import budget_line
from planrunner.views.digest import Blocker, Digested, Worded, digest_object
from planrunner.views.runs import RunSummary
from planrunner.views.status import has_failed, shown_counts

Json = Any

_UNDER_WAY = ("running", "queued", "blocked", "in_doubt")


class DigestRequest(Struct):
    """The runs by their ids, the starts of them or `last` (none: those that are open, and those that began or ended
    from ``since`` on, seconds since 1970)."""

    since: float
    runs: tuple[str, ...] = ()
    state: str | None = None


def digest(request: DigestRequest) -> list[Digested]:
    """The runs of a digest, the newest first. A place without runs gives an empty list; raises NotFound for a run that
    is named and not there."""
    try:
        journal = open_journal(find_state(None, request.state), readonly=True)
    except NotFound:
        if request.runs:
            raise
        return []
    try:
        summaries = Summaries.of(journal)
        if request.runs:
            named = dict.fromkeys(journal.find_run(each) for each in request.runs)
            return [_digested(journal, summaries.row(run), request.since, True) for run in named]
        wanted = [
            run for run in summaries.listed() if run.ended is None or max(run.created, run.ended) >= request.since
        ]
        return [_digested(journal, run, request.since, False) for run in wanted]
    finally:
        journal.close()


def _digested(journal: Journal, run: RunSummary, since: float, whole: bool) -> Digested:
    """A run that completed is only counted, unless the ``whole`` of it is wanted."""
    if run.status == "completed" and not whole:
        return Digested(run)
    state = stored_state(journal, run.run)
    if run.status not in ("running", "failed", "cancelled", "completed"):
        rest(state)
    now = time.time()
    return Digested(
        run,
        {status: count for status, count in shown_counts(state).items() if count},
        tuple(_blockers(state)) if run.ended is None else (),
        tuple(_failures(state)),
        tuple(_done(state, since)),
        tuple(_running(state)) if run.status == "running" else (),
        tuple(_next(state)) if run.ended is None else (),
        budget_line(state, run.ended or now).removeprefix("budget: "),
        tuple(belief_object(state, each) for each in ranked(beliefs(state))) if state.evidence else (),
        whole,
    )


def _blockers(state: State) -> Iterator[Blocker]:
    for asked in questions(state, time.time()):
        yield Blocker(asked.name, asked.ask, asked.since, who_may(asked) if is_limited(asked) else "")


def _failures(state: State) -> Iterator[tuple[str, str]]:
    """The tasks that failed with the reasons; of one that failed for a task inside it that one alone."""
    failed = [at for at, each in enumerate(state.tasks) if has_failed(each) and stands(state, at)]
    around = {owner for number in failed for owner in owners(state, number)}
    for number in failed:
        if number not in around or by_its_own(state, number):
            yield state.specs[number].id, state.tasks[number].detail


def _done(state: State, since: float) -> Iterator[str]:
    """Tasks that completed in the period; what holds others stands for nothing of its own."""
    for number, task_state in enumerate(state.tasks):
        ended = task_state.ended or 0.0
        if task_state.status == "completed" and ended >= since and number not in state.containers:
            yield label(state, number)


def _running(state: State) -> Iterator[tuple[str, float]]:
    for number in state.running:
        if number not in state.containers:
            yield label(state, number), state.tasks[number].began


def _next(state: State) -> Iterator[str]:
    """Pending tasks for which nothing but what is under way has to be done first."""
    for number, task_state in enumerate(state.tasks):
        if task_state.status != "pending":
            continue
        before = (*state.shape.needs[number], *(route.source for route in state.shape.routes_in.get(number, ())))
        waits = [state.tasks[other].status for other in before if state.tasks[other].status not in SETTLED]
        if all(status in _UNDER_WAY for status in waits):
            yield label(state, number)


# In a model's words

_PROMPT = """Write a short digest for people who follow these runs: at most 12 lines of plain text, without headings.
Say first what waits for people and for how long, then what failed and why, then what was done and what is next.
Use only the facts below; do not guess at causes, and do not say what should be decided.

{facts}
"""


def worded(request: DigestRequest, runs: Sequence[Digested], model: str) -> Worded:
    """What a model makes of the facts, in a run of its own that records the request and the reply. It decides nothing.
    Raises UsageError where the model gives no text, and whatever a run raises that asks one."""
    facts = json.dumps(digest_object(runs, request.since), ensure_ascii=False)
    inputs = {"prompt": "{{ params.prompt }}", **({"model": model} if model != "default" else {})}
    plan = {
        "plan": "digest",
        "title": "Word a digest",
        "params": {"prompt": {"type": "string", "description": "the facts and what to make of them"}},
        "budgets": {"time": "5m", "calls": 4},
        "tasks": [{"id": "word", "uses": "llm.complete", "with": inputs, "timeout": "5m", "budgets": {"calls": 4}}],
    }
    given = {"prompt": _PROMPT.format(facts=facts)}
    run_id, task = run_errand(plan, given, find_project(None), request.state, Silent())
    words = "" if task.outcome is None else str(task.outcome.outputs.get("text") or "").strip()
    if task.status != "completed" or not words:
        why = task.detail or task.status
        raise UsageError(f"the model `{model}` did not word the digest: {why}", Hint(NextStep("show", run_id)))
    assert task.outcome is not None
    return Worded(words, str(task.outcome.outputs.get("model") or model), run_id)
