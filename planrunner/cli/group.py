"""The commands as click sees them. The module of a command is imported when the command is called, not to list it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from planrunner import __version__
from planrunner.cli.output import print_document
from planrunner.cli.settings import COLORS, Settings, output, settings
from planrunner.cli.table import ALIASES, COMMANDS, EXTRAS, GROUPS, MEANT, module_of
from planrunner.errors import INTERRUPTED, USAGE, NextStep, Unready
from planrunner.escapes import harmless
from planrunner.frozen import EMPTY
from planrunner.later import Later
from planrunner.later import load as load_place
from planrunner.views.terminal import Terminal, cut, pad, width

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem, shell_complete

    from planrunner.extras import installing
    from planrunner.plan.nearest import nearest
    from planrunner.views.documents import error_document
else:
    CompletionItem = Later("click.shell_completion:CompletionItem")
    shell_complete = Later("click.shell_completion:shell_complete")
    installing = Later("planrunner.extras:installing")
    nearest = Later("planrunner.plan.nearest:nearest")
    error_document = Later("planrunner.views.documents:error_document")


def write_error(
    arguments: Sequence[str],
    message: str,
    hint: str,
    code: int,
    steps: Sequence[NextStep] = (),
    findings: list[dict[str, Any]] | None = None,
) -> None:
    """The error as an object on standard output, for a call that asks for JSON there."""
    if "--json" in arguments:
        with suppress(OSError, ValueError):  # standard error has it
            print_document(error_document(message, hint, code, steps, findings), line=True)


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
        if args[0] in ("help", "version"):
            return self._told(ctx, args)
        if module_of(args[0]) is None and not args[0].startswith("-"):
            close = MEANT.get(args[0]) or nearest(args[0], [*self.list_commands(ctx), *ALIASES])
            ctx.fail(f"no command `{args[0]}`{did_you_mean(close)}")
        return super().resolve_command(ctx, [ALIASES.get(args[0], args[0]), *args[1:]])

    def _told(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """``help``, ``help COMMAND`` and ``version``, which other tools have beside the options."""
        if args[0] == "help" and args[1:]:
            return self.resolve_command(ctx, [args[1], "--help"])
        click.echo(ctx.get_help() if args[0] == "help" else f"planrunner {__version__}")
        raise click.exceptions.Exit(0)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by group, then the options before the command."""
        for group, title in GROUPS:
            with formatter.section(title):
                formatter.write_dl([(f"{name:<12}", text) for name, _, text, of in COMMANDS if of == group])
        click.Command.format_options(self, ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands with their line of help, or the options before the command."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=text) for name, _, text, _ in COMMANDS if name.startswith(incomplete)]


class CommandGroup(click.Group):
    """A command of commands, listed in the order of its module. Where none is named, ``default`` is called. ``later``
    are those that are imported when they are called, each as ``module:function``."""

    def __init__(self, *args: Any, default: str = "", later: Mapping[str, str] = EMPTY, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.default = default
        self.later = later

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *self.later]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.later:
            return super().get_command(ctx, cmd_name)
        command: click.Command = load_place(self.later[cmd_name])
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        word, names = args[0] if args else "", self.list_commands(ctx)
        if word in names or word in ctx.help_option_names or (ctx.resilient_parsing and not args):
            return super().parse_args(ctx, args)
        if self.default and (word[:1] in ("", "-") or self._default_takes_arguments()):
            return super().parse_args(ctx, [self.default, *args])
        if not word:
            raise click.UsageError(f"`{self.name}` needs a command: {', '.join(names)}", ctx)
        close = nearest(word, names)
        raise click.UsageError(f"there is no `{self.name} {word}`{did_you_mean(close)}", ctx)

    def _default_takes_arguments(self) -> bool:
        return any(isinstance(param, click.Argument) and param.required for param in self.commands[self.default].params)

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


def load(name: str) -> click.Command | None:
    """The command of that name, None where the table has none. Raises Unready where its extra is not installed."""
    module = module_of(name)
    if module is None:
        return None
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        if name not in EXTRAS:
            raise
        extra = EXTRAS[name]
        raise Unready(f"`planrunner {name}` needs the extra `{extra}` ({error})", installing(extra)) from None
    command: click.Command = getattr(loaded, f"{ALIASES.get(name, name)}_command")
    return command


def did_you_mean(name: str | None) -> str:
    return f": did you mean `{name}`?" if name else ""


def _profiles(ctx: click.Context, _: click.Parameter, word: str) -> list[CompletionItem]:
    from planrunner.app.project.configuration import profiles

    return [CompletionItem(name) for name in profiles() if name.startswith(word)]


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Run 'planrunner COMMAND --help' for more about a command.",
)
@click.option("-C", "directory", type=click.Path(), metavar="DIR", help="Run as if started in DIR.")
@click.option(
    "--state",
    type=click.Path(),
    metavar="DIR",
    help="Where runs are kept (default: PLANRUNNER_STATE, then .planrunner of the project).",
)
@click.option(
    "--profile",
    metavar="NAME",
    shell_complete=_profiles,
    help="Profile of planrunner.yaml to use (default: PLANRUNNER_PROFILE); `none` for no profile.",
)
@click.option(
    "--color",
    type=click.Choice(COLORS),
    default="auto",
    help="Colour of output; NO_COLOR and FORCE_COLOR apply as well.",
)
@click.option("--no-input", is_flag=True, help="Never prompt.")
@click.option("--no-plugins", is_flag=True, help="Disable all plugins.")
@click.version_option(__version__, message="planrunner %(version)s", help="Show the version and exit.")
@click.help_option("-h", "--help")
@click.pass_context
def planrunner(ctx: click.Context, /, **given: Any) -> None:
    """People write plans as files, lint them and run them with one command.

    \b
    Examples:
      planrunner init                      write plans/hello.yaml
      planrunner lint plans/hello.yaml     check it
      planrunner exec plans/hello.yaml     run it
      planrunner show last                 see how it went
    """
    ctx.obj = settings(**given)
    if ctx.invoked_subcommand is None:
        screen = output(ctx.obj)
        if lines := plan_lines(screen):
            tips = ["", "run one: planrunner exec PLAN", "all commands: planrunner --help"]
            screen.write("\n".join([screen.paint("plans of this project", "bold"), *lines, *tips]) + "\n")
        else:
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
    hint = f"see `{path} --help`"
    extra = error.format_message().partition("unexpected extra argument (")[2].rstrip(")")
    if "=" in extra and context is not None and any("-p" in param.opts for param in context.command.params):
        hint = f"a parameter is given by `-p {extra}`; {hint}"
    sys.stderr.write(f"error: {error.format_message()}\n  {hint}\n")
    write_error(arguments, error.format_message(), hint, USAGE)
    return USAGE


def given_settings(ctx: click.Context) -> Settings:
    """The settings that stood before the command."""
    given = ctx.find_object(Settings)
    return given if given is not None else settings()
