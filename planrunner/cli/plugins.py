"""``planrunner plugins``."""

from __future__ import annotations

import sys

import click

from planrunner.app.project.plugins import (
    Plugin,
    ReviewedFile,
    check,
    checked_document,
    described,
    examine,
    plugin,
    plugins,
    run_cases,
    trust_file,
    untrust_file,
    write,
)
from planrunner.cli.group import CommandGroup, given_settings
from planrunner.cli.options import json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import output
from planrunner.errors import UsageError
from planrunner.escapes import escaped, harmless
from planrunner.plugins import reports
from planrunner.views.documents import document_of, listing
from planrunner.views.terminal import table


@click.group("plugins", cls=CommandGroup, default="list")
def plugins_command() -> None:
    """List, check, write and trust plugins.

    \b
    Examples:
      planrunner plugins
      planrunner plugins show weather
      planrunner plugins new weather
      planrunner plugins check weather
      planrunner plugins trust tools/weather.py
    """


@plugins_command.command("list")
@json_option
@click.pass_context
def list_plugins(ctx: click.Context, /, as_json: bool) -> int:
    """List plugins, and the problems with them."""
    listed = plugins()
    told = reports.fetch()  # they are shown here, beside the plugins they are of
    if as_json:
        print_document(listing("plugins", listed))
        return 0
    if not listed:
        click.echo("no plugins; `planrunner plugins new NAME` writes one")
        return 0
    screen = output(given_settings(ctx))
    rows = [(harmless(each.name), each.version or "-", _families(each), _state(each)) for each in listed]
    screen.write("\n".join(table(screen, ("NAME", "VERSION", "FAMILIES", "STATE"), rows)) + "\n")
    for problem in dict.fromkeys((*(problem for each in listed for problem in each.problems), *told)):
        click.echo(f"problem: {problem}")
    return 0


@plugins_command.command("show")
@click.argument("name")
@json_option
def show_plugin(name: str, as_json: bool) -> int:
    """Show a plugin with its capabilities. NAME is a plugin or a family of capabilities."""
    shown = plugin(name)
    reports.fetch()
    if as_json:
        print_document(document_of(shown))
        return 0
    click.echo(f"{harmless(shown.name)} {shown.version}".rstrip() + f": {_state(shown)}")
    if shown.families:
        click.echo(f"families: {_families(shown)}")
    for each in described(shown.capabilities) if shown.state == "ready" else ():
        click.echo(f"  {each.name:<20} {each.effect:<11} {each.summary}")
    for problem in shown.problems:
        click.echo(f"problem: {problem}")
    return 0


@plugins_command.command("new")
@click.argument("name")
@click.option("--into", default=".", metavar="DIR", help="The folder to make the package in.")
@click.pass_context
def new_plugin(ctx: click.Context, /, name: str, into: str) -> int:
    """Write a plugin package. NAME is the family of its capabilities."""
    made = write(name, into)
    click.echo("\n".join(f"wrote {path}" for path in made.files))
    output(given_settings(ctx)).write("\nnext:\n" + "".join(f"  {line}\n" for line in made.next))
    return 0


@plugins_command.command("check")
@click.argument("name", default="")
@click.option("--cases", default="", metavar="FILE", help="Run the conformance suite on the cases of a file.")
@json_option
def check_plugins(name: str, cases: str, as_json: bool) -> int:
    """Check the declarations of a plugin's capabilities; exit code 1 where something is missing. Without NAME, all."""
    checked, verdicts = check(name or None)
    reports.fetch()
    faulty = [each for each in verdicts if each.faults]
    broken = [each for each in checked if each.problems]
    if as_json:
        print_document(checked_document(checked, verdicts))
    else:
        for each in broken:
            click.echo("\n".join(f"problem: {problem}" for problem in each.problems))
        for verdict in verdicts:
            click.echo(f"{verdict.capability}: " + ("; ".join(verdict.faults) or "sound"))
        if not verdicts and not broken:
            click.echo("no capabilities of plugins to check")
    code = 1 if faulty or broken else 0
    return run_cases(cases) or code if cases else code


@plugins_command.command("trust")
@click.argument("file")
@click.option("--yes", is_flag=True, help="Do not prompt.")
@click.pass_context
def trust_plugin(ctx: click.Context, /, file: str, yes: bool) -> int:
    """Show what a plugin file of the project would do, and trust it as it is."""
    examined = examine(file)
    click.echo("\n".join(escaped(line) for line in "\n".join(_examined(examined)).split("\n")))
    if examined.file.trust == "trusted":
        click.echo(f"{examined.file.name} is already trusted as it is")
        return 0
    if not yes:
        if given_settings(ctx).no_input or not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("cannot prompt for trust: not at a terminal", "read the file, then add --yes")
        if not click.confirm("trust exactly this text?", default=False):
            click.echo("not trusted")
            return 1
    trust_file(examined)
    click.echo(f"{examined.file.name} is trusted as it is; a change revokes the trust")
    return 0


@plugins_command.command("untrust")
@click.argument("file")
def untrust_plugin(file: str) -> int:
    """Revoke the trust in a plugin file."""
    had = untrust_file(file)
    click.echo(f"{file} is {'no longer' if had else 'not'} trusted")
    return 0


def _families(plugin: Plugin) -> str:
    """Families of a plugin; from a file that is not trusted they are untrusted text."""
    return harmless(", ".join(plugin.families)) or "-"


def _state(plugin: Plugin) -> str:
    count = len(plugin.capabilities)
    what = [f"{count} capabilit{'y' if count == 1 else 'ies'}"] if count else []
    what += [hook.removeprefix("planrunner_") for hook in plugin.hooks if hook != "planrunner_register_capabilities"]
    return f"{plugin.state}: {', '.join(what)}" if what else plugin.state


def _examined(examined: ReviewedFile) -> list[str]:
    file, scan = examined.file, examined.scan
    lines = [f"{file.name}: {len(file.text)} bytes, {file.text.count(chr(10).encode())} lines; it would be executed"]
    for each in scan.capabilities:
        options = f", {', '.join(each.options)}" if each.options else ""
        lines += [
            f"  capability {each.name} (effect {each.effect}{options})",
            f"    {each.signature}, line {each.line}",
        ]
    lines += [f"  hook {hook}" for hook in scan.hooks]
    if scan.imports:
        lines.append(f"  imports {', '.join(scan.imports)}")
    if not (scan.capabilities or scan.hooks):
        lines.append("  no capability and no hook is written out in it")
    lines.append("  every statement outside its functions runs when it is loaded, and may register more than this")
    if hidden := _hidden(file.text.decode("utf-8", "replace")):
        lines.append(f"  characters that do not show: {', '.join(hidden)}")
    if examined.diff:
        lines += ["changed since it was trusted:", examined.diff.rstrip("\n")]
    return lines


def _hidden(text: str) -> list[str]:
    """The first characters that a reader would not see, each with its line."""
    hidden = []
    for number, line in enumerate(text.splitlines(), 1):
        hidden += [f"U+{ord(char):04X} in line {number}" for char in line if not char.isprintable() and char != "\t"]
    return hidden[:5]
