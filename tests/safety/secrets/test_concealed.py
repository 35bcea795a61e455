"""Keys, tokens and passwords that no credential is: the run's one redaction takes them out of whatever it keeps or shows,
whichever way they come back."""

from __future__ import annotations

import base64
import http.server
import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import commands
import pytest
from canaries import canary
from workbench import ROOT

from planrunner.redaction import lines, spellings

pytestmark = pytest.mark.prints_environment
BEARER = canary("bearer")
HEADER = canary("header")
PASSWORD = f"p4ss:{canary('password')}"
TOKEN = canary("forge")
KEY = canary("model")
DATABASE = canary("database")
SECRETS = (BEARER, HEADER, PASSWORD, TOKEN, KEY, DATABASE)
ENV = {
    "BEARER": BEARER,
    "HEADER": HEADER,
    "BASIC": f"me:{PASSWORD}",
    "FORGE_TOKEN": TOKEN,
    "MODEL_KEY": KEY,
    "GIT_PASSWORD": PASSWORD,
    "DATABASE": f"postgresql://me:{quote(DATABASE, safe='')}@127.0.0.1:1/none",
}


class Echo(http.server.BaseHTTPRequestHandler):
    """Tells in many ways what it was sent to authorise a request."""

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        given = " ".join(str(self.headers[name]) for name in ("Authorization", "X-Key") if self.headers[name])
        plain = [given]
        if given.startswith("Basic "):
            plain.append(base64.b64decode(given[6:]).decode())
        self.server.seen += plain  # type: ignore[attr-defined]
        told = [base64.b64encode(text.encode()).decode() for text in plain]
        told += [text.encode().hex() for text in plain]
        good = {
            "number": 1,
            "html_url": "http://x/1",
            "state": "open",
            "title": " ".join(plain),
            "echo": [*plain, *told],
        }
        bad = {"message": f"wrong: {plain} {told}", "error": {"message": f"wrong key {plain} {told}"}}
        failing = self.path.startswith(("/v1", "/bad", "/git"))
        body = json.dumps(bad if failing else good).encode()
        self.send_response(401 if failing else 200)
        if self.path.startswith("/git"):
            self.send_header("WWW-Authenticate", "Basic realm=x")
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Told", told[0])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_PATCH = do_GET  # noqa: N815 - the library's names

    def log_message(self, *_: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    seen: list[str]

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Echo)
    made.seen = []
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def run(project: Path, plan: str, name: str, settings: str = "") -> tuple[str, dict[str, Any]]:
    """What a run and the looks at it print, and the outputs of its tasks; neither that nor what is kept has a secret. The
    variable ``name`` is in its environment."""
    state = project / "state"
    (project / "planrunner.yaml").write_text(f"network: {{private: [127.0.0.1]}}\n{settings}")
    (project / "p.yaml").write_text(f"plan: p\ndefaults: {{timeout: 4m}}\non_failure: continue\ntasks:\n{plan}")
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PLANRUNNER_STATE": str(state),
        "TMPDIR": str(project),
        name: ENV[name],
    }
    (project / "kept").write_text(f"{name}={ENV[name]}\n")  # a task can have it from elsewhere than its environment
    said = ""
    for words in (["exec", "p.yaml"], ["show", "last"], ["events", "last", "--json"], ["logs", "last"]):
        ran = commands.run(*words, folder=project, env=env)
        assert "Traceback" not in ran.err
        said += ran.out + ran.err
    shown = commands.run("show", "last", "--json", folder=project, env=env).out
    texts = {str(path): path.read_bytes() for path in state.rglob("*") if path.is_file()}
    texts |= {"terminal": (said + shown).encode()}
    wanted = {each for secret in SECRETS for line in lines(secret.encode()) for each in spellings(line)}
    leaks = [(where, each) for where, text in texts.items() for each in wanted if each in text]
    assert not leaks
    return said, {name: task.get("outputs") for name, task in json.loads(shown)["tasks"].items()}


