"""``models:`` of planrunner.yaml: what it may say, and what is said about what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest
from llm_parts import Attempt

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.llm.models import Price, chosen
from planrunner.safety.project import check_project

ONE = {"provider": "openai", "model": "gpt-demo"}


def findings(folder: Path, models: str) -> list[tuple[str, str, str]]:
    """Code, place and message of every finding."""
    (folder / "planrunner.yaml").write_text(f"models:\n{models}")
    checked = check_project(str(folder))
    assert checked is not None
    found = []
    for each in checked.findings:
        line, column = checked.source.place(each.span.start)
        found.append((each.code, f"{line}:{column}", each.message))
    return found


class TestSchema:
    def test_a_full_section_is_sound(self, tmp_path: Path) -> None:
        text = """\
  default: fast
  judge: careful
  fast: {provider: openai, model: gpt-5-mini, key_env: OPENAI_API_KEY, fallback: [careful]}
  careful:
    provider: anthropic
    model: claude-sonnet-4-5
    base_url: https://gateway.example.com/anthropic
    key_file: ~/.keys/anthropic
    parameters: {temperature: 0.2, max_tokens: 800, top_p: 0.9, seed: 7, stop: [END]}
    price: {input: 3, output: $15}
    timeout: 1m30s
    structured: prompted
  vectors: {provider: ollama, model: nomic-embed-text, dimensions: 768, price: {input: 0, output: 0}}
"""
        assert findings(tmp_path, text) == []

    @pytest.mark.parametrize(
        ("line", "code", "at", "message"),
        [
            ("a: {provider: opnai, model: m}", "PLAN006", "opnai", "did you mean `openai`?"),
            ("a: {provider: openai}", "PLAN004", "provider", "needs the key `model`"),
            (
                "a: {provider: openai, model: m, modle: x}",
                "PLAN003",
                "modle",
                "has no key `modle`, did you mean `model`?",
            ),
            ("a: {provider: openai, model: m, key_env: sk-123}", "PLAN006", "sk-123", "`key_env` cannot be"),
            (
                "a: {provider: openai, model: m, price: {input: 1}}",
                "PLAN004",
                "input",
                "`price` needs the key `output`",
            ),
            ("a: {provider: openai, model: m, price: {input: x, output: 1}}", "PLAN006", "x,", "`input` cannot be"),
            ("a: {provider: openai, model: m, timeout: soon}", "PLAN006", "soon", "`timeout` cannot be `soon`"),
            (
                "a: {provider: openai, model: m, base_url: 'https://u:p@h/v1'}",
                "PLAN006",
                "'https",
                "`base_url` cannot be",
            ),
            ("a: {provider: openai, model: m, parameters: {temprature: 1}}", "PLAN003", "temp", "mean `temperature`?"),
            ("a: {provider: openai, model: m, parameters: {temperature: 3}}", "PLAN006", "3", "temperature"),
        ],
    )
    def test_every_fault_has_its_place(self, line: str, code: str, at: str, message: str, tmp_path: Path) -> None:
        ((found_code, place, found),) = findings(tmp_path, f"  {line}\n")
        assert (found_code, place) == (code, f"2:{line.index(at) + 3}"), found
        assert message in found


class TestChoosing:
    def test_the_default_and_what_stands_in_for_it(self, tmp_path: Path) -> None:
        section = {"default": "a", "a": {**ONE, "fallback": ["b", "c"]}, "b": ONE, "c": {**ONE, "fallback": ["a"]}}
        assert [model.name for model in chosen(Attempt(tmp_path, section).context, "")] == ["a", "b", "c"]

    def test_a_single_model_needs_no_default(self, tmp_path: Path) -> None:
        assert chosen(Attempt(tmp_path, {"only": ONE}).context, "")[0].name == "only"

    def test_prices_are_dollars_for_a_million_tokens(self, tmp_path: Path) -> None:
        section = {"a": {**ONE, "price": {"input": "$0.15", "output": 0.6}}}
        assert chosen(Attempt(tmp_path, section).context, "a")[0].price == Price(0.15, 0.6)

    def test_the_usual_key_goes_to_the_usual_address_alone(self, tmp_path: Path) -> None:
        section = {"home": ONE, "away": {**ONE, "base_url": "https://gateway.test/v1/"}}
        context = Attempt(tmp_path, section).context
        assert chosen(context, "home")[0].key_env == "OPENAI_API_KEY"
        away = chosen(context, "away")[0]
        assert (away.key_env, away.base_url) == ("", "https://gateway.test/v1")

    @pytest.mark.parametrize(
        ("section", "name", "said"),
        [
            ({}, "", "no model is configured: add to planrunner.yaml, for example, `models: {default: fast"),
            ({}, "fast", "no model `fast`: planrunner.yaml configures none"),
            ({"a": ONE, "b": ONE}, "", r"no model is named, and planrunner.yaml has no `models: default:` \(a, b\)"),
            ({"fast": ONE}, "fsat", "no model `fsat` under `models`: did you mean `fast`"),
            ({"default": "a", "a": ONE}, "default", "no model `default`"),
            ({"a": {**ONE, "fallback": ["gone"]}}, "a", "names the model `gone`, which does not exist"),
            ({"a": {**ONE, "fallback": ["a"]}}, "a", "has a `fallback` that is itself"),
            ({"a": {"provider": "openai-compatible", "model": "m"}}, "a", "needs a `base_url`"),
        ],
    )
    def test_what_cannot_be_chosen_is_said_with_what_to_write(
        self, section: dict[str, object], name: str, said: str, tmp_path: Path
    ) -> None:
        with pytest.raises(Failure, match=said):
            chosen(Attempt(tmp_path, section).context, name)
