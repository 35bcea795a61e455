"""The plans of a project with what lint says of each, checked again only where something changed."""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from planrunner.app.people.admission import runs_unasked
from planrunner.app.runs.secrets import obligations_of
from planrunner.caller import workspace
from planrunner.fileio import read_regular
from planrunner.plan.files import decode
from planrunner.plan.load import Loaded, load
from planrunner.plan.names import plan_paths
from planrunner.plan.tasks import every
from planrunner.plugins.registry import Registry
from planrunner.safety.trust import settings_text
from planrunner.syntax.limits import MAX_TEXT
from planrunner.syntax.tree import Mapping, Scalar
from planrunner.views.page.plans import PlanRow

KEPT = 2_000
"""Checked plans that stay in memory."""


class PlanFile(NamedTuple):
    """A plan of the project: its ``path`` below the project, and when it was ``changed`` (seconds since 1970)."""

    path: str
    changed: float


class _Kept(NamedTuple):
    row: PlanRow
    files: tuple[tuple[str, str], ...]
    loads: bool


_kept: OrderedDict[tuple[str, ...], _Kept] = OrderedDict()
_lock = threading.Lock()


def project_files() -> list[PlanFile]:
    """The plans at the top of the project and in its folder ``plans``, by path."""
    root = workspace().root
    found = []
    for path in plan_paths(root):
        try:
            found.append(PlanFile(os.path.relpath(path, root), os.stat(path).st_mtime))
        except OSError:
            continue  # removed meanwhile
    return found


def checked(files: Sequence[PlanFile]) -> list[PlanRow]:
    """The plans with their findings. One that was removed meanwhile is left out."""
    root = workspace().root
    registry = Registry(project=root, keeps=False)
    settings = sha256(settings_text(root)).hexdigest()
    rows = (_checked(root, file, registry, settings) for file in files)
    return [row for row in rows if row is not None]


def linked_paths() -> set[str]:
    """The paths below the project of what its listed plans link to. Those with errors do not count, nor do those that
    wait for a person: what may write such a plan would choose what is a plan of the project."""
    root = workspace().root
    registry = Registry(project=root, keeps=False)
    settings = sha256(settings_text(root)).hexdigest()
    found: set[str] = set()
    for file in project_files():
        look = _looked(root, file, registry, settings)
        if look is None or not look.loads:
            continue
        folder = os.path.dirname(file.path)
        links = [(os.path.normpath(os.path.join(folder, name)), digest) for name, digest in look.files]
        if links and runs_unasked(
            os.path.join(root, file.path), [(os.path.join(root, path), digest) for path, digest in links]
        ):
            found.update(path for path, _ in links)
    return found


def _checked(root: str, file: PlanFile, registry: Registry, settings: str) -> PlanRow | None:
    look = _looked(root, file, registry, settings)
    return None if look is None else look.row._replace(changed=file.changed)


def _looked(root: str, file: PlanFile, registry: Registry, settings: str) -> _Kept | None:
    place = os.path.join(root, file.path)
    try:
        data = read_regular(place, MAX_TEXT + 1)
    except OSError:
        return None
    key = (place, sha256(data).hexdigest(), settings, *map(str, registry.fingerprint()))
    with _lock:
        kept = _kept.get(key)
        if kept is not None:
            _kept.move_to_end(key)
    if kept is None or not all(_is_unchanged(os.path.dirname(place), *each) for each in kept.files):
        kept = _look(root, file, data, registry)
        with _lock:
            _kept[key] = kept
            while len(_kept) > KEPT:
                _kept.popitem(last=False)
    return kept


def _is_unchanged(folder: str, name: str, digest: str) -> bool:
    """Whether a plan that another one links to is what it was."""
    try:
        return sha256(read_regular(os.path.join(folder, name), MAX_TEXT + 1)).hexdigest() == digest
    except OSError:
        return False


def _look(root: str, file: PlanFile, data: bytes, registry: Registry) -> _Kept:
    read = decode(data, os.path.join(root, file.path))
    loaded = Loaded(None, read.findings, None) if read.findings else load(read.source, registry, obligations_of(root))
    counts = Counter(finding.severity for finding in loaded.findings)
    tasks = [*every(loaded.plan.tasks)] if loaded.plan is not None else []
    return _Kept(
        PlanRow(
            *(file.path, file.changed, _said(loaded, "plan"), _said(loaded, "title")),
            *(len(tasks), sum(task.gate is not None for task in tasks)),
            *(counts["error"], counts["warning"], counts["note"]),
        ),
        loaded.files,
        loaded.plan is not None,
    )


def _said(loaded: Loaded, key: str) -> str:
    if loaded.plan is not None:
        return loaded.plan.id if key == "plan" else loaded.plan.title
    value = loaded.tree.get(key) if isinstance(loaded.tree, Mapping) else None
    return str(value.value) if isinstance(value, Scalar) else ""
