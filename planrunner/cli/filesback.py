"""Files of a checkpoint are put back: shown, asked about, done and told."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from planrunner.app.checkpoints import readable
from planrunner.app.forking import ForkRequest, files_at, restoring
from planrunner.app.rewinding import CarriedOut, Done, Rewind, Step, carry_out
from planrunner.errors import StorageFailed, UsageError
from planrunner.views.terminal import harmless, plural

if TYPE_CHECKING:
    from planrunner.cli.settings import Settings


SHOWN = 20
"""Paths of one kind that are listed; of more than these the rest is counted."""


class Manner(NamedTuple):
    """How files are put back: ``yes`` asks nothing, ``whole`` folds no list, ``instead`` is what happens where nobody
    says yes, ``over`` takes a checkpoint that the run ended with too."""

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
    """Show what would be written and removed, ask, and do it. Raises UsageError where nobody says yes or where
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
    found = carry_out(plan)
    _tell(found, manner)
    return Restored(tuple(found.done), left_out, found.kept)


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
