"""A run is meant by ``last``, by its id, by a part of that, or by the name of its plan: in every command alike."""

from __future__ import annotations

import pytest

TASKS = """
defaults: {timeout: 1m}
tasks:
  - {id: build, run: echo built, rollback: {run: "true"}, budgets: {cost: $1}}
  - {id: test, needs: [build], run: exit 1}
  - {id: ok, gate: approval}
on_failure: continue
"""

READING = [
    ("show",), ("why", "{run}", "test"), ("logs",), ("gates",), ("report",), ("events",), ("checkpoints",),
    ("budget",), ("diff", "{run}", "last"), ("rerun", "{run}", "build", "--preview"), ("rollback", "{run}", "--preview"),
    ("runs", "digest", "{run}"), ("artifacts", "list", "--run", "{run}"), ("replay",), ("fork",), ("pause",),
]  # fmt: skip


@pytest.fixture
def two_plans(plan, run):
    """A run of `etl` that waits for people, and after it a run of another plan."""
    run("exec", plan(f"plan: etl\n{TASKS}", "plans/etl.yaml"), "--no-wait")
    run("exec", plan("plan: other\ndefaults: {timeout: 1m}\ntasks: [{id: a, run: 'true'}]\n", "plans/other.yaml"))


@pytest.mark.usefixtures("two_plans")
def test_a_name_of_a_plan_means_its_last_run(run):
    words = [[word.format(run="etl") for word in (words if words[1:] else (*words, "etl"))] for words in READING]
    assert {tuple(each): ran.err for each in words if (ran := run(*each)).code not in (0, 8)} == {}


@pytest.mark.usefixtures("two_plans")
def test_a_run_is_decided_and_ended_by_the_name_of_its_plan(run):
    assert run("approve", "etl", "ok", "--reason", "fine", "--resume").code == 1
    assert run("retry", "etl").code == 1
    assert run("show", "last").out.startswith("✔ a")


@pytest.mark.usefixtures("two_plans")
def test_a_misspelt_name_of_a_plan_names_the_nearest(run):
    done = run("retry", "elt")
    assert (done.code, "there is no run `elt`" in done.err, "did you mean `etl`?" in done.err) == (3, True, True)


@pytest.mark.usefixtures("two_plans")
def test_a_shell_offers_plans_that_ran_as_runs(complete):
    assert complete("retry", "et") == {"etl": "the newest run of this plan"}
