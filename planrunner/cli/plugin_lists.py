"""What ``planrunner plugins`` prints of plugins: all of them, one, and what is wrong with their capabilities."""

from __future__ import annotations

import json

import click

from planrunner.app.cases import run_cases
from planrunner.app.plugins import Plugin, check, described, plugin, plugin_object, plugins
from planrunner.cli.settings import Settings, output
from planrunner.plugins import problems
from planrunner.views.terminal import harmless, table


def show_all(given: Settings, as_json: bool) -> int:
    """Every plugin, with what went wrong."""
    found = plugins()
    told = problems.fetch()  # they are shown here, beside the plugins they are of
    if as_json:
        click.echo(json.dumps({"format": 1, "plugins": [plugin_object(each) for each in found]}, indent=2))
        return 0
    if not found:
        click.echo("no plugins; `planrunner plugins new NAME` writes one")
        return 0
    screen = output(given)
    rows = [(harmless(each.name), each.version or "-", _families(each), _state(each)) for each in found]
    screen.write("\n".join(table(screen, ("NAME", "VERSION", "FAMILIES", "STATE"), rows)) + "\n")
    shown = dict.fromkeys((*(problem for each in found for problem in each.problems), *told))
    for problem in shown:
        click.echo(f"problem: {problem}")
    return 0


def _families(found: Plugin) -> str:
    """Those of a file that is not trusted are text of somebody else."""
    return harmless(", ".join(found.families)) or "-"


def _state(found: Plugin) -> str:
    count = len(found.capabilities)
    what = [f"{count} capabilit{'y' if count == 1 else 'ies'}"] if count else []
    what += [hook.removeprefix("planrunner_") for hook in found.hooks if hook != "planrunner_register_capabilities"]
    return f"{found.state}: {', '.join(what)}" if what else found.state


def show_one(name: str, as_json: bool) -> int:
    """One plugin with its capabilities. Raises NotFound."""
    found = plugin(name)
    problems.fetch()
    if as_json:
        click.echo(json.dumps({"format": 1, **plugin_object(found)}, indent=2))
        return 0
    click.echo(f"{harmless(found.name)} {found.version}".rstrip() + f": {_state(found)}")
    if found.families:
        click.echo(f"families: {_families(found)}")
    for each in described(found.capabilities) if found.state == "ready" else ():
        click.echo(f"  {each.name:<20} {each.effect:<11} {each.summary}")
    for problem in found.problems:
        click.echo(f"problem: {problem}")
    return 0


def judge(name: str, as_json: bool, cases: str) -> int:
    """What is wrong with the capabilities of one plugin or all, on the cases of a file too; 1 where something is."""
    found, verdicts = check(name or None)
    problems.fetch()
    faulty = [each for each in verdicts if each.faults]
    broken = [each for each in found if each.problems]
    if as_json:
        data = {
            "problems": [problem for each in broken for problem in each.problems],
            "capabilities": {each.capability: list(each.faults) for each in verdicts},
        }
        click.echo(json.dumps({"format": 1, **data}, indent=2))
    else:
        for each in broken:
            click.echo("\n".join(f"problem: {problem}" for problem in each.problems))
        for verdict in verdicts:
            click.echo(f"{verdict.capability}: " + ("; ".join(verdict.faults) or "sound"))
        if not verdicts and not broken:
            click.echo("no capabilities of plugins to check")
    code = 1 if faulty or broken else 0
    return run_cases(cases) or code if cases else code
