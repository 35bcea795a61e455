"""Where a project keeps its plans: which of its files are plans to a request, and where it may write a new one.

Plans are at the top of the project and below ``plans``; a plan is also what sound plans link to and what the settings
name. No other file is read or written as one, whatever its ending, and a file of the settings is never one. Paths are
those below the project of the caller's workspace, with ``/``.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from typing import Any

from planrunner.app.plans.listing import linked_paths
from planrunner.caller import workspace
from planrunner.errors import PlanInvalid, UsageError
from planrunner.fileio import read_regular
from planrunner.files.match import path_matches
from planrunner.plan.files import decode
from planrunner.plan.load import load
from planrunner.plan.names import is_listed, is_plan_text
from planrunner.plan.rights import texts
from planrunner.plugins.registry import Registry
from planrunner.safety.obligations import obligations
from planrunner.safety.project import FILE, read_settings, settings_files
from planrunner.syntax.limits import MAX_TEXT

Json = Any

FOLDER = "plans"
"""Where new plans are written."""
ENDINGS = (".yaml", ".yml", ".plan", ".json")
_OTHERS = tuple(f".{kind}{ending}" for kind in ("test", "eval") for ending in ENDINGS)
_SIGNS = " ._-+@"
_KINDS = "LNM"
"""Letters, numbers and marks, by the first letter of their Unicode category."""
_LONGEST = 100


def is_kept(path: str) -> bool:
    """Whether the project keeps a plan at a path. A file that a policy denies is not one, nor anything in a folder that
    begins with a dot."""
    if any(part.startswith(".") for part in path.split("/")) or is_settings(path) or _is_denied(path):
        return False
    root = workspace().root
    return is_listed(root, os.path.join(root, path)) or _is_used(path)


def is_settings(path: str) -> bool:
    """Whether a path is that of a file of the settings. Letters of either case are the same to some disks."""
    return path.casefold() in {name.casefold() for name in settings_files(workspace().root)}


def new_fault(path: str) -> str:
    """Why no new plan may have a path, in words; empty where it may."""
    *folders, name = path.split("/")
    if folders[:1] != [FOLDER] or is_settings(path) or _is_denied(path):
        return f"a new plan is written below `{FOLDER}/`, and over nothing else"
    for part in (*folders, name):
        if len(part) > _LONGEST:
            return f"each part of the path has at most {_LONGEST} characters"
        if not all(unicodedata.category(sign)[0] in _KINDS or sign in _SIGNS for sign in part):
            return f"the path of a new plan has letters, digits and `{_SIGNS.strip()}`, and nothing else"
        if unicodedata.category(part[:1] or " ")[0] not in "LN" or part[-1] in " .":
            return "each part of the path begins with a letter or a digit, and ends with neither a blank nor a dot"
    if any(folder.endswith(ENDINGS) for folder in folders):
        return f"a folder does not end in {', '.join(ENDINGS)}"
    stem = next((name.removesuffix(ending) for ending in ENDINGS if name.endswith(ending)), "")
    if not stem:
        return f"a plan ends in {', '.join(ENDINGS)}"
    if name.endswith(_OTHERS) or stem.endswith((".yaml", ".yml", ".json")):
        return f"`{name}` is not the name of a plan"
    return "`planrunner` is the name of the settings" if stem.casefold() == FILE.partition(".")[0] else ""


def require_plan_text(path: str, text: str) -> None:
    """Raises UsageError for a text with which a file would not be a plan to anything that looks for plans."""
    place = os.path.join(workspace().root, path)
    if is_plan_text(place, text):
        return
    if is_listed(workspace().root, place) or not (is_kept(path) and _loads(place, text.encode("utf-8", "replace"))):
        notation = "a JSON object with `plan` first" if path.endswith(".json") else "`plan:` and `tasks:` at the margin"
        raise UsageError(f"the text is not a plan: what looks for plans finds `{path}` by {notation}")


def _is_denied(path: str) -> bool:
    """Whether a policy denies a file to everything."""
    try:
        said = [level.data for level in read_settings(workspace().root).levels]
    except PlanInvalid:
        return False  # nothing starts until they are sound
    files = [data["files"] for data in said if isinstance(data, dict) and isinstance(data.get("files"), dict)]
    return any(path_matches(pattern, path) for each in files for pattern in texts(each.get("deny")))


def _is_used(path: str) -> bool:
    """Whether a file that is not listed loads as a plan, and a sound plan links to it or the settings name it."""
    place = os.path.join(workspace().root, path)
    try:
        data = read_regular(place, MAX_TEXT)
    except OSError:
        return False
    return _loads(place, data) and (path in set(_named()) or path in linked_paths())


def _named() -> Iterator[str]:
    """The paths of plans that the settings name: of triggers, of tools, of the workflow."""
    try:
        data = read_settings(workspace().root).data
    except PlanInvalid:
        return
    tools: Json = data.get("tools") or {}
    entries = [*(tools.values() if isinstance(tools, dict) else tools), *(data.get("triggers") or {}).values()]
    for each in (*entries, data.get("workflow")):
        path = each.get("plan") if isinstance(each, dict) else each
        if isinstance(path, str):
            yield os.path.normpath(path)


def _loads(place: str, data: bytes) -> bool:
    root, file = workspace().root, decode(data, place)
    if file.findings:
        return False
    return load(file.source, Registry(project=root, keeps=False), obligations(root)).plan is not None
