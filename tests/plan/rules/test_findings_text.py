"""Findings on a terminal: places, underlines, labels far apart, wide characters, long lines, fixes."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from planrunner.diagnostics import Diagnostic, Edit, Fix, Label
from planrunner.source import Source, Span
from planrunner.views.findings import render_concise, render_json, render_summary, render_text


def span(text: str, part: str, number: int = 0) -> Span:
    at = -1
    for _ in range(number + 1):
        at = text.index(part, at + 1)
    return Span(at, at + len(part))


PLAN = """\
plan: release
tasks:
  - id: build
    run: make
    timeout: 10m

  - id: test
    needs: [biuld]
    run: make test
"""


def misspelt() -> Diagnostic:
    at = span(PLAN, "biuld")
    return Diagnostic(
        "PLAN101",
        "needs `biuld`, which is not a task of the plan",
        at,
        labels=(Label(span(PLAN, "build"), "`build` is defined here"),),
        help="name a task",
        fix=Fix("name `build`", (Edit(at, "build"),)),
    )


def test_a_finding_shows_its_line_its_labels_the_help_and_the_fix() -> None:
    assert render_text([misspelt()], Source(PLAN, "release.yaml")) == (
        "error[PLAN101] needs `biuld`, which is not a task of the plan\n"
        " --> release.yaml:8:13\n"
        "  |\n"
        "3 |   - id: build\n"
        "  |         ----- `build` is defined here\n"
        "...\n"
        "8 |     needs: [biuld]\n"
        "  |             ^^^^^\n"
        "  |\n"
        "  = help: name a task\n"
        "  = fix: name `build` (--fix)\n"
        "    -     needs: [biuld]\n"
        "    +     needs: [build]\n"
        "  = docs: planrunner rule PLAN101\n"
    )


def test_one_line_between_two_marked_ones_is_shown_instead_of_dots() -> None:
    text = "a: 1\nb: 2\nc: 3\n"
    finding = Diagnostic("PLAN002", "twice", span(text, "c"), labels=(Label(span(text, "a"), "first"),))
    shown = render_text([finding], Source(text)).splitlines()
    assert shown[3:8] == ["1 | a: 1", "  | - first", "2 | b: 2", "3 | c: 3", "  | ^"]


def test_labels_on_one_line_stand_under_each_other() -> None:
    text = "needs: [a, b]\n"
    finding = Diagnostic("PLAN002", "x", span(text, "b"), "here", (Label(span(text, "a"), "there"),))
    shown = render_text([finding], Source(text)).splitlines()
    assert shown[3:6] == ["1 | needs: [a, b]", "  |         - there", "  |            ^ here"]


def test_an_unsafe_fix_says_so() -> None:
    finding = misspelt()._replace(fix=Fix("add it", (Edit(Span(0, 0), "# x\n"),), safe=False))
    shown = render_text([finding], Source(PLAN))
    assert "= fix: add it (--fix=all, may change what the plan means)\n" in shown
    assert "+ # x\n" in shown


def test_the_underline_of_wide_characters_is_as_wide_as_they_are() -> None:
    text = "title: 東京 x\n"
    shown = render_text([Diagnostic("PLAN001", "m", span(text, "東京"))], Source(text)).splitlines()
    assert shown[3:5] == ["1 | title: 東京 x", "  |        ^^^^"]


def test_tabs_are_shown_as_spaces_so_that_underlines_stay_below() -> None:
    text = "a:\n\tb\tc: 1\n"
    shown = render_text([Diagnostic("PLAN001", "m", span(text, "c"))], Source(text)).splitlines()
    assert shown[3:5] == ["2 |     b    c: 1", "  |          ^"]


def test_combining_characters_take_no_column() -> None:
    text = "e\u0301: x\n"
    shown = render_text([Diagnostic("PLAN001", "m", span(text, "x"))], Source(text)).splitlines()
    assert shown[4] == "  |    ^"


def test_control_characters_of_a_plan_never_reach_the_terminal() -> None:
    text = "a: \x1b[31mred\u202e\n"
    finding = Diagnostic("PLAN001", "found \x1b[31m", span(text, "red"), "la\x07bel", help="\x9b1m")
    shown = render_text([finding], Source(text))
    assert not [character for character in shown if unicodedata.category(character) == "Cc" and character != "\n"]
    assert "\u202e" not in shown


def test_a_very_long_line_is_cut_around_the_place() -> None:
    text = "k: " + "x" * 500 + " HERE " + "y" * 500
    shown = render_text([Diagnostic("PLAN001", "m", span(text, "HERE"))], Source(text)).splitlines()
    assert len(shown[3]) < 180
    at = shown[3].index("HERE")
    assert shown[4][at : at + 4] == "^^^^"
    assert shown[3].startswith("1 | …")
    assert shown[3].endswith("…")


def test_the_end_of_a_very_long_line_can_be_marked() -> None:
    text = "x" * 900
    shown = render_text([Diagnostic("PLAN001", "m", Span(900, 900))], Source(text)).splitlines()
    assert len(shown[3]) < 180
    assert shown[4].index("^") == len(shown[3])


def test_a_span_over_several_lines_is_marked_at_both_ends() -> None:
    text = "run: |\n  one\n  two\n  three\nnext: 1\n"
    whole = Span(text.index("|"), text.index("three") + 5)
    shown = render_text([Diagnostic("PLAN211", "m", whole, "all of this")], Source(text)).splitlines()
    assert shown[3:8] == ["1 | run: |", "  |      ^", "...", "4 |   three", "  |   ^^^^^ all of this"]


def test_places_outside_the_text_and_an_empty_text_do_not_hurt() -> None:
    shown = render_text(
        [Diagnostic("PLAN004", "m", Span(0, 0)), Diagnostic("PLAN004", "m", Span(99, 120))], Source("", "e")
    )
    assert shown.count(" --> e:1:1\n") == 2


def test_colour_changes_nothing_but_colour() -> None:
    import re

    plain = render_text([misspelt()], Source(PLAN))
    coloured = render_text([misspelt()], Source(PLAN), colour=True)
    assert "\x1b[1;31m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_the_concise_form_is_one_line_each() -> None:
    source = Source(PLAN, "release.yaml")
    other = Diagnostic("PLAN501", "two\nlines", span(PLAN, "test"))
    assert render_concise([misspelt(), other], source) == (
        "release.yaml:8:13: error[PLAN101] needs `biuld`, which is not a task of the plan\n"
        "release.yaml:7:9: warning[PLAN501] two lines\n"
    )


def test_the_summary_counts_each_severity() -> None:
    warning = Diagnostic("PLAN501", "m", Span(0, 0))
    assert render_summary([]) == "no findings"
    assert (
        render_summary([misspelt(), warning, warning], 3, 2)
        == "1 error, 2 warnings in 3 files (1 fixable, 2 suppressed)"
    )


def test_the_json_form_holds_everything() -> None:
    source = Source(PLAN, "release.yaml")
    data = json.loads(render_json([(source, [misspelt()]), (Source("x", "other.yaml"), [])]))
    at = PLAN.index("biuld")
    [found] = data["findings"]
    assert data["format"] == 1
    assert found["range"] == {
        "start": {"line": 8, "column": 13, "offset": at},
        "end": {"line": 8, "column": 18, "offset": at + 5},
    }
    assert (found["code"], found["name"], found["severity"]) == ("PLAN101", "undefined-need", "error")
    assert found["file"] == "release.yaml"
    assert found["url"] == "docs/reference/rules.md#plan101-undefined-need"
    assert found["labels"][0]["message"] == "`build` is defined here"
    assert found["fix"] == {
        "title": "name `build`",
        "safe": True,
        "edits": [{"range": found["range"], "text": "build"}],
    }


def test_a_fingerprint_survives_lines_added_above_and_tells_equal_findings_apart() -> None:
    finding = misspelt()
    twice = json.loads(render_json([(Source(PLAN, "a"), [finding, finding])]))["findings"]
    assert twice[0]["fingerprint"] != twice[1]["fingerprint"]
    moved = finding._replace(span=Span(finding.span.start + 5, finding.span.end + 5), fix=None, labels=())
    again = json.loads(render_json([(Source("#hi!\n" + PLAN, "a"), [moved])]))["findings"]
    assert again[0]["fingerprint"] == twice[0]["fingerprint"]


@given(st.text(max_size=60), st.integers(0, 70), st.integers(0, 70), st.integers(0, 70), st.text(max_size=10))
def test_any_text_and_any_place_can_be_shown(text: str, start: int, length: int, other: int, word: str) -> None:
    finding = Diagnostic(
        "PLAN001",
        word,
        Span(start, start + length),
        word,
        (Label(Span(other, other + length), word),),
        fix=Fix(word, (Edit(Span(min(start, len(text)), min(start + length, len(text))), word),)),
    )
    shown = render_text([finding], Source(text))
    assert shown.startswith("error[PLAN001]")
    assert shown.endswith("docs: planrunner rule PLAN001\n")
    render_json([(Source(text), [finding])])


def test_text_shows_fifty_findings_and_how_many_there_are_and_json_shows_all() -> None:
    source = Source("x" * 2000, "p.yaml", "yaml")
    many = [Diagnostic("PLAN001", "odd", Span(at, at + 1)) for at in range(2000)]
    shown = render_text(many, source)
    assert shown.count("error[PLAN001]") == 50
    assert "1,950 more findings about p.yaml, all of them with `--format json`" in shown
    assert len(json.loads(render_json([(source, many)]))["findings"]) == 2000


def test_a_long_name_is_clipped_in_messages() -> None:
    source = Source("x", "p.yaml", "yaml")
    shown = render_text(
        [Diagnostic("PLAN001", f"needs `{'n' * 64_000}`, which is not a task of the plan", Span(0, 1))], source
    )
    assert len(shown) < 1_000
    assert "n…`, which is not a task of the plan" in shown
