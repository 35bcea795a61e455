"""What is left on the screen when a run is over: counts, failures last, ways to go on."""

from __future__ import annotations

import pytest

from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    FailureResolved,
    Outcome,
    RunEnded,
    RunParked,
    RunResumed,
    StopRequested,
    TaskSettled,
)
from planrunner.plan.model import Action, Budgets, Edge, Task
from planrunner.views.ending import ending
from planrunner.views.failure import command_text, failure_block, failure_blocks
from planrunner.views.page.story import sentence
from planrunner.views.page.verdict import verdict


def _fail(told, name, outcome=None, **settled):
    outcome = outcome or Outcome("logic", "exit code 1", exit_code=1)
    told.tell(AttemptStarted(name, 1, f"k-{name}"), AttemptEnded(name, 1, outcome))
    told.tell(
        TaskSettled(name, "failed", settled.get("reason", "failed"), settled.get("detail", outcome.message), "logic")
    )


def test_a_criterion_that_failed_is_named_with_its_values(story, shell_task, screen):
    told = story(shell_task("test"))
    detail = "`exit_code == 0` is false: exit_code is 3"
    _fail(told, "test", Outcome("logic", "exit code 3", exit_code=3), reason="criterion", detail=detail)
    lines = failure_block(screen()[0], told.state, 0, "r")
    assert lines[1:3] == ["  why      `exit_code == 0` is false: exit_code is 3", "           exit code 3"]


def test_only_the_last_twenty_lines_of_output_are_shown_and_errors_come_first_in_the_share(story, shell_task, screen):
    told = story(shell_task("test"))
    outcome = Outcome(
        "logic",
        "exit code 1",
        stdout="".join(f"out {number}\n" for number in range(30)),
        stderr="".join(f"err {number}\n" for number in range(15)),
    )
    _fail(told, "test", outcome)
    lines = failure_block(screen()[0], told.state, 0, "r")
    shown = [line.split(maxsplit=1)[-1] if line.startswith("  std") else line.strip() for line in lines]
    assert [line for line in shown if line.startswith("out ")] == [f"out {number}" for number in range(25, 30)]
    assert [line for line in shown if line.startswith("err ")] == [f"err {number}" for number in range(15)]


def test_the_handler_of_a_failure_is_named_with_its_own_end(story, shell_task, screen):
    told = story(shell_task("deploy", edges=(Edge("undo", "failure"),)), shell_task("undo"))
    _fail(told, "deploy")
    told.tell(AttemptStarted("undo", 1, "k"), AttemptEnded("undo", 1, Outcome()), TaskSettled("undo", "completed"))
    assert "  then     undo completed" in failure_block(screen()[0], told.state, 0, "r")


def test_a_recovered_task_says_who_stood_in(story, shell_task, screen):
    told = story(shell_task("fetch", edges=(Edge("cache", "failure", recovers=True),)), shell_task("cache"))
    _fail(told, "fetch")
    told.tell(AttemptStarted("cache", 1, "k"), AttemptEnded("cache", 1, Outcome()), TaskSettled("cache", "completed"))
    told.tell(FailureResolved("fetch", "cache"))
    assert "  then     cache stood in for it" in failure_block(screen()[0], told.state, 0, "r")


@pytest.mark.parametrize(("others", "named"), [((), "pay"), (("send",), "all")])
def test_a_run_that_was_interrupted_names_the_command_that_settles_its_doubts(
    story, shell_task, screen, others: tuple[str, ...], named: str
) -> None:
    told = story(*(shell_task(name) for name in ("pay", *others)))
    for name in ("pay", *others):
        told.tell(AttemptStarted(name, 1, f"k-{name}"), AttemptEnded(name, 1, Outcome("interrupted", "stopped")))
    told.tell(RunParked("interrupted"))
    lines = ending(screen()[0], told.state, "r7")
    assert lines[0].startswith("◷ demo paused (interrupted)")
    assert lines[-1].endswith(f" left (retry, completed or failed): planrunner resume r7 --settle {named}=retry")


def test_a_run_that_was_rolled_back_says_so(story, shell_task, screen):
    told = story(shell_task("pay"))
    told.tell(RunEnded("cancelled", "rolled_back"))
    assert ending(screen()[0], told.state, "r7")[0].startswith("⊘ demo rolled back")
    assert verdict(told.state, told.entries[-1].at, False).lead == "Rolled back"
    assert sentence(told.state, told.entries[-1].event, told.entries[-1].at)[0] == "run rolled back"


def test_a_task_in_doubt_shows_how_to_settle_it(story, shell_task, screen):
    told = story(shell_task("pay"))
    told.tell(
        AttemptStarted("pay", 1, "k"), TaskSettled("pay", "in_doubt", "ask", "whether it took effect is not known")
    )
    told.tell(RunParked("waiting", ("pay",)))
    lines = ending(screen()[0], told.state, "r7")
    assert lines[0].startswith("◷ demo blocked (waiting)")
    assert "  waits for pay" in lines
    assert [line.split("pay=")[1] for line in lines[-3:]] == ["completed", "failed", "retry"]
    assert lines[-3] == "  go on    planrunner resume r7 --settle pay=completed"


