"""What somebody else put among the pages, vectors and downloads that were kept: it steers nothing, and what the user's
own planrunner kept there is still found."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from security_desk import Desk, Told

TRUE, FALSE = "true", "planted"
LENGTH = 600_000


class Site(ThreadingHTTPServer):
    """Says the same of everything: a page, a file, a vector. ``cuts`` is after how many bytes the next connections
    break, and all that follow after as many as the last."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.says = TRUE
        self.cuts: list[int] = []
        self.asked: list[tuple[str, str]] = []
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    def text(self) -> bytes:
        return (f"This is {self.says}. ".encode() * LENGTH)[:LENGTH]


class Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = self.headers["Range"] or ""
        self.server.asked.append((self.path, asked))
        if self.path == "/robots.txt":
            rules = "Disallow: /" if self.server.says == FALSE else "Allow: /"
            return self._say(200, f"User-agent: *\n{rules}\n".encode())
        whole = self.server.text()
        start = int(asked.removeprefix("bytes=").rstrip("-") or 0)
        span = {"Content-Range": f"bytes {start}-{len(whole) - 1}/{len(whole)}"} if start else {}
        return self._say(206 if start else 200, whole[start:], **span)

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.rfile.read(length)
        self.server.asked.append((self.path, ""))
        vector = [1.0, 0.5] if self.server.says == TRUE else [6.0, 6.0]
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        self._say(200, json.dumps({"data": [{"index": 0, "embedding": vector}], "usage": usage}).encode())

    def _say(self, status: int, body: bytes, **headers: str) -> None:
        cuts = [] if self.path == "/robots.txt" else self.server.cuts
        end = (cuts[0] if len(cuts) == 1 else cuts.pop(0)) if cuts else None
        self.send_response(status)
        told = {"Content-Type": "text/plain", "ETag": '"v1"', "Content-Length": str(len(body)), "Connection": "close"}
        for name, value in {**told, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[:end])
        self.close_connection = True

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    made.thread.start()
    yield made
    made.shutdown()
    made.server_close()


class Clone(Desk):
    """A project with its state in it, in which its user has worked before."""

    def __init__(self, base: Path, who: str, site: Site) -> None:
        super().__init__(base / who)
        self.site = site
        self.state = self.folder / ".planrunner"
        self.env = {
            "XDG_DATA_HOME": str(base / who / "home"),
            "HOME": str(base / who / "home"),
            "OPENAI_API_KEY": "k" * 9,
        }
        private = 'network: {private: [127.0.0.1]}\nresearch: {user_agent: "planrunner"}\n'
        model = f"{{provider: openai-compatible, model: m, base_url: '{site.url}/v1', price: {{input: 0, output: 0}}}}"
        self.write("planrunner.yaml", f"{private}models: {{m: {model}}}\n")
        assert self.run({"id": "noop", "uses": "noop"}).code == 0

    def fetch(self, path: str = "/page", **more: Any) -> Told:
        given = {"sources": f"{self.site.url}{path}", "delay": 0, "max_age": "1d", **more}
        return self.run({"id": "t", "uses": "research.fetch", "with": given})

    def embed(self) -> Told:
        return self.run({"id": "t", "uses": "llm.embed", "with": {"texts": "a text", "model": "m"}})

    def download(self) -> Told:
        given = {"url": f"{self.site.url}/file", "path": "file", "retries": {"times": 1, "delay": 0}}
        return self.run({"id": "t", "uses": "http.download", "with": given})

    def outputs(self, told: Told) -> dict[str, Any]:
        assert told.code == 0, told.stderr
        return dict(told.ends["t"]["outputs"])


@pytest.fixture
def author(tmp_path: Path, site: Site) -> Clone:
    """Whoever prepares files for the clones of others; the site says to them what they like."""
    site.says = FALSE
    return Clone(tmp_path, "author", site)


@pytest.fixture
def own(tmp_path: Path, site: Site) -> Clone:
    return Clone(tmp_path, "own", site)


def pull(author: Clone, own: Clone) -> None:
    """A commit of the author's, with all the caches that lie below its state directory, arrives in one's own clone."""
    shutil.copytree(author.state / "cache", own.state / "cache", dirs_exist_ok=True)
    author.site.says, author.site.cuts = TRUE, []
    author.site.asked.clear()


def test_a_page_that_was_planted_is_not_read_and_ones_own_is(author: Clone, own: Clone, site: Site) -> None:
    site.says = "planted with rules that allow it"
    assert "planted" in author.outputs(author.fetch())["docs"][0]["text"]
    pull(author, own)
    (doc,) = own.outputs(own.fetch())["docs"]
    assert (doc["from_cache"], doc["text"][:13]) == (False, "This is true.")
    asked = list(site.asked)
    (doc,) = own.outputs(own.fetch())["docs"]
    assert (doc["from_cache"], doc["text"][:13], site.asked) == (True, "This is true.", asked)


