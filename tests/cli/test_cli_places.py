"""The place of a failed task is that in the text of its own run, also where another text means the same plan."""

from __future__ import annotations

import json

import pytest

FAILS = "plan: p\ntasks:\n  - {id: a, run: exit 1, timeout: 10m}\n"


def place(err: str) -> str:
    [line] = [line for line in err.splitlines() if line.strip().startswith("place ")]
    return line.split()[1]


def test_a_comment_or_a_copy_of_the_plan_has_places_of_its_own(run, plan):
    assert place(run("exec", plan(FAILS)).err) == "p.yaml:3:10"
    assert place(run("exec", plan("# one\n# two\n" + FAILS)).err) == "p.yaml:5:10"
    last = run("show", "last")
    assert place(last.out + last.err) == "p.yaml:5:10"
    assert place(run("exec", plan(FAILS, "copy/q.yaml")).err) == "copy/q.yaml:3:10"
    assert place(run("exec", plan(FAILS)).err) == "p.yaml:3:10"


def test_a_run_that_goes_on_names_places_in_its_own_text(run, plan):
    run("exec", plan(FAILS))
    run("exec", plan("# one\n# two\n" + FAILS))
    assert place(run("retry", "last").err) == "p.yaml:5:10"


def test_a_revision_names_places_in_its_own_text(run, plan):
    run_id = json.loads(run("exec", plan(FAILS), "--json").out)["run_id"]
    run("exec", plan("\n\n" + FAILS.replace("exit 1", "exit 2"), "q.yaml"))
    plan("\n\n\n" + FAILS.replace("exit 1", "exit 2"))
    assert place(run("retry", run_id, "--plan", "p.yaml").err) == "p.yaml:6:10"
    assert run("replay", run_id).code == 0


@pytest.mark.parametrize("edited", [False, True], ids=["as it was", "edited since"])
def test_a_task_of_a_linked_plan_has_its_folder_and_its_line(run, plan, edited):
    plan("plan: region\n\ntasks:\n  - {id: b, run: exit 1, timeout: 10m}\n", "plans/parts/region.yaml")
    main = plan("plan: p\ntasks:\n  - {id: a, subplan: parts/region.yaml}\n", "plans/main.yaml")
    failed = run("exec", main)
    assert place(failed.err) == "plans/parts/region.yaml:4:10"
    assert "fix plans/parts/region.yaml, then: planrunner retry " in failed.err
    if edited:
        plan("# a line\nplan: region\n\ntasks:\n  - {id: b, run: exit 1, timeout: 10m}\n", "plans/parts/region.yaml")
    shown = run("show", "last")
    assert place(shown.out + shown.err) == "plans/parts/region.yaml" + ("" if edited else ":4:10")
