"""Progress for GitHub Actions: groups, annotations, and tasks that cannot give commands to the runner."""

from __future__ import annotations

import re

from planrunner.machine.events import AttemptEnded, AttemptStarted, Outcome, TaskSettled
from planrunner.views.progress.plain import ANNOTATIONS, GithubProgress


def _run(told, terminal, *events):
    progress = GithubProgress(terminal)
    progress.started(told.state.run_id, told.state.plan, told.state)
    for event in events:
        told.tell(event)
        progress.event(told.entries[-1])
    progress.tick(0.0)


def test_output_stands_in_a_group_where_commands_are_switched_off(story, shell_task, screen):
    told = story(shell_task("a"))
    terminal, stream = screen()
    outcome = Outcome(stdout="fine\n::set-output name=x::y\n")
    _run(told, terminal, AttemptStarted("a", 1, "k"), AttemptEnded("a", 1, outcome), TaskSettled("a", "completed"))
    lines = stream.getvalue().splitlines()
    start = lines.index("::group::output of a")
    token = re.fullmatch(r"::stop-commands::([0-9a-f]{24})", lines[start + 1])
    assert token
    assert lines[start + 2 :] == ["fine", "::set-output name=x::y", f"::{token[1]}::", "::endgroup::"]


def test_a_task_without_output_makes_no_group(story, shell_task, screen):
    told = story(shell_task("a"))
    terminal, stream = screen()
    _run(told, terminal, AttemptStarted("a", 1, "k"), AttemptEnded("a", 1, Outcome()), TaskSettled("a", "completed"))
    assert "::" not in stream.getvalue()


def test_failures_are_annotated_up_to_what_the_service_shows(story, shell_task, screen):
    told = story(*(shell_task(f"t{number}") for number in range(15)), on_failure="continue")
    terminal, stream = screen()
    events = []
    for number in range(15):
        name = f"t{number}"
        events += [AttemptStarted(name, 1, name), AttemptEnded(name, 1, Outcome("logic", "no"))]
        events.append(TaskSettled(name, "failed", "failed", "100% bad:\nreally", "logic"))
    _run(told, terminal, *events)
    errors = [line for line in stream.getvalue().splitlines() if line.startswith("::error")]
    assert errors[0] == "::error title=t0 failed::100%25 bad:%0Areally"
    assert len(errors) == ANNOTATIONS
    assert errors[-1].startswith("::error title=more failures")
