"""``planrunner fmt``."""

from __future__ import annotations

import sys

import click

from planrunner.app.authoring import format_text
from planrunner.app.linting import diff_text, read_files, write_text
from planrunner.errors import UsageError


@click.command("fmt")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--check", is_flag=True, help="Write nothing; code 1 where a plan is not in canonical form.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change.")
@click.option("--stdin-filename", default="<stdin>", metavar="NAME", help="What the plan on standard input is called.")
def fmt_command(paths: tuple[str, ...], check: bool, diff: bool, stdin_filename: str) -> int:
    """Rewrite plans in the canonical form: canonical keys in one order and one layout. Comments stay.

    PATH is a file, a folder or `-`, which reads standard input and writes standard output.

    \b
    Examples:
      planrunner fmt plans/release.yaml
      planrunner fmt --check
      planrunner fmt - --stdin-filename x.plan < x.plan
    """
    if "-" in paths and len(paths) > 1:
        raise UsageError("standard input comes alone")
    stdin = sys.stdin.buffer.read() if "-" in paths else b""
    changed = 0
    for file in read_files(paths, (stdin_filename, stdin)):
        name, before = file.source.name, file.source.text
        after = format_text(file)
        changed += before != after
        if diff:
            click.echo(diff_text(name, before, after), nl=False)
        elif check:
            if before != after:
                click.echo(name)
        elif "-" in paths:
            click.echo(after, nl=False)
        elif before != after:
            write_text(name, after)
            click.echo(f"formatted {name}", err=True)
    return 1 if changed and (check or diff) else 0
