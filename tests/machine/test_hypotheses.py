"""Hypotheses in the machine: what counts as evidence, for how long, and where a confidence leads."""

from __future__ import annotations

import io
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
import workbench
from hypothesis import given
from hypothesis import strategies as st
from rows import rows
from simulator.gates import GateRun
from simulator.rehearsal import Rehearsal, rehearse
from simulator.runs import PLACE, RUN_ID

from planrunner.engine.gates import renewed
from planrunner.engine.replay import replay
from planrunner.machine.events import GateReopened, Outcome
from planrunner.machine.evolve import fold
from planrunner.machine.hypotheses import Belief, beliefs, best, ranked
from planrunner.machine.questions import questions
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import Piece, State
from planrunner.plan.expressions.values import MissingName
from planrunner.views.gates import question_lines, question_objects
from planrunner.views.terminal import Terminal

GOOD = Outcome(exit_code=0, duration=1.0)
BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
SAYS = {"hypothesis": "race", "supports": "exit_code != 0", "refutes": "exit_code == 0", "weight": "strong"}

plan = partial(workbench.working_plan, hypotheses={"race": {"prior": "40%"}, "pool": "The pool is exhausted"})


def measure(name: str = "measure", *evidence: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"id": name, "run": "work", "allow_failure": True, "evidence": [*(evidence or (SAYS,))], **keys}


def known(state: State) -> dict[str, Belief]:
    return {each.hypothesis.name: each for each in beliefs(state)}


def confidence(ran: Rehearsal | GateRun, name: str = "race") -> float:
    return known(ran.state)[name].confidence


def test_what_supports_multiplies_the_odds_and_what_refutes_divides_them() -> None:
    ran = rehearse(plan(measure()), {"measure": [BAD]})
    assert known(ran.state)["race"].odds == (40, 3)  # 2/3 × 20
    assert (confidence(ran), known(ran.state)["race"].status) == (0.93, "supported")
    ran = rehearse(plan(measure()), {"measure": [GOOD]})
    assert known(ran.state)["race"].odds == (1, 30)  # 2/3 ÷ 20
    assert (confidence(ran), known(ran.state)["race"].status) == (0.032, "refuted")


@rows("prior", ["10%", "20%", "50%", "90%"])
@rows("weighed", [False, True])
def test_a_prior_alone_settles_nothing(prior: str, weighed: bool) -> None:
    neutral = {"hypothesis": "race", "supports": "exit_code == 3", "refutes": "exit_code == 4"}
    tasks = [measure("measure", neutral)] if weighed else [{"id": "a", "run": "work"}]
    told = workbench.working_plan(*tasks, hypotheses={"race": {"prior": prior}})
    ran = rehearse(told, {"measure": [GOOD]})
    assert known(ran.state)["race"].status == "open"
    assert TaskScope(ran.state, 0).resolve("hypotheses").resolve("race")["status"] == "open"


def test_evidence_that_does_neither_is_neutral_and_says_why() -> None:
    said = {"hypothesis": "race", "supports": "exit_code == 3", "refutes": "outputs.lost > 1"}
    ran = rehearse(plan(measure("measure", said)))
    (pieces,) = known(ran.state)["race"].given
    assert (pieces.factor, pieces.pieces[0][1].said) == ((1, 1), "neutral")
    assert "`outputs.lost > 1` has no value" in pieces.pieces[0][1].why
    assert confidence(ran) == 0.4


def test_conditions_that_hold_against_each_other_count_as_neither() -> None:
    said = {"hypothesis": "race", "supports": "exit_code >= 0", "refutes": "exit_code < 3"}
    ran = rehearse(plan(measure("measure", said)))
    assert confidence(ran) == 0.4


def test_several_pieces_of_one_task_count_each() -> None:
    twice = [{"hypothesis": "race", "supports": "exit_code == 0", "weight": weight} for weight in ("weak", 3)]
    assert known(rehearse(plan(measure("measure", *twice))).state)["race"].odds == (4, 1)


@pytest.mark.parametrize("failure", ["timeout", "transient", "policy"])
def test_a_result_that_was_cut_short_says_nothing(failure: str) -> None:
    ran = rehearse(plan(measure()), {"measure": [Outcome(failure, "gone", exit_code=137, duration=1.0)]})
    assert known(ran.state)["race"].given == ()


