"""The commands as click sees them. The module of a command is imported when the command is called, not to list it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

import click
from click.shell_completion import CompletionItem, shell_complete

from planrunner import __version__
from planrunner.cli.output import print_document
from planrunner.cli.settings import COLORS, Settings, output, settings
from planrunner.cli.table import ALIASES, COMMANDS, MEANT, help_text, module_of
from planrunner.errors import INTERRUPTED, USAGE
from planrunner.plan.nearest import nearest as nearest_of
from planrunner.views.documents import document
from planrunner.views.terminal import Terminal, cut, harmless, pad, width


def write_error(
    arguments: Sequence[str], message: str, hint: str, code: int, findings: list[dict[str, Any]] | None = None
) -> None:
    """The error as an object on standard output, for a call that asks for JSON there."""
    if "--json" not in arguments:
        return
    error: dict[str, Any] = {"message": message, "hint": hint, "exit_code": code}
    if findings is not None:
        error["findings"] = findings
    try:
        print_document(document(error=error), line=True)
    except (OSError, ValueError):
        pass  # it stands on standard error


def plan_lines(screen: Terminal) -> list[str]:
    """A line for each plan of the project: its file and its title. Empty where the project has no plan."""
    from planrunner.app.plans.files import project_plans

    plans = project_plans()
    column = min(48, max((width(path) for path, _ in plans), default=0))
    edge = screen.edge()
    return [
        cut(f"  {pad(harmless(path), column)}  {harmless(title)}".rstrip(), edge, screen.unicode)
        for path, title in plans
    ]


def list_plans(screen: Terminal) -> bool:
    """Write the plans of the project and what to do with them; False where there are none."""
    lines = plan_lines(screen)
    if lines:
        tips = ["", "run one: planrunner exec PLAN", "all commands: planrunner --help"]
        screen.write("\n".join([screen.paint("plans of this project", "bold"), *lines, *tips]) + "\n")
    return bool(lines)


def plan_missing(screen: Terminal) -> int:
    """Say that a plan has to be named, and which there are; the exit code of a wrong call."""
    lines = plan_lines(screen)
    known = (
        ["plans of this project:", *lines] if lines else ["  this project has no plan; `planrunner init` writes one"]
    )
    screen.write("\n".join(["error: no plan named; write `planrunner exec PLAN`", *known]) + "\n")
    return USAGE


class LazyGroup(click.Group):
    """A group that knows its commands from the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, *_ in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if module_of(args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"no command `{args[0]}`{meant(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, [ALIASES.get(args[0], args[0]), *args[1:]])

    def get_help(self, ctx: click.Context) -> str:
        return help_text().rstrip("\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands with their line of help, or the options before the command."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=text) for name, _, text, _ in COMMANDS if name.startswith(incomplete)]


