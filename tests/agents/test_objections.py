"""What speaks against an attempt of an agent reaches its next one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bench import Bench

from planrunner.testing.scripted_model import Heard

Json = Any
Make = Callable[..., Bench]

PLAN = """
plan: mend
tasks:
  - id: fix
    agent: coder
    prompt: Mend it.
    retry: {attempts: 2, delay: 0s}
"""


def asked(bench: Bench) -> list[str]:
    """The last turn of every request."""
    return [heard.last() for heard in bench.model.heard]


JUDGED = """
plan: mend
tasks:
  - id: fix
    agent: coder
    prompt: Mend it.
    retry: {attempts: 2, delay: 0s}
    expect: ["judge: it says how long it took"]
"""


def test_the_next_attempt_hears_which_criterion_failed(make: Make) -> None:
    bench = make([[("answer", {"ok": False})], [("answer", {"ok": True})]])
    told = bench.run(PLAN + "    schema: {ok: bool}\n    expect: [outputs.ok]\n")
    assert told["status"] == "completed", told
    assert asked(bench)[0] == "Mend it."
    assert asked(bench)[1].startswith("Mend it.\n\nThe last attempt was not accepted: ")
    assert "outputs.ok" in asked(bench)[1]


def test_it_hears_that_its_rounds_led_nowhere(make: Make) -> None:
    bench = make([[("answer", {"ok": False})], [("answer", {"ok": False})], [("answer", {"ok": True})]])
    told = bench.run(PLAN + "    rounds: 2\n    schema: {ok: bool}\n    until: outputs.ok\n")
    assert told["status"] == "completed", told
    assert "is still false after 2 rounds" in asked(bench)[2]


def test_it_hears_what_the_check_of_its_work_printed(make: Make) -> None:
    bench = make(["Done.", "Done again.", [("files_write", {"path": "flag", "content": "x"})], "Now it is."])
    told = bench.run(PLAN + "    rounds: 2\n    until: {run: 'echo 3 tests failed; test -f flag'}\n")
    assert told["status"] == "completed", told
    assert "3 tests failed" in bench.model.heard[2].said()


def test_it_hears_what_the_judge_says(make: Make) -> None:
    answers = iter(["Done.", "It took two minutes."])

    def script(heard: Heard) -> Json:
        if "You judge" not in heard.turns[0][1]:
            return next(answers)
        met = "yes" if "two minutes" in heard.last() else "no"
        quote = "two minutes" if met == "yes" else "Done."
        verdict = {"criterion": 1, "met": met, "reason": "no time is given", "quotes": [quote]}
        return json.dumps({"verdicts": [verdict]})

    bench = make(script)
    bench.settings["models"] |= {"judge": "scripted"}
    told = bench.run(JUDGED)
    assert told["status"] == "completed", told
    second = [text for text in asked(bench) if text.startswith("Mend it.")][1]
    assert "it says how long it took: no, no time is given" in second


def test_a_prompt_that_says_where_objections_belong_has_them_there_alone(make: Make) -> None:
    bench = make(["One.", "Two."])
    plan = PLAN.replace("Mend it.", "'Mend it. {{ retry.reason }}'") + "    expect: [\"outputs.text == 'Two.'\"]\n"
    told = bench.run(plan)
    assert told["status"] == "completed", told
    assert asked(bench)[0] == "Mend it. "
    assert "not accepted" not in asked(bench)[1] and "One." in asked(bench)[1]


def test_a_conversation_goes_on_with_the_next_attempt(make: Make) -> None:
    bench = make(["One.", "Two."])
    told = bench.run(PLAN + "    session: work\n    expect: [\"outputs.text == 'Two.'\"]\n")
    assert told["status"] == "completed", told
    turns = [text for role, text in bench.model.heard[1].turns if role != "system"]
    assert turns[:2] == ["Mend it.", "One."] and "The last attempt was not accepted: " in turns[2]


def test_what_a_person_says_who_sends_it_back_is_heard(make: Make) -> None:
    bench = make(["One.", "Two."])
    bench.write(
        PLAN + "  - {id: look, needs: [fix], gate: approval, ask: Is it good, on_reject: {rework: fix, max: 1}}\n"
    )
    assert bench.call("exec", "plan.yaml").returncode == 8
    assert bench.call("reject", "last", "look", "--reason", "too short").returncode == 0
    bench.call("resume", "last")
    assert asked(bench)[1] == "Mend it.\n\nThe last attempt was not accepted: too short"
    shown = json.loads(bench.call("show", "last", "fix", "--inputs", "--json").stdout)["calls"]
    assert shown[1]["call"]["heard"] == "too short" and shown[1]["context"]


def test_hostile_words_of_an_answer_stay_text(make: Make) -> None:
    bench = make([[("answer", {"said": "{{ env.HOME }}"})], [("answer", {"said": "ok"})]])
    told = bench.run(PLAN + "    schema: {said: string}\n    expect: [\"outputs.said == 'ok'\"]\n")
    assert told["status"] == "completed", told
    assert "{{ env.HOME }}" in asked(bench)[1]
