"""``llm.complete`` against servers that speak as the providers do."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from llm_parts import CANARY, PERSON, Attempt, Models, Odd

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.llm.complete import complete
from planrunner.extras import installing

pytest.importorskip("pydantic_ai", reason="the extra `llm` is not installed")

PROVIDERS = ["openai", "claude", "gemini", "ollama"]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", CANARY)


@pytest.mark.parametrize("model", PROVIDERS)
class TestEveryProvider:
    def test_answers_with_text_and_tells_what_it_used(self, model: str, models: Models, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, models.settings())
        found = complete(attempt.context, "hello", model=model, system="be brief", temperature=0.2)
        assert found.text == "Hi there, friend of the tests!"
        assert (found.model, found.finish_reason) == (model, "stop")
        assert found.usage == {"input": 11, "output": 7, "cost": 0.000025}
        assert attempt.log.usage == {"calls": 1, "tokens": 18, "cost": 0.000025}
        assert [(each["model"], each["status"], each["failure"]) for each in found.attempts] == [(model, 200, "")]

    def test_writes_its_text_into_the_log_as_it_comes(self, model: str, models: Models, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, models.settings())
        found = complete(attempt.context, "tell a tale", model=model, stream=True)
        assert (
            attempt.log.out.decode() == found.text + "\n" == "Once upon a time there was a plan that ran to its end.\n"
        )
        assert len([piece for piece in attempt.log.pieces if piece.strip()]) > 1
        assert found.usage == {"input": 12, "output": 14, "cost": 0.00004}

    def test_gives_data_that_fits_a_schema(self, model: str, models: Models, tmp_path: Path) -> None:
        found = complete(Attempt(tmp_path, models.settings()).context, "a person", model=model, schema=PERSON)
        assert found.json == {"name": "Ada", "age": 36}

    def test_says_which_tool_it_wants_called_and_takes_the_result(
        self, model: str, models: Models, tmp_path: Path
    ) -> None:
        context = Attempt(tmp_path, models.settings()).context
        tools = [{"name": "get_weather", "description": "d", "schema": {"properties": {"city": {"type": "string"}}}}]
        found = complete(context, "the weather in Paris", model=model, tools=tools)
        (call,) = found.tool_calls
        assert (call["name"], call["arguments"], bool(call["id"])) == ("get_weather", {"city": "Paris"}, True)
        turns = [
            {"role": "user", "content": "the weather in Paris"},
            {"role": "assistant", "content": "", "tool_calls": found.tool_calls},
            {"role": "tool", "tool_call_id": call["id"], "name": "get_weather", "content": "rain"},
        ]
        assert complete(context, messages=turns, model=model, tools=tools).text == "It rains in Paris."

    def test_mends_an_answer_that_does_not_fit(self, model: str, models: Models, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, models.settings())
        found = complete(attempt.context, "to be mended", model=model, schema=PERSON)
        assert found.json == {"name": "Ada", "age": 36}
        assert len(found.attempts) == 2 and attempt.log.usage["calls"] == 2
        assert found.usage == {"input": 50, "output": 18, "cost": 0.000086}
        assert b"/age: expected integer, found string" in attempt.log.err
        assert "/age: expected integer, found string" in attempt.content(found.request_sha256).decode()

    def test_keeps_request_and_reply_by_their_digest_without_the_key(
        self, model: str, models: Models, tmp_path: Path
    ) -> None:
        attempt = Attempt(tmp_path, models.settings())
        found = complete(attempt.context, "hello", model=model)
        assert attempt.kept() == ["request-1.json", "reply-1.json"]
        for digest, part in ((found.request_sha256, "hello"), (found.reply_sha256, "friend of the tests")):
            content = attempt.content(digest)
            assert part in content.decode() and CANARY not in content.decode()
            assert hashlib.sha256(content).hexdigest() == digest


def at_most(out: int, tokens: int) -> dict[str, float]:
    """What a request counts as whose reply was lost: its bytes and an allowance in, and the longest reply out."""
    assert 1100 < tokens - out < 1600
    return {"calls": 1, "tokens": tokens, "cost": round((tokens - out) / 1e6 + 2 * out / 1e6, 9)}


class TestFailing:
    def test_models_that_fail_for_a_while_are_replaced_in_their_order(self, models: Models, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, models.settings())
        found = complete(attempt.context, "hello", model="busy")
        assert found.text and found.model == "claude"
        assert [(each["model"], each["status"], each["failure"]) for each in found.attempts] == [
            ("busy", 429, "transient"),
            ("down", 500, "transient"),
            ("claude", 200, ""),
        ]
        assert "slow down" in found.attempts[0]["reason"] and "oops" in found.attempts[1]["reason"]
        assert b"asking `down` instead" in attempt.log.err
        assert attempt.log.usage == {"calls": 3, "tokens": 18, "cost": 0.000025}

    @pytest.mark.parametrize("provider", PROVIDERS)
    @pytest.mark.parametrize(
        ("name", "said", "lost"),
        [
            ("busy", "answered 429: slow down", False),
            ("down", "answered 500: oops", False),
            ("cut", r"broke the connection: .*; \$0\.00\d+ assumed for it$", True),
            ("garbled", r"sent a reply that cannot be read: .*; \$0\.00\d+ assumed for it$", True),
        ],
    )
    def test_what_may_pass_is_a_transient_failure(
        self, name: str, said: str, lost: bool, provider: str, models: Models, tmp_path: Path
    ) -> None:
        attempt = Attempt(tmp_path, {"m": {**models.settings()[provider], "model": name}}, {"cost": 1.0})
        with pytest.raises(Failure, match=said) as raised:
            complete(attempt.context, "hello")
        assert raised.value.failure == "transient"
        used = attempt.log.usage
        assert used == (at_most(4096, used["tokens"]) if lost else {"calls": 1, "tokens": 0, "cost": 0.0})

    @pytest.mark.parametrize("model", PROVIDERS)
    def test_a_stream_that_breaks_off_is_transient_and_counts_as_the_worst_it_can_have_used(
        self, model: str, models: Models, tmp_path: Path
    ) -> None:
        attempt = Attempt(tmp_path, models.settings())
        with pytest.raises(Failure, match="bro") as raised:
            complete(attempt.context, "cut short", model=model, stream=True)
        assert raised.value.failure == "transient"
        assert attempt.log.usage == at_most(4096, attempt.log.usage["tokens"])

    def test_a_busy_model_is_asked_once_and_says_when_to_come_back(self, odd: Odd, tmp_path: Path) -> None:
        odd.status, odd.headers = 429, {"retry-after": "7"}
        odd.body = b'{"error": {"message": "busy"}}'
        with pytest.raises(Failure, match="answered 429: busy; it asks to wait 7 s") as caught:
            complete(Attempt(tmp_path, odd.settings()).context, "x")
        assert caught.value.retry_after == 7
        assert len(odd.requests) == 1

    @pytest.mark.parametrize(("status", "lost"), [(500, False), (503, False), (529, False), (502, True), (504, True)])
    def test_an_error_of_the_provider_costs_nothing_and_one_on_the_way_the_worst(
        self, status: int, lost: bool, odd: Odd, tmp_path: Path
    ) -> None:
        odd.status, odd.body = status, b"{}"
        attempt = Attempt(tmp_path, odd.settings())
        with pytest.raises(Failure, match=f"answered {status}"):
            complete(attempt.context, "x")
        used = attempt.log.usage
        assert used == (at_most(4096, used["tokens"]) if lost else {"calls": 1, "tokens": 0, "cost": 0.0})

    @pytest.mark.parametrize("provider", ["openai-compatible", "anthropic", "google", "ollama"])
    def test_a_reply_that_holds_no_answer_is_no_answer(self, provider: str, odd: Odd, tmp_path: Path) -> None:
        odd.body = b'{"hello": "world"}'
        with pytest.raises(Failure, match="sent a reply that cannot be read") as raised:
            complete(Attempt(tmp_path, odd.settings(provider=provider)).context, "x")
        assert raised.value.failure == "transient"

    @pytest.mark.parametrize(
        ("provider", "name"),
        [("openai", "max_completion_tokens"), ("openai-compatible", "max_tokens"), ("ollama", "max_tokens")],
    )
    def test_every_request_bounds_its_reply(self, provider: str, name: str, odd: Odd, tmp_path: Path) -> None:
        complete(Attempt(tmp_path, odd.settings(provider=provider)).context, "x")
        assert json.loads(odd.requests[0][2])[name] == 4096

    def test_a_wrong_request_is_not_tried_elsewhere(self, odd: Odd, tmp_path: Path) -> None:
        odd.status, odd.body = 400, b'{"error": {"message": "no such model"}}'
        settings = odd.settings(fallback=["other"]) | {"default": "odd", "other": odd.settings()["odd"]}
        with pytest.raises(Failure, match="answered 400: no such model") as raised:
            complete(Attempt(tmp_path, settings).context, "x")
        assert raised.value.failure == "logic" and len(odd.requests) == 1

    def test_a_server_that_is_not_there_costs_nothing(self, tmp_path: Path) -> None:
        model = {"provider": "openai-compatible", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
        attempt = Attempt(tmp_path, {"gone": {**model, "price": {"input": 1, "output": 1}}})
        said = "cannot be reached: .*; no server answers at its `base_url` in planrunner.yaml"
        with pytest.raises(Failure, match=said) as raised:
            complete(attempt.context, "x")
        assert raised.value.failure == "transient"
        assert attempt.log.usage == {"calls": 1, "tokens": 0, "cost": 0.0}

    def test_an_address_that_is_not_allowed_is_refused(self, tmp_path: Path) -> None:
        model = {"provider": "openai-compatible", "model": "m", "base_url": "http://127.0.0.2:9/v1"}
        with pytest.raises(Failure, match=r"127\.0\.0\.2") as raised:
            complete(Attempt(tmp_path, {"inside": model}).context, "x")
        assert (raised.value.failure, raised.value.rule) == ("policy", "network.private")

    def test_a_redirect_is_not_followed(self, odd: Odd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        odd.status, odd.headers, odd.body = 307, {"location": f"{odd.url}/elsewhere"}, b""
        with pytest.raises(Failure, match="answered 307") as raised:
            complete(Attempt(tmp_path, odd.settings(key_env="CANARY")).context, "x")
        assert raised.value.failure == "logic" and len(odd.requests) == 1

    def test_a_model_that_takes_too_long_is_given_up(self, odd: Odd, tmp_path: Path) -> None:
        odd.delay = 600
        with pytest.raises(Failure, match=r"gave no answer within 0\.5 s|took too long|timed out"):
            complete(Attempt(tmp_path, odd.settings(timeout="500ms")).context, "x")

    def test_a_request_ends_soon_after_the_attempt_is_stopped(self, odd: Odd, tmp_path: Path) -> None:
        odd.delay = 600
        attempt = Attempt(tmp_path, odd.settings())

        def stop_once_asked() -> None:
            while not odd.requests:
                time.sleep(0.01)
            attempt.stopped = True

        threading.Thread(target=stop_once_asked, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(Failure):
            complete(attempt.context, "x")
        assert time.monotonic() - began < 240
        assert attempt.log.usage == at_most(4096, attempt.log.usage["tokens"])

    def test_a_reply_without_end_is_given_up(self, odd: Odd, tmp_path: Path) -> None:
        odd.body = b"x" * (17 << 20)
        with pytest.raises(Failure, match="larger than 16 MiB"):
            complete(Attempt(tmp_path, odd.settings()).context, "x")


class TestShapes:
    @pytest.mark.parametrize("repairs", [0, 1, 2])
    def test_repairs_are_bounded(self, repairs: int, odd: Odd, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, odd.settings())
        with pytest.raises(Failure, match="does not fit the schema: /: it is not JSON") as raised:
            complete(attempt.context, "x", schema=PERSON, repairs=repairs)
        assert raised.value.failure == "schema" and raised.value.outputs["text"] == "odd"
        assert attempt.log.usage["calls"] == len(odd.requests) == repairs + 1

    def test_repairs_end_where_no_call_is_left(self, models: Models, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, models.settings(), {"calls": 1})
        with pytest.raises(Failure, match=r"does not fit.*set `budgets: \{calls: 2\}`") as raised:
            complete(attempt.context, "to be mended", schema=PERSON)
        assert raised.value.failure == "schema" and attempt.log.usage["calls"] == 1

    def test_a_fenced_answer_is_read(self, models: Models, tmp_path: Path) -> None:
        found = complete(Attempt(tmp_path, models.settings()).context, "fenced", schema=PERSON)
        assert found.json == {"name": "Ada", "age": 36}

    def test_where_a_provider_has_no_structured_output_the_words_ask_for_it(
        self, models: Models, tmp_path: Path
    ) -> None:
        attempt = Attempt(tmp_path, models.settings())
        native = complete(attempt.context, "a person", schema=PERSON)
        prompted = complete(attempt.context, "a person", model="prompted", schema=PERSON)
        assert native.json == prompted.json
        assert "json_schema" in json.loads(attempt.content(native.request_sha256))["response_format"]
        sent = json.loads(attempt.content(prompted.request_sha256))
        assert "response_format" not in sent and '"integer"' in json.dumps(sent["messages"]).replace("\\", "")

    @pytest.mark.parametrize("schema", [{"type": "array", "items": {"type": "integer"}}, {"enum": ["yes", "no"]}])
    def test_a_schema_of_something_else_than_an_object_is_asked_for_in_words(
        self, schema: dict[str, Any], odd: Odd, tmp_path: Path
    ) -> None:
        with pytest.raises(Failure, match="does not fit the schema"):
            complete(Attempt(tmp_path, odd.settings()).context, "x", schema=schema, repairs=0)
        assert "response_format" not in json.loads(odd.requests[0][2])


class TestOddReplies:
    """What nothing can hold does not lose an answer that is paid for."""

    @staticmethod
    def reply(content: str | None, **message: Any) -> bytes:
        choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}
        return json.dumps(
            {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        ).encode()

    def test_halves_of_signs_are_joined_or_replaced(self, odd: Odd, tmp_path: Path) -> None:
        odd.body = self.reply("a\ud800b \ud83d\ude00")
        assert complete(Attempt(tmp_path, odd.settings()).context, "hello").text == "a\ufffdb \U0001f600"

    def test_halves_of_signs_come_through_a_stream(self, odd: Odd, tmp_path: Path) -> None:
        def event(text: str) -> bytes:
            choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
            return b"data: " + json.dumps(chunk).encode() + b"\n\n"

        odd.kind, odd.body = "text/event-stream", event("a\ud83d") + event("\ude00b") + b"data: [DONE]\n\n"
        attempt = Attempt(tmp_path, odd.settings())
        assert complete(attempt.context, "hello", stream=True).text == "a\U0001f600b"
        assert attempt.log.out == b"a??b\n"

    @pytest.mark.parametrize("value", ['{"a": 1e999}', '{"a": "\\ud800"}', '{"a": ' + "[" * 200 + "]" * 200 + "}"])
    def test_data_that_nothing_can_hold_does_not_fit(self, odd: Odd, tmp_path: Path, value: str) -> None:
        odd.body = self.reply(value)
        with pytest.raises(Failure, match="does not fit the schema") as failed:
            complete(Attempt(tmp_path, odd.settings()).context, "hello", schema={"type": "object"}, repairs=1)
        assert (failed.value.failure, len(odd.requests)) == ("schema", 2)

    def test_arguments_that_nothing_can_hold_are_unreadable(self, odd: Odd, tmp_path: Path) -> None:
        function = {"name": "f", "arguments": '{"a": 1e999}'}
        odd.body = self.reply(None, tool_calls=[{"id": "c", "type": "function", "function": function}])
        found = complete(Attempt(tmp_path, odd.settings()).context, "hello", tools=[{"name": "f"}])
        assert found.tool_calls[0]["arguments"] == {"unreadable": '{"a": 1e999}'}


class TestSecrets:
    def test_the_key_goes_to_the_provider_and_nowhere_else(
        self, odd: Odd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
        monkeypatch.setenv("OPENAI_ORG_ID", "org-of-somebody-else")
        complete(Attempt(tmp_path, odd.settings(key_env="CANARY")).context, "x")
        _, headers, body = odd.requests[0]
        assert headers["authorization"] == f"Bearer {CANARY}" and CANARY.encode() not in body
        assert "somebody-else" not in json.dumps(headers)

    @pytest.mark.parametrize(
        ("provider", "header", "value"),
        [
            ("anthropic", "x-api-key", CANARY),
            ("google", "x-goog-api-key", CANARY),
            ("ollama", "authorization", f"Bearer {CANARY}"),
        ],
    )
    def test_every_provider_gets_it_its_own_way(
        self, provider: str, header: str, value: str, odd: Odd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "of-somebody-else")
        odd.status, odd.body = 400, b"{}"
        (tmp_path / "key").write_text(CANARY + "\n")
        with pytest.raises(Failure):
            complete(Attempt(tmp_path, odd.settings(provider=provider, key_file=str(tmp_path / "key"))).context, "x")
        path, headers, _ = odd.requests[0]
        assert headers[header] == value and CANARY not in path and "somebody-else" not in json.dumps(headers)

    def test_without_a_key_none_is_sent(self, odd: Odd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", CANARY)
        complete(Attempt(tmp_path, odd.settings()).context, "x")
        assert "authorization" not in odd.requests[0][1]

    def test_a_key_that_is_missing_is_named_by_its_variable(self, odd: Odd, tmp_path: Path) -> None:
        with pytest.raises(Failure, match="takes its key from the variable NOT_SET, which is not set") as raised:
            complete(Attempt(tmp_path, odd.settings(key_env="NOT_SET")).context, "x")
        assert raised.value.failure == "policy"

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("model", ["openai", "claude", "gemini"])
    def test_a_server_that_says_the_key_is_not_quoted(
        self, model: str, stream: bool, models: Models, tmp_path: Path
    ) -> None:
        attempt = Attempt(tmp_path, models.settings())
        found = complete(attempt.context, "echo", model=model, stream=stream)
        assert found.text == "the key is ***"
        assert_without_key(attempt, found)

    def test_an_error_that_says_the_key_is_not_quoted(self, odd: Odd, tmp_path: Path) -> None:
        odd.status, odd.body = 401, json.dumps({"error": {"message": f"wrong key {CANARY}"}}).encode()
        attempt = Attempt(tmp_path, odd.settings(key_env="CANARY"))
        with pytest.raises(Failure, match=r"answered 401: wrong key \*\*\*") as raised:
            complete(attempt.context, "x")
        assert_without_key(attempt, raised.value.outputs)

    @pytest.mark.parametrize("key", [f"{CANARY}\nmore", f"{CANARY}\x01more", f"{CANARY}é"])
    def test_a_key_that_no_header_can_carry_is_refused_untold_and_costs_nothing(
        self, odd: Odd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
    ) -> None:
        monkeypatch.setenv("ODD_KEY", key)
        (tmp_path / "key").write_text(key)
        for where in ({"key_env": "ODD_KEY"}, {"key_file": str(tmp_path / "key")}):
            attempt = Attempt(tmp_path, odd.settings(**where))
            with pytest.raises(Failure, match="the key of `odd` is not one line of ASCII text") as failed:
                complete(attempt.context, "hello")
            assert (failed.value.failure, odd.requests) == ("policy", [])
            assert attempt.log.usage == {"calls": 0, "tokens": 0, "cost": 0}
            assert CANARY not in f"{failed.value}{failed.value.outputs}{attempt.log.err!r}"

    def test_a_prompt_that_holds_the_key_is_kept_without_it(self, odd: Odd, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, odd.settings(key_env="CANARY"))
        assert_without_key(attempt, complete(attempt.context, f"is {CANARY} my key?"))


def assert_without_key(attempt: Attempt, found: object) -> None:
    texts = [repr(found), attempt.log.out.decode(), attempt.log.err.decode()]
    assert not [text for text in texts if CANARY in text]
    files = [path for path in (attempt.folder / "state").rglob("*") if path.is_file()]
    assert files and not [path for path in files if CANARY.encode() in path.read_bytes()]


class TestInputs:
    @pytest.mark.parametrize(
        ("inputs", "said"),
        [
            ({}, "the request is empty"),
            ({"messages": [{"role": "boss", "content": "x"}]}, r"`messages\[0\]` has no `role`"),
            ({"messages": [{"role": "tool", "content": "x"}]}, "has no `tool_call_id`"),
            ({"prompt": "x", "tools": [{"description": "d"}]}, r"`tools\[0\]` has no `name`"),
            ({"prompt": "x", "tools": [{"name": "t", "schema": {"type": "array"}}]}, "describes no object"),
            ({"prompt": "x", "repairs": 6}, "`repairs` is 6; it is 0 to 5"),
            ({"prompt": "x", "max_tokens": 0}, "`max_tokens` is 0; it is at least 1"),
            ({"prompt": "x", "model": "od"}, "no model `od` under `models`: did you mean `odd`"),
        ],
    )
    def test_what_cannot_be_asked_is_refused_before_anything_is_spent(
        self, inputs: dict[str, Any], said: str, odd: Odd, tmp_path: Path
    ) -> None:
        attempt = Attempt(tmp_path, odd.settings(), {"cost": 1.0, "calls": 1})
        with pytest.raises(Failure, match=said):
            complete(attempt.context, **inputs)
        assert not odd.requests and attempt.log.usage == {"cost": 0.0, "tokens": 0, "calls": 0}

    def test_parameters_of_the_model_hold_until_the_task_says_otherwise(self, odd: Odd, tmp_path: Path) -> None:
        settings = odd.settings(parameters={"temperature": 0.1, "seed": 7, "stop": "END", "max_tokens": 99})
        attempt = Attempt(tmp_path, settings)
        complete(attempt.context, "x")
        complete(attempt.context, "x", temperature=0.9, max_tokens=5)
        first, second = (json.loads(body) for _, _, body in odd.requests)
        assert (first["temperature"], first["seed"], first["stop"]) == (0.1, 7, ["END"])
        assert first.get("max_tokens", first.get("max_completion_tokens")) == 99
        assert second["temperature"] == 0.9 and second.get("max_tokens", second.get("max_completion_tokens")) == 5


def test_without_the_library_the_extra_is_named_and_nothing_is_spent(
    odd: Odd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planrunner.capabilities.llm.asker._loaded", set())
    for name in [name for name in sys.modules if name.partition(".")[0] == "pydantic_ai"]:
        monkeypatch.setitem(sys.modules, name, None)
    attempt = Attempt(tmp_path, odd.settings())
    with pytest.raises(Failure, match=re.escape(f"llm needs the extra `llm`: {installing('llm')} (")):
        complete(attempt.context, "x")
    assert not odd.requests and attempt.log.usage == {"calls": 0, "tokens": 0, "cost": 0.0}
