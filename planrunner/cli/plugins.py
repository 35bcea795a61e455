"""``planrunner plugins``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from planrunner.cli.group import given_settings, nearest
from planrunner.cli.settings import Settings, output
from planrunner.errors import UsageError
from planrunner.record import NamedTuple

if TYPE_CHECKING:
    from planrunner.app.plugins import Examined, Plugin

ACTIONS = ("list", "show", "new", "check", "trust", "untrust")


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
def command(ctx: click.Context, /, action: str, **options: str | bool) -> int:
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
    if action not in ACTIONS:
        raise UsageError(
            f"there is no `plugins {action}`{nearest(action, list(ACTIONS))}", f"it is {', '.join(ACTIONS)}"
        )
    if action not in ("list", "check") and not chosen.name:
        raise UsageError(f"`plugins {action}` needs a name", f"`planrunner plugins {action} NAME`")
    return _DO[action](given, chosen)


def _list(given: Settings, options: Options) -> int:
    from planrunner.app.plugins import plugin_object, plugins
    from planrunner.plugins import problems
    from planrunner.views.table import table

    found = plugins()
    told = problems.fetch()  # they are shown here, beside the plugins they are of
    if options.as_json:
        click.echo(json.dumps({"format": 1, "plugins": [plugin_object(each) for each in found]}, indent=2))
        return 0
    if not found:
        click.echo("no plugins; `planrunner plugins new NAME` writes one")
        return 0
    screen = output(given)
    rows = [(each.name, each.version or "-", ", ".join(each.families) or "-", _state(each)) for each in found]
    screen.write("\n".join(table(screen, ("NAME", "VERSION", "FAMILIES", "STATE"), rows)) + "\n")
    shown = dict.fromkeys((*(problem for each in found for problem in each.problems), *told))
    for problem in shown:
        click.echo(f"problem: {problem}")
    return 0


def _state(found: Plugin) -> str:
    count = len(found.capabilities)
    what = [f"{count} capabilit{'y' if count == 1 else 'ies'}"] if count else []
    what += [hook.removeprefix("planrunner_") for hook in found.hooks if hook != "planrunner_register_capabilities"]
    return f"{found.state}: {', '.join(what)}" if what else found.state


def _show(_: Settings, options: Options) -> int:
    from planrunner.app.plugins import described, plugin, plugin_object
    from planrunner.plugins import problems

    found = plugin(options.name)
    problems.fetch()
    if options.as_json:
        click.echo(json.dumps({"format": 1, **plugin_object(found)}, indent=2))
        return 0
    click.echo(f"{found.name} {found.version}".rstrip() + f": {_state(found)}")
    if found.families:
        click.echo(f"families: {', '.join(found.families)}")
    for each in described(found.capabilities) if found.state == "ready" else ():
        click.echo(f"  {each.name:<20} {each.effect:<11} {each.summary}")
    for problem in found.problems:
        click.echo(f"problem: {problem}")
    return 0


def _check(_: Settings, options: Options) -> int:
    from planrunner.app.plugins import check, run_cases
    from planrunner.plugins import problems

    found, verdicts = check(options.name or None)
    problems.fetch()
    faulty = [each for each in verdicts if each.faults]
    broken = [each for each in found if each.problems]
    if options.as_json:
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
    return run_cases(options.cases) or code if options.cases else code


def _new(given: Settings, options: Options) -> int:
    from planrunner.app.scaffold import write

    made = write(options.name, options.into)
    click.echo("\n".join(f"wrote {path}" for path in made.files))
    screen = output(given)
    screen.write("\nnext:\n" + "".join(f"  {line}\n" for line in made.next))
    return 0


def _trust(given: Settings, options: Options) -> int:
    from planrunner.app.plugins import examine, trust_file

    examined = examine(options.name)
    click.echo("\n".join(_examined(examined)))
    if examined.file.standing == "trusted":
        click.echo(f"{examined.file.name} is trusted already, as it is now")
        return 0
    if not options.yes:
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
    if examined.diff:
        lines += ["changed since it was trusted:", examined.diff.rstrip("\n")]
    return lines


def _untrust(_: Settings, options: Options) -> int:
    from planrunner.app.plugins import untrust_file

    had = untrust_file(options.name)
    click.echo(f"{options.name} is {'no longer' if had else 'not'} trusted")
    return 0


_DO = {"list": _list, "show": _show, "new": _new, "check": _check, "trust": _trust, "untrust": _untrust}
