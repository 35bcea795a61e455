"""The surfaces of a run that pure functions make: whatever it holds, they show it, and a run differs from itself in nothing."""

from __future__ import annotations

from collections.abc import Iterator

from features.played import Ran
from planrunner.app.handoff.pages import drawn
from planrunner.app.handoff.postmortem import Before, postmortem
from planrunner.app.history.compare import Recorded, comparison
from planrunner.app.proof.lives import RUN_ID
from planrunner.machine.events import TaskSettled
from planrunner.machine.explain import why
from planrunner.machine.state import State
from planrunner.views.compare import comparison_document
from planrunner.views.decisions import decisions
from planrunner.views.graph import draw_graph
from planrunner.views.page.run import Given
from planrunner.views.page.story import Story
from planrunner.views.postmortem import markdown


def faults(ran: Ran) -> Iterator[str]:
    """What the surfaces of a run say that is not so."""
    run = Recorded(tuple(ran.entries), ran.state)
    made = comparison(run, run)
    if not made.same or comparison_document(made)["first"] is not None:
        yield "a run differs from itself"
    told = postmortem(run, None, Before("other", made))
    if not markdown(told).startswith("# Postmortem"):
        yield "its postmortem has no title"
    if any(one.seq > ran.entries[-1].seq for one in decisions(run.entries)):
        yield "a decision is told that was not made"
    for spec, state in zip(ran.state.specs, ran.state.tasks):
        lines = why(ran.state, spec.id)
        if not lines or (state.status == "failed" and "fail" not in " ".join(lines)):
            yield f"`why` says of `{spec.id}`, which is {state.status}: {lines}"
    statuses = {spec.id: state.status for spec, state in zip(ran.state.specs, ran.state.tasks)}
    for form in ("mermaid", "dot"):
        if not draw_graph(ran.plan, form, statuses):
            yield f"its graph as {form} is empty"
    story = Story(State(ran.plan, RUN_ID, {})).take(ran.entries)
    page = drawn(Given(story, ran.entries[-1].at, whole=True, alone=True))
    if not page.startswith("<!doctype html>") or "/static/" in page:
        yield "its page as a file is none"
    settled = {entry.event.task for entry in ran.entries if isinstance(entry.event, TaskSettled)}
    for task in settled & {spec.id for spec in ran.plan.tasks}:
        if task not in page:
            yield f"its page does not name `{task}`"
