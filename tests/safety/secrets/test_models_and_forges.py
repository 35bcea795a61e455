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
from workbench import ROOT, planrunner

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


NAMED = """
models:
  default: fast
  fast: {provider: openai, model: x, key_env: MODEL_KEY, price: {input: 0, output: 0}}
  usual: {provider: anthropic, model: y, price: {input: 0, output: 0}}
forge: {kind: github, token: FORGE_TOKEN}
git: {credentials: {host.example: {username: me, password: GIT_PASSWORD}}}
sql: {databases: {shop: {url_env: SHOP_DATABASE}}}
memory: {project_store: {backend: postgresql, url_env: MEMORY_DATABASE}}
notify:
  - {on: [failed], webhook: {url: "http://127.0.0.1:9/x", secret_env: NOTIFY_SECRET}}
  - {on: [failed], apprise_env: APPRISE_ADDRESS}
telemetry: {endpoint: "http://127.0.0.1:9"}
provider_credentials:
  - {id: key, auth: {source: env, env_var: MODEL_KEY}}
"""
VARIABLES = (
    "MODEL_KEY ANTHROPIC_API_KEY FORGE_TOKEN GIT_PASSWORD SHOP_DATABASE MEMORY_DATABASE NOTIFY_SECRET APPRISE_ADDRESS "
    "OTEL_EXPORTER_OTLP_HEADERS PLANRUNNER_MCP_TOKEN"
).split()


def test_what_settings_name_for_a_secret_is_in_the_environment_of_no_task_that_does_not_declare_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "planrunner.yaml").write_text(NAMED)
    names = "env | cut -d= -f1 | sort >"
    tasks = [
        {"id": "plain", "run": f"{names} plain"},
        {"id": "rounds", "loop": {"max": 1, "tasks": [{"id": "inner", "run": f"{names} inner"}]}},
        {"id": "declares", "secrets": ["key"], "run": f"{names} declares"},
    ]
    plan = {"plan": "p", "defaults": {"timeout": "1m"}, "tasks": tasks}
    (tmp_path / "p.json").write_text(json.dumps(plan))
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        **{name: f"value-of-{name.lower()}" for name in VARIABLES},
        "KEPT": "x",
    }
    done = commands.run("exec", "p.json", folder=tmp_path, env=env)
    assert done.code == 0, done.err
    for file in ("plain", "inner"):
        given = (tmp_path / file).read_text().split()
        assert "KEPT" in given and not set(VARIABLES) & set(given), file
    assert set(VARIABLES) & set((tmp_path / "declares").read_text().split()) == {"MODEL_KEY"}


SETTINGS = """\
models: {default: fast, fast: {provider: openai, model: m, key_env: BASE_KEY}}
profiles:
  ci:
    models: {fast: {provider: openai, model: m, key_env: CI_KEY}}
    provider_credentials: [{id: shop, auth: {source: env, env_var: CI_SHOP}}]
"""


@pytest.mark.parametrize("profile", ["none", "ci"])
def test_variables_of_every_profile_are_in_the_environment_of_no_task(tmp_path: Path, profile: str) -> None:
    (tmp_path / "planrunner.yaml").write_text(SETTINGS)
    (tmp_path / "p.yaml").write_text("plan: p\ntasks: [{id: a, run: env >seen, timeout: 1m}]\n")
    keys = {name: canary(name.lower()) for name in ("BASE_KEY", "CI_KEY", "CI_SHOP")}
    ran = planrunner(tmp_path, "--profile", profile, "exec", "p.yaml", **keys)
    assert ran.returncode == 0, ran.stderr
    seen = (tmp_path / "seen").read_text()
    assert "PATH=" in seen
    assert not [name for name in keys if f"{name}=" in seen]
