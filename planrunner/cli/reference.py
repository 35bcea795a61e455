"""What the commands declare, as the page ``docs/reference/cli.md``; a test compares the page with the commands.

``python -m planrunner.cli.reference`` prints it.
"""

from __future__ import annotations

import inspect
import sys

import click

from planrunner.cli.group import CommandGroup, load, planrunner
from planrunner.cli.table import COMMANDS, GROUPS

_HEAD = """\
# Command line

`planrunner [OPTIONS] COMMAND [ARGS]...`

Standard output carries data, standard error messages. Every command ends with a code of
[exit-codes.md](exit-codes.md). This page is printed from the commands themselves.
"""


def page() -> str:
    """The Markdown of the reference."""
    parts = [_HEAD, "## Options before the command\n", _options(planrunner)]
    for group, title in GROUPS:
        parts.append(f"## {title}\n")
        parts += [_section(name, _command(name)) for name, _, _, of in COMMANDS if of == group]
    return "\n".join(parts)


def _command(name: str) -> click.Command:
    command = load(name)
    assert command is not None, f"the table names a command `{name}` that no module declares"
    return command


def _section(name: str, command: click.Command, level: str = "###") -> str:
    """A command, and the commands of a group below it."""
    context = click.Context(command, info_name=name)
    usage = " ".join(["planrunner", name, *command.collect_usage_pieces(context)])
    text = inspect.cleandoc(command.help or "").partition("\n\n\b\n")
    parts = [f"{level} {name}\n", f"`{usage}`\n"]
    parts += [" ".join(paragraph.splitlines()) + "\n" for paragraph in text[0].split("\n\n")]
    if isinstance(command, CommandGroup) and command.default:
        parts.append(f"Without a command, `{name} {command.default}` is called.\n")
    if text[2]:
        examples = "\n".join(line.strip() for line in text[2].splitlines()[1:])
        parts.append(f"```sh\n{examples}\n```\n")
    if any(isinstance(param, click.Option) for param in command.params):
        parts.append(_options(command))
    if isinstance(command, click.Group):
        below = [(inner, command.get_command(context, inner)) for inner in command.list_commands(context)]
        parts += [_section(f"{name} {inner}", each, "####") for inner, each in below if each is not None]
    return "\n".join(parts)


def _options(command: click.Command) -> str:
    """The options of a command as a table."""
    lines = ["| option | meaning |", "|---|---|"]
    for option in command.params:
        if isinstance(option, click.Option):
            choices = option.type.choices if isinstance(option.type, click.Choice) else ()
            value = "" if option.is_flag else " " + ("\\|".join(choices) or option.metavar or "TEXT")
            lines.append(f"| `{', '.join(option.opts)}{value}` | {option.help or ''} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
