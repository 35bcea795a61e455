"""Which files are plans, and the names that they have."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

_SURE = (".plan.yaml", ".plan.yml", ".plan.json", ".plan")
_YAML = (".yaml", ".yml")
ENDINGS = (*_SURE, *_YAML, ".json")
"""Of plan files, the longer ones before those that they end in."""
SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
_HEAD = 65_536
_TESTS = (".test.yaml", ".test.yml")
_PLAN_KEY = r"(?m)^(plan|plan_id|id):"
_TASKS_KEY = r"(?m)^(tasks|nodes|steps):"
_IN_JSON = (r'\A\s*\{[^{}]*"(plan|plan_id|id)"\s*:', r'"(tasks|nodes|steps)"\s*:\s*\[')


def plan_name(path: str) -> str:
    """What a plan file is called by: its path below ``plans``, without its ending."""
    _, _, below = f"/{path}".rpartition("/plans/")
    return _stem(below or path)


def _stem(path: str) -> str:
    return next((path.removesuffix(ending) for ending in ENDINGS if path.endswith(ending)), path)


def plans_named(word: str, root: str, homes: Iterable[str] = ("",)) -> list[str]:
    """The plans of a name, as paths from ``root``: those of the first place that has any. Places are the ``homes``,
    folders below or above ``root``, each with its folder ``plans``, and then what lies deeper in those."""
    name = word.removeprefix("plans/")
    tops = [home if home != "." else "" for home in homes]
    for top in tops:
        beside = [path for path in _files(root, top, name) if is_plan(os.path.join(root, path))]
        paths = sorted({*beside, *_files(root, os.path.join(top, "plans"), name)})
        if paths:
            return paths
    for top in tops:
        nested = [
            os.path.relpath(path, root or ".")
            for path in search(os.path.join(root, top, "plans"))
            if not path.endswith(_TESTS) and name in (stem := _stem(path), os.path.basename(stem))
        ]
        if nested:
            return nested
    return next((paths for top in tops if (paths := _files(root, top, name))), [])


def _files(root: str, folder: str, name: str) -> list[str]:
    paths = (os.path.normpath(os.path.join(folder, name + ending)) for ending in ENDINGS)
    return [path for path in paths if os.path.isfile(os.path.join(root, path))]


def plan_paths(folder: str) -> list[str]:
    """The plans at the top of a folder and anywhere in its folder ``plans``, but for files of tests: their paths,
    which begin with that of the folder."""
    plans = os.path.normpath(os.path.join(folder, "plans"))
    return [*search(folder, deep=False), *(path for path in search(plans) if not path.endswith(_TESTS))]


def search(folder: str, deep: bool = True) -> Iterator[str]:
    """The plans in a folder and, where ``deep``, in those below it."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if deep and not name.startswith(".") and name not in SKIPPED)
        for name in sorted(files):
            path = os.path.normpath(os.path.join(here, name))
            if not os.path.isfile(path) or (os.path.islink(path) and not _beneath(path, folder)):
                continue
            if is_plan(path):
                yield path


def is_listed(folder: str, path: str) -> bool:
    """Whether ``plan_paths`` of the folder has a path, which begins with that of the folder."""
    parts = os.path.relpath(path, folder).split(os.sep)
    if any(part.startswith(".") or part in SKIPPED for part in parts) or (len(parts) > 1 and parts[0] != "plans"):
        return False
    home = os.path.join(folder, "plans") if len(parts) > 1 else folder
    if not os.path.isfile(path) or (os.path.islink(path) and not _beneath(path, home)):
        return False
    if any(os.path.islink(os.path.join(folder, *parts[:at])) for at in range(2, len(parts))):
        return False  # what looks for plans follows no link of a folder
    return is_plan(path) and not (len(parts) > 1 and path.endswith(_TESTS))


def is_plan_text(path: str, text: str) -> bool:
    """Whether a file of that path would be a plan with this text, by its name and its first keys."""
    return not path.endswith(_TESTS) and is_plan(path, text[:_HEAD])


def is_plan(path: str, head: str | None = None) -> bool:
    """Whether a file is a plan by its name, or in doubt by its first keys (``head``; None: of the file); one in JSON is
    in a folder called plans."""
    if path.endswith(_SURE):
        return True
    if path.endswith(_YAML):
        patterns = (_TASKS_KEY,) if _is_in_plans(path) else (_PLAN_KEY, _TASKS_KEY)
        return _looks_like(path, head, *patterns) or _looks_like(path, head, *_IN_JSON)
    return path.endswith(".json") and _is_in_plans(path) and _looks_like(path, head, *_IN_JSON)


def _beneath(path: str, folder: str) -> bool:
    """Whether a link leads to what lies in the folder that is searched: what it shows of other files would end up in
    the log of a lint of a foreign project."""
    home = os.path.realpath(folder)
    return os.path.commonpath([home, os.path.realpath(path)]) == home


def _is_in_plans(path: str) -> bool:
    return os.path.basename(os.path.dirname(os.path.abspath(path))) == "plans"


def _looks_like(path: str, head: str | None, *patterns: str) -> bool:
    if head is None:
        try:
            with open(path, encoding="utf-8-sig", errors="replace") as file:
                head = file.read(_HEAD)
        except OSError:
            return False
    return all(re.search(pattern, head) for pattern in patterns)
