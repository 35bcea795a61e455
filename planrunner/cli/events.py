"""``planrunner events``."""

from __future__ import annotations

import sys
import time

import click

from planrunner.cli.group import given_settings


@click.command("events")
@click.argument("run", default="last")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on as long as the run does.")
@click.option("--export", metavar="FILE", help="Write the run with its plan to a file, for `planrunner replay FILE`.")
@click.pass_context
def command(ctx: click.Context, /, run: str, as_json: bool, follow: bool, export: str | None) -> int:
    """Print the journal of a run. RUN is an id, the start of one, or `last`.

    \b
    Examples:
      planrunner events last
      planrunner events last --json | jq 'select(.type == "attempt_ended")'
      planrunner events last --export tests/release.jsonl
    """
    if export is not None:
        from planrunner.app import histories

        histories.export(run, given_settings(ctx).state, export)
        return 0
    from planrunner.app.inspect import journal_entries
    from planrunner.views.progress_jsonl import entry_line, entry_text, header_line

    started = False
    for row, entry in journal_entries(run, given_settings(ctx).state, follow):
        if as_json and not started:
            sys.stdout.write(header_line(row.run, row.plan_id) + "\n")
        started = True
        if as_json:
            sys.stdout.write(entry_line(entry) + "\n")
        else:
            moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
            sys.stdout.write(f"{entry.seq:>5} {moment}.{int(entry.at * 1000) % 1000:03d} {entry_text(entry)}\n")
        if follow:
            sys.stdout.flush()
    return 0
