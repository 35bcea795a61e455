"""Plain progress: a line a state change, and a heartbeat."""

from __future__ import annotations

import time

from simulator.rehearsal import rehearse
from workbench import plan

from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    Outcome,
    RetryScheduled,
    RunEnded,
    RunParked,
    RunReopened,
    RunResumed,
    StopRequested,
    TaskSettled,
)
from planrunner.views.progress.plain import PlainProgress, QuietProgress, resumed_text
from planrunner.views.progress.tree import TreeProgress
from planrunner.views.status import shown_counts


def _watch(told, terminal, **options):
    progress = PlainProgress(terminal, **options)
    progress.started(told.state.run_id, told.state.plan, told.state)
    return progress


def _lines(stream):
    """The lines without their clock, which shows local time."""
    lines = stream.getvalue().splitlines()
    return [line[9:] if line[2:3] == ":" and line[5:6] == ":" else line for line in lines]


def test_a_task_that_is_tried_twice_tells_each_change_once(story, shell_task, screen):
    told = story(shell_task("fetch", attempts=3), shell_task("test", ["fetch"]))
    terminal, stream = screen()
    progress = _watch(told, terminal)
    for event in (
        AttemptStarted("fetch", 1, "k1"),
        AttemptEnded("fetch", 1, Outcome("transient", "exit code 75")),
        RetryScheduled("fetch", 1, told.entries[-1].at + 5.0, "transient"),
        AttemptStarted("fetch", 2, "k2"),
        AttemptEnded("fetch", 2, Outcome()),
        TaskSettled("fetch", "completed"),
    ):
        told.tell(event)
        progress.event(told.entries[-1])
    progress.tick(0.0)
    assert _lines(stream) == [
        "run 20231114-2213-abc123 of demo: 2 tasks",
        "● fetch started (attempt 1 of 3)",
        "↻ fetch failed, attempt 1 of 3, next in 2.0s (transient: exit code 75)",
        "● fetch started (attempt 2 of 3)",
        "✔ fetch completed in 5.0s, attempt 2 of 3",
    ]


def test_an_attempt_that_a_capability_asks_for_has_no_other_total_than_it_said(story, shell_task, screen):
    told = story(shell_task("fetch"))
    terminal, stream = screen()
    progress = _watch(told, terminal)
    busy = Outcome("transient", "busy", retry={"attempts": 3, "delay": 0.5, "max_delay": 60.0})
    for event in (
        AttemptStarted("fetch", 1, "k1"),
        AttemptEnded("fetch", 1, busy),
        RetryScheduled("fetch", 1, told.entries[-1].at + 5.0, "transient"),
        AttemptStarted("fetch", 2, "k2"),
        AttemptEnded("fetch", 2, Outcome()),
        TaskSettled("fetch", "completed"),
    ):
        told.tell(event)
        progress.event(told.entries[-1])
    progress.tick(0.0)
    assert [line for line in _lines(stream) if "attempt" in line] == [
        "↻ fetch failed, attempt 1 of 3, next in 2.0s (transient: busy)",
        "● fetch started (attempt 2)",
        "✔ fetch completed in 5.0s, attempt 2",
    ]


def test_a_failed_run_ends_with_the_block_of_the_failure(story, shell_task, screen):
    told = story(shell_task("build"), shell_task("ship", ["build"]))
    terminal, stream = screen()
    progress = _watch(told, terminal)
    told.tell(
        AttemptStarted("build", 1, "k"),
        AttemptEnded(
            "build", 1, Outcome("logic", "exit code 2", exit_code=2, duration=1.25, stderr="no such target\n")
        ),
        TaskSettled("build", "failed", "failed", "exit code 2", "logic"),
        TaskSettled("ship", "omitted", "needs", "`build` failed"),
        RunEnded("failed"),
    )
    progress.ended(None)
    assert _lines(stream)[1:] == [
        "✘ demo failed in 5.0s: 1 failed, 1 not run (run 20231114-2213-abc123)",
        "",
        "✘ build failed (logic), after 1.2s",
        "  why      exit code 2",
        "  command  do build",
        "  stderr   no such target",
        "  then     1 not run",
        "  go on    planrunner logs 20231114-2213-abc123 build",
        "           planrunner why 20231114-2213-abc123 build",
    ]


