"""``planrunner plugins trust`` and ``untrust``: show what a file would do, and ask."""

from __future__ import annotations

import sys

import click

from planrunner.app.plugins import Examined, examine, trust_file, untrust_file
from planrunner.cli.settings import Settings
from planrunner.errors import UsageError


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
