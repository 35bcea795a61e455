"""Hypotheses and evidence as they are written."""

from __future__ import annotations

from typing import Any

import pytest
from rows import rows
from workbench import loaded, plan

from planrunner.plan.compiled import dump, load
from planrunner.plan.identity import digest, gives_the_same
from planrunner.plan.model import Evidence, Plan

PIECE = {"hypothesis": "race", "supports": "exit_code == 0"}


def task(*evidence: Any, **keys: Any) -> dict[str, Any]:
    return {"id": "t", "run": "work", "timeout": "1m", "evidence": [*evidence], **keys}


def names(made: Plan) -> list[tuple[str, str, float]]:
    return [(each.name, each.statement, each.prior) for each in made.hypotheses]


@pytest.mark.parametrize(
    "written",
    [
        {"race": {"statement": "Two writers race", "prior": "40%"}, "pool": "It is full"},
        [{"id": "race", "statement": "Two writers race", "confidence": 0.4}, {"id": "pool", "statement": "It is full"}],
    ],
)
def test_a_list_and_a_mapping_say_the_same(written: Any) -> None:
    made = plan(task(PIECE), hypotheses=written)
    assert names(made) == [("race", "Two writers race", 0.4), ("pool", "It is full", 0.5)]


def test_names_alone_have_even_odds() -> None:
    assert names(plan(task(PIECE), hypotheses=["race", "H2"])) == [("race", "", 0.5), ("H2", "", 0.5)]


def test_evidence_for_hypotheses_stands_beside_what_is_kept_as_proof() -> None:
    made = plan(task("junit.xml", PIECE, {"file": "a.txt"}), hypotheses=["race"])
    assert [(each.hypothesis, each.weight) for each in made.tasks[0].evidence] == [("race", 5.0)]
    assert made.tasks[0].notes["evidence"] == ["junit.xml", {"file": "a.txt"}]


def test_a_gate_shows_its_evidence_and_weighs_its_answer() -> None:
    gate = {"id": "t", "gate": "approval", "ask": "?", "form": {"seen": "string"}}
    said = {"hypothesis": "race", "supports": 'outputs.seen == "yes"', "weight": "weak"}
    made = plan({**gate, "evidence": [said, "report.html"]}, hypotheses=["race"])
    assert made.tasks[0].gate is not None
    assert made.tasks[0].gate.evidence == ["report.html"]
    assert [each.weight for each in made.tasks[0].evidence] == [2.0]


@pytest.mark.parametrize(("weight", "ratio"), [("weak", 2), ("moderate", 5), ("strong", 20), (8, 8), (1.5, 1.5)])
def test_a_weight_is_a_word_or_a_ratio(weight: Any, ratio: float) -> None:
    (piece,) = plan(task({**PIECE, "weight": weight}), hypotheses=["race"]).tasks[0].evidence
    assert piece.weight == ratio


@rows("weight", [1, 0, -3, 101, "heavy", True, [2]])
def test_a_weight_that_says_nothing_is_refused(weight: Any) -> None:
    done = loaded(task({**PIECE, "weight": weight}), hypotheses=["race"])
    assert [each.code for each in done.findings if each.severity == "error"] in (["PLAN005"], ["PLAN006"])


@pytest.mark.parametrize("name", ["best", "ranked"])
def test_a_hypothesis_does_not_take_a_name_of_all(name: str) -> None:
    assert "PLAN006" in {each.code for each in loaded(task(), hypotheses=[name]).findings}


def test_two_hypotheses_of_one_name_are_refused() -> None:
    assert "PLAN006" in {each.code for each in loaded(task(PIECE), hypotheses=["race", "race"]).findings}


def test_a_compiled_plan_keeps_them_and_a_digest_tells_them_apart() -> None:
    one = plan(task(PIECE), hypotheses={"race": {"prior": "40%", "rationale": "seen before"}})
    assert load(dump(one)) == one
    other = plan(task(PIECE), hypotheses={"race": {"prior": "50%"}})
    assert digest(one) != digest(other)


def test_other_evidence_leaves_a_result_valid() -> None:
    one, other = (plan(task({**PIECE, "weight": weight}), hypotheses=["race"]).tasks[0] for weight in ("weak", 9))
    assert one != other
    assert gives_the_same(one, other)


def test_evidence_in_any_shape_is_a_finding_and_never_a_traceback() -> None:
    for piece in (
        {"hypothesis": None},
        {"hypothesis": ["race"], "supports": 3},
        {"hypothesis": "race", "supports": []},
    ):
        done = loaded(task(piece), hypotheses=["race"])
        assert any(each.severity == "error" for each in done.findings)
        assert done.plan is None or not any(isinstance(each, Evidence) for each in done.plan.tasks[0].evidence)


def test_the_gate_of_a_label_weighs_nothing() -> None:
    policy = {"gates": {"prod": {"ask": "?", "evidence": [PIECE]}}}
    done = loaded(task(PIECE, labels=["prod"]), hypotheses=["race"], policy=policy)
    assert [each.message for each in done.findings if each.severity == "error"] == [
        "the gate for the label `prod` cannot weigh the hypothesis `race`"
    ]
