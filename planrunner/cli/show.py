"""``planrunner show`` and ``why``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from planrunner.app.history.show import Look, failed_tasks, logs, look, read_log, shown_document, why_task
from planrunner.app.queue.unbegun import looked_at, told_unbegun, unbegun, unbegun_document
from planrunner.cli.completion import RUN, RUN_OR_TASK, TASK
from planrunner.cli.group import given_settings
from planrunner.cli.options import json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import emit, note_stranger, output
from planrunner.errors import NextStep, NotFound, UsageError
from planrunner.escapes import harmless
from planrunner.jsontext import as_text
from planrunner.later import Later
from planrunner.views.terminal import cut

if TYPE_CHECKING:
    from planrunner.app.history.calls import called, calls_document
    from planrunner.app.queue.items import Item
    from planrunner.cli.runner import tell_edited
    from planrunner.views.documents import document_of
    from planrunner.views.ending import ending
    from planrunner.views.revision import revision_history, settings_history
    from planrunner.views.run import attempts, call_lines
    from planrunner.views.run import timeline as timeline_lines
    from planrunner.views.tree import tree
else:
    called = Later("planrunner.app.history.calls:called")
    calls_document = Later("planrunner.app.history.calls:calls_document")
    tell_edited = Later("planrunner.cli.runner:tell_edited")
    document_of = Later("planrunner.views.documents:document_of")
    ending = Later("planrunner.views.ending:ending")
    revision_history = Later("planrunner.views.revision:revision_history")
    settings_history = Later("planrunner.views.revision:settings_history")
    attempts = Later("planrunner.views.run:attempts")
    call_lines = Later("planrunner.views.run:call_lines")
    timeline_lines = Later("planrunner.views.run:timeline")
    tree = Later("planrunner.views.tree:tree")


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
        lines += ["", *timeline_lines(screen, looked.state, attempts(looked.entries), now), ""]
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
    return emit(given, calls_document(calls) if as_json else call_lines(output(given), calls))


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
