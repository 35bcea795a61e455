"""What ``planrunner trust`` does: show what a plan may do, note that it may run, list and take back what was noted."""

from __future__ import annotations

import os
from typing import Any

from planrunner.app.admission import Examined, examine
from planrunner.errors import NotFound, UsageError
from planrunner.journal.workspace import find_project, why_outside
from planrunner.plugins.registry import Registry
from planrunner.safety import trust
from planrunner.safety.project import read_settings
from planrunner.safety.trust import settings_text

Json = Any


def examined(path: str) -> Examined:
    """A plan file as somebody should see it before trusting it. Raises NotFound, PlanInvalid, UsageError."""
    return examine(path, Registry(project=find_project(path)))


def trust_plan(path: str, plan: Examined) -> None:
    """Let exactly this plan run from now on. Raises StorageFailed."""
    trust.trust(path, plan.text, "plan")


def project_object(path: str) -> dict[str, Json]:
    """A project as somebody should see it before trusting it as a whole: where it is, and what its settings speak of.
    Raises UsageError for a folder that holds more than one project or is somebody else's, PlanInvalid for settings with
    errors."""
    root = os.path.realpath(path)
    if root in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise UsageError(f"`{root}` holds whatever one has ever fetched: name a project in it")
    if why := why_outside(os.path.join(root, "planrunner.yaml"), root):
        raise UsageError(f"`{root}` cannot be trusted as a whole: {why}")
    found = trust.standing(root, settings_text(root), "project")
    return {"project": root, "sections": sorted(read_settings(root).own), "trusted": found}


def trust_project(path: str) -> None:
    """Let the plans of a project run from anywhere, as long as its settings stay what they are. Raises
    StorageFailed."""
    trust.trust(path, settings_text(os.path.realpath(path)), "project")


def listed() -> list[dict[str, Json]]:
    """What was trusted, by path: ``kind`` is plan or project, ``at`` seconds since 1970."""
    rows = [
        {"kind": kind, "path": found.path, "digest": f"sha256:{found.sha256}", "at": found.at}
        for kind in ("plan", "project")
        for found in trust.records(kind)
    ]
    return sorted(rows, key=lambda row: str(row["path"]))


def forget(named: str) -> list[str]:
    """Take back what was trusted by a path, or by a digest; the paths. Raises NotFound where nothing was."""
    digest = named.removeprefix("sha256:")
    real = os.path.realpath(named)
    rows = [row for row in listed() if row["path"] == real or row["digest"] == f"sha256:{digest}"]
    if not rows:
        raise NotFound(f"nothing is trusted as `{named}`", "`planrunner trust --list` lists what is")
    for row in rows:
        trust.untrust(row["path"], row["kind"])
    return [str(row["path"]) for row in rows]
