"""A server whose pages and replies want something done, and a project that meets it through the real command."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import workbench

ROOT = Path(__file__).resolve().parents[2]


class Peer:
    """Answers GET with ``page`` and a model's request with ``reply``; ``asked`` are the paths it was asked for."""

    def __init__(self) -> None:
        self.page: Any = {}
        self.reply = ""
        self.asked: list[str] = []
        self.port = 0

    def model(self) -> dict[str, Any]:
        message = {"role": "assistant", "content": self.reply}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
        head = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
        return {**head, "choices": [choice], "usage": usage}


@contextmanager
def serving() -> Iterator[Peer]:
    peer = Peer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(peer.page)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", "0")))
            self._answer(peer.model() if self.path.startswith("/v1/") else {})

        def _answer(self, data: Any) -> None:
            peer.asked.append(self.path)
            body = json.dumps(data).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    peer.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield peer
    finally:
        server.shutdown()
        server.server_close()


class Ended(NamedTuple):
    """How a command ended, with the run it was about."""

    code: int
    out: str
    err: str
    run: str


class Project:
    """A folder whose plans meet the peer: ``PEER`` in a plan stands for its address."""

    def __init__(self, folder: Path, peer: Peer) -> None:
        self.folder = folder
        self.peer = peer
        model = {"provider": "openai-compatible", "model": "m", "base_url": f"http://127.0.0.1:{peer.port}/v1"}
        models = {"default": "m", "m": {**model, "price": {"input": 1, "output": 1}}}
        settings = {"network": {"private": ["127.0.0.1"]}, "models": models}
        (folder / "planrunner.yaml").write_text(json.dumps(settings))

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return workbench.planrunner(self.folder, *words, PLANRUNNER_STATE=str(self.folder / "state"))

    def exec(self, plan: str, *words: str) -> Ended:
        text = plan.replace("PEER", f"http://127.0.0.1:{self.peer.port}")
        (self.folder / "p.yaml").write_text(f"plan: p\ndefaults: {{timeout: 2m}}\n{text}")
        ended = self.command("exec", "p.yaml", "--json", *words)
        run = json.loads(ended.stdout).get("run_id", "") if ended.stdout.startswith("{") else ""
        return Ended(ended.returncode, ended.stdout, ended.stderr, run)

    def entries(self, run: str) -> list[dict[str, Any]]:
        shown = self.command("events", run, "--json")
        assert shown.returncode == 0, shown.stderr
        return [json.loads(line) for line in shown.stdout.splitlines()]

    def made(self) -> set[str]:
        """The files that are there beside those of the project itself."""
        return {path.name for path in self.folder.iterdir()} - {"p.yaml", "planrunner.yaml", "state"}
