"""``planrunner plugins``."""

from __future__ import annotations

from typing import NamedTuple

import click

from planrunner.app.scaffold import write
from planrunner.cli import plugin_lists, trusting
from planrunner.cli.group import given_settings, nearest
from planrunner.cli.settings import Settings, output
from planrunner.errors import UsageError

_ACTIONS = ("list", "show", "new", "check", "trust", "untrust")


class Options(NamedTuple):
    name: str
    as_json: bool
    yes: bool
    into: str
    cases: str


@click.command("plugins")
@click.argument("action", default="list")
@click.argument("name", default="")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (list, show, check).")
@click.option("--yes", is_flag=True, help="With trust: do not ask.")
@click.option("--into", default=".", metavar="DIR", help="With new: the folder to make the package in.")
@click.option(
    "--cases", default="", metavar="FILE", help="With check: run the conformance suite on the cases of a file."
)
@click.pass_context
def plugins_command(ctx: click.Context, /, action: str, **options: str | bool) -> int:
    """List plugins, and what went wrong with them; ACTION is list (the default), show, new, check, trust or untrust.

    NAME is a plugin or a family of capabilities; with new, the family to write; with trust and untrust, a file of the
    project. `check` judges what capabilities say of themselves and leaves with code 1 where something is missing.

    \b
    Examples:
      planrunner plugins
      planrunner plugins show weather
      planrunner plugins new weather
      planrunner plugins check weather
      planrunner plugins trust tools/weather.py
    """
    given, chosen = given_settings(ctx), Options(**options)  # type: ignore[arg-type]
    if action not in _ACTIONS:
        why = f"there is no `plugins {action}`{nearest(action, list(_ACTIONS))}"
        raise UsageError(why, f"it is {', '.join(_ACTIONS)}")
    if action not in ("list", "check") and not chosen.name:
        raise UsageError(f"`plugins {action}` needs a name", f"`planrunner plugins {action} NAME`")
    if action == "new":
        return _write(given, chosen)
    return _trust(given, action, chosen) if action in ("trust", "untrust") else _show(given, action, chosen)


def _show(given: Settings, action: str, chosen: Options) -> int:
    if action == "list":
        return plugin_lists.show_all(given, chosen.as_json)
    if action == "show":
        return plugin_lists.show_one(chosen.name, chosen.as_json)
    return plugin_lists.judge(chosen.name, chosen.as_json, chosen.cases)


def _trust(given: Settings, action: str, chosen: Options) -> int:
    return trusting.untrust(chosen.name) if action == "untrust" else trusting.trust(given, chosen.name, chosen.yes)


def _write(given: Settings, chosen: Options) -> int:
    made = write(chosen.name, chosen.into)
    click.echo("\n".join(f"wrote {path}" for path in made.files))
    output(given).write("\nnext:\n" + "".join(f"  {line}\n" for line in made.next))
    return 0
