"""What attempts tell about what they spent, and signs of life, on the live engine."""

from __future__ import annotations

import time

import pytest

from planrunner.capabilities.contract import Context, Failure
from planrunner.machine.events import Outcome


def test_a_process_tells_in_a_file_what_it_spent(bench) -> None:
    assert bench.run("echo cost=0.25 > $PLANRUNNER_USAGE; echo '{\"tokens\": 12}' >> $PLANRUNNER_USAGE").usage == {
        "cost": 0.25,
        "tokens": 12,
    }
    assert bench.run("echo 'cost=$0.25' > $PLANRUNNER_USAGE; exit 3").usage == {"cost": 0.25}


@pytest.mark.parametrize("text", ["cost=-1", "cost=nan", "cost=much", "nonsense", "other=3", '{"cost": [1]}', "{"])
def test_what_is_no_amount_is_left_out(bench, text: str) -> None:
    outcome = bench.run(f"echo '{text}' > $PLANRUNNER_USAGE")
    assert (outcome.failure, outcome.usage) == ("", {})


def test_a_function_tells_as_it_goes_and_it_counts_though_it_fails(bench) -> None:
    def spends(context: Context) -> None:
        context.spend(cost=0.5, calls=1)
        context.spend(cost=0.25)
        raise Failure("no luck", "transient")

    bench.functions["spends"] = spends
    outcome = bench.run(uses="spends")
    assert (outcome.failure, outcome.usage) == ("transient", {"cost": 0.75, "calls": 1})


def test_a_function_may_tell_with_its_outcome(bench) -> None:
    bench.functions["spends"] = lambda: Outcome(usage={"cost": 0.1, "tokens": float("nan"), "other": 1})
    assert bench.run(uses="spends").usage == {"cost": 0.1}


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
