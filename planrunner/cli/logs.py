"""``planrunner logs``."""

from __future__ import annotations

import sys
import time

import click

from planrunner.app.inspect import POLL, Log, logs, look, read_log
from planrunner.cli.completion import RUN, TASK
from planrunner.cli.group import given_settings
from planrunner.cli.screen import byte_writer
from planrunner.cli.settings import Settings, messages


@click.command("logs")
@click.argument("run", default="last", shell_complete=RUN)
@click.argument("task", required=False, shell_complete=TASK)
@click.option("-f", "--follow", is_flag=True, help="Go on as long as the run does.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only attempt N.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines of each.")
@click.pass_context
def logs_command(
    ctx: click.Context, /, run: str, task: str | None, follow: bool, attempt: int | None, tail: int | None
) -> int:
    """Print what the tasks of a run wrote. RUN is an id, the start of one, or `last`. TASK is a
    path, with all that it holds (`fan`, `polish#2`), or the end of some (`draft`).

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
        found = look(run, given.state)
        chosen = logs(found, task, attempt)
        for log in chosen:
            heading = f"==> {log.task}, attempt {log.attempt} <==\n" if task is None or len(chosen) > 1 else ""
            if heading and not last.endswith(b"\n"):
                heading = f"\n{heading}"
            last = _print(given, log, tail, printed, heading) or last
        if not (follow and found.row.held):
            return 0
        time.sleep(POLL)


def _print(given: Settings, log: Log, tail: int | None, printed: dict[tuple[str, int], int], heading: str) -> bytes:
    """Print what was not printed yet, byte for byte where that is no terminal; its last piece. Headings are messages,
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
