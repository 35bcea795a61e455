"""Repositories over HTTP, and a forge that knows them: what the plans of git work with.

    python plans/capabilities/peers/repositories.py build/git [port]

makes `build/git/served/project.git` and a working tree of it, `build/git/work`, unless they are there, and serves the
repositories below `served` with `git http-backend`. Under `/github`, `/gitlab` and `/gitea` it speaks as these forges
do about requests to merge, to who knows LOGIN; what it was told is kept in memory.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

LOGIN = "forge-login"
Answer = tuple[int, dict[str, str], bytes]


class Server(ThreadingHTTPServer):
    """Serves what lies below ``root``; with ``secret`` (user:password) only to who knows it; with ``redirect`` it sends
    everybody elsewhere. ``asked`` are the paths with the credentials that came along, ``requests`` those to merge;
    ``trouble`` is a status with which the forge answers next."""

    daemon_threads = True

    def __init__(self, root: Path, secret: str = "", redirect: str = "", port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.root = root
        self.secret = secret
        self.redirect = redirect
        self.asked: list[tuple[str, str]] = []
        self.requests: list[dict[str, Any]] = []
        self.trouble = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Tell nothing."""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self._body()
        kind = self.path.split("/")[1]
        if kind in FORGES:
            self._send(*self._forge(kind, body))
            return
        given = self.headers.get("Authorization", "")
        said = base64.b64decode(given.removeprefix("Basic ")).decode() if given.startswith("Basic ") else given
        self.server.asked.append((self.path, said))
        if self.server.redirect:
            self._send(302, {"Location": self.server.redirect + self.path}, b"")
        elif self.server.secret and said != self.server.secret:
            self._send(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"who are you?")
        else:
            self._send(*self._backend(body))

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().strip() or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _send(self, code: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _backend(self, body: bytes) -> Answer:
        """What git itself answers."""
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
            "REMOTE_USER": "somebody",
            "REMOTE_ADDR": "127.0.0.1",
        }
        if protocol := self.headers.get("Git-Protocol"):
            env["GIT_PROTOCOL"] = protocol
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        return int(headers.pop("Status", "200").split()[0]), headers, content

    def _forge(self, kind: str, body: bytes) -> Answer:
        """What a forge answers about requests to merge."""
        place = urlsplit(self.path)
        self.server.asked.append((f"{self.command} {self.path}", self.headers.get("Authorization", "")))
        if self.server.trouble:
            code, self.server.trouble = self.server.trouble, 0
            return code, {}, b'{"message": "not now"}'
        given = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
        if given.rpartition(" ")[2] != LOGIN:
            return 401, {}, b'{"message": "Bad credentials"}'
        asked = {name: values[0] for name, values in parse_qs(place.query).items()}
        forge = FORGES[kind]
        parts = place.path.strip("/").split("/")[1:]
        if parts[0] != forge["root"] or forge["tail"] not in parts:
            return 404, {}, b'{"message": "Not Found"}'
        at = parts.index(forge["tail"])
        repository = unquote("/".join(parts[1:at]))
        number = int(parts[at + 1]) if len(parts) > at + 1 else 0
        data = json.loads(body) if body else {}
        code, told = self._requests(forge, kind, repository, number, asked, data)
        return code, {"Content-Type": "application/json"}, json.dumps(told).encode()

    def _requests(
        self,
        forge: dict[str, Any],
        kind: str,
        repository: str,
        number: int,
        asked: dict[str, str],
        data: dict[str, Any],
    ) -> tuple[int, Any]:
        page = f"{self.server.url}/{repository}/{forge['page']}"
        mine = [each for each in self.server.requests if each["kind"] == kind and each["repository"] == repository]
        if self.command == "GET":
            wanted = {
                name: asked[key] for name, key in (("head", forge["head"]), ("base", forge["base"])) if key in asked
            }
            wanted = {name: value.rpartition(":")[2] for name, value in wanted.items()}
            found = [
                each for each in mine if each["open"] and all(each[name] == value for name, value in wanted.items())
            ]
            return 200, [forge["say"](each) for each in found]
        if self.command == "POST":
            made = {
                "kind": kind, "repository": repository, "number": len(mine) + 1, "open": True, "title": data["title"],
                "head": data[forge["head"]], "base": data[forge["base"]], "body": data.get(forge["body"], ""),
                "draft": bool(data.get("draft")), "url": f"{page}/{len(mine) + 1}",
            }  # fmt: skip
            if any(each["open"] and each["head"] == made["head"] and each["base"] == made["base"] for each in mine):
                return 422, {"message": "A pull request already exists"}
            self.server.requests.append(made)
            return 201, forge["say"](made)
        if self.command != forge["change"] or not 0 < number <= len(mine):
            return 404, {"message": "Not Found"}
        one = mine[number - 1]
        one["title"] = data.get("title", one["title"])
        one["body"] = data.get(forge["body"], one["body"])
        if data.get("state") == "closed" or data.get("state_event") == "close":
            one["open"] = False
        return 200, forge["say"](one)


def _as_github(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "number": one["number"], "html_url": one["url"], "title": one["title"], "body": one["body"] or None,
        "state": "open" if one["open"] else "closed", "head": {"ref": one["head"]}, "base": {"ref": one["base"]},
        "draft": one["draft"],
    }  # fmt: skip


def _as_gitlab(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": 1000 + one["number"], "iid": one["number"], "web_url": one["url"], "title": one["title"],
        "description": one["body"] or None, "state": "opened" if one["open"] else "closed",
        "source_branch": one["head"], "target_branch": one["base"],
    }  # fmt: skip


_PULLS = {"tail": "pulls", "root": "repos", "body": "body", "change": "PATCH", "say": _as_github}
FORGES: dict[str, dict[str, Any]] = {
    "github": {**_PULLS, "head": "head", "base": "base", "page": "pull"},
    "gitea": {**_PULLS, "head": "head", "base": "base", "page": "pulls"},
    "gitlab": {
        "tail": "merge_requests", "root": "projects", "head": "source_branch", "base": "target_branch",
        "body": "description", "page": "-/merge_requests", "change": "PUT", "say": _as_gitlab,
    },
}  # fmt: skip


def git(folder: Path, *arguments: str) -> None:
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _WHO}
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **who}
    subprocess.run(["git", *arguments], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)


_WHO = (("NAME", "Ana"), ("EMAIL", "ana@example.org"))


def make(folder: Path) -> None:
    """A working tree with ten commits, the fourth of which breaks the greeting, and the repository to push to."""
    folder = folder.resolve()
    work, served = folder / "work", folder / "served" / "project.git"
    if work.exists():
        return
    work.mkdir(parents=True)
    git(work, "init", "-q", "-b", "main")
    for number in range(1, 11):
        (work / "greeting.txt").write_text("hello, world\n" if number < 4 else "helo, world\n")
        (work / "count.txt").write_text(f"{number}\n")
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", f"Count to {number}")
        if number == 1:
            git(work, "tag", "v1")
    git(folder, "clone", "-q", "--bare", str(work), str(served))
    git(served, "config", "http.receivepack", "true")


def main(folder: str, port: str = "8418") -> None:
    make(Path(folder))
    server = Server(Path(folder) / "served", port=int(port))
    print(f"{server.url}/project.git", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