def test_a_run_that_stops_and_parks_says_what_is_left(story, shell_task, screen):
    told = story(shell_task("one"), shell_task("two", ["one"]))
    terminal, stream = screen()
    progress = _watch(told, terminal)
    for event in (StopRequested("interrupted"), RunParked("interrupted")):
        told.tell(event)
        progress.event(told.entries[-1])
    progress.ended(None)
    assert _lines(stream)[1:] == [
        "interrupted: stopping running tasks (Ctrl-C again to kill)",
        "◷ paused (interrupted)",
        "◷ demo paused (interrupted) in 2.0s: 2 pending (run 20231114-2213-abc123)",
        "  2 tasks left: planrunner resume 20231114-2213-abc123",
    ]


def test_a_resumed_run_says_what_is_done_already(story, shell_task, screen):
    told = story(shell_task("one"), shell_task("two", ["one"]))
    told.tell(AttemptStarted("one", 1, "k"), AttemptEnded("one", 1, Outcome()), TaskSettled("one", "completed"))
    told.tell(StopRequested("interrupted"), RunParked("interrupted"))
    terminal, stream = screen()
    progress = _watch(told, terminal)
    told.tell(RunResumed(2))
    resumed = told.entries[-1]
    told.tell(AttemptStarted("two", 1, "k"), AttemptEnded("two", 1, Outcome()), TaskSettled("two", "completed"))
    progress.event(resumed)  # entries are shown once they are durable, and the state has gone on by then
    progress.tick(0.0)
    assert _lines(stream)[-1] == "resumed: 1 of 2 tasks are done already"


def test_what_was_rolled_back_is_not_done():
    counts = {"completed": 1, "rolled_back": 2, "pending": 1}
    assert resumed_text(counts) == "resumed: 1 of 4 tasks are done already"


def test_of_a_run_that_had_ended_nothing_is_counted(story, shell_task, screen):
    told = story(shell_task("one"))
    told.tell(AttemptStarted("one", 1, "k"), AttemptEnded("one", 1, Outcome()), TaskSettled("one", "completed"))
    told.tell(RunEnded("completed"))
    terminal, stream = screen()
    progress = _watch(told, terminal)
    told.tell(RunReopened("rerun", "ana"), RunResumed(2))
    progress.event(told.entries[-1])
    progress.tick(0.0)
    assert "resumed" not in stream.getvalue()


def test_a_resumed_run_counts_the_tasks_that_its_end_counts(screen):
    state = rehearse(plan({"id": "fan", "run": "x", "timeout": "1m", "foreach": [1, 2, 3]})).state
    assert resumed_text(shown_counts(state)) == "resumed: 3 of 3 tasks are done already"


def test_the_heartbeat_names_what_runs_and_for_how_long(story, shell_task, screen):
    told = story(*(shell_task(f"t{number}") for number in range(10)), max_parallel=10)
    terminal, stream = screen()
    progress = _watch(told, terminal, heartbeat=0.01)
    for number in range(10):
        told.tell(AttemptStarted(f"t{number}", 1, f"k{number}"), after=0.0)
    progress.tick(0.0)
    time.sleep(0.02)
    progress.tick(told.entries[-1].at + 61)
    last = _lines(stream)[-1]
    assert last.startswith("still running: t0 (1m01s), t1 (1m01s)")
    assert last.endswith("and 2 more")


def test_no_heartbeat_comes_while_lines_come(story, shell_task, screen):
    told = story(shell_task("one"))
    terminal, stream = screen()
    progress = _watch(told, terminal, heartbeat=60)
    progress.tick(0.0)
    assert "still running" not in stream.getvalue()


def test_lines_are_written_when_many_have_gathered_even_without_a_tick(story, shell_task, screen):
    told = story(*(shell_task(f"t{number}") for number in range(600)))
    terminal, stream = screen()
    progress = _watch(told, terminal)
    for number in range(600):
        told.tell(AttemptStarted(f"t{number}", 1, f"k{number}"), after=0.0)
        progress.event(told.entries[-1])
    assert len(stream.getvalue().splitlines()) >= 500


def test_a_message_with_escape_sequences_cannot_recolour_the_screen(story, shell_task, screen):
    told = story(shell_task("one"))
    terminal, stream = screen()
    progress = _watch(told, terminal)
    told.tell(AttemptStarted("one", 1, "k"), AttemptEnded("one", 1, Outcome("logic", "x")))
    told.tell(TaskSettled("one", "failed", "failed", "bad \x1b[31mred\x1b]0;title\x07 end\r", "logic"))
    progress.event(told.entries[-1])
    progress.tick(0.0)
    assert _lines(stream)[-1] == "✘ one failed in 2.0s: bad red end"


