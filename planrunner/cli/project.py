"""``planrunner init``, ``config``, ``secrets`` and ``doctor``."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

import click

from planrunner.app.authoring import reaches
from planrunner.app.configuration import check, configuration, yaml_text
from planrunner.app.credentials import listed, looked_up
from planrunner.app.doctor import examine
from planrunner.app.sandboxing import examine_sandbox
from planrunner.app.starter import PLAN, start_project
from planrunner.cli.group import given_settings, nearest
from planrunner.cli.lint import print_findings
from planrunner.cli.settings import Settings, output
from planrunner.diagnostics import Severity
from planrunner.errors import FAILED, UsageError
from planrunner.views.rights import rows
from planrunner.views.terminal import harmless


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


@click.command("secrets")
@click.argument("action", type=click.Choice(("list", "check")), default="list")
@click.argument("plan", type=click.Path(), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def secrets_command(ctx: click.Context, /, action: str, plan: str | None, as_json: bool) -> int:
    """List the credentials of the project and where each comes from (`list`, the default), or look each of them up
    (`check`; exit code 1 where one is not there). With a PLAN, `check` looks up those that its tasks declare. No value
    is ever printed.

    \b
    Examples:
      planrunner secrets
      planrunner secrets check
      planrunner secrets check plans/release.yaml
    """
    found = looked_up(plan) if action == "check" else listed(plan)
    if as_json:
        told = [each._asdict() for each in found]
        click.echo(json.dumps({"format": 1, "credentials": told}, indent=2, ensure_ascii=False))
    else:
        output(given_settings(ctx)).write("".join(f"{line}\n" for line in rows(output(given_settings(ctx)), found)))
    return FAILED if any(each.there is False for each in found) else 0


_SIGNS = {"ok": "completed", "note": "blocked", "problem": "failed"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for reports of faults.")
@click.option("--sandbox", is_flag=True, help="Try from inside whether the sandbox of processes holds.")
@click.pass_context
def doctor_command(ctx: click.Context, /, as_json: bool, sandbox: bool) -> int:
    """Check this installation and its surroundings; code 1 where something is wrong."""
    given = given_settings(ctx)
    if sandbox:
        return _sandbox(given, as_json)
    checks = examine(given.state)
    healthy = all(check.verdict != "problem" for check in checks)
    if as_json:
        rows = [check._asdict() for check in checks]
        click.echo(json.dumps({"format": 1, "ok": healthy, "checks": rows}, indent=2, ensure_ascii=False))
    else:
        screen = output(given)
        for check in checks:
            advice = f" ({check.advice})" if check.advice else ""
            screen.write(f"{screen.sign(_SIGNS[check.verdict])} {check.name:<14} {check.found}{advice}\n")
    return 0 if healthy else 1


def _sandbox(given: Settings, as_json: bool) -> int:
    report = examine_sandbox()
    if as_json:
        probes = [probe._asdict() for probe in report.probes]
        found = {"format": 1, "ok": report.holds, "kind": report.kind, "available": report.available, "probes": probes}
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return 0 if report.holds else 1
    screen = output(given)
    for name, why in report.available.items():
        screen.write(f"{screen.sign(_SIGNS['note' if why else 'ok'])} {name:<22} {why or 'works'}\n")
    for probe in report.probes:
        sign = screen.sign(_SIGNS["ok" if probe.held else "problem"])
        screen.write(f"{sign} {probe.name:<22} {'held' if probe.held else probe.found}\n")
    words = [f"{report.kind} holds: {len(report.probes)} probes"] if report.holds else []
    screen.write("".join(f"{line}\n" for line in (*words, *filter(None, (report.advice,)))))
    return 0 if report.holds else 1
