"""What a collector is told of models and agents, by the conventions for generative AI."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from receivers import receiver
from workbench import ROOT, planrunner

AGENTS = ROOT / "plans" / "agents"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project with the agents and the model of the plans."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shutil.copytree(AGENTS, tmp_path / "agents")
    settings = (AGENTS / "planrunner.yaml").read_text().replace("4020", port)
    (tmp_path / "planrunner.yaml").write_text(settings)
    shutil.rmtree(tmp_path / "agents" / "peers")
    (tmp_path / "agents" / "planrunner.yaml").unlink()
    process = subprocess.Popen([sys.executable, str(AGENTS / "peers" / "model.py"), port], stderr=subprocess.DEVNULL)
    try:
        while socket.socket().connect_ex(("127.0.0.1", int(port))):
            assert process.poll() is None
        yield tmp_path
    finally:
        process.kill()
        process.wait()


def _given(span: Any) -> dict[str, Any]:
    return {item.key: item.value for item in span.attributes}


def test_requests_agents_and_tool_calls_are_told_by_the_conventions(project: Path) -> None:
    with receiver() as collector:
        with (project / "planrunner.yaml").open("a") as settings:
            settings.write(f"\ntelemetry: {{endpoint: '{collector.address}'}}\n")
        ran = planrunner(project, "exec", "agents/analyst.yaml")
        sent = planrunner(project, "telemetry")
        assert sent.returncode == 0, ran.stderr + sent.stderr
        spans = collector.spans()
        metrics = collector.metrics()
    by: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
    for span in spans:
        given = _given(span)
        if "gen_ai.operation.name" in given:
            by.setdefault(given["gen_ai.operation.name"].string_value, []).append((span, given))
    assert {"chat", "invoke_agent"} <= by.keys(), ran.stderr
    span, asked = by["chat"][0]
    assert span.name == f"chat {asked['gen_ai.request.model'].string_value}"
    assert span.kind == 3, "a client"
    assert asked["gen_ai.usage.input_tokens"].int_value > 0
    assert asked["gen_ai.usage.output_tokens"].int_value > 0
    agents = {span.span_id for span, _ in by["invoke_agent"]}
    assert any(span.parent_span_id in agents for span, _ in by["chat"])
    assert metrics["planrunner.tokens"].sum.data_points
    assert metrics["planrunner.tokens_per_task"].histogram.data_points
