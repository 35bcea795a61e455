"""Models and forges of planrunner.yaml name their credential; servers get it, and nothing that is kept holds it."""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import commands
import pytest
from canaries import canary
from workbench import ROOT

from planrunner.safety.project import check_project

KEY = canary("model")


class Server(http.server.ThreadingHTTPServer):
    """Answers requests for vectors, with whatever it was sent to authorise them."""

    seen: list[str]
    status = 200


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append(self.headers["Authorization"])
        vector = {"index": 0, "embedding": [0.5, 0.25], "object": "embedding"}
        good = {
            "data": [vector],
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
            "echo": self.headers["Authorization"],
        }
        bad = {"error": {"message": f"wrong key {self.headers['Authorization']}"}}
        body = json.dumps(good if self.server.status == 200 else bad).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    made.seen = []
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def run(project: Path, server: Server) -> tuple[str, bytes]:
    """What ``show`` tells of a run that asks for vectors, and all that was kept."""
    (project / "planrunner.yaml").write_text(
        f"""
network: {{private: [127.0.0.1]}}
provider_credentials: [{{id: vectors, auth: {{source: env, env_var: VECTORS_KEY}}}}]
models:
  default: m
  m:
    provider: openai-compatible
    model: tiny
    base_url: http://127.0.0.1:{server.server_address[1]}/v1
    price: {{input: 1, output: 1}}
    credential: vectors
"""
    )
    (project / "p.yaml").write_text(
        "plan: p\ntasks:\n  - {id: a, uses: llm.embed, timeout: 2m, with: {texts: [hello], model: m}}\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "VECTORS_KEY": KEY}
    said = ""
    for words in (["exec", "p.yaml"], ["show", "last"], ["events", "last", "--json"]):
        ran = commands.run(*words, folder=project, env=env)
        said += ran.out + ran.err
    return said, b"".join(path.read_bytes() for path in (project / ".planrunner").rglob("*") if path.is_file())


@pytest.mark.parametrize("status", [200, 401])
def test_a_model_is_asked_with_its_credential(tmp_path: Path, server: Server, status: int) -> None:
    server.status = status
    said, kept = run(tmp_path, server)
    assert server.seen[:1] == [f"Bearer {KEY}"], said
    assert ("✔ a completed" in said) == (status == 200), said
    assert KEY not in said
    assert KEY.encode() not in kept


def test_settings_that_name_no_credential_of_the_project_are_found(tmp_path: Path) -> None:
    (tmp_path / "planrunner.yaml").write_text(
        "provider_credentials: [{id: vectors, auth: {source: env, env_var: X}}]\n"
        "forge: {kind: github, credential: vector}\n"
    )
    found = check_project(str(tmp_path))
    assert found is not None
    assert [finding.severity for finding in found.findings] == ["error"]
    assert "`vectors`" in found.findings[0].message + found.findings[0].help
