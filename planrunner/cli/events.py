"""``planrunner events``."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from planrunner.app import histories
from planrunner.app.inspect import journal_entries
from planrunner.app.queries import EntryQuery, wanted
from planrunner.cli.completion import RUN, completes
from planrunner.cli.group import given_settings
from planrunner.errors import UsageError
from planrunner.journal.codec import event_types
from planrunner.views.progress.jsonl import entry_line, entry_text, header_line


@click.command("events")
@click.argument("run", default="last", shell_complete=RUN)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only such as attempt_ended; repeatable.",
    shell_complete=completes(lambda ctx, word: [(kind, "") for kind in sorted(event_types())]),
)
@click.option("--task", default="", metavar="PATH", help="Only entries about a task and all that it holds.")
@click.option("--after", type=click.IntRange(0), default=0, metavar="SEQ", help="Only what follows this entry.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N entries.")
@click.option("-f", "--follow", is_flag=True, help="Go on as long as the run does.")
@click.option("--export", metavar="FILE", help="Write the run with its plan to a file, for `planrunner replay FILE`.")
@click.pass_context
def events_command(
    ctx: click.Context, /, run: str, as_json: bool, follow: bool, export: str | None, **asked: Any
) -> int:
    """Print the journal of a run. RUN is an id, the start of one, or `last`.

    \b
    Examples:
      planrunner events last
      planrunner events last --type attempt_ended --task 'fan[3]'
      planrunner events last --json --after 500 --limit 500
      planrunner events last --export tests/release.jsonl
    """
    if export is not None:
        if any(asked.values()):
            raise UsageError("`--export` writes the whole run: leave out what chooses entries")
        histories.export(run, given_settings(ctx).state, export)
        return 0
    started = False
    for row, entry in wanted(EntryQuery(**asked), journal_entries(run, given_settings(ctx).state, follow)):
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
