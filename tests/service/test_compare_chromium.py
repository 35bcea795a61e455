"""Comparisons in a browser: accessible in every sight, on a phone, and by a person who compares and runs again."""

from __future__ import annotations

import commands
import pytest
from chromium import browser, faults, opened
from serving import Served


@pytest.fixture(scope="module")
def chromium():
    with browser() as there:
        yield there


@pytest.fixture(scope="module")
def runs(served: Served) -> dict[str, str]:
    """Addresses: two runs, two revisions, the form."""
    one, other = (served.start("plans/takes.yaml", params={"word": word}) for word in ("none", "some"))
    failed = served.start("plans/fails.yaml")
    for run in (one, other, failed):
        served.settled(run)
    path = served.folder / "plans/fails.yaml"
    path.write_text(path.read_text().replace("exit 3", "echo mended"))
    assert commands.run("revise", failed, str(path), folder=served.folder, env=served.environment).code == 0
    base = f"{served.address}/{served.project}/compare"
    return {"runs": f"{base}?one={one}&other={other}", "revisions": f"{base}?run={failed}", "form": base}


@pytest.mark.parametrize("what", ["runs", "revisions", "form"])
def test_every_comparison_is_open_to_all(chromium, runs, what):
    assert faults(opened(chromium, runs[what], bypass_csp=True)) == []


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_person_chooses_two_runs_and_runs_the_plan_again_beside_one(chromium, runs, script):
    page = opened(chromium, runs["form"], java_script_enabled=script)
    page.get_by_label("First run").select_option(index=1)
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("heading", name="Two runs", exact=True).wait_for()
    page.goto(runs["runs"])
    page.get_by_label("word").fill("third")
    page.get_by_role("button", name="Run and compare").click()
    page.get_by_text("third", exact=True).first.wait_for()
    page.get_by_role("heading", name="Two runs", exact=True).wait_for()
