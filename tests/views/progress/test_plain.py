"""What tasks write, as it is shown while a run goes on: after each attempt, line by line, or not at all."""

from __future__ import annotations

import pytest

from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    Outcome,
    RetryScheduled,
    RunParked,
    TaskSettled,
    TasksReset,
)
from planrunner.views.progress.output import LINES
from planrunner.views.progress.plain import GithubProgress, PlainProgress
from planrunner.views.progress.tree import TreeProgress
from planrunner.views.terminal import EDGE


class Seen:
    """A watch that is told events and pieces of output, one after the other."""

    def __init__(self, told, screen, kind, **options):
        self.told = told
        terminal, self._stream = screen()
        self.progress = kind(terminal, **options)
        self.progress.started(told.state.run_id, told.state.plan, told.state)

    def tell(self, *things):
        for thing in things:
            if isinstance(thing, bytes):
                self.progress.output("build", 1, "stdout", thing)
            else:
                self.told.tell(thing)
                self.progress.event(self.told.entries[-1])

    def lines(self):
        self.progress.tick(0.0)
        lines = self._stream.getvalue().splitlines()
        return [line[9:] if line[2:3] == ":" and line[5:6] == ":" else line for line in lines][1:]


@pytest.fixture
def seen(story, shell_task, screen):
    return lambda kind, **options: Seen(story(shell_task("build", attempts=2)), screen, kind, **options)


BEGIN = AttemptStarted("build", 1, "k")
END = (AttemptEnded("build", 1, Outcome()), TaskSettled("build", "completed"))


def test_output_follows_the_line_that_tells_how_the_attempt_ended(seen):
    watch = seen(PlainProgress)
    watch.tell(BEGIN, b"compiling\nlin", b"king\n")
    assert watch.lines() == ["● build started (attempt 1 of 2)"]
    watch.tell(*END)
    assert watch.lines()[1:] == ["✔ build completed in 2.0s", "    compiling", "    linking"]


def test_the_output_of_an_attempt_that_is_tried_again_is_shown_with_its_failure(seen):
    watch = seen(PlainProgress)
    watch.tell(BEGIN, b"no such host\n", AttemptEnded("build", 1, Outcome("transient", "exit code 75")))
    watch.tell(RetryScheduled("build", 1, watch.told.entries[-1].at + 5.0, "transient"))
    assert watch.lines()[2:] == ["    no such host"]


def test_the_output_of_an_attempt_that_was_cut_off_is_shown_at_the_end(seen):
    watch = seen(PlainProgress)
    watch.tell(BEGIN, b"half a li", RunParked("interrupted"))
    watch.progress.ended(None)
    assert watch.lines()[2:4] == ["output of build:", "    half a li"]


def test_what_a_capability_gives_as_its_output_is_shown_where_nothing_came_on_the_way(seen):
    watch = seen(PlainProgress)
    watch.tell(BEGIN, AttemptEnded("build", 1, Outcome(stdout="one", stderr="two\n")), END[1])
    assert watch.lines()[2:] == ["    one", "    two"]


def test_prefixed_output_comes_line_by_line_with_the_name_of_its_task(seen):
    watch = seen(PlainProgress, output="prefixed")
    watch.tell(BEGIN, b"compiling\nlin")
    assert watch.lines()[1:] == ["build | compiling"]
    watch.tell(b"king\nrest", *END)
    assert watch.lines()[2:] == ["build | linking", "build | rest", "✔ build completed in 2.0s"]


def test_no_output_is_shown_where_none_is_wanted(seen):
    watch = seen(PlainProgress, output="none")
    watch.tell(BEGIN, b"compiling\n", *END)
    assert watch.lines()[1:] == ["✔ build completed in 2.0s"]


