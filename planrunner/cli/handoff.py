"""``planrunner report`` and ``archive``."""

from __future__ import annotations

import click

from planrunner.app.handoff.archive import Archived, archive, archive_document
from planrunner.app.handoff.members import TARS
from planrunner.app.handoff.pages import report, report_document
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.options import json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import emit, output
from planrunner.errors import OK
from planrunner.escapes import harmless
from planrunner.views.artifacts import size_text
from planrunner.views.terminal import plural, word


@click.command("report")
@click.argument("run", default="last", shell_complete=RUN)
@click.option("-o", "--output", "target", default="", metavar="FILE", help="The file; it must not exist yet.")
@json_option
@click.pass_context
def report_command(ctx: click.Context, /, run: str, target: str, as_json: bool) -> int:
    """Write a run as one HTML file: graph, timeline, attempts, logs, budgets, and every past moment.

    The file opens in any browser, from anywhere, and loads nothing. The default is RUN.html.

    \b
    Examples:
      planrunner report
      planrunner report 20261121-1433 -o release.html
    """
    given = given_settings(ctx)
    made = report(run, given.state, target)
    if as_json:
        print_document(report_document(made))
    else:
        output(given).write(f"run {made.run_id}: {size_text(made.size)}, in {made.path}\n")
    return OK


@click.command("archive")
@click.argument("run", default="last", shell_complete=RUN)
@click.option(
    "-o", "--output", "target", default="", metavar="PATH", help="A folder, .tar or .tar.gz; it must not exist yet."
)
@json_option
@click.pass_context
def archive_command(ctx: click.Context, /, run: str, target: str, as_json: bool) -> int:
    """Write everything about a run: a folder or a tar archive that opens without planrunner.

    It holds a readme, pages for a browser, the plan with its revisions, artifacts, logs, decisions, evidence of gates,
    a postmortem read out of the journal, the journal itself, and the digest of every file.

    \b
    Examples:
      planrunner archive
      planrunner archive 20261121-1433 -o handover.tar.gz
    """
    given = given_settings(ctx)
    made = archive(run, given.state, target)
    return emit(given, archive_document(made) if as_json else _archived(made))


def _archived(made: Archived) -> list[str]:
    """What was written, what is missing, and what to keep elsewhere."""
    lines = [f"run {made.run_id}: {plural(made.files, 'file')}, {size_text(made.size)}, in {made.path}"]
    lines += [f"  not in it: {harmless(what)} ({why})" for what, why in made.left_out]
    lines.append(f"  SHA256SUMS has the digest {made.sha256}: keep it elsewhere, it proves every file")
    if not made.path.endswith(TARS):
        lines.append(f"  verify: cd {word(made.path)} && sha256sum --check --quiet SHA256SUMS")
    return lines
