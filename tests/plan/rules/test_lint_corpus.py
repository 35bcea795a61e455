"""Whole plans through the whole of lint, against what it should say of them.

Run with PLANRUNNER_UPDATE_GOLDEN=1 to write the expected texts anew, and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

from rows import rows

from planrunner.diagnostics import RULES
from planrunner.plan.load import load, read_plan
from planrunner.plan.rights import Level
from planrunner.plan.rules.view import Project
from planrunner.plugins.registry import Registry
from planrunner.source import Source
from planrunner.views.findings import render_summary, render_text

FOLDER = Path(__file__).parent
PLANS = sorted(path.name for path in (FOLDER / "plans").iterdir())
PEOPLE = {"ana": ("release", "qa"), "bo": ("release",), "cy": ("qa",)}
UPDATE = bool(os.environ.get("PLANRUNNER_UPDATE_GOLDEN"))  # read here: tests do not see the caller's settings


def lint(name: str) -> tuple[Source, str, set[str]]:
    file = read_plan(str(FOLDER / "plans" / name))
    source = Source(file.source.text, name, file.source.notation)
    findings = load(source, Registry(), Project(PEOPLE if name == "staff.yaml" else None)).findings
    text = render_text(findings, source) + "\n" + render_summary(findings) + "\n"
    return source, text, {finding.code for finding in findings}


@rows("name", PLANS)
def test_lint_says_what_it_should(name: str) -> None:
    _, text, _ = lint(name)
    golden = FOLDER / "golden" / f"{name}.txt"
    if UPDATE:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_a_clean_plan_has_no_findings() -> None:
    assert lint("clean.yaml")[2] == set()


def test_nothing_masks_anything() -> None:
    _, text, codes = lint("nothing_masks_anything.yaml")
    wanted = "PLAN003 PLAN007 PLAN101 PLAN103 PLAN110 PLAN201 PLAN205 PLAN207 PLAN507 PLAN701"
    assert set(wanted.split()) <= codes
    assert "cycle: `build` -> `test` -> `build`" in text


def test_every_place_lies_inside_the_text() -> None:
    for name in PLANS:
        source, _, _ = lint(name)
        for finding in load(source, Registry()).findings:
            for span in (finding.span, *(label.span for label in finding.labels)):
                assert 0 <= span.start <= span.end <= len(source.text), (name, finding)


def test_every_rule_has_a_plan() -> None:
    codes = set().union(*(lint(name)[2] for name in PLANS))
    graph_and_meaning = {code for code in RULES if code.startswith("PLAN") and code > "PLAN100"} | {
        "PLAN007",
        "PLAN008",
        "PLAN020",
        "PLAN021",
    }
    # a second file (tests/plan/test_plan_linking.py), a capability that spends (tests/plan/rules/test_spending_rule.py),
    # the settings of a project (tests/safety)
    graph_and_meaning -= {
        "PLAN112",
        "PLAN227",
        "PLAN506",
        "PLAN616",
        *(code for code in RULES if code.startswith("PLAN84")),
    }
    assert sorted(graph_and_meaning - codes) == [], "these have no plan in tests/plan/rules/plans"


def test_a_gate_that_the_policy_of_the_project_demands_is_a_gate() -> None:
    text = "plan: p\ndefaults: {timeout: 1m}\ntasks:\n  - {id: a, labels: [prod], run: ./deploy}\n"
    source = Source(text, "p.yaml", "yaml")
    ask = Level("planrunner.yaml", {"gates": {"prod": {"ask": "Deploy?"}}})
    assert [found.code for found in load(source, Registry()).findings] == ["PLAN610"]
    assert load(source, Registry(), Project(levels=(ask,))).findings == ()
