"""The pages for plugin authors say what the code does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from planrunner import hookspecs
from planrunner.capabilities.signature import describe

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


def test_the_examples_for_authors_run() -> None:
    page = (DOCS / "how-to/write-a-capability.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, object] = {"__name__": "examples"}
    for block in blocks:
        exec(block, names)
    assert describe(names["now"]).inputs[0].description == "name of the city"  # type: ignore[arg-type]
