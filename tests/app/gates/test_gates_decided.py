"""Between the deciding word and the resumption of a run all commands say the same about it."""

from __future__ import annotations

from typing import Any

SIGN = """
plan: p
defaults: {timeout: 2m}
tasks:
  - {id: ok, gate: approval, ask: Fine}
  - {id: after, needs: [ok], run: echo after}
"""
TWO = (
    SIGN.replace("Fine}", "Fine, approvers: {count: 2, starter: true}}")
    + "  - {id: other, gate: approval, ask: Good}\n"
)
SPENT = """
plan: p
budgets: {cost: $1, on_exhausted: gate}
defaults: {timeout: 2m}
tasks:
  - {id: one, run: "echo 'cost=$0.55' >> $PLANRUNNER_USAGE", budgets: {cost: $0.60}}
  - {id: two, needs: [one], run: echo two, budgets: {cost: $0.60}}
"""


def stands(project: Any) -> tuple[str, str]:
    """How the run stands, which ``runs`` and ``show`` say alike."""
    (row,) = project("runs", "--json").data["runs"]
    shown = project("show", "last", "--json").data
    assert (row["status"], row["reason"]) == (shown["status"], shown["reason"])
    assert len(project("runs", "--status", row["status"], "--json").data["runs"]) == 1
    assert shown["exit_code"] == 8
    return row["status"], row["reason"]


def test_a_run_whose_gate_is_decided_is_paused_until_it_is_resumed(project: Any) -> None:
    project.plan(SIGN)
    assert project("exec", "p.yaml").code == 8
    assert stands(project) == ("blocked", "waiting")
    assert project("approve", "last", "ok", "--as", "bo").code == 0
    assert stands(project) == ("paused", "decided")
    shown = project("show", "last", "--json").data
    run = shown["run_id"]
    assert (shown["waiting"], shown["gates"]) == ([], [])
    task = shown["tasks"]["ok"]
    assert (task["status"], task["reason"]) == ("paused", "decided")
    assert task["detail"] == "approved by bo; resuming the run continues with it"
    text = project("show").out
    assert "ok     paused, approved by bo; resuming the run continues with it" in text
    assert "p paused (decided)" in text
    assert "1 pending, 1 paused" in text
    assert "waits for" not in text
    assert f"2 tasks left: planrunner resume {run}" in text
    assert "◷ paused (decided)" in project("runs").out
    assert project("why", "ok").out.startswith("`ok` is paused: approved by bo; resuming the run continues with it\n")
    for words in (["gates"], ["gates", "last"]):
        listed = project(*words).out
        assert "`ok` is approved by bo" in listed
        assert f"planrunner resume {run}" in listed
        assert "nothing waits" not in listed
    (decided,) = project("gates", "--json").data["decided"]
    assert decided == {"run_id": run, "plan": "p", "held": False, "gate": "ok", "decision": "approved by bo"}
    again = project("approve", "last", "ok", "--resume")
    assert (again.code, "decided already: approved by bo" in again.err) == (2, True)
    assert f"planrunner resume {run}" in again.err
    assert project("resume", "last").code == 0
    assert project("gates").out == "nothing waits for people\n"


def test_a_run_waits_for_people_as_long_as_one_of_its_gates_does(project: Any) -> None:
    project.plan(TWO)
    assert project("exec", "p.yaml").code == 8
    assert project("approve", "last", "ok", "--as", "bo").code == 0
    assert stands(project) == ("blocked", "waiting")
    assert project("approve", "last", "ok", "--as", "cy", "--reason", "fine").code == 0
    assert stands(project) == ("blocked", "waiting")
    shown = project("show", "last", "--json").data
    assert (shown["waiting"], shown["tasks"]["ok"]["status"]) == (["other"], "paused")
    listed = project("gates").out
    assert "◷ other  Good" in listed
    assert "`ok` is approved by bo, cy: fine" in listed
    assert project("reject", "last", "other", "--as", "bo", "--reason", "bad").code == 0
    assert stands(project) == ("paused", "decided")
    assert project("show", "last", "--json").data["tasks"]["other"]["detail"].startswith("rejected by bo: bad")


def test_a_run_whose_budget_is_extended_is_paused_until_it_is_resumed(project: Any) -> None:
    project.plan(SPENT)
    assert project("exec", "p.yaml").code == 8
    assert stands(project) == ("blocked", "waiting")
    assert project("approve", "last", "budget", "--add", "cost=$0.01").code == 0
    assert stands(project) == ("blocked", "waiting")
    assert project("approve", "last", "budget", "--add", "cost=$2").code == 0
    assert stands(project) == ("paused", "decided")
    assert project("show", "last", "--json").data["tasks"]["two"]["detail"].startswith("given more budget")
    assert "planrunner resume" in project("gates").out
    assert project("resume", "last").code == 0


def test_a_run_whose_budget_is_refused_is_paused_until_it_is_resumed(project: Any) -> None:
    project.plan(SPENT)
    assert project("exec", "p.yaml").code == 8
    assert project("reject", "last", "budget", "--reason", "enough").code == 0
    assert stands(project) == ("paused", "decided")
    assert "refused more budget" in project("show").out
