"""Every recorded run, whatever it shows, is looked back on, compared and drawn; a run differs from itself in nothing."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from workbench import ROOT

from planrunner.app.handoff.pages import drawn
from planrunner.app.handoff.postmortem import Before, postmortem
from planrunner.app.history.compare import comparison, recorded_or_file
from planrunner.app.history.replay import read_history
from planrunner.app.history.state import plan_of
from planrunner.machine.state import State
from planrunner.views.compare import comparison_document
from planrunner.views.decisions import decisions
from planrunner.views.page.compare import runs_page
from planrunner.views.page.run import Given
from planrunner.views.page.story import Story
from planrunner.views.postmortem import markdown

HISTORIES = sorted((ROOT / "tests/app/history/histories").glob("*.jsonl"))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_a_recorded_run_is_looked_back_on_and_differs_from_itself_in_nothing(path: Path) -> None:
    run = recorded_or_file(str(path), None)
    made = comparison(run, run)
    assert made.same, [pair for pair in made.tasks if pair.changes][:3]
    assert comparison_document(made)["first"] is None
    assert runs_page(made).same
    told = postmortem(run, None, Before("other", made))
    last = run.entries[-1].seq
    events = [each for part in (told.causes, told.factors, told.gaps) for fact in part for each in fact.events]
    assert all(0 < seq <= last for seq in events)
    assert markdown(told).startswith("# Postmortem")
    assert all(one.seq <= last for one in decisions(run.entries))


@pytest.mark.parametrize("path", HISTORIES[::6], ids=lambda path: path.stem)
def test_a_recorded_run_is_drawn_as_a_file(path: Path) -> None:
    history = read_history(str(path))
    plans = {each.digest: plan_of(each) for each in history.revisions}
    story = Story(State(plan_of(history.plan), history.run_id, plans)).take(history.entries)
    page = drawn(Given(story, history.entries[-1].at, whole=True, alone=True))
    assert page.startswith("<!doctype html>")
    assert "/static/" not in page


@pytest.mark.parametrize("paths", list(pairwise(HISTORIES))[::5], ids=lambda p: p[0].stem)
def test_any_two_runs_are_compared(paths: tuple[Path, Path]) -> None:
    one, other = (recorded_or_file(str(path), None) for path in paths)
    made = comparison(one, other)
    roots = [pair.task for pair in made.tasks if pair.changes and not pair.follows]
    for pair in made.tasks:
        assert not pair.changes or pair.task in roots or pair.follows
