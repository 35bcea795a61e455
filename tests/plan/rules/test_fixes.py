"""Fixes are applied whole, never over each other, and leave everything else as it was."""

from __future__ import annotations

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.plan.fixes import apply, apply_fixes, preview
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source, Span


def finding(*edits: tuple[int, int, str], safe: bool = True) -> Diagnostic:
    fix = Fix("mend", tuple(Edit(Span(start, end), text) for start, end, text in edits), safe)
    return Diagnostic("PLAN003", "m", fix.edits[0].span, fix=fix)


def test_edits_at_several_places_are_made_at_once() -> None:
    assert apply_fixes(Source("one two three"), [finding((8, 13, "3")), finding((0, 3, "1"))]) == "1 two 3"


def test_of_overlapping_fixes_the_first_is_made_and_the_other_waits() -> None:
    done = apply(Source("abcdef"), [finding((0, 4, "X")), finding((2, 6, "Y"))])
    assert done.text == "Xef"
    assert len(done.findings) == 1


def test_a_fix_of_two_edits_is_made_whole_or_not_at_all() -> None:
    done = apply(Source("abcdef"), [finding((0, 2, "X")), finding((1, 2, "Y"), (4, 5, "Z"))])
    assert done.text == "Xcdef"


def test_the_same_edit_from_two_findings_is_made_once() -> None:
    done = apply(Source("abc"), [finding((0, 1, "X")), finding((0, 1, "X"))])
    assert done.text == "Xbc"
    assert len(done.findings) == 2


def test_insertions_beside_an_edit_do_not_clash_with_it() -> None:
    assert apply_fixes(Source("ab"), [finding((0, 1, "X")), finding((1, 1, "-"))]) == "X-b"


def test_an_unsafe_fix_is_made_on_demand_only() -> None:
    unsafe = finding((0, 1, "X"), safe=False)
    assert apply_fixes(Source("abc"), [unsafe]) == "abc"
    assert apply_fixes(Source("abc"), [unsafe], unsafe=True) == "Xbc"


def test_the_preview_shows_whole_lines() -> None:
    source = Source("a: 1\nb: 2\nc: 3\n")
    assert preview(source, Fix("x", (Edit(Span(8, 9), "two"),))) == [("b: 2", "b: two")]
    assert preview(source, Fix("x", (Edit(Span(4, 4), "\n  d: 1"),))) == [("a: 1", "a: 1\n  d: 1")]


def mended(text: str, name: str = "p.yaml", unsafe: bool = False) -> str:
    source = Source(text, name, "text" if name.endswith(".plan") else "yaml")
    return apply_fixes(source, load(source, Registry()).findings, unsafe)


def test_fixes_of_a_real_plan_keep_comments_and_layout() -> None:
    text = """\
plan: p   # the plan
tasks:
  - id: build
    run: make        # compile
    timout: 30
  - id:   test
    needs: [ biuld ]
    uses: shel
    timeout: 30   # seconds
"""
    once = mended(text, unsafe=True)
    assert (
        once
        == """\
plan: p   # the plan
tasks:
  - id: build
    run: make        # compile
    timeout: 30
  - id:   test
    needs: [ build ]
    uses: shell
    timeout: 30s   # seconds
"""
    )
    assert "timeout: 30s\n" in mended(once)


def test_a_guess_at_what_shall_run_is_not_made_unasked() -> None:
    text = "plan: p\ntasks:\n  - {id: a, uses: nop}\n  - {id: b, uses: noop, needs: [aa]}\n"
    assert mended(text) == text
    assert mended(text, unsafe=True) == text.replace("nop}", "noop}").replace("[aa]", "[a]")
