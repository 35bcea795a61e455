"""Writes the skeleton of a plugin: a package with a module, tests that pass, a README and a file for CI."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from planrunner import __version__
from planrunner.capabilities import builtin
from planrunner.errors import UsageError
from planrunner.plan.nearest import nearest
from planrunner.plugins.registry import Registry
from planrunner.plugins.sources import CAPABILITIES

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "plugins", "template")
_FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "readme.txt",
    ".gitignore": "gitignore.txt",
    "src/planrunner_{{ family }}.py": "module.txt",
    "tests/test_{{ family }}.py": "tests.txt",
    "plans/{{ family }}.yaml": "plan.txt",
    ".github/workflows/test.yml": "workflow.txt",
}
"""Path in the package to the template it is made from."""


class Written(NamedTuple):
    """What was written, and the commands to go on with."""

    files: tuple[str, ...]
    next: tuple[str, ...]


def write(name: str, into: str) -> Written:
    """Write the package ``planrunner-NAME`` in the folder ``into``. Raises UsageError for a name that cannot be a
    family or is taken, and where something lies in the way."""
    family = _family(name)
    package = f"planrunner-{family.replace('_', '-')}"
    root = os.path.normpath(os.path.join(into, package))
    if os.path.lexists(root):
        raise UsageError(f"`{root}` is there already, and nothing is overwritten", "remove it, or add --into DIR")
    values = {"family": family, "package": package, "version": __version__}
    templates = Environment(loader=FileSystemLoader(_FOLDER), undefined=StrictUndefined, keep_trailing_newline=True)  # noqa: S701 (no HTML)
    made = []
    try:
        for path, template in _FILES.items():
            target = os.path.join(root, templates.from_string(path).render(values))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "x", encoding="utf-8") as file:
                file.write(templates.get_template(template).render(values))
            made.append(target)
    except OSError as error:
        raise UsageError(f"`{root}` cannot be written: {error.strerror or error}") from error
    following = (
        f"cd {root}",
        "pip install -e '.[test]'",
        "pytest",
        f"planrunner capabilities {family}.add",
        f"planrunner exec plans/{family}.yaml",
    )
    return Written(tuple(made), following)


def _family(name: str) -> str:
    """The family that a name stands for. Raises UsageError with a name that would do."""
    if _NAME.fullmatch(name) is None:
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower().removeprefix("planrunner")).strip("_")
        better = plain if _NAME.fullmatch(plain) else ""
        hint = f"did you mean `{better}`?" if better else "such as `weather`"
        raise UsageError(f"`{name}` is no name for a family: lower-case letters, digits and `_`, a letter first", hint)
    holders = {target.partition(".")[0]: "planrunner itself" for target in builtin.TARGETS}
    for entry in Registry().installed():
        if entry.group == CAPABILITIES:
            holders.setdefault(entry.name, f"the installed plugin {entry.plugin}")
    if name in holders:
        raise UsageError(f"the family `{name}` belongs to {holders[name]}", f"such as `my_{name}`")
    near = nearest(name, holders)
    if near and (name.startswith(near) or near.startswith(name)) and abs(len(near) - len(name)) <= 1:
        raise UsageError(f"`{name}` is easily taken for the family `{near}` of {holders[near]}", f"such as `my_{name}`")
    return name
