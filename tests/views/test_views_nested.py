"""Runs whose tasks hold others: every picture shows children below what holds them, and folds what is many."""

from __future__ import annotations

import json
import re

from rows import rows
from simulator.rehearsal import rehearse

from planrunner.engine.output import log_name
from planrunner.machine.events import Outcome
from planrunner.machine.evolve import evolve, fold
from planrunner.machine.explain import why
from planrunner.machine.names import below, named, picked, written_path
from planrunner.machine.state import State
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source
from planrunner.views import graph
from planrunner.views.ending import ending
from planrunner.views.failure import failure_blocks
from planrunner.views.graph import drawing, graph_object
from planrunner.views.progress.plain import GithubProgress, PlainProgress
from planrunner.views.progress.tree import TreeProgress
from planrunner.views.run import run_object
from planrunner.views.status import run_statuses, shown_counts
from planrunner.views.tree import tree

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0, stderr="no such page\n")

POLISH = {
    "id": "polish",
    "loop": {
        "max": 4,
        "until": "tasks.check.ok",
        "tasks": [
            {"id": "draft", "run": "write"},
            {"id": "check", "run": "check {{ page }}", "needs": ["draft"], "foreach": ["a", "b"], "as": "page"},
        ],
    },
}


def parse(*tasks, **keys):
    document = {"plan": "p", "defaults": {"timeout": "1h"}, "tasks": list(tasks), **keys}
    source = Source(json.dumps(document), "p.json", "json")
    loaded = load(source, Registry())
    assert loaded.plan is not None, [finding.message for finding in loaded.findings]
    return loaded.plan, source


def run(*tasks, outcomes=None, **keys):
    return rehearse(parse(*tasks, **keys)[0], outcomes or {})


def until(ran, count):
    """The state after so many entries of a run."""
    return fold(ran.state.plan, ran.state.run_id, ran.entries[:count])


def after(ran, kind, task):
    """The state right after the first event of a kind about a task."""
    for at, entry in enumerate(ran.entries, 1):
        if type(entry.event).__name__ == kind and getattr(entry.event, "task", "") == task:
            return until(ran, at)
    raise AssertionError(f"no {kind} of {task}")


def watched(ran, progress):
    """Tell a run to a watch the way it happens: the state is ahead of the entries that are told."""
    state = State(ran.state.plan, ran.state.run_id)
    progress.started("r", state.plan, state)
    for entry in ran.entries:
        evolve(state, entry.event, entry.at)
    for entry in ran.entries:
        progress.event(entry)
    progress.tick(0.0)


def lines_of(stream):
    return [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in stream.getvalue().splitlines()]


# The tree


def test_children_stand_below_what_holds_them_and_earlier_rounds_are_one_line(screen):
    ran = run(POLISH, outcomes={"polish#1/check[1]": [BAD]})
    assert [re.sub(r", [\d.]+m?s", "", line) for line in tree(screen()[0], ran.state, 0.0)] == [
        "✔ polish       completed, 2 rounds of at most 4",
        "✘   round 1 of 4  1 completed, 1 failed",
        "✔   round 2 of 4",
        "✔     draft    completed",
        "✔     check    completed, 2 items",
        "✔       [0] a  completed",
        "✔       [1] b  completed",
    ]


def test_of_many_items_only_those_with_something_to_tell_are_listed_unless_all_are_asked_for(screen):
    fan = {"id": "fan", "run": "x", "foreach": list(range(40)), "tolerate": 2}
    ran = run(fan, outcomes={"fan[7]": [BAD]})
    lines = tree(screen()[0], ran.state, 0.0)
    assert [line.split(",")[0] for line in lines] == [
        "✔ fan      completed",
        "✘   [7] 7  failed",
        "      others: 39 completed",
    ]
    whole = tree(screen()[0], ran.state, 0.0, whole=True)
    assert len(whole) == 41


def test_a_completed_container_of_a_large_run_is_one_line(screen):
    fans = [{"id": f"fan{number}", "run": "x", "foreach": list(range(10))} for number in range(8)]
    ran = run(*fans, outcomes={"fan3[2]": [BAD]}, on_failure="continue")
    lines = [line.split(",")[0] for line in tree(screen()[0], ran.state, 0.0)]
    assert len(lines) == 8 + 2
    assert lines[3:6] == ["✘ fan3     failed", "✘   [2] 2  failed", "      others: 9 completed"]


