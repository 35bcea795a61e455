"""research.search and research.fetch against real servers on loopback: SearXNG's API, robots.txt, caches, drops."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from planrunner import __version__
from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.capabilities.research import fetch as fetching
from planrunner.capabilities.research import providers
from planrunner.capabilities.research.providers import Found, Search
from planrunner.capabilities.research.search import search
from planrunner.capabilities.research.wire import Page, Pages
from planrunner.engine.services import AttemptServices
from planrunner.extras import installing
from planrunner.journal.sqlite import open_journal
from planrunner.plan.model import Task
from planrunner.plugins.registry import Registry

Answer = tuple[int, dict[str, str], bytes]
TEXT = b"<html><head><title>A page</title></head><body><article><p>%s</p></article></body></html>"
PROSE = b"The quick brown fox jumps over the lazy dog while the sun is shining on the meadow. " * 4


class Site(ThreadingHTTPServer):
    """Answers by path: what ``pages`` holds, a tuple or a function of the request; counts what is asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages: dict[str, Answer | Callable[[Handler], Answer | None]] = {}
        self.seen: list[str] = []
        self.agents: set[str] = set()
        self.busy = 0
        self.busiest = 0
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def times(self, path: str) -> int:
        return sum(urlsplit(each).path == path for each in self.seen)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.seen.append(self.path)
            self.server.agents.add(self.headers["User-Agent"])
            self.server.busy += 1
            self.server.busiest = max(self.server.busiest, self.server.busy)
        try:
            answer = self.server.pages.get(urlsplit(self.path).path, (404, {}, b"nothing here"))
            found = answer(self) if callable(answer) else answer
        finally:
            with self.server.lock:
                self.server.busy -= 1  # before the reply: whoever has it may ask for the next page
        if found is None:
            self.close_connection = True
        else:
            self.reply(*found)

    def reply(self, status: int, headers: dict[str, str], body: bytes, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "text/html; charset=utf-8", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])

    def log_message(self, *_: Any) -> None: ...


class Log:
    def __init__(self) -> None:
        self.spent: list[Any] = []

    def write(self, data: bytes, stream: str = "stdout") -> None: ...

    def beat(self) -> None: ...

    def spend(self, amounts: Any) -> None:
        self.spent.append(dict(amounts))

    @property
    def usage(self) -> dict[str, Any]:
        return {"calls": sum(each.get("calls", 0) for each in self.spent)}


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def here(tmp_path: Path) -> Callable[..., Context]:
    def make(
        cancelled: Callable[[], bool] = lambda: False, private: str = '[127.0.0.1, "::1"]', **research: Any
    ) -> Context:
        settings = f"network: {{private: {private}}}\nresearch: {json.dumps(research)}\n"
        (tmp_path / "planrunner.yaml").write_text(settings)
        state = tmp_path / ".planrunner"
        state.mkdir(exist_ok=True, mode=0o700)
        open_journal(str(state)).close()
        call = Call("r", Task("t"), 1, "k", {}, "", (), {}, {}, str(tmp_path), "", None)
        return Context(call, Log(), cancelled, AttemptServices(str(state), str(tmp_path), None, {}))

    return make


def fetch(context: Context, *given: Any, **options: Any) -> fetching.Docs:
    """As many attempts as the capability asks for."""
    while True:
        try:
            return fetching.fetch(context, *given, **options)
        except Failure as failure:
            if context.call.attempt >= failure.retry.get("attempts", 0):
                raise
            time.sleep(max(failure.retry["delay"], failure.retry_after or 0.0))
        context = context._replace(call=context.call._replace(attempt=context.call.attempt + 1))


def searxng(results: int, **more: Any) -> Callable[[Handler], Answer]:
    """A server that has so many results, ten on a page."""

    def answer(request: Handler) -> Answer:
        query = parse_qs(urlsplit(request.path).query)
        page = int(query["pageno"][0])
        numbers = range(10 * (page - 1), min(results, 10 * page))
        found = [
            {
                "url": f"http://site{n}.example/#top",
                "title": f"Result\n {n}",
                "content": "About it.",
                "engines": ["b", "a"],
            }
            for n in numbers
        ]
        return (
            200,
            {"Content-Type": "application/json"},
            json.dumps({"query": query["q"][0], "results": found, **more}).encode(),
        )

    return answer


