"""Lint rules of plugins: what they may give, what is left out, and how their findings are shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rows import rows

import planrunner.api
from planrunner.diagnostics import Diagnostic, Edit, Fix, Label, Rule
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.records import fields
from planrunner.source import Source, Span
from planrunner.views.findings import render_json, render_text

TEXT = "plan: friday\ntasks:\n  - {id: a, run: x, timeout: 1m}\n"
RULE = Rule("RB001", "no-friday", "warning", "a release on a Friday")
HERE = Span(0, 4)


def _registry(*rules: tuple[Any, Callable[[Any], Any]]) -> Registry:
    def planrunner_register_rules(register: Callable[..., None]) -> None:
        for rule, check in rules:
            register(rule, check)

    registry = Registry(plugins=False)
    registry.add(SimpleNamespace(planrunner_register_rules=planrunner_register_rules), "robots")
    return registry


def test_a_finding_of_a_plugin_has_no_link_that_leads_nowhere() -> None:
    found = load(Source(TEXT), _registry((RULE, lambda view: [Diagnostic("RB001", "x", HERE)]))).findings
    text = render_text(found, Source(TEXT))
    assert "warning[RB001] x" in text
    assert "planrunner rule" not in text
    assert '"url": ""' in render_json([(Source(TEXT), found)])


def test_the_example_of_the_reference_finds_what_it_says() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/hooks.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block, "page", "exec", dont_inherit=True), names)
    registry = Registry(plugins=False)
    registry.add(SimpleNamespace(planrunner_register_rules=names["planrunner_register_rules"]), "team")
    (found,) = load(Source(TEXT), registry).findings
    assert (found.code, found.message, registry.problems()) == ("TEAM001", "`a` has no owner", ())


@rows("name", ["Rule", "Diagnostic", "Span", "Label", "Fix", "Edit", "PlanView"])
def test_the_reference_names_only_fields_that_there_are_and_all_of_small_types(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/hooks.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", page, re.MULTILINE)
    names = fields(getattr(planrunner.api, name))
    named = [word for word in re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", row)) if word in names]
    assert set(named) == set(names) - (
        {"around", "credentials", "graph", "hidden", "levels", "people"} if name == "PlanView" else set()
    )


@rows(
    ("wrong", "words"),
    [
        (Diagnostic("RB001", "x", None), "whose `span` is None, which has to be a Span"),  # type: ignore[arg-type]
        (Diagnostic("RB001", "x", (0, 4)), "whose `span` is (0, 4)"),  # type: ignore[arg-type]
        (Diagnostic("RB001", "x", Span("a", 4)), "whose `span` is Span("),  # type: ignore[arg-type]
        (Diagnostic("RB001", "x", Span(4, 10**6)), "the place (4, 1000000), and the plan has "),
        (Diagnostic("RB001", "x", Span(4, 2)), "the place (4, 2)"),
        (Diagnostic("RB001", b"x", HERE), "whose `message` is b'x'"),  # type: ignore[arg-type]
        (Diagnostic(1, "x", HERE), "whose `code` is 1"),  # type: ignore[arg-type]
        (Diagnostic("RB404", "x", HERE), "the code `RB404`, which no rule has"),
        (Diagnostic("RB001", "x", HERE, labels=("here",)), "whose `labels` is ('here',)"),  # type: ignore[arg-type]
        (Diagnostic("RB001", "x", HERE, help=None), "whose `help` is None"),  # type: ignore[arg-type]
        (Diagnostic("RB001", "x", HERE, fix="delete it"), "whose `fix` is 'delete it'"),  # type: ignore[arg-type]
        (Diagnostic("RB001", "x", HERE, fix=Fix("t", (Edit(Span(0, 999), "y"),))), "the place (0, 999)"),
        (RULE, "a Rule, not a Diagnostic"),
    ],
)
def test_what_is_no_finding_is_left_out_and_named_with_its_plugin(wrong: Any, words: str) -> None:
    good = Diagnostic("RB001", "not on a Friday", HERE, labels=(Label(HERE, "here"),))
    registry = _registry((RULE, lambda view: [wrong, good]))
    found = load(Source(TEXT), registry)
    assert found.plan is not None
    assert found.findings == (good,)
    assert render_text(found.findings, Source(TEXT))
    assert render_json([(Source(TEXT), found.findings)])
    (problem,) = registry.problems("robots")
    assert problem.startswith("the rule RB001 (no-friday) of the plugin robots gave a")
    assert words in problem


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (("RB001", "x", "error", "t"), "it is a tuple, not a Rule"),
        (Rule("RB001", "x", "fatal", "t"), "its severity is `fatal`, which is not one of error, warning, note"),  # type: ignore[arg-type]
        (Rule("RB001", None, "error", "t"), "its `name` is None"),  # type: ignore[arg-type]
        (Rule(1, "x", "error", "t"), "its `code` is 1"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_rule_is_left_out_and_named_with_its_plugin(rule: Any, words: str) -> None:
    registry = _registry((rule, lambda view: []))
    assert load(Source(TEXT), registry).plan is not None
    (problem,) = registry.problems("robots")
    assert words in problem


def test_of_two_plugins_the_one_whose_rule_raises_is_named() -> None:
    def raising(view: Any) -> list[Any]:
        raise RuntimeError("oops")

    registry = _registry((RULE, lambda view: []))

    def planrunner_register_rules(register: Callable[..., None]) -> None:
        register(Rule("XX001", "x", "error", "t"), raising)

    registry.add(SimpleNamespace(planrunner_register_rules=planrunner_register_rules), "other")
    load(Source(TEXT), registry)
    assert registry.problems("robots") == ()
    assert registry.problems("other") == ("the rule XX001 (x) of the plugin other raised RuntimeError: oops",)