def test_a_task_that_did_not_run_says_nothing() -> None:
    assert known(rehearse(plan(measure(when="params.on"), params={"on": False})).state)["race"].given == ()


def test_a_retry_replaces_the_evidence_of_the_attempt_before() -> None:
    ran = rehearse(plan(measure(retry={"attempts": 2, "delay": "1s"})), {"measure": [BAD, GOOD]})
    assert len(known(ran.state)["race"].given[0].pieces) == 1
    assert confidence(ran) == 0.032


def test_a_confidence_decides_which_task_runs() -> None:
    ways = [
        {"id": "guard", "needs": ["measure"], "when": "hypotheses.race.confidence >= 80%"},
        {"id": "enlarge", "needs": ["measure"], "when": 'hypotheses.best == "pool"'},
        {"id": "report", "needs": ["measure"], "when": 'hypotheses["race"].status == "open"'},
    ]
    for outcome, runs in ((BAD, "guard"), (GOOD, "enlarge")):
        statuses = rehearse(plan(measure(), *ways), {"measure": [outcome]}).statuses()
        assert [name for name in ("guard", "enlarge", "report") if statuses[name] == "completed"] == [runs]


def test_a_task_sees_its_own_evidence_where_it_leads_on_or_back() -> None:
    back = [{"on": "success", "rework": "warm-up", "max": 3, "when": "hypotheses.race.confidence > 50%"}]
    tasks = ({"id": "warm-up"}, measure(needs=["warm-up"], next=back, expect=["exit_code >= 0"]))
    ran = rehearse(plan(*tasks), {"measure": [BAD, BAD, GOOD]})
    assert (ran.state.tasks[1].visit, confidence(ran)) == (3, 0.032)


def test_a_loop_goes_round_until_a_hypothesis_is_supported_and_each_round_counts() -> None:
    said = {"hypothesis": "pool", "supports": "exit_code == 0", "weight": "weak"}
    loop = {"max": 9, "until": "hypotheses.pool.confidence >= 80%", "tasks": [measure("probe", said)]}
    ran = rehearse(plan({"id": "polish", "loop": loop}))
    assert ran.statuses()["polish#2/probe"] == "completed"
    assert "polish#3/probe" not in ran.statuses()
    assert len(known(ran.state)["pool"].given) == 1  # of one task of the plan
    assert (known(ran.state)["pool"].odds, confidence(ran, "pool")) == ((4, 1), 0.8)


def test_the_items_of_a_fan_out_count_up_to_a_limit() -> None:
    said = {"hypothesis": "pool", "supports": "exit_code == 0", "refutes": "exit_code == 1"}
    ran = rehearse(plan(measure("probe", said, foreach=[1, 2, 3])), {"probe[1]": [BAD]})
    assert known(ran.state)["pool"].odds == (5, 1)
    ran = rehearse(plan(measure("probe", said, foreach=list(range(9)))))
    (pieces,) = known(ran.state)["pool"].given
    assert (pieces.factor, pieces.bounded, confidence(ran, "pool")) == ((100, 1), True, 0.99)


def test_rework_replaces_the_evidence_of_what_it_repeats() -> None:
    gate = {"id": "sign", "gate": "approval", "ask": "?", "needs": ["measure"]}
    run = GateRun(plan(measure(), gate | {"on_reject": {"rework": "measure", "max": 1}}), {"measure": [BAD, GOOD]})
    assert confidence(run) == 0.93
    run.vote("sign", "reject", reason="again")
    run.resume()
    assert len(known(run.state)["race"].given[0].pieces) == 1
    assert confidence(run) == 0.032
    assert replay(run.plan, RUN_ID, run.entries).difference is None


def test_rework_replaces_the_evidence_of_every_round() -> None:
    said = {"hypothesis": "race", "supports": "exit_code != 0", "refutes": "exit_code == 0", "weight": 2}
    loop = {"id": "polish", "loop": {"max": 3, "until": "loop.round == 3", "tasks": [measure("probe", said)]}}
    gate = {"id": "sign", "gate": "approval", "ask": "?", "needs": ["polish"]}
    rounds = {f"polish#{number}/probe": [BAD] for number in (1, 2, 3)}
    run = GateRun(plan(loop, gate | {"on_reject": {"rework": "polish", "max": 1}}), rounds)
    assert known(run.state)["race"].odds == (16, 3)  # 2/3 × 8
    run.vote("sign", "reject", reason="again")
    run.resume()
    assert known(run.state)["race"].odds == (1, 12)  # 2/3 ÷ 8
    assert replay(run.plan, RUN_ID, run.entries).difference is None


