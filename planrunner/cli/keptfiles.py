"""What each action of ``planrunner artifacts`` prints; the names are those of the actions."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from planrunner.app.artifacts import Version, Wanted, damaged, found, listed, shown, written
from planrunner.app.collecting import GRACE, collected, verified
from planrunner.cli.screen import byte_writer
from planrunner.cli.settings import Settings, output
from planrunner.errors import FAILED
from planrunner.knowledge.unpacking import unpack
from planrunner.views.artifacts import checked, details, rows
from planrunner.views.artifacts import collected as lines


def list_artifacts(settings: Settings, as_json: bool, limit: int = 50, **wanted: str) -> int:
    found = listed(Wanted(**wanted), settings.state)
    shown = [_data(version) for version in found[:limit]]
    if as_json:
        _print({"artifacts": shown, "total": len(found)})
    elif not found:
        click.echo("no artifacts fit that" if wanted else "no run has kept an artifact", err=True)
    else:
        output(settings).write("\n".join(rows(output(settings), shown)) + "\n")
        if len(found) > limit:
            click.echo(f"{len(found) - limit} more: --limit {len(found)} lists all", err=True)
    return 0


def show_artifacts(settings: Settings, as_json: bool, ref: str) -> int:
    found = shown(ref, settings.state)
    data = {**_data(found.version), **{key: value for key, value in found._asdict().items() if key != "version"}}
    if as_json:
        _print(data)
    else:
        output(settings).write("\n".join(details(data)) + "\n")
    return 0


def get_artifacts(settings: Settings, as_json: bool, ref: str, target: str = "", force: bool = False) -> int:
    version, store = found(ref, settings.state)
    if target == "-":
        if not store.is_whole(version.sha256):
            raise damaged(version)
        write = byte_writer()
        with store.open(version.sha256) as source:
            while data := source.read(1 << 20):
                write(data)
        sys.stdout.flush()
        return 0
    target = target or os.path.basename(version.path.rstrip("/") or version.name.rstrip("/")) or "artifact"
    if version.type == "directory":
        if not store.is_whole(version.sha256):
            raise damaged(version)
        with store.open(version.sha256) as source:
            unpack(source, target)
    else:
        written(version, store, target, force)
    if as_json:
        _print({**_data(version), "file": os.path.abspath(target)})
    else:
        click.echo(f"{version.ref} is in {target}", err=True)
    return 0


def verify_artifacts(settings: Settings, as_json: bool) -> int:
    found = verified(settings.state)
    lost = [version.ref for version in found.lost]
    if as_json:
        _print({"whole": found.whole, "damaged": found.damaged, "lost": lost, "over": found.over})
    else:
        output(settings).write("\n".join(checked(found.whole, found.damaged, lost, found.over)) + "\n")
    return FAILED if found.damaged or lost else 0


def gc_artifacts(settings: Settings, as_json: bool, dry_run: bool = False, older_than: float | None = None) -> int:
    found = collected(settings.state, GRACE if older_than is None else older_than, dry_run)
    told = {**found._asdict(), "dry_run": dry_run}
    if as_json:
        _print(told)
    else:
        output(settings).write("\n".join(lines(told)) + "\n")
    return 0


def _data(version: Version) -> dict[str, Any]:
    """One version as data; ``made`` is seconds since 1970."""
    data = version._asdict()
    data["run_id"], data["version"] = data.pop("run"), data.pop("number")
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.made))
    return {"ref": version.ref, **data, "when": when}


def _print(data: dict[str, Any]) -> None:
    click.echo(json.dumps({"format": 1, **data}, indent=2, ensure_ascii=False))


ACTIONS: dict[str, Callable[..., int]] = {
    "list": list_artifacts,
    "show": show_artifacts,
    "get": get_artifacts,
    "verify": verify_artifacts,
    "gc": gc_artifacts,
}
