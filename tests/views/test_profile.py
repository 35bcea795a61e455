"""The profile of a run: every second goes to one part, and to the part that it belongs to."""

from __future__ import annotations

import io
import os
from contextlib import closing

import commands
import pytest

from planrunner.app.history.state import begun
from planrunner.journal.stores import open_journal
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    Entry,
    GateOpened,
    RetryScheduled,
    RunParked,
    RunStarted,
)
from planrunner.records import astuple
from planrunner.views.page.story import Story
from planrunner.views.profile import PARTS, Profile, profile, profile_document, profile_lines
from planrunner.views.terminal import Terminal

PLAN = """
plan: nightly
tasks:
  - {id: fetch, run: 'true', timeout: 1m}
  - {id: flaky, run: 'test -e there || { touch there; exit 1; }', needs: [fetch], retry: {attempts: 2, delay: 1ms}, timeout: 1m}
  - {id: go, ask: 'Publish?', needs: [flaky]}
"""
TIMES = {  # seconds after the start of the run
    (AttemptStarted, "fetch", 1): 1.0,
    (AttemptEnded, "fetch", 1): 11.0,
    (AttemptStarted, "flaky", 1): 12.0,
    (AttemptEnded, "flaky", 1): 16.0,
    (RetryScheduled, "flaky", 1): 16.0,
    (AttemptStarted, "flaky", 2): 36.0,
    (AttemptEnded, "flaky", 2): 40.0,
    (GateOpened, "go", 0): 42.0,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """The profile of a run that waits at a gate, a hundred seconds after its start."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "plan.yaml").write_text(PLAN)
    ran = commands.run("exec", "plan.yaml", "--unattended", folder=folder, env=dict(os.environ))
    assert "go asks: Publish?" in ran.out + ran.err, ran
    with closing(open_journal(str(folder / ".planrunner"), readonly=True)) as journal:
        run = journal.runs(1)[0].run
        story = Story(begun(journal, run)).take(_timed(list(journal.entries(run))))
    return profile(story, run, 1100.0)


def _timed(entries: list[Entry]) -> list[Entry]:
    """Entries at the times of ``TIMES``; the others at that of the one before."""
    at, timed = 1000.0, []
    for entry in entries:
        event = entry.event
        key = type(event), getattr(event, "task", ""), getattr(event, "attempt", 1)
        at = 1000.0 + TIMES.get(key, at - 1000.0)
        timed.append(entry._replace(at=at))
    assert isinstance(entries[0].event, RunStarted)
    assert isinstance(entries[-1].event, RunParked)
    return timed


def test_every_second_goes_to_the_part_that_it_belongs_to(made: Profile) -> None:
    assert made.parts == {"tasks": 18.0, "people": 58.0, "waits": 20.0, "stopped": 0.0, "planrunner": 4.0}
    assert sum(made.parts.values()) == made.seconds == 100.0
    assert set(made.parts) == set(PARTS)


def test_tasks_come_with_what_they_worked_and_waited_the_longest_first(made: Profile) -> None:
    assert [astuple(each) for each in made.tasks] == [
        ("fetch", 1, 10.0, 0.0),
        ("flaky", 2, 8.0, 20.0),
        ("go", 0, 0.0, 58.0),
    ]
    assert made.critical_path == ("fetch", "flaky", "go")


def test_people_and_programs_read_the_same(made: Profile) -> None:
    lines = profile_lines(Terminal(io.StringIO()), made)
    assert lines[0] == f"nightly {made.run_id}: 1m40s so far"
    assert lines[1:] == [
        "  tasks at work       18.0s  18%",
        "  gates               58.0s  58%",
        "  retries and delays  20.0s  20%",
        "  planrunner itself    4.0s  4%",
        "critical path",
        "  fetch, flaky, go",
        "tasks",
        "  fetch  10.0s",
        "  flaky   8.0s  2 attempts, waited 20.0s",
        "  go            waited 58.0s",
    ]
    told = profile_document(made)
    assert told["parts"] == made.parts
    assert told["tasks"][1] == {"task": "flaky", "attempts": 2, "worked": 8.0, "waited": 20.0}
