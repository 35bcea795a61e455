"""Every request over the network counts as a call of its attempt, whichever capability sends it."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rows import rows
from workbench import planrunner

from planrunner.capabilities import builtin
from planrunner.capabilities.builtin import description_of


class Site:
    """A server that answers its first ``unwell`` requests with 503, and sends ``/to`` on to ``/``."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.unwell = 0
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                code = 503 if len(site.asked) <= site.unwell else 302 if self.path == "/to" else 200
                self.send_response(code)
                self.send_header("location", "/")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever, daemon=True)
    thread.start()
    yield site
    site.server.shutdown()
    site.server.server_close()


def ran(folder: Path, calls: int, *tasks: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The exit code of a plan that may send so many requests, and what it told."""
    (folder / "planrunner.yaml").write_text("network: {private: [127.0.0.1]}\n")
    plan = {"plan": "p", "budgets": {"calls": calls}, "defaults": {"timeout": "1m"}, "tasks": tasks}
    (folder / "p.json").write_text(json.dumps(plan))
    done = planrunner(folder, "exec", "p.json", "--json", "--progress", "quiet")
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def get(name: str, url: str, **keys: Any) -> dict[str, Any]:
    return {"id": name, "uses": "http.get", "with": {"url": url, "retries": {"times": 2, "delay": "10ms"}}, **keys}


def test_the_second_request_of_a_plan_that_may_send_one_is_not_sent(site: Site, tmp_path: Path) -> None:
    code, told = ran(tmp_path, 1, get("a", site.url), get("b", site.url, needs=["a"]))
    assert (code, len(site.asked)) == (6, 1)
    assert told["tasks"]["a"]["status"] == "completed" and told["budget"]["calls"]["used"] == 1


def test_each_try_of_a_request_counts(site: Site, tmp_path: Path) -> None:
    site.unwell = 2
    code, told = ran(tmp_path, 5, get("a", site.url, budgets={"calls": 3}))
    assert (code, len(site.asked), told["budget"]["calls"]["used"]) == (0, 3, 3)


def test_a_request_is_not_tried_again_where_the_budget_has_no_room_for_it(site: Site, tmp_path: Path) -> None:
    site.unwell = 2
    code, told = ran(tmp_path, 2, get("a", site.url))
    assert (code, len(site.asked), told["budget"]["calls"]["used"]) == (1, 2, 2)


def test_a_redirect_belongs_to_its_request(site: Site, tmp_path: Path) -> None:
    code, told = ran(tmp_path, 1, get("a", f"{site.url}/to"))
    assert (code, site.asked, told["budget"]["calls"]["used"]) == (0, ["/to", "/"], 1)


def test_a_database_in_a_file_is_not_called(tmp_path: Path) -> None:
    asked = {"database": "sqlite:///a.db", "statement": "CREATE TABLE t (a)"}
    code, told = ran(tmp_path, 5, {"id": "a", "uses": "sql.execute", "with": asked})
    assert (code, told["budget"]["calls"]["used"]) == (0, 0)


@rows("name", sorted(builtin.TARGETS))
def test_what_reaches_over_the_network_says_that_it_spends_calls(name: str) -> None:
    found = description_of(name)
    said = " ".join(found.risks)
    reaches = "network" in said and not name.startswith(
        ("docker.run", "docker.build", "python.run", "python.scan", "validate.", "shell")
    )
    assert ("calls" in found.spends) == reaches, said


def test_what_asks_for_pages_sets_aside_all_that_are_left(site: Site, tmp_path: Path) -> None:
    pages = {"sources": [f"{site.url}/a", f"{site.url}/b"], "delay": 0, "tolerate": "100%"}
    code, told = ran(tmp_path, 5, {"id": "a", "uses": "research.fetch", "with": pages}, get("b", site.url, needs=["a"]))
    assert code == 0 and told["tasks"]["b"]["status"] == "completed", told
    assert told["budget"]["calls"]["used"] == len(site.asked) == 4  # robots.txt, both pages, and the request after them


def test_two_that_ask_for_pages_at_once_stay_within_the_limit(site: Site, tmp_path: Path) -> None:
    pages = {"delay": 0, "tolerate": "100%"}
    tasks = [
        {
            "id": name,
            "uses": "research.fetch",
            "with": {**pages, "sources": [f"{site.url}/{name}{at}" for at in range(3)]},
        }
        for name in "ab"
    ]
    _, told = ran(tmp_path, 4, *tasks)
    assert told["budget"]["calls"]["used"] == len(site.asked) == 4
