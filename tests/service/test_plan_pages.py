"""The list of plans and the editor: in a browser with script, and as forms without it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from chromium import browser, faults, opened
from serving import Answer, Served, awaited, serving

GOOD = """\
plan: good
title: A good plan
params:
  version: {type: string, default: 1.0.0}
tasks:
  - id: build
    run: echo {{ params.version }}
    timeout: 10s
  - id: sign-off
    gate: approval
    needs: [build]
    ask: Go on?
"""
BAD = GOOD.replace("plan: good", "plan: bad").replace("needs: [build]", "need: [build]").replace("10s", "ten seconds")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("work") / "shop"
    (folder / "plans").mkdir(parents=True)
    (folder / "planrunner.yaml").touch()
    for name in ("good", "over", "stale"):
        (folder / "plans" / f"{name}.yaml").write_text(GOOD.replace("good", name), encoding="utf-8")
    (folder / "plans" / "bad.yaml").write_text(BAD, encoding="utf-8")
    with serving(folder) as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


def hidden(html: str) -> dict[str, str]:
    """The hidden fields of a page."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', html))


def send(served: Served, path: str, **fields: str) -> Answer:
    """A form as a browser sends it."""
    return served.ask("POST", path, urlencode(fields).encode(), content_type="application/x-www-form-urlencoded")


def press(served: Served, file: str, **fields: str) -> Answer:
    """A button of the editor of a plan."""
    page = served.get(f"/shop/plans/{file}").text
    return send(served, f"/shop/plans/{file}", **{**hidden(page), **fields})


def test_the_list_tells_findings_and_filters_them(served: Served) -> None:
    everything = served.get("/shop/plans").text
    errors = served.get("/shop/plans?findings=errors").text
    words = served.get("/shop/plans?q=bad").text
    assert "plans/good.yaml" in everything and "plans/bad.yaml" in everything
    assert "plans/bad.yaml" in errors and "plans/good.yaml" not in errors
    assert "plans/good.yaml" not in words
    assert "2 errors" in everything


def test_an_editor_shows_findings_beside_their_lines_without_script(served: Served, chromium: Any) -> None:
    page = opened(chromium, f"{served.address}/shop/plans/plans/bad.yaml", java_script_enabled=False)
    assert "2 errors" in page.locator("#verdict").inner_text()
    assert "did you mean needs" in page.locator("#L11").inner_text()
    page.locator("summary", has_text="Edit as plain text").click()
    page.locator("#src").fill(GOOD.replace("good", "bad"))
    page.get_by_role("button", name="Check").click()
    assert "No findings" in page.locator("#verdict").inner_text()
    assert "changed since" not in page.content()
    assert served.folder.joinpath("plans/bad.yaml").read_text() == BAD, "checking writes nothing"


def test_the_safe_fix_and_the_format_come_as_a_page_without_script(served: Served) -> None:
    fixed = press(served, "plans/bad.yaml", plan=BAD, do="fix:safe").text
    assert "needs: [build]" in fixed and "not saved" in fixed
    formatted = press(served, "plans/good.yaml", plan=GOOD.replace("[build]", "[ build ]"), do="tidy").text
    assert "needs: [build]" in formatted
    broken = press(served, "plans/good.yaml", plan="plan: [", do="tidy")
    assert broken.status == 422 and "does not parse" in broken.text


def test_what_was_written_meanwhile_is_never_overwritten_unseen(served: Served) -> None:
    path = "plans/over.yaml"
    before = hidden(served.get(f"/shop/plans/{path}").text)
    theirs = GOOD.replace("good", "over") + "    description: theirs\n"
    served.folder.joinpath(path).write_text(theirs)
    mine = GOOD.replace("good", "over").replace("1.0.0", "2.0.0")
    refused = send(served, f"/shop/plans/{path}", **{**before, "plan": mine, "do": "save"})
    assert refused.status == 409 and "has changed since it was read" in refused.text
    assert "theirs" in refused.text, "what differs is shown"
    assert served.folder.joinpath(path).read_text() == theirs
    digest = hidden(refused.text)["digest"]
    again = send(served, f"/shop/plans/{path}", **{**before, "digest": digest, "plan": mine, "do": "save"})
    assert again.status == 303
    assert served.folder.joinpath(path).read_text() == mine


