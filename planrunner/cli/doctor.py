"""``planrunner doctor``."""

from __future__ import annotations

import json

import click

from planrunner.app.doctor import examine
from planrunner.app.sandboxing import examine_sandbox
from planrunner.cli.group import given_settings
from planrunner.cli.settings import Settings, output

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
