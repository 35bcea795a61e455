"""Who may decide, and how that is said: one rule for the run, the page, the prompt and the preview."""

from __future__ import annotations

from planrunner.machine.questions import Question, together, who_may

ANYONE = Question("gate", "sign", "Publish?")
NAMED = ANYONE._replace(roles=("release",), people=("bo",), not_starter=True)


def test_a_gate_is_for_those_whom_it_names_and_never_for_the_starter_where_it_says_so() -> None:
    asked = NAMED._replace(starter="chris")
    assert not asked.reason_not_allowed("ana", ["release"])
    assert not asked.reason_not_allowed("bo", [])
    assert asked.reason_not_allowed("ana", []) == f"ana may not decide `sign`: it needs {who_may(NAMED)}"
    assert not ANYONE._replace(starter="ana").reason_not_allowed("ana", [])


def test_the_starter_is_told_who_decides_and_how_the_plan_allows_it() -> None:
    told = "ana started the run and may not decide `sign`: it needs {}, or `approvers: {{starter: true}}`"
    assert NAMED._replace(starter="ana").reason_not_allowed("ana", ["release"]) == told.format("role `release` or bo")
    asked = ANYONE._replace(not_starter=True, starter="ana")
    assert asked.reason_not_allowed("ana", []) == told.format("another person")


def test_those_who_may_decide_have_one_wording() -> None:
    assert who_may(ANYONE) == "anyone"
    assert who_may(ANYONE._replace(not_starter=True)) == "anyone, except the person who started the run"
    assert who_may(NAMED) == "role `release` or bo, except the person who started the run"


def test_gates_of_a_review_window_are_one_question_for_those_who_may_decide_each_of_them() -> None:
    names = {"a": "release", "b": "release", "c": "", "d": "alone"}
    asked = [NAMED._replace(name=name, window=window, starter="ana") for name, window in names.items()]
    asked[1] = asked[1]._replace(roles=(), people=("eve",))
    whole, *others = together(asked)
    assert [question.name for question in (whole, *others)] == ["release", "c", "d"]
    assert whole.ask == "release: 2 gates to review together"
    assert whole.reason_not_allowed("bo", []).startswith("bo may not decide `b`")
    assert not whole.reason_not_allowed("eve", ["release"])
