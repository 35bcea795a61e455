"""Criteria in plain words judged by a model: it decides where it is sure and quotes what is there, else people do."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

Json = dict[str, Any]

PLAN = """
plan: p
defaults: {timeout: 2m}
PLAN
tasks:
  - id: change
    run: echo 'every old call still works' | tee -a log
    KEYS
    expect:
      - exit_code == 0
      - judge: backwards compatible
  - {id: release, needs: [change], run: echo released, effect: read}
"""


class Peer:
    """A server that speaks as an OpenAI-compatible one does; ``answer`` gives the verdict on each request."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: Callable[[int], Json] = lambda count: verdict("yes")
        self.usage: Json | None = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        self.delay = 0.0
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                peer.asked.append(json.dumps(body["messages"], ensure_ascii=False))
                time.sleep(peer.delay)
                content = json.dumps({"verdicts": [peer.answer(len(peer.asked))]})
                message = {"role": "assistant", "content": content}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                whole = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
                data = json.dumps({**whole, **({"usage": peer.usage} if peer.usage else {})}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def verdict(met: str, quote: str = "every old call still works", reason: str = "the notes say so") -> Json:
    return {"criterion": 1, "met": met, "reason": reason, "quotes": [quote]}


@pytest.fixture
def peer() -> Iterator[Peer]:
    found = Peer()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def judged(project: Any, peer: Peer) -> Any:
    """A project whose judge is the peer."""
    price = "price: {input: 1, output: 10}"
    (project.path / "planrunner.yaml").write_text(
        "network: {private: [127.0.0.1]}\n"
        "models:\n  judge: local\n  judging: {cost: $0.10, tokens: 5k, calls: 2}\n"
        f"  local: {{provider: openai, model: m, base_url: 'http://127.0.0.1:{peer.port}/v1', {price}}}\n"
    )
    return project


def write(project: Any, keys: str = "", plan: str = "") -> None:
    project.plan(PLAN.replace("KEYS", keys).replace("PLAN", plan))


def events(project: Any, kind: str) -> list[Json]:
    lines = project("events", "last", "--type", kind, "--json").out.splitlines()
    return [event for event in map(json.loads, lines) if event["type"] == kind]


class TestVerdicts:
    def test_a_verdict_that_quotes_what_is_there_lets_the_run_go_on(self, judged: Any, peer: Peer) -> None:
        write(judged)
        done = judged("exec", "p.yaml", "--json")
        assert (done.code, done.data["tasks"]["release"]["status"]) == (0, "completed")
        assert "every old call still works" in peer.asked[0]
        (decided,) = events(judged, "gate_decided")
        assert decided["by"] == ["judge local"]
        assert "“every old call still works”" in decided["reason"]
        assert "passed by judge local" in judged("why", "last", "change").out

    def test_an_artifact_that_is_short_text_is_shown_as_it_was_kept(self, judged: Any, peer: Peer) -> None:
        (judged.path / "sub").mkdir()
        keys = "cwd: sub\n    artifacts: [{name: notes, path: notes.txt}, {name: picture, path: picture}]"
        plan = PLAN.replace("KEYS", keys).replace("PLAN", "")
        make = "printf 'every old %s works' call > notes.txt; printf '\\377\\376' > picture"
        judged.plan(plan.replace("echo 'every old call still works' | tee -a log", make))
        peer.answer = lambda count: verdict("yes", quote="every old call works")
        assert judged("exec", "p.yaml").code == 0
        assert "artifact notes:\\nevery old call works" in peer.asked[0]
        assert "artifact picture:\\n(2 bytes, sha256 " in peer.asked[0]

    def test_a_no_fails_the_task_like_any_criterion(self, judged: Any, peer: Peer) -> None:
        peer.answer = lambda count: verdict("no", reason="a call was removed")
        write(judged)
        done = judged("exec", "p.yaml", "--json")
        assert (done.code, done.data["tasks"]["change"]["status"]) == (1, "failed")
        assert "a call was removed" in done.data["tasks"]["change"]["reason"] + done.err

    def test_after_a_no_the_task_is_tried_again_where_the_plan_says_so(self, judged: Any, peer: Peer) -> None:
        peer.answer = lambda count: verdict("no" if count == 1 else "yes")
        write(judged, "retry: {attempts: 2, delay: 1ms, on: [logic]}\n    effect: idempotent")
        done = judged("exec", "p.yaml", "--json")
        assert (done.code, done.data["tasks"]["change"]["attempts"], len(peer.asked)) == (0, 2, 2)

    @pytest.mark.parametrize("quotes", [[], ["what stands nowhere"]])
    def test_a_no_about_what_is_missing_needs_no_quote(self, judged: Any, peer: Peer, quotes: list[str]) -> None:
        no = {**verdict("no", reason="no call is named"), "quotes": quotes}
        peer.answer = lambda count: no if count == 1 else verdict("yes")
        keys = 'retry: {attempts: 2, delay: 1ms}\n    effect: idempotent\n    env: {WHY: "{{ retry.reason }}"}'
        judged.plan(PLAN.replace("KEYS", keys).replace("PLAN", "").replace("| tee", '; echo "told=$WHY" | tee'))
        done = judged("exec", "p.yaml", "--json")
        assert (done.code, done.data["tasks"]["change"]["attempts"]) == (0, 2)
        assert "no call is named" in judged("logs", "last", "change").out

    @pytest.mark.parametrize(("met", "reason"), [("yes", "sure"), ("no", " ")])
    def test_a_yes_without_a_quote_and_a_no_without_a_reason_are_for_people(
        self, judged: Any, peer: Peer, met: str, reason: str
    ) -> None:
        peer.answer = lambda count: {**verdict(met, reason=reason), "quotes": []}
        write(judged)
        assert judged("exec", "p.yaml").code == 8

    def test_lint_warns_of_words_that_are_not_said_to_be_for_the_judge(self, judged: Any) -> None:
        write(judged)
        assert judged("lint", "p.yaml").out.strip() == "no findings"
        judged.plan(PLAN.replace("KEYS", "").replace("PLAN", "").replace("judge: back", "back"))
        assert "`local` judges it; write `judge: …` if that is meant" in judged("lint", "p.yaml").out
        (judged.path / "planrunner.yaml").unlink()
        write(judged)
        assert "the task waits for that" in judged("lint", "p.yaml").out

    def test_unsure_is_for_people_who_see_what_was_said(self, judged: Any, peer: Peer) -> None:
        peer.answer = lambda count: verdict("unsure", reason="the notes are short")
        write(judged)
        assert judged("exec", "p.yaml").code == 8
        assert "the notes are short" in judged("gates", "last").out
        assert "the notes are short" in judged("why", "last", "change").out
        assert "the notes are short" in judged("show", "last").out
        assert judged("approve", "last", "change", "--as", "bo").code == 0
        assert judged("resume", "last").code == 0
        assert len(peer.asked) == 1, "the model is asked once about one attempt"

    def test_a_yes_that_quotes_what_is_not_there_is_for_people(self, judged: Any, peer: Peer) -> None:
        peer.answer = lambda count: verdict("yes", quote="the release was tested by everybody")
        write(judged)
        assert judged("exec", "p.yaml").code == 8

    def test_without_an_answer_people_decide_and_see_why(self, judged: Any, peer: Peer) -> None:
        peer.server.shutdown()
        peer.server.server_close()
        write(judged)
        assert judged("exec", "p.yaml").code == 8
        assert "the judge could not tell" in judged("gates", "last").out
        assert "the judge could not tell" in judged("why", "last", "change").out
        lines = judged("show", "last").out.splitlines()
        assert any("the judge could not tell" in line for line in lines if "change" in line)

    @pytest.mark.parametrize("answer", [verdict("yes"), {"met": "nonsense"}])
    def test_what_was_sent_and_came_back_can_be_seen_and_is_kept(self, judged: Any, peer: Peer, answer: Json) -> None:
        peer.answer = lambda count: answer
        write(judged)
        judged("exec", "p.yaml")
        assert judged("artifacts", "gc", "--older-than", "0s").code == 0
        shown = judged("show", "last", "change", "--inputs", "--json").data["calls"]
        [judge] = [each for each in shown if each["judge"]]
        names = [each["name"] for each in judge["sent"]]
        assert names[:2] == ["request-1.json", "reply-1.json"] and len(names) == 2 * len(peer.asked)
        assert all("backwards compatible" in each["text"] for each in judge["sent"][::2])
        assert "backwards compatible" in judged("show", "last", "change", "--inputs").out

    def test_a_project_without_a_judge_asks_people_as_ever(self, project: Any) -> None:
        write(project)
        assert project("exec", "p.yaml").code == 8


class TestMoney:
    def test_what_the_judge_used_counts_in_the_budgets_around_it(self, judged: Any, peer: Peer) -> None:
        write(judged, "", "budgets: {cost: $1, tokens: 50k, calls: 9}")
        done = judged("exec", "p.yaml", "--json")
        assert done.code == 0, judged("gates", "last").out
        budget = done.data["budget"]
        assert (budget["tokens"]["used"], budget["calls"]["used"]) == (120, 1)
        assert budget["cost"]["used"] == pytest.approx(100e-6 + 200e-6)
        (asked,) = events(judged, "gate_requested")
        assert asked["reserved"] == {"cost": 0.1, "tokens": 5000, "calls": 2}

    def test_a_judge_that_does_not_tell_what_it_used_costs_what_was_set_aside(self, judged: Any, peer: Peer) -> None:
        peer.usage = None
        write(judged, "", "budgets: {cost: $1, tokens: 50k}")
        done = judged("exec", "p.yaml", "--json")
        assert done.data["budget"]["tokens"]["used"] == 5000
        assert done.data["budget"]["cost"]["used"] == pytest.approx(0.1)

    @pytest.mark.parametrize("keys", ["", "retry: 2\n    "])
    def test_a_script_that_tells_nothing_leaves_the_judge_its_part_of_the_budget_of_the_task(
        self, judged: Any, peer: Peer, keys: str
    ) -> None:
        write(judged, f"{keys}budgets: {{cost: $0.25, calls: 3}}")
        done = judged("exec", "p.yaml", "--json")
        assert done.code == 0, judged("gates", "last").out
        (started, *_) = events(judged, "attempt_started")
        assert started["reserved"] == {"cost": 0.15, "calls": 1}
        assert judged("replay", "last").code == 0

    def test_where_the_budget_of_the_task_is_not_more_than_the_part_of_the_judge_people_are_asked(
        self, judged: Any, peer: Peer
    ) -> None:
        write(judged, "budgets: {cost: $0.10}")
        assert judged("exec", "p.yaml").code == 8
        assert "the judge was not asked" in judged("gates", "last").out

    @pytest.mark.parametrize("budgets", ["budgets: {cost: $0.05}", "budgets: {tokens: 4k}", "budgets: {calls: 1}"])
    def test_where_a_budget_leaves_no_room_for_it_the_judge_is_not_asked(
        self, judged: Any, peer: Peer, budgets: str
    ) -> None:
        write(judged, "", budgets)
        assert judged("exec", "p.yaml").code == 8
        assert peer.asked == []
        assert "the judge was not asked" in judged("gates", "last").out


class TestProof:
    def test_a_judged_run_replays_with_the_judge_gone(self, judged: Any, peer: Peer) -> None:
        write(judged)
        assert judged("exec", "p.yaml").code == 0
        peer.server.shutdown()
        peer.server.server_close()
        assert judged("replay", "last").code == 0

    def test_a_run_that_is_killed_while_the_judge_thinks_asks_it_again(self, judged: Any, peer: Peer) -> None:
        peer.delay = 600.0
        write(judged)
        process = judged.start("exec", "p.yaml")
        wait_for(lambda: len(peer.asked) == 1)
        process.kill()
        process.wait()
        peer.delay = 0.0
        assert judged("resume", "last").code == 0
        assert len(peer.asked) == 2
        assert Path(judged.path / "log").read_text().count("\n") == 1, "the task itself is not done again"

    def test_a_judge_that_never_answers_leaves_it_to_people(self, judged: Any, peer: Peer) -> None:
        peer.delay = 600.0
        write(judged, "timeout: 1s")
        done = judged("exec", "p.yaml", "--json")
        assert done.code == 8, done.err
        (examined,) = events(judged, "gate_examined")
        (seen,) = [item for item in examined["evidence"] if item["kind"] == "judge"]
        assert seen["text"] == "the judge could not tell: `llm.judge` ran longer than 1s"
        assert judged("replay", "last").code == 0

    @pytest.mark.parametrize("by", ["signal", "cancel"])
    def test_a_run_that_is_stopped_while_the_judge_thinks_does_not_wait_for_it(
        self, judged: Any, peer: Peer, by: str
    ) -> None:
        peer.delay = 600.0
        write(judged)
        process = judged.start("exec", "p.yaml")
        wait_for(lambda: len(peer.asked) == 1)
        if by == "signal":
            process.send_signal(signal.SIGINT)
        else:
            assert judged("cancel", "last").code == 0
        process.communicate(timeout=240)
        assert process.returncode == (130 if by == "signal" else 1)
        if by == "signal":
            peer.delay = 0.0
            assert judged("resume", "last").code == 0
            assert len(peer.asked) == 2
        assert judged("replay", "last").code == 0


def wait_for(holds: Callable[[], bool]) -> None:
    for _ in range(12_000):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")
