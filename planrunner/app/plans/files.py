"""The plans that paths and names stand for, and those of a project; and parameters from a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from planrunner.app.plans.path import check_regular, plan_named
from planrunner.diagnostics import has_errors
from planrunner.errors import Hint, NextStep, NotFound, PlanInvalid, UsageError
from planrunner.journal.workspace import find_project
from planrunner.plan.load import read_plan
from planrunner.plan.names import plan_paths, search
from planrunner.source import Source, notation_of
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import Mapping, Scalar, to_json
from planrunner.syntax.yaml_errors import other_digits

Json = Any


_SETTINGS = "planrunner.yaml"


def find_plans(paths: Iterable[str]) -> list[str]:
    """The plan files among ``paths``: files and names of plans, folders searched through; no path means the working
    directory. Raises NotFound for a path that does not lead to a file, and where there is no plan at all, UsageError
    for the settings of a project: what mends a plan would spoil them."""
    wanted = [plan_named(path) for path in paths] or ["."]
    result: dict[str, None] = {}
    for path in wanted:
        if os.path.isdir(path):
            result.update(dict.fromkeys(search(path)))
        else:
            if not os.path.exists(path):
                read_plan(path)  # raises NotFound with the nearest name
            check_regular(path)
            if os.path.basename(path) == _SETTINGS:
                raise UsageError(
                    f"`{path}` is not a plan: it holds the settings of a project", NextStep("config check")
                )
            result[path] = None
    if not result:
        places = ", ".join(f"`{path}`" for path in wanted)
        hint = Hint(
            "plans are named *.plan, *.plan.yaml, plans/*.yaml or plans/*.json; ", NextStep("init"), " writes one"
        )
        raise NotFound(f"no plan in {places}", hint)
    return list(result)


def project_plans() -> list[tuple[str, str]]:
    """The plans at the top of the project, in its ``plans`` folder and in the working directory: the path from the
    working directory and the title of each, empty where it has none or cannot be read."""
    folders = dict.fromkeys((".", os.path.relpath(find_project(None))))
    paths = dict.fromkeys(path for folder in folders for path in plan_paths(folder))
    return [(path, plan_title(path)) for path in paths]


def plan_title(path: str) -> str:
    """The title of a plan file; empty where it has none or cannot be read."""
    try:
        tree = parse(read_plan(path).source).tree
    except NotFound:
        return ""
    title = tree.get("title") if isinstance(tree, Mapping) else None
    return str(title.value) if isinstance(title, Scalar) else ""


def read_params(path: str) -> tuple[tuple[str, Json], ...]:
    """The names and values of a YAML or JSON file that holds one mapping.

    Raises NotFound for a file that is not there, UsageError for one that holds something else, PlanInvalid with the
    places for one that does not parse.
    """
    try:
        with open(path, encoding="utf-8") as file:
            source = Source(file.read(), path, "json" if notation_of(path) == "json" else "yaml")
    except FileNotFoundError as error:
        raise NotFound(f"there is no file `{path}`") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"`{path}` is not UTF-8 text") from error
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror}") from error
    parsed = parse(source)
    if parsed.tree is None or has_errors(parsed.findings):
        raise PlanInvalid(f"`{path}` does not parse", source, parsed.findings)
    if not isinstance(parsed.tree, Mapping):
        raise UsageError(f"`{path}` must hold a mapping of names to values")
    if unclear := tuple(other_digits(parsed.tree)):
        raise PlanInvalid(f"`{path}` has a number whose digits would change", source, unclear)
    data = to_json(parsed.tree)
    assert isinstance(data, dict)
    return tuple(data.items())
