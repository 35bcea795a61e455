"""What is suggested at a place of a plan that is being written."""

from __future__ import annotations

import pytest
from rows import rows

from planrunner.app.plans.suggestions import Names, Suggestions, suggestions
from planrunner.plugins.registry import Registry
from planrunner.source import Notation, Source

PLAN = """\
plan: shop
params:
  version: {type: string}
  canary:
    type: int
tasks:
  - id: build
    title: Build it
    uses: shell
    run: make
    outputs: {commit: string}
  - id: read
    uses: files.read
    needs: [build]
    with:
      path: a
"""
NAMES = Names(Registry(plugins=False), ("critic",), ("small", "large"), ("deploy-key",))


def at(text: str, notation: Notation = "yaml") -> Suggestions:
    """What is suggested where ``¦`` stands, in a plan that ends with ``text``."""
    whole = PLAN + text if notation == "yaml" else text
    offset = whole.index("¦")
    return suggestions(Source(whole.replace("¦", ""), "shop.yaml", notation), offset, NAMES)


def words(text: str, notation: Notation = "yaml") -> list[str]:
    return [each.word for each in at(text, notation).words]


@rows(
    ("text", "first"),
    [
        ("bud¦", "budgets"),
        ("  - id: z\n    ne¦", "needs"),
        ("  - id: z\n    retry:\n      ¦", "attempts"),
        ("  - id: z\n    retry: {att¦", "attempts"),
        ("  - id: z\n    retry: {attempts: 2, ba¦", "backoff"),
        ("      enc¦", "encoding"),
        ("  - id: z\n    uses: files.wr¦", "files.write"),
        ("  - id: z\n    needs: [re¦", "read"),
        ("  - id: z\n    needs:\n      - re¦", "read"),
        ("  - id: z\n    gate: ap¦", "approval"),
        ("  - id: z\n    agent: ¦", "critic"),
        ("  - id: z\n    when: par¦", "params"),
        ("  - id: z\n    when: params.c¦", "params.canary"),
        ("  - id: z\n    run: echo {{ params.ver¦", "params.version"),
        ("  - id: z\n    run: echo {{ tasks.build.outputs.¦", "tasks.build.outputs.commit"),
        ("  - id: z\n    when: tasks.read.outputs.sha¦", "tasks.read.outputs.sha256"),
        ("  - id: z\n    run: |\n      echo {{ tasks.¦", "tasks.build"),
        ("  - id: z\n    expect:\n      - exit¦", "exit_code"),
    ],
)
def test_what_fits_comes_first(text: str, first: str) -> None:
    assert words(text)[0] == first


def test_required_inputs_come_before_others_and_those_that_stand_there_are_left_out() -> None:
    assert words("  - id: z\n    uses: files.write\n    with:\n      ¦")[0] == "path"
    assert "path" not in words("      ¦")


def test_a_key_that_stands_there_is_not_suggested_again() -> None:
    assert "title" in words("  - id: z\n    ¦")
    assert "title" not in words("  - id: z\n    title: x\n    ¦")


def test_a_task_does_not_need_itself() -> None:
    assert words("  - id: z\n    needs: [¦") == ["build", "read"]


@pytest.mark.parametrize("text", ["# nee¦", "  - id: z\n    run: |\n      ech¦", "  - id: z\n    title: whatever ¦"])
def test_nothing_is_suggested_in_plain_text(text: str) -> None:
    assert words(text) == []


def test_the_word_that_is_being_written_is_replaced() -> None:
    found = at("  - id: z\n    needs: [re¦]")
    assert (PLAN + "  - id: z\n    needs: [re]")[found.start : found.end] == "re"


def test_the_text_notation_is_completed_too() -> None:
    text = 'plan x\n\ntask build "Build"\n  run: echo\n\ntask check\n  needs: b¦'
    assert words(text, "text") == ["build"]
    assert "timeout" in words("plan x\n\ntask build\n  ti¦", "text")


@pytest.mark.parametrize("notation", ["yaml", "text", "json"])
def test_every_place_of_every_text_has_an_answer(notation: Notation) -> None:
    for text in (
        PLAN,
        "",
        "\n\n",
        "- - - {",
        "a: &b [*b",
        "\t\ttasks:\n\t- x",
        "{{ {{ }}",
        "\N{SNOWMAN}" * 30,
        "- " * 400,
    ):
        for offset in range(-1, len(text) + 2):
            found = suggestions(Source(text, "x", notation), offset, NAMES)
            assert 0 <= found.start <= found.end <= len(text)
