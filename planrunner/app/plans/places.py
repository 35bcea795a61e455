"""Where a project keeps its plans: which of its files are plans to a request, and where it may write a new one.

Plans are at the top of the project and below ``plans``; a plan is also what sound plans link to and what the settings
name. No other file is read or written as one, whatever its ending, and a file of the settings is never one. Paths are
those below the project of the caller's workspace, with ``/``.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from planrunner.app.plans.listing import linked_paths
from planrunner.caller import workspace
from planrunner.errors import Denied, PlanInvalid, UsageError
from planrunner.fileio import read_regular
from planrunner.files.match import path_matches
from planrunner.plan.files import decode, read_plan
from planrunner.plan.load import DENIED, load
from planrunner.plan.names import SKIPPED, is_listed, is_plan_text, plans_named
from planrunner.plan.rights import texts
from planrunner.plugins.registry import Registry
from planrunner.safety.obligations import obligations
from planrunner.safety.project import FILE, read_settings, settings_files
from planrunner.source import MAX_TEXT

Json = Any

FOLDER = "plans"
"""Where new plans are written."""
ENDINGS = (".yaml", ".yml", ".plan", ".json")
_OTHERS = tuple(f".{kind}{ending}" for kind in ("test", "eval") for ending in ENDINGS)
_SIGNS = " ._-+@"
_KINDS = "LNM"
"""Letters, numbers and marks, by the first letter of their Unicode category."""
_BLANK = "\u115f\u1160\u3164\uffa0\u2800"
"""Letters that show nothing."""
_NO_FILE = "PLAN111"
"""What a new plan links to may be written after it."""
_LONGEST = 100


def is_kept(path: str) -> bool:
    """Whether the project keeps a plan at a path. A file that a policy denies is not one, nor anything in a folder that
    begins with a dot."""
    if any(part.startswith(".") for part in path.split("/")) or is_settings(path) or is_denied(path):
        return False
    root = workspace().root
    return is_listed(root, os.path.join(root, path)) or _is_used(path)


def is_settings(path: str) -> bool:
    """Whether a path is that of a file of the settings. Letters of either case are the same to some disks."""
    return path.casefold() in {name.casefold() for name in settings_files(workspace().root)}


def new_fault(path: str) -> str:
    """Why no new plan may have a path, in words; empty where it may."""
    *folders, name = path.split("/")
    if unknown := _unsound():
        return unknown
    if folders[:1] != [FOLDER] or is_settings(path) or is_denied(path):
        return f"a new plan is written below `{FOLDER}/`, and over nothing else"
    for part in (*folders, name):
        if len(part) > _LONGEST:
            return f"each part of the path has at most {_LONGEST} characters"
        if not all((unicodedata.category(sign)[0] in _KINDS or sign in _SIGNS) and sign not in _BLANK for sign in part):
            return f"the path of a new plan has letters, digits and `{_SIGNS.strip()}`, and nothing else"
        if unicodedata.category(part[:1] or " ")[0] not in "LN" or part[-1] in " .":
            return "each part of the path begins with a letter or a digit, and ends with neither a blank nor a dot"
    if hidden := next((folder for folder in folders if folder in SKIPPED), ""):
        return f"nothing looks for plans in a folder `{hidden}`"
    if any(folder.endswith(ENDINGS) for folder in folders):
        return f"a folder does not end in {', '.join(ENDINGS)}"
    stem = next((name.removesuffix(ending) for ending in ENDINGS if name.endswith(ending)), "")
    if not stem:
        return f"a plan ends in {', '.join(ENDINGS)}"
    if name.endswith(_OTHERS) or stem.endswith((".yaml", ".yml", ".json")):
        return f"`{name}` is not the name of a plan"
    if stem.casefold() == FILE.partition(".")[0]:
        return "`planrunner` is the name of the settings"
    return _taken("/".join((*folders[1:], stem)))


def _taken(name: str) -> str:
    """Why a new plan may not be called ``name``, its path below ``plans`` without the ending: the names by which others
    are called mean what they meant. Empty where it may."""
    for word in dict.fromkeys((name, name.rpartition("/")[2])):
        for path in plans_named(word, workspace().root):
            if word == name or os.path.dirname(path) not in ("", FOLDER):  # those at the top come before one below
                return f"`{word}` is the name of `{path}`"
    return ""


def _unsound() -> str:
    """Why nothing is known of what the settings deny; empty where it is."""
    try:
        read_settings(workspace().root)
    except PlanInvalid:
        return "the settings of the project are not sound: nothing is written before they are"
    return ""


def require_plan_text(path: str, text: str, is_new: bool) -> None:
    """Raises UsageError for a text with which a file would not be a plan to anything that looks for plans, and for a
    new one that is not a plan without errors: under its name other programs would look for something else."""
    place = os.path.join(workspace().root, path)
    root, file = workspace().root, decode(text.encode("utf-8", "replace"), place)
    loaded = None if file.findings else load(file.source, Registry(project=root, keeps=False), obligations(root))
    if loaded is not None:
        require_links(path, loaded.files)
    sound = loaded is not None and loaded.plan is not None
    if not is_plan_text(place, text) and (is_listed(root, place) or not (is_kept(path) and sound)):
        notation = "a JSON object with `plan` first" if path.endswith(".json") else "`plan:` and `tasks:` at the margin"
        raise UsageError(f"the text is not a plan: what looks for plans finds `{path}` by {notation}")
    errors = [each for each in (file.findings if loaded is None else loaded.findings) if each.severity == "error"]
    if is_new and (faults := [each for each in errors if each.code not in (_NO_FILE, DENIED)]):
        raise UsageError(f"the text of the new plan `{path}` has an error: {faults[0].message}", "mend it, then save")


def require_links(path: str, links: Iterable[tuple[str, str]]) -> None:
    """Raises Denied where a plan links to a file that a policy denies. ``links`` are paths from the folder of the plan,
    each with its digest."""
    for name, _ in links:
        if is_denied(linked := os.path.normpath(os.path.join(os.path.dirname(path), name))):
            raise Denied(f"`{path}` links to `{linked}`, which the policy denies", "name a plan that it does not deny")


def require_shown(path: str) -> None:
    """Raises Denied for a plan file that links to one which a policy denies: what is shown of a plan has them in it."""
    file = read_plan(os.path.join(workspace().root, path))
    require_links(path, linked_in(path, file.source.text.encode("utf-8", "surrogatepass")))


def linked_in(path: str, data: bytes) -> tuple[tuple[str, str], ...]:
    """What a text would link to in a file: as ``require_links`` takes it."""
    root = workspace().root
    file = decode(data, os.path.join(root, path))
    return () if file.findings else load(file.source, Registry(project=root, keeps=False), obligations(root)).files


def is_denied(path: str) -> bool:
    """Whether a policy denies a file to everything, by its path or by what that leads to. Where the settings are not
    sound, it is not known what they deny: everything is."""
    root = workspace().root
    try:
        said = [level.data for level in read_settings(root).levels]
    except PlanInvalid:
        return True
    files = [data["files"] for data in said if isinstance(data, dict) and isinstance(data.get("files"), dict)]
    names = {path, os.path.relpath(os.path.realpath(os.path.join(root, path)), os.path.realpath(root))}
    denied = [pattern for each in files for pattern in texts(each.get("deny"))]
    return any(path_matches(pattern, name) for pattern in denied for name in names)


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
