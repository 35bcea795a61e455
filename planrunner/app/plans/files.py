"""Which files are plans, by their names and in doubt by their first keys; and parameters from a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from planrunner.app.plans.path import check_regular
from planrunner.diagnostics import has_errors
from planrunner.errors import Hint, NextStep, NotFound, PlanInvalid, UsageError
from planrunner.journal.workspace import find_project
from planrunner.plan.load import read_plan
from planrunner.source import Source, notation_of
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import Mapping, Scalar, to_json
from planrunner.syntax.yaml_errors import other_digits

Json = Any


_SURE = (".plan", ".plan.yaml", ".plan.yml", ".plan.json")
_YAML = (".yaml", ".yml")
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
_HEAD = 65_536
_SETTINGS = "planrunner.yaml"
_TESTS = (".test.yaml", ".test.yml")
_PLAN_KEY = re.compile(r"^(plan|plan_id|id):", re.MULTILINE)
_TASKS_KEY = re.compile(r"^(tasks|nodes|steps):", re.MULTILINE)
_IN_JSON = (re.compile(r'\A\s*\{[^{}]*"(plan|plan_id|id)"\s*:'), re.compile(r'"(tasks|nodes|steps)"\s*:\s*\['))


def find_plans(paths: Iterable[str]) -> list[str]:
    """The plan files among ``paths``: files as they are named, folders searched through; no path means the working
    directory. Raises NotFound for a path that does not lead to a file, and where there is no plan at all, UsageError
    for the settings of a project: what mends a plan would spoil them."""
    wanted = list(paths) or ["."]
    result: dict[str, None] = {}
    for path in wanted:
        if os.path.isdir(path):
            result.update(dict.fromkeys(_search(path)))
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


def plan_paths(folder: str) -> list[str]:
    """The plans at the top of a folder and anywhere in its folder ``plans``, but for files of tests: their paths,
    which begin with that of the folder."""
    plans = os.path.normpath(os.path.join(folder, "plans"))
    return [*_search(folder, deep=False), *(path for path in _search(plans) if not path.endswith(_TESTS))]


def plan_title(path: str) -> str:
    """The title of a plan file; empty where it has none or cannot be read."""
    try:
        tree = parse(read_plan(path).source).tree
    except NotFound:
        return ""
    title = tree.get("title") if isinstance(tree, Mapping) else None
    return str(title.value) if isinstance(title, Scalar) else ""


def _search(folder: str, deep: bool = True) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if deep and not name.startswith(".") and name not in _SKIPPED)
        for name in sorted(files):
            path = os.path.normpath(os.path.join(here, name))
            if not os.path.isfile(path) or (os.path.islink(path) and not _beneath(path, folder)):
                continue
            if _is_plan(path):
                yield path


def _is_plan(path: str) -> bool:
    """Whether a file is a plan by its name, or in doubt by its first keys; one in JSON is in a folder called plans."""
    if path.endswith(_YAML) and not path.endswith(_SURE):
        return _in_plans(path) or _looks_like(path, _PLAN_KEY, _TASKS_KEY)
    return path.endswith(_SURE) or (path.endswith(".json") and _is_in_plans(path) and _looks_like(path, *_IN_JSON))


def _beneath(path: str, folder: str) -> bool:
    """Whether a link leads to what lies in the folder that is searched: what it shows of other files would end up in
    the log of a lint of a foreign project."""
    home = os.path.realpath(folder)
    return os.path.commonpath([home, os.path.realpath(path)]) == home


def _in_plans(path: str) -> bool:
    """Whether a file lies in a folder called plans, and has no name that says it is something else."""
    return _is_in_plans(path) and _looks_like(path, _TASKS_KEY)


def _is_in_plans(path: str) -> bool:
    return os.path.basename(os.path.dirname(os.path.abspath(path))) == "plans"


def _looks_like(path: str, *patterns: re.Pattern[str]) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return all(pattern.search(head) for pattern in patterns)


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
