"""Who may decide, and how that is said: one rule for the run, the page, the prompt and the preview."""

from __future__ import annotations

from planrunner.machine.deciders import Deciders, barred, who_may

NAMED = Deciders(("release",), ("bo",), True)


def test_a_gate_is_for_those_whom_it_names_and_never_for_the_starter_where_it_says_so() -> None:
    assert not barred(NAMED, "sign", "ana", ["release"], "chris")
    assert not barred(NAMED, "sign", "bo", [], "chris")
    assert barred(NAMED, "sign", "ana", [], "chris") == f"ana may not decide `sign`: it needs {who_may(NAMED)}"
    assert not barred(Deciders(), "sign", "ana", [], "ana")


def test_the_starter_is_told_who_decides_and_how_the_plan_allows_it() -> None:
    told = "ana started the run and may not decide `sign`: it needs {}, or `approvers: {{starter: true}}`"
    assert barred(NAMED, "sign", "ana", ["release"], "ana") == told.format("role `release` or bo")
    assert barred(Deciders(not_starter=True), "sign", "ana", [], "ana") == told.format("another person")


def test_those_who_may_decide_have_one_wording() -> None:
    assert who_may(Deciders()) == "anyone"
    assert who_may(Deciders(not_starter=True)) == "anyone, except the person who started the run"
    assert who_may(NAMED) == "role `release` or bo, except the person who started the run"
