"""The gallery shows every plan there is, and its outputs are those of runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from shown import gallery
from workbench import ROOT

PLANS = ROOT / "plans"
SETTINGS = {"agents/planrunner.yaml"}
LONG = {"check-project.yaml"}
"""Plans that the slow tests run; what they print is not shown."""

pages = gallery()


def _plans() -> set[str]:
    folders = (PLANS, PLANS / "capabilities", PLANS / "agents", PLANS / pages.PLAYBOOKS)
    found = [path for folder in folders for path in folder.glob("*.*") if path.suffix in (".yaml", ".plan")]
    return {str(path.relative_to(PLANS)) for path in found} - SETTINGS


def test_every_plan_is_in_the_gallery_once() -> None:
    shown = [plan for section in pages.sections().values() for plan in section["plans"]]
    assert sorted(shown) == sorted(_plans()), "docs/gallery.yaml"


def test_every_plan_is_shown_with_an_output_but_playbooks_whose_pages_have_it() -> None:
    bare = {plan for plan in _plans() if pages.shown(plan) is None}
    assert bare == LONG | {plan for plan in _plans() if plan.startswith(f"{pages.PLAYBOOKS}/")}


def test_no_two_plans_of_a_page_have_the_same_heading() -> None:
    for name in pages.sections():
        text = (pages.GALLERY / f"{name}.md").read_text(encoding="utf-8")
        headings = [line for line in text.splitlines() if line.startswith("## ")]
        assert len(headings) == len(set(headings)) > 0


def test_a_graph_is_what_the_command_draws() -> None:
    text = (pages.GALLERY / "order.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{pages.draw('roles.yaml')}```" in text


def test_an_output_may_differ_in_order_times_and_ids_and_in_nothing_else() -> None:
    kept = pages.shown("hello.yaml")
    lines = kept.printed.splitlines(keepends=True)
    other = "".join(reversed(lines)).replace("completed in ", "completed in 1")
    assert pages.differences("hello.yaml", kept._replace(printed=other)) == []
    assert pages.differences("hello.yaml", kept._replace(code=1)) == ["exit code 1, the page says 0"]
    assert pages.differences("hello.yaml", kept._replace(printed="".join(lines[:-1])))
    assert pages.differences("hello.yaml", kept._replace(printed=kept.printed + "and more\n")) == ["+ and more"]


def test_long_outputs_are_shortened_and_compared_by_what_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "first-steps.md"
    page.write_text((pages.GALLERY / "first-steps.md").read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(pages, "GALLERY", tmp_path)
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    report = "".join(f"    line {number}\n" for number in range(20))
    seen = pages.Shown("planrunner exec plans/hello.yaml", f"started\n{report}ended\n", 1)
    pages.write("hello.yaml", seen)
    assert pages.shown("hello.yaml") == seen._replace(printed="started\n    ...\nended\n")
    assert pages.differences("hello.yaml", seen) == []
    assert pages.differences("hello.yaml", seen._replace(printed="started\n")) == ["- ended"]
    assert "Exit code 1: the run failed." in page.read_text(encoding="utf-8")
    assert pages.shown("params.yaml") is not None
