"""``planrunner chaos``."""

from __future__ import annotations

import json
from typing import Any

import click

from planrunner.app.proof.chaos import ChaosRequest, chaos, chaos_object
from planrunner.app.proof.realchaos import real_chaos
from planrunner.cli.consent import vouch
from planrunner.cli.exec import pairs
from planrunner.cli.group import given_settings
from planrunner.cli.settings import messages, output
from planrunner.errors import FAILED, OK
from planrunner.plan.expressions.quantities import parse_duration
from planrunner.views.proof import chaos_lines
from planrunner.views.terminal import Terminal


def _kills(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    if value == "all":
        return None
    if not value.isdigit() or not int(value):
        raise click.BadParameter(f"`{value}` is neither a number nor `all`", ctx, param)
    return int(value)


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    found = parse_duration(value)
    if found is None:
        raise click.BadParameter(f"`{value}` is not a duration such as 60s", ctx, param)
    return found


def _writes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[tuple[int, str], ...]:
    found = []
    for word in (value or "").split(",") if value else ():
        number, colon, side = word.strip().partition(":")
        if not number.isdigit() or not int(number) or (colon and side not in ("before", "after")):
            raise click.BadParameter(f"`{word}` is not a write such as 17, 17:before or 17:after", ctx, param)
        found.append((int(number), side))
    return tuple(found)


@click.command("chaos")
@click.argument("plan", type=click.Path())
@click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", callback=pairs, help="Set a parameter.")
@click.option("--kills", default="all", metavar="all|N", callback=_kills, help="Every write (all), or N of them.")
@click.option("--pairs", "pair_count", default=24, type=click.IntRange(0), metavar="N", help="Runs killed twice (24).")
@click.option("--seed", default=0, type=click.IntRange(0), metavar="N", help="Random durations and failures.")
@click.option("--time", "limit", metavar="TIME", callback=_seconds, help="Stop after so long, such as 60s.")
@click.option("--only-write", "only", metavar="N", callback=_writes, help="Repeat one run: 17, or 17:after,19:before.")
@click.option("--after/--before", default=False, help="Whether the entries of --only-write reach the disk.")
@click.option("--real", is_flag=True, help="Run the real plan in scratch copies of the project: its effects are real.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def chaos_command(ctx: click.Context, /, **options: Any) -> int:
    """Kill a run at every journal write, resume it, and compare how it ends.

    The run takes place in an imagined world in which all goes well, or by --seed. Codes: 0 the end is always the same,
    1 it is not, with the command that shows it again.

    \b
    Examples:
      planrunner chaos plans/release.yaml
      planrunner chaos plans/release.yaml --seed 7 --time 60s
      planrunner chaos plans/release.yaml --only-write 17 --after
    """
    given = given_settings(ctx)
    only = tuple((write, side == "after" if side else options["after"]) for write, side in options["only"])
    request = ChaosRequest(
        options["plan"],
        options["params"],
        options["kills"],
        options["seed"],
        options["limit"],
        options["pair_count"],
        only,
    )
    shown = _Shown(messages(given))
    if options["real"]:
        vouch(given, options["plan"], options["params"])
        found = real_chaos(request, shown)
    else:
        found = chaos_object(request, chaos(request, shown))
    shown.clear()
    screen = output(given)
    if options["as_json"]:
        screen.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    else:
        screen.write("".join(f"{line}\n" for line in chaos_lines(screen, found)))
    return OK if found["held"] else FAILED


class _Shown:
    """A line on standard error that counts runs, where the cursor can be moved."""

    __slots__ = ("_screen", "_written")

    def __init__(self, screen: Terminal) -> None:
        self._screen = screen
        self._written = False

    def __call__(self, done: int, every: int) -> None:
        if self._screen.live and done % 10 == 0:
            self._screen.write(f"\r{done} of {every} runs killed")
            self._written = True

    def clear(self) -> None:
        if self._written:
            self._screen.write("\r\x1b[K")
