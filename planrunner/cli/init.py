"""``planrunner init``."""

from __future__ import annotations

import os

import click

from planrunner.app.starter import PLAN, start_project


@click.command("init")
@click.argument("directory", default=".")
def init_command(directory: str) -> int:
    """Write a first plan to start from: plans/hello.yaml, with a short guide. Nothing is overwritten.

    \b
    Examples:
      planrunner init
      planrunner init ~/project
    """
    for path in start_project(directory).files:
        click.echo(f"wrote {os.path.normpath(path)}")
    click.echo(f"next: planrunner exec {os.path.normpath(os.path.join(directory, PLAN))}", err=True)
    return 0
