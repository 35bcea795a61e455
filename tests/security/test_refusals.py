"""Every refusal in the code names its rule, and every rule stands in the reference."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from workbench import ROOT

from planrunner.capabilities.refusals import REFUSALS, listed

ROOMS = ("capabilities", "engine")


def failures() -> Iterator[tuple[str, ast.Call]]:
    """Where a capability or the engine makes a failure, or an outcome that is one."""
    for room in ROOMS:
        for path in sorted((ROOT / "planrunner" / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Failure", "Outcome"):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def is_policy(node: ast.Call) -> bool:
    given = [*node.args, *(each.value for each in node.keywords if each.arg == "failure")]
    return any(isinstance(each, ast.Constant) and each.value == "policy" for each in given)


def test_whatever_is_refused_names_a_rule() -> None:
    without = [
        place for place, node in failures() if is_policy(node) and "rule" not in {each.arg for each in node.keywords}
    ]
    assert without == []


def test_every_rule_that_the_code_names_is_in_the_reference() -> None:
    named = {
        each.value.value
        for _, node in failures()
        for each in node.keywords
        if each.arg == "rule" and isinstance(each.value, ast.Constant) and each.value.value
    }
    assert len(named) > 30
    assert sorted(rule for rule in named if not listed(rule)) == []


OF_PEOPLE = {
    *(
        "app/people/persons.py",
        "app/plans/edit.py",
        "app/plans/places.py",
        "app/runs/overrule.py",
        "app/triggers/hooks.py",
    ),
}
"""They refuse what a person or another program asks for, and no plan that starts."""


def test_a_plan_that_may_not_start_is_refused_by_a_rule_of_the_reference() -> None:
    """Whatever raises Denied says by which rule: a literal, a name, or the default of the function around it."""
    named: set[str] = set()
    package = ROOT / "planrunner"
    for path in (path for room in ("app", "cli") for path in sorted((package / room).rglob("*.py"))):
        if path.relative_to(package).as_posix() in OF_PEOPLE:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Denied", "_no"):
                named |= {each.value for each in node.args[2:] if isinstance(each, ast.Constant)}
                assert len(node.args) >= 3, f"{path}:{node.lineno}"
    assert named == {"sandbox.off", "policy.plans", "trust.outside"}
    assert all(map(listed, (*named, "trust", "policy.capabilities.deny")))


def test_a_rule_says_what_it_refuses_and_what_to_do() -> None:
    page = (ROOT / "docs" / "reference" / "refusals.md").read_text(encoding="utf-8")
    for name, refusal in REFUSALS.items():
        assert f"| `{name}` | " in page
        assert refusal.what and refusal.way.endswith(".")


def test_a_rule_may_stand_for_several() -> None:
    assert listed("policy.network.deny") and listed("scan.B602") and listed("files.link")
    assert not listed("") and not listed("files") and not listed("policy")