def test_a_rollback_takes_the_evidence_of_what_it_undoes() -> None:
    undone = measure(rollback={"run": "undo"}, expect=["exit_code >= 0"])
    tasks = (undone, {"id": "fails", "needs": ["measure"]})
    ran = rehearse(plan(*tasks, on_failure="rollback"), {"fails": [BAD]})
    assert ran.statuses()["measure"] == "rolled_back"
    assert (known(ran.state)["race"].given, confidence(ran)) == ((), 0.4)


def test_a_crash_at_any_place_leaves_the_same_confidence() -> None:
    tasks = (measure(), measure("probe", {**SAYS, "weight": "weak"}, needs=["measure"]))
    whole = rehearse(plan(*tasks), {"measure": [BAD]})
    for length in range(1, len(whole.entries) + 1):
        state = fold(whole.state.plan, RUN_ID, whole.entries[:length])
        assert set(state.evidence or {}) == {
            number for number, task in enumerate(state.tasks) if task.status in ("completed", "failed")
        }
    assert beliefs(fold(whole.state.plan, RUN_ID, whole.entries)) == beliefs(whole.state)


def test_the_best_is_ahead_of_all_others() -> None:
    state = rehearse(plan(measure())).state
    assert (best(beliefs(state)), [each.hypothesis.name for each in ranked(beliefs(state))]) == (
        "pool",
        ["pool", "race"],
    )
    tie = rehearse(plan(measure(), hypotheses=["race", "pool"]), {"measure": [Outcome("timeout", "")]}).state
    assert best(beliefs(tie)) == ""


def test_a_linked_plan_has_hypotheses_of_its_own() -> None:
    inner = {
        "hypotheses": ["race"],
        "tasks": [measure(), {"id": "tell", "uses": "noop", "needs": ["measure"], "with": {"value": "x"}}],
        "outputs": {"sure": "{{ hypotheses.race.confidence }}"},
    }
    whole = plan({"id": "inside", "subplan": "look"}, subplans={"look": inner})
    ran = rehearse(whole, {"inside/measure": [BAD]})
    assert known(ran.state)["race"].given == ()
    (belief,) = beliefs(ran.state, 0)
    assert (belief.confidence, ran.state.tasks[0].outputs["sure"]) == (0.952, "95.2%")


FACTORS = st.tuples(st.integers(1, 100_000), st.integers(1, 100_000))


