"""Report and archive in a browser, opened as files: nothing is loaded, nothing of a run acts, every sight is accessible."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import browser, context, violations

from planrunner.app.handoff.archive import archive
from planrunner.app.handoff.pages import report

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
PLAN = f"""\
plan: hostile
title: "{EVIL}"
description: "{EVIL}"
params: {{word: {{type: string, default: "{EVIL}"}}}}
defaults: {{timeout: 1m}}
tasks:
  - id: say
    title: "{EVIL}"
    run: ["printf", "%s", "{{{{ params.word }}}}"]
  - id: fails
    needs: [say]
    run: ["sh", "-c", "printf %s \\"$1\\" >&2; exit 4", "sh", "{{{{ params.word }}}}"]
    retry: {{attempts: 2, delay: 1ms}}
    failure_modes: [{{name: logic, recover: "{EVIL}"}}]
  - id: items
    foreach: "[1, 2, 3]"
    run: ["true"]
"""


@pytest.fixture(scope="module")
def chromium():
    with browser() as opened:
        yield opened


@pytest.fixture
def files(made) -> dict[str, Path]:
    """The report and the first page of the archive of a run that tries everything."""
    run = made.run(PLAN)
    report(run, made.state, str(made.folder / "report.html"))
    archive(run, made.state, str(made.folder / "out"))
    return {"report": made.folder / "report.html", "index": made.folder / "out/index.html"}


def _opened(chromium, path: Path, said: list[str], **how):
    page = context(chromium, **how).new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on(
        "request", lambda request: said.append(request.url) if not request.url.startswith(("file:", "data:")) else None
    )
    page.goto(f"file://{path}")
    return page


@pytest.mark.parametrize("name", ["report", "index"])
def test_text_of_a_run_is_shown_as_text_and_nothing_is_loaded(chromium, files, name):
    said: list[str] = []
    page = _opened(chromium, files[name], said)
    assert "taken" not in page.title().split(" · ")[-1]
    assert page.locator("img").count() == 0
    assert page.get_by_role("heading", level=1).inner_text() == EVIL
    assert page.evaluate("document.title") != "taken"
    assert not said


@pytest.mark.parametrize("name", ["report", "index"])
@pytest.mark.parametrize("how", [{}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 844}}])
def test_every_sight_is_accessible_and_never_scrolls_sideways(chromium, files, name, how):
    page = _opened(chromium, files[name], [], bypass_csp=True, **how)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_report_shows_any_past_moment_from_a_file(chromium, files):
    said: list[str] = []
    page = _opened(chromium, files["report"], said)
    page.get_by_role("button", name="Previous event").click()
    page.get_by_text("A past moment.").wait_for()
    page.get_by_role("button", name="Back to the end").click()
    page.get_by_text("A past moment.").wait_for(state="hidden")
    page.locator(".tl a.t", has_text="say").click()
    assert page.locator(".drawer .one.on").count() == 1
    assert not said


def test_the_report_is_read_without_script(chromium, files):
    page = _opened(chromium, files["report"], [], java_script_enabled=False)
    assert page.get_by_text("Graph").first.is_visible()
    assert page.locator(".fail").first.is_visible()
    page.locator(".tl a.t", has_text="fails").click()
    assert page.locator(".drawer .one:target").is_visible()


def test_the_first_page_leads_to_the_report_and_back(chromium, files):
    page = _opened(chromium, files["index"], [])
    page.get_by_role("link", name="The run as a page").click()
    page.get_by_text("Report of run").wait_for()
    page.get_by_role("link", name="archive").click()
    page.get_by_text("Take over").wait_for()
