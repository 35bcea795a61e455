"""The plans of a project with what lint says of each, checked again only where something changed."""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextvars import copy_context
from hashlib import sha256
from typing import NamedTuple

from planrunner.app.people.admission import runs_unasked
from planrunner.app.runs.secrets import obligations_of
from planrunner.app.runs.setup import are_unchanged
from planrunner.caller import workspace
from planrunner.diagnostics import arrange
from planrunner.fileio import read_regular
from planrunner.plan.files import decode
from planrunner.plan.load import Loaded, load
from planrunner.plan.names import plan_paths
from planrunner.plan.tasks import every
from planrunner.plugins.registry import Registry
from planrunner.records import Struct
from planrunner.safety.trust import settings_text
from planrunner.source import MAX_TEXT
from planrunner.syntax.tree import Mapping, Scalar
from planrunner.views.page.plans import PlanRow

KEPT = 2_000
"""Plans of which it stays in memory what lint said."""
WHOLE = 2_000_000
"""Bytes of the plans that stay in memory with all that was read of them."""
LARGE = 20_000
"""Bytes of a plan, or letters of a text, from which on a page does not wait for what lint says."""


class PlanFile(Struct):
    """A plan of the project: its ``path`` below the project, and when it was ``changed`` (seconds since 1970)."""

    path: str
    changed: float


class _Kept(NamedTuple):
    row: PlanRow
    files: tuple[tuple[str, str], ...]
    loads: bool


class Ground(Struct):
    """What plans of a project are checked with; ``key`` differs with all that their findings follow from."""

    root: str
    registry: Registry
    key: tuple[str, ...]


_kept: OrderedDict[tuple[str, ...], _Kept] = OrderedDict()
_loaded: OrderedDict[tuple[str, ...], tuple[int, Loaded]] = OrderedDict()
_lock = threading.Lock()
_turn = threading.Lock()


def ground_of(root: str) -> Ground:
    """What the plans of a project are checked with now."""
    registry = Registry(project=root, keeps=False)
    return Ground(root, registry, (sha256(settings_text(root)).hexdigest(), *map(str, registry.fingerprint())))


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
    """The plans with their findings. One that was removed meanwhile is left out. Large ones that were not seen before
    are checked beside, and have no findings until then."""
    ground = ground_of(workspace().root)
    looks = [(file, _looked(ground, file, LARGE)) for file in files]
    if any(isinstance(look, PlanRow) for _, look in looks):
        threading.Thread(target=copy_context().run, args=(_check, ground, files), daemon=True).start()
    rows = ((file, look.row if isinstance(look, _Kept) else look) for file, look in looks if look is not None)
    return [row._replace(changed=file.changed) for file, row in rows]


def _check(ground: Ground, files: Sequence[PlanFile]) -> None:
    """Check plans, while no other thread does."""
    if _turn.acquire(blocking=False):
        try:
            for file in files:
                _looked(ground, file)
        finally:
            _turn.release()


def linked_paths() -> set[str]:
    """The paths below the project of what its listed plans link to. Those with errors do not count, nor do those that
    wait for a person: what may write such a plan would choose what is a plan of the project."""
    ground = ground_of(workspace().root)
    found: set[str] = set()
    for file in project_files():
        look = _looked(ground, file)
        if not isinstance(look, _Kept) or not look.loads:
            continue
        folder = os.path.dirname(file.path)
        links = [(os.path.normpath(os.path.join(folder, name)), digest) for name, digest in look.files]
        if links and runs_unasked(
            os.path.join(ground.root, file.path), [(os.path.join(ground.root, path), digest) for path, digest in links]
        ):
            found.update(path for path, _ in links)
    return found


def _looked(ground: Ground, file: PlanFile, most: int = MAX_TEXT + 1) -> _Kept | PlanRow | None:
    """What is known of a plan, read again where something changed; the row of one that is not known and has more
    than ``most`` bytes; None where it cannot be read."""
    place = os.path.join(ground.root, file.path)
    try:
        data = read_regular(place, MAX_TEXT + 1)
    except OSError:
        return None
    key = (place, sha256(data).hexdigest(), *ground.key)
    with _lock:
        kept = _kept.get(key)
        if kept is not None:
            _kept.move_to_end(key)
    if kept is None or not are_unchanged(os.path.dirname(place), kept.files):
        if len(data) > most:
            return PlanRow(file.path, file.changed, "", "", 0, 0, 0, 0, 0, checked=False)
        kept = _look(ground, file, data)
        with _lock:
            _kept[key] = kept
            while len(_kept) > KEPT:
                _kept.popitem(last=False)
    return kept


def loaded(ground: Ground, place: str, data: bytes, known: bool = False) -> Loaded | None:
    """What lint says of a text that stands or would stand in a file of the project, taken from the last time where
    nothing changed since; with ``known`` None where there was none."""
    key = (place, sha256(data).hexdigest(), *ground.key)
    with _lock:
        _, kept = _loaded.get(key, (0, None))
    if kept is not None and are_unchanged(os.path.dirname(place), kept.files):
        return kept
    if known:
        return None
    read = decode(data, place)
    if read.findings:
        return Loaded(None, arrange(read.findings), None)
    made = load(read.source, ground.registry, obligations_of(ground.root))
    with _lock:
        _loaded[key] = len(data), made
        while len(_loaded) > 1 and sum(size for size, _ in _loaded.values()) > WHOLE:
            _loaded.popitem(last=False)
    return made


def _look(ground: Ground, file: PlanFile, data: bytes) -> _Kept:
    loaded_ = loaded(ground, os.path.join(ground.root, file.path), data)
    assert loaded_ is not None
    counts = Counter(finding.severity for finding in loaded_.findings)
    tasks = [*every(loaded_.plan.tasks)] if loaded_.plan is not None else []
    return _Kept(
        PlanRow(
            *(file.path, file.changed, _said(loaded_, "plan"), _said(loaded_, "title")),
            *(len(tasks), sum(task.gate is not None for task in tasks)),
            *(counts["error"], counts["warning"], counts["note"]),
        ),
        loaded_.files,
        loaded_.plan is not None,
    )


def _said(loaded: Loaded, key: str) -> str:
    if loaded.plan is not None:
        return loaded.plan.id if key == "plan" else loaded.plan.title
    value = loaded.tree.get(key) if isinstance(loaded.tree, Mapping) else None
    return str(value.value) if isinstance(value, Scalar) else ""