@pytest.mark.parametrize(
    ("auth", "name"),
    [
        ("{bearer_env: BEARER}", "BEARER"),
        ("{header: X-Key, header_env: HEADER}", "HEADER"),
        ("{basic_env: BASIC}", "BASIC"),
    ],
)
def test_what_a_server_tells_of_a_request_is_masked_everywhere(
    tmp_path: Path, server: Server, auth: str, name: str
) -> None:
    plan = f"""
  - {{id: asks, uses: http.get, with: {{url: "{server.origin}/", auth: {auth}}}}}
  - {{id: saves, needs: [asks], uses: http.get, with: {{url: "{server.origin}/", auth: {auth}, save: it}}}}
  - {{id: fails, needs: [saves], uses: http.get, with: {{url: "{server.origin}/bad", auth: {auth}}}}}
  - {{id: prints, needs: [asks], run: 'env; printenv {name} | base64; echo "{{{{ tasks.asks.outputs.json }}}}"'}}
  - {{id: keeps, needs: [asks], run: 'printenv {name} > told', artifacts: [told]}}
  - {{id: gives, needs: [asks], run: 'printf "it=%s\\n" "${name}" > "$PLANRUNNER_OUTPUT"', outputs: {{it: string}}}}
"""
    said, outputs = run(tmp_path, plan, name)
    assert any(secret in told for told in server.seen for secret in SECRETS), said
    assert outputs["gives"] == {"it": f"[secret:{name}]"}, said
    assert f"[secret:{name}]" in said


def test_what_a_template_names_is_known_before_it_is_sent(tmp_path: Path, server: Server) -> None:
    plan = f"""
  - {{id: which, run: 'printf "name=BEARER\\n" > "$PLANRUNNER_OUTPUT"', outputs: {{name: string}}}}
  - id: asks
    needs: [which]
    uses: http.get
    with: {{url: "{server.origin}/", auth: {{bearer_env: "{{{{ tasks.which.outputs.name }}}}"}}}}
  - {{id: prints, needs: [asks], run: 'env | xxd -p | tr -d "\\n"; env'}}
"""
    said, _ = run(tmp_path, plan, "BEARER")
    assert server.seen == [f"Bearer {BEARER}"], said
    assert "[secret:BEARER]" in said


def test_the_key_of_a_model(tmp_path: Path, server: Server) -> None:
    settings = f"""
models:
  default: m
  m: {{provider: openai-compatible, model: tiny, base_url: "{server.origin}/v1", key_env: MODEL_KEY, price: {{input: 1, output: 1}}}}
"""
    plan = """
  - {id: before, run: cat kept}
  - {id: asks, uses: llm.embed, needs: [before], with: {texts: [hello], model: m}}
  - {id: after, needs: [before], run: 'base64 kept'}
"""
    said, _ = run(tmp_path, plan, "MODEL_KEY", settings)
    assert server.seen[:1] == [f"Bearer {KEY}"], said
    assert "MODEL_KEY=[secret:MODEL_KEY]" in said


def test_the_token_of_a_forge(tmp_path: Path, server: Server) -> None:
    settings = f'forge: {{kind: gitea, url: "{server.origin}/api/v1", repository: me/it, token: FORGE_TOKEN}}\n'
    plan = """
  - {id: before, run: cat kept}
  - {id: asks, needs: [before], uses: git.pull_request, with: {head: a, base: b, title: c}}
"""
    said, _ = run(tmp_path, plan, "FORGE_TOKEN", settings)
    assert any(TOKEN in each for each in server.seen), said
    assert "FORGE_TOKEN=[secret:FORGE_TOKEN]" in said


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_password_of_a_git_host(tmp_path: Path, server: Server) -> None:
    host = server.origin.removeprefix("http://")
    settings = f'git: {{credentials: {{"{host}": {{username: me, password: GIT_PASSWORD}}}}}}\n'
    plan = f"""
  - {{id: before, run: cat kept}}
  - {{id: asks, needs: [before], uses: git.clone, with: {{url: "{server.origin}/git/it.git", path: it}}}}
"""
    said, _ = run(tmp_path, plan, "GIT_PASSWORD", settings)
    assert any(f"me:{PASSWORD}" in each for each in server.seen), said
    assert "GIT_PASSWORD=[secret:GIT_PASSWORD]" in said


def test_the_password_in_the_address_of_a_database(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    settings = "sql: {databases: {main: {url_env: DATABASE}}}\n"
    plan = """
  - {id: before, run: 'cat kept; cut -d= -f2- kept | python3 -c "import sys, urllib.parse as u; print(u.unquote(sys.stdin.read()))"'}
  - {id: asks, needs: [before], uses: sql.query, with: {database: main, statement: select 1}}
"""
    said, _ = run(tmp_path, plan, "DATABASE", settings)
    assert "DATABASE=postgresql://me:[secret:DATABASE]@127" in said
