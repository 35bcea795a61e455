"""What every capability must hold to, tried on those of models."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from llm_parts import CANARY, Odd, used

from planrunner.testing.conformance import Case, Check, Ready, checks

NEEDS = ("module:pydantic_ai",)
VERDICT = {"verdicts": [{"criterion": 1, "met": "yes", "reason": "it is", "quotes": ["the sky is blue"]}]}


def answered(content: str) -> bytes:
    message = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    whole = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [message]}
    return json.dumps({**whole, "usage": used(11, 7)}).encode()


def served(
    inputs: dict[str, Any], body: bytes = b"", delay: float = 0.0, status: int = 200
) -> Callable[[Path], Iterator[Ready]]:
    """A world with a server that gives one answer to everything."""

    def setup(_: Path) -> Iterator[Ready]:
        odd = Odd()
        odd.body, odd.delay, odd.status = body or answered("odd"), delay, status

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                odd.answer(self)

            def log_message(self, *_: Any) -> None:
                return

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            server.block_on_close = False
            odd.url = f"http://127.0.0.1:{server.server_port}"
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            os.environ["CANARY"] = CANARY
            yield Ready(inputs, {"network": {"private": ["127.0.0.1"]}, "models": odd.settings(key_env="CANARY")})
            server.shutdown()

    return setup


VECTORS = b'{"data": [{"index": 0, "embedding": [1, 0.5]}], "usage": {"prompt_tokens": 3, "total_tokens": 3}}'
JUDGED = {"criteria": "It is blue.", "material": "the sky is blue"}

CASES = [
    Case("llm.complete", served({"prompt": "x", "system": "y"}), secrets=[CANARY], requires=NEEDS),
    Case("llm.complete", served({"prompt": "x"}, answered(CANARY)), "echo", secrets=[CANARY], requires=NEEDS),
    Case("llm.complete", served({"prompt": "x"}, b"{}", status=429), "busy", fails="transient", requires=NEEDS),
    Case("llm.complete", served({"prompt": "x"}, delay=12), "slow", waits=True, requires=NEEDS),
    Case("llm.judge", served(JUDGED, answered(json.dumps(VERDICT))), secrets=[CANARY], requires=NEEDS),
    Case("llm.judge", served({**JUDGED, "material": "nothing"}, answered(json.dumps(VERDICT))), "unproven", fails="criterion", requires=NEEDS),
    Case("llm.judge", served(JUDGED, delay=12), "slow", waits=True, requires=NEEDS),
    Case("llm.vote", served({"prompt": "x"}), secrets=[CANARY], volatile=["attempts"], requires=NEEDS),
    Case("llm.vote", served({"prompt": "x"}, delay=12), "slow", waits=True, requires=NEEDS),
    Case("llm.embed", served({"texts": ["a text"], "model": "odd"}, VECTORS), volatile=["cached", "attempts", "usage"], secrets=[CANARY]),
    Case("llm.embed", lambda _: {"texts": ["a text", "another"]}, "hash"),
    Case("llm.embed", served({"texts": ["a text"], "model": "odd"}, delay=12), "slow", waits=True),
]  # fmt: skip


@pytest.mark.parametrize("check", checks(CASES), ids=str)
def test_it_holds_to(check: Check, tmp_path: Path) -> None:
    check(tmp_path)
