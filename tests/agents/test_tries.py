"""How often an answer of an agent may be refused: `tries` beside `until`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from bench import Bench

from planrunner.testing.scripted_model import Heard

Json = Any
Make = Callable[..., Bench]

WORD = """
plan: p
tasks:
  - {id: work, agent: coder, prompt: Go on until it is complete., until: 'contains(outputs.text, "COMPLETE")', tries: 3}
"""
CHECK = WORD.replace("until: 'contains(outputs.text, \"COMPLETE\")'", "until: {run: 'echo 2 tests fail; test -f done'}")
LOOK = [("files_glob", {"patterns": ["*"]})]


def asked(bench: Bench) -> list[str]:
    return [heard.last() for heard in bench.model.heard]


def test_an_answer_that_until_takes_ends_it(make: Make) -> None:
    bench = make(["Half.", "COMPLETE"])
    told = bench.run(WORD)
    assert told["status"] == "completed", told
    assert asked(bench)[1] == (
        'That is not the end yet: contains(outputs.text, "COMPLETE")\nThat was try 1 of 3.\nGo on.'
    )


def test_calls_are_not_tries(make: Make) -> None:
    bench = make([LOOK, "Half.", LOOK, LOOK, "More.", LOOK, "COMPLETE"])
    assert bench.run(WORD)["status"] == "completed"
    assert asked(bench)[5].endswith("That was try 2 of 3.\nGo on.")


@pytest.mark.parametrize("plan", [WORD, CHECK], ids=["expression", "task"])
def test_after_the_last_one_the_task_fails_in_a_class_of_its_own(make: Make, plan: str) -> None:
    bench = make(lambda heard: "Half.")
    told = bench.run(plan)
    work = told["tasks"]["work"]
    assert (work["status"], work["failure"], len(bench.model.heard)) == ("failed", "exhausted", 3), work
    assert "its 3 tries are used up" in work["detail"]
    assert ("2 tests fail" if plan is CHECK else "is still false") in work["detail"]
    why = bench.call("why", "last", "work").stdout
    assert "3 of 3 tries" in why, why
    bench.model.__exit__()
    assert bench.call("replay", "last").returncode == 0


def test_a_failure_mode_and_an_edge_name_the_class(make: Make) -> None:
    bench = make(lambda heard: "Half.")
    plan = WORD.replace("tries: 3}", "tries: 1, on_failure: {to: other, class: exhausted, recovers: true}}")
    told = bench.run(plan + "  - {id: other, run: 'echo by hand', timeout: 1m}\n")
    assert told["status"] == "completed", told
    assert told["tasks"]["other"]["status"] == "completed"


def test_rounds_still_bound_the_requests(make: Make) -> None:
    bench = make(lambda heard: LOOK if heard.tools else "Half.")
    told = bench.run(WORD.replace("tries: 3", "tries: 3, rounds: 2"))
    assert told["tasks"]["work"]["failure"] == "exhausted"
    assert "still false after 2 rounds" in told["tasks"]["work"]["detail"]
    assert len(bench.model.heard) == 2


def test_each_try_may_take_thirty_rounds(make: Make) -> None:
    bench = make([])
    bench.write(WORD)
    assert "at most 3 tries, 90 rounds until" in bench.call("graph", "plan.yaml", "--format", "text").stdout


def test_fresh_begins_the_conversation_again_for_each_try(make: Make) -> None:
    bench = make(["Half.", "COMPLETE"])
    assert bench.run(WORD.replace("tries: 3", "tries: 3, context: fresh"))["status"] == "completed"
    assert asked(bench)[1] == "Go on until it is complete."
    assert len(bench.model.heard[1].turns) == len(bench.model.heard[0].turns)


def test_a_retry_has_tries_of_its_own(make: Make) -> None:
    bench = make(["Half.", "Half.", "Half.", "COMPLETE"])
    told = bench.run(WORD.replace("tries: 3", "tries: 2, retry: {attempts: 2, delay: 0s}"))
    assert told["status"] == "completed", told
    assert "2 tries are used up" in asked(bench)[2]


@pytest.mark.parametrize(
    "around",
    [
        "plan: p\ntasks:\n  - {id: all, foreach: [a, b], tolerate: 100%, TASK}\n",
        "plan: p\ntasks:\n  - id: all\n    loop: {max: 2, tasks: [{id: x, allow_failure: true, TASK}]}\n",
        "plan: p\ntasks: [{id: all, subplan: [{id: x, allow_failure: true, TASK}]}]\n",
    ],
    ids=["fan-out", "loop", "subplan"],
)
def test_it_counts_for_itself_inside_others(make: Make, around: str) -> None:
    bench = make(lambda heard: "Half.")
    told = bench.run(around.replace("TASK", "agent: coder, prompt: Go., until: outputs.text == 'x', tries: 2"))
    times = 1 if "subplan" in around else 2
    assert told["status"] == "completed", told
    assert len(bench.model.heard) == 2 * times


def test_a_kill_in_between_loses_no_try(make: Make) -> None:
    def script(heard: Heard) -> Json:
        return LOOK if len(bench.model.heard) % 2 else "Half."

    bench = make(script)
    plan = WORD.replace("prompt:", "calls: [{tool: files.glob, when: 'BREAK', ask: 'Now?'}], prompt:")
    told = bench.run(plan.replace("BREAK", "true"))
    while told["status"] == "blocked":  # each call parks the run, and another process carries it on
        [gate] = told["gates"]
        resumed = bench.call("approve", "last", gate["gate"], "--resume")
        assert resumed.returncode in (0, 1, 8), resumed.stderr
        told = json.loads(bench.call("show", "last", "--json").stdout)
    assert told["tasks"]["work"]["failure"] == "exhausted", told["tasks"]["work"]
    assert len(bench.model.heard) == 6


def test_tries_need_until(make: Make) -> None:
    bench = make([])
    bench.write("plan: p\ntasks:\n  - {id: a, agent: coder, prompt: x, tries: 2}\n")
    assert "`tries` of a task needs `until`" in bench.call("lint", "plan.yaml").stdout


def test_the_text_notation_says_it_too(make: Make) -> None:
    bench = make(["Half.", "COMPLETE"])
    bench.write(WORD)
    text = bench.call("convert", "plan.yaml", "--to", "plan")
    assert "tries: 3" in text.stdout, text
    (bench.folder / "plan.plan").write_text(text.stdout)
    ran = bench.call("exec", "plan.plan", "--json")
    assert json.loads(ran.stdout)["status"] == "completed"
