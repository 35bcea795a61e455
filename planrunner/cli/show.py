"""``planrunner show``, ``why``, ``logs`` and ``events``."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from planrunner.app.history import replay
from planrunner.app.history.calls import called, calls_document
from planrunner.app.history.show import (
    POLL,
    EntryQuery,
    Log,
    Look,
    failed_tasks,
    logs,
    look,
    read_log,
    shown_document,
    wanted,
    why_task,
)
from planrunner.app.queue.items import Item
from planrunner.app.queue.unbegun import entries_of, looked_at, told_unbegun, unbegun, unbegun_document
from planrunner.cli.completion import RUN, RUN_OR_TASK, TASK, completes
from planrunner.cli.group import given_settings
from planrunner.cli.options import json_option
from planrunner.cli.output import byte_writer, print_document
from planrunner.cli.runner import tell_edited
from planrunner.cli.settings import Settings, messages, note_stranger, output
from planrunner.errors import NextStep, NotFound, UsageError
from planrunner.escapes import harmless
from planrunner.journal.codec import event_types
from planrunner.jsontext import as_text
from planrunner.views import run as picture
from planrunner.views.documents import document_of
from planrunner.views.ending import ending
from planrunner.views.progress.jsonl import entry_line, entry_text, header_line
from planrunner.views.revision import revision_history, settings_history
from planrunner.views.run import call_lines
from planrunner.views.terminal import cut
from planrunner.views.tree import tree

TAIL = 20
"""Lines of the output of a task that are shown with it."""


@click.command("show")
@click.argument("run", default="last", shell_complete=RUN)
@click.argument("task", default="", shell_complete=TASK)
@click.option(
    "--inputs", is_flag=True, help="Show what each attempt of TASK was called with, and what models were sent."
)
@click.option("--json", "as_json", is_flag=True, help="Print the JSON object that `exec --json` prints.")
@click.option("--all", "whole", is_flag=True, help="List every task, also uneventful ones.")
@click.option("--timeline", is_flag=True, help="Add a bar for each attempt.")
@click.pass_context
def show_command(
    ctx: click.Context, /, run: str, as_json: bool, whole: bool, timeline: bool, task: str, inputs: bool
) -> int:
    """Show the state of a run or of one TASK, or with --inputs what a task was called with. RUN is an id, the start
    of one, or `last`.

    \b
    Examples:
      planrunner show
      planrunner show 20261121 --json
      planrunner show last --timeline
      planrunner show last build
      planrunner show last build --inputs
    """
    if task and (whole or timeline):
        raise UsageError("--all and --timeline show a run: leave the task out", NextStep("show", run))
    if inputs:
        return _calls(ctx, run, task, as_json)
    if task:
        return _task(ctx, run, task, as_json)
    given = given_settings(ctx)
    try:
        looked = look(run, given.state)
    except NotFound as missing:
        return _unbegun(ctx, unbegun(run, given.state, missing), as_json)
    note_stranger(given)
    now = looked.now
    if as_json:
        print_document(shown_document(looked))
        return 0
    screen = output(given)
    lines = tree(screen, looked.state, now, whole)
    if timeline:
        lines += ["", *picture.timeline(screen, looked.state, picture.attempts(looked.entries), now), ""]
    lines += [*revision_history(screen, looked.entries), *settings_history(looked.entries)]
    if looked.state.status != "completed":
        tell_edited(given, looked.row.run)
    screen.write("\n".join([*lines, *ending(screen, looked.state, looked.row.run, looked.source)]) + "\n")
    return 0


def _unbegun(ctx: click.Context, item: Item, as_json: bool) -> int:
    """A run that waits in the queue, or that ended there."""
    told = unbegun_document(item)
    if as_json:
        print_document(told)
        return 0
    given = given_settings(ctx)
    why = f": {harmless(item.reason)}" if item.reason else ""
    way = f"  {NextStep('queue').worded(given.program)} says what it waits for\n" if told["status"] == "queued" else ""
    output(given).write(f"{harmless(told['plan'])} {told['status']}, not begun{why} (run {item.run})\n{way}")
    return 0


def _task(ctx: click.Context, run: str, wanted: str, as_json: bool) -> int:
    """A task: why it is where it is, what it gave, and the end of what it printed."""
    given = given_settings(ctx)
    looked = looked_at(run, given.state)
    told = why_task(looked, wanted)
    known = shown_document(looked)["tasks"].get(told.task, {})
    if as_json:
        print_document(document_of({"run_id": looked.row.run}, {**known, **told._asdict()}))
        return 0
    screen = output(given)
    lines = [harmless(line) for line in told.why]
    outputs = known.get("outputs") or {}
    lines += [f"  {name} = {harmless(cut(as_text(value, 300), 300))}" for name, value in outputs.items()]
    printed = logs(looked, wanted, None)[-1:]
    for log in printed:
        text = b"".join(read_log(log, tail=TAIL)).decode("utf-8", "replace")
        lines += [f"  | {harmless(line)}" for line in text.splitlines()]
    words = ["logs", "show"] if printed else []
    for command in words:
        more = ("--inputs",) if command == "show" else ()
        lines.append(f"  {NextStep(command, looked.row.run, wanted, *more).worded(given.program)}")
    screen.write("\n".join(lines) + "\n")
    return 0


def _calls(ctx: click.Context, run: str, task: str, as_json: bool) -> int:
    """What a task was called with."""
    if not task:
        raise UsageError("--inputs needs the task", NextStep("show", run, "TASK", "--inputs"))
    given = given_settings(ctx)
    try:
        calls = called(run, task, given.state)
    except NotFound:
        looked_at(run, given.state)
        raise
    if as_json:
        print_document(calls_document(calls))
        return 0
    screen = output(given)
    screen.write("\n".join(call_lines(screen, calls)) + "\n")
    return 0


@click.command("why")
@click.argument("words", nargs=-1, metavar="[RUN] [TASK]", shell_complete=RUN_OR_TASK)
@json_option
@click.pass_context
def why_command(ctx: click.Context, /, words: tuple[str, ...], as_json: bool) -> int:
    """Explain why a task ran, waited, was skipped, was retried or failed. RUN defaults to `last`, TASK to the first
    one that failed.

    TASK is a path as the run shows it (`polish#2/draft`, `fan[3]`), or the end of one that no other task has; a round
    of a loop (`polish#2`) is explained as a whole.

    \b
    Examples:
      planrunner why
      planrunner why explain
      planrunner why 20261121-2259 sign-off
      planrunner why last 'fan[3]'
    """
    if len(words) > 2:
        raise click.UsageError("give a run and a task, or a task")
    run = words[0] if len(words) == 2 else "last"
    state = given_settings(ctx).state
    looked = looked_at(run, state)
    try:
        told = why_task(looked, words[-1] if words else _failed(run, looked))
    except NotFound as unknown:
        if len(words) != 1:
            raise
        looked = _run_of(words[0], state, unknown)
        told = why_task(looked, _failed(words[0], looked))
    if as_json:
        print_document(document_of({"run_id": looked.row.run}, told._asdict()))
    else:
        click.echo("\n".join(harmless(line) for line in told.why))
    return 0


def _run_of(word: str, state: str | None, unknown: NotFound) -> Look:
    """The run that a word names which is not a task. Raises ``unknown`` where it is not a run either."""
    try:
        return look(word, state)
    except NotFound:
        with told_unbegun(word, state):
            raise unknown from None


def _failed(run: str, found: Look) -> str:
    """The first task of a run that failed. Raises UsageError where none did."""
    failed = failed_tasks(found)
    if not failed:
        raise UsageError(f"no task of the run `{run}` failed; name the one to explain", NextStep("why", run, "TASK"))
    return failed[0]


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
        replay.export(run, given_settings(ctx).state, export)
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
