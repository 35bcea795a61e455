"""``planrunner init``."""

from __future__ import annotations

import click


@click.command("init")
@click.argument("directory", default=".")
def command(directory: str) -> int:
    """Write a first plan to start from: plans/hello.yaml, with the schema for editors. Nothing is overwritten.

    \b
    Examples:
      planrunner init
      planrunner init ~/project
    """
    import os

    from planrunner.app.authoring import plan_schema_text
    from planrunner.app.starter import PLAN, start_project

    for path in start_project(directory, plan_schema_text()).files:
        click.echo(f"wrote {os.path.normpath(path)}")
    click.echo(f"next: planrunner exec {os.path.normpath(os.path.join(directory, PLAN))}", err=True)
    return 0
