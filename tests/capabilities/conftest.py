"""Servers that answer as models do. Modules beside this file, such as ``files_desk``, hold what several tests share."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aimock
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from llm_parts import ANSWERS, Models, Odd


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """aimock, which speaks for OpenAI, Anthropic, Google and Ollama."""
    answers = tmp_path_factory.mktemp("models") / "answers.json"
    answers.write_text(json.dumps({"fixtures": ANSWERS}))
    with aimock.served(answers) as server:
        yield Models(server.url)


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