def test_without_unicode_every_sign_is_ascii(story, shell_task, screen):
    told = story(shell_task("one"))
    terminal, stream = screen(unicode=False)
    progress = _watch(told, terminal)
    told.tell(AttemptStarted("one", 1, "k"), AttemptEnded("one", 1, Outcome()), TaskSettled("one", "completed"))
    for entry in told.entries:
        progress.event(entry)
    told.tell(RunEnded("completed"))
    progress.ended(None)
    assert stream.getvalue().isascii()
    assert "+ one completed in 2.0s" in stream.getvalue()


def test_many_tasks_that_a_failure_kept_from_starting_are_one_line(story, shell_task, screen):
    told = story(shell_task("build"), *(shell_task(f"t{number}", ["build"]) for number in range(136)))
    terminal, stream = screen()
    progress = _watch(told, terminal)
    for event in (
        AttemptStarted("build", 1, "k"),
        AttemptEnded("build", 1, Outcome("logic", "exit code 2", exit_code=2)),
        TaskSettled("build", "failed", "failed", "exit code 2", "logic"),
        *(TaskSettled(f"t{number}", "omitted", "needs", "`build` failed") for number in range(136)),
    ):
        told.tell(event)
        progress.event(told.entries[-1])
    progress.tick(0.0)
    assert [line[2:] for line in _lines(stream)[3:]] == ["136 tasks not started"]


def test_a_few_tasks_that_a_failure_kept_from_starting_have_a_line_each(story, shell_task, screen):
    told = story(shell_task("build"), *(shell_task(f"t{number}", ["build"]) for number in range(2)))
    terminal, stream = screen()
    progress = _watch(told, terminal)
    for number in range(2):
        told.tell(TaskSettled(f"t{number}", "omitted", "needs", "`build` failed"))
        progress.event(told.entries[-1])
    progress.tick(0.0)
    assert [line.split()[1] for line in _lines(stream)[1:]] == ["t0", "t1"]


def test_every_view_shows_that_an_interrupted_run_stops_and_how_to_kill(story, shell_task, screen):
    for view in (PlainProgress, TreeProgress, QuietProgress):
        told = story(shell_task("a"))
        terminal, stream = screen()
        progress = view(terminal)
        progress.started(told.state.run_id, told.state.plan, told.state)
        for event in (AttemptStarted("a", 1, "k"), StopRequested("interrupted")):
            told.tell(event)
            if view is TreeProgress:
                progress._next = 0.0  # a frame is due, whatever the clock says
            progress.event(told.entries[-1])
        progress.tick(told.entries[-1].at)
        assert "interrupted: stopping running tasks (Ctrl-C again to kill)" in stream.getvalue(), view


def test_the_head_of_the_tree_counts_finished_tasks_of_all(story, shell_task, screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    told = story(shell_task("a"), shell_task("b"))
    terminal, stream = screen()
    progress = TreeProgress(terminal)
    progress.started(told.state.run_id, told.state.plan, told.state)
    told.tell(AttemptStarted("a", 1, "k"), AttemptEnded("a", 1, Outcome()), TaskSettled("a", "completed"))
    progress.tick(told.entries[-1].at)
    assert "[1/2]" in stream.getvalue().splitlines()[0]


def test_items_of_a_large_fan_out_that_never_started_count_among_what_did_not(screen):
    terminal, stream = screen()
    fan = {"id": "fan", "run": "x", "timeout": "1m", "foreach": list(range(200)), "max_parallel": 1}
    bad = Outcome("logic", "exit code 1", exit_code=1)
    told = plan(fan, {"id": "next", "needs": ["fan"], "run": "x", "timeout": "1m"})
    ran = rehearse(told, outcomes={"fan[0]": [bad]})
    progress = PlainProgress(terminal)
    progress.started("r", told, ran.state)
    for entry in ran.entries:
        progress.event(entry)
    progress.tick(0.0)
    assert _lines(stream)[0] == "run r of p: 2 top-level tasks"
    assert "/ 199 tasks not started".replace("/", "⊘") in _lines(stream)


def test_a_task_in_doubt_is_told_without_how_long_it_took(story, shell_task, screen):
    told = story(shell_task("pay"))
    terminal, stream = screen()
    progress = _watch(told, terminal)
    for event in (AttemptStarted("pay", 1, "k"), TaskSettled("pay", "in_doubt", "ask", "not known")):
        told.tell(event)
        progress.event(told.entries[-1])
    progress.tick(0.0)
    assert _lines(stream)[-1].endswith("? pay in doubt: not known")
