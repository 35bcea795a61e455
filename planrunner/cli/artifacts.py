"""``planrunner artifacts``."""

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
from planrunner.cli.group import given_settings
from planrunner.cli.options import Lasting
from planrunner.cli.output import byte_writer
from planrunner.cli.settings import Settings, output
from planrunner.errors import FAILED
from planrunner.knowledge.directories import unpack
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


_TAKES: dict[str, frozenset[str]] = {
    "list": frozenset({"plan", "task", "name", "type", "run", "limit"}),
    "show": frozenset(),
    "get": frozenset({"target", "force"}),
    "verify": frozenset(),
    "gc": frozenset({"dry_run", "older_than"}),
}
"""The options of each action beside ``--json``."""


@click.command("artifacts")
@click.argument("action", type=click.Choice(tuple(_TAKES)), default="list")
@click.argument("ref", required=False)
@click.option("--plan", metavar="ID", help="Only artifacts of this plan.")
@click.option("--task", metavar="TASK", help="Only those of this task.")
@click.option("--name", metavar="NAME", help="Only those of this name.")
@click.option("--type", metavar="TYPE", help="Only those of this type.")
@click.option("--run", metavar="RUN", help="Only those of this run.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N (50).")
@click.option("-o", "--output", "target", metavar="FILE", help="Where `get` writes; `-` is standard output.")
@click.option("--force", is_flag=True, default=None, help="Let `get` write over a file.")
@click.option("--dry-run", is_flag=True, default=None, help="Let `gc` only tell what it would remove.")
@click.option("--older-than", type=Lasting(), metavar="TIME", help="How long `gc` spares what nothing refers to (1d).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def artifacts_command(ctx: click.Context, /, action: str, ref: str | None, as_json: bool, **options: Any) -> int:
    """List what runs kept (`list`), tell where one came from (`show REF`), read it (`get REF`), compare all with their
    digests (`verify`), or remove the contents that nothing refers to any more (`gc`). REF is plan/task/name, the end of
    that, or a digest; `@3` behind it is the third version, `@RUN` the one of a run, else the newest is meant.

    \b
    Examples:
      planrunner artifacts --plan release --type junit
      planrunner artifacts show release/test/junit@last
      planrunner artifacts get release/test/junit@2 -o junit.xml
      planrunner artifacts gc --dry-run
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in _TAKES[action]:
            option = {"target": "output"}.get(name, name).replace("_", "-")
            raise click.UsageError(f"--{option} does not go with `artifacts {action}`", ctx)
    if (ref is None) == (action in ("show", "get")):
        raise click.UsageError(f"`artifacts {action}` {'needs a REF' if ref is None else 'takes no REF'}", ctx)
    words = () if ref is None else (ref,)
    act: Callable[..., int] = ACTIONS[action]
    return act(given_settings(ctx), as_json, *words, **given)
