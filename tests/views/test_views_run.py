"""A run as data and as a tree, its timeline and its journal lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from planrunner.journal.codec import kind_of
from planrunner.machine.commands import Record, Start
from planrunner.machine.events import (
    EVENTS,
    AttemptEnded,
    AttemptStarted,
    Entry,
    Outcome,
    RunEnded,
    RunForked,
    RunParked,
    RunResumed,
    RunStarted,
    StopRequested,
    TaskSettled,
)
from planrunner.machine.explain import why
from planrunner.machine.questions import questions
from planrunner.machine.recovery import recover
from planrunner.plan.model import Budgets
from planrunner.records import defaults, fields
from planrunner.views.ending import ending
from planrunner.views.progress.jsonl import JsonLinesProgress, entry_line, entry_object, entry_text, event_type
from planrunner.views.progress.plain import QuietProgress
from planrunner.views.run import attempts, run_object, timeline
from planrunner.views.tree import tree

if TYPE_CHECKING:
    pass


def _complete(told, name, **outputs):
    told.tell(AttemptStarted(name, 1, f"k-{name}"), AttemptEnded(name, 1, Outcome(outputs=outputs)))
    told.tell(TaskSettled(name, "completed"))


def test_the_json_object_has_what_the_contract_names(story, shell_task):
    told = story(shell_task("a"), shell_task("b", ["a"]), budgets=Budgets(time=60.0, cost=2.0))
    _complete(told, "a", count=3)
    told.tell(TaskSettled("b", "skipped", "when", "`when` is false"), RunEnded("completed", outputs={"n": 3}))
    found = run_object(told.state, "d1g357", 0, 0.0)
    assert json.loads(json.dumps(found)) == {
        "format": 1,
        "run_id": "20231114-2213-abc123",
        "plan": "demo",
        "plan_file": None,
        "settings": None,
        "revision": "d1g357",
        "revision_number": 1,
        "status": "completed",
        "exit_code": 0,
        "reason": "",
        "detail": "",
        "stopped": None,
        "waiting": [],
        "gates": [],
        "tasks": {
            "a": {
                "status": "completed",
                "attempts": 1,
                "outputs": {"count": 3},
                "reason": "",
                "detail": "",
                "failure": "",
                "started": "2023-11-14T22:13:21.000Z",
                "ended": "2023-11-14T22:13:23.000Z",
                "duration": 2.0,
                "artifacts": [],
            },
            "b": {
                "status": "skipped",
                "attempts": 0,
                "outputs": {},
                "reason": "when",
                "detail": "`when` is false",
                "failure": "",
                "started": None,
                "ended": "2023-11-14T22:13:24.000Z",
                "duration": None,
                "artifacts": [],
            },
        },
        "budget": {
            "time": {"used": 5.0, "limit": 60.0},
            "cost": {"used": 0.0, "reserved": 0.0, "limit": 2.0},
            "attempts": {"used": 1, "reserved": 0, "limit": None},
        },
        "outputs": {"n": 3},
    }


def test_a_task_that_failed_shows_what_its_attempt_gave_all_the_same(story, shell_task):
    told = story(shell_task("a"))
    failed = Outcome("findings", "1 finding", {"counts": {"error": 1}})
    told.tell(AttemptStarted("a", 1, "k-a"), AttemptEnded("a", 1, failed))
    told.tell(TaskSettled("a", "failed", "failed", "1 finding", "findings"), RunEnded("failed"))
    assert run_object(told.state, "d", 1, 0.0)["tasks"]["a"]["outputs"] == {"counts": {"error": 1}}


def test_a_waiting_run_names_the_tasks_it_waits_for(story, shell_task):
    told = story(shell_task("sign"), shell_task("b"))
    told.tell(TaskSettled("sign", "blocked", "gate", "waits for an approval"), RunParked("waiting", ("sign",)))
    found = run_object(told.state, "d", 8, 0.0)
    assert (found["status"], found["waiting"], found["exit_code"]) == ("blocked", ["sign"], 8)


def test_the_tree_shows_statuses_durations_and_reasons_and_indents_what_is_nested_alone(story, shell_task, screen):
    told = story(shell_task("a"), shell_task("b", ["a"]), shell_task("c", ["a"]))
    _complete(told, "a")
    told.tell(AttemptStarted("b", 1, "k"))
    told.tell(TaskSettled("c", "omitted", "needs", "`a` is late"))
    assert tree(screen()[0], told.state, told.entries[-1].at + 10) == [
        "✔ a  completed, 2.0s",
        "● b  running, 11.0s",
        "○ c  not run, `a` is late",
    ]


def test_no_task_is_said_to_run_while_nobody_acts_on_the_run(story, shell_task, screen):
    told = story(shell_task("a"), shell_task("b"))
    told.tell(AttemptStarted("a", 1, "k1"), AttemptStarted("b", 1, "k2"))
    told.tell(StopRequested("interrupted"), AttemptEnded("a", 1, Outcome("interrupted", "stopped")))
    told.tell(RunParked("interrupted"))
    found = run_object(told.state, "d", 130, 0.0)["tasks"]
    assert {name: (task["status"], task["reason"]) for name, task in found.items()} == {
        "a": ("in_doubt", "interrupted"),
        "b": ("in_doubt", "cut off"),
    }
    assert tree(screen()[0], told.state, told.entries[-1].at + 99) == [
        "? a  in doubt, 3.0s, interrupted, result unknown; decide with `resume --settle`",
        "? b  in doubt, interrupted, result unknown; decide with `resume --settle`",
    ]
    assert "2 in doubt" in ending(screen()[0], told.state, "r")[0]


def test_what_a_resume_settles_by_itself_is_paused_and_only_what_a_person_decides_is_in_doubt(
    story, shell_task, screen
):
    told = story(
        shell_task("reads", effect="read"),
        shell_task("again", on_doubt="retry"),
        shell_task("fails", on_doubt="fail"),
        shell_task("acts"),
        shell_task("late"),
    )
    told.tell(*(AttemptStarted(name, 1, name) for name in ("reads", "again", "fails", "acts", "late")))
    told.tell(StopRequested("interrupted"), AttemptEnded("late", 1, Outcome("unstarted", "no room")))
    told.tell(RunParked("interrupted"))
    assert [line.split(None, 1)[1] for line in tree(screen()[0], told.state, told.entries[-1].at)] == [
        "reads  paused, interrupted; `resume` starts it again",
        "again  paused, interrupted; `resume` starts it again",
        "fails  paused, interrupted; `resume` lets it fail",
        "acts   in doubt, interrupted, result unknown; decide with `resume --settle`",
        "late   paused, 2.0s, interrupted; `resume` starts it",
    ]
    assert "1 in doubt, 4 paused" in ending(screen()[0], told.state, "r")[0]
    assert [question.name for question in questions(told.state, 0.0) if question.kind == "doubt"] == ["acts"]
    found = run_object(told.state, "d", 130, 0.0)["tasks"]
    assert (found["reads"]["status"], found["reads"]["reason"]) == ("paused", "cut off")
    assert why(told.state, "reads")[0] == "`reads` was interrupted; `resume` starts it again"
    told.tell(RunResumed(1))
    assert {told.state.specs[number].id: type(recover(told.state, number)) for number in range(5)} == {
        "reads": Start,
        "again": Start,
        "fails": Record,
        "acts": Record,
        "late": Start,
    }


def test_a_large_tree_leaves_out_what_went_well(story, shell_task, screen):
    told = story(*(shell_task(f"t{number}") for number in range(100)), max_parallel=100)
    for number in range(99):
        _complete(told, f"t{number}")
    told.tell(AttemptStarted("t99", 1, "k"), AttemptEnded("t99", 1, Outcome("logic", "no")))
    told.tell(TaskSettled("t99", "failed", "failed", "no", "logic"))
    lines = tree(screen()[0], told.state, 0.0)
    assert lines == ["✘ t99  failed, 2.0s, no", "  99 uneventful tasks hidden"]


def test_a_large_tree_counts_what_a_stop_kept_from_starting_in_one_line(story, shell_task, screen):
    told = story(shell_task("cause"), *(shell_task(f"t{number}") for number in range(136)))
    told.tell(AttemptStarted("cause", 1, "k"), AttemptEnded("cause", 1, Outcome("logic", "no")))
    told.tell(TaskSettled("cause", "failed", "failed", "no", "logic"))
    told.tell(*(TaskSettled(f"t{number}", "cancelled", "stopped") for number in range(136)))
    assert tree(screen()[0], told.state, 0.0) == ["✘ cause  failed, 2.0s, no", "  136 not started"]


def test_the_timeline_has_a_bar_for_each_attempt(story, shell_task, screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    told = story(shell_task("a", attempts=2), shell_task("b"))
    told.tell(AttemptStarted("a", 1, "k1"), AttemptEnded("a", 1, Outcome("transient", "no")))
    told.tell(AttemptStarted("b", 1, "k2"))
    found = attempts(told.entries)
    assert [(bar.task, bar.number, bar.failure, bar.ended is None) for bar in found] == [
        ("a", 1, "transient", False),
        ("b", 1, "", True),
    ]
    lines = timeline(screen(unicode=False)[0], told.state, found, told.entries[-1].at + 2)
    assert lines[0].startswith("a  xxxxx")
    assert lines[0].endswith("1.0s transient")
    assert lines[1].endswith("2.0s")
    assert lines[1].index("=") > lines[0].rindex("xx")


def test_no_attempts_make_no_timeline(story, screen):
    assert timeline(screen()[0], story().state, [], 0.0) == []


def test_json_lines_begin_with_the_format_and_hold_every_field(story, shell_task, screen):
    told = story(shell_task("a"))
    terminal, stream = screen()
    progress = JsonLinesProgress(terminal)
    progress.started("r1", told.state.plan, told.state)
    _complete(told, "a", n=1)
    for entry in told.entries:
        progress.event(entry)
    progress.ended(None)
    rows = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert rows[0] == {"format": 1, "type": "stream", "run_id": "r1", "plan": "demo"}
    assert [row["type"] for row in rows[1:]] == ["run_started", "attempt_started", "attempt_ended", "task_settled"]
    assert rows[3]["outcome"]["outputs"] == {"n": 1}
    assert [row["seq"] for row in rows[1:]] == [1, 2, 3, 4]


def test_types_in_json_lines_are_those_of_the_journal():
    for kind in EVENTS:
        assert event_type(kind) == kind_of(kind)


def test_an_entry_for_people_leaves_out_what_is_empty():
    entry = Entry(1, 0.0, RunStarted("abc", {"x": 1}, 7))
    assert entry_text(entry) == 'run_started plan_digest=abc params={"x":1} seed=7'
    ended = Entry(2, 0.0, AttemptEnded("a", 1, Outcome("logic", "no\x1b[31m", exit_code=2)))
    assert (
        entry_text(ended)
        == 'attempt_ended task=a attempt=1 outcome={"failure":"logic","message":"no\\u001b[31m","exit_code":2}'
    )
    assert json.loads(entry_line(entry))["params"] == {"x": 1}


def test_quiet_progress_says_nothing_of_a_good_run_and_shows_the_failure_of_a_bad_one(story, shell_task, screen):
    good, bad = story(shell_task("a")), story(shell_task("a"))
    _complete(good, "a")
    good.tell(RunEnded("completed"))
    bad.tell(AttemptStarted("a", 1, "k"), AttemptEnded("a", 1, Outcome("logic", "no")))
    bad.tell(TaskSettled("a", "failed", "failed", "no", "logic"), RunEnded("failed"))
    printed = []
    for told in (good, bad):
        terminal, stream = screen()
        progress = QuietProgress(terminal)
        progress.started("r", told.state.plan, told.state)
        progress.ended(None)
        printed.append(stream.getvalue())
    assert printed[0] == ""
    assert "✘ a failed (logic)" in printed[1]


def test_a_task_that_failed_shows_what_its_failure_gave(story, shell_task):
    told = story(shell_task("a"), shell_task("b"))
    told.tell(AttemptStarted("a", 1, "k"), AttemptEnded("a", 1, Outcome("logic", "2 tests failed", {"failed": 2})))
    assert run_object(told.state, "d", None, 0.0)["tasks"]["a"]["outputs"] == {}
    told.tell(TaskSettled("a", "failed", "attempts", "2 tests failed", "logic"))
    assert run_object(told.state, "d", None, 0.0)["tasks"]["a"]["outputs"] == {"failed": 2}


def test_a_task_that_another_stood_in_for_shows_what_that_one_gave(story, shell_task):
    told = story(shell_task("a"), shell_task("b"))
    told.tell(AttemptStarted("a", 1, "k"), AttemptEnded("a", 1, Outcome("logic", "no", {"failed": 2})))
    told.tell(TaskSettled("a", "failed", "attempts", "no", "logic"))
    _complete(told, "b", passed=3)
    told.state.tasks[0].recovered_by, told.state.tasks[0].outputs = "b", told.state.tasks[1].outputs
    assert run_object(told.state, "d", None, 0.0)["tasks"]["a"]["outputs"] == {"passed": 3}


def test_every_entry_tells_its_own_number_and_time_whatever_its_event_calls_its_fields():
    for kind in EVENTS:
        needed = {name: "" for name in fields(kind) if name not in defaults(kind)}
        told = entry_object(Entry(7, 8.0, kind(**{**needed, **({"seq": 3} if "seq" in fields(kind) else {})})))
        assert (told["seq"], told["at"]) == (7, 8.0)
    forked = entry_object(Entry(7, 8.0, RunForked("run", "parent", 3)))
    assert (forked["type"], forked["event_seq"]) == ("run_forked", 3)
