"""Canaries in eleven encodings, over a whole run: nothing that is kept, shown or handed to a program's arguments holds
one of them."""

from __future__ import annotations

import http.server
import json
import os
import pty
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import commands
import pytest
from canaries import CORE, VARIABLE
from workbench import ROOT

from planrunner.redaction import lines, spellings

TOKEN = f"{CORE}/91+L=mX04r Vd2&<\"k'"
KEY = f"canary-in-a-file-ü-{CORE}"
PRINTED = "canary0printed0by0a0command"
PEM = "-----BEGIN CANARY-----\nQ2FuYXJ5TGluZU9uZQ8fA3s\nUmVhZEJ5Tm9ib2R5RXZlcgz\n-----END CANARY-----"
PLAIN = f"canary.only.in.headers.{CORE}"
SENTINEL = "this may be seen"

PROJECT = f"""
network: {{private: [127.0.0.1]}}
provider_credentials:
  - {{id: token, provider: acme, auth: {{type: api_key, source: env, env_var: ACME_TOKEN}}}}
  - {{id: key, auth: {{source: file, file_path: keys.json, file_key: prod.api_key}}}}
  - {{id: printed, auth: {{source: command, command: [sh, -c, "echo canary0printed0by0a0$X"]}}}}
  - {{id: pem, auth: {{source: file, file_path: key.pem}}}}
  - {{id: plain, auth: {{source: env, env_var: PLAIN_TOKEN}}}}
  - {{id: of-the-operator, auth: {{source: env, env_var: {VARIABLE}}}}}
"""

PLAN = """
plan: canaries
defaults: {timeout: 4m}
on_failure: continue
params: {echo: {type: string}, other: {type: string, default: token}}
tasks:
  - id: split
    secrets: {CANARY: token, CANARY_FILE: {id: key, as: file}}
    run: python3 speaker.py split
  - id: letters
    secrets: {CANARY: printed, CANARY_FD: {id: pem, as: fd}, CANARY_TOKEN: token}
    run: [python3, speaker.py, letters]
  - id: files
    secrets: {CANARY: token, CANARY_2: key, CANARY_FD_3: {id: printed, as: fd}}
    run: python3 speaker.py files
    artifacts: [told.txt]
  - id: outputs
    needs: [files]
    secrets: {CANARY: token, CANARY_PEM: pem}
    run: python3 speaker.py outputs
    stdout: lines
    outputs: {all: list, by: map, said: {value: "{{ stdout }}"}}
  - id: passes-on
    needs: [outputs]
    run: 'echo "{{ tasks.outputs.outputs.said }}"; cat told.txt keys.json key.pem; env; echo this may be seen'
  - id: binary
    needs: [files]
    run: "true"
    artifacts: [told.bin]
  - id: folder
    needs: [files]
    run: "mkdir -p told; cp told.txt told/"
    artifacts: [told]
  - id: fail
    secrets: {CANARY: token, CANARY_2: plain}
    run: python3 speaker.py fail
  - id: python
    secrets: [token, key]
    uses: python.run
    with:
      code: |
        import os
        result = {"got": os.environ["ACME_TOKEN"], os.environ["KEY"]: [os.environ["KEY"].encode().hex()]}
        print(result, flush=True)
  - id: raises
    secrets: [token]
    uses: python.run
    with:
      code: |
        import os
        raise RuntimeError("cannot log in with " + os.environ["ACME_TOKEN"])
  - id: asks
    secrets: [plain]
    uses: http.get
    with: {url: "{{ params.echo }}", auth: {credential: plain}}
  - id: saves
    secrets: [plain]
    uses: http.get
    with: {url: "{{ params.echo }}", auth: {credential: plain, header: X-Api-Key}, save: answer}
  - id: undeclared
    uses: http.get
    with: {url: "{{ params.echo }}", auth: {credential: "{{ params.other }}"}}
  - id: saved
    needs: [files]
    backup: [told.txt]
    run: "true"
  - id: sign
    needs: [files]
    gate: approval
    ask: Is this right?
    evidence: [told.txt]
"""


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with whatever it was asked."""

    def do_GET(self) -> None:
        body = json.dumps({"headers": dict(self.headers), "more": [*map(str, self.headers.values())]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Seen", str(self.headers.get("X-Api-Key") or self.headers.get("Authorization")))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "planrunner.yaml").write_text(PROJECT)
    (tmp_path / "canaries.yaml").write_text(PLAN)
    (tmp_path / "keys.json").write_text(json.dumps({"prod": {"api_key": KEY}}))
    (tmp_path / "key.pem").write_text(PEM + "\n")
    for name in ("keys.json", "key.pem"):
        (tmp_path / name).chmod(0o600)
    shutil.copy(Path(__file__).with_name("speaker.py"), tmp_path)
    return tmp_path


def environment(project: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PLANRUNNER_STATE": str(project / "state"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "ACME_TOKEN": TOKEN,
        "PLAIN_TOKEN": PLAIN,
        "X": "command",
    }


def on_a_terminal(project: Path, *words: str) -> tuple[int, bytes]:
    """What a program shows on a terminal."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "planrunner", *words]
    process = subprocess.Popen(
        command, cwd=project, env=environment(project), stdin=subprocess.DEVNULL, stdout=its, stderr=its
    )
    os.close(its)
    shown = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # nobody has the other end any more
            break
        if not data:
            break
        shown += data
    os.close(ours)
    return process.wait(), shown


