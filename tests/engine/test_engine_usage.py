"""What attempts tell about what they spent, and signs of life, on the live engine."""

from __future__ import annotations

import time

import pytest
from rows import rows

from planrunner.capabilities.contract import Context, Failure
from planrunner.machine.events import Outcome
from planrunner.plan.expressions.parse import parse
from planrunner.plan.model import Criterion


def test_a_process_tells_in_a_file_what_it_spent(bench) -> None:
    assert bench.run("echo cost=0.25 > $PLANRUNNER_USAGE; echo '{\"tokens\": 12}' >> $PLANRUNNER_USAGE").usage == {
        "cost": 0.25,
        "tokens": 12,
    }
    assert bench.run("echo 'cost=$0.25' > $PLANRUNNER_USAGE; exit 3").usage == {"cost": 0.25}


@rows(
    ("text", "said"),
    [
        ("cost=-1", "which is not an amount: write `cost=0.05`, `tokens=1200` or a JSON object of these"),
        ("cost=nan", "which is not an amount"),
        ("cost=much", "which is not an amount"),
        ("cost=sh.20", "which is not an amount"),
        ("tokens=$5", "which is not an amount"),
        ("nonsense", "which is not an amount"),
        ('{"cost": [1]}', "which is not an amount"),
        ('{"cost": null}', "which is not an amount"),
        ("token=3", "where `token` is not one of `cost`, `tokens`, `calls`, did you mean `tokens`?"),
        ("{", "which is not valid JSON"),
    ],
)
def test_a_line_that_is_not_an_amount_fails_the_attempt_and_the_others_count(bench, text: str, said: str) -> None:
    outcome = bench.run(f"printf '%s\\n' 'cost=0.25' '{text}' 'tokens=7' > $PLANRUNNER_USAGE")
    assert (outcome.failure, outcome.usage) == ("logic", {"cost": 0.25, "tokens": 7})
    assert f"line 2 of the usage file is `{text}`, {said}" in outcome.message


def test_lines_add_up(bench) -> None:
    assert bench.run("for n in 1 2 3; do echo 'tokens=5' >> $PLANRUNNER_USAGE; done").usage == {"tokens": 15}


def test_an_attempt_that_failed_keeps_its_class_and_says_both(bench) -> None:
    outcome = bench.run("echo cost=much > $PLANRUNNER_USAGE; exit 75")
    assert (outcome.failure, outcome.usage) == ("transient", {})
    assert "75" in outcome.message and "`cost=much`" in outcome.message


def test_criteria_that_accept_an_exit_code_do_not_accept_a_line_that_is_not_an_amount(bench) -> None:
    expression = parse("exit_code == 3")
    accepts = {"expect": (Criterion(expression.text, expression),)}
    outcome = bench.run("echo cost=much > $PLANRUNNER_USAGE; exit 3", task=accepts)
    assert (outcome.failure, outcome.exit_code) == ("logic", None)


@pytest.mark.parametrize("script", ["mkdir $PLANRUNNER_USAGE", "ln -s /dev/zero $PLANRUNNER_USAGE"])
def test_a_usage_file_that_cannot_be_read_fails_the_attempt(bench, script: str) -> None:
    outcome = bench.run(script)
    assert outcome.failure == "logic"
    assert "the usage file" in outcome.message


def test_a_function_tells_as_it_goes_and_it_counts_though_it_fails(bench) -> None:
    def spends(context: Context) -> None:
        context.spend(cost=0.5, calls=1)
        context.spend(cost=0.25)
        raise Failure("no luck", "transient")

    bench.functions["spends"] = spends
    outcome = bench.run(uses="spends")
    assert (outcome.failure, outcome.usage) == ("transient", {"cost": 0.75, "calls": 1})


def test_a_function_may_tell_with_its_outcome(bench) -> None:
    bench.functions["spends"] = lambda: Outcome(usage={"cost": "$0.1", "tokens": None})
    outcome = bench.run(uses="spends")
    assert (outcome.failure, outcome.message, outcome.outputs, outcome.exit_code) == ("", "", {}, None)
    assert bench.run(uses="spends").usage == {"cost": 0.1}


@pytest.mark.parametrize("odd", [{"tokens": float("nan")}, {"tokens": -1}, {"tokens": True}, {"other": 1}])
def test_what_a_function_tells_that_is_not_an_amount_fails_it_and_the_rest_counts(bench, odd: dict) -> None:
    bench.functions["spends"] = lambda: Outcome(usage={"cost": 0.1, **odd})
    outcome = bench.run(uses="spends")
    assert (outcome.failure, outcome.usage) == ("logic", {"cost": 0.1})
    assert next(iter(odd)) in outcome.message


@pytest.mark.parametrize("odd", [float("nan"), -1, "much"])
def test_a_function_cannot_spend_what_is_not_an_amount_and_what_it_spent_before_counts(bench, odd: object) -> None:
    def spends(context: Context) -> None:
        context.spend(cost=0.5)
        context.spend(cost=odd)  # type: ignore[arg-type]

    bench.functions["spends"] = spends
    outcome = bench.run(uses="spends")
    assert (outcome.failure, outcome.usage) == ("logic", {"cost": 0.5})
    assert "is not an amount that can be spent" in outcome.message


@pytest.mark.slow
def test_a_function_that_gives_signs_of_life_goes_on_and_a_silent_one_is_stopped(bench) -> None:
    def lively(context: Context) -> None:
        for _ in range(20):
            context.beat()
            time.sleep(heartbeat / 10)

    def silent(context: Context) -> None:
        while not context.cancelled():
            time.sleep(0.02)
        raise Failure("stopped")

    bench.functions |= {"lively": lively, "silent": silent}
    assert bench.run(uses="silent", task={"heartbeat": 0.4}).failure == "stalled"
    for heartbeat in (0.4, 4.0, 40.0):  # a machine may be too busy for signs that follow each other closely
        if not (outcome := bench.run(uses="lively", task={"heartbeat": heartbeat})).failure:
            break
    assert outcome.failure == ""
