"""Polling until a condition, and lists in pages."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from http_workbench import Peer, Project, Seen, answer, as_json

from planrunner.capabilities.http.pages import link_next


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def states(*bodies: str) -> Any:
    return lambda _, __, number: as_json(bodies[min(number, len(bodies)) - 1])


def poll(project: Project, url: str, **inputs: Any) -> Any:
    return project.call("http.poll", None, **{"url": url, "interval": "20ms", "within": "4m", **inputs})


class TestPolling:
    def test_it_asks_until_the_answer_says_so(self, project: Project) -> None:
        with Peer(states('{"state": "queued"}', '{"state": "running"}', '{"state": "done", "n": 7}')) as peer:
            ended = poll(project, peer.url, until='json.state == "done"')
        assert (ended.failure, ended.outputs["json"]["n"], ended.outputs["attempts"]) == ("", 7, 3)
        assert ended.outputs["elapsed"] >= 0.04

    @pytest.mark.parametrize(
        ("until", "asked"),
        [
            ("exists(json.a[1].b)", 4),
            ("not json.a[1].b", 4),
            ("not exists(json.a)", 1),
            ('json.s in ["x", "half"]', 3),
            ("json.n == null", 2),
            ('status == 202 and json.s == "half"', 3),
            ("status >= 400", 5),
            ('body == "gone" and status == 410', 5),
            ('headers["content-length"] == "4" and status > 0', 5),
        ],
    )
    def test_the_condition_reads_status_headers_data_and_text(self, project: Project, until: Any, asked: int) -> None:
        answers = [
            as_json('{"s": 1}'),
            as_json('{"a": [], "n": null}'),
            as_json('{"s": "half"}', 202),
            as_json('{"a": [0, {"b": false}]}'),
            answer(410, "gone"),
        ]
        with Peer(lambda _, __, n: answers[min(n, 5) - 1]) as peer:
            ended = poll(project, peer.url, until=until)
        assert (ended.failure, ended.outputs["attempts"]) == ("", asked)

    def test_a_failing_state_ends_it_at_once(self, project: Project) -> None:
        with Peer(states('{"s": "running"}', '{"s": "broken", "why": "disk"}')) as peer:
            ended = poll(project, peer.url, until='json.s == "done"', fail='json.s in ["broken"]')
        assert (ended.failure, ended.outputs["json"]["why"], len(peer.requests)) == ("logic", "disk", 2)
        assert 'answered 200, and `fail` holds: `json.s in ["broken"]`' in ended.message

    def test_what_is_not_there_yet_is_waited_for(self, project: Project) -> None:
        answers = [answer(503, retry_after="1"), None, answer(429), as_json('{"ok": true}')]
        with Peer(lambda _, __, n: answers[n - 1]) as peer:
            started = time.monotonic()
            ended = poll(project, peer.url, until="json.ok == true")
            assert (ended.failure, len(peer.requests)) == ("", 4)
            assert time.monotonic() - started > 0.95, "Retry-After makes the pause longer"

    def test_an_error_that_will_not_pass_ends_it(self, project: Project) -> None:
        with Peer(lambda *_: answer(403, "no")) as peer:
            ended = poll(project, peer.url, until="json.ok")
            assert (ended.failure, ended.outputs["status"], len(peer.requests)) == ("logic", 403, 1)

    def test_it_gives_up_in_time_and_tells_what_it_saw_last(self, project: Project) -> None:
        with Peer(states('{"s": "running"}')) as peer:
            ended = poll(project, peer.url, until='json.s == "done"', within="2s", interval="50ms")
        assert (ended.failure, ended.outputs["json"]) == ("timeout", {"s": "running"})
        assert 'the last one saw status 200; `json.s == "done"` is false: json.s is "running"' in ended.message

    def test_it_stops_at_once(self, project: Project) -> None:
        with Peer(states("{}")) as peer:
            threading.Timer(0.3, project.stop.set).start()
            started = time.monotonic()
            assert poll(project, peer.url, until="json.x", interval="1h", within="5h").failure
            assert time.monotonic() - started < 240

    @pytest.mark.parametrize(
        ("until", "said"),
        [
            ({}, "`until`"),
            ("", "the expression is empty"),
            ("done", "`done` is not defined here"),
            ("json.state ==", "`until` must be a condition on `status`, `headers`, `json` and `body`"),
            ("status == 'ok'", "a number is compared with text"),
            ("headers", "is a map, not true or false"),
            ("1 == 1", "is always true"),
            ("tasks.a.ok", "`tasks` is not defined here"),
        ],
    )
    def test_what_is_not_a_condition_is_said_before_anything_is_sent(
        self, project: Project, until: Any, said: str
    ) -> None:
        with Peer(states("{}")) as peer:
            assert said in poll(project, peer.url, until=until).message
            assert peer.connections == 0


def pages(project: Project, url: str, **inputs: Any) -> Any:
    return project.call("http.pages", None, **{"url": url, **inputs})


class TestPages:
    def test_links_are_followed(self, project: Project) -> None:
        def act(seen: Seen, *_: Any) -> bytes:
            number = int(seen.target.rpartition("=")[2]) if "=" in seen.target else 1
            more = {"link": f'</l?p={number + 1}>; rel="next", </l?p=3>; rel="last"'} if number < 3 else {}
            return as_json(json.dumps([number * 10, number * 10 + 1]), **more)

        with Peer(act) as peer:
            out = pages(project, f"{peer.url}/l").outputs
        assert (out["items"], out["total"], out["pages"], out["complete"]) == ([10, 11, 20, 21, 30, 31], 6, 3, True)

    def test_addresses_and_cursors_in_the_page_are_followed(self, project: Project) -> None:
        def act(seen: Seen, *_: Any) -> bytes:
            at = seen.target.rpartition("=")[2] if "=" in seen.target else "1"
            onward = {"1": "b b", "b+b": "c", "b%20b": "c"}.get(at)
            meta = {"cursor": onward, "next": f"?c={onward.replace(' ', '%20')}" if onward else None}
            return as_json(json.dumps({"data": {"items": [at]}, "meta": meta}))

        with Peer(act) as peer:
            for by in ({"next": "/meta/next"}, {"cursor": "/meta/cursor", "parameter": "c"}):
                out = pages(project, f"{peer.url}/l", items="/data/items", by=by).outputs
                assert (out["total"], out["complete"], out["items"][0], out["items"][2]) == (3, True, "1", "c")

    def test_numbers_and_offsets_count_up_until_a_page_is_empty(self, project: Project) -> None:
        def act(seen: Seen, *_: Any) -> bytes:
            name, _, value = seen.target.partition("?")[2].rpartition("&")[2].partition("=")
            first = int(value) * 3 - 3 if name == "page" else int(value)
            return as_json(json.dumps(list(range(first, min(first + 3, 7)))))

        with Peer(act) as peer:
            out = pages(project, f"{peer.url}/l", by={"page": "page"}, query={"size": 3}).outputs
            assert (out["items"], out["pages"], out["complete"]) == (list(range(7)), 4, True)
            assert peer.requests[0].target == "/l?size=3&page=1"
            out = pages(project, f"{peer.url}/l", by={"offset": "skip"}).outputs
            assert (out["items"], out["pages"], out["complete"]) == (list(range(7)), 4, True)
            assert [seen.target for seen in peer.requests[4:]] == [f"/l?skip={n}" for n in (0, 3, 6, 7)]
            assert pages(project, f"{peer.url}/l", by={"page": "page", "start": 2}).outputs["items"][0] == 3

    def test_the_bounds_end_it_and_say_so(self, project: Project) -> None:
        def act(seen: Seen, _: Any, number: int) -> bytes:
            return as_json("[1, 2, 3]", link=f'</l?p={number}>; rel="next"')

        with Peer(act) as peer:
            out = pages(project, f"{peer.url}/l", max_pages=3).outputs
            assert (out["total"], out["pages"], out["complete"]) == (9, 3, False)
            out = pages(project, f"{peer.url}/l", max_items=4).outputs
            assert (out["items"], out["pages"], out["complete"]) == ([1, 2, 3, 1], 2, False)
            assert len(peer.requests) == 5

    def test_an_attempt_goes_on_at_the_page_that_failed_and_each_page_has_all_tries(self, project: Project) -> None:
        def act(seen: Seen, _: Any, number: int) -> bytes:
            if number % 3:
                return answer(503)
            page = int(seen.target[-1])
            return as_json(str([page] * (page < 4)).replace("'", ""))

        with Peer(act) as peer:
            found = pages(project, f"{peer.url}/l", by={"page": "page"}, retries={"times": 2, "delay": 0})
        assert (found.outputs["items"], found.outputs["pages"]) == ([1, 2, 3], 4)
        assert [seen.target[-1] for seen in peer.requests] == list("111222333444")

    def test_all_pages_together_keep_to_the_limit(self, project: Project) -> None:
        def act(_: Seen, __: Any, number: int) -> bytes:
            return as_json(json.dumps(["x" * 1000]), link=f'</{number}>; rel="next"')

        with Peer(act) as peer:
            ended = pages(project, peer.url, max_bytes=10_000)
        assert (ended.failure, len(peer.requests)) == ("logic", 10)
        assert "the pages together are larger than `max_bytes`" in ended.message

    def test_large_lists_become_an_artifact(self, project: Project) -> None:
        page = json.dumps(["x" * 1000] * 400)
        with Peer(lambda seen, _, n: as_json(page, link='</2>; rel="next"' if n == 1 else "")) as peer:
            out = pages(project, peer.url).outputs
        assert (out["items"], out["total"]) == (None, 800)
        with project.context().artifact(out["artifact"]["sha256"]) as kept:
            assert len(json.loads(kept.read())) == 800
        assert len(project.services.kept) == 1, "no page is kept on its own"

    def test_a_next_page_elsewhere_gets_no_request(self, project: Project) -> None:
        with Peer(lambda *_: as_json("[1]")) as other:
            for onward in (f"{other.url}/x", f"//127.0.0.1:{other.port}/x", f"http://u:p@127.0.0.1:{other.port}/"):
                with Peer(lambda *_, onward=onward: as_json("[1]", link=f"<{onward}>; rel=next")) as peer:
                    ended = pages(project, peer.url)
                    assert (ended.failure, "another origin" in ended.message) == ("policy", True)
            assert other.connections == 0

    def test_pages_that_lead_in_a_circle_end(self, project: Project) -> None:
        with Peer(
            lambda seen, *_: as_json("[1]", link=f'</{"b" if seen.target == "/a" else "a"}>; rel="next"')
        ) as peer:
            ended = pages(project, f"{peer.url}/a")
            assert (ended.failure, len(peer.requests)) == ("logic", 2)
            assert "leads back to one that was read already" in ended.message

    @pytest.mark.parametrize("body", ['{"items": {}}', '{"item": []}', "7", "null", "{"])
    def test_a_page_without_the_list_fails(self, project: Project, body: str) -> None:
        with Peer(lambda *_: as_json(body)) as peer:
            assert pages(project, peer.url, items="/items").failure == "logic"

    @pytest.mark.parametrize(
        "inputs",
        [{"by": "cursor"}, {"by": {"cursor": "x"}}, {"by": {"page": "p", "next": "/n"}}, {"by": {"page": "p", "start": "a"}},
         {"max_pages": 0}, {"max_items": -1}, {"items": "items"}, {"by": {}}],
    )  # fmt: skip
    def test_inputs_that_say_nothing_are_refused(self, project: Project, inputs: Any) -> None:
        with Peer(lambda *_: as_json("[]")) as peer:
            assert pages(project, peer.url, **inputs).failure == "logic"
            assert peer.connections == 0

    @pytest.mark.parametrize(
        ("header", "found"),
        [
            ('<https://a/?p=2>; rel="next"', "https://a/?p=2"),
            ("<a>; rel=prev, <b>; rel=next", "b"),
            ('<a,b;c>; title="x, y"; REL="last next"', "a,b;c"),
            ('<a>; rel="nextish"', ""),
            ("", ""),
            ("<a", ""),
            ("a; rel=next", ""),
        ],
    )
    def test_link_headers_are_read(self, header: str, found: str) -> None:
        assert link_next(header) == found
