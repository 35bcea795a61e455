"""``planrunner audit``."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from planrunner.app import audit as proof
from planrunner.app.auditlines import lines, text_of, verify_export
from planrunner.app.refused import NAME as REFUSED
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.settings import Settings, output
from planrunner.errors import MISMATCH, OK, UsageError
from planrunner.journal.proof import Verdict
from planrunner.views.terminal import harmless


def verify_journal(
    settings: Settings, run: str | None, heads: Sequence[str] = (), path: str = "", as_json: bool = False
) -> int:
    if path:
        found, told = verify_export(path, proof.anchors_of(heads)), list[dict[str, Any]]()
    else:
        found, told = proof.verify(run, settings.state, heads), proof.accepted(settings.state)
    if as_json:
        sys.stdout.write(json.dumps(_data(found, told), indent=2) + "\n")
    else:
        output(settings).write("\n".join([*_text(found, journal=not path), *map(_accepted, told)]) + "\n")
    return MISMATCH if found.breaks else OK


def export_journal(settings: Settings, run: str | None, form: str = "jsonl", target: str = "") -> int:
    file = _created(target) if target else sys.stdout
    try:
        for line in lines(run, settings.state):
            text = line if form == "jsonl" else harmless(text_of(line))
            if text:
                file.write(text + "\n")
    finally:
        if target:
            file.close()
    return OK


def head_journal(settings: Settings, run: str | None) -> int:
    found = proof.verify(run, settings.state)
    for each in found.runs:
        sys.stdout.write(f"{each.run}:{each.events}:{each.link}\n")
    if found.breaks:
        sys.stderr.write("\n".join(_text(found, journal=True)) + "\n")
    return MISMATCH if found.breaks else OK


def accept_journal(settings: Settings, run: str | None, because: str, as_json: bool = False) -> int:
    found = proof.accept(run, settings.state, because)
    if as_json:
        sys.stdout.write(json.dumps(_data(found, proof.accepted(settings.state)), indent=2) + "\n")
    else:
        count = len(found.breaks)
        told = "nothing was wrong" if not count else f"taken as it stands, with {_findings(count)}"
        output(settings).write(f"{told}\n")
    return OK


def _data(found: Verdict, accepted: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "format": 1,
        "intact": not found.breaks,
        "runs": [each._asdict() for each in found.runs],
        "breaks": [each._asdict() for each in found.breaks],
        "pruned": found.pruned,
        "heads": found.heads,
        "accepted": accepted,
    }


def _text(found: Verdict, journal: bool) -> list[str]:
    """The verdict, then each break; what limits it follows."""
    refused = sum(each.events for each in found.runs if each.run == REFUSED)
    runs = sum(each.run != REFUSED for each in found.runs)
    events = sum(each.events for each in found.runs) - refused
    if found.breaks:
        rows = [f"broken: {_findings(len(found.breaks))}"]
        rows += [f"  {each.run or 'the journal'}: {each.kind}: {harmless(each.message)}" for each in found.breaks]
    else:
        rows = [f"intact: {runs} run{'s' * (runs != 1)}, {events} event{'s' * (events != 1)}"]
        rows[0] += f", {refused} refusal{'s' * (refused != 1)}" if refused else ""
        rows[0] += f", {found.pruned} pruned" if found.pruned else ""
    if journal and not found.heads and runs:
        rows.append("  no heads are kept here: a cut tail or an old copy can only be told with `--head`")
    for each in found.runs:
        if each.since > 1:
            rows.append(f"  {each.run} is chained from event {each.since} on, which covers those before it together")
        if found.heads and each.anchored < each.events:
            rows.append(f"  {each.run}: the heads reach event {each.anchored} of {each.events}; the rest chains on")
    return rows


def _findings(count: int) -> str:
    return f"{count} finding{'s' * (count != 1)}"


def _accepted(told: dict[str, Any]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(told["at"]))
    what = told.get("run") or "the journal"
    return harmless(f"  {what} was taken as it stood by {told['by']} on {when}: {told['because']}")


def _created(path: str) -> Any:
    try:
        return os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="utf-8"
        )
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error


ACTIONS: dict[str, Callable[..., int]] = {
    "verify": verify_journal,
    "export": export_journal,
    "head": head_journal,
    "accept": accept_journal,
}


_TAKES: dict[str, frozenset[str]] = {
    "verify": frozenset({"heads", "path", "as_json"}),
    "export": frozenset({"form", "target"}),
    "head": frozenset(),
    "accept": frozenset({"because", "as_json"}),
}
"""The options of each action."""

_NAMES = {"heads": "head", "path": "export", "as_json": "json", "form": "format", "target": "output"}


@click.command("audit")
@click.argument("action", type=click.Choice(tuple(_TAKES)))
@click.argument("run", required=False, shell_complete=RUN)
@click.option(
    "--head", "heads", multiple=True, metavar="ANCHOR", help="`verify`: compare with this, or a file of such."
)
@click.option("--export", "path", metavar="FILE", help="`verify`: an exported file instead of the journal.")
@click.option("--format", "form", type=click.Choice(("jsonl", "text")), help="`export`: lines for programs or people.")
@click.option("-o", "--output", "target", metavar="FILE", help="`export`: where to write; must not exist.")
@click.option("--because", metavar="TEXT", help="`accept`: why, for whoever looks later.")
@click.option("--json", "as_json", is_flag=True, default=None, help="Print JSON.")
@click.pass_context
def audit_command(ctx: click.Context, /, action: str, run: str | None, **options: Any) -> int:
    """Prove that the journal is what was written (`verify`; exit code 10 where it is not), write who did what, when and
    why (`export`), print anchors to keep elsewhere (`head`), or take what stands there as it is (`accept`). RUN is an
    id, the start of one, `last`, or `refused`: the plans that were not let start. Without it all are meant.

    \b
    Examples:
      planrunner audit verify
      planrunner audit head > anchors.txt
      planrunner audit verify --head anchors.txt
      planrunner audit export last --format text
      planrunner audit export refused --format text
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    for name in given:
        if name not in _TAKES[action]:
            raise click.UsageError(f"--{_NAMES.get(name, name)} does not go with `audit {action}`", ctx)
    if action == "accept" and not given.get("because", "").strip():
        raise click.UsageError("`audit accept` needs --because: who looks later wants to know", ctx)
    if "path" in given and run is not None:
        raise click.UsageError("--export names a file, so no RUN goes with it", ctx)
    act: Callable[..., int] = ACTIONS[action]
    return act(given_settings(ctx), run, **given)
