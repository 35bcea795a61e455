"""``planrunner test``, ``chaos`` and ``replay``."""

from __future__ import annotations

from typing import Any

import click

from planrunner.app.history.replay import replay_document, replay_run
from planrunner.app.proof.chaos import ChaosRequest, chaos, chaos_object, real_chaos
from planrunner.app.proof.test import Tested, test_paths, tested_object
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.options import Duration, PlanPath, json_option, params_option
from planrunner.cli.output import print_document, write_file
from planrunner.cli.prompts import vouch
from planrunner.cli.settings import messages, output
from planrunner.errors import FAILED, INVALID, MISMATCH, OK
from planrunner.plan.expressions.quantities import parse_percent
from planrunner.views.findings import render_text
from planrunner.views.proof import chaos_lines, replay_lines, test_lines
from planrunner.views.proof import junit as junit_of
from planrunner.views.terminal import Terminal, plural


def _share(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    share = parse_percent(value if value.rstrip().endswith("%") else f"{value}%")
    if share is None or share > 1:
        raise click.BadParameter(f"`{value}` is not a percentage such as 80%", ctx, param)
    return share


@click.command("test")
@click.argument("paths", nargs=-1, type=PlanPath())
@click.option("-k", "pattern", default="", metavar="PATTERN", help="Only cases whose file::name contains this.")
@click.option("--coverage", is_flag=True, help="List what no case covers.")
@click.option("--min-coverage", callback=_share, metavar="PERCENT", help="Exit with code 1 if a plan is covered less.")
@click.option("--junit", metavar="FILE", help="Write JUnit XML as well.")
@json_option
@click.pass_context
def test_command(
    ctx: click.Context, /, paths: tuple[str, ...], pattern: str, coverage: bool, min_coverage: float | None,
    junit: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Run the tests of plans: tasks are simulated, time is virtual. PATH is a test file, a plan or a folder.

    Tests are files called *.test.yaml beside a plan or under `tests`. A plan without a test file gets generated cases:
    every task succeeds, each task fails once, each gate is rejected.

    Exit codes: 0 all pass, 1 an expectation fails or coverage is too low, 3 no plan and no test, 5 a test file or a
    plan is invalid.

    \b
    Examples:
      planrunner test
      planrunner test plans/release.yaml --coverage
      planrunner test -k 'sign-off' --junit build/junit.xml
    """
    tested = test_paths(paths, pattern)
    screen = output(given_settings(ctx))
    data = tested_object(tested)
    if junit is not None:
        write_file(junit, junit_of(data))
    if as_json:
        print_document(data)
    elif tested.results or not tested.invalid:
        screen.write("".join(f"{line}\n" for line in test_lines(screen, data, coverage)))
    complaints = messages(given_settings(ctx))
    return _code(tested, data, min_coverage, complaints)


def _code(tested: Tested, document: dict[str, Any], least: float | None, screen: Terminal) -> int:
    if tested.invalid:
        for source, findings in tested.invalid:
            screen.write(render_text(findings, source, screen.color) + "\n")
        screen.write(f"error: {plural(len(tested.invalid), 'invalid file')}\n")
        return INVALID
    if document["failed"]:
        return FAILED
    thin = {
        path: one["share"] for path, one in document["coverage"].items() if least is not None and one["share"] < least
    }
    for path, share in thin.items():
        screen.write(f"error: `{path}` is covered to {share:.0%}, less than {least:.0%}\n")
    return FAILED if thin else OK


def _kills(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    if value == "all":
        return None
    if not value.isdigit() or not int(value):
        raise click.BadParameter(f"`{value}` is neither a number nor `all`", ctx, param)
    return int(value)


def _writes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[tuple[int, str], ...]:
    writes = []
    for word in (value or "").split(",") if value else ():
        number, colon, side = word.strip().partition(":")
        if not number.isdigit() or not int(number) or (colon and side not in ("before", "after")):
            raise click.BadParameter(f"`{word}` is not a write such as 17, 17:before or 17:after", ctx, param)
        writes.append((int(number), side))
    return tuple(writes)


@click.command("chaos")
@click.argument("plan", type=PlanPath())
@params_option()
@click.option("--kills", default="all", metavar="all|N", callback=_kills, help="Every write (all), or N of them.")
@click.option("--pairs", "pair_count", default=24, type=click.IntRange(0), metavar="N", help="Runs killed twice (24).")
@click.option("--seed", default=0, type=click.IntRange(0), metavar="N", help="Random durations and failures.")
@click.option("--time", "limit", metavar="TIME", type=Duration(), help="Stop after so long, such as 60s.")
@click.option("--only-write", "only", metavar="N", callback=_writes, help="Repeat one run: 17, or 17:after,19:before.")
@click.option("--after/--before", default=False, help="Whether the entries of --only-write reach the disk.")
@click.option("--real", is_flag=True, help="Run the real plan in scratch copies of the project: its effects are real.")
@json_option
@click.pass_context
def chaos_command(ctx: click.Context, /, **options: Any) -> int:
    """Kill a run at every journal write, resume it, and compare how it ends.

    The run is simulated: every task succeeds, or --seed decides. Exit codes: 0 the result is always the same, 1 it is
    not; the command that reproduces it is printed.

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
    shown = Counter(messages(given), "runs killed", 10)
    if options["real"]:
        vouch(given, options["plan"], options["params"])
        data = real_chaos(request, shown)
    else:
        data = chaos_object(request, chaos(request, shown))
    shown.clear()
    screen = output(given)
    if options["as_json"]:
        print_document(data)
    else:
        screen.write("".join(f"{line}\n" for line in chaos_lines(screen, data)))
    return OK if data["held"] else FAILED


class Counter:
    """A line on standard error that counts ``what``, every ``step`` of it, where the cursor can be moved."""

    __slots__ = ("_screen", "_step", "_what", "_written")

    def __init__(self, screen: Terminal, what: str, step: int = 1) -> None:
        self._screen, self._what, self._step = screen, what, step
        self._written = False

    def __call__(self, done: int, every: int) -> None:
        if self._screen.live and done % self._step == 0:
            self._screen.write(f"\r{done} of {every} {self._what}")
            self._written = True

    def clear(self) -> None:
        if self._written:
            self._screen.write("\r\x1b[K")


@click.command("replay")
@click.argument("run", default="last", shell_complete=RUN)
@click.option("--plan", type=PlanPath(), metavar="PLAN", help="Replay with an edited plan instead of the run's own.")
@json_option
@click.pass_context
def replay_command(ctx: click.Context, /, run: str, plan: str | None, as_json: bool) -> int:
    """Replay the decisions of a run from its recorded outcomes, offline, and report the first difference (exit code
    10). RUN is an id, the start of one, `last`, or a file that `planrunner events --export` wrote.

    \b
    Examples:
      planrunner replay last
      planrunner replay last --plan release-edited.yaml
      planrunner replay tests/release.jsonl
    """
    report = replay_run(run, given_settings(ctx).state, plan)
    if as_json:
        print_document(replay_document(report))
    else:
        click.echo("\n".join(replay_lines(report.run_id, report.replayed, bool(report.edited))))
    return MISMATCH if report.replayed.difference is not None else 0