class CommandGroup(click.Group):
    """A command of commands. Without a name among the arguments it calls ``default``, which takes ``words`` if it has
    arguments of its own; options may stand before the name. ``spellings`` are options that mean a command."""

    def __init__(
        self,
        *args: Any,
        default: str = "",
        words: bool = False,
        spellings: Mapping[str, str] = MappingProxyType({}),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.default, self.words, self.spellings = default, words, spellings

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the module."""
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._ordered(ctx, args))

    def _ordered(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments with the name of the command first."""
        ordered: list[str] = []
        for arg in args:
            option, equals, value = arg.partition("=")
            ordered += [self.spellings[option], *([value] * bool(equals))] if option in self.spellings else [arg]
        valued = {name for each in self.commands.values() for name in _valued(each)}
        index = 0
        while index < len(ordered) and ordered[index].startswith("-") and ordered[index] not in ("-", "--"):
            index += 2 if ordered[index] in valued else 1
        word = ordered[index] if index < len(ordered) else ""
        if word in self.commands:
            return [word, *ordered[:index], *ordered[index + 1 :]]
        helped = any(name in ordered[:index] for name in ctx.help_option_names)
        if (ctx.resilient_parsing and not ordered) or (helped and not word):
            return ordered
        if self.default and (self.words or not word):
            return [self.default, *ordered]
        if word:
            raise click.UsageError(f"there is no `{self.name} {word}`{nearest(word, list(self.commands))}", ctx)
        raise click.UsageError(f"`{self.name}` needs a command: {', '.join(self.commands)}", ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, then the options of the default one."""
        super().format_options(ctx, formatter)
        if self.default:
            options = [param.get_help_record(ctx) for param in self.commands[self.default].params]
            with formatter.section(f"Options of {self.default} (the default)"):
                formatter.write_dl([record for record in options if record is not None])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and, where one is the default, what may follow it."""
        items = super().shell_complete(ctx, incomplete)
        if self.default:
            items += self.commands[self.default].shell_complete(ctx, incomplete)
        return list({item.value: item for item in items}.values())


def _valued(command: click.Command) -> Iterator[str]:
    """The options of a command that take a value."""
    for param in command.params:
        if isinstance(param, click.Option) and not param.is_flag:
            yield from param.opts


def load(name: str) -> click.Command | None:
    """The command of that name, None where the table has none."""
    module = module_of(name)
    if module is None:
        return None
    command: click.Command = getattr(import_module(module), f"{ALIASES.get(name, name)}_command")
    return command


def meant(word: str, names: list[str]) -> str:
    """As ``nearest``, for commands: what other tools call one counts first."""
    return f": did you mean `{MEANT[word]}`?" if word in MEANT else nearest(word, [*names, *ALIASES])


def nearest(word: str, names: list[str]) -> str:
    """``: did you mean `lint`?``, or nothing where no name is close."""
    meant = nearest_of(word, names)
    return f": did you mean `{meant}`?" if meant else ""


def _profiles(ctx: click.Context, _: click.Parameter, word: str) -> list[CompletionItem]:
    from planrunner.app.project.configuration import profiles

    return [CompletionItem(name) for name in profiles() if name.startswith(word)]


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-C", "directory", type=click.Path(), metavar="DIR")
@click.option("--state", type=click.Path(), metavar="DIR")
@click.option("--color", type=click.Choice(COLORS), default="auto")
@click.option("--profile", metavar="NAME", shell_complete=_profiles)
@click.option("--no-input", is_flag=True)
@click.option("--no-plugins", is_flag=True)
@click.version_option(__version__, message="planrunner %(version)s")
@click.pass_context
def planrunner(ctx: click.Context, /, **given: Any) -> None:
    """Write plans as files, lint them and run them with one command."""
    ctx.obj = settings(**given)
    if ctx.invoked_subcommand is None and not list_plans(output(ctx.obj)):
        click.echo(ctx.get_help())


COMPLETE = "_PLANRUNNER_COMPLETE"
"""The variable of the environment by which a completion script asks for candidates."""


def run(arguments: list[str], asked: list[Settings]) -> int:
    """Run a command through click; gives its exit code. ``asked`` gets the settings that stood before it. Closed pipes
    and Ctrl-C are the caller's."""
    if instruction := os.environ.get(COMPLETE):
        return shell_complete(planrunner, {}, "planrunner", COMPLETE, instruction)
    try:
        with planrunner.make_context("planrunner", list(arguments)) as ctx:
            try:
                result: Any = planrunner.invoke(ctx)
            finally:
                asked.extend([ctx.obj] if isinstance(ctx.obj, Settings) else [])
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        return _wrong_call(error, arguments)
    except click.exceptions.Abort:
        return INTERRUPTED
    return result if isinstance(result, int) else 0


def _wrong_call(error: click.ClickException, arguments: list[str]) -> int:
    """Say what is wrong with the call, and where help is."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "planrunner"
    hint = f"`{path} --help` tells how"
    sys.stderr.write(f"error: {error.format_message()}\n  {hint}\n")
    write_error(arguments, error.format_message(), hint, USAGE)
    return USAGE


def given_settings(ctx: click.Context) -> Settings:
    """The settings that stood before the command."""
    given = ctx.find_object(Settings)
    return given if given is not None else settings()
