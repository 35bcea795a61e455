"""``planrunner audit``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from planrunner.app.history import audit as proof
from planrunner.app.history.audit import NAME as REFUSED
from planrunner.app.history.audit import lines, text_of, verify_export
from planrunner.cli.completion import RUN
from planrunner.cli.group import CommandGroup, given_settings
from planrunner.cli.options import json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import emit, output
from planrunner.errors import MISMATCH, OK, UsageError
from planrunner.escapes import harmless
from planrunner.journal.proof import Verdict
from planrunner.views.terminal import plural


@click.group("audit", cls=CommandGroup)
def audit_command() -> None:
    """Verify the journal, export it, anchor it elsewhere, or accept it as it is.

    RUN is an id, the start of one, `last`, or `refused`: the plans that were refused. Without it, all are meant.

    \b
    Examples:
      planrunner audit verify
      planrunner audit head > anchors.txt
      planrunner audit verify --head anchors.txt
      planrunner audit export last --format text
      planrunner audit export refused --format text
    """


@audit_command.command("verify")
@click.argument("run", required=False, shell_complete=RUN)
@click.option(
    "--head", "heads", multiple=True, metavar="ANCHOR", help="Compare with this anchor, or a file of anchors."
)
@click.option("--export", "path", default="", metavar="FILE", help="Verify an exported file instead of the journal.")
@json_option
@click.pass_context
def verify_journal(ctx: click.Context, /, run: str | None, heads: Sequence[str], path: str, as_json: bool) -> int:
    """Prove that the journal is what was written; exit code 10 where it is not."""
    if path and run is not None:
        raise click.UsageError("--export names a file, so no RUN goes with it", ctx)
    settings = given_settings(ctx)
    if path:
        verdict, accepted = verify_export(path, proof.anchors_of(heads)), list[dict[str, Any]]()
    else:
        verdict, accepted = proof.verify(run, settings.state, heads), proof.accepted(settings.state)
    emit(
        settings,
        proof.verdict_document(verdict, accepted)
        if as_json
        else [*_text(verdict, journal=not path), *map(_accepted, accepted)],
    )
    return MISMATCH if verdict.breaks else OK


@audit_command.command("export")
@click.argument("run", required=False, shell_complete=RUN)
@click.option(
    "--format", "form", type=click.Choice(("jsonl", "text")), default="jsonl", help="Lines for programs, or for people."
)
@click.option("-o", "--output", "target", default="", metavar="FILE", help="Where to write; must not exist.")
@click.pass_context
def export_journal(ctx: click.Context, /, run: str | None, form: str, target: str) -> int:
    """Write who did what, when and why."""
    file = _created(target) if target else sys.stdout
    try:
        for line in lines(run, given_settings(ctx).state):
            text = line if form == "jsonl" else harmless(text_of(line))
            if text:
                file.write(text + "\n")
    finally:
        if target:
            file.close()
    return OK


@audit_command.command("head")
@click.argument("run", required=False, shell_complete=RUN)
@click.pass_context
def head_journal(ctx: click.Context, /, run: str | None) -> int:
    """Print anchors to keep elsewhere."""
    verdict = proof.verify(run, given_settings(ctx).state)
    for each in verdict.runs:
        sys.stdout.write(f"{each.run}:{each.events}:{each.link}\n")
    if verdict.breaks:
        sys.stderr.write("\n".join(_text(verdict, journal=True)) + "\n")
    return MISMATCH if verdict.breaks else OK


@audit_command.command("accept")
@click.argument("run", required=False, shell_complete=RUN)
@click.option("--because", default="", metavar="TEXT", help="The reason, for later readers of the journal (required).")
@json_option
@click.pass_context
def accept_journal(ctx: click.Context, /, run: str | None, because: str, as_json: bool) -> int:
    """Accept the journal as it is, with the findings that it has."""
    if not because.strip():
        raise click.UsageError("`audit accept` needs --because TEXT: the reason, for later readers", ctx)
    settings = given_settings(ctx)
    verdict = proof.accept(run, settings.state, because)
    if as_json:
        print_document(proof.verdict_document(verdict, proof.accepted(settings.state)))
    else:
        count = len(verdict.breaks)
        told = "nothing was wrong" if not count else f"taken as it stands, with {plural(count, 'finding')}"
        output(settings).write(f"{told}\n")
    return OK


def _text(verdict: Verdict, journal: bool) -> list[str]:
    """The verdict, then each break; what limits it follows."""
    refused = sum(each.events for each in verdict.runs if each.run == REFUSED)
    runs = sum(each.run != REFUSED for each in verdict.runs)
    events = sum(each.events for each in verdict.runs) - refused
    if verdict.breaks:
        rows = [f"broken: {plural(len(verdict.breaks), 'finding')}"]
        rows += [f"  {each.run or 'the journal'}: {each.kind}: {harmless(each.message)}" for each in verdict.breaks]
    else:
        rows = [f"intact: {plural(runs, 'run')}, {plural(events, 'event')}"]
        rows[0] += f", {plural(refused, 'refusal')}" if refused else ""
        rows[0] += f", {verdict.pruned} pruned" if verdict.pruned else ""
    if journal and not verdict.heads and runs:
        rows.append("  no heads are kept here: a cut tail or an old copy can only be told with `--head`")
    for each in verdict.runs:
        if each.since > 1:
            rows.append(f"  {each.run} is chained from event {each.since} on, which covers those before it together")
        if verdict.heads and each.anchored < each.events:
            rows.append(f"  {each.run}: the heads reach event {each.anchored} of {each.events}; the rest chains on")
    return rows


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
