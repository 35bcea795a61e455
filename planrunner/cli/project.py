"""``planrunner init``, ``config``, ``secrets`` and ``doctor``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

import click

from planrunner.app.plans.lint import reaches
from planrunner.app.project.configuration import (
    check,
    configuration,
    configuration_document,
    listed,
    looked_up,
    yaml_text,
)
from planrunner.app.project.doctor import examine, examine_sandbox, sandbox_document
from planrunner.app.project.init import PLAN, start_project
from planrunner.app.project.playbooks import PLAYBOOKS, install_playbook
from planrunner.cli.completion import completes
from planrunner.cli.group import CommandGroup, given_settings
from planrunner.cli.lint import print_findings
from planrunner.cli.options import PlanPath, json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import Settings, output
from planrunner.diagnostics import Severity
from planrunner.errors import FAILED
from planrunner.escapes import harmless
from planrunner.views.documents import listing
from planrunner.views.rights import Credited, rows


@click.command("init")
@click.argument("directory", default=".")
@click.option(
    "--playbook",
    metavar="NAME",
    shell_complete=completes(lambda ctx, word: [(name, "") for name in PLAYBOOKS]),
    help="Write this playbook instead, with its tests and its rehearsal.",
)
def init_command(directory: str, playbook: str | None) -> int:
    """Write a first plan to start from: plans/hello.yaml, with a short guide. Nothing is overwritten.

    Playbooks are whole plans for known work: backfill, coding-agent, debugging, dependency-update, deploy, feature,
    incident, migration, nightly-report, refactor, release, research.

    \b
    Examples:
      planrunner init
      planrunner init ~/project
      planrunner init --playbook release
    """
    if playbook is not None:
        return _install(directory, playbook)
    _say_written(start_project(directory).files)
    click.echo(f"next: planrunner exec {os.path.normpath(os.path.join(directory, PLAN))}", err=True)
    click.echo("or run it from a page: planrunner serve", err=True)
    return 0


def _install(directory: str, playbook: str) -> int:
    installed = install_playbook(directory, playbook)
    _say_written(installed.files)
    click.echo(f"try it on a scratch project: python {os.path.normpath(installed.rehearsal)}", err=True)
    click.echo(f"then read it: {os.path.normpath(installed.plan)}", err=True)
    return 0


def _say_written(files: Iterable[str]) -> None:
    for path in files:
        click.echo(f"wrote {os.path.normpath(path)}")


@click.group("config", cls=CommandGroup, default="show")
def config_command() -> None:
    """Show and check the settings of the project: planrunner.yaml, what it includes, its profile and the user's file.

    \b
    Examples:
      planrunner config
      planrunner config show models --origin
      planrunner --profile ci config show
      planrunner config check
    """


_FORMAT = click.option(
    "--format", "form", type=click.Choice(["text", "concise", "json"]), default="text", help="Output format."
)
_JSON = click.option("--json", "form", flag_value="json", help="The same as --format json.")


@config_command.command("show")
@click.argument("section", required=False)
@click.option("--origin", is_flag=True, help="One value a line, with the file, line and column it comes from.")
@_FORMAT
@_JSON
@click.pass_context
def show_config(ctx: click.Context, /, section: str | None, origin: bool, form: str) -> int:
    """Show the effective settings of SECTION, or all. Secrets are not shown."""
    settings, screen = configuration(section), output(given_settings(ctx))
    if form == "json":
        print_document(configuration_document(settings))
        return 0
    if origin:
        values = [(f"{row.path}: {json.dumps(row.value, ensure_ascii=False)}", row.place) for row in settings.rows]
        wide = max((len(text) for text, _ in values), default=0)
        screen.write("".join(f"{harmless(text):<{min(wide, 60)}}  {harmless(place)}\n" for text, place in values))
        return 0
    screen.write("".join(f"{harmless(line)}\n" for line in yaml_text(settings.data).splitlines()))
    if settings.profile:
        click.echo(f"with the profile `{harmless(settings.profile)}`", err=True)
    return 0


@config_command.command("check")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note"]),
    default="error",
    help="The severity that gives code 1.",
)
@_FORMAT
@_JSON
@click.pass_context
def check_config(ctx: click.Context, /, fail_on: Severity, form: str) -> int:
    """Check the settings.

    Exit codes: 0 nothing at or above --fail-on, 1 findings, 3 no settings.
    """
    files = check()
    print_findings(given_settings(ctx), form, files)
    return 1 if reaches([finding for file in files for finding in file.findings], fail_on) else 0


@click.group("secrets", cls=CommandGroup, default="list")
def secrets_command() -> None:
    """List the credentials of the project, and check that they are there. No value is ever printed.

    \b
    Examples:
      planrunner secrets
      planrunner secrets check
      planrunner secrets check plans/release.yaml
    """


_PLAN = click.argument("plan", type=PlanPath(), required=False)


@secrets_command.command("list")
@_PLAN
@json_option
@click.pass_context
def list_secrets(ctx: click.Context, /, plan: str | None, as_json: bool) -> int:
    """List credentials and where each comes from; with PLAN, those that its tasks declare."""
    return _credentials(ctx, listed(plan), as_json)


@secrets_command.command("check")
@_PLAN
@json_option
@click.pass_context
def check_secrets(ctx: click.Context, /, plan: str | None, as_json: bool) -> int:
    """Look up each credential; exit code 1 where one is missing. With PLAN, those that its tasks declare."""
    return _credentials(ctx, looked_up(plan), as_json)


def _credentials(ctx: click.Context, credentials: list[Credited], as_json: bool) -> int:
    if as_json:
        print_document(listing("credentials", credentials))
    else:
        screen = output(given_settings(ctx))
        screen.write("".join(f"{line}\n" for line in rows(screen, credentials)))
    return FAILED if any(each.there is False for each in credentials) else 0


_SIGNS = {"ok": "completed", "note": "blocked", "problem": "failed"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for bug reports.")
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
        print_document(listing("checks", checks, ok=healthy))
    else:
        screen = output(given)
        for check in checks:
            advice = f" ({check.advice})" if check.advice else ""
            screen.write(f"{screen.sign(_SIGNS[check.verdict])} {check.name:<14} {check.found}{advice}\n")
    return 0 if healthy else 1


def _sandbox(given: Settings, as_json: bool) -> int:
    report = examine_sandbox()
    if as_json:
        print_document(sandbox_document(report))
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
