"""Every code is explained, and the plans in the explanations do what is said of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rows import rows
from workbench import ROOT

from planrunner import later
from planrunner.app.plans.reference import explain_rule
from planrunner.diagnostics import RULES, Diagnostic
from planrunner.plan.load import load
from planrunner.plan.rules.table import TABLE, Listed
from planrunner.plugins.registry import Registry
from planrunner.safety.project import check_files
from planrunner.source import Source
from planrunner.views.findings import rule_url

HEADINGS = ["What", "Why it matters", "Bad", "Good", "When to ignore"]
OF_THE_SETTINGS = {code for code in RULES if code.startswith("PLAN84") or code in ("PLAN227", "PLAN616")}
"""What they show are files of a project's settings, not plans."""
WITHOUT_A_BAD_PLAN = {"PLAN011", "PLAN012", "PLAN112", "PLAN506", "PLAN607"}


def section(code: str, heading: str) -> str:
    parts = re.split(r"^## (.+)$", explain_rule(code), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[heading]


def plan_in(code: str, heading: str) -> str:
    found = re.search(r"```yaml\n(.*?)```", section(code, heading), re.DOTALL)
    assert found, f"{code} has no plan under {heading}"
    return found.group(1)


def findings(text: str) -> tuple[Diagnostic, ...]:
    return load(Source(text, "example.yaml"), Registry()).findings


@rows("code", RULES)
def test_an_explanation_has_its_fixed_parts(code: str) -> None:
    text = explain_rule(code)
    assert text.startswith(f"# {code} {RULES[code].name}\n")
    assert f"Severity: {RULES[code].severity}." in text
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == HEADINGS
    assert all(section(code, heading).strip() for heading in HEADINGS)


@rows("code", [code for code in RULES if code not in WITHOUT_A_BAD_PLAN | OF_THE_SETTINGS])
def test_the_bad_plan_has_the_finding_and_no_other_error(code: str) -> None:
    found = findings(plan_in(code, "Bad"))
    assert code in {finding.code for finding in found}
    assert {finding.code for finding in found if finding.severity == "error"} <= {code}


@pytest.mark.parametrize("code", sorted(OF_THE_SETTINGS))
def test_the_bad_settings_have_the_finding_and_no_other_error_and_the_good_ones_none(code: str, tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text("models: {fast: {provider: openai, model: gpt-5-mini}}\n")
    (tmp_path / "release.yaml").write_text("plan: release\ntasks:\n  - {id: build, run: make, timeout: 1m}\n")
    for heading, expected in (("Bad", {code}), ("Good", set())):
        (tmp_path / "planrunner.yaml").write_text(plan_in(code, heading))
        assert {finding.code for file in check_files(str(tmp_path)) for finding in file.findings} == expected


@rows("code", [code for code in RULES if code not in OF_THE_SETTINGS])
def test_the_good_plan_has_no_error_and_not_the_finding(code: str) -> None:
    found = findings(plan_in(code, "Good"))
    assert not [finding for finding in found if finding.severity == "error" or finding.code == code]


@rows("code", RULES)
def test_the_reference_has_the_place_that_findings_link_to(code: str) -> None:
    page, _, anchor = rule_url(code).partition("#")
    headings = re.findall(r"^## (.+)$", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert anchor in {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("rule", TABLE, ids=lambda rule: rule.place)
def test_every_rule_of_the_table_is_there(rule: Listed) -> None:
    assert callable(later.load(f"planrunner.plan.rules.{rule.place}"))
