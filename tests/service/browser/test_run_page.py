"""The page of one run in a browser: past moments, drawers, live tasks and logs, actions with their previews."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from browsing import Shop
from playwright.sync_api import Page, expect
from serving import awaited

Visit = Callable[..., Page]

HOSTILE = "</script><img src=x onerror=alert(1)>"

SLOW = """
plan: slow
title: Waits for a file
defaults: {timeout: 2m}
tasks:
  - id: first
    run: "echo first line; until test -e go-1; do sleep 0.05; done; echo second line; until test -e go-2; do sleep 0.05; done"
  - {id: second, needs: [first], run: echo done}
"""


def state(page: Page, task: str) -> str:
    """How the timeline shows a task."""
    return page.locator(f".tl li[data-task='{task}'] a.t").get_attribute("data-s") or ""


def test_the_scrubber_shows_any_past_moment_and_leads_back(visit: Visit, shop: Shop) -> None:
    page = visit(f"runs/{shop.asks}")
    expect(page.locator(".verdict.past")).to_be_hidden()
    page.locator("#moment").focus()
    page.keyboard.press("Home")
    expect(page.locator(".verdict.past")).to_be_visible()
    expect(page.locator("#said")).to_contain_text("run started")
    assert state(page, "lint") == "todo"
    assert page.locator(".tries li:not(.later)").count() == 0
    page.keyboard.press("]")
    page.keyboard.press("End")
    expect(page.locator(".verdict.past")).to_be_hidden()
    assert state(page, "lint") == "ok"


def test_a_past_moment_does_not_show_the_failure_that_came_later(visit: Visit, shop: Shop) -> None:
    for script in (True, False):
        page = visit(f"runs/{shop.failed}?at=2", script=script)
        expect(page.locator("section.fail")).to_be_hidden()
        page.locator(".verdict.past a", has_text="Back to now").click()
        expect(page.locator("section.fail")).to_be_visible()


def test_a_moment_of_the_list_of_events_is_an_address_of_its_own(visit: Visit, shop: Shop) -> None:
    for script in (True, False):
        page = visit(f"runs/{shop.asks}?at=4", script=script)
        expect(page.locator(".verdict.past")).to_be_visible()
        assert state(page, "sign-off") == "todo"
        assert page.locator(".node[data-task='sign-off']").first.get_attribute("data-s") == "todo"
        page.locator(".verdict.past a", has_text="Back to now").click()
        expect(page.locator(".verdict.past")).to_be_hidden()
        assert state(page, "sign-off") == "gate"


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_task_is_chosen_in_the_graph_and_in_the_timeline(visit: Visit, shop: Shop, script: bool) -> None:
    page = visit(f"runs/{shop.failed}", script=script)
    expect(page.locator("aside section:visible h2")).to_have_text("check")
    page.locator(".tl a.t", has_text="start").click()
    expect(page.locator("aside section:visible h2")).to_have_text("start")
    expect(page.locator("aside section:visible pre")).to_contain_text("started")
    page.locator("a.node", has_text="report").click()
    expect(page.locator("aside section:visible h2")).to_have_text("report")


def test_a_run_and_its_log_are_live(visit: Visit, shop: Shop) -> None:
    folder = shop.served.folder
    (folder / "plans/slow.yaml").write_text(SLOW)
    run = shop.served.start("plans/slow.yaml")
    page = visit(f"runs/{run}")
    expect(page.locator(".tl li[data-task='first'] .stw")).to_have_text("Running")
    log = page.locator("aside section:visible pre")
    expect(log).to_contain_text("first line")
    (folder / "go-1").touch()
    expect(log).to_contain_text("second line")
    page.locator(".tl a.t", has_text="second").click()
    (folder / "go-2").touch()
    expect(page.locator(".verdict.present strong")).to_have_text("Completed")
    expect(page.locator("aside section:visible h2")).to_have_text("second")
    expect(page.locator(".tl li[data-task='second'] .stw")).to_have_text("Completed")


def test_a_large_run_fetches_the_drawer_of_a_task_that_is_chosen(visit: Visit, shop: Shop) -> None:
    tasks = [{"id": f"t{at}", "title": f"Number {at}", "uses": "noop"} for at in range(150)]
    (shop.served.folder / "plans/wide.json").write_text(
        json.dumps({"plan": "wide", "defaults": {"timeout": "1m"}, "tasks": tasks})
    )
    run = shop.served.start("plans/wide.json")
    shop.served.settled(run)
    for script in (True, False):
        page = visit(f"runs/{run}", script=script)
        page.locator(".tl a.t", has_text=re.compile("^t149")).click()
        page.wait_for_url(re.compile("#t-t149$"))  # without script it is another page, whose style hides the others
        expect(page.locator("aside section:visible h2")).to_have_text("Number 149")
        assert page.locator("aside section").count() < 70


def test_what_tasks_are_called_and_print_is_text(visit: Visit, shop: Shop) -> None:
    plan = {
        "plan": "hostile",
        "title": HOSTILE,
        "defaults": {"timeout": "1m"},
        "tasks": [
            {
                "id": "loud",
                "title": HOSTILE,
                "description": HOSTILE,
                "run": ["printf", "%s\\033]0;owned\\007", HOSTILE],
                "stdout": "text",
                "outputs": {"said": {"type": "string", "value": "{{ stdout }}"}},
            },
            {"id": "falls", "needs": ["loud"], "run": ["sh", "-c", f"echo '{HOSTILE}' >&2; exit 1"]},
        ],
    }
    (shop.served.folder / "plans/hostile.json").write_text(json.dumps(plan))
    run = shop.served.start("plans/hostile.json")
    shop.served.settled(run)
    page = visit(f"runs/{run}")
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    page.locator(".tl a.t", has_text="loud").click()
    expect(page.locator("aside section:visible pre")).to_contain_text("onerror")
    assert page.locator("main img").count() == 0
    assert "\x1b" not in page.content()
    page.locator("#moment").focus()
    page.keyboard.press("Home")
    expect(page.locator("#said")).to_contain_text("run started")


def test_a_rollback_shows_what_it_would_undo_and_undoes_it(visit: Visit, shop: Shop) -> None:
    (shop.served.folder / "plans/takes-back.yaml").write_text(
        "plan: takes-back\ndefaults: {timeout: 1m}\ntasks:\n"
        "  - {id: make, run: echo made > made.txt, rollback: {run: rm made.txt}}\n"
        "  - {id: falls, needs: [make], run: exit 1}\n"
    )
    run = shop.served.start("plans/takes-back.yaml")
    shop.served.settled(run)
    made = shop.served.folder / "made.txt"
    assert made.exists()
    page = visit(f"runs/{run}", script=False)
    page.get_by_role("link", name="Preview").click()
    expect(page.locator("main")).to_contain_text("rm made.txt")
    page.get_by_label("Reason").fill("not wanted")
    page.get_by_role("button", name="Roll back 1 step").click()
    page.wait_for_url(re.compile(f"/runs/{run}$"))
    shop.served.settled(run)
    page.reload()
    expect(page.locator(".verdict.present")).to_contain_text("Rolled back")
    assert not made.exists()


def test_a_run_is_cancelled_after_a_question(visit: Visit, shop: Shop) -> None:
    (shop.served.folder / "plans/waits.yaml").write_text(
        "plan: waits\ndefaults: {timeout: 5m}\ntasks: [{id: wait, run: sleep 200}]\n"
    )
    run = shop.served.start("plans/waits.yaml")
    page = visit(f"runs/{run}/cancel", script=False)
    page.get_by_label("Reason").fill("a mistake")
    page.get_by_role("button", name="Cancel the run").click()
    page.wait_for_url(re.compile(f"/runs/{run}$"))
    shop.served.settled(run)
    page.reload()
    expect(page.locator(".verdict.present")).to_contain_text("Cancelled")
    expect(page.locator(".verdict.present")).to_contain_text("a mistake")


def test_a_task_runs_again_after_what_that_means_was_shown(visit: Visit, shop: Shop) -> None:
    run = shop.served.start("plans/smoke.yaml", params={"fail": False})
    shop.served.settled(run)
    page = visit(f"runs/{run}?task=check", script=False)
    page.locator("aside section:visible").get_by_role("link", name="Run again from here").click()
    expect(page.locator("main")).to_contain_text("check")
    page.get_by_role("button", name="Run again").click()
    page.wait_for_url(re.compile(f"/runs/{run}$"))
    awaited(lambda: shop.served.run(run)["tasks"]["check"]["attempts"] == 2)
    shop.served.settled(run)
    page.reload()
    expect(page.locator(".verdict.present")).to_contain_text("Completed")


def test_a_run_in_the_queue_has_a_page_before_it_begins(visit: Visit, shop: Shop) -> None:
    paused = visit("queue", script=False)
    paused.get_by_role("button", name=re.compile("^Pause")).first.click()
    awaited(lambda: shop.served.get(f"{shop.served.api}/queue").data["paused"])
    run = shop.served.start("plans/smoke.yaml")
    page = visit(f"runs/{run}", script=False)
    expect(page.locator(".verdict")).to_contain_text("In the queue")
    paused.goto(f"{shop.address}/queue")
    paused.get_by_role("button", name=re.compile("^(Resume|Continue)")).first.click()
    shop.served.settled(run)
    page.goto(f"{shop.address}/runs/{run}")
    expect(page.locator(".verdict.present")).to_contain_text("Failed")


def test_a_person_says_on_the_page_what_became_of_attempts_that_were_cut_off(visit: Visit, shop: Shop) -> None:
    folder = shop.served.folder
    (folder / "plans/cut.yaml").write_text(
        "plan: cut\ndefaults: {timeout: 2m}\ntasks: [{id: act, foreach: [a, b], run: 'touch {{ item }}.acts; sleep 60'}, "
        "{id: after, needs: [act], run: echo after}]\n"
    )
    command = [sys.executable, "-m", "planrunner", "exec", "plans/cut.yaml", "--progress", "quiet"]
    acting = subprocess.Popen(command, cwd=folder, env=shop.served.environment)
    awaited(lambda: len([*folder.glob("*.acts")]) == 2)
    acting.kill()
    acting.wait()
    listed = f"{shop.served.api}/runs?plan=cut"  # the service hears of a run of another process a moment later
    run = awaited(lambda: shop.served.get(listed).data["runs"])[0]["run_id"]
    awaited(lambda: {"act[0]", "act[1]"} <= {*shop.served.run(run)["tasks"]})
    page = visit(f"runs/{run}", script=False)
    expect(page.locator(".verdict.present")).to_contain_text("the ends of act[0], act[1] are unknown")
    first, second = page.locator(".fail").all()
    expect(first).to_contain_text("was cut off")
    expect(second.get_by_role("button", name="Try again")).to_be_visible()
    first.get_by_role("button", name="It succeeded").click()
    page.wait_for_url(re.compile(f"/runs/{run}$"))
    awaited(lambda: shop.served.run(run)["tasks"]["act[0]"]["status"] == "completed")
    page.reload()
    expect(page.locator(".verdict.present")).to_contain_text("the end of act[1] is unknown")
    page.get_by_role("button", name="It succeeded").click()
    page.wait_for_url(re.compile(f"/runs/{run}$"))
    awaited(lambda: shop.served.run(run)["status"] == "completed")
    page.reload()
    expect(page.locator(".verdict.present")).to_contain_text("Completed")
