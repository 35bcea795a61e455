"""``planrunner trigger``."""

from __future__ import annotations

import time

import click

from planrunner.app.queue.items import item_document
from planrunner.app.triggers import showing
from planrunner.app.triggers.showing import Shown, triggers_document, what
from planrunner.cli.group import CommandGroup, given_settings
from planrunner.cli.options import Pairs, json_option, params_option
from planrunner.cli.output import print_document
from planrunner.cli.runner import lay_environment, say
from planrunner.cli.settings import output
from planrunner.errors import OK
from planrunner.escapes import harmless
from planrunner.plan.expressions.quantities import duration_text
from planrunner.views.terminal import Terminal, table


@click.group("trigger", cls=CommandGroup, default="list")
def trigger_command() -> None:
    """List what starts runs by itself; fire, pause and resume it.

    Triggers stand under `triggers` of planrunner.yaml: the clock, webhooks, changed files. A worker fires them
    (`planrunner serve`, `planrunner worker`) by putting runs into the queue.

    \b
    Examples:
      planrunner trigger
      planrunner trigger fire nightly -p ref=main
      planrunner trigger pause nightly --reason "the archive is being moved"
    """


@trigger_command.command("list")
@json_option
@click.pass_context
def list_triggers(ctx: click.Context, /, as_json: bool) -> int:
    """List triggers with their next and their last time."""
    given = given_settings(ctx)
    found = showing.shown(given.state)
    if as_json:
        print_document(triggers_document(found))
        return OK
    screen = output(given)
    if not found:
        click.echo("no triggers; add the first one under `triggers` of planrunner.yaml", err=True)
        return OK
    now = time.time()
    rows = [_row(screen, each, now) for each in found]
    screen.write("\n".join(table(screen, ("TRIGGER", "PLAN", "WAITS FOR", "NEXT", "LAST"), rows)) + "\n")
    return OK


def _row(screen: Terminal, one: Shown, now: float) -> tuple[str, ...]:
    trigger = one.trigger
    return (
        harmless(trigger.name),
        harmless(trigger.plan),
        harmless(what(trigger)),
        _next(screen, one, now),
        _last(one),
    )


def _next(screen: Terminal, one: Shown, now: float) -> str:
    if one.paused is not None:
        return f"{screen.sign('paused')} paused by {harmless(one.paused.by)}"
    if not one.times:
        return ""
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.times[0]))
    return f"{at} (in {duration_text(one.times[0] - now)})"


def _last(one: Shown) -> str:
    if one.problem or one.last is None:
        return harmless(one.problem)
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.last.at))
    return f"{at} {harmless(one.last.run or one.last.problem)}"


@trigger_command.command("fire")
@click.argument("name")
@params_option("Set a parameter; it takes precedence over that of the trigger.")
@json_option
@click.pass_context
def fire_trigger(ctx: click.Context, /, name: str, params: Pairs, as_json: bool) -> int:
    """Put a run of trigger NAME into the queue now."""
    given = given_settings(ctx)
    lay_environment(given)
    item = showing.fire_now(name, params, given.state)
    if as_json:
        print_document(item_document(item), line=True)
    else:
        output(given).write(f"{item.run}\n")
        say(f"queued; {given.program} queue shows it")
    return OK


@trigger_command.command("pause")
@click.argument("name")
@click.option("--reason", default="", metavar="TEXT", help="Why; shown with the trigger.")
@click.pass_context
def pause_trigger(ctx: click.Context, /, name: str, reason: str) -> int:
    """Keep trigger NAME from firing. Times that pass meanwhile do not count as missed."""
    given = given_settings(ctx)
    showing.pause(name, reason, given.state)
    say(f"trigger {name} is paused; let it fire again: {given.program} trigger resume {name}")
    return OK


@trigger_command.command("resume")
@click.argument("name")
@click.pass_context
def resume_trigger(ctx: click.Context, /, name: str) -> int:
    """Let trigger NAME fire again."""
    showing.go_on(name, given_settings(ctx).state)
    say(f"trigger {name} fires again")
    return OK
