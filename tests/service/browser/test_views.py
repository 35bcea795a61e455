"""Every view, in the light, in the dark and on a phone: no fault that axe knows of, nothing scrolls sideways, one heading."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from browsing import Shop, picture
from chromium import faults
from playwright.sync_api import Page, expect
from serving import awaited

Visit = Callable[..., Page]

VIEWS: dict[str, Callable[[Shop], str]] = {
    "projects": lambda shop: "/sign-in",
    "runs": lambda shop: "runs",
    "no match": lambda shop: "runs?q=zzzzzz",
    "a run that waits": lambda shop: f"runs/{shop.asks}",
    "a run that failed": lambda shop: f"runs/{shop.failed}",
    "a past moment": lambda shop: f"runs/{shop.asks}?at=5",
    "inbox": lambda shop: "inbox",
    "a gate": lambda shop: f"inbox/{shop.asks}/sign-off",
    "a decision": lambda shop: f"inbox/{shop.way}/way",
    "plans": lambda shop: "plans",
    "editor": lambda shop: "plans/plans/release.yaml",
    "start": lambda shop: "start?plan=plans/release.yaml",
    "compare": lambda shop: f"compare?one={shop.failed}&other={shop.fine}",
    "queue": lambda shop: "queue",
    "notes": lambda shop: "knowledge",
    "memory": lambda shop: "knowledge/memory",
    "hypotheses": lambda shop: "knowledge/hypotheses",
    "digest": lambda shop: "knowledge/digest",
    "not found": lambda shop: "nothing/here",
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_open_to_all(visit: Visit, shop: Shop, view: str) -> None:
    page = visit(VIEWS[view](shop))
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    assert faults(page) == []


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_reads_without_script(visit: Visit, shop: Shop, view: str) -> None:
    page = visit(VIEWS[view](shop), script=False)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert len(page.locator("main").inner_text()) > 30


def test_a_gate_is_decided_without_script(visit: Visit, shop: Shop) -> None:
    run = shop.served.start("plans/release.yaml", params={"version": "4.0.0"})
    shop.served.settled(run)
    awaited(lambda: run in shop.served.get(f"/{shop.served.project}/inbox?show=all").text)
    page = visit("inbox?show=all", script=False)
    page.locator(f"a.item[href*='{run}']").click()
    expect(page.get_by_role("heading", level=2, name="Release shopfront 4.0.0 to production?")).to_be_visible()
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".verdict")).to_contain_text("approved")


def test_a_run_is_filtered_opened_and_looked_into_without_script(visit: Visit, shop: Shop) -> None:
    page = visit("runs", script=False)
    page.get_by_label("Filter runs").fill("status:failed plan:smoke")
    page.keyboard.press("Enter")
    page.locator(f"a.name[href$='{shop.failed}']").click()
    expect(page.locator("main")).to_contain_text("1 of 3 checks failed")
    page.locator(".node", has_text="start").first.click()
    expect(page.locator(".drawer .one:visible").first).to_contain_text("start")


def test_a_run_is_started_without_script(visit: Visit, shop: Shop) -> None:
    page = visit("start", script=False)
    page.get_by_role("link", name="Smoke test").click()
    page.get_by_label("fail", exact=True).select_option("false")
    page.get_by_role("button", name="Preview with these values").click()
    expect(page.get_by_role("heading", name="What would run")).to_be_visible()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Smoke test")


@pytest.mark.parametrize(
    ("name", "view"), [("runs", "runs"), ("run", "a run that waits"), ("gate", "a gate"), ("editor", "editor")]
)
def test_the_documentation_has_a_picture_of_a_view(visit: Visit, shop: Shop, name: str, view: str) -> None:
    picture(visit(VIEWS[view](shop)), name)
