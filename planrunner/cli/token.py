"""``planrunner token``."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from planrunner.app.people.tokens import create, created_document, token_lines, tokens_document
from planrunner.cli.group import CommandGroup, given_settings
from planrunner.cli.options import Duration, json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import emit
from planrunner.errors import OK
from planrunner.safety.tokens import SCOPES, Token, revoke_token, tokens


@click.group("token", cls=CommandGroup)
def token_command() -> None:
    """Create, list and revoke tokens of the service.

    \b
    Examples:
      planrunner token create ada --scope run --scope decide --role owner
      planrunner token create board --scope read --project shop --expires 90d
      planrunner token list
      planrunner token revoke ada
    """


@token_command.command("create")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(SCOPES),
    help="What it allows; may be repeated.",
)
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="A role that gates know; may be repeated.")
@click.option("--project", "projects", multiple=True, metavar="NAME", help="Allow only this project; may be repeated.")
@click.option("--expires", type=Duration(), metavar="DURATION", help="End after this time, as in `90d`.")
@json_option
@click.pass_context
def create_token(ctx: click.Context, /, name: str, expires: float | None, as_json: bool, **may: Any) -> int:
    """Create a token for NAME and print it. It is shown once; only its digest is kept.

    Scopes: `read` looks; `run` starts and steers runs and writes plans; `decide` answers gates; `admin` does all.
    """
    until = None if expires is None else time.time() + expires
    made, text = create(Token("", name, "", may["scopes"], may["roles"], may["projects"], expires=until))
    if as_json:
        print_document(created_document(made, text))
        return OK
    sys.stdout.write(f"{text}\n")
    sys.stderr.write("keep it: it is not shown again\n")
    return OK


@token_command.command("list")
@json_option
@click.pass_context
def list_tokens(ctx: click.Context, /, as_json: bool) -> int:
    """List tokens: who they are for, what they allow, and until when."""
    return emit(
        given_settings(ctx), tokens_document(tokens(), time.time()) if as_json else token_lines(tokens(), time.time())
    )


@token_command.command("revoke")
@click.argument("token")
def revoke(token: str) -> int:
    """Revoke a token by its id, or all of a name. Sessions and streams that began with it end at once."""
    for each in revoke_token(token):
        sys.stderr.write(f"revoked {each.id} of {each.name}\n")
    return OK