def test_line_ends_of_a_form_do_not_reach_the_file(served: Served) -> None:
    crlf = GOOD.replace("good", "fresh").replace("\n", "\r\n")
    address = "/shop/plans/plans/fresh.yaml"
    fields = hidden(served.get(f"{address}?begin=task").text)
    assert send(served, address, **{**fields, "plan": crlf, "do": "save"}).status == 303
    late = send(served, address, **{**fields, "plan": "x", "do": "save"})
    assert late.status == 409 and "exists already" in late.text
    assert served.folder.joinpath("plans/fresh.yaml").read_bytes() == crlf.replace("\r\n", "\n").encode()


def test_a_word_that_was_offered_before_the_last_letter_replaces_all_that_is_typed(
    served: Served, chromium: Any
) -> None:
    page = opened(chromium, f"{served.address}/shop/plans/plans/good.yaml")
    area, offers = page.locator("#src"), page.locator("#offers li")
    area.focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("  - id: tell\nne")
    offers.first.wait_for()
    page.route("**/complete", lambda route: None)  # the answer to the letters that follow never comes
    page.keyboard.type("e")
    assert [each.startswith("needs") for each in offers.all_inner_texts()] == [True]
    page.keyboard.press("Enter")
    page.keyboard.type("[sign-off]")
    assert area.input_value().endswith("\n  - id: tell\n    needs: [sign-off]")
    page.keyboard.type("\nr")
    page.unroute("**/complete")
    page.keyboard.type("u")
    offers.first.wait_for()
    page.route("**/complete", lambda route: None)
    page.keyboard.type("x")
    page.locator("#offers").wait_for(state="hidden")
    page.keyboard.press("Enter")
    assert area.input_value().endswith("\n    rux\n    "), "what fits nothing that was offered is no choice"


def test_what_is_taken_back_takes_what_was_offered_for_it_along(served: Served, chromium: Any) -> None:
    page = opened(chromium, f"{served.address}/shop/plans/plans/good.yaml")
    area = page.locator("#src")
    area.focus()
    page.keyboard.press("Control+End")
    before = area.input_value()
    page.keyboard.type("  - id: tell\nne")
    page.locator("#offers li").first.wait_for()
    while area.input_value() != before:
        page.keyboard.press("Control+z")
    assert page.locator("#offers").is_hidden()


def test_findings_follow_what_is_typed_and_a_word_is_completed(served: Served, chromium: Any) -> None:
    page = opened(chromium, f"{served.address}/shop/plans/plans/good.yaml")
    area = page.locator("#src")
    area.focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("  - id: tell\nnee")
    offers = page.locator("#offers li")
    offers.first.wait_for()
    assert offers.first.inner_text().startswith("needs")
    page.keyboard.press("Enter")
    page.keyboard.type("[sig")
    page.locator("#offers b", has_text="sign-off").wait_for()
    page.keyboard.press("Enter")
    page.keyboard.type("]\nrun: echo {{ params.versoin }}")
    page.locator(".note", has_text="versoin").wait_for()
    page.locator("#verdict", has_text="1 error").wait_for()
    page.locator("[data-fix]").first.click()
    page.locator("#verdict", has_text="1 warning").wait_for()
    assert area.input_value().endswith("needs: [sign-off]\n    run: echo {{ params.version }}")
    assert page.locator("#plan-graph .node").count() == 3
    page.keyboard.press("Control+z")
    page.locator("#verdict", has_text="1 error").wait_for()


def test_a_plan_is_saved_by_key_and_offers_its_start(served: Served, chromium: Any) -> None:
    page = opened(chromium, f"{served.address}/shop/plans/plans/stale.yaml")
    page.locator("#src").focus()
    page.keyboard.press("Control+Home")
    page.keyboard.type("# a comment\n")
    page.locator("#saved", has_text="not saved").wait_for()
    page.keyboard.press("Control+s")
    page.wait_for_url("**saved=1")
    assert served.folder.joinpath("plans/stale.yaml").read_text().startswith("# a comment\n")
    assert (
        page.get_by_role("link", name="Preview and start").get_attribute("href") == "/shop/start?plan=plans/stale.yaml"
    )


