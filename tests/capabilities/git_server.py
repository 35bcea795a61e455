"""Repositories served over loopback by git itself: `git http-backend` behind a small HTTP server."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit


class Server(ThreadingHTTPServer):
    """Serves the repositories below ``root``; with ``secret`` only to who knows it. ``asked`` are paths and credentials."""

    daemon_threads = True

    def __init__(self, root: Path, secret: str = "", redirect: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.secret = secret
        self.redirect = redirect
        self.asked: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        given = self.headers.get("Authorization", "")
        said = base64.b64decode(given.removeprefix("Basic ")).decode() if given.startswith("Basic ") else given
        self.server.asked.append((self.path, said))
        body = self._body()
        if self.server.redirect:
            self._answer(302, {"Location": self.server.redirect + self.path}, b"")
        elif self.server.secret and said != self.server.secret:
            self._answer(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"who are you?")
        else:
            self._answer(*self._backend(body))

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().strip() or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _backend(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        place = urlsplit(self.path)
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "PATH_INFO": place.path,
            "QUERY_STRING": place.query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_USER": "ana",
            "REMOTE_ADDR": "127.0.0.1",
        }
        if protocol := self.headers.get("Git-Protocol"):
            env["GIT_PROTOCOL"] = protocol
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        return int(headers.pop("Status", "200").split()[0]), headers, content

    def _answer(self, code: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def served(root: Path, secret: str = "", redirect: str = "") -> Iterator[Server]:
    """Serve until the end of the block."""
    server = Server(root, secret, redirect)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def bare(path: Path, source: Path) -> Path:
    """A repository to serve, with what ``source`` has, that takes pushes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    quiet = {"check": True, "capture_output": True}
    subprocess.run(["git", "clone", "-q", "--bare", str(source), str(path)], **quiet)  # type: ignore[call-overload]
    subprocess.run(["git", "-C", str(path), "config", "http.receivepack", "true"], **quiet)  # type: ignore[call-overload]
    return path
