"""``planrunner logs`` and ``events``."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from planrunner.app.history.replay import export as export_run
from planrunner.app.history.show import POLL, EntryQuery, Log, logs, read_log, wanted
from planrunner.app.queue.unbegun import entries_of, looked_at
from planrunner.cli.completion import RUN, TASK, completes
from planrunner.cli.group import given_settings
from planrunner.cli.output import byte_writer
from planrunner.cli.settings import Settings, messages
from planrunner.errors import UsageError
from planrunner.journal.codec import event_types
from planrunner.views.progress.jsonl import entry_line, entry_text, header_line


@click.command("logs")
@click.argument("run", default="last", shell_complete=RUN)
@click.argument("task", required=False, shell_complete=TASK)
@click.option("-f", "--follow", is_flag=True, help="Keep printing while the run goes on.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only attempt N.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines of each.")
@click.pass_context
def logs_command(
    ctx: click.Context, /, run: str, task: str | None, follow: bool, attempt: int | None, tail: int | None
) -> int:
    """Print the output of tasks. RUN is an id, the start of one, or `last`. TASK is a
    path, which includes the tasks inside it (`fan`, `polish#2`), or the end of one (`draft`).

    \b
    Examples:
      planrunner logs last test
      planrunner logs last test --attempt 2 --tail 50
      planrunner logs last 'fan[3]'
      planrunner logs last -f
    """
    given = given_settings(ctx)
    printed: dict[tuple[str, int], int] = {}
    last = b"\n"
    sys.stdout.flush()
    while True:
        looked = looked_at(run, given.state)
        chosen = logs(looked, task, attempt)
        for log in chosen:
            heading = f"==> {log.task}, attempt {log.attempt} <==\n" if task is None or len(chosen) > 1 else ""
            if heading and not last.endswith(b"\n"):
                heading = f"\n{heading}"
            last = _print(given, log, tail, printed, heading) or last
        if not (follow and looked.row.leased):
            return 0
        time.sleep(POLL)


def _print(given: Settings, log: Log, tail: int | None, printed: dict[tuple[str, int], int], heading: str) -> bytes:
    """Print what was not printed yet, byte for byte unless to a terminal; its last piece. Headings are messages,
    the text is data."""
    key = (log.task, log.attempt)
    first = key not in printed
    after = printed.get(key, 0)
    piece = b""
    write = byte_writer()
    for piece in read_log(log, after, tail if first else None):
        if heading:
            messages(given).write(heading)
            heading = ""
        write(piece)
        after += len(piece)
    sys.stdout.flush()
    printed[key] = after if tail is None or not first else log.size()
    return piece


@click.command("events")
@click.argument("run", default="last", shell_complete=RUN)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only this type, such as attempt_ended; may be repeated.",
    shell_complete=completes(lambda ctx, word: [(kind, "") for kind in sorted(event_types())]),
)
@click.option("--task", default="", metavar="PATH", help="Only entries about a task and the tasks inside it.")
@click.option("--after", type=click.IntRange(0), default=0, metavar="SEQ", help="Only later entries.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N entries.")
@click.option("-f", "--follow", is_flag=True, help="Keep printing while the run goes on.")
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
        export_run(run, given_settings(ctx).state, export)
        return 0
    started = False
    for row, entry in wanted(EntryQuery(**asked), entries_of(run, given_settings(ctx).state, follow)):
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
