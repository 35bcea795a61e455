"""Comments silence warnings on a line, on the next line or for a whole task, and say how many."""

from __future__ import annotations

from planrunner.plan.canonical import canonical
from planrunner.plan.load import load
from planrunner.plan.lower.plan import lower
from planrunner.plan.rules.table import examine
from planrunner.plugins.registry import Registry
from planrunner.source import Source, notation_of
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import Mapping


def codes(text: str, name: str = "p.yaml") -> list[str]:
    return [finding.code for finding in load(Source(text, name, notation_of(name)), Registry()).findings]


def plan(head: str = "", above: str = "", line: str = "") -> str:
    return f"""\
plan: p
tasks:
{above}  - id: build{head}
    run: make{line}
    role: MERGE
  - id: other
    run: make
"""


WARNING = "# planrunner: ignore[PLAN501] it always ends"


def test_without_a_comment_both_tasks_are_reported() -> None:
    assert codes(plan()).count("PLAN501") == 2


def test_a_comment_on_the_head_of_a_task_covers_the_task_alone() -> None:
    assert codes(plan(head=f"  {WARNING}")).count("PLAN501") == 1


def test_a_comment_on_the_line_above_covers_the_head_and_so_the_task() -> None:
    assert codes(plan(above=f"  {WARNING}\n  # another comment\n\n")).count("PLAN501") == 1


def test_a_comment_on_another_line_covers_that_line_only() -> None:
    assert codes(plan(line=f"  {WARNING}")).count("PLAN501") == 2


def test_a_comment_names_the_codes_it_silences() -> None:
    assert codes(plan(head="  # planrunner: ignore[PLAN701]")).count("PLAN501") == 2
    assert codes(plan(head="  # planrunner: ignore[PLAN701, PLAN501]")).count("PLAN501") == 1


def test_an_error_stays() -> None:
    assert "PLAN110" in codes(plan(head="  # planrunner: ignore[PLAN110]"))


def test_a_comment_inside_a_task_covers_its_own_line() -> None:
    text = """\
plan: p
tasks:
  - id: build
    run: make
    timeout: 30  # planrunner: ignore[PLAN507]
    expect:
      # planrunner: ignore[PLAN701] somebody looks
      - looks good
      - feels good
"""
    found = codes(text)
    assert "PLAN507" not in found
    assert found.count("PLAN701") == 1


def test_the_text_notation_has_the_same_comments() -> None:
    text = """\
plan p

task build "Build" using:shell  # planrunner: ignore[PLAN501]
  run: make

task other "Other" using:shell
  run: make
"""
    assert codes(text, "p.plan").count("PLAN501") == 1


def test_silenced_findings_are_counted() -> None:
    source = Source(plan(head=f"  {WARNING}"))
    tree = parse(source).tree
    assert isinstance(tree, Mapping)
    registry = Registry()
    known = {name: found for name in registry.names() if (found := registry.find(name)) is not None}
    found = examine(lower(canonical(tree)).plan, source, known)
    assert found.suppressed == 1
    assert [finding.code for finding in found.findings].count("PLAN501") == 1
