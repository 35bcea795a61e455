"""``llm.embed``: vectors of models, remembered by content, and vectors out of words alone."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llm_parts import CANARY, Attempt, Models, Odd

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.llm.embed import embed, vector


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", CANARY)


def near(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


class TestHash:
    def test_texts_that_share_words_lie_nearer(self) -> None:
        asked, close, far = map(
            vector, ("how to roll back a release", "rolling back releases", "the cat sat on the mat")
        )
        assert near(asked, close) > 3 * abs(near(asked, far))

    def test_the_vector_is_the_same_everywhere(self) -> None:
        assert vector("Grüße, Welt", 6) == [0.264906, 0.529813, 0.0, 0.794719, 0.132453, 0.0]

    @given(st.text(max_size=60), st.integers(1, 300))
    def test_any_text_has_a_vector_of_length_one_or_of_nothing(self, text: str, dimensions: int) -> None:
        found = vector(text, dimensions)
        length = math.sqrt(math.fsum(each * each for each in found))
        assert len(found) == dimensions and (length == 0 or abs(length - 1) < 0.001)

    def test_it_costs_nothing_and_needs_no_project(self, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, {}, {"cost": 0.0, "tokens": 0, "calls": 0})
        found = embed(attempt.context, ["one text", "another"], dimensions=16)
        assert (found.dimensions, len(found.vectors), found.model) == (16, 2, "hash")
        assert attempt.log.usage == {"cost": 0, "tokens": 0, "calls": 0}
        assert json.loads(attempt.content(found.sha256)) == found.vectors


class TestModels:
    @pytest.mark.parametrize("model", ["openai", "ollama"])
    def test_vectors_come_in_the_order_of_the_texts_in_batches(
        self, model: str, models: Models, tmp_path: Path
    ) -> None:
        attempt = Attempt(tmp_path, models.settings())
        texts = ["first", "second", "third", "first", "fourth"]
        found = embed(attempt.context, texts, model=model, batch=2)
        assert found.vectors[0] == found.vectors[3] != found.vectors[1]
        assert (len(found.vectors), len(found.attempts), found.cached) == (5, 2, 0)
        alone = embed(Attempt(tmp_path, models.settings()).context, "third", model=model)
        assert alone.vectors == [found.vectors[2]] and alone.cached == 1

    def test_what_was_asked_once_is_remembered_and_costs_nothing(self, odd: Odd, tmp_path: Path) -> None:
        odd.body = b'{"data": [{"index": 0, "embedding": [1, 0.5]}], "usage": {"prompt_tokens": 3, "total_tokens": 3}}'
        attempt = Attempt(tmp_path, odd.settings())
        assert embed(attempt.context, "a text", model="odd").vectors == [[1.0, 0.5]]
        assert attempt.log.usage == {"calls": 1, "tokens": 3, "cost": 0.000003}
        again = Attempt(tmp_path, odd.settings(), {"cost": 0.0, "calls": 0})
        found = embed(again.context, "a text", model="odd")
        assert (found.vectors, found.cached, len(odd.requests)) == ([[1.0, 0.5]], 1, 1)
        assert again.log.usage == {"calls": 0, "tokens": 0, "cost": 0.0}

    def test_a_memory_that_was_damaged_is_asked_for_again(self, odd: Odd, tmp_path: Path) -> None:
        odd.body = b'{"data": [{"index": 0, "embedding": [1, 0.5]}], "usage": {"prompt_tokens": 3}}'
        embed(Attempt(tmp_path, odd.settings()).context, "a text", model="odd")
        (file,) = (tmp_path / "state" / "cache").rglob("*.json")
        for damage in ("", "[1, ", "[]", '["x"]', "[NaN]"):
            again = Attempt(tmp_path, odd.settings())
            file.write_text(again.context.vouched(f"vector {file.stem}", damage))
            assert embed(again.context, "a text", model="odd").vectors == [[1.0, 0.5]]
        assert len(odd.requests) == 6

    @pytest.mark.parametrize(
        "body",
        [
            b"[]", b"{}", b'{"data": []}', b'{"data": [{"index": 0}]}', b'{"data": [{"index": 0, "embedding": []}]}',
            b'{"data": [{"index": 0, "embedding": ["x"]}]}', b'{"data": [{"index": 1, "embedding": [1]}]}',
            b'{"data": [{"index": 0, "embedding": [NaN]}]}', b'{"data": [{"embedding": [1]}, {"embedding": [2]}]}', b"no",
        ],
    )  # fmt: skip
    def test_a_reply_that_holds_no_vectors_is_a_passing_failure(self, body: bytes, odd: Odd, tmp_path: Path) -> None:
        odd.body = body
        with pytest.raises(Failure, match="cannot be read") as raised:
            embed(Attempt(tmp_path, odd.settings()).context, "a text", model="odd")
        assert raised.value.failure == "transient"

    def test_a_usage_that_is_missing_is_not_told(self, odd: Odd, tmp_path: Path) -> None:
        odd.body = b'{"data": [{"index": 0, "embedding": [1]}]}'
        attempt = Attempt(tmp_path, odd.settings(), {"cost": 0.1})
        assert embed(attempt.context, "a text", model="odd").usage == {"input": None, "output": None, "cost": None}
        assert attempt.log.usage == {"calls": 1}

    def test_a_provider_without_vectors_is_named(self, models: Models, tmp_path: Path) -> None:
        with pytest.raises(Failure, match="`claude` is of anthropic; vectors come from openai"):
            embed(Attempt(tmp_path, models.settings()).context, "x", model="claude")

    def test_batches_that_do_not_all_fit_are_not_begun(self, odd: Odd, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, odd.settings(), {"calls": 1})
        with pytest.raises(Failure, match="1 call reserved for the attempt, 2 needed"):
            embed(attempt.context, ["a", "b"], model="odd", batch=1)
        assert not odd.requests

    @pytest.mark.parametrize("inputs", [{"batch": 0}, {"batch": 257}, {"dimensions": 0}])
    def test_sizes_are_bounded(self, inputs: dict[str, Any], tmp_path: Path) -> None:
        with pytest.raises(Failure, match="`batch` is 1 to 256"):
            embed(Attempt(tmp_path, {}).context, "x", **inputs)

    def test_large_results_are_kept_as_an_artifact_alone(self, tmp_path: Path) -> None:
        attempt = Attempt(tmp_path, {})
        found = embed(attempt.context, [f"text {number} of many" for number in range(40)], dimensions=2000)
        assert found.vectors == [] and found.dimensions == 2000
        assert len(json.loads(attempt.content(found.sha256))) == 40