def test_of_a_long_output_the_last_lines_are_shown_and_the_command_that_shows_all(seen):
    watch = seen(PlainProgress)
    watch.tell(BEGIN, b"".join(b"%d\n" % number for number in range(LINES + 1234)), *END)
    shown = watch.lines()[2:]
    assert shown[0] == "    … 1,234 lines before these: planrunner logs 20231114-2213-abc123 build"
    assert shown[1] == "    1234"
    assert len(shown) == 1 + LINES


def test_of_an_output_with_huge_lines_whole_lines_are_shown(seen):
    watch = seen(PlainProgress)
    watch.tell(BEGIN)
    for number in range(20):
        watch.tell(b"%d %s\n" % (number, b"x" * 100_000))
    watch.tell(*END)
    shown = [line.strip() for line in watch.lines()[2:]]
    hidden, first = int(shown[0].split()[1]), int(shown[1].split()[0])
    assert hidden == first
    assert hidden + len(shown) - 1 == 20
    assert max(map(len, shown)) == EDGE


@pytest.mark.parametrize("output", ["grouped", "prefixed"])
def test_output_cannot_act_on_the_terminal(seen, output):
    watch = seen(PlainProgress, output=output)
    watch.tell(BEGIN, b"\x1b[31mred\x1b]0;title\x07\n10%\r20%\r\n\xff https://u:pw@host/\n", *END)
    shown = "\n".join(watch.lines())
    assert "\x1b" not in shown
    assert "red" in shown
    assert "10%" not in shown
    assert "20%" in shown
    assert "pw" not in shown


def test_github_shows_each_failed_attempt_in_a_group(seen):
    watch = seen(GithubProgress)
    watch.tell(BEGIN, b"::set-env name=PATH::x\n", AttemptEnded("build", 1, Outcome("transient", "exit code 75")))
    watch.tell(RetryScheduled("build", 1, watch.told.entries[-1].at + 5.0, "transient"))
    lines = watch.lines()[2:]
    assert lines[0] == "::group::output of build"
    token = lines[1].removeprefix("::stop-commands::")
    assert lines[2:] == ["::set-env name=PATH::x", f"::{token}::", "::endgroup::"]


def test_github_takes_no_commands_from_the_block_of_a_failure(seen):
    watch = seen(GithubProgress, output="none")
    outcome = Outcome("logic", "exit code 1", stdout="a\n::set-env name=PATH::x\n")
    watch.tell(BEGIN, AttemptEnded("build", 1, outcome), TaskSettled("build", "failed", "failed", "no", "logic"))
    watch.progress.ended(None)
    lines = watch.lines()
    stop = next(at for at, line in enumerate(lines) if line.startswith("::stop-commands::"))
    at = next(at for at, line in enumerate(lines) if "::set-env" in line)
    assert stop < at < lines.index(f"::{lines[stop].removeprefix('::stop-commands::')}::")


def test_the_tree_leaves_the_output_above_the_picture(seen):
    watch = seen(TreeProgress, output="grouped")
    watch.tell(BEGIN, b"compiling\n", *END)
    watch.progress._next = 0.0  # a frame is due, whatever the clock says
    watch.progress.ended(None)
    text = "\n".join(watch.lines()).replace("\x1b[K", "")
    assert text.index("✔ build completed in 2.0s\n    compiling\n") < text.index("✔ build  completed")
    assert text.count("compiling") == 1


def test_the_tree_alone_shows_the_last_line_of_what_runs(seen):
    watch = seen(TreeProgress)
    watch.tell(BEGIN, b"one\ntwo\n")
    watch.progress._next = 0.0
    assert "two" in "\n".join(watch.lines())


def test_the_output_of_an_attempt_that_sends_work_back_is_shown_where_it_does(seen):
    watch = seen(PlainProgress)
    watch.tell(BEGIN, b"not good enough\n", AttemptEnded("build", 1, Outcome("logic", "exit code 1")))
    watch.tell(TasksReset(("build",), "rework", "build"))
    assert watch.lines()[2:] == ["    not good enough"]