@given(st.lists(st.tuples(st.integers(0, 5), FACTORS), max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_evidence_does_not_matter(pieces: list[tuple[int, tuple[int, int]]], random: Any) -> None:
    state = rehearse(plan(*(measure(f"m{number}") for number in range(6)))).state

    def odds(order: list[tuple[int, tuple[int, int]]]) -> tuple[int, int]:
        state.evidence = {}
        for number, factor in order:
            piece = Piece("race", "supports", factor, "")
            state.evidence[number] = (*state.evidence.get(number, ()), piece)
        return known(state)["race"].odds

    shuffled = list(pieces)
    random.shuffle(shuffled)
    assert odds(pieces) == odds(shuffled)
    expected = Fraction(2, 3)
    for number in range(6):
        product = Fraction(1)
        for at, factor in pieces:
            product *= Fraction(*factor) if at == number else 1
        expected *= min(max(product, Fraction(1, 100)), Fraction(100))
    assert Fraction(*odds(pieces)) == expected


def test_a_choice_is_made_without_people_where_a_hypothesis_is_ahead() -> None:
    gate = {
        "id": "pick",
        "needs": ["measure"],
        "gate": "decision",
        "options": [{"id": "race", "to": "guard"}, {"id": "pool", "to": "enlarge"}],
        "choose": "hypotheses.best",
    }
    tasks = (measure(), gate, {"id": "guard", "needs": ["pick"]}, {"id": "enlarge", "needs": ["pick"]})
    run = GateRun(plan(*tasks), {"measure": [BAD]})
    assert run.outputs("pick")["choice"] == "race"
    assert (run.statuses()["guard"], run.statuses()["enlarge"]) == ("completed", "omitted")
    assert run.state.tasks[1].detail == "chosen without asking: `hypotheses.best` is `race`"
    assert replay(run.plan, RUN_ID, run.entries).difference is None
    even = GateRun(plan(*tasks, hypotheses=["race", "pool"]), {"measure": [Outcome("timeout", "")]})
    assert even.statuses()["pick"] == "blocked"
    waiting = even.state.tasks[1].gate
    assert waiting is not None and waiting.unchosen == ""


@pytest.mark.parametrize(
    ("choose", "said"),
    [
        ("lower('RCAE')", "`choose` gave `rcae`, which is not an option"),
        ("default(tasks.measure.outputs.cause, 1)", "`choose` gave `1`, which is not an option"),
        ("tasks.measure.outputs.cause", "`choose` has no value: "),
    ],
)
def test_people_who_are_asked_are_told_that_the_choice_was_no_option(choose: str, said: str) -> None:
    gate = {
        "id": "pick", "needs": ["measure"], "gate": "decision", "ask": "Which?", "options": ["race", "pool"],
        "choose": choose,
    }  # fmt: skip
    run = GateRun(plan(measure(), gate), {"measure": [BAD]})
    waiting = run.state.tasks[1].gate
    assert waiting is not None and waiting.unchosen.startswith(said)
    assert run.state.tasks[1].detail.startswith(f"Which? ({said}")
    (asked,) = questions(run.state, 0.0)
    assert "".join(question_lines(Terminal(io.StringIO()), run.state, asked, 0.0, whole=False)).count(said) == 1
    assert question_objects(run.state, 0.0)[0]["unchosen"] == waiting.unchosen
    assert replay(run.plan, RUN_ID, run.entries).difference is None


def test_a_decision_shows_the_hypotheses_and_is_asked_again_when_they_change() -> None:
    gate = {"id": "pick", "gate": "decision", "ask": "?", "options": ["race", "pool"], "needs": ["measure"]}
    run = GateRun(plan(measure(), gate), {"measure": [BAD]})
    waiting = run.state.tasks[1].gate
    assert waiting is not None
    assert waiting.request["hypotheses"][0] | {"evidence": []} == {
        "hypothesis": "race",
        "statement": "",
        "prior": 0.4,
        "confidence": 0.93,
        "status": "supported",
        "evidence": [],
    }
    assert waiting.request["hypotheses"][0]["evidence"][0]["task"] == "measure"
    assert renewed(run.state, "pick", PLACE, None) is None
    run.state.evidence = {}
    again = renewed(run.state, "pick", PLACE, None)
    assert isinstance(again, GateReopened) and again.changed == ("hypotheses",)


def test_a_name_that_is_not_a_hypothesis_is_missing() -> None:
    state = rehearse(plan(measure())).state
    with pytest.raises(MissingName):
        TaskScope(state, 0).resolve("hypotheses").resolve("rase")


def test_a_failure_is_evidence_unless_the_attempt_was_cut_short_or_refused() -> None:
    said = {"hypothesis": "race", "supports": "exit_code == 1", "weight": 4}
    spec = plan({"id": "check", "run": "x", "allow_failure": True, "evidence": [said]})
    for failure, odds in (("logic", (8, 3)), ("tests", (8, 3)), ("timeout", (2, 3)), ("policy", (2, 3))):
        ran = rehearse(spec, {"check": [Outcome(failure, "x", exit_code=1)]})
        assert known(ran.state)["race"].odds == odds, failure


def test_a_task_with_rounds_or_steps_gives_evidence_by_what_it_came_to() -> None:
    rounds = {"hypothesis": "race", "supports": "outputs.rounds > 1", "refutes": "outputs.rounds == 1", "weight": 4}
    loop = {"max": 3, "until": "loop.round == 2", "tasks": [{"id": "in", "run": "x"}]}
    step = {"id": "steps", "subplan": [{"id": "in", "run": "x"}], "outputs": {"n": {"type": "int", "value": 3}}}
    said = {"hypothesis": "pool", "supports": "outputs.n == 3", "weight": 9}
    ran = rehearse(plan({"id": "polish", "loop": loop, "evidence": [rounds]}, {**step, "evidence": [said]}))
    assert known(ran.state)["race"].odds == (8, 3)
    assert confidence(ran, "pool") == 0.9
