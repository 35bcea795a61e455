"""Servers that answer as models do. Modules beside this file, such as ``files_desk``, hold what several tests share."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from llm_parts import ANSWERS, Models, Odd
from workbench import ROOT


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """aimock, which speaks for OpenAI, Anthropic, Google and Ollama."""
    spec = importlib.util.spec_from_file_location("peer_models", ROOT / "plans/capabilities/peers/models.py")
    assert spec is not None and spec.loader is not None
    peer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peer)
    answers = tmp_path_factory.mktemp("models") / "answers.json"
    answers.write_text(json.dumps({"fixtures": ANSWERS}))
    port = peer.free_port()
    command = peer.command(str(port), str(answers))
    if command is None:
        pytest.skip("aimock is not installed: npm install --prefix ~/.cache/planrunner/aimock @copilotkit/aimock")
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        found = Models(f"http://127.0.0.1:{port}")
        found.wait()
        yield found
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def odd() -> Iterator[Odd]:
    """A server that answers every request with what the test tells it to."""
    found = Odd()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            found.answer(self)

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        found.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield found
        server.shutdown()
        thread.join()