def printed(project: Path, *words: str) -> bytes:
    done = commands.call(*words, folder=project, env=environment(project))
    assert b"Traceback" not in done.stderr
    return done.stdout + done.stderr


def kept(state: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in state.rglob("*") if path.is_file()}


def forbidden() -> list[bytes]:
    found: set[bytes] = set()
    for secret in (TOKEN, KEY, PRINTED, PEM, PLAIN):
        for line in lines(secret.encode()):
            found |= spellings(line)
    return sorted(found)


def assert_clean(texts: dict[str, bytes]) -> None:
    wanted = forbidden()
    leaks = [(where, each) for where, text in texts.items() for each in wanted if each in text]
    assert not leaks


def test_no_canary_appears_in_what_is_kept_or_shown(project: Path, echo: str) -> None:
    code, shown = on_a_terminal(project, "exec", "canaries.yaml", "-p", f"echo={echo}", "--max-parallel", "3")
    said = {
        "terminal": shown,
        **{
            " ".join(words): printed(project, *words)
            for words in (
                ["show", "last", "--json"],
                ["show", "last"],
                ["events", "last", "--json"],
                ["logs", "last"],
                ["logs", "last", "--json"],
                ["why", "last", "fail"],
                ["gates", "last"],
                ["gates", "last", "--json"],
                ["artifacts", "list", "--json"],
                ["replay", "last"],
            )
        },
    }
    run = json.loads(said["show last --json"])
    statuses = {name: task["status"] for name, task in run["tasks"].items()}
    failed = {"binary", "folder", "fail", "raises", "undeclared", "saved"}
    assert code in (1, 8, 12), shown
    assert {name for name, status in statuses.items() if status == "failed"} == failed, statuses
    assert statuses["sign"] == "blocked"
    files = kept(project / "state")
    assert_clean(files)
    assert_clean(said)
    masks = {mask: sum(text.count(mask) for text in files.values()) for mask in (b"[secret:token]", b"[secret:key]")}
    assert all(count > 100 for count in masks.values()), masks
    for mask in (b"[secret:printed]", b"[secret:pem]", b"[secret:plain]", SENTINEL.encode()):
        assert any(mask in text for text in files.values()), mask
    assert run["tasks"]["asks"]["outputs"]["json"]["headers"]["authorization"] == "Bearer [secret:plain]"
    assert run["tasks"]["python"]["outputs"] == {"got": "[secret:token]", "[secret:key]": ["[secret:key]"]}
    assert not list((project / "state").rglob("*.secret"))
    for words in (
        "the task does not declare the secret `token`",
        "told.bin: it holds",
        "told: it holds",
        "saved: it holds",
    ):
        assert words in said["show last"].decode()
    assert b"replays exactly" in said["replay last"], said["replay last"]


def test_no_canary_is_an_argument_of_a_program(project: Path, echo: str) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    trace = project / "trace"
    command = ["strace", "-f", "-qq", "-e", "trace=execve", "-s", "100000", "-o", str(trace), sys.executable, "-m"]
    only = ("--only", "outputs", "--only", "python", "--only", "fail", "--only", "asks", "--only", "letters")
    words = ["planrunner", "exec", "canaries.yaml", "-p", f"echo={echo}", *only]
    done = subprocess.run([*command, *words], cwd=project, env=environment(project), capture_output=True, timeout=240)
    if b"ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    calls = trace.read_bytes()
    assert b"speaker.py" in calls
    assert_clean({"execve": calls, "output": done.stdout + done.stderr})


def test_what_tasks_do_not_declare_is_not_in_their_environment(project: Path) -> None:
    plan = "plan: p\ntasks:\n  - {id: a, run: 'env | cut -d= -f1'}\n  - {id: b, run: 'env | cut -d= -f1', secrets: [token]}\n"
    (project / "p.yaml").write_text(plan)
    printed(project, "exec", "p.yaml")
    first, second = (printed(project, "logs", "last", name).split() for name in "ab")
    assert b"ACME_TOKEN" not in b" ".join(first)
    assert b"ACME_TOKEN" in b" ".join(second)
    assert b"PLAIN_TOKEN" not in b" ".join(first + second)