def test_the_attempts_of_a_subplan_are_told_apart(screen):
    sub = {"id": "sub", "retry": 2, "subplan": [{"id": "a", "run": "x"}]}
    ran = run(sub, outcomes={"sub/a": [BAD]})
    lines = [line.split(",  ")[0] for line in tree(screen()[0], ran.state, 0.0)]
    assert [line.split("  ")[0] + line[line.index("  ") :].rstrip() for line in lines][1:3] == [
        "✘   attempt 1  1 failed",
        "✔   attempt 2",
    ]
    assert "attempt 2 of 2" in lines[0]


def test_a_container_that_runs_tells_how_far_it_is(screen):
    ran = run({"id": "fan", "run": "x", "foreach": ["a", "b", "c"], "max_parallel": 1})
    state = after(ran, "AttemptStarted", "fan[1]")
    line = tree(screen()[0], state, ran.entries[0].at)[0]
    assert line.endswith("1/3 done")


def test_what_holds_a_gate_waits_with_it_when_the_run_is_parked(screen):
    gated = {"id": "fan", "foreach": ["a", "b"], "subplan": [{"id": "sign", "gate": "approval", "ask": "Go?"}]}
    ran = run(gated, {"id": "other", "run": "x"})
    assert ran.state.status == "blocked"
    lines = [re.sub(r", [\d.]+m?s", "", line) for line in tree(screen()[0], ran.state, 0.0)]
    assert lines == [
        "◷ fan       blocked, 0/2 done, waits for its tasks",
        "◷   [0] a   blocked, 0/1 done, waits for its tasks",
        "◷     sign  blocked, Go?",
        "◷   [1] b   blocked, 0/1 done, waits for its tasks",
        "◷     sign  blocked, Go?",
        "✔ other     completed",
    ]
    assert {task["status"] for task in run_object(ran.state, "d", 8, 0.0)["tasks"].values()} == {"blocked", "completed"}
    assert why(ran.state, "fan")[0] == "`fan` waits for its tasks"
    end = ending(screen()[0], ran.state, "r")
    assert end[1] == "  waits for fan[0]/sign, fan[1]/sign"
    assert end[-1] == "  2 tasks left: planrunner resume r"


def test_of_many_that_wait_the_first_are_listed(screen):
    gated = {"id": "fan", "foreach": list(range(100)), "subplan": [{"id": "sign", "gate": "approval", "ask": "Go?"}]}
    ran = run(gated)
    lines = tree(screen()[0], ran.state, 0.0)
    assert len(lines) == 1 + 2 * 20 + 1
    assert lines[-1] == "      others: 80 blocked"
    assert "and 92 more" in ending(screen()[0], ran.state, "r")[1]


# Counts and data


def test_a_task_that_stands_for_those_it_holds_is_not_counted_beside_them():
    ran = run({"id": "fan", "run": "x", "foreach": [1, 2, 3]}, outcomes={"fan[1]": [BAD]}, on_failure="continue")
    counts = {status: count for status, count in shown_counts(ran.state).items() if count}
    assert counts == {"completed": 2, "failed": 1}
    unmet = run(POLISH, outcomes={f"polish#{n}/check[0]": [BAD] for n in (1, 2, 3, 4)})
    assert shown_counts(unmet.state)["failed"] == 4


def test_a_loop_that_is_exhausted_failed_by_itself():
    loop = {"id": "l", "loop": {"max": 2, "until": "loop.round > 5", "tasks": [{"id": "a", "run": "x"}]}}
    ran = run(loop)
    assert {status: count for status, count in shown_counts(ran.state).items() if count} == {
        "completed": 2,
        "failed": 1,
    }


def test_the_json_object_names_every_task_by_its_path_and_says_what_is_inside():
    ran = run(POLISH)
    tasks = run_object(ran.state, "d", 0, 0.0)["tasks"]
    assert list(tasks) == ["polish", "polish#1/draft", "polish#1/check", "polish#1/check[0]", "polish#1/check[1]"]
    assert tasks["polish"]["inner"] == {"kind": "round", "tasks": 2, "settled": 2, "failed": 0, "round": 1}
    assert "inner" not in tasks["polish#1/draft"]
    json.dumps(tasks)


