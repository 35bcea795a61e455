"""The pages for plugin authors say what the code does."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from planrunner import hookspecs
from planrunner.capabilities.signature import describe
from planrunner.plugins.sources import HOOKS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_hook_is_documented_with_its_arguments_and_no_other() -> None:
    hooks = {
        f"{name}({', '.join(inspect.signature(function).parameters)})"
        for name, function in vars(hookspecs).items()
        if hasattr(function, "planrunner_spec")
    }
    page = (DOCS / "reference/hooks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (.*)$", page, re.MULTILINE)) == hooks


@pytest.mark.parametrize("words", ["called", "raising"])
def test_every_hook_says_when_it_is_called_and_what_raising_does(words: str) -> None:
    for name, function in vars(hookspecs).items():
        if hasattr(function, "planrunner_spec"):
            assert words in (function.__doc__ or "").lower(), name


def test_the_examples_for_authors_run_and_hold_to_the_conformance_suite(tmp_path: Path) -> None:
    page = (DOCS / "how-to/write-a-capability.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, object] = {"__name__": "examples"}
    for block in blocks:
        exec(compile(block, "page", "exec", dont_inherit=True), names)
    for check in names["checks"](names["CASES"]):  # type: ignore[operator]
        (tmp_path / str(check)).mkdir()
        check(tmp_path / str(check))
    assert describe(names["now"]).inputs[0].description == "name of the city"  # type: ignore[arg-type]


def test_what_is_read_from_files_knows_every_hook() -> None:
    assert set(HOOKS) == {name for name, function in vars(hookspecs).items() if hasattr(function, "planrunner_spec")}


def test_every_name_of_the_public_module_is_there_and_importing_it_loads_nothing_more() -> None:
    import planrunner.api

    assert [name for name in planrunner.api.__all__ if not hasattr(planrunner.api, name)] == []
    assert planrunner.api.seconds("5m") == planrunner.api.seconds(300) == 300
    assert (planrunner.api.size("5KB"), planrunner.api.money("$0.50")) == (5000, 0.5)
    program = (
        "import sys\n"
        "from planrunner.api import Context, Doc, Failure, Outcome, Preview, capability\n"
        "heavy = ('pluggy', 'subprocess', 'dataclasses', 'planrunner.plan.rules.view')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, cwd=DOCS.parent)
    assert done.stdout.strip() == "[]", done.stderr
