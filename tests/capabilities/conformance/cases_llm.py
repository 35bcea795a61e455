"""The capabilities of models, with a server that gives one answer to everything."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from planrunner.testing.conformance import Case, Ready

NEEDS = ("module:pydantic_ai",)
CANARY = "sk-canary-7f3a9b51c2"
VECTORS = b'{"data": [{"index": 0, "embedding": [1, 0.5]}], "usage": {"prompt_tokens": 3, "total_tokens": 3}}'
JUDGED = {"criteria": "It is blue.", "material": "the sky is blue"}


def said(content: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    whole = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return json.dumps(whole).encode()


VERDICT = said('{"verdicts": [{"criterion": 1, "met": "yes", "reason": "it is", "quotes": ["the sky is blue"]}]}')


def served(
    inputs: dict[str, Any], body: bytes = said("fine"), delay: float = 0.0, status: int = 200
) -> Callable[[Path], Iterator[Ready]]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            time.sleep(delay)
            try:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                return

        def log_message(self, *_: Any) -> None:
            return

    def setup(directory: Path) -> Iterator[Ready]:
        key = directory.parent / "key"
        key.write_text(CANARY)
        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads, server.block_on_close = True, False
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            address = f"http://127.0.0.1:{server.server_port}/v1"
            model = {"provider": "openai-compatible", "model": "m", "base_url": address, "key_file": str(key)}
            yield Ready(inputs, {"network": {"private": ["127.0.0.1"]}, "models": {"house": model}})
            server.shutdown()

    return setup


CASES = [
    Case("llm.complete", served({"prompt": "x", "system": "y"}), secrets=[CANARY], requires=NEEDS),
    Case("llm.complete", served({"prompt": "x"}, said(CANARY)), "of a server that says the key", secrets=[CANARY], requires=NEEDS),
    Case("llm.complete", served({"prompt": "x"}, b"{}", status=429), "of a busy model", fails="transient", requires=NEEDS),
    Case("llm.complete", served({"prompt": "x"}, delay=12), "of a slow model", waits=True, requires=NEEDS),
    Case("llm.judge", served(JUDGED, VERDICT), secrets=[CANARY], requires=NEEDS),
    Case("llm.judge", served({**JUDGED, "material": "nothing"}, VERDICT), "without evidence", fails="criterion", requires=NEEDS),
    Case("llm.judge", served(JUDGED, delay=12), "of a slow model", waits=True, requires=NEEDS),
    Case("llm.vote", served({"prompt": "x"}), secrets=[CANARY], requires=NEEDS),
    Case("llm.vote", served({"prompt": "x"}, delay=12), "of a slow model", waits=True, requires=NEEDS),
    Case(
        "llm.embed", served({"texts": ["a text"], "model": "house"}, VECTORS),
        volatile=["cached", "attempts", "usage"], secrets=[CANARY],
    ),
    Case("llm.embed", lambda _: {"texts": ["a text", "another"]}, "without a model"),
    Case("llm.embed", served({"texts": ["a text"], "model": "house"}, delay=12), "of a slow model", waits=True),
]  # fmt: skip
