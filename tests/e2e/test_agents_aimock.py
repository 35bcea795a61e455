"""Agents through the real command line against aimock, a model server that is not ours, as four providers speak."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aimock
import pytest
import workbench

pytest.importorskip("pydantic_ai", reason="the extra `llm` is not installed")

Json = Any

IN, OUT = 40, 8
"""Tokens of each reply, which the server says in the words of every provider."""
USED = dict.fromkeys(("prompt_tokens", "input_tokens", "promptTokenCount"), IN)
USED |= dict.fromkeys(("completion_tokens", "output_tokens", "candidatesTokenCount"), OUT)
USED |= dict.fromkeys(("total_tokens", "totalTokenCount"), IN + OUT)
PLAN = """
plan: mend
tasks:
  - id: fix
    agent: coder
    prompt: Please mend the note.
    schema: {ok: bool, files: [string]}
    retry: {attempts: 1}
"""


def turn(number: int, *calls: tuple[str, Json]) -> Json:
    made = [{"name": name, "arguments": given} for name, given in calls]
    match = {"userMessage": "mend the note", "turnIndex": number}
    return {"match": match, "response": {"toolCalls": made, "usage": USED}}


ANSWERS = [
    {"match": {"model": "busy"}, "response": {"error": {"message": "slow down", "type": "x"}, "status": 503}},
    turn(0, ("files_read", {"path": "note.txt"}), ("files_glob", {"patterns": ["*.txt"]})),
    turn(1, ("files_write", {"path": "note.txt", "content": "mended: 😀 {{ 7 * 7 }}"})),
    turn(2, ("answer", {"ok": True, "files": ["note.txt"]})),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of aimock."""
    answers = tmp_path_factory.mktemp("models") / "answers.json"
    answers.write_text(json.dumps({"fixtures": ANSWERS}))
    with aimock.served(answers) as server:
        yield server.url


def run(folder: Path, url: str, provider: str, **agent: Json) -> Json:
    """The run of the plan, with a model of the provider and a busy one."""
    (folder / "note.txt").write_text("broken")
    (folder / "plan.yaml").write_text(PLAN)
    price = {"input": 1, "output": 2}
    base = url if provider in ("anthropic", "google") else f"{url}/v1"
    model = {"provider": provider, "model": "demo", "base_url": base, "price": price}
    models = {"default": "demo", "demo": model, "busy": {**model, "model": "busy"}}
    agents = {"coder": {"system": "You mend.", "tools": ["files.read", "files.glob", "files.write"], **agent}}
    settings = {"network": {"private": ["127.0.0.1"]}, "models": models, "agents": agents}
    (folder / "planrunner.yaml").write_text(json.dumps(settings))
    ran = workbench.planrunner(folder, "exec", "plan.yaml", "--json")
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("provider", ["openai", "openai-compatible", "anthropic", "google", "ollama"])
def test_an_agent_works_with_each_provider(tmp_path: Path, url: str, provider: str) -> None:
    told = run(tmp_path, url, provider)
    assert told["status"] == "completed", told
    outputs = told["tasks"]["fix"]["outputs"]
    assert (outputs["ok"], outputs["files"], outputs["rounds"]) == (True, ["note.txt"], 3)
    assert (tmp_path / "note.txt").read_text() == "mended: 😀 {{ 7 * 7 }}"
    assert outputs["usage"] == {"input": 3 * IN, "output": 3 * OUT, "cost": pytest.approx(168e-6)}
    assert workbench.planrunner(tmp_path, "replay", "last").returncode == 0


def test_a_model_that_is_busy_is_stood_in_for(tmp_path: Path, url: str) -> None:
    told = run(tmp_path, url, "anthropic", model="busy", fallback=["demo"])
    assert told["status"] == "completed", told
    attempts = told["tasks"]["fix#1/model"]["outputs"]["attempts"]
    assert [(each["model"], each["status"]) for each in attempts] == [("busy", 503), ("demo", 200)]
