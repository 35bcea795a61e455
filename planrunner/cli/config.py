"""``planrunner config``."""

from __future__ import annotations

import json
from typing import NamedTuple

import click

from planrunner.app.authoring import reaches
from planrunner.app.configuration import check, configuration, yaml_text
from planrunner.cli.group import given_settings, nearest
from planrunner.cli.lint import print_findings
from planrunner.cli.settings import Settings, output
from planrunner.diagnostics import Severity
from planrunner.errors import UsageError
from planrunner.views.terminal import harmless

_ACTIONS = ("show", "check")


class Options(NamedTuple):
    section: str | None
    origin: bool
    form: str
    fail_on: Severity


@click.command("config")
@click.argument("action", default="show")
@click.argument("section", required=False)
@click.option("--origin", is_flag=True, help="With show: one value a line, with the file, line and column it is from.")
@click.option("--format", "form", type=click.Choice(["text", "concise", "json"]), default="text", help="How to print.")
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option(
    "--fail-on", type=click.Choice(["error", "warning", "note"]), default="error", help="With check: what gives code 1."
)
@click.pass_context
def config_command(ctx: click.Context, /, action: str, **options: str) -> int:
    """Check and show the settings of the project: planrunner.yaml, what it includes, its profile and the user's file.

    ACTION is show (the default): the settings that hold, of SECTION or all; or check: everything that is wrong with
    them. Secrets are not shown. Codes of check: 0 nothing at or above --fail-on, 1 findings, 3 no settings.

    \b
    Examples:
      planrunner config
      planrunner config show models --origin
      planrunner --profile ci config show
      planrunner config check
    """
    given, chosen = given_settings(ctx), Options(**options)  # type: ignore[arg-type]
    if action not in _ACTIONS:
        why = f"there is no `config {action}`{nearest(action, list(_ACTIONS))}"
        raise UsageError(why, f"it is {' or '.join(_ACTIONS)}")
    return _check(given, chosen) if action == "check" else _show(given, chosen)


def _check(given: Settings, chosen: Options) -> int:
    found = check()
    print_findings(given, chosen.form, found)
    return 1 if reaches([finding for file in found for finding in file.findings], chosen.fail_on) else 0


def _show(given: Settings, chosen: Options) -> int:
    found, screen = configuration(chosen.section), output(given)
    if chosen.form == "json":
        origins = {row.path: row.place for row in found.rows}
        data = {"format": 1, "profile": found.profile, "settings": found.data, "origins": origins}
        screen.write(json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n")
        return 0
    if chosen.origin:
        rows = [(f"{row.path}: {json.dumps(row.value, ensure_ascii=False)}", row.place) for row in found.rows]
        wide = max((len(text) for text, _ in rows), default=0)
        screen.write("".join(f"{harmless(text):<{min(wide, 60)}}  {harmless(place)}\n" for text, place in rows))
        return 0
    screen.write("".join(f"{harmless(line)}\n" for line in yaml_text(found.data).splitlines()))
    if found.profile:
        click.echo(f"with the profile `{harmless(found.profile)}`", err=True)
    return 0