def test_a_doubt_about_what_can_be_undone_may_be_settled_by_a_rollback(story, shell_task, screen):
    told = story(shell_task("pay", rollback=Action("shell", {}, run="refund")))
    told.tell(AttemptStarted("pay", 1, "k"), TaskSettled("pay", "in_doubt", "ask", "not known"))
    lines = failure_block(screen()[0], told.state, 0, "r7")
    assert lines[-1].endswith("planrunner resume r7 --settle pay=rollback")


def test_only_the_failure_that_stopped_a_level_counts_what_it_cut_off(story, shell_task, screen):
    told = story(shell_task("a"), shell_task("b"), shell_task("c"))
    told.tell(AttemptStarted("b", 1, "k-b"))
    _fail(told, "a")
    told.tell(AttemptEnded("b", 1, Outcome("logic", "exit code 1", exit_code=1)))
    told.tell(TaskSettled("b", "failed", "failed", "exit code 1", "logic"))
    told.tell(TaskSettled("c", "cancelled", "stopped", "not started: `a` failed"))
    assert "  then     1 not run" in failure_block(screen()[0], told.state, 0, "r")
    assert not any("not run" in line for line in failure_block(screen()[0], told.state, 1, "r"))


def test_failures_are_the_last_thing_on_the_screen_and_at_most_ten(story, shell_task, screen):
    told = story(*(shell_task(f"t{number}") for number in range(12)), on_failure="continue")
    for number in range(12):
        _fail(told, f"t{number}")
    told.tell(RunEnded("failed"))
    lines = ending(screen()[0], told.state, "r")
    assert lines[0].startswith("✘ demo failed")
    assert lines[-1] == "and 2 more: planrunner show r"
    assert sum(1 for line in failure_blocks(screen()[0], told.state, "r") if line.startswith("✘")) == 10


def test_a_completed_run_ends_with_one_line(story, shell_task, screen):
    told = story(shell_task("a"))
    told.tell(AttemptStarted("a", 1, "k"), AttemptEnded("a", 1, Outcome()), TaskSettled("a", "completed"))
    told.tell(RunEnded("completed"))
    assert ending(screen()[0], told.state, "r") == ["✔ demo completed in 4.0s: 1 completed (run r)"]


def test_a_run_that_was_cut_off_has_used_of_its_budget_what_its_first_line_says(story, shell_task, screen):
    told = story(shell_task("a"), shell_task("b", needs=["a"]), budgets=Budgets(time=60.0, calls=5))
    told.tell(AttemptStarted("a", 1, "k"), AttemptEnded("a", 1, Outcome()), TaskSettled("a", "completed"))
    told.tell(RunParked("paused"))
    told.tell(RunResumed(2), AttemptStarted("b", 1, "k"), after=100.0)
    lines = ending(screen()[0], told.state, "r")
    assert "in 4.0s" in lines[0]
    assert lines[-1].startswith("  budget: 4.0s of 1m00s time")


def test_the_command_is_shown_as_the_plan_writes_it_and_not_at_length():
    assert command_text(Task("a", uses="shell", run=("git", "status"))) == "git status"
    assert command_text(Task("a", uses="shell", run="echo {{ params.token }}")) == "echo {{ params.token }}"
    assert command_text(Task("a", uses="shell", run="1\n2\n3\n4\n5\n6\n")) == "1\n2\n3\n4\n(2 more lines)"
    assert command_text(Task("a", uses="http.get", inputs={"url": "x"})) == 'http.get url="x"'
    assert command_text(Task("a", command="write the report")) == "write the report"
    assert command_text(Task("a", uses="sql.query", inputs={"url": "http://me:secret@h:80/x@y"})) == (
        'sql.query url="http://me:***@h:80/x@y"'
    )
    assert (
        command_text(Task("a", uses="shell", run="curl https://me:secret@h/ && ls a@b"))
        == "curl https://me:***@h/ && ls a@b"
    )
    assert command_text(Task("a", uses="shell", run="ssh://me@h http://h:80/ a@b")) == "ssh://me@h http://h:80/ a@b"
    assert "secret" not in command_text(Task("a", uses="http.get", inputs={"a": "x" * 90, "url": "http://u:secret@h/"}))
    assert len(command_text(Task("a", uses="noop", inputs={"value": "v" * 500}))) < 140


def test_only_tasks_that_the_failure_kept_from_starting_are_counted(story, shell_task, screen):
    tasks = [shell_task("build"), shell_task("test", ["build"]), shell_task("ship", ["test"])]
    told = story(*tasks, shell_task("docs"), shell_task("site", ["docs"]), on_failure="continue")
    _fail(told, "build")
    for name in ("test", "ship"):
        told.tell(TaskSettled(name, "omitted", "join", "build failed"))
    told.tell(
        TaskSettled("docs", "cancelled", "interrupted", "interrupted"), TaskSettled("site", "omitted", "join", "")
    )
    assert "  then     2 not run" in failure_block(screen()[0], told.state, 0, "r")


