"""``planrunner artifacts``."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from planrunner.cli.group import given_settings
from planrunner.cli.moments import Lasting
from planrunner.cli.settings import output
from planrunner.errors import FAILED

if TYPE_CHECKING:
    from planrunner.app.artifacts import Version
    from planrunner.cli.settings import Settings

ACTIONS = ("list", "show", "get", "verify", "gc")
_TAKES: dict[str, frozenset[str]] = {
    "list": frozenset({"plan", "task", "name", "type", "run", "limit"}),
    "show": frozenset(),
    "get": frozenset({"target", "force"}),
    "verify": frozenset(),
    "gc": frozenset({"dry_run", "older_than"}),
}
"""The options of each action beside ``--json``."""


@click.command("artifacts")
@click.argument("action", type=click.Choice(ACTIONS), default="list")
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
def command(ctx: click.Context, /, action: str, ref: str | None, as_json: bool, **options: Any) -> int:
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
    settings = given_settings(ctx)
    if action == "list":
        return _list(settings, as_json, **given)
    if action == "show":
        return _show(settings, as_json, str(ref))
    if action == "get":
        return _get(settings, as_json, str(ref), **given)
    return _verify(settings, as_json) if action == "verify" else _collect(settings, as_json, **given)


def _list(settings: Settings, as_json: bool, limit: int = 50, **wanted: str) -> int:
    from planrunner.app.artifacts import Wanted, listed
    from planrunner.views.artifacts import rows

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


def _show(settings: Settings, as_json: bool, ref: str) -> int:
    from planrunner.app.artifacts import shown
    from planrunner.views.artifacts import details

    found = shown(ref, settings.state)
    data = {**_data(found.version), **{key: value for key, value in found._asdict().items() if key != "version"}}
    if as_json:
        _print(data)
    else:
        output(settings).write("\n".join(details(data)) + "\n")
    return 0


def _get(settings: Settings, as_json: bool, ref: str, target: str = "", force: bool = False) -> int:
    from planrunner.app.artifacts import damaged, found, written

    version, store = found(ref, settings.state)
    if target == "-":
        if not store.is_whole(version.sha256):
            raise damaged(version)
        with store.open(version.sha256) as source:
            while data := source.read(1 << 20):
                sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return 0
    target = target or os.path.basename(version.path.rstrip("/") or version.name.rstrip("/")) or "artifact"
    if version.type == "directory":
        from planrunner.knowledge.unpacking import unpack

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


def _verify(settings: Settings, as_json: bool) -> int:
    from planrunner.app.collecting import verified
    from planrunner.views.artifacts import checked

    found = verified(settings.state)
    lost = [version.ref for version in found.lost]
    if as_json:
        _print({"whole": found.whole, "damaged": found.damaged, "lost": lost, "over": found.over})
    else:
        output(settings).write("\n".join(checked(found.whole, found.damaged, lost, found.over)) + "\n")
    return FAILED if found.damaged or lost else 0


def _collect(settings: Settings, as_json: bool, dry_run: bool = False, older_than: float | None = None) -> int:
    from planrunner.app.collecting import GRACE, collected
    from planrunner.views.artifacts import collected as lines

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
