"""The ``done`` of a plan in a real process: what a run that does not meet it shows, and how it goes on."""

from __future__ import annotations

import json

PLAN = """
plan: p
done:
  - tasks.count.outputs.n == 4
tasks:
  - {id: count, run: 'echo "n=$(cat n)" >> "$PLANRUNNER_OUTPUT"', outputs: {n: int}, timeout: 10m}
finally:
  - {id: tidy, run: echo tidy >> did, timeout: 10m}
"""
WHY = "`tasks.count.outputs.n == 4` is false: tasks.count.outputs.n is 3"


def test_a_run_that_is_not_done_fails_and_every_view_says_what_is_missing(run, plan, tmp_path):
    (tmp_path / "n").write_text("3")
    ran = run("exec", plan(PLAN))
    assert ran.code == 1
    assert f"why      {WHY}\n  place    p.yaml:3:1\n" in ran.err + ran.out
    shown = json.loads(run("show", "last", "--json").out)
    last = shown["tasks"]["definition-of-done"]
    assert (shown["status"], last["status"]) == ("failed", "failed")
    assert WHY in run("why", "last", "definition-of-done").out
    assert run("replay", "last").code == 0
    assert (tmp_path / "did").read_text() == "tidy\n"


def test_a_retry_asks_again_alone_and_a_mended_done_counts(run, plan, tmp_path):
    (tmp_path / "n").write_text("3")
    run("exec", plan(PLAN))
    assert run("retry", "last").code == 1
    assert run("retry", "last", "--plan", plan(PLAN.replace("== 4", "== 3"))).code == 0
    shown = json.loads(run("show", "last", "--json").out)
    assert {name: (task["status"], task["attempts"]) for name, task in shown["tasks"].items()} == {
        "count": ("completed", 1),
        "definition-of-done": ("completed", 3),
        "tidy": ("completed", 3),
    }


def test_a_test_case_that_gives_what_done_reads_is_judged_by_it(run, plan):
    plan(PLAN)

    def case(mocks: str) -> tuple[int, str]:
        text = f"plan: p.yaml\ncases:\n  - {{name: it, mocks: {{{mocks}}}, expect: {{status: completed}}}}\n"
        told = run("test", plan(text, "p.test.yaml"))
        return told.code, told.out

    assert case("count: {outputs: {n: 4}}")[0] == 0
    code, told = case("count: {outputs: {n: 3}}")
    assert code != 0
    assert "definition-of-done" in told
    assert case("")[0] == 0
    assert run("exec", "p.yaml", "--dry-run").code == 0


def test_graph_and_preview_show_done_behind_everything_but_finally(run, plan):
    plan(PLAN)
    assert "definition-of-done  exit, done: tasks.count.outputs.n == 4\n" in run("graph", "p.yaml").out
    rows = json.loads(run("preview", "p.yaml", "--json").out)["envelope"]["tasks"]
    assert [(row["task"], row["wave"]) for row in rows] == [("count", 1), ("definition-of-done", 2), ("tidy", 3)]


def test_done_is_asked_again_after_a_task_that_a_revision_adds(run, plan, tmp_path):
    (tmp_path / "n").write_text("4")
    assert run("exec", plan(PLAN)).code == 0
    added = PLAN.replace("tasks:\n", "tasks:\n  - {id: more, run: echo more, timeout: 10m}\n")
    assert run("revise", "last", plan(added)).code == 0
    assert run("resume", "last").code == 0
    tasks = json.loads(run("show", "last", "--json").out)["tasks"]
    assert {name: task["attempts"] for name, task in tasks.items()} == {
        "count": 1,
        "more": 1,
        "definition-of-done": 2,
        "tidy": 2,
    }
    assert run("replay", "last").code == 0