# Progress


def test_a_frame_of_the_live_picture_shows_what_runs_below_what_holds_it(screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setenv("LINES", "24")
    ran = run(POLISH)
    terminal, stream = screen(live=True)
    progress = TreeProgress(terminal)
    state = after(ran, "AttemptStarted", "polish#1/check[1]")
    progress.started("r", state.plan, state)
    progress.tick(ran.entries[0].at + 2)
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", stream.getvalue()).splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [
        "● polish                    round 1 of 4",
        "●   check                   0/2 done",
        lines[3],
        lines[4],
    ]
    assert [line.split()[1:3] for line in lines[3:5]] == [["[0]", "a"], ["[1]", "b"]]


def test_the_live_picture_never_exceeds_the_window(screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    for height in (4, 6, 10, 24):
        monkeypatch.setenv("LINES", str(height))
        inner = {"id": "f", "foreach": list(range(30)), "subplan": [{"id": "a", "run": "x"}, {"id": "b", "run": "x"}]}
        ran = run(inner, max_parallel=20, on_failure="continue", outcomes={f"f[{n}]/a": [BAD] for n in range(5)})
        for count in range(1, len(ran.entries), 7):
            state = until(ran, count)
            terminal, stream = screen(live=True)
            progress = TreeProgress(terminal)
            progress.started("r", state.plan, state)
            progress.tick(ran.entries[count - 1].at)
            assert stream.getvalue().count("\n") <= height - 1


def test_plain_lines_tell_of_rounds_and_sizes(screen):
    terminal, stream = screen()
    watched(run(POLISH, outcomes={"polish#1/check[0]": [BAD]}), PlainProgress(terminal))
    lines = [re.sub(r" in [\d.]+m?s", "", line) for line in lines_of(stream)]
    assert lines[1:5] == [
        "● polish round 1 of 4",
        "● polish#1/draft started",
        "✔ polish#1/draft completed",
        "● polish#1/check started: 2 items",
    ]
    assert "● polish round 2 of 4" in lines
    assert lines[-1] == "✔ polish completed, 2 rounds of at most 4"


def test_large_fan_outs_are_told_in_tenths_and_their_failures_one_by_one(screen):
    terminal, stream = screen()
    fan = {"id": "fan", "run": "x", "foreach": list(range(500)), "tolerate": 3}
    watched(run(fan, outcomes={"fan[321]": [BAD]}, max_parallel=50), PlainProgress(terminal))
    lines = lines_of(stream)
    assert "  fan: 50 of 500 items done" in lines
    assert sum("items done" in line for line in lines) == 9
    assert [line for line in lines if "fan[" in line] == ["✘ fan[321] failed in 1.0s: exit code 1"]
    assert len(lines) == 1 + 1 + 9 + 2 + 1  # the failure with its output


def test_items_that_were_never_begun_are_counted_and_not_listed(screen):
    fan = {"id": "fan", "run": "x", "foreach": list(range(300)), "max_parallel": 1}
    ran = run(fan, outcomes={"fan[1]": [BAD]})
    terminal, stream = screen()
    watched(ran, PlainProgress(terminal))
    assert [line for line in lines_of(stream) if "fan[" in line and "✘ fan " not in line] == [
        "✘ fan[1] failed in 1.0s: exit code 1"
    ]
    lines = tree(screen()[0], ran.state, 0.0)
    assert lines[2:] == ["      others: 1 completed, 298 cancelled"]


def test_what_begins_anew_says_who_sent_it_back_and_why(screen):
    draft = {"id": "draft", "run": "x"}
    review = {"id": "review", "run": "x", "needs": ["draft"], "on_failure": {"rework": "draft", "max": 2}}
    ran = run(draft, review, outcomes={"review": [BAD, Outcome(exit_code=0)]})
    terminal, stream = screen()
    watched(ran, PlainProgress(terminal))
    line = next(line for line in lines_of(stream) if "re-run" in line)
    assert line.startswith("↻ draft, review re-run (rework, sent back by review: exit code 1")
    assert why(ran.state, "draft")[1].startswith("it was reset, this is visit 2, sent back by `review`: exit code 1")
    assert "visit 2" in tree(screen()[0], ran.state, 0.0)[0]


def test_a_failure_is_annotated_once_and_not_again_for_what_holds_it(screen):
    terminal, stream = screen()
    watched(run({"id": "fan", "run": "x", "foreach": [1, 2]}, outcomes={"fan[0]": [BAD]}), GithubProgress(terminal))
    errors = [line for line in stream.getvalue().splitlines() if line.startswith("::error")]
    assert errors == ["::error title=fan[0] failed::exit code 1"]


# The end


def test_the_block_of_a_failure_names_the_task_inside_with_its_place(screen):
    page = {"id": "page", "run": "check", "foreach": ["a", "b", "c"]}
    plan, source = parse({"id": "site", "subplan": [page]}, {"id": "ship", "run": "x", "needs": ["site"]})
    ran = rehearse(plan, {"site/page[1]": [BAD]})
    text = "\n".join(ending(screen()[0], ran.state, "r", source))
    assert text.count("✘") == 2
    assert "✘ site/page[1] failed (logic)" in text
    assert "  in       site > page (item 1: b, 1 of 3 failed)" in text
    column = source.text.index('"page"') + 1
    assert f"  place    p.json:1:{column}" in text
    assert "  then     site/page failed, site failed, 1 not run" in text
    assert "planrunner why r 'site/page[1]'" in text


def test_what_a_later_round_made_good_has_no_block(screen):
    ran = run(POLISH, outcomes={"polish#1/check[1]": [BAD]})
    assert len(ending(screen()[0], ran.state, "r")) == 1


def test_blocks_stand_in_the_order_of_the_failures(screen):
    slow = Outcome("logic", "late", duration=9.0)
    ran = run({"id": "fan", "run": "x", "foreach": [0, 1]}, outcomes={"fan[0]": [slow], "fan[1]": [BAD]})
    heads = [line for line in ending(screen()[0], ran.state, "r") if line.startswith("✘ fan[")]
    assert [head.split()[1] for head in heads] == ["fan[1]", "fan[0]"]


# Why


def test_why_tells_which_round_and_which_items(screen):
    ran = run(POLISH, outcomes={"polish#1/check[1]": [BAD]})
    state = after(ran, "AttemptStarted", "polish#2/check[0]")
    lines = why(state, "polish")
    assert lines[1].startswith("round 2 of at most 4: 1 of 2 tasks done")
    assert "after the round it asks for `until: tasks.check.ok`" in lines
    assert "  round 1: 1 completed, 1 failed" in lines
    inner = why(state, "polish#2/check[0]")
    assert inner[1] == (
        'it is item 0 of `polish#2/check`, counted from 0 to 1: "a", in round 2 of at most 4 of `polish`'
    )


def test_why_an_item_has_not_begun_names_the_window():
    ran = run({"id": "fan", "run": "x", "foreach": [1, 2, 3], "max_parallel": 1})
    state = after(ran, "AttemptStarted", "fan[0]")
    assert "it waits for its turn: `fan` lets 1 at once begin, in their order" in why(state, "fan[2]")
    assert "at most 1 at once" in why(state, "fan")[1]


def test_why_an_item_never_began_names_what_cut_it():
    ran = run({"id": "fan", "run": "x", "foreach": [1, 2, 3], "max_parallel": 1}, outcomes={"fan[0]": [BAD]})
    assert why(ran.state, "fan[2]")[0].startswith("`fan[2]` was cancelled: not started: `fan[0]` failed")


def test_why_a_container_that_ran_out_of_time_names_it():
    sub = {"id": "sub", "timeout": "2s", "subplan": [{"id": "a", "run": "x"}]}
    ran = run(sub, outcomes={"sub/a": [Outcome(duration=60.0)]})
    assert any("what runs there is stopped: timeout" in line for line in why(ran.state, "sub"))


# Paths


def test_a_path_may_be_given_by_its_end_or_by_its_place_in_the_plan():
    state = run(POLISH, outcomes={"polish#1/check[1]": [BAD]}).state
    ids = lambda numbers: [state.specs[number].id for number in numbers]  # noqa: E731
    assert ids(named(state, "polish#2/draft")) == ["polish#2/draft"]
    assert ids(named(state, "draft")) == ids(named(state, "polish/draft")) == ["polish#1/draft", "polish#2/draft"]
    assert ids(picked(state, "polish#2")) == [
        "polish#2/draft",
        "polish#2/check",
        "polish#2/check[0]",
        "polish#2/check[1]",
    ]
    assert ids(below(state, named(state, "polish#1/check"))) == [f"polish#1/check{end}" for end in ("", "[0]", "[1]")]
    assert named(state, "raft") == []
    assert {written_path(state, number) for number in named(state, "draft")} == {"polish/draft"}


@rows(
    ("one", "other"),
    [("a/b", "a_b"), ("a/b", "a+b"), ("a" * 300, "a" * 299), (".a", "a"), ("a\0b", "a_b"), ("x/" * 90, "x/" * 91)],
)
def test_no_two_tasks_share_a_log_file(one, other):
    names = {log_name(one, 1), log_name(other, 1), log_name(one, 2), log_name(other, 11)}
    assert len(names) == 4
    assert all(len(name.encode()) < 200 and "/" not in name and "\0" not in name for name in names)


def test_names_of_log_files_are_readable():
    assert log_name("polish#1/fan[3]/sign-off", 2) == "polish#1+fan[3]+sign-off.2.log"


# Graphs


def test_tasks_are_drawn_inside_what_holds_them_and_coloured_by_all_their_items(screen):
    after_it = {"id": "ship", "run": "x", "needs": ["polish"]}
    ran = run(POLISH, after_it, outcomes={f"polish#{n}/check[0]": [BAD] for n in (1, 2, 3, 4)})
    statuses = run_statuses(ran.state)
    assert statuses == {
        "polish": "failed",
        "polish/draft": "completed",
        "polish/check": "failed",
        "ship": "omitted",
    }
    drawn = drawing(ran.state.plan, statuses)
    mermaid = graph.render_mermaid(drawn).splitlines()
    assert mermaid[:2] == [
        '%%{init: {"flowchart": {"subGraphTitleMargin": {"bottom": 48}}}}%%',  # a title of three lines
        "flowchart TD",
    ]
    assert mermaid[2:7] == [
        '  subgraph n0["polish<br/>loop, at most 4 rounds until tasks.check.ok<br/>(failed)"]',
        '    n2(["draft<br/>(completed)"])',
        '    n3(["check<br/>for each of 2 items<br/>(failed)"])',
        "  end",
        '  n1(["ship<br/>(omitted)"])',
    ]
    assert mermaid[7:9] == ["  n0 --> n1", "  n2 --> n3"]
    dot = graph.render_dot(drawn)
    assert '  "polish/draft" -> "ship" [ltail="cluster polish"];' in dot
    assert dot.count("{") == dot.count("}")
    text = graph.render_text(ran.state.plan, screen()[0], statuses).splitlines()
    assert text[1] == "✔   draft  start, shell, completed"
    nodes = graph_object(drawn)["nodes"]
    assert [(node["id"], node["parent"]) for node in nodes][2:] == [
        ("polish/draft", "polish"),
        ("polish/check", "polish"),
    ]


def test_what_a_failure_kept_from_starting_is_counted_in_one_line_of_the_tree(screen):
    later = [{"id": f"t{number}", "needs": ["sub"], "run": "x"} for number in range(80)]
    sub = {"id": "sub", "subplan": [{"id": "x", "run": "x"}, {"id": "y", "needs": ["x"], "run": "x"}]}
    ran = run(sub, *later, outcomes={"sub/x": [BAD]})
    lines = tree(screen()[0], ran.state, 0.0)
    assert lines[-1] == "  80 not started"
    assert len(lines) == 4


def test_a_failure_counts_what_its_stop_cut_off_inside_containers(screen):
    fan = {"id": "fan", "run": "x", "foreach": list(range(20)), "max_parallel": 1}
    ran = run({"id": "bad", "run": "x"}, fan, outcomes={"bad": [BAD]}, max_parallel=2)
    cut = sum(task.status == "cancelled" and not task.attempts for task in ran.state.tasks)
    assert cut > 10
    assert f"  then     {cut} not run" in failure_blocks(screen()[0], ran.state, "r")
    assert any(f"{cut} cancelled" in line for line in tree(screen()[0], ran.state, 0.0) if "fan" in line)