def test_a_redirect_that_was_planted_leads_nowhere(own: Clone, site: Site) -> None:
    """Without a mac, as whoever never saw a planrunner of the user would write it."""
    own.outputs(own.fetch())
    (kept,) = (path for path in (own.state / "cache" / "research").rglob("*.json") if b"/page" in path.read_bytes())
    found = json.loads(kept.read_text().partition("\n")[2] or kept.read_text())
    for mac in ("", "\n", "00" * 16 + "\n"):
        kept.write_text(mac + json.dumps({**found, "moved": f"{site.url}/elsewhere"}))
        site.asked.clear()
        (doc,) = own.outputs(own.fetch())["docs"]
        assert (doc["from_cache"], site.asked) == (False, [("/page", "")])


def test_rules_that_were_planted_forbid_nothing(author: Clone, own: Clone) -> None:
    assert "robots.txt" in author.fetch().ends["t"]["message"]
    pull(author, own)
    assert own.outputs(own.fetch())["total"] == 1


def test_the_page_of_another_address_counts_for_nothing(own: Clone, site: Site) -> None:
    """It bears the key, and somebody gave it the name of this one."""
    names = {}
    for path in ("/page", "/other"):
        own.outputs(own.fetch(path))
        names[path] = {kept for kept in (own.state / "cache" / "research").rglob("*") if kept.is_file()}
    robots = {kept for kept in names["/page"] if b"robots" in kept.with_suffix(".json").read_bytes()}
    for target in names["/page"] - robots:
        (source,) = (each for each in names["/other"] - names["/page"] if each.suffix == target.suffix)
        target.write_bytes(
            source.read_bytes().replace(b"/other", b"/page") if target.suffix == ".json" else source.read_bytes()
        )
    site.asked.clear()
    assert not own.outputs(own.fetch())["docs"][0]["from_cache"]


def test_the_beginning_of_a_page_that_was_planted_is_not_gone_on_with(author: Clone, own: Clone, site: Site) -> None:
    site.says, site.cuts = "planted with rules that allow it", [100_000]
    assert author.fetch().code == 1
    pull(author, own)
    (doc,) = own.outputs(own.fetch())["docs"]
    assert own.site.asked == [("/robots.txt", ""), ("/page", "")]
    assert doc["characters"] == LENGTH


def test_ones_own_beginning_of_a_page_is_gone_on_with(own: Clone, site: Site) -> None:
    site.cuts = [100_000]
    assert own.fetch().code == 1
    site.cuts = []
    site.asked.clear()
    assert own.outputs(own.fetch())["docs"][0]["characters"] == LENGTH
    assert site.asked == [("/page", "bytes=300000-")]


def test_vectors_that_were_planted_are_not_used_and_ones_own_are(author: Clone, own: Clone, site: Site) -> None:
    assert author.outputs(author.embed())["vectors"] == [[6.0, 6.0]]
    pull(author, own)
    found = own.outputs(own.embed())
    assert (found["vectors"], found["cached"]) == ([[1.0, 0.5]], 0)
    found = own.outputs(own.embed())
    assert (found["vectors"], found["cached"], len(site.asked)) == ([[1.0, 0.5]], 1, 1)


def test_the_beginning_of_a_file_that_was_planted_is_not_gone_on_with(author: Clone, own: Clone, site: Site) -> None:
    site.cuts = [300_000, 0]
    assert author.download().code == 1
    pull(author, own)
    found = own.outputs(own.download())
    assert (found["resumed"], (own.folder / "file").read_bytes()) == (0, site.text())


@pytest.mark.parametrize("change", [lambda data: b"planted" + data[7:], lambda data: data[:1000]])
def test_ones_own_beginning_of_a_file_is_gone_on_with_unless_it_was_changed(
    own: Clone, site: Site, change: Any
) -> None:
    for planted in (False, True):
        site.cuts = [300_000, 0]
        assert own.download().code == 1
        (part,) = (own.state / "cache" / "http-downloads").glob("*.part")
        if planted:
            part.write_bytes(change(part.read_bytes()))
        site.cuts = []
        found = own.outputs(own.download())
        assert (found["resumed"] > 0, (own.folder / "file").read_bytes()) == (not planted, site.text())
        (own.folder / "file").unlink()


def test_what_tools_remember_is_not_where_an_author_puts_it(author: Clone, own: Clone) -> None:
    """They believe what they find there: mypy shows no error of a file that it takes for one it has seen."""
    pytest.importorskip("mypy")
    found = []
    for clone in (author, own, own):
        clone.env["PATH"] = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
        clone.write("test_a.py", "def test_a() -> None: ...\n")
        for uses in ("validate.mypy", "validate.pytest"):
            assert clone.run({"id": "t", "uses": uses, "with": {"paths": ["test_a.py"]}}).code == 0
        found.append({path.name for path in (clone.state / "cache").iterdir()})
    assert not found[0] & found[1]
    assert found[1] == found[2]


def test_without_a_home_what_was_kept_is_found_as_ever(own: Clone, site: Site) -> None:
    """There is no key then, so nobody can tell who kept it."""
    shutil.rmtree(own.state)
    own.env.update(XDG_DATA_HOME="/dev/null/home")
    assert "proven" in own.fetch().stderr
    asked = list(site.asked)
    assert own.outputs(own.fetch())["docs"][0]["from_cache"] and site.asked == asked
    own.embed()
    assert own.outputs(own.embed())["cached"] == 1