@pytest.mark.parametrize("path", ["/plans", "/plans/plans/good.yaml", "/plans/plans/bad.yaml", "/draft"])
def test_no_view_has_a_fault_that_axe_knows_and_none_is_wider_than_a_phone(
    served: Served, chromium: Any, path: str
) -> None:
    assert faults(opened(chromium, f"{served.address}/shop{path}")) == []


def test_a_goal_becomes_a_plan_that_runs_only_when_it_is_trusted(served: Served) -> None:
    fields = hidden(served.get("/shop/draft").text)
    made = send(served, "/shop/draft", **fields, goal="back up the folder plans", model="-")
    assert made.status == 303, made.text
    page = served.get(made.headers["location"])
    unknown = send(served, "/shop/draft", **fields, goal="sing a song", model="-")
    assert page.status == 200 and "runs once a person has trusted it" in page.text
    assert served.folder.joinpath("plans/back-up-the-folder-plans.yaml").is_file()
    assert unknown.status == 422 and str(served.folder) not in unknown.text


def test_a_beginning_opens_in_the_notation_of_its_file_and_stays_below_the_project(served: Served) -> None:
    begun = served.get("/shop/draft/open?path=plans/new.plan&from=approval")
    outside = served.get("/shop/draft/open?path=../../evil.yaml&from=task")
    assert begun.status == 303
    assert "sign-off" in served.get(begun.headers["location"]).text
    assert outside.status == 400 and "outside" in outside.text
    assert served.get("/shop/plans/planrunner.yaml").status == 400


def test_a_waiting_run_is_revised_from_the_editor_and_goes_on(served: Served) -> None:
    run = served.start("plans/good.yaml")
    assert served.settled(run)["status"] == "blocked"
    page = served.get(f"/shop/plans/plans/good.yaml?run={run}").text
    assert "Nothing becomes stale" in page
    changed = GOOD.replace("Go on?", "Really?").replace("echo {{", "echo new {{")
    looked = served.post("/shop/look", {"path": "plans/good.yaml", "text": changed, "run": run}).data
    assert "runs again" in looked["parts"]["stale"] and "build" in looked["parts"]["stale"]
    fields = {**hidden(page), "plan": changed, "reason": "a better build", "do": "revise"}
    done = send(served, "/shop/plans/plans/good.yaml", **fields)
    assert done.status == 303 and done.headers["location"] == f"/shop/runs/{run}", done.text[:3000]
    awaited(lambda: served.get(f"{served.api}/runs/{run}/gates").text.find("Really?") >= 0)


def test_a_large_plan_comes_at_once_and_is_checked_beside_its_page(served: Served, chromium: Any) -> None:
    rows = "".join(f"  - {{id: t{number}, uses: noop, title: task number {number} of many}}\n" for number in range(700))
    (served.folder / "plans" / "large.yaml").write_text(f"plan: large\ntasks:\n{rows}", encoding="utf-8")
    try:
        page = served.get("/shop/plans/plans/large.yaml").text
        assert "Not checked yet." in page and "203 more lines" in page
        checked = press(served, "plans/large.yaml", do="check", plan=f"plan: large\ntasks:\n{rows}")
        assert "No findings." in checked.text and "700 tasks" in checked.text
        shown = opened(chromium, f"{served.address}/shop/plans/plans/large.yaml")
        shown.locator("#plan-preview .kv").wait_for()
        assert shown.locator(".ed pre .l").count() == 703 and shown.locator("[data-far]").count() > 400
        shown.close()
        awaited(lambda: "being checked" not in served.get("/shop/plans").text)
        assert "large.yaml" in served.get("/shop/plans").text
    finally:
        (served.folder / "plans" / "large.yaml").unlink()


def test_a_file_that_is_too_large_for_a_plan_is_checked_once(served: Served) -> None:
    path = served.folder / "plans" / "huge.yaml"
    path.write_text("plan: huge\ntasks: []\n" + "# nothing\n" * 850_000, encoding="utf-8")
    try:
        awaited(lambda: "being checked" not in served.get("/shop/plans").text)
        assert "huge.yaml" in served.get("/shop/plans").text
    finally:
        path.unlink()
