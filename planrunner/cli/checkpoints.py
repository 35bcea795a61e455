"""``planrunner checkpoints`` and ``fork``, and restoring the files of a checkpoint."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

import click

from planrunner.app.runs.checkpoints import (
    Checkpoint,
    Forked,
    ForkRequest,
    checkpoints,
    checkpoints_document,
    files_at,
    fork,
    look,
    restoring,
)
from planrunner.app.runs.restore import CarriedOut, Step, carry_out, restored_object
from planrunner.app.runs.revise import ReviseRequest
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.options import PlanPath, json_option, params_option
from planrunner.cli.output import print_document
from planrunner.cli.revise import revised_first
from planrunner.cli.settings import Settings, output
from planrunner.errors import StorageFailed, UsageError
from planrunner.escapes import harmless
from planrunner.records import Struct
from planrunner.views.checkpoint import columns, lines
from planrunner.views.documents import document_of
from planrunner.views.terminal import Terminal, plural, table

SHOWN = 20
"""Paths of one kind that are listed; the rest is counted."""


class Restoration(Struct):
    """How files are restored: ``yes`` does not prompt, ``whole`` folds no list, ``refused`` says what did not happen
    without consent, ``ended`` accepts a checkpoint that the run ended with."""

    yes: bool = False
    whole: bool = False
    refused: str = "nothing was written and no run was made"
    ended: bool = False


def restore(request: ForkRequest, given: Settings, how: Restoration) -> dict[str, Any]:
    """Show what would be written and removed, prompt, and do it; gives what became of each path as data. Raises
    UsageError without consent, or if something changed meanwhile, RunHeld where a run acts in the directory or another
    process restores files, and StorageFailed where something could not be done."""
    click.get_current_context().with_resource(restoring(request))  # until the command ends, or its run is leased
    plan = files_at(request, how.ended)
    rows = [(_action(step), _planned(step)) for step in plan.steps]
    _list(rows, how.whole, "in all: ")
    if not plan.acts:
        click.echo("no file has to be restored", err=True)
        return restored_object(plan, CarriedOut([]))
    if not how.yes:
        asks = sys.stdin.isatty() and not given.no_input
        if not (asks and click.confirm("change these files?", err=True)):
            raise UsageError(how.refused, "say --yes to change these files")
        if files_at(request, how.ended) != plan:
            raise UsageError(f"files changed meanwhile: {how.refused}", "repeat the command")
    restored = carry_out(plan)
    rows = [
        (
            action,
            f"{action} {_shown(done.step.path)}"
            + (f"; its content is artifact {done.before[:12]}" * bool(done.before)),
        )
        for done in restored.done
        if not done.problem
        for action in ["removed" if done.step.how == "removed" else "wrote"]
    ]
    _list(rows, how.whole, "")
    if restored.kept:
        click.echo(f"the replaced files are kept; this lists where: {restored.kept}", err=True)
    problems = [f"{_shown(done.step.path)}: {done.problem}" for done in restored.done if done.problem]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        no_run = "" if how.ended else ", and no run was made"
        message = f"some files could not be restored{no_run}: {'; '.join(problems[:3])}{more}"
        raise StorageFailed(message, "fix that and repeat the command")
    return restored_object(plan, restored)


def _list(rows: list[tuple[str, str]], whole: bool, total: str) -> None:
    """Print lines, of each kind the first ones and how many more there are; then the counts, of a planned change only
    where lines were left out. One line more is shown rather than counted."""
    counts = Counter(kind for kind, _ in rows)
    seen: Counter[str] = Counter()
    for kind, line in rows:
        seen[kind] += 1
        if whole or seen[kind] <= SHOWN or counts[kind] == SHOWN + 1:
            click.echo(line, err=True)
    folded = {kind: count - SHOWN for kind, count in counts.items() if not whole and count > SHOWN + 1}
    for kind, count in folded.items():
        click.echo(f"{kind} {count:,} more", err=True)
    if folded or not total:
        totals = [f"{kind} {plural(count, 'path')}" for kind, count in sorted(counts.items(), reverse=True)]
        click.echo(total + (", ".join(totals) or "nothing was changed"), err=True)


def _action(step: Step) -> str:
    return "remove" if step.how == "removed" else "write" if step.writes else "leave out"


def _planned(step: Step) -> str:
    path = _shown(step.path)
    if step.how == "removed":
        return f"remove {path}: added since"
    if not step.writes:
        return f"leave out {path}: {step.how}"
    differs = {"missing": "it is missing", "differs": "its content differs", "kind": "it is another kind of file"}
    if step.how == "mode" and step.state:
        return f"write {path}: its mode is not {step.state.mode:03o}"
    return f"write {path}: {differs[step.how]}"


def _shown(path: str) -> str:
    """A path as one line of text, whatever bytes its name has."""
    return harmless(path.replace("\n", "\\n").encode("utf-8", "backslashreplace").decode())


@click.command("checkpoints")
@click.argument("run", default="last", shell_complete=RUN)
@click.argument("checkpoint", required=False)
@click.option("--restore-files", is_flag=True, help="Restore the files of the directory to CHECKPOINT.")
@click.option("--yes", is_flag=True, help="Do not prompt before files change.")
@json_option
@click.pass_context
def checkpoints_command(
    ctx: click.Context, /, run: str, checkpoint: str | None, restore_files: bool, yes: bool, as_json: bool
) -> int:
    """List checkpoints that a run can continue from: one for each completed task, and for each round after which a
    loop keeps files. RUN is an id, the start of one, or `last`.

    With CHECKPOINT (a name, the start of one, or a task) show what it holds, or restore its files only.

    \b
    Examples:
      planrunner checkpoints last
      planrunner checkpoints last cp-build
      planrunner checkpoints last cp-build --restore-files
      planrunner resume last --from cp-build --restore-files
    """
    given = given_settings(ctx)
    screen = output(given)
    if restore_files:
        if checkpoint is None:
            raise click.UsageError("--restore-files goes with a CHECKPOINT")
        request = ForkRequest(run, checkpoint, state=given.state)
        restored = restore(request, given, Restoration(yes, as_json, "nothing was written", ended=True))
        if as_json:
            print_document(document_of(restored))
    elif checkpoint is not None:
        looked = look(run, checkpoint, given.state)
        if as_json:
            print_document(looked)
        else:
            screen.write("\n".join(lines(screen, looked, _clock(looked["at"]))) + "\n")
    else:
        row, places = checkpoints(run, given.state)
        if as_json:
            print_document(checkpoints_document(row.run, places))
        elif places:
            screen.write("\n".join(_table(screen, places)) + "\n")
        else:
            click.echo(f"run {row.run} has no checkpoints: no task completed before it ended", err=True)
    return 0


def _table(screen: Terminal, places: list[Checkpoint]) -> list[str]:
    """Columns for files only where a checkpoint has some."""
    rows = [(harmless(one.name), "the end" if one.ended else str(one.seq), _clock(one.at)) for one in places]
    if all(one.files is None for one in places):
        return table(screen, ("checkpoint", "entry", "completed"), rows)
    full = [(*row, *columns(one.files)) for row, one in zip(rows, places, strict=True)]
    return table(screen, ("checkpoint", "entry", "completed", "files", "changes"), full)


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


@click.command("fork")
@click.argument("run", shell_complete=RUN)
@click.option(
    "--from", "checkpoint", default="", metavar="CHECKPOINT", help="A checkpoint, or a task for its last one."
)
@click.option("--at", type=click.IntRange(1), metavar="SEQ", help="Continue after this journal entry instead.")
@params_option("Change a parameter.")
@click.option(
    "--plan", "mended", metavar="PLAN", type=PlanPath(), help="Revise the new run: continue with this changed plan."
)
@click.option("--restore-files", is_flag=True, help="Restore the files of the directory to the checkpoint.")
@click.option("--yes", is_flag=True, help="Do not prompt before files change.")
@json_option
@click.pass_context
def fork_command(
    ctx: click.Context,
    /,
    run: str,
    checkpoint: str,
    at: int | None,
    params: tuple[tuple[str, str], ...],
    mended: str | None,
    restore_files: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Create a new run that continues from a checkpoint of another run (default: the last one), and print its id.
    `planrunner resume` starts it. The other run stays unchanged.

    \b
    Examples:
      planrunner fork last --from build
      planrunner fork 20261121-2259 --at 17 -p stage=prod
      planrunner fork last --from build --restore-files
    """
    if at is not None and checkpoint:
        raise click.UsageError("give --from or --at, not both")
    given = given_settings(ctx)
    request = ForkRequest(run, checkpoint, at, () if mended else params, given.state)
    restored = restore(request, given, Restoration(yes, as_json)) if restore_files else {}
    made = fork(request)
    tell_of_files(made)
    if mended is not None:
        revised_first(given, ReviseRequest(made.run_id, mended, params), as_json)
    if as_json:
        print_document(document_of(made, restored))
        return 0
    where = f"checkpoint {made.checkpoint}" if made.checkpoint else f"entry {made.seq}"
    if at is not None and made.seq != at:
        where += f" (the last entry of the decision that entry {at} belongs to)"
    click.echo(made.run_id)
    click.echo(f"continues from {where} of {made.parent}: {given.program} resume {made.run_id}", err=True)
    return 0


def tell_of_files(made: Forked) -> None:
    """Say that files differ from the checkpoint, where they were not to be restored."""
    if made.files:
        differ = "1 path differs" if made.files == 1 else f"{made.files} paths differ"
        click.echo(f"{differ} from the checkpoint: --restore-files lists and restores them", err=True)
