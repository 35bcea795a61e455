"""``planrunner kb``."""

from __future__ import annotations

from typing import Any, get_args

import click

from planrunner.app.project import knowledge
from planrunner.cli.group import CommandGroup, given_settings
from planrunner.cli.options import json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import emit, output
from planrunner.knowledge.claims import Status, found
from planrunner.knowledge.notes import FOLDER, Kind
from planrunner.views.documents import document_of, listing
from planrunner.views.knowledge import details, rows

folder_option = click.option("--folder", default=FOLDER, metavar="DIR", help="The folder of the base (kb).")


@click.group("kb", cls=CommandGroup, default="list")
def kb_command() -> None:
    """List, show and export the knowledge base of the project: notes, and claims with their evidence.

    \b
    Examples:
      planrunner kb --status disputed
      planrunner kb list "transport of http/3"
      planrunner kb export -o docs/knowledge.md
    """


@kb_command.command("list")
@click.argument("query", default="")
@click.option("--kind", type=click.Choice(get_args(Kind)), help="Only notes, or only claims.")
@click.option("--status", type=click.Choice(get_args(Status)), help="Only claims with this status.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only entries with this tag.")
@folder_option
@json_option
@click.pass_context
def list_notes(
    ctx: click.Context, /, query: str, kind: str | None, status: Any, tags: tuple[str, ...], folder: str, as_json: bool
) -> int:
    """List notes and claims; with QUERY the matches, the best first."""
    known = knowledge.all_notes(folder)
    notes = found(known, query, kind or "", status, [*tags])
    if as_json:
        print_document(listing("notes", notes, total=len(notes)))
    elif notes:
        screen = output(given_settings(ctx))
        screen.write("\n".join(rows(screen, notes)) + "\n")
    elif known:
        click.echo(f"the knowledge base `{folder}` has no matching entries", err=True)
    else:
        first = "a task writes the first one: `uses: kb.note` or `uses: kb.claim`"
        click.echo(f"the knowledge base `{folder}` has no entries yet; {first}", err=True)
    return 0


@kb_command.command("show")
@click.argument("id")
@folder_option
@json_option
@click.pass_context
def show_note(ctx: click.Context, /, id: str, folder: str, as_json: bool) -> int:
    """Show a note, or a claim with the evidence for and against it."""
    note = knowledge.one(folder, id)
    return emit(given_settings(ctx), document_of(note) if as_json else details(note))


@kb_command.command("export")
@click.option("-o", "--output", "target", default="", metavar="FILE", help="The file to write (standard output).")
@click.option("--title", default="Knowledge base", help="The heading of the document.")
@folder_option
@json_option
@click.pass_context
def export_notes(ctx: click.Context, /, target: str, title: str, folder: str, as_json: bool) -> int:
    """Export the base as Markdown."""
    text = knowledge.exported(folder, title, target)
    if as_json:
        print_document(document_of({"file": target, "markdown": text}))
    elif target:
        click.echo(f"the knowledge base is in {target}", err=True)
    else:
        output(given_settings(ctx)).write(text)
    return 0
