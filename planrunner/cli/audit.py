"""``planrunner audit``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from planrunner.cli import auditing
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings

_TAKES: dict[str, frozenset[str]] = {
    "verify": frozenset({"heads", "path", "as_json"}),
    "export": frozenset({"form", "target"}),
    "head": frozenset(),
    "accept": frozenset({"because", "as_json"}),
}
"""The options of each action."""

_NAMES = {"heads": "head", "path": "export", "as_json": "json", "form": "format", "target": "output"}


@click.command("audit")
@click.argument("action", type=click.Choice(tuple(_TAKES)))
@click.argument("run", required=False, shell_complete=RUN)
@click.option(
    "--head", "heads", multiple=True, metavar="ANCHOR", help="`verify`: compare with this, or a file of such."
)
@click.option("--export", "path", metavar="FILE", help="`verify`: an exported file instead of the journal.")
@click.option("--format", "form", type=click.Choice(("jsonl", "text")), help="`export`: lines for programs or people.")
@click.option("-o", "--output", "target", metavar="FILE", help="`export`: where to write; must not exist.")
@click.option("--because", metavar="TEXT", help="`accept`: why, for whoever looks later.")
@click.option("--json", "as_json", is_flag=True, default=None, help="Print JSON.")
@click.pass_context
def audit_command(ctx: click.Context, /, action: str, run: str | None, **options: Any) -> int:
    """Prove that the journal is what was written (`verify`; exit code 10 where it is not), write who did what, when and
    why (`export`), print anchors to keep elsewhere (`head`), or take what stands there as it is (`accept`). RUN is an
    id, the start of one, `last`, or `refused`: the plans that were not let start. Without it all are meant.

    \b
    Examples:
      planrunner audit verify
      planrunner audit head > anchors.txt
      planrunner audit verify --head anchors.txt
      planrunner audit export last --format text
      planrunner audit export refused --format text
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    for name in given:
        if name not in _TAKES[action]:
            raise click.UsageError(f"--{_NAMES.get(name, name)} does not go with `audit {action}`", ctx)
    if action == "accept" and not given.get("because", "").strip():
        raise click.UsageError("`audit accept` needs --because: who looks later wants to know", ctx)
    if "path" in given and run is not None:
        raise click.UsageError("--export names a file, so no RUN goes with it", ctx)
    act: Callable[..., int] = auditing.ACTIONS[action]
    return act(given_settings(ctx), run, **given)
