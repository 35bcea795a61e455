"""What models may spend: nothing beyond what is set aside, and nothing counted as less than it may have been."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from commands import Started, start
from llm_parts import CANARY, Attempt, Models, Odd, used

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.llm.complete import complete
from planrunner.capabilities.llm.models import Model, Price
from planrunner.capabilities.llm.usage import Meter, Noted, Notes, Purse, Tokens, cost
from planrunner.capabilities.llm.vote import vote

pytest.importorskip("pydantic_ai", reason="the extra `llm` is not installed")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", CANARY)


class TestPrices:
    def test_the_price_of_the_project_counts(self) -> None:
        model = Model("m", "openai", "gpt-4o", price=Price(1.0, 3.0))
        assert cost(model, 1000, 10) == 0.00103

    def test_a_price_is_rounded_up_never_down(self) -> None:
        model = Model("m", "openai", "gpt-4o", price=Price(0.0001, 0.0))
        assert cost(model, 1, 0) == 0.000000001

    @pytest.mark.parametrize(
        ("provider", "name"), [("openai", "gpt-4o"), ("anthropic", "claude-sonnet-4-5"), ("google", "gemini-2.5-pro")]
    )
    def test_known_models_of_the_providers_have_a_price(self, provider: str, name: str) -> None:
        found = cost(Model("m", provider, name, "https://home.test"), 1000, 1000)
        assert found is not None and 0.001 < found < 0.1

    @pytest.mark.parametrize(
        "model",
        [
            Model("m", "openai", "no-such-model-at-all", "https://api.openai.com/v1"),
            Model("m", "ollama", "llama3.2", "http://127.0.0.1:11434/v1"),
            Model("m", "openai", "gpt-4o", "https://gateway.test/v1", own_address=True),
        ],
    )
    def test_what_nobody_knows_is_unknown_and_not_nothing(self, model: Model) -> None:
        assert cost(model, 1000, 1000) is None


class TestReservation:
    def test_a_request_that_may_use_more_than_is_set_aside_is_not_sent(self, odd: Odd, tmp_path: Path) -> None:
        for limits, said in (
            (
                {"cost": 0.001},
                r"the request may use \$0\.0\d+ .* of the reservation is left: raise `budgets: \{cost",
            ),
            ({"tokens": 1000}, r"\{tokens: …\}` of the task or lower `max_tokens`"),
            ({"calls": 0}, r"0 calls reserved for the attempt, 1 needed: set `budgets: \{calls: 1\}`"),
        ):
            attempt = Attempt(tmp_path, odd.settings(), limits)
            with pytest.raises(Failure, match=said) as raised:
                complete(attempt.context, "x", max_tokens=2000)
            assert raised.value.failure == "budget"
            assert attempt.log.usage == {"cost": 0.0, "tokens": 0, "calls": 0}
        assert not odd.requests

    def test_without_a_limit_of_its_own_a_reply_is_bounded_by_what_is_set_aside(self, odd: Odd, tmp_path: Path) -> None:
        for limits, most in (({}, 4096), ({"tokens": 3000}, 1024), ({"cost": 0.003}, 512)):
            complete(Attempt(tmp_path, odd.settings(), limits).context, "x")
            sent = json.loads(odd.requests[-1][2])
            assert sent.get("max_completion_tokens", sent.get("max_tokens")) == most

    def test_an_unknown_price_is_refused_under_a_budget_with_the_line_to_add(self, odd: Odd, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, odd.settings(price=None), {"cost": 1.0})
        said = r"the price of `odd` \(m\) is unknown.*add `models: \{odd: \{price: \{input: DOLLARS, output: DOLLARS\}\}\}`"
        with pytest.raises(Failure, match=said):
            complete(attempt.context, "x")
        assert not odd.requests and attempt.log.usage["cost"] == 0

    def test_an_unknown_price_without_a_budget_is_told_as_unknown(self, odd: Odd, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, odd.settings(price=None))
        assert complete(attempt.context, "x").usage == {"input": 11, "output": 7, "cost": None}
        assert attempt.log.usage == {"calls": 1, "tokens": 18}

    def test_a_price_of_nothing_is_a_price(self, odd: Odd, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, odd.settings(price={"input": 0, "output": 0}), {"cost": 0.0})
        assert complete(attempt.context, "x").usage["cost"] == 0
        assert attempt.log.usage["cost"] == 0

    def test_a_model_without_a_price_to_pay_costs_nothing_whatever_its_usage_says(
        self, odd: Odd, tmp_path: Path
    ) -> None:
        odd.usage = '{"prompt_tokens": -11}'
        attempt = Attempt(tmp_path, odd.settings(price={"input": 0, "output": 0}), {"cost": 1.0, "tokens": 50_000})
        assert complete(attempt.context, "x").text == "odd"
        assert attempt.log.usage == {"calls": 1, "cost": 0.0}

    def test_votes_that_do_not_all_fit_are_not_begun(self, odd: Odd, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, odd.settings(), {"calls": 4})
        with pytest.raises(Failure, match="4 calls reserved for the attempt, 5 needed"):
            vote(attempt.context, "x", n=5)
        assert not odd.requests

    def test_requests_at_the_same_time_share_what_is_set_aside(self, odd: Odd, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, odd.settings(), {"tokens": 3000, "calls": 5})
        odd.delay = 0.3
        with pytest.raises(Failure, match="the request may use"):
            vote(attempt.context, "x", n=5, max_tokens=100)
        assert len(odd.requests) <= 2


ODD_USAGES = [
    "null",
    "{}",
    '{"prompt_tokens": 11}',
    '{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}',
    '{"prompt_tokens": -11, "completion_tokens": 7, "total_tokens": 7}',
    '{"prompt_tokens": 11, "completion_tokens": -1, "total_tokens": 10}',
    '{"prompt_tokens": NaN, "completion_tokens": 7, "total_tokens": 7}',
    '{"prompt_tokens": Infinity, "completion_tokens": 7, "total_tokens": 7}',
    '{"prompt_tokens": "many", "completion_tokens": "some", "total_tokens": "x"}',
    '{"prompt_tokens": "11", "completion_tokens": "7", "total_tokens": "18"}',
    '{"prompt_tokens": 11.5, "completion_tokens": 7, "total_tokens": 18}',
    '{"prompt_tokens": true, "completion_tokens": 7, "total_tokens": 18}',
    '{"prompt_tokens": [11], "completion_tokens": 7, "total_tokens": 18}',
    '{"prompt_tokens": 1e300, "completion_tokens": 1e300, "total_tokens": 1e300}',
    '{"prompt_tokens": 1000000000000000000000, "completion_tokens": 7, "total_tokens": 18}',
    '{"prompt_tokens": 11, "completion_tokens": 4097, "total_tokens": 4108}',
    '{"prompt_tokens": 90000, "completion_tokens": 7, "total_tokens": 90007}',
    '{"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": -5}}',
    '"none"',
]


class TestUsage:
    @pytest.mark.parametrize("usage", ["", *ODD_USAGES])
    def test_usage_that_cannot_be_believed_is_not_told_and_the_answer_is_kept(
        self, usage: str, odd: Odd, tmp_path: Path
    ) -> None:
        odd.usage = usage
        attempt = Attempt(tmp_path, odd.settings(), {"cost": 1.0, "tokens": 50_000, "calls": 1})
        found = complete(attempt.context, "x")
        assert found.text == "odd"
        assert found.usage == {"input": None, "output": None, "cost": None}
        assert attempt.log.usage == {"calls": 1}

    @pytest.mark.parametrize("usage", ODD_USAGES)
    def test_the_same_holds_for_streams(self, usage: str, odd: Odd, tmp_path: Path) -> None:
        chunk = '{"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [%s]%s}'
        text = '{"index": 0, "delta": {"role": "assistant", "content": "odd"}, "finish_reason": "stop"}'
        lines = [chunk % (text, ""), chunk % ("", f', "usage": {usage}'), "[DONE]"]
        odd.kind, odd.body = "text/event-stream", "".join(f"data: {line}\n\n" for line in lines).encode()
        attempt = Attempt(tmp_path, odd.settings(), {"cost": 1.0, "tokens": 50_000, "calls": 1})
        assert complete(attempt.context, "x", stream=True).text == "odd"
        assert attempt.log.usage == {"calls": 1}

    @pytest.mark.parametrize("model", ["openai", "claude", "gemini", "ollama"])
    @pytest.mark.parametrize("words", ["below zero", "too much", "beyond"])
    def test_the_same_holds_for_every_provider(self, words: str, model: str, models: Models, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, models.settings(), {"cost": 1.0, "tokens": 50_000, "calls": 1})
        assert complete(attempt.context, words, model=model).text == "hm"
        assert attempt.log.usage == {"calls": 1}

    @pytest.mark.parametrize(
        ("document", "tokens"),
        [
            ({"usage": used(11, 7)}, (11, 7)),
            ({"usage": {"input_tokens": 5, "cache_read_input_tokens": 6, "output_tokens": 7}}, (11, 7)),
            ({"usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}}, (11, 7)),
            ({"message": {"usage": {"input_tokens": 11, "output_tokens": 7}}}, (11, 7)),
            ({"usage": {"prompt_tokens": 11, "completion_tokens": 101}}, None),
            ({"usage": {"prompt_tokens": 101, "completion_tokens": 7}}, None),
        ],
    )
    def test_what_goes_in_and_out_is_read_in_the_words_of_each_provider(
        self, document: dict[str, Any], tokens: tuple[int, int] | None
    ) -> None:
        meter = Meter(Tokens(100, 100))
        meter.cleaned(json.dumps(document).encode())
        assert meter.tokens() == tokens


class TestKilled:
    def test_what_a_killed_runner_could_not_tell_is_told_by_the_attempt_that_is_issued_again(
        self, odd: Odd, tmp_path: Path
    ) -> None:
        first = Attempt(tmp_path, odd.settings(), {"cost": 1.0})
        purse = Purse(first.context)
        purse.take(Model("odd", "openai", "m", price=Price(1.0, 2.0)), Tokens(1000, 500))  # and then nothing more
        again = Attempt(tmp_path, odd.settings(), {"cost": 1.0})
        complete(again.context, "x")
        assert again.log.usage == {"calls": 2, "tokens": 1518, "cost": 0.002025}
        third = Attempt(tmp_path, odd.settings(), {"cost": 1.0})
        complete(third.context, "x")
        assert third.log.usage == {"calls": 1, "tokens": 18, "cost": 0.000025}

    def test_an_attempt_that_ended_leaves_no_note(self, odd: Odd, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, odd.settings())
        complete(attempt.context, "x")
        assert Notes(attempt.context).earlier == Noted()
        assert sqlite3.connect(tmp_path / "state" / "journal.db").execute("SELECT * FROM notes").fetchall() == []


class Project:
    """A project of its own, in which the real command runs one plan."""

    def __init__(self, folder: Path, models: dict[str, Any], plan: dict[str, Any]) -> None:
        document = {"network": {"private": ["127.0.0.1"]}, "models": models}
        (folder / "planrunner.yaml").write_text(json.dumps(document))
        (folder / "plan.json").write_text(json.dumps({"plan": "p", "defaults": {"timeout": "4m"}, **plan}))
        (folder / ".planrunner").mkdir()
        self.folder = folder

    def start(self, *arguments: str) -> Started:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PLANRUNNER")}
        return start(*arguments, folder=self.folder, env=environment)

    def run(self, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """Exit code, what was told, and what was said."""
        process = self.start(*(arguments or ("exec", "plan.json", "--json", "--progress", "quiet")))
        out, err = process.communicate(timeout=240)
        return process.returncode, json.loads(out), err


def tasks(number: int, **task: Any) -> list[dict[str, Any]]:
    return [{"id": f"t{each}", "uses": "llm.complete", "with": {"prompt": "x"}, **task} for each in range(number)]


class TestRuns:
    @pytest.mark.slow
    def test_fifty_parallel_calls_never_pass_a_cap_by_one(self, models: Models, tmp_path: Path) -> None:
        mark = f"hello from {tmp_path}"
        several = tasks(50, **{"with": {"prompt": mark}})
        plan = {"budgets": {"calls": 20}, "max_parallel": 50, "on_failure": "continue", "tasks": several}
        _, told, _ = Project(tmp_path, models.settings(), plan).run()
        assert sum(mark in json.dumps(entry) for entry in models.journal()) == 20
        assert told["budget"]["calls"] == {"used": 20, "reserved": 0, "limit": 20}
        assert sum(task["status"] == "completed" for task in told["tasks"].values()) == 20

    @pytest.mark.slow
    def test_money_that_fits_so_many_worst_cases_is_spent_by_no_more(self, odd: Odd, tmp_path: Path) -> None:
        odd.usage = ""  # nobody tells, so that every attempt costs what it set aside
        several = tasks(50, budgets={"cost": 0.02})
        plan = {"budgets": {"cost": 0.3}, "max_parallel": 50, "on_failure": "continue", "tasks": several}
        _, told, _ = Project(tmp_path, odd.settings(), plan).run()
        assert len(odd.requests) == 15
        assert told["budget"]["cost"] == {"used": 0.3, "reserved": 0.0, "limit": 0.3}

    def test_usage_settles_at_what_it_says_or_at_what_was_set_aside(self, odd: Odd, tmp_path: Path) -> None:
        (believed,) = tasks(1, budgets={"cost": 0.05, "tokens": 9000})
        unbelieved = [
            {**believed, "id": f"odd{at}", "with": {"prompt": f"usage {usage}"}}
            for at, usage in enumerate(["", *ODD_USAGES])
        ]
        odd.usage_from_prompt = True
        plan = {"budgets": {"cost": 2, "tokens": 400_000}, "max_parallel": 8, "tasks": [believed, *unbelieved]}
        project = Project(tmp_path, odd.settings(), plan)
        code, told, err = project.run()
        assert code == 0, err
        count = len(unbelieved)
        assert told["budget"]["cost"]["used"] == round(0.05 * count + 0.000025, 9)
        assert told["budget"]["tokens"]["used"] == 9000 * count + 18
        assert told["budget"]["calls"]["used"] == count + 1

    def test_repairs_of_a_task_that_says_nothing_stay_inside_the_cap(self, odd: Odd, tmp_path: Path) -> None:
        shape = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        several = tasks(4, **{"with": {"prompt": "x", "schema": shape}})
        plan = {"budgets": {"calls": 4}, "on_failure": "continue", "tasks": several}
        _, told, _ = Project(tmp_path, odd.settings(), plan).run()
        assert len(odd.requests) == 4 and told["budget"]["calls"]["used"] == 4

    @pytest.mark.slow
    def test_a_request_that_a_killed_runner_had_sent_is_counted_when_the_run_goes_on(
        self, odd: Odd, tmp_path: Path
    ) -> None:
        odd.delay = 600
        plan = {"budgets": {"calls": 3, "cost": 1}, "tasks": tasks(1, budgets={"cost": 0.05})}
        project = Project(tmp_path, odd.settings(), plan)
        killed = project.start("exec", "plan.json")
        while not odd.requests:
            time.sleep(0.05)
        killed.kill()
        killed.communicate()
        odd.delay = 0
        code, told, err = project.run("resume", "last", "--json")
        assert code == 0 and "used 2 of its calls and had set aside 1" in err
        assert told["budget"]["calls"]["used"] == len(odd.requests) == 2
        assert 0.008 < told["budget"]["cost"]["used"] < 0.05

    def test_a_prompt_is_data_and_is_rendered_once(self, odd: Odd, tmp_path: Path) -> None:
        hostile = "{{ 7 * 7 }} {% raw %} {{ env.CANARY }} ${HOME} $(id)"
        plan = {
            "params": {"text": {"type": "string", "default": hostile}},
            "tasks": [
                {"id": "t", "uses": "llm.complete", "with": {"prompt": "{{ params.text }}"}},
                {
                    "id": "u", "needs": ["t"], "uses": "llm.complete",
                    "with": {"messages": [{"role": "user", "content": "so: {{ params.text }}"}]},
                },
            ],
        }  # fmt: skip
        code, _, err = Project(tmp_path, odd.settings(), plan).run()
        assert code == 0, err
        first, second = (json.loads(body)["messages"][-1]["content"] for _, _, body in odd.requests)
        assert (first, second) == (hostile, f"so: {hostile}")
