"""Runs and gates through the API, as a program drives them."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import commands
from serving import Served, awaited, make_project, serving

from planrunner.app.queue.database import Answers


def test_a_run_is_started_shown_listed_and_explained(served: Served) -> None:
    run = served.start("plans/quick.yaml")
    shown = served.settled(run)
    assert (shown["run_id"], shown["status"], shown["exit_code"]) == (run, "completed", 0)
    listed = awaited(lambda: served.get(f"{served.api}/runs?plan=quick&status=completed").data["runs"])
    assert run in [each["run_id"] for each in listed]
    why = served.get(f"{served.api}/runs/{run}/why/two").data
    assert why["status"] == "completed"
    assert any("completed" in line for line in why["why"])
    log = served.get(f"{served.api}/runs/{run}/log?task=two")
    assert log.text == "second\n"
    assert "sandbox" in log.headers["content-security-policy"]


def test_events_come_page_by_page(served: Served) -> None:
    run = served.start("plans/quick.yaml")
    served.settled(run)
    seen, after = [], 0
    while after is not None:
        page = served.get(f"{served.api}/runs/{run}/events?limit=3&after={after}").data
        assert len(page["events"]) <= 3
        seen += [each["seq"] for each in page["events"]]
        after = page["after"]
    assert seen == list(range(1, len(seen) + 1))
    assert served.get(f"{served.api}/runs/{run}/events?type=run_ended").data["events"][0]["seq"] == seen[-1]


def test_what_keeps_a_run_from_starting_is_told_at_once(served: Served) -> None:
    unknown = served.post(f"{served.api}/runs", {"plan": "plans/quik.yaml"})
    assert (unknown.status, unknown.data["hint"]) == (404, "did you mean `plans/quick.yaml`?")
    assert unknown.headers["content-type"] == "application/problem+json"
    wrong = served.post(f"{served.api}/runs", {"plan": "plans/takes.yaml", "params": {"wrd": "x"}})
    assert wrong.status == 400
    assert "wrd" in wrong.data["detail"]
    outside = served.post(f"{served.api}/runs", {"plan": "../other/plans/quick.yaml"})
    assert outside.status == 403
    more = served.post(f"{served.api}/runs", {"plan": "plans/quick.yaml", "unconfined": True})
    assert (more.status, more.data["errors"][0]["where"]) == (422, ["body", "unconfined"])


def test_a_plan_is_meant_by_its_name_as_on_the_command_line(served: Served) -> None:
    run = served.post(f"{served.api}/runs", {"plan": "quick"})
    assert run.status == 202 and run.data["plan"].endswith("/plans/quick.yaml")
    task = served.post(f"{served.api}/plans/quick/tasks/one/run", {"inputs": {}})
    (served.folder / "plans" / "ship.plan.yaml").write_text((served.folder / "plans" / "quick.yaml").read_text())
    assert served.post(f"{served.api}/runs", {"plan": "ship"}).data["plan"].endswith("/plans/ship.plan.yaml")
    assert task.status == 202
    unknown = served.post(f"{served.api}/runs", {"plan": "quik"})
    assert (unknown.status, unknown.data["hint"]) == (404, "did you mean `plans/quick.yaml`?")
    (served.folder / "plans" / "quick.plan").write_text("task a\n  run: true\n")
    several = served.post(f"{served.api}/runs", {"plan": "quick"})
    assert several.status == 400
    assert several.data["detail"] == "`quick` names several plans: plans/quick.plan, plans/quick.yaml"


def test_a_gate_is_decided_for_what_it_shows_and_the_run_goes_on(served: Served) -> None:
    run = served.start("plans/asks.yaml")
    assert served.settled(run)["status"] == "blocked"
    (gate,) = served.get(f"{served.api}/runs/{run}/gates").data["gates"]
    approve = f"{served.api}/runs/{run}/gates/{gate['gate']}/approve"
    assert served.post(approve, {}).status == 422
    assert served.post(approve, {"shown": "0" * 40}).status == 409
    answer = served.post(approve, {"shown": gate["shown"], "rationale": "fine"})
    assert (answer.status, answer.data["votes"][0]["applied"]) == (200, True)
    ended = awaited(lambda: (shown := served.run(run)) and shown["status"] == "completed" and shown)
    assert ended["tasks"]["publish"]["status"] == "completed"
    late = served.post(approve, {"shown": gate["shown"]})
    assert late.status in (400, 409)
    assert "completed" in late.data["detail"] or "decided" in late.data["detail"]


def test_gates_of_all_runs_come_page_by_page(served: Served) -> None:
    asking = [served.start("plans/asks.yaml") for _ in range(3)]
    for run in asking:
        assert served.settled(run)["status"] == "blocked"
    awaited(
        lambda: set(asking) <= {each["run_id"] for each in served.get(f"{served.api}/gates?limit=500").data["gates"]}
    )
    seen, path = [], f"{served.api}/gates?limit=1"
    page = served.get(path).data
    while page["after"] is not None:
        seen += page["gates"]
        page = served.get(f"{path}&after={page['after']}").data
    seen += page["gates"]
    assert seen == served.get(f"{served.api}/gates?limit=500").data["gates"]
    assert {each["run_id"] for each in seen} >= set(asking)
    assert served.get(f"{served.api}/gates?limit=0").status == 422


def test_approval_and_rejection_at_once_give_one_decision_and_both_are_told(served: Served) -> None:
    run = served.start("plans/asks.yaml")
    served.settled(run)
    (gate,) = served.get(f"{served.api}/runs/{run}/gates").data["gates"]
    said = {"shown": gate["shown"], "rationale": "a word"}

    def vote(what: str) -> int:
        return served.post(f"{served.api}/runs/{run}/gates/sign/{what}", said).status

    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(vote, ["approve", "reject"] * 4))
    assert codes.count(200) == 1
    assert set(codes) <= {200, 400, 409}
    awaited(lambda: served.run(run)["status"] in ("completed", "failed"))
    votes = served.get(f"{served.api}/runs/{run}/events?type=gate_voted").data["events"]
    assert len(votes) == 1


def test_a_failed_run_is_retried_and_its_rollback_told(served: Served) -> None:
    run = served.start("plans/fails.yaml")
    assert served.settled(run)["status"] == "failed"
    again = served.post(f"{served.api}/runs/{run}/retry", {})
    assert (again.status, again.data["act"]) == (202, "retry")
    twice = awaited(lambda: (shown := served.settled(run))["tasks"]["breaks"]["attempts"] == 2 and shown)
    assert twice["status"] == "failed"
    nothing = served.post(f"{served.api}/runs/{run}/rollback/preview", {})
    assert nothing.status == 400
    assert "nothing to undo" in nothing.data["detail"]


def test_a_run_of_the_queue_that_failed_and_is_retried_elsewhere_is_cancelled(served: Served) -> None:
    plan = "plan: again\ntasks: [{id: act, run: test -e ready && touch acting && sleep 60, timeout: 2m}]\n"
    (served.folder / "plans/again.yaml").write_text(plan)
    run = served.start("plans/again.yaml")
    assert served.settled(run)["status"] == "failed"
    (served.folder / "ready").touch()
    command = [sys.executable, "-m", "planrunner", "retry", run, "--progress", "quiet"]
    with subprocess.Popen(command, cwd=served.folder, env=served.environment) as elsewhere:
        awaited((served.folder / "acting").exists)
        answer = served.post(f"{served.api}/runs/{run}/cancel", {"reason": "enough"})
        assert answer.status == 200, answer
        elsewhere.wait(240)
    assert (
        awaited(lambda: (shown := served.run(run))["status"] == "cancelled" and shown)["stopped"]["comment"] == "enough"
    )


def test_a_run_is_paused_goes_on_and_is_cancelled(served: Served) -> None:
    run = served.start("plans/waits.yaml")
    awaited(lambda: served.get(f"{served.api}/runs/{run}").status == 200)
    awaited(lambda: served.run(run)["tasks"]["stands"]["status"] == "running")
    paused = served.post(f"{served.api}/runs/{run}/pause", {"reason": "a moment"})
    assert (paused.status, paused.data["applied"]) == (200, True)
    cancelled = served.post(f"{served.api}/runs/{run}/cancel", {"reason": "enough"})
    assert cancelled.status == 200
    ended = awaited(lambda: (shown := served.run(run))["status"] == "cancelled" and shown)
    assert ended["stopped"]["comment"] == "enough"
    assert served.post(f"{served.api}/runs/{run}/cancel", {}).status in (400, 409)


def test_the_same_key_starts_one_run(served: Served) -> None:
    body = {"plan": "plans/quick.yaml"}
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(served.post, f"{served.api}/runs", body, **{"Idempotency-Key": "one"}) for _ in range(4)]
    runs = {each.result().data["run_id"] for each in asked if each.result().status == 202}
    assert len(runs) == 1
    (run,) = runs
    served.settled(run)
    other = served.post(f"{served.api}/runs", {"plan": "plans/asks.yaml"}, **{"Idempotency-Key": "one"})
    assert other.status == 422


def test_a_key_with_another_request_is_refused_after_a_restart_too(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    body, runs = {"plan": "plans/takes.yaml", "params": {"word": "one"}}, []
    for _ in range(2):
        with serving(folder) as running:
            once = {"Idempotency-Key": "k"}
            runs.append(running.post(f"{running.api}/runs", body, traceparent="", **once).data["run_id"])
            for other in ({**body, "params": {"word": "two"}}, {**body, "priority": 3}, {"plan": "plans/quick.yaml"}):
                answer = running.post(f"{running.api}/runs", other, **once)
                assert (answer.status, "another request" in answer.data["detail"]) == (422, True)
            running.settled(runs[0])
            commands.run("rerun", runs[0], "says", "--json", folder=folder, env=running.environment)
    assert runs[0] == runs[1]


def test_what_was_done_with_a_key_is_not_done_again_after_a_restart(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    once, answers = {"Idempotency-Key": "k"}, []
    for _ in range(2):
        with serving(folder) as running:
            run = running.post(f"{running.api}/runs", {"plan": "plans/takes.yaml", "params": {"word": "x"}}, **once)
            running.settled(run.data["run_id"])
            again = f"{running.api}/runs/{run.data['run_id']}/rerun"
            answers.append((run.data, running.post(again, {"tasks": ["says"]}, **once).data))
            assert running.post(again, {"tasks": ["says"], "downstream": True}, **once).status == 422
            running.settled(run.data["run_id"])
    assert answers[0] == answers[1]


def test_a_request_whose_service_was_killed_is_not_carried_out_again(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    with serving(folder) as running:
        body = {"plan": "plans/takes.yaml", "params": {"word": "x"}}
        run = running.post(f"{running.api}/runs", body, **{"Idempotency-Key": "s"}).data["run_id"]
        running.settled(run)
        again = f"{running.api}/runs/{run}/rerun"
        assert running.post(again, {"tasks": ["says"]}, **{"Idempotency-Key": "k"}).status == 202
        running.settled(run)
        with Answers(str(folder / ".planrunner")) as answers, answers.writing():
            answers.do("UPDATE answers SET answer = NULL")
        told = running.post(again, {"tasks": ["says"]}, **{"Idempotency-Key": "k"})
        assert (told.status, "was when its service ended" in told.data["detail"]) == (409, True)
        assert running.post(f"{running.api}/runs", body, **{"Idempotency-Key": "s"}).data["run_id"] == run


def test_memory_is_kept_read_by_keys_and_forgotten(served: Served) -> None:
    put = served.ask("PUT", f"{served.api}/memory/deploy/region", {"value": {"name": "north"}})
    assert put.status == 200
    found = served.get(f"{served.api}/memory?keys=deploy/region,other").data["entries"]
    assert [(each["key"], each["value"]) for each in found] == [("deploy/region", {"name": "north"})]
    assert served.ask("DELETE", f"{served.api}/memory/deploy/region").status == 200
    gone = served.get(f"{served.api}/memory/deploy/region")
    assert gone.status == 404


def test_a_plan_is_written_checked_previewed_and_one_task_of_it_run(served: Served) -> None:
    plan = {"plan": "made", "defaults": {"timeout": "1m"}, "tasks": [{"id": "a", "run": "echo a"}]}
    made = served.post(f"{served.api}/plans", {"path": "plans/made.json", "plan": plan})
    assert (made.status, made.data["findings"]) == (201, [])
    again = served.post(f"{served.api}/plans", {"path": "plans/made.json", "plan": plan})
    assert again.status == 409
    bare = served.post(f"{served.api}/plans", {"title": "Made", "nodes": []})
    assert (bare.status, bare.data["hint"]) == (422, "the body takes `path`, `text`, `plan`, `digest`")
    wrong = served.post(f"{served.api}/plans/validate", {"path": "plans/new.yaml", "text": "plan: x\ntasks: 3\n"})
    assert [each["severity"] for each in wrong.data["findings"]].count("error") == 1
    preview = served.post(f"{served.api}/plans/preview", {"path": "plans/made.json"}).data
    assert preview["envelope"]["tasks"][0]["task"] == "a"
    graph = served.get(f"{served.api}/plans/plans/made.json/graph").data
    assert [node["id"] for node in graph["nodes"]] == ["a"]
    run = served.post(f"{served.api}/plans/plans/made.json/tasks/a/run", {"inputs": {}}).data["run_id"]
    assert served.settled(run)["status"] == "completed"


def test_a_text_that_looks_like_a_number_is_a_text_through_the_api(served: Served) -> None:
    (served.folder / "plans" / "ver.yaml").write_text(
        "plan: ver\ndefaults: {timeout: 1m}\nparams: {word: {type: string, default: 1.10}, n: {type: int, default: 0}}\n"
        "tasks:\n  - {id: says, run: 'echo \"<{{ params.word }}> {{ params.n }}\"'}\n"
    )
    for params, said in (({"word": "2.50"}, "<2.50> 0"), ({}, "<1.10> 0"), ({"word": 2, "n": "3"}, "<2> 3")):
        run = served.start("plans/ver.yaml", params=params)
        assert served.settled(run)["status"] == "completed"
        assert served.get(f"{served.api}/runs/{run}/log?task=says").text == f"{said}\n"
    refused = served.post(f"{served.api}/runs", {"plan": "plans/ver.yaml", "params": {"word": 1.10}})
    assert refused.status == 400
    assert "`word` takes text, not the number `1.1`: write it in quotes" in refused.data["detail"]


def test_an_answer_left_to_its_defaults_is_the_defaults(served: Served) -> None:
    form = "form: {b: {type: bool, default: false}, i: {type: int, default: 0}, s: {type: string, default: ''}, "
    form += "v: {type: string, default: 3.10}}"
    (served.folder / "plans" / "forms.yaml").write_text(
        "plan: forms\ndefaults: {timeout: 1m}\nparams: {word: {type: string, default: 1.10}}\ntasks:\n"
        f"  - {{id: g, ask: 'go with {{{{ params.word }}}}?', {form}}}\n"
    )
    run = served.start("plans/forms.yaml")
    served.settled(run)
    page = served.get(f"/{served.project}/inbox/{run}/g").text
    assert "go with 1.10?" in page and 'value="3.10"' in page
    [gate] = served.get(f"{served.api}/runs/{run}/gates").data["gates"]
    assert served.post(f"{served.api}/runs/{run}/gates/g/approve", {"shown": gate["shown"]}).status < 300
    outputs = awaited(lambda: served.run(run)["tasks"]["g"].get("outputs"))
    assert {name: outputs[name] for name in "bisv"} == {"b": False, "i": 0, "s": "", "v": "3.10"}
