"""``planrunner checkpoints`` and ``fork``, and putting back the files of a checkpoint."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from planrunner.app.runs.checkpoints import (
    Checkpoint,
    Forked,
    ForkRequest,
    checkpoint_object,
    checkpoints,
    files_at,
    fork,
    look,
    readable,
    restoring,
)
from planrunner.app.runs.restore import CarriedOut, Done, Rewind, Step, carry_out
from planrunner.app.runs.revise import ReviseRequest
from planrunner.cli.completion import RUN
from planrunner.cli.exec import pairs
from planrunner.cli.group import given_settings
from planrunner.cli.options import json_option
from planrunner.cli.output import print_document
from planrunner.cli.revise import revised_first
from planrunner.cli.settings import Settings, output
from planrunner.errors import StorageFailed, UsageError
from planrunner.views.checkpoint import columns, lines
from planrunner.views.documents import document
from planrunner.views.terminal import harmless, plural, table

if TYPE_CHECKING:
    from planrunner.cli.settings import Settings

SHOWN = 20
"""Paths of one kind that are listed; of more than these the rest is counted."""


class Manner(NamedTuple):
    """How files are put back: ``yes`` asks nothing, ``whole`` folds no list, ``instead`` is what happens without
    consent, ``over`` takes a checkpoint that the run ended with too."""

    yes: bool = False
    whole: bool = False
    instead: str = "nothing was written and no run was made"
    over: bool = False


class Restored(NamedTuple):
    """What became of each path, as programs read it; ``kept`` lists what was there before."""

    done: tuple[Done, ...] = ()
    left_out: tuple[Step, ...] = ()
    kept: str = ""

    def data(self) -> dict[str, Any]:
        counts = Counter(_did(one.step) for one in self.done)
        paths = [(one.step.path, _did(one.step), one.step.how, one.before or None) for one in self.done]
        paths += [(one.path, "left out", one.how, None) for one in self.left_out]
        names = ("path", "did", "why", "before")
        told = [dict(zip(names, (readable(path), *rest))) for path, *rest in paths]
        listed = {"left_out": len(self.left_out), "kept": self.kept or None, "paths": told}
        return {"written": counts["wrote"], "removed": counts["removed"], **listed}


def put_back(request: ForkRequest, given: Settings, manner: Manner) -> Restored:
    """Show what would be written and removed, ask, and do it. Raises UsageError without consent, or if
    something changed meanwhile, RunHeld where a run acts in the directory or another process puts files back, and
    StorageFailed where not everything could be done."""
    click.get_current_context().with_resource(restoring(request))  # until the command ends, or its run is held
    plan = files_at(request, manner.over)
    _preview(plan, manner.whole)
    left_out = tuple(step for step in plan.steps if not (step.writes or step.how == "removed"))
    if not plan.acts:
        click.echo("no file has to be put back", err=True)
        return Restored(left_out=left_out)
    if not manner.yes:
        _ask(given, manner)
        if files_at(request, manner.over) != plan:
            raise UsageError(f"files changed meanwhile: {manner.instead}", "look again, with the same command")
    restored = carry_out(plan)
    _tell(restored, manner)
    return Restored(tuple(restored.done), left_out, restored.kept)


def _ask(given: Settings, manner: Manner) -> None:
    asks = sys.stdin.isatty() and not given.no_input
    if not (asks and click.confirm("change these files?", err=True)):
        raise UsageError(manner.instead, "say --yes to change these files")


def _preview(plan: Rewind, whole: bool) -> None:
    rows = [(_aim(step), _intended(step)) for step in plan.steps]
    folded = list(_folded(rows, whole))
    if len(folded) < len(rows):
        folded.append(f"in all: {_totals(aim for aim, _ in rows)}")
    for line in folded:
        click.echo(line, err=True)


def _tell(found: CarriedOut, manner: Manner) -> None:
    rows = []
    for done in found.done:
        if not done.problem:
            kept = f"; what it was is kept as artifact {done.before[:12]}" if done.before else ""
            rows.append((_did(done.step), f"{_did(done.step)} {_shown(done.step.path)}{kept}"))
    for line in _folded(rows, manner.whole):
        click.echo(line, err=True)
    click.echo(_totals(did for did, _ in rows) or "nothing was changed", err=True)
    if found.kept:
        click.echo(f"what was there is kept; this lists where: {found.kept}", err=True)
    problems = [f"{_shown(done.step.path)}: {done.problem}" for done in found.done if done.problem]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        no_run = "" if manner.over else ", and no run was made"
        message = f"not everything could be put back{no_run}: {'; '.join(problems[:3])}{more}"
        raise StorageFailed(message, "mend that and say the same again")


def _folded(rows: list[tuple[str, str]], whole: bool) -> Iterator[str]:
    """The lines, of each kind the first ones and how many more there are. One more is shown rather than counted."""
    seen: Counter[str] = Counter()
    every = Counter(kind for kind, _ in rows)
    for kind, line in rows:
        seen[kind] += 1
        if whole or seen[kind] <= SHOWN or every[kind] == SHOWN + 1:
            yield line
    for kind, count in every.items():
        if not whole and count > SHOWN + 1:
            yield f"{kind} {count - SHOWN:,} more"


def _totals(kinds: Iterable[str]) -> str:
    return ", ".join(f"{kind} {plural(count, 'path')}" for kind, count in sorted(Counter(kinds).items(), reverse=True))


def _did(step: Step) -> str:
    return "removed" if step.how == "removed" else "wrote"


def _aim(step: Step) -> str:
    if step.how == "removed":
        return "remove"
    return "write" if step.writes else "leave out"


def _intended(step: Step) -> str:
    path = _shown(step.path)
    if step.how == "removed":
        return f"remove {path}: it came since"
    if not step.writes:
        return f"leave out {path}: {step.how}"
    what = f"has another mode than {step.piece.mode:03o}" if step.how == "mode" and step.piece else _IS[step.how]
    return f"write {path}: it {what}"


_IS = {"missing": "is missing", "differs": "has another content", "kind": "is something else"}


def _shown(path: str) -> str:
    """A path as one line of text, whatever bytes its name has."""
    return harmless(path.replace("\n", "\\n").encode("utf-8", "backslashreplace").decode())


@click.command("checkpoints")
@click.argument("run", default="last", shell_complete=RUN)
@click.argument("checkpoint", required=False)
@click.option("--restore-files", is_flag=True, help="Make the files of the directory what they were at CHECKPOINT.")
@click.option("--yes", is_flag=True, help="Do not ask before files change.")
@json_option
@click.pass_context
def checkpoints_command(
    ctx: click.Context, /, run: str, checkpoint: str | None, restore_files: bool, yes: bool, as_json: bool
) -> int:
    """List checkpoints that a run can continue from: one for each completed task, and for each round after which a
    loop keeps files. With CHECKPOINT (a name, the beginning of one, or a task) show what that one holds, or put its
    files back without going on from there. RUN is an id, the start of one, or `last`.

    \b
    Examples:
      planrunner checkpoints last
      planrunner checkpoints last cp-build
      planrunner checkpoints last cp-build --restore-files
      planrunner resume last --from cp-build --restore-files
    """
    given = given_settings(ctx)
    if restore_files:
        _restore(run, checkpoint, given, yes, as_json)
        return 0
    if checkpoint is not None:
        _show(run, checkpoint, given, as_json)
        return 0
    row, places = checkpoints(run, given.state)
    if as_json:
        print_document(document(run_id=row.run, checkpoints=[checkpoint_object(one) for one in places]))
    elif places:
        click.echo("\n".join(_table(places, given)))
    else:
        click.echo(f"run {row.run} has no checkpoints: no task completed before it ended", err=True)
    return 0


def _restore(run: str, checkpoint: str | None, given: Settings, yes: bool, as_json: bool) -> None:
    if checkpoint is None:
        raise click.UsageError("--restore-files goes with a CHECKPOINT")
    request = ForkRequest(run, checkpoint, state=given.state)
    restored = put_back(request, given, Manner(yes, as_json, "nothing was written", over=True))
    if as_json:
        print_document(document(**restored.data()))


def _show(run: str, checkpoint: str, given: Settings, as_json: bool) -> None:
    looked = look(run, checkpoint, given.state)
    if as_json:
        print_document(looked)
    else:
        click.echo("\n".join(lines(output(given), looked, _clock(looked["at"]))))


def _table(found: list[Checkpoint], given: Settings) -> list[str]:
    """Columns for files stand only where a checkpoint has some."""
    rows = [(harmless(one.name), "the end" if one.ended else str(one.seq), _clock(one.at)) for one in found]
    if all(one.files is None for one in found):
        return table(output(given), ("checkpoint", "entry", "completed"), rows)
    full = [(*row, *columns(one.files)) for row, one in zip(rows, found)]
    return table(output(given), ("checkpoint", "entry", "completed", "files", "changes"), full)


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


@click.command("fork")
@click.argument("run", shell_complete=RUN)
@click.option(
    "--from", "checkpoint", default="", metavar="CHECKPOINT", help="A checkpoint, or a task for its last one."
)
@click.option("--at", type=click.IntRange(1), metavar="SEQ", help="After this entry of the journal instead.")
@click.option(
    "-p", "--param", "params", multiple=True, metavar="NAME=VALUE", callback=pairs, help="Change a parameter."
)
@click.option(
    "--plan", "mended", metavar="FILE", type=click.Path(), help="Revise the new run: it has this mended plan."
)
@click.option("--restore-files", is_flag=True, help="Make the files of the directory what they were then.")
@click.option("--yes", is_flag=True, help="Do not ask before files change.")
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
    """Make a new run that goes on from a checkpoint of another one (the last, where none is named), and print its id.
    Nothing is started: `planrunner resume` does that. The run it comes from stays as it is.

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
    restored = None
    if restore_files:
        restored = put_back(request, given, Manner(yes, as_json))
    made = fork(request)
    tell_of_files(made)
    if mended is not None:
        revised_first(given, ReviseRequest(made.run_id, mended, params), as_json)
    if as_json:
        files = {} if restored is None else restored.data()
        print_document(document(**made._asdict(), **files))
        return 0
    where = f"checkpoint {made.checkpoint}" if made.checkpoint else f"entry {made.seq}"
    if at is not None and made.seq != at:
        where += f" (with which what was decided together with entry {at} ends)"
    click.echo(made.run_id)
    click.echo(f"goes on from {where} of {made.parent}: {given.program} resume {made.run_id}", err=True)
    return 0


def tell_of_files(made: Forked) -> None:
    """Say that files differ from the checkpoint, where they were not to be restored."""
    if made.files:
        count = f"{made.files} {'path is' if made.files == 1 else 'paths are'}"
        click.echo(f"{count} not as at the checkpoint: --restore-files shows which and puts them back", err=True)
