"""What people do on the pages, from end to end, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from browsing import Shop
from playwright.sync_api import Page, expect
from serving import awaited

Visit = Callable[..., Page]


def run_of(page: Page) -> str:
    """The run whose page this is."""
    found = re.search(r"/runs/([^/?#]+)", page.url)
    assert found, page.url
    return found[1]


def started(visit: Visit, plan: str, **values: str) -> Page:
    """The page of a run that was started on the start page."""
    page = visit(f"start?plan=plans/{plan}.yaml")
    for name, value in values.items():
        page.get_by_label(name, exact=True).fill(value)
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(re.compile("/runs/"))
    return page


def test_a_plan_is_started_watched_and_approved(visit: Visit, shop: Shop) -> None:
    page = started(visit, "release", version="3.0.0")
    run = run_of(page)
    verdict = page.locator(".verdict.present")
    expect(verdict).to_contain_text("Waiting")
    expect(page.locator(".node", has_text="lint").first).to_have_attribute("data-s", "ok")
    page.get_by_role("link", name="Review and decide").first.click()
    expect(page.get_by_role("heading", level=2, name="Release shopfront 3.0.0 to production?")).to_be_visible()
    expect(page.get_by_text("Not reverted by a rollback")).to_contain_text("deploy")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".verdict")).to_contain_text("approved")
    page.get_by_role("link", name="Open the run").click()
    expect(page.locator(".verdict.present")).to_contain_text("Completed")
    assert shop.served.run(run)["params"]["version"] == "3.0.0"


def test_a_gate_is_pushed_back_with_a_comment_and_shows_what_changed(visit: Visit, shop: Shop) -> None:
    page = started(visit, "release", version="3.0.1")
    run = run_of(page)
    page.get_by_role("link", name="Review and decide").first.click()
    page.get_by_role("button", name="Push back").click()
    expect(page.get_by_role("alert")).to_contain_text("say why")
    page.get_by_label("Comment").fill("for 30 seconds")
    page.get_by_role("button", name="Push back").click()
    awaited(lambda: any(gate["visit"] == 2 for gate in shop.served.run(run)["gates"]))
    page.goto(f"{shop.address}/inbox/{run}/sign-off")
    expect(page.locator(".diff .add mark")).to_contain_text("for 30 seconds")
    expect(page.get_by_text("1 of at most 2 times used")).to_be_visible()
    history = page.locator(".votes")
    expect(history).to_contain_text("pushed back")
    expect(history).to_contain_text("“for 30 seconds”")
    page.get_by_role("button", name="Approve").click()
    awaited(lambda: shop.served.run(run)["status"] == "completed")


def test_two_people_at_one_gate_make_one_decision(visit: Visit, shop: Shop) -> None:
    run = shop.served.start("plans/release.yaml", params={"version": "3.0.2"})
    shop.served.settled(run)
    first, second = visit(f"inbox/{run}/sign-off"), visit(f"inbox/{run}/sign-off")
    first.get_by_role("button", name="Approve").click()
    expect(first.locator(".verdict")).to_contain_text("approved")
    second.get_by_label("Comment").fill("no")
    second.get_by_role("button", name="Push back").click()
    expect(second.locator("main")).to_contain_text("approved")
    awaited(lambda: shop.served.run(run)["status"] == "completed")


def test_an_option_is_chosen_and_a_form_filled_in(visit: Visit, shop: Shop) -> None:
    run = shop.served.start("plans/price-import.yaml")
    shop.served.settled(run)
    page = visit(f"inbox/{run}/way")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_role("alert")).to_contain_text("wants a choice")
    page.get_by_role("radio", name="After the holidays").check()
    page.get_by_label("size", exact=True).fill("50MB")
    page.get_by_role("button", name="Answer").click()
    awaited(lambda: shop.served.run(run)["status"] == "completed")
    outputs = shop.served.run(run)["tasks"]["way"]["outputs"]
    assert (outputs["choice"], outputs["size"]) == ("later", 50_000_000)


def test_a_past_moment_is_shown_and_left_again(visit: Visit, shop: Shop) -> None:
    page = visit(f"runs/{shop.asks}")
    node = page.locator(".node", has_text="sign-off").first
    expect(node).to_have_attribute("data-s", "gate")
    page.locator("h1").click()
    for _ in range(4):
        page.keyboard.press("[")
    expect(page.locator(".verdict.past")).to_be_visible()
    expect(node).not_to_have_attribute("data-s", "gate")
    page.get_by_role("link", name="Back to now").or_(page.get_by_role("button", name="Back to now")).first.click()
    expect(page.locator(".verdict.past")).to_be_hidden()
    expect(node).to_have_attribute("data-s", "gate")


def test_a_run_is_run_again_with_other_parameters(visit: Visit, shop: Shop) -> None:
    page = visit(f"runs/{shop.failed}")
    page.locator("main .menu > summary").first.click()
    page.get_by_role("link", name="Run again with other parameters").click()
    expect(page.get_by_label("fail", exact=True)).to_have_value("true")
    page.get_by_label("fail", exact=True).select_option("false")
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(re.compile("/runs/"))
    expect(page.locator(".verdict.present")).to_contain_text("Completed")
    assert run_of(page) != shop.failed


def test_a_plan_is_edited_with_live_findings_and_saved(visit: Visit, shop: Shop) -> None:
    path = shop.served.folder / "plans" / "draft.yaml"
    path.write_text("plan: draft\ndefaults: {timeout: 1m}\ntasks:\n  - {id: one, run: echo 1}\n")
    page = visit("plans/plans/draft.yaml")
    text = page.locator("textarea[name=plan]")
    if not text.is_visible():
        page.locator("details.plain > summary").click()
    text.fill(path.read_text() + "  - {id: two, needs: [oen], run: echo 2}\n")
    findings = page.locator("main")
    expect(findings).to_contain_text("did you mean one?")
    text.fill(path.read_text() + "  - {id: two, needs: [one], run: echo 2}\n")
    expect(findings).not_to_contain_text("did you mean one?")
    page.locator("button[name=do][value=save]:visible").first.click()
    awaited(lambda: "id: two" in path.read_text())


def test_two_runs_are_compared(visit: Visit, shop: Shop) -> None:
    page = visit(f"compare?one={shop.failed}&other={shop.fine}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Two runs")
    expect(page.locator("main")).to_contain_text("fail")


def test_new_runs_wait_behind_a_button_and_changes_show_in_place(visit: Visit, shop: Shop) -> None:
    page = visit("runs")
    before = page.locator("#live-runs tr").first.get_attribute("id")
    shop.served.settled(shop.served.start("plans/smoke.yaml"))
    button = page.locator("#news")
    expect(button).to_be_visible()
    expect(button).to_have_text(re.compile("new run"))
    assert page.locator("#live-runs tr").first.get_attribute("id") == before
    button.click()
    expect(page.locator("#news")).to_be_hidden()
    assert page.locator("#live-runs tr").first.get_attribute("id") != before


def test_everything_but_deciding_has_a_key(visit: Visit, shop: Shop) -> None:
    page = visit("runs")
    page.keyboard.press("j")
    expect(page.locator(".rows .name").first).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("/")
    expect(page.get_by_label("Filter runs")).to_be_focused()
    page.keyboard.type("price")
    expect(page.locator("#live-runs tr:visible").first).to_contain_text("Import supplier prices")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.wait_for_url(re.compile("/inbox"))
    page.keyboard.press("c")
    expect(page.locator("textarea:visible").first).to_be_focused()


def test_the_theme_is_kept(visit: Visit) -> None:
    page = visit("runs")
    page.get_by_role("button", name="Switch light and dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.parametrize(
    "path", ["runs", "inbox?show=all", "queue", "start?plan=plans/hostile.yaml", "plans/plans/hostile.yaml"]
)
def test_markup_in_what_a_plan_says_stays_text(visit: Visit, shop: Shop, path: str) -> None:
    run = shop.served.start("plans/hostile.yaml")
    shop.served.settled(run)
    for each in (path, f"runs/{run}", f"inbox/{run}/asks"):
        page = visit(each)
        page.wait_for_load_state("load")
        assert page.title() != "taken"
        assert page.locator("main img, main [onclick]").count() == 0
    shop.served.post(f"{shop.served.api}/runs/{run}/cancel", {})
