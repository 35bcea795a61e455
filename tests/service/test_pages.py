"""The pages as a browser without script gets them: lists, the inbox, forms that decide and start, and their refusals."""

from __future__ import annotations

import html
import http.client
import re
from typing import Any
from urllib.parse import quote, urlencode

import commands
import pytest
from serving import PLANS, Answer, Served, awaited

PAGES = ("runs", "inbox", "queue", "start", "knowledge", "knowledge/memory", "knowledge/hypotheses", "knowledge/digest")


def page(served: Served, path: str) -> Answer:
    return served.get(f"/{served.project}/{path}", accept="text/html")


def form(served: Served, path: str, **fields: str) -> Answer:
    """Send a form as a browser does, with the token that the page gave."""
    token = re.search(r'name="form" value="([^"]+)"', page(served, fields.pop("at", path)).text)
    sent = {"form": token[1] if token else "", **fields}
    return served.post(
        f"/{served.project}/{path}",
        urlencode({name.replace("__", "."): value for name, value in sent.items()}).encode(),
        content_type="application/x-www-form-urlencoded",
        accept="text/html",
        origin=served.address,
    )


def words(answer: Answer) -> str:
    """What a person reads, without markup."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.text.partition("<main")[2])))


def shown(answer: Answer) -> str:
    found = re.search(r'name="shown" value="([0-9a-f]+)"', answer.text)
    assert found, words(answer)
    return found[1]


def asking(served: Served) -> tuple[str, str]:
    """A run that waits at a gate, and the address of the question."""
    run = served.start("plans/asks.yaml")
    served.settled(run)
    return run, f"inbox/{run}/sign"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_stands_complete_without_script(served: Served, path: str) -> None:
    answer = page(served, path)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert len(re.findall(r"<h1[ >]", answer.text)) == 1
    assert " style=" not in answer.text
    assert not re.search(r"<script(?![^>]*\b(src|type=.application/json))", answer.text)


def test_an_approval_is_for_what_was_shown_and_lets_the_run_continue(served: Served) -> None:
    run, address = asking(served)
    question = page(served, address)
    assert "Publish it?" in words(question)
    assert "the run continues with publish" in words(question)
    answer = form(served, address, decision="approve", shown=shown(question), comment="fine")
    assert answer.status == 303
    assert answer.headers["location"] == f"/{served.project}/{address}"
    awaited(lambda: served.run(run)["status"] == "completed")
    awaited(lambda: "Decided: approved" in words(page(served, address)))


def test_a_decision_for_another_sight_of_the_gate_decides_nothing(served: Served) -> None:
    run, address = asking(served)
    answer = form(served, address, decision="approve", shown="0" * 40)
    assert answer.status == 409
    assert "Nothing was decided" in words(answer)
    assert served.run(run)["status"] == "blocked"


def test_a_rejection_wants_to_know_why_and_keeps_what_was_typed(served: Served) -> None:
    run, address = asking(served)
    at = page(served, address)
    answer = form(served, address, decision="reject", shown=shown(at))
    assert answer.status == 400
    assert "say why" in words(answer)
    assert form(served, address, decision="reject", shown=shown(at), comment="too early").status == 303
    over = words(page(served, address))
    assert "So far 0 of 1 approvals" in over
    assert "approvals (" not in over
    assert "Expires" not in over
    awaited(lambda: served.run(run)["status"] == "failed")


def test_a_form_of_another_page_decides_nothing(served: Served) -> None:
    run, address = asking(served)
    body = urlencode({"decision": "approve", "shown": shown(page(served, address)), "form": "guessed"}).encode()
    kind = "application/x-www-form-urlencoded"
    answer = served.post(f"/{served.project}/{address}", body, content_type=kind, accept="text/html")
    assert answer.status == 403
    assert "This form was not made for you" in words(answer)
    assert served.run(run)["status"] == "blocked"


def test_a_question_that_is_not_asked_is_a_page_that_says_so(served: Served) -> None:
    run = served.start("plans/quick.yaml")
    served.settled(run)
    answer = page(served, f"inbox/{run}/one")
    assert answer.status == 404
    assert "asks nothing as `one`" in words(answer)


def test_the_list_shows_each_run_with_what_it_is_about(served: Served) -> None:
    run = served.start("plans/fails.yaml")
    served.settled(run)
    awaited(lambda: run in page(served, "runs?q=status:failed").text)
    answer = page(served, "runs?q=status:failed+plan:fails")
    assert "breaks" in words(answer)
    assert "exit code 3" in words(answer) or "exited" in words(answer)
    assert "did you mean `failed`" in words(page(served, "runs?q=status:faild"))
    assert "No run matches" in words(page(served, "runs?q=zzzzzz"))


def test_pages_of_runs_follow_each_other_without_a_gap(served: Served) -> None:
    runs = [served.start("plans/quick.yaml") for _ in range(30)]
    for run in runs:
        served.settled(run)
    awaited(lambda: runs[-1] in page(served, "runs?q=plan:quick").text)
    seen: list[str] = []
    path = "runs?q=plan:quick"
    while path:
        answer = page(served, path)
        seen += re.findall(r'<tr id="r-([^"]+)"', answer.text)
        older = re.search(r'href="/[^/]+/(runs\?[^"]+)">Older', answer.text)
        path = html.unescape(older[1]) if older else ""
    assert len(seen) == len(set(seen))
    assert set(runs) <= set(seen)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("takes", "/plans/plans/takes.yaml"),
        ("plans/takes.yaml", "/plans/plans/takes.yaml"),
        ("", "/runs"),
        ("zzz", "/runs?q=zzz"),
    ],
)
def test_go_leads_to_what_a_name_means(served: Served, name: str, place: str) -> None:
    answer = page(served, f"go?q={quote(name)}")
    assert (answer.status, answer.headers["location"]) == (303, f"/{served.project}{place}")


def test_go_leads_to_a_run_by_its_id(served: Served) -> None:
    run = served.start("plans/quick.yaml")
    served.settled(run)
    awaited(lambda: page(served, f"go?q={run}").headers["location"] == f"/{served.project}/runs/{run}")


def test_a_run_starts_with_the_values_of_the_form(served: Served) -> None:
    answer = form(served, "start", at="start?plan=plans/takes.yaml", plan="plans/takes.yaml", p__word="hello")
    assert answer.status == 303
    run = answer.headers["location"].rpartition("/")[2]
    assert served.settled(run)["params"] == {"word": "hello"}
    assert 'value="hello"' in page(served, f"start?like={run}").text


def test_a_run_that_cannot_start_says_why_beside_the_form(served: Served) -> None:
    answer = form(served, "start", at="start?plan=plans/takes.yaml", plan="plans/takes.yaml", priority="high")
    assert answer.status == 422
    assert "The priority is a whole number" in words(answer)
    assert "has no plan plans/tales.yaml" in words(page(served, "start?plan=plans/tales.yaml"))
    assert page(served, "start?plan=../../etc/passwd.yaml").status == 200
    assert form(served, "start", at="start?plan=plans/takes.yaml", plan="../x.yaml").status in (403, 404)


def test_the_preview_tells_what_would_run_and_the_worst_case(served: Served) -> None:
    said = words(page(served, "start?plan=plans/asks.yaml"))
    assert "What would run" in said
    assert "asks people" in said
    assert "at most" in said


def test_the_queue_is_paused_and_resumed_and_an_item_cancelled(served: Served) -> None:
    assert form(served, "queue", do="pause").status == 303
    run = ""
    try:
        assert "Paused" in words(page(served, "queue"))
        run = served.start("plans/quick.yaml")
        awaited(lambda: run in page(served, "queue").text)
        assert form(served, "queue", do="cancel", run=run).status == 303
    finally:
        assert form(served, "queue", do="go-on").status == 303
    assert "Paused" not in words(page(served, "queue"))
    assert form(served, "queue", do="nonsense").status == 400


def test_what_is_not_there_is_a_page_for_people_and_a_problem_for_programs(served: Served) -> None:
    assert "Not Found" in words(served.get("/nowhere/runs", accept="text/html"))
    assert served.get("/nowhere/runs").data["status"] == 404
    assert served.get(f"/{served.project}/knowledge?note=x", accept="text/html").status in (200, 404)


def test_a_list_names_the_stream_of_its_changes(served: Served) -> None:
    address = re.search(r'data-list="([^"]+)"', page(served, "runs").text)
    assert address
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=240)
    connection.request("GET", address[1])
    stream = connection.getresponse()
    assert stream.getheader("content-type", "").startswith("text/event-stream")
    first = _next(stream)
    served.start("plans/quick.yaml")
    assert _next(stream) != first
    connection.close()


def _next(stream: http.client.HTTPResponse) -> str:
    while not (line := stream.readline().decode()).startswith("data:"):
        assert line
    return line


def test_a_run_that_was_read_before_it_was_revised_is_read_on(served: Served) -> None:
    run, _ = asking(served)
    assert page(served, f"runs/{run}").status == 200
    text = PLANS["asks"].replace("Publish it?", "Publish it today?")
    (served.folder / "plans" / "today.yaml").write_text(text)
    answer = served.post(f"{served.api}/runs/{run}/revise", {"plan": "plans/today.yaml"})
    assert answer.status == 200, answer.text
    assert "Revision 2" in words(page(served, f"runs/{run}"))


def test_a_decided_run_that_no_worker_continues_says_to_resume_it(served: Served) -> None:
    started = commands.run("exec", "plans/asks.yaml", "--json", folder=served.folder, env=served.environment)
    run = str(started.data["run_id"])
    commands.run("approve", run, "sign", "--as", "bo", folder=served.folder, env=served.environment)
    awaited(lambda: "Open the run and resume it" in words(page(served, f"inbox/{run}/sign")))
    assert "slot is free" not in words(page(served, "runs"))


def begun(served: Served, name: str, text: str) -> str:
    """A run of a plan that is written first, once it stands still or is over."""
    (served.folder / "plans" / f"{name}.yaml").write_text(f"plan: {name}\ndefaults: {{timeout: 1m}}\ntasks:\n{text}")
    run = served.start(f"plans/{name}.yaml")
    served.settled(run)
    return run


def test_a_run_that_was_rolled_back_is_told_by_what_became_of_its_tasks(served: Served) -> None:
    begun(served, "undone", "  - {id: one, run: 'true', rollback: {run: 'true'}}\n  - {id: two, run: 'true'}\n")
    assert commands.run("rollback", "undone", folder=served.folder, env=served.environment).code == 0
    awaited(lambda: "Rolled back undone" in words(page(served, "runs?q=plan:undone")))
    told = words(page(served, "runs?q=plan:undone"))
    assert "1 completed, 1 rolled back" in told and "rolled_back" not in told


def test_a_retry_leads_on_from_what_passes_by_itself(served: Served) -> None:
    task = "  - {id: busy, retry: {attempts: 2, delay: 0s, on: [%s]}, run: 'echo no >&2; exit %s'}\n"
    task += "  - {id: after, needs: [busy], run: 'true'}\n"
    told = page(served, f"runs/{begun(served, 'busy', task % ('transient', 75))}")
    assert '<button class="primary">Retry</button>' in told.text
    assert "unlikely to help" not in told.text
    assert "not reached" not in told.text
    assert "1 task not run" in words(told) and "Then 1 not run" in words(told)
    assert "after 0ms" not in words(told)
    told = page(served, f"runs/{begun(served, 'broken', task % ('logic', 1))}")
    assert "unlikely to help" in told.text and '<button class="primary">Retry</button>' not in told.text


def test_a_cancelled_run_is_not_red_and_offers_to_run_again(served: Served) -> None:
    (served.folder / "plans/long.yaml").write_text("plan: long\ntasks:\n  - {id: wait, timeout: 2m, run: sleep 100}\n")
    run = served.start("plans/long.yaml")
    awaited(lambda: served.run(run)["tasks"]["wait"]["status"] == "running")
    assert form(served, f"runs/{run}/cancel", reason="wrong branch").status == 303
    awaited(lambda: served.run(run)["status"] == "cancelled")
    told = page(served, f"runs/{run}")
    assert "Run again" in words(told) and "like=" + run in told.text
    assert "wait was stopped" in words(told) and "wait failed" not in words(told)
    assert 'data-s="bad"' not in told.text.partition("<main")[2]


def test_a_push_back_is_called_so_at_once(served: Served) -> None:
    gate = "  - {id: notes, run: echo hi}\n  - {id: sign, needs: [notes], gate: approval, ask: 'Fine?', on_reject: {rework: notes, max: 2}}\n"
    run = begun(served, "pushed", gate)
    address = f"inbox/{run}/sign"
    sight = shown(page(served, address))
    answer = form(served, address, decision="rework", shown=sight, comment="more words")
    assert answer.status == 303
    told = words(page(served, address))
    assert "rejected by" not in told and "Decided: rejected" not in told


def test_the_verdict_knows_who_reads_it(served: Served) -> None:
    gate = "  - {id: sign, gate: approval, ask: 'Fine?', approvers: {count: 1}}\n"
    run = begun(served, "mine", gate)
    told = page(served, f"runs/{run}")
    assert "Review and decide" not in told.text and "Look at it" in told.text
    assert "started the run and may not decide" in words(told)
    run = begun(served, "anyones", "  - {id: sign, gate: approval, ask: 'Fine?'}\n")
    assert "Review and decide" in page(served, f"runs/{run}").text


def test_a_run_names_what_it_has_kept(served: Served) -> None:
    task = "  - {id: make, run: 'echo a > a.md; echo b > b.md', artifacts: [{name: report, path: a.md}, b.md]}\n"
    told = page(served, f"runs/{begun(served, 'keeps', task)}")
    assert "Artifacts report , b.md" in words(told) or "Artifacts report, b.md" in words(told)


def test_a_wrong_value_in_a_form_is_no_change_of_what_is_asked(served: Served) -> None:
    gate = "  - {id: sign, gate: approval, ask: 'How much?', form: {amount: {type: size}}}\n"
    address = f"inbox/{begun(served, 'form', gate)}/sign"
    answer = form(served, address, decision="answer", shown=shown(page(served, address)), f__amount="1 GBB")
    assert answer.status >= 400
    assert "1 GBB" in answer.text and "Nothing was decided" not in answer.text


def test_the_title_of_a_page_of_knowledge_says_where_it_is(served: Served) -> None:
    assert "· Knowledge ·" in page(served, "knowledge").text


def test_a_token_that_reads_is_offered_nothing_that_it_may_not_do(served: Served) -> None:
    # the last test here: with a token, the account of the process does not act any more
    begun(served, "anyones", "  - {id: sign, gate: approval, ask: 'Fine?'}\n")
    token = served.make_token("looks", "--scope", "read")
    said: dict[str, Any] = {"authorization": f"Bearer {token}", "accept": "text/html"}
    for path, offer in (("runs", "Start a run"), ("queue", "Start a run"), ("start", ">Start<"), ("plans", "New plan")):
        told = served.get(f"/{served.project}/{path}", **said)
        assert told.status == 200 and offer not in told.text, path
    told = served.get(f"/{served.project}/plans/plans/anyones.yaml", **said)
    assert told.status == 200 and "Preview and start" not in told.text and ">Preview<" in told.text
