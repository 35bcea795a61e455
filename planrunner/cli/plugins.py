"""``planrunner plugins``."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

import click

from planrunner.app.cases import run_cases
from planrunner.app.plugins import (
    Examined,
    Plugin,
    check,
    described,
    examine,
    plugin,
    plugin_object,
    plugins,
    trust_file,
    untrust_file,
)
from planrunner.app.scaffold import write
from planrunner.cli.group import given_settings, nearest
from planrunner.cli.settings import Settings, output
from planrunner.errors import UsageError
from planrunner.plugins import reports
from planrunner.views.terminal import harmless, table


def show_all(given: Settings, as_json: bool) -> int:
    """Every plugin, with what went wrong."""
    found = plugins()
    told = reports.fetch()  # they are shown here, beside the plugins they are of
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
    reports.fetch()
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
    reports.fetch()
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


def trust(given: Settings, name: str, yes: bool) -> int:
    """Trust a file once somebody said so. Raises NotFound, and UsageError where nobody can be asked."""
    examined = examine(name)
    click.echo("\n".join(_visible(line) for line in "\n".join(_examined(examined)).split("\n")))
    if examined.file.standing == "trusted":
        click.echo(f"{examined.file.name} is trusted already, as it is now")
        return 0
    if not yes:
        if given.no_input or not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("nobody is here to ask whether to trust it", "read it, then add --yes")
        if not click.confirm("trust exactly this text?", default=False):
            click.echo("not trusted")
            return 1
    trust_file(examined)
    click.echo(f"{examined.file.name} is trusted as it is now; after a change it is not, until you trust it again")
    return 0


def _examined(examined: Examined) -> list[str]:
    file, found = examined.file, examined.scan
    lines = [f"{file.name}: {len(file.text)} bytes, {file.text.count(chr(10).encode())} lines; it would be executed"]
    for each in found.capabilities:
        options = f", {', '.join(each.options)}" if each.options else ""
        lines += [
            f"  capability {each.name} (effect {each.effect}{options})",
            f"    {each.signature}, line {each.line}",
        ]
    lines += [f"  hook {hook}" for hook in found.hooks]
    if found.imports:
        lines.append(f"  imports {', '.join(found.imports)}")
    if not (found.capabilities or found.hooks):
        lines.append("  no capability and no hook is written out in it")
    lines.append("  every statement outside its functions runs when it is loaded, and may register more than this")
    if hidden := _hidden(file.text.decode("utf-8", "replace")):
        lines.append(f"  characters that do not show: {', '.join(hidden)}")
    if examined.diff:
        lines += ["changed since it was trusted:", examined.diff.rstrip("\n")]
    return lines


def _visible(line: str) -> str:
    """A line in which nothing hides: neither what moves the cursor nor what turns the direction of the text."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)


def _hidden(text: str) -> list[str]:
    """The first characters that a reader would not see, each with its line."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        found += [f"U+{ord(char):04X} in line {number}" for char in line if not char.isprintable() and char != "\t"]
    return found[:5]


def untrust(name: str) -> int:
    """Trust nothing of a file any more."""
    had = untrust_file(name)
    click.echo(f"{name} is {'no longer' if had else 'not'} trusted")
    return 0


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
        return show_all(given, chosen.as_json)
    if action == "show":
        return show_one(chosen.name, chosen.as_json)
    return judge(chosen.name, chosen.as_json, chosen.cases)


def _trust(given: Settings, action: str, chosen: Options) -> int:
    return untrust(chosen.name) if action == "untrust" else trust(given, chosen.name, chosen.yes)


def _write(given: Settings, chosen: Options) -> int:
    made = write(chosen.name, chosen.into)
    click.echo("\n".join(f"wrote {path}" for path in made.files))
    output(given).write("\nnext:\n" + "".join(f"  {line}\n" for line in made.next))
    return 0
