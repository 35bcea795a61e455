"""Agents and the protocols of four providers: what a server may say, well or badly, and what it comes to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bench import Bench
from hurried import Ran, every_call_is_answered, exec_here, jump

from planrunner.machine.events import AttemptEnded, AttemptStarted, RetryScheduled
from planrunner.testing.scripted_model import Heard

Json = Any

PROVIDERS = ("openai", "anthropic", "google", "ollama")
PLAN = """
plan: mend
tasks:
  - id: fix
    agent: coder
    prompt: Mend it.
"""
BUSY = {"status": 429, "headers": {"retry-after": "120"}}
FAULTS = {
    "busy": BUSY,
    "broken": {"status": 500},
    "cut off": {"cut": True},
    "not JSON": {"raw": "<html>soon back</html>"},
    "JSON of another kind": {"raw": "[1, 2]"},
    "an empty body": {"raw": ""},
}


@pytest.fixture(params=PROVIDERS)
def run(
    request: pytest.FixtureRequest, make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., tuple[Ran, Bench]]]:
    """Runs ``PLAN`` with more lines and a script; afterwards every call that any request holds must be answered."""
    jump(monkeypatch)
    made: list[Bench] = []

    def ran(script: Any, more: str = "", plan: str = PLAN, **agent: Json) -> tuple[Ran, Bench]:
        bench = make(script, request.param)
        made.append(bench)
        bench.settings["agents"]["coder"] |= agent
        return exec_here(bench, plan + more, monkeypatch), bench

    yield ran
    for bench in made:
        every_call_is_answered(bench)


Run = Callable[..., tuple[Ran, Bench]]


def turns(heard: Heard) -> Json:
    return heard.body.get("messages") or heard.body["contents"]


def steps(ran: Ran) -> list[tuple[bool, str]]:
    """The calls of tools as they begin (True) and end."""
    return [
        (isinstance(entry.event, AttemptStarted), entry.event.task.removeprefix("fix#2/"))
        for entry in ran.entries
        if isinstance(entry.event, (AttemptStarted, AttemptEnded)) and "calls[" in entry.event.task
    ]


def test_calls_of_one_reply_that_look_run_side_by_side_and_are_answered_in_their_order(run: Run) -> None:
    ran, bench = run([[("files_glob", {"patterns": ["plan*"]}), ("files_read", {"path": "plan.yaml"})], "Done."])
    assert ran.status == "completed"
    assert sorted(steps(ran)[:2]) == [(True, "calls[0]"), (True, "calls[1]")]
    said = bench.model.heard[1].said()
    assert 0 < said.index("planrunner.yaml") < said.index("plan: mend")


def test_calls_of_one_reply_that_act_run_one_after_another(run: Run) -> None:
    ran, _ = run([[("shell", {"command": "echo one >> out"}), ("shell", {"command": "cat out"})], "Done."])
    assert steps(ran) == [(True, "calls[0]"), (False, "calls[0]"), (True, "calls[1]"), (False, "calls[1]")]


def test_without_tools_the_provider_is_held_to_the_schema(run: Run) -> None:
    ran, bench = run(['{"ok": true}'], "    schema: {ok: bool}\n", tools=[])
    assert ran.task("fix").outcome.outputs["ok"] is True
    assert "properties" in json.dumps(bench.model.heard[0].body)
    assert not bench.model.heard[0].tools


@pytest.mark.parametrize("fault", FAULTS)
def test_what_may_pass_is_tried_again_with_the_same_request(run: Run, fault: str) -> None:
    ran, bench = run([FAULTS[fault], "Done."])
    assert ran.status == "completed"
    assert ran.failures("fix#1/model") == ["transient", ""]
    assert bench.model.heard[0].body == bench.model.heard[1].body
    assert ran.task("fix").outcome.outputs["text"] == "Done."


def test_it_waits_as_long_as_the_provider_asks(run: Run) -> None:
    ran, _ = run([BUSY, "Done."])
    ended = next(
        entry for entry in ran.entries if isinstance(entry.event, AttemptEnded) and entry.event.outcome.failure
    )
    again = ran.of(RetryScheduled)[0]
    assert again.due >= ended.at + 120


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_pass_fails_the_task_after_three_attempts(run: Run, fault: str) -> None:
    ran, bench = run([FAULTS[fault]])
    assert ran.task("fix").status == "failed"
    assert ran.failures("fix#1/model") == ["transient"] * 3
    assert len(bench.model.heard) == 3


def test_a_request_that_is_refused_is_not_made_again(run: Run) -> None:
    ran, bench = run([{"status": 401}])
    assert ran.failures("fix#1/model") == ["logic"]
    assert len(bench.model.heard) == 1


def test_a_fault_in_the_middle_loses_no_call_and_makes_none_twice(run: Run) -> None:
    script = [[("shell", {"command": "echo x >> made"})], {"cut": True}, {"status": 500}, "Done."]
    ran, bench = run(script)
    assert ran.status == "completed"
    assert (bench.folder / "made").read_text() == "x\n"
    assert ran.failures("fix#2/model") == ["transient", "transient", ""]
    assert turns(bench.model.heard[1]) == turns(bench.model.heard[3])


@pytest.mark.parametrize("given", ["{no json", "[1, 2]", '"text"', "null", '{"command": NaN}'])
def test_arguments_that_are_not_a_mapping_are_told_and_nothing_is_called(run: Run, given: str) -> None:
    ran, bench = run([[("shell", given)], "Done."])
    assert ran.status == "completed"
    assert ran.started() == []
    told = "The call was not made" in bench.model.heard[1].said()
    assert told or ran.failures("fix#1/model") == ["transient", ""]  # a library reads nothing else as such a reply


def test_calls_without_an_end_are_ended_by_the_rounds(run: Run) -> None:
    ran, _ = run(lambda heard: [("shell", {"command": f"echo {len(heard.turns)}"})], "    rounds: 4\n")
    assert ran.task("fix").status == "failed"
    assert len(ran.started()) == 3


def test_the_same_call_without_an_end_is_ended_by_the_breaker(run: Run) -> None:
    ran, _ = run([[("shell", {"command": "echo same"})]])
    assert ran.task("fix").status == "failed"
    assert ran.failures("fix#6/model") == ["breaker"]
    assert len(ran.started()) == 5


def test_a_reply_that_only_thinks_is_not_an_answer(run: Run) -> None:
    ran, bench = run([{"thinks": "Hm."}, "Done."])
    assert ran.task("fix").outcome.outputs["text"] == "Done."
    assert len(bench.model.heard) == 2


def test_a_model_that_only_ever_thinks_fails_the_task(run: Run) -> None:
    ran, bench = run([{"thinks": "Hm."}])
    assert ran.task("fix").status == "failed"
    assert len(bench.model.heard) == 3


def test_what_it_thought_before_a_call_goes_back_as_it_was(run: Run) -> None:
    ran, bench = run([{"thinks": "Look first.", "calls": [("shell", {"command": "echo hi"})]}, "Done."])
    assert ran.status == "completed"
    if bench.model.heard[1].provider != "openai":  # those want none back
        assert "Look first." in json.dumps(turns(bench.model.heard[1]))


@pytest.mark.parametrize("ids", [("", ""), ("same", "same"), ("a", "b")])
def test_ids_of_calls_that_are_missing_or_doubled_do_no_harm(run: Run, ids: Json) -> None:
    calls = [("shell", {"command": "echo one"}, ids[0]), ("shell", {"command": "echo two"}, ids[1])]
    ran, bench = run([calls, calls, "Done."])
    assert ran.status == "completed"
    assert len(ran.started()) == 4
    said = bench.model.heard[2].said()
    assert said.count("one") == said.count("two") == 2


def test_the_same_id_in_every_round_is_not_the_same_call(run: Run) -> None:
    script = [[("shell", {"command": "date +%s%N"}, "call")] for _ in range(6)]
    ran, _ = run([*script, "Done."])
    assert ran.status == "completed"
    assert len(ran.started()) == 6


def test_half_surrogates_come_through_as_text(run: Run) -> None:
    words = "\ud83d\ude00 and \udc00 and \u0000"
    ran, _ = run([{"text": words, "calls": [("files_write", {"path": "out", "content": words})]}, {"text": words}])
    assert ran.status == "completed"
    text = ran.task("fix").outcome.outputs["text"]
    assert text.startswith("😀 and \ufffd")
    text.encode()


def replayed(bench: Bench, what: str) -> Json:
    return json.loads(bench.call("replay", what, "--json").stdout)


def test_with_the_model_gone_the_run_replays_and_a_changed_reply_is_found(run: Run) -> None:
    _, bench = run([[("files_write", {"path": "out", "content": "one"})], "Done."])
    bench.model.__exit__()
    (bench.folder / "out").unlink()
    assert replayed(bench, "last")["exact"] is True
    assert not (bench.folder / "out").exists()
    assert bench.call("events", "last", "--export", "run.jsonl").returncode == 0
    text = (bench.folder / "run.jsonl").read_text()
    first = next(line for line in text.splitlines() if '"kind":"attempt_ended"' in line and "fix#1/model" in line)
    (bench.folder / "run.jsonl").write_text(text.replace(first, first.replace('"content":"one"', '"content":"two"')))
    found = replayed(bench, "run.jsonl")
    assert found["exact"] is False
    assert found["difference"]["task"] in ("fix", "fix#2/calls", "fix#2/calls[0]"), found
    assert "two" in json.dumps(found["difference"])


def test_a_model_that_streams_is_understood_piece_by_piece(run: Run) -> None:
    script = ["Once upon a time.", {"text": "Once upon", "pieces": 1}, "And so on."]
    plan = """
plan: tell
tasks:
  - {id: whole, uses: llm.complete, with: {prompt: A tale., stream: true}}
  - {id: cut, needs: [whole], uses: llm.complete, with: {prompt: A tale., stream: true}, retry: {attempts: 2}}
"""
    ran, _ = run(script, plan=plan)
    assert ran.of(AttemptEnded, "whole")[0].outcome.stdout == "Once upon a time.\n"
    assert ran.task("whole").outcome.outputs["text"] == "Once upon a time."
    assert ran.failures("cut") == ["transient", ""]
    assert ran.task("cut").outcome.outputs["text"] == "And so on."
    assert ran.task("whole").outcome.outputs["usage"]["output"] == 20
