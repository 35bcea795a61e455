"""``planrunner replay``."""

from __future__ import annotations

import json

import click

from planrunner.app.replay import replay_run
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.errors import MISMATCH
from planrunner.views.proof import replay_lines, replay_object


@click.command("replay")
@click.argument("run", default="last", shell_complete=RUN)
@click.option("--plan", type=click.Path(), metavar="FILE", help="Replay with an edited plan instead of the run's own.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def replay_command(ctx: click.Context, /, run: str, plan: str | None, as_json: bool) -> int:
    """Decide a recorded run again from its outcomes, offline, and tell the first difference (exit code 10). RUN is an
    id, the start of one, `last`, or a file that `planrunner events --export` wrote.

    \b
    Examples:
      planrunner replay last
      planrunner replay last --plan release-edited.yaml
      planrunner replay tests/release.jsonl
    """
    report = replay_run(run, given_settings(ctx).state, plan)
    if as_json:
        head = {
            "format": 1,
            "run_id": report.run_id,
            "plan": report.plan_id,
            "revision": report.revision,
            "edited": report.edited or None,
        }
        click.echo(json.dumps({**head, **replay_object(report.replayed)}, indent=2, ensure_ascii=False, default=str))
    else:
        click.echo("\n".join(replay_lines(report.run_id, report.replayed, bool(report.edited))))
    return MISMATCH if report.replayed.difference is not None else 0
