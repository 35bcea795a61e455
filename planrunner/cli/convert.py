"""``planrunner convert``."""

from __future__ import annotations

import sys

import click

from planrunner.app.authoring import convert_text
from planrunner.app.planfile import read_regular
from planrunner.errors import UsageError
from planrunner.plan.files import decode
from planrunner.source import Notation

_NOTATIONS: dict[str, Notation] = {"yaml": "yaml", "plan": "text", "json": "json"}


@click.command("convert")
@click.argument("plan", type=click.Path())
@click.option("--to", "target", required=True, type=click.Choice(list(_NOTATIONS)), help="The notation to write.")
@click.option("-o", "--output", "path", metavar="FILE", help="Write to a file, which must not exist.")
@click.option("--stdin-filename", default="<stdin>", metavar="NAME", help="What the plan on standard input is called.")
def convert_command(plan: str, target: str, path: str | None, stdin_filename: str) -> int:
    """Turn a plan into YAML, the text notation or JSON. The meaning stays; comments stay where the notation has them.

    \b
    Examples:
      planrunner convert plans/release.yaml --to plan
      planrunner convert plans/release.plan --to yaml -o plans/release.yaml
    """
    file = decode(sys.stdin.buffer.read(), stdin_filename) if plan == "-" else read_regular(plan)
    text = convert_text(file, _NOTATIONS[target])
    if path is None:
        click.echo(text, nl=False)
        return 0
    try:
        with open(path, "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError as error:
        raise UsageError(f"`{path}` is there already") from error
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error
    click.echo(f"wrote {path}", err=True)
    return 0
