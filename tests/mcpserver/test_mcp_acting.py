"""Runs that a model starts and steers: through the queue, within the settings, and never past a gate."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp_client import Answer, by_streams, call, project
from workbench import planrunner

ACTIONS = "mcp: {actions: [start, pause, resume, cancel, retry, rerun, revise]}\n"
GATED = """\
plan: gated
tasks:
  - {id: build, run: echo built, timeout: 10s}
  - {id: sign, gate: approval, ask: Ship it, needs: [build]}
  - {id: ship, run: touch shipped, timeout: 10s, needs: [sign]}
"""
FLAKY = """\
plan: flaky
tasks:
  - {id: first, run: echo one >> first.txt, timeout: 10s}
  - {id: second, run: test -e ready, timeout: 10s, needs: [first]}
"""


async def settled(client: Client, run: str) -> Any:
    """How a run stands once no process acts on it."""
    while True:
        answer = await call(client, "status", run=run, tasks=True)
        if not answer.failed and answer.told["exit_code"] is not None:
            return answer.told
        await asyncio.sleep(0.05)


def test_a_run_is_started_and_followed_to_its_end(tmp_path: Path) -> None:
    async def work(client: Client) -> tuple[Any, Answer]:
        started = await call(client, "start", plan="hello", params={"name": "ana"})
        return await settled(client, started.told["run_id"]), await call(client, "logs", task="greet")

    told, log = by_streams(project(tmp_path / "p"), work)
    assert (told["status"], told["params"]) == ("completed", {"name": "ana"})
    assert log.told["logs"][0]["text"] == "hello ana\n"


def test_a_plan_that_cannot_start_is_told_at_once(tmp_path: Path) -> None:
    async def work(client: Client) -> list[Answer]:
        wrong = [
            {"plan": "hello", "params": {"nmae": "x"}},
            {"plan": "helo"},
            {"plan": "broken"},
            {"plan": "/etc/passwd"},
        ]
        return [await call(client, "start", **each) for each in wrong]

    folder = project(tmp_path / "p", broken="plan: b\ntasks: [{id: a, uses: no.such}]\n")
    answers = by_streams(folder, work)
    assert all(each.failed for each in answers)
    assert "did you mean `name`?" in answers[0].told["error"]["message"]
    assert answers[2].told["error"]["findings"]
    assert planrunner(folder, "runs").stdout == "" or "no run" in planrunner(folder, "runs").stderr


def test_a_gate_stops_a_model_whatever_it_calls(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", ACTIONS, gated=GATED)

    async def work(client: Client) -> tuple[Any, list[Answer]]:
        run = (await call(client, "start", plan="gated")).told["run_id"]
        await settled(client, run)
        tries = [
            await call(client, "resume", run=run),
            await call(client, "rerun", run=run, tasks=["ship"]),
            await call(client, "revise", run=run, plan="gated", reason="faster"),
            await call(client, "cancel", run=run, reason="x", task="sign"),
            await call(client, "approve", run=run, gate="sign"),
        ]
        return await settled(client, run), tries

    told, tries = by_streams(folder, work)
    assert told["status"] == "blocked"
    assert told["tasks"]["sign"]["status"] == "blocked"
    assert not (folder / "shipped").exists()
    assert "a person revises it" in tries[2].told["error"]["message"]
    assert all(each.failed for each in tries[2:])
    assert planrunner(folder, "queue", "cancel", "last").returncode == 0  # with which its worker has nothing more to do


def test_a_run_that_waits_in_the_queue_is_cancelled_and_never_begins(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", ACTIONS, flaky=FLAKY)
    assert planrunner(folder, "queue", "pause").returncode == 0

    async def work(client: Client) -> Answer:
        run = (await call(client, "start", plan="flaky")).told["run_id"]
        return await call(client, "cancel", run=run, reason="not needed")

    told = by_streams(folder, work).told
    assert (told["queue"], told["reason"]) == ("cancelled", "not needed")
    assert planrunner(folder, "queue", "resume").returncode == 0
    assert not (folder / "first.txt").exists()


def test_a_failed_run_is_retried_and_a_task_of_it_re_run(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", ACTIONS, flaky=FLAKY)

    async def work(client: Client) -> list[str]:
        run = (await call(client, "start", plan="flaky")).told["run_id"]
        stands = [(await settled(client, run))["status"]]
        (folder / "ready").touch()
        assert not (await call(client, "retry", run=run)).failed
        stands.append((await settled_as(client, run, "completed"))["status"])
        assert not (await call(client, "rerun", run=run, tasks=["first"])).failed
        while (folder / "first.txt").read_text() != "one\none\n":
            await asyncio.sleep(0.05)
        return stands

    assert by_streams(folder, work) == ["failed", "completed"]


async def settled_as(client: Client, run: str, status: str) -> Any:
    """The run once it has come to a status."""
    while (told := await settled(client, run))["status"] != status:
        await asyncio.sleep(0.05)
    return told


def test_a_run_without_gates_is_revised_and_goes_on(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", ACTIONS, flaky=FLAKY)
    (folder / "plans" / "mended.yaml").write_text(FLAKY.replace("test -e ready", "echo mended"))

    async def work(client: Client) -> tuple[Answer, Answer, Any]:
        run = (await call(client, "start", plan="flaky")).told["run_id"]
        await settled(client, run)
        how = {"run": run, "plan": "mended", "reason": "the check is not needed"}
        shown = await call(client, "revise", **how, preview=True)
        made = await call(client, "revise", **how)
        return shown, made, await settled_as(client, run, "completed")

    shown, made, told = by_streams(folder, work)
    assert (shown.failed, made.failed, told["revision_number"]) == (False, False, 2)
    assert (folder / "first.txt").read_text() == "one\n"


def test_a_run_goes_on_when_its_client_has_left(tmp_path: Path) -> None:
    slow = "plan: slow\ntasks:\n  - {id: a, run: 'until test -e ready; do sleep 0.1; done', timeout: 2m}\n"
    folder = project(tmp_path / "p", slow=slow)

    async def begin(client: Client) -> str:
        return str((await call(client, "start", plan="slow")).told["run_id"])

    run = by_streams(folder, begin)
    (folder / "ready").touch()
    while json.loads(planrunner(folder, "show", run, "--json").stdout or "{}").get("exit_code") is None:
        continue
    assert json.loads(planrunner(folder, "show", run, "--json").stdout)["status"] == "completed"