class TestSearch:
    def test_results_come_numbered_bounded_and_in_one_spelling(self, site: Site, here: Any) -> None:
        site.pages["/search"] = searxng(25, unresponsive_engines=[["slow", "timeout"]], suggestions=["more"])
        context = here(url=site.url)
        found = search(context, "  what \n is it ", limit=12, language="en", since="month", categories=["it", "news"])
        assert [result["rank"] for result in found.results] == list(range(1, 13))
        first = found.results[0]
        assert first == {
            "url": "http://site0.example/", "title": "Result 0", "snippet": "About it.", "rank": 1, "engine": "a, b",
            "query": "what is it",
        }  # fmt: skip
        assert (found.query, found.total, found.provider) == ("what is it", 12, "searxng")
        assert (found.silent, found.suggestions) == ({"slow": "timeout"}, ["more"])
        asked = parse_qs(urlsplit(site.seen[1]).query)
        assert asked == {
            "q": ["what is it"], "format": ["json"], "pageno": ["2"], "language": ["en"], "time_range": ["month"],
            "categories": ["it,news"],
        }  # fmt: skip
        assert context.log.usage == {"calls": 2}

    def test_no_more_pages_are_asked_for_than_calls_were_set_aside(self, site: Site, here: Any) -> None:
        site.pages["/search"] = searxng(50)
        context = here()
        for aside, total in ((2, 20), (1, 10)):
            limited = context._replace(call=context.call._replace(reserved={"calls": aside}))
            context.log.spent.clear()
            assert search(limited, "anything", limit=50, url=site.url).total == total
            assert sum(each["calls"] for each in context.log.spent) == aside
        context.log.spent.clear()
        with pytest.raises(Failure, match="0 calls reserved for the attempt, 1 needed") as refused:
            search(context._replace(call=context.call._replace(reserved={"calls": 0})), "anything", url=site.url)
        assert refused.value.failure == "budget"

    def test_halves_of_signs_do_not_come_out(self, site: Site, here: Any) -> None:
        results = '[{"url": "http://a.example/", "title": "x\\ud800"}, {"url": "http://b.example/\\ud800"}]'
        answer = (
            f'{{"results": {results}, "unresponsive_engines": [["\\ud800", "\\ud800"]], "suggestions": ["\\ud800"]}}'
        )
        site.pages["/search"] = (200, {"Content-Type": "application/json"}, answer.encode())
        found = search(here(), "anything", url=site.url)
        assert [result["title"] for result in found.results] == ["x?"]
        assert (found.silent, found.suggestions) == ({"?": "?"}, ["?"])

    def test_nothing_found_is_no_failure(self, site: Site, here: Any) -> None:
        site.pages["/search"] = searxng(0)
        assert search(here(url=site.url), "nothing").results == []

    def test_strange_results_are_left_out(self, site: Site, here: Any) -> None:
        odd = [
            {"url": "javascript:alert(1)"}, {"url": "http://user:pw@host/"}, {"title": "none"}, "text", None,
            {"url": "HTTP://Example.COM:80/a b"}, {"url": "http://example.com/a%20b#c", "title": None},
        ]  # fmt: skip
        site.pages["/search"] = (200, {}, json.dumps({"results": odd}).encode())
        found = search(here(url=site.url), "odd")
        assert [result["url"] for result in found.results] == ["http://example.com/a%20b"]

    @pytest.mark.parametrize(
        ("answer", "kind", "message"),
        [
            ((403, {}, b""), "logic", r"answered 403; it may not give JSON: `search.formats`"),
            ((429, {}, b""), "transient", "answered 429"),
            ((502, {}, b""), "transient", "answered 502"),
            ((200, {}, b"<html>"), "logic", "did not answer with JSON"),
            ((200, {}, b"[]"), "logic", "does not answer like a SearXNG server"),
            ((200, {}, b'{"results": {}}'), "logic", "does not answer like a SearXNG server"),
            ((302, {"Location": "/elsewhere"}, b""), "logic", "answered 302"),
        ],
    )
    def test_a_server_that_does_not_do_its_work_is_named(
        self, site: Site, here: Any, answer: Answer, kind: str, message: str
    ) -> None:
        site.pages["/search"] = answer
        with pytest.raises(Failure, match=message) as failed:
            search(here(url=site.url), "x")
        assert failed.value.failure == kind

    def test_a_private_server_needs_the_operators_word(self, site: Site, here: Any) -> None:
        with pytest.raises(Failure, match=r"127\.0\.0\.1") as failed:
            search(here(url=site.url, private="[]"), "x")
        assert failed.value.failure == "policy"
        assert site.seen == []

    def test_without_a_server_it_says_where_to_name_one(self, here: Any) -> None:
        with pytest.raises(Failure, match=r"set `research.url` in planrunner.yaml"):
            search(here(), "x")
        with pytest.raises(Failure, match="unknown search provider `moon`; there are `searxng`"):
            search(here(), "x", provider="moon")

    def test_a_plugin_adds_a_provider(self, site: Site, here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(providers, "_registered", {})
        site.pages["/api"] = (200, {}, b'[{"link": "http://a.example/x"}]')

        def ask(asked: Search) -> Found:
            answer = asked.get(f"{asked.address}/api", {"words": asked.query, "key": str(asked.options["key"])})
            return Found([{"url": each["link"], "title": "From a plugin"} for each in answer])

        plugin = SimpleNamespace(planrunner_register_search_providers=lambda register: register("atlas", ask))
        registry = Registry(plugins=False)
        registry.add(plugin, "planrunner-atlas")
        assert registry.resolve("research.search") is search
        found = search(here(url=site.url, provider="atlas", options={"key": "k"}), "x")
        assert (found.provider, found.results[0]["title"]) == ("atlas", "From a plugin")
        assert site.seen == ["/api?words=x&key=k"]

    def test_a_provider_that_never_answers_has_failed_when_its_time_is_over(
        self, here: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(providers, "_registered", {"moon": lambda asked: time.sleep(10**6)})
        monkeypatch.setattr(providers, "LIMIT", 0.2)
        with pytest.raises(Failure) as failed:
            search(here(), "x", provider="moon")
        words = "the search provider `moon` ran longer than 200ms; it did not stop and was abandoned"
        assert (failed.value.failure, str(failed.value)) == ("timeout", words)

    def test_a_plugin_cannot_take_the_name_of_another_provider(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(providers, "_registered", {})
        plugin = SimpleNamespace(planrunner_register_search_providers=lambda register: register("searxng", print))
        registry = Registry(plugins=False)
        registry.add(plugin, "planrunner-fake")
        registry.resolve("research.search")
        assert "there is a search provider `searxng` already" in registry.problems()[0]


class TestFetch:
    def test_a_page_comes_with_text_digest_time_and_artifacts(self, site: Site, here: Any) -> None:
        site.pages["/a"] = (200, {}, TEXT % PROSE)
        context = here()
        (doc,) = fetch(context, f"{site.url}/a#part", delay=0, text_limit=100).docs
        assert (doc["url"], doc["title"], doc["status"], doc["from_cache"]) == (f"{site.url}/a", "A page", 200, False)
        assert (len(doc["text"]), doc["truncated"]) == (100, True)
        with context.artifact(doc["text_sha256"]) as text, context.artifact(doc["sha256"]) as body:
            assert len(text.read().decode()) == doc["characters"]
            assert body.read() == TEXT % PROSE
        assert site.agents == {f"planrunner/{__version__}"}

    def test_what_an_earlier_step_gave_is_taken_in_any_shape(self, site: Site, here: Any) -> None:
        site.pages["/a"] = site.pages["/b"] = (200, {}, TEXT % PROSE)
        result = {"url": f"{site.url}/a", "rank": 1, "query": "foxes"}
        for given in ({"query": "foxes", "results": [result]}, [result], result, [{"results": [result]}]):
            found = fetch(here(), given, delay=0)
            assert (found.query, found.docs[0]["query"], found.docs[0]["rank"]) == ("foxes", "foxes", 1)
        assert fetch(here(), [f"{site.url}/a", f"{site.url}/b", f"{site.url}/a"], delay=0).total == 2
        with pytest.raises(Failure, match="`sources`: expected addresses or what an earlier step"):
            fetch(here(), 7)

    def test_a_page_that_is_the_same_is_not_sent_again(self, site: Site, here: Any) -> None:
        def page(request: Handler) -> Answer:
            if request.headers["If-None-Match"] == '"1"' or request.headers["If-Modified-Since"]:
                return 304, {}, b""
            return 200, {"ETag": '"1"', "Last-Modified": "Sun, 01 Nov 2026 00:00:00 GMT"}, TEXT % PROSE

        site.pages["/a"] = page
        first = fetch(here(), f"{site.url}/a", delay=0).docs[0]
        second = fetch(here(), f"{site.url}/a", delay=0).docs[0]
        assert (first["from_cache"], second["from_cache"]) == (False, True)
        assert (second["sha256"], second["fetched_at"]) == (first["sha256"], first["fetched_at"])
        third = fetch(here(), f"{site.url}/a", delay=0, max_age="1h").docs[0]
        assert third["from_cache"]
        assert (site.times("/a"), site.times("/robots.txt")) == (2, 1)

    def test_a_download_goes_on_where_the_connection_broke(self, site: Site, here: Any) -> None:
        whole, ranges = TEXT % (PROSE * 2000), []

        def page(request: Handler) -> Answer | None:
            ranges.append((request.headers["Range"], request.headers["If-Range"]))
            if request.headers["Range"] is None:
                request.reply(200, {"ETag": '"v1"'}, whole, cut=300_000)
                return None
            start = int(request.headers["Range"][6:-1])
            return 206, {"ETag": '"v1"', "Content-Range": f"bytes {start}-{len(whole) - 1}/{len(whole)}"}, whole[start:]

        site.pages["/a"] = page
        context = here()
        (doc,) = fetch(context, f"{site.url}/a", delay=0).docs
        with context.artifact(doc["sha256"]) as body:
            assert body.read() == whole
        assert ranges == [(None, None), ("bytes=300000-", '"v1"')]

    def test_a_server_that_sends_less_than_was_asked_for_is_asked_for_the_rest(self, site: Site, here: Any) -> None:
        body = b"0123456789" * 5000

        def answer(request: Handler) -> Answer | None:
            told = {"Content-Type": "text/plain", "ETag": '"a"'}
            if "Range" not in request.headers:
                request.reply(200, told, body, 20_000)
                return None
            start = int(request.headers["Range"][6:-1])
            part = body[start : start + 15_000]
            span = f"bytes {start}-{start + len(part) - 1}/{len(body)}"
            return 206, {**told, "Content-Range": span}, part

        site.pages["/page"] = answer
        found = fetch(here(), [f"{site.url}/page"], delay=0)
        assert found.docs[0]["characters"] == len(body)

    def test_a_page_that_changed_in_between_is_read_from_the_start(self, site: Site, here: Any) -> None:
        def page(request: Handler) -> Answer | None:
            if request.headers["Range"] is None:
                request.reply(200, {"ETag": '"v1"'}, TEXT % (PROSE * 100), cut=10_000)
                return None
            return 200, {"ETag": '"v2"'}, TEXT % b"All is new here, and nothing of the old page is left in the text."

        site.pages["/a"] = page
        (doc,) = fetch(here(), f"{site.url}/a", delay=0).docs
        assert doc["text"] == "All is new here, and nothing of the old page is left in the text."

    def test_a_broken_download_is_resumed_by_a_later_run(self, site: Site, here: Any) -> None:
        whole, asked = TEXT % (PROSE * 500), []

        def page(request: Handler) -> Answer | None:
            asked.append(request.headers["Range"])
            start = int(request.headers["Range"][6:-1]) if request.headers["Range"] else 0
            head = {"ETag": '"v1"', "Content-Range": f"bytes {start}-{len(whole) - 1}/{len(whole)}"}
            if len(asked) <= 3:
                request.reply(206 if start else 200, head, whole[start:], cut=20_000)
                return None
            return 206, head, whole[start:]

        site.pages["/a"] = page
        with pytest.raises(Failure) as failed:
            fetch(here(), f"{site.url}/a", delay=0)
        assert failed.value.failure == "transient"
        context = here()
        (doc,) = fetch(context, f"{site.url}/a", delay=0).docs
        assert asked == [None, "bytes=20000-", "bytes=40000-", "bytes=60000-"]
        with context.artifact(doc["sha256"]) as body:
            assert body.read() == whole

    def test_robots_are_honoured_also_behind_a_redirect(self, site: Site, here: Any) -> None:
        rules = b"User-agent: planrunner\nDisallow: /private\nUser-agent: *\nDisallow: /\n"
        site.pages["/robots.txt"] = (200, {"Content-Type": "text/plain"}, rules)
        site.pages["/open"] = site.pages["/private/x"] = (200, {}, TEXT % PROSE)
        site.pages["/door"] = (301, {"Location": "/private/x"}, b"")
        found = fetch(here(), [f"{site.url}{path}" for path in ("/open", "/private/x", "/door")], delay=0)
        assert [doc["url"] for doc in found.docs] == [f"{site.url}/open"]
        assert [(each["failure"], "robots.txt" in each["reason"]) for each in found.failed] == [("policy", True)] * 2
        assert site.times("/private/x") == 0
        assert fetch(here(robots="ignore"), f"{site.url}/private/x", delay=0).total == 1

    def test_rules_for_another_agent_count_when_the_operator_says_who_we_are(self, site: Site, here: Any) -> None:
        site.pages["/robots.txt"] = (200, {}, b"User-agent: LibraryBot\nDisallow: /a\n")
        site.pages["/a"] = (200, {}, TEXT % PROSE)
        assert fetch(here(), f"{site.url}/a", delay=0).total == 1
        with pytest.raises(Failure, match="does not want `LibraryBot` to read"):
            fetch(here(user_agent="LibraryBot/2 (+http://library.example)"), f"{site.url}/a", delay=0)
        site.pages["/b"] = (200, {}, TEXT % PROSE)
        assert fetch(here(user_agent="LibraryBot/2 (+http://library.example)"), f"{site.url}/b", delay=0).total == 1
        assert "LibraryBot/2 (+http://library.example)" in site.agents

    @pytest.mark.parametrize(("status", "readable"), [(404, True), (401, True), (503, False), (500, False)])
    def test_rules_that_cannot_be_read_forbid_and_rules_that_are_not_there_allow(
        self, site: Site, here: Any, status: int, readable: bool
    ) -> None:
        site.pages["/robots.txt"] = (status, {}, b"")
        site.pages["/a"] = (200, {}, TEXT % PROSE)
        if readable:
            assert fetch(here(), f"{site.url}/a", delay=0).total == 1
        else:
            with pytest.raises(Failure, match="the rules of the site cannot be read") as failed:
                fetch(here(), f"{site.url}/a", delay=0)
            assert failed.value.failure == "transient"
            assert site.times("/a") == 0

    def test_a_failed_page_loses_none_of_the_others(self, site: Site, here: Any) -> None:
        site.pages["/good"] = (200, {}, TEXT % PROSE)
        site.pages["/broken"] = (500, {}, b"")
        site.pages["/paper"] = (200, {"Content-Type": "application/octet-stream"}, b"%PDF-1.7 ...")
        site.pages["/round"] = (302, {"Location": "/round"}, b"")
        site.pages["/mail"] = (302, {"Location": "mailto:a@b.example"}, b"")
        paths = ("/good", "/missing", "/broken", "/paper", "/round", "/mail")
        urls = [*(f"{site.url}{path}" for path in paths), "ftp://host/x", "http://127.0.0.1:1/closed"]
        found = fetch(here(), urls, delay=0)
        assert [doc["url"] for doc in found.docs] == [f"{site.url}/good"]
        told = {urlsplit(each["url"]).path: each["failure"] for each in found.failed}
        assert told == {
            "/missing": "gone", "/broken": "transient", "/paper": "unsupported", "/round": "logic", "/mail": "policy",
            "/x": "logic", "/closed": "transient",
        }  # fmt: skip
        assert next(each for each in found.failed if each["failure"] == "unsupported")["type"] == "application/pdf"

    def test_another_attempt_asks_only_for_pages_that_may_come_now(self, site: Site, here: Any) -> None:
        site.pages["/good"] = (200, {}, TEXT % PROSE)
        site.pages["/late"] = lambda _: (200, {}, TEXT % PROSE) if site.times("/late") > 2 else (503, {}, b"")
        found = fetch(here(), [f"{site.url}/good", f"{site.url}/late", f"{site.url}/gone"], delay=0)
        assert (found.total, [each["failure"] for each in found.failed]) == (2, ["gone"])
        assert [site.times(path) for path in ("/good", "/late", "/gone")] == [1, 3, 3]
        fetch(here(), [f"{site.url}/good", f"{site.url}/late", f"{site.url}/gone"], delay=0)
        assert site.times("/good") == 2

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            ("text/plain; charset=idna", b"xn--a"),
            ("text/plain; charset=undefined", b"a"),
            ("text/plain; charset=utf-7", b"+2AA-"),
            ("text/html; charset=unicode_escape", b"<p>\\ud800</p>"),
            ("application/json", b'{"title": "\\ud800"}'),
        ],
    )
    def test_a_page_in_odd_letters_loses_none_of_the_others(
        self, site: Site, here: Any, kind: str, body: bytes
    ) -> None:
        site.pages["/odd"] = (200, {"Content-Type": kind}, body)
        site.pages["/good"] = (200, {}, TEXT % PROSE)
        found = fetch(here(), [f"{site.url}/odd", f"{site.url}/good"], delay=0)
        assert [doc["url"] for doc in found.docs] == [f"{site.url}/odd", f"{site.url}/good"]
        json.dumps(found, ensure_ascii=False).encode()

    @pytest.mark.parametrize(
        ("answer", "failure", "reason"),
        [
            ((301, {"Location": "http://[::1"}, b""), "policy", "redirects to what is not fetched"),
            ((503, {"Retry-After": "\u00b2"}, b""), "transient", "answered 503"),
            ((503, {"Retry-After": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}, b""), "transient", "answered 503"),
        ],
    )
    def test_odd_headers_are_told_in_words(
        self, site: Site, here: Any, answer: Answer, failure: str, reason: str
    ) -> None:
        site.pages["/odd"] = answer
        with pytest.raises(Failure, match=reason) as failed:
            fetch(here(), [f"{site.url}/odd"], delay=0)
        assert failed.value.failure == failure

    def test_more_failures_than_are_tolerated_fail_the_task_with_what_there_is(self, site: Site, here: Any) -> None:
        site.pages["/a"] = site.pages["/b"] = (200, {}, TEXT % PROSE)
        urls = [f"{site.url}{path}" for path in ("/a", "/b", "/x", "/y")]
        assert fetch(here(), urls, delay=0, tolerate=2).total == 2
        assert fetch(here(), urls, delay=0, tolerate="50%").total == 2
        with pytest.raises(Failure, match=r"2 of 4 pages failed; the first: .*answered 404") as failed:
            fetch(here(), urls, delay=0, tolerate=1)
        assert (failed.value.failure, len(failed.value.outputs["docs"])) == ("logic", 2)
        with pytest.raises(Failure, match="`tolerate`: expected a number or a share"):
            fetch(here(), urls, tolerate="few")
        assert fetch(here(), []).docs == []

    def test_a_busy_server_is_given_the_time_it_asks_for(self, site: Site, here: Any) -> None:
        moments: list[float] = []

        def page(request: Handler) -> Answer:
            moments.append(time.monotonic())
            return (503, {"Retry-After": "1"}, b"") if len(moments) == 1 else (200, {}, TEXT % PROSE)

        site.pages["/a"] = page
        assert fetch(here(), f"{site.url}/a", delay=0).total == 1
        assert moments[1] - moments[0] >= 1
        site.pages["/b"] = (503, {"Retry-After": "3600"}, b"")
        with pytest.raises(Failure, match="answered 503"):
            fetch(here(), f"{site.url}/b", delay=0)
        assert site.times("/b") == 1

    def test_a_host_is_asked_one_thing_at_a_time_with_a_rest_in_between(self, site: Site, here: Any) -> None:
        moments: list[float] = []

        def page(request: Handler) -> Answer:
            moments.append(time.monotonic())
            return 200, {}, TEXT % PROSE

        for number in range(5):
            site.pages[f"/{number}"] = page
        fetch(here(), [f"{site.url}/{number}" for number in range(5)], delay="100ms", parallel=5)
        assert site.busiest == 1
        assert min(b - a for a, b in pairwise(moments)) >= 0.1

    def test_the_rest_that_robots_ask_for_is_kept_and_a_long_one_is_refused(
        self, site: Site, here: Any, tmp_path: Path
    ) -> None:
        moments: list[float] = []

        def page(request: Handler) -> Answer:
            moments.append(time.monotonic())
            return 200, {}, TEXT % PROSE

        site.pages["/a"] = site.pages["/b"] = page
        site.pages["/robots.txt"] = (200, {}, b"User-agent: *\nCrawl-delay: 0.5\n")
        assert fetch(here(), [f"{site.url}/a", f"{site.url}/b"], delay=0).total == 2
        assert moments[1] - moments[0] >= 0.5
        shutil.rmtree(tmp_path / ".planrunner" / "cache")
        site.pages["/robots.txt"] = (200, {}, b"User-agent: *\nCrawl-delay: 3600\n")
        with pytest.raises(Failure, match="asks for 3600 s between requests") as failed:
            fetch(here(), [f"{site.url}/a", f"{site.url}/b"], delay=0)
        assert failed.value.failure == "policy"

    @pytest.mark.parametrize(
        ("missing", "name"),
        [("trafilatura", "research.fetch"), ("protego", "research.fetch")],
    )
    def test_without_the_extra_it_says_what_to_install(self, missing: str, name: str) -> None:
        program = (
            "import sys\n"
            "from planrunner.engine.attempts import located\n"
            "from planrunner.plugins.registry import Registry\n"
            f"sys.modules[{missing!r}] = None\n"
            f"print(located(Registry().resolve, {name!r}))\n"
        )
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        assert "failure='logic'" in told and f"research needs the extra `web`: {installing('web')}" in told

    def test_hosts_are_read_side_by_side(self, site: Site, here: Any) -> None:
        together = threading.Barrier(2, timeout=240)

        def page(request: Handler) -> Answer:
            together.wait()
            return 200, {}, TEXT % PROSE

        site.pages["/a"] = page
        other = site.url.replace("127.0.0.1", "localhost")
        assert fetch(here(), [f"{site.url}/a", f"{other}/a"], delay=0).total == 2
        assert site.busiest == 2

    def test_what_is_too_large_is_not_read_to_the_end(self, site: Site, here: Any) -> None:
        site.pages["/a"] = (200, {"ETag": '"1"'}, b"x" * 3_000_000)
        with pytest.raises(Failure, match="larger than 100,000 bytes"):
            fetch(here(), f"{site.url}/a", delay=0, max_bytes=100_000)

    def test_a_private_address_is_refused_also_behind_a_redirect(self, site: Site, here: Any) -> None:
        site.pages["/out"] = (302, {"Location": "http://169.254.169.254/latest/meta-data"}, b"")
        found = fetch(here(), [f"{site.url}/out", "http://10.0.0.1/"], delay=0, tolerate=2)
        assert [each["failure"] for each in found.failed] == ["policy", "policy"]

    def test_a_stop_ends_it(self, site: Site, here: Any) -> None:
        stop, over = threading.Event(), threading.Event()

        def page(request: Handler) -> Answer:
            stop.set()
            over.wait(600)
            return 200, {}, b""

        site.pages["/slow"] = page
        began = time.monotonic()
        with pytest.raises(Failure, match="stopped"):
            fetch(here(cancelled=stop.is_set), f"{site.url}/slow", delay=0)
        assert time.monotonic() - began < 240
        over.set()

    def test_a_damaged_cache_is_as_good_as_none(self, site: Site, here: Any, tmp_path: Path) -> None:
        site.pages["/a"] = (200, {"ETag": '"1"'}, TEXT % PROSE)
        fetch(here(), f"{site.url}/a", delay=0)
        for path in (tmp_path / ".planrunner/cache/research").rglob("*"):
            if path.is_file():
                path.write_bytes(b"{" if path.suffix == ".json" else b"evil")
        (doc,) = fetch(here(), f"{site.url}/a", delay=0, max_age="1d").docs
        assert not doc["from_cache"]
        assert "quick brown fox" in doc["text"]

    def test_nothing_half_written_stays_in_the_cache(self, site: Site, here: Any, tmp_path: Path) -> None:
        site.pages["/a"] = (200, {}, TEXT % PROSE)
        fetch(here(), [f"{site.url}/a", f"{site.url}/missing"], delay=0)
        left = {path.suffix for path in (tmp_path / ".planrunner/cache/research").rglob("*") if path.is_file()}
        assert left == {".json", ".body"}

    def test_pages_that_nobody_asks_for_any_more_are_forgotten_after_a_month(self, here: Any, tmp_path: Path) -> None:
        """A folder is looked through when a page is kept there whose name begins with 0."""

        def name(url: str) -> str:
            return hashlib.sha256(url.encode()).hexdigest()

        pages = Pages(here())
        old, young, *_ = (url for n in range(5_000) if name(url := f"http://site.example/{n}").startswith("ab"))
        newest = next(url for n in range(99_999) if name(url := f"http://site.example/{n}").startswith("ab0"))
        for url, days in ((old, 31), (young, 29)):
            pages.keep(Page(url, 200, sha256=hashlib.sha256(b"x").hexdigest()), b"x")
            for path in (tmp_path / ".planrunner/cache/research/ab").glob(f"{name(url)[2:]}.*"):
                os.utime(path, (time.time() - days * 86400,) * 2)
        pages.keep(Page(newest, 301, moved=young), b"")
        assert [pages.find(url) is not None for url in (old, young, newest)] == [False, True, True]
        assert {path.name[:62] for path in (tmp_path / ".planrunner/cache/research/ab").iterdir()} == {
            name(young)[2:],
            name(newest)[2:],
        }

    @pytest.mark.parametrize(
        ("kind", "body", "title", "text"),
        [
            ("text/plain; charset=latin-1", "grün".encode("latin-1"), "", "grün"),
            ("text/markdown", b"# Hi\r\nyou", "", "# Hi\nyou"),
            ("application/json", b'{"title": "T", "a": [1]}', "T", '{\n "title": "T",\n "a": [\n  1\n ]\n}'),
            ("application/ld+json", b"{broken", "", "{broken"),
            ("", b"<!doctype html><title>x  y</title><p>Short.<script>no()</script>", "x y", "Short."),
            ("text/html; charset=klingon", b"<title>t</title><p>Only this.</p>", "t", "Only this."),
        ],
    )
    def test_text_is_made_of_what_is_text(
        self, site: Site, here: Any, kind: str, body: bytes, title: str, text: str
    ) -> None:
        site.pages["/a"] = (200, {"Content-Type": kind}, body)
        (doc,) = fetch(here(), f"{site.url}/a", delay=0).docs
        assert (doc["title"], doc["text"]) == (title, text)
