"""The text of a plan as coloured lines, and the drawing beside it."""

from __future__ import annotations

import re

import pytest
from rows import rows

from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Notation, Source
from planrunner.views.page.code import Underline, code_lines, coloured
from planrunner.views.page.editor import finding_rows, notes_data, sketch, verdict
from planrunner.views.page.render import ticked

PLAN = """\
plan: p
tasks:
  - id: one
    run: echo 1
    timeout: 1m
  - id: two
    need: [one]
    run: echo "\N{GRINNING FACE}{{ params.none }}"
    timeout: 1m
"""
SOURCE = Source(PLAN, "p.yaml")
LOADED = load(SOURCE, Registry(plugins=False))


@rows(
    ("notation", "text", "html"),
    [
        ("yaml", "  - id: a", '  - <span class="k">id</span>: a'),
        ("yaml", "# x", '<span class="c"># x</span>'),
        ("yaml", "run: a#b", '<span class="k">run</span>: a#b'),
        ("yaml", "x: {{ y }}", '<span class="k">x</span>: <span class="v">{{ y }}</span>'),
        (
            "yaml",
            "a: {b: 'c'}",
            '<span class="k">a</span>: {<span class="k">b</span>: <span class="s">&#39;c&#39;</span>}',
        ),
        ("json", '{"a": "b"}', '{<span class="k">&#34;a&#34;</span>: <span class="s">&#34;b&#34;</span>}'),
        ("text", "task a", '<span class="k">task</span> a'),
    ],
)
def test_keys_comments_templates_and_strings_have_colours(notation: Notation, text: str, html: str) -> None:
    assert coloured(text, notation) == html


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "a: \"<b onclick='x'>&\"", "# </pre><img src=x>", "{{ <svg> }}"]
)
def test_no_text_becomes_markup(text: str) -> None:
    made = str(coloured(text, "yaml", [Underline(1, 5, "bad")]))
    assert re.sub(r'</?(?:span|u)(?: class="\w")?(?: data-s="\w+")?>', "", made).count("<") == 0


def test_a_finding_stands_beside_its_line_and_under_what_it_means() -> None:
    lines = code_lines(SOURCE, LOADED.findings)
    assert [line.number for line in lines] == list(range(1, 11))
    assert lines[6].state == "bad" and "did you mean needs?" in lines[6].notes[0].text
    assert '<u class="k" data-s="bad">need</u>' in lines[6].html
    assert lines[0].state == "" and lines[0].notes == ()


def test_findings_are_counted_in_the_verdict_and_listed_with_the_gravest_first() -> None:
    said, rows = verdict(LOADED.findings), finding_rows(SOURCE, LOADED.findings)
    assert said.state == "bad" and said.strong == "2 errors" and said.fix == "safe"
    assert [row.state for row in rows] == sorted((row.state for row in rows), key=["bad", "wait", "off"].index)
    assert str(ticked("no `<b>` here")) == "no <code>&lt;b&gt;</code> here"


def test_edits_for_the_script_count_as_scripts_count() -> None:
    units = PLAN.encode("utf-16-le")
    for row in notes_data(SOURCE, LOADED.findings):
        for start, end, _ in row["edits"]:
            assert units[2 * start : 2 * end].decode("utf-16-le") in PLAN
    assert any(units[2 * edit[0] : 2 * edit[1]].decode("utf-16-le") == "need"
               for row in notes_data(SOURCE, LOADED.findings) for edit in row["edits"])  # fmt: skip


def test_the_drawing_of_a_faulty_plan_leads_to_its_lines() -> None:
    assert LOADED.plan is None and LOADED.sketch is not None
    one, two = sketch(LOADED.sketch, SOURCE, LOADED.findings).nodes
    assert (one.line, one.state) == (3, "tool")
    assert (two.line, two.state) == (6, "bad") and "has findings" in two.label


def test_a_drawing_leads_downwards_where_nothing_holds_others() -> None:
    good = load(
        Source(PLAN.replace("need:", "needs:").replace("params.none", "run.id"), "p.yaml"), Registry(plugins=False)
    )
    assert good.plan is not None
    one, two = sketch(good.plan, SOURCE, ()).nodes
    assert two.y >= one.y + one.height and one.x == two.x
