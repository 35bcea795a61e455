"""The tests of a module's own logic stand at its place: ``planrunner/plan/load.py`` has ``tests/plan/test_load.py``."""

from __future__ import annotations

import ast

from rows import rows
from workbench import ROOT

WITHOUT = {
    "app": 108,
    "capabilities": 94,
    "cli": 45,
    "engine": 24,
    "files": 9,
    "journal": 12,
    "knowledge": 10,
    "machine": 35,
    "mcpserver": 7,
    "plan": 86,
    "plugins": 5,
    "safety": 19,
    "service": 36,
    "shell": 8,
    "syntax": 9,
    "testing": 10,
    "views": 64,
}
"""For each room how many modules with logic have no test of their name yet: the figures may only shrink."""


def _has_logic(text: str) -> bool:
    return sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(ast.parse(text))) > 1


@rows(("room", "most"), WITHOUT.items())
def test_the_tests_of_a_module_stand_at_its_place(room: str, most: int) -> None:
    missing = []
    for path in sorted((ROOT / "planrunner" / room).rglob("*.py")):
        place = path.relative_to(ROOT / "planrunner")
        test = ROOT / "tests" / place.with_name(f"test_{place.name}")
        if not test.exists() and _has_logic(path.read_text(encoding="utf-8")):
            missing.append(str(place))
    assert len(missing) <= most, missing
