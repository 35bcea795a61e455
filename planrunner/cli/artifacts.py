"""``planrunner artifacts``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from planrunner.cli import keptfiles
from planrunner.cli.group import given_settings
from planrunner.cli.moments import Lasting

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
    act: Callable[..., int] = keptfiles.ACTIONS[action]
    return act(given_settings(ctx), as_json, *words, **given)
