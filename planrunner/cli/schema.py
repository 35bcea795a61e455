"""``planrunner schema``."""

from __future__ import annotations

import json

import click

from planrunner.app.authoring import schema_for
from planrunner.errors import UsageError


@click.command("schema")
@click.argument("path", required=False, type=click.Path())
@click.option("--write", metavar="FILE", help="Write to a file, with the inputs of the installed capabilities.")
def schema_command(path: str | None, write: str | None) -> int:
    """Print the JSON Schema of plans; PATH is `capabilities`, `project` (planrunner.yaml), `run` (what `exec --json`
    prints) or a path of keys such as tasks.retry or project.models.

    \b
    Examples:
      planrunner schema tasks.retry
      planrunner schema capabilities
      planrunner schema project
      planrunner schema run
      planrunner schema --write plans/plan.schema.json
    """
    text = json.dumps(schema_for(path, complete=write is not None), indent=2, ensure_ascii=False) + "\n"
    if write is None:
        click.echo(text, nl=False)
        return 0
    try:
        with open(write, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"`{write}` cannot be written: {error.strerror}") from error
    click.echo(f"wrote {write}", err=True)
    return 0