def test_tasks_that_the_stop_after_a_failure_cut_off_are_counted(story, shell_task, screen):
    told = story(shell_task("build"), shell_task("docs"))
    _fail(told, "build")
    told.tell(TaskSettled("docs", "cancelled", "stopped", "stopped after build failed"))
    assert "  then     1 not run" in failure_block(screen()[0], told.state, 0, "r")


def test_lines_of_foreign_text_are_cut_and_commands_to_copy_are_not(story, shell_task, screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    told = story(shell_task("test", run="x" * 5000))
    _fail(told, "test", Outcome("logic", "é" * 65536, stderr="y" * 65536, exit_code=1))
    lines = failure_block(screen(live=True)[0], told.state, 0, "a-run-with-a-rather-long-name")
    assert lines[-1] == "           planrunner why a-run-with-a-rather-long-name test"
    assert {len(line) for line in lines[1:-2]} == {40}
    assert all(line.endswith("…") for line in lines[1:-2])
    assert {len(line) for line in failure_block(screen()[0], told.state, 0, "r")[1:-2]} == {200}


def test_a_refusal_is_shown_to_its_end_where_the_line_to_write_stands(story, shell_task, screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    told = story(shell_task("get"))
    message = (
        f"`{'a' * 40}` does not allow the host example.org; to allow it, write there: network: {{allow: [example.org]}}"
    )
    told.tell(AttemptStarted("get", 1, "k"), AttemptEnded("get", 1, Outcome("policy", message)))
    told.tell(TaskSettled("get", "failed", "failed", message, "policy"))
    lines = failure_block(screen(live=True)[0], told.state, 0, "r")
    assert " ".join(" ".join(lines[1:5]).split()).startswith(f"why {message}")
    assert all(len(line) <= 60 for line in lines[1:5])


@pytest.mark.parametrize("failure", ["policy", "budget"])
def test_a_refusal_says_how_to_go_on_once_the_plan_or_the_settings_are_mended(story, shell_task, screen, failure):
    told = story(shell_task("get"))
    told.state.environment = {"plan": "plans/p.yaml"}
    told.tell(AttemptStarted("get", 1, "k"), AttemptEnded("get", 1, Outcome(failure, "no")))
    told.tell(TaskSettled("get", "failed", "failed", "no", failure))
    ways = "  go on    fix plans/p.yaml or planrunner.yaml, then: planrunner retry r --plan plans/p.yaml"
    assert ways in failure_block(screen()[0], told.state, 0, "r")


def test_a_refusal_of_any_length_takes_a_few_lines(story, shell_task, screen):
    told = story(shell_task("get"))
    message = "no \x1b[31m" + "x" * 9000
    told.tell(AttemptStarted("get", 1, "k"), AttemptEnded("get", 1, Outcome("policy", message)))
    told.tell(TaskSettled("get", "failed", "failed", message, "policy"))
    lines = failure_block(screen()[0], told.state, 0, "r")
    assert sum("x" * 20 in line for line in lines) <= 8 and max(map(len, lines)) <= 200 and "\x1b" not in "".join(lines)


def test_what_a_failure_gave_stands_in_its_block(story, shell_task, screen):
    told = story(shell_task("test"))
    rows = [{"name": "été"}]
    given = {"failed": 2, "url": "https://me:secret@h/", "text": "a\nb", "rows": rows, "long": "x " * 900}
    _fail(told, "test", Outcome("logic", "2 tests failed at ssh://me:secret@h/", given))
    block = "\n".join(failure_block(screen()[0], told.state, 0, "r"))
    assert "  gave     failed=2\n           url=https://me:***@h/\n           text=a b\n" in block
    assert '           rows=[{"name": "été"}]\n' in block
    assert " x …\n" in block
    assert "secret" not in block


def test_of_many_outputs_of_a_failure_the_first_are_shown_and_the_rest_counted(story, shell_task, screen):
    told = story(shell_task("test"))
    _fail(told, "test", Outcome("logic", "no", {f"n{number}": number for number in range(30)}))
    block = failure_block(screen()[0], told.state, 0, "r")
    assert "           n7=7" in block
    assert "           (22 more)" in block
    assert not any("n8=" in line for line in block)


@pytest.mark.parametrize(
    ("event", "told_as"),
    [
        (StopRequested("pause", "ana", "lunch"), "ana asked to pause: lunch"),
        (StopRequested("", "ana"), "ana took the pause back"),
        (StopRequested("cancelled", "ana", "wrong branch"), "ana asked to cancel: wrong branch"),
        (StopRequested("killed", "ana"), "ana asked to kill what runs"),
        (StopRequested("revision", "plan"), "plan proposes another plan"),
        (StopRequested("killed", comment="interrupted twice"), "the run is stopped (killed): interrupted twice"),
        (StopRequested("time"), "the run is stopped (time)"),
    ],
)
def test_a_stop_says_who_asked_for_what(story, shell_task, event: StopRequested, told_as: str) -> None:
    assert sentence(story(shell_task("pay")).state, event, 0.0)[0] == told_as
