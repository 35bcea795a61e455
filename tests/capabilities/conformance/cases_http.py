"""Cases of the HTTP family, each against a server of its own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from planrunner.testing.conformance import Case, Ready

NETWORK = {"network": {"private": ["127.0.0.1"]}}
TOKEN = "t0ken-0f-the-c4se"


class _Store(BaseHTTPRequestHandler):
    """Keeps what is put, lists it in pages, and never answers at /slow."""

    protocol_version = "HTTP/1.1"
    kept: dict[str, str]

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(30)
        elif self.path.startswith("/pages"):
            page = int(self.path.rpartition("=")[2])
            self.say(200, [page] if page < 4 else [])
        else:
            found = self.path in self.kept
            self.say(200 if found else 404, self.kept.get(self.path), etag='"1"')

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        if self.path == "/slow":
            time.sleep(30)
        self.kept[self.path] = body
        self.say(200, {"size": len(body), "you": self.headers.get("authorization")})

    do_POST = do_PATCH = do_OPTIONS = do_PUT  # noqa: N815 - names of the standard library

    def do_DELETE(self) -> None:
        if self.path == "/slow":
            time.sleep(30)
        self.kept.pop(self.path, None)
        self.say(200, {})

    do_HEAD = do_GET  # noqa: N815

    def say(self, status: int, data: object, **headers: str) -> None:
        body = json.dumps(data).encode()
        self.send_response_only(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def _at(path: str, /, **inputs: Any) -> Callable[[Path], Iterator[Ready]]:
    """A setup: the server, and inputs that point to ``path`` of it."""

    def setup(directory: Path) -> Iterator[Ready]:
        (directory / "out").mkdir()
        store = type("Store", (_Store,), {"kept": {"/a": "one", "/big": "x" * 300_000, "/job": "done"}})
        server = ThreadingHTTPServer(("127.0.0.1", 0), store)
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}{path}"
        try:
            yield Ready({"url": url, **inputs}, settings=NETWORK, env={"TOKEN": TOKEN}, look=lambda: dict(store.kept))  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            server.server_close()

    return setup


AUTH = {"bearer_env": "TOKEN"}
TIMES = ("elapsed",)
POLL = {"until": "json == 'done'", "interval": "50ms"}

CASES = [
    Case("http.get", _at("/a"), volatile=TIMES),
    Case("http.get", _at("/big"), name="large", volatile=TIMES),
    Case("http.get", _at("/none"), name="missing", fails="logic", volatile=TIMES),
    Case("http.get", _at("/slow"), name="slow", waits=True),
    Case("http.head", _at("/a"), volatile=TIMES),
    Case("http.head", _at("/slow"), name="slow", waits=True),
    Case("http.put", _at("/b", json={"x": 1}, auth=AUTH), volatile=TIMES, secrets=(TOKEN,)),
    Case("http.put", _at("/slow", body="x"), name="slow", waits=True),
    Case("http.delete", _at("/a"), volatile=TIMES),
    Case("http.delete", _at("/slow"), name="slow", waits=True),
    Case("http.post", _at("/c", form={"a": 1}, idempotent=True, auth=AUTH), volatile=TIMES, secrets=(TOKEN,)),
    Case("http.post", _at("/slow", json=1), name="slow", waits=True),
    Case("http.patch", _at("/a", json=2), volatile=TIMES),
    Case("http.patch", _at("/slow", json=1), name="slow", waits=True),
    Case("http.request", _at("/a", method="OPTIONS"), volatile=TIMES),
    Case("http.request", _at("/slow", method="OPTIONS"), name="slow", waits=True),
    Case("http.poll", _at("/job", **POLL), volatile=TIMES),
    Case("http.poll", _at("/job", until="exists(json.never)"), name="never", waits=True),
    Case("http.pages", _at("/pages", by={"page": "page"})),
    Case("http.pages", _at("/slow"), name="slow", waits=True),
    Case("http.download", _at("/big", path="out/big"), volatile=("elapsed", "changed")),
    Case("http.download", _at("/big", artifact="big"), name="artifact", volatile=TIMES),
    Case("http.download", _at("/none", path="out/x"), name="missing", fails="logic", volatile=TIMES),
    Case("http.download", _at("/slow", path="out/x"), name="slow", waits=True),
]
