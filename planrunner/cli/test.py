"""``planrunner test``."""

from __future__ import annotations

import json
from typing import Any

import click

from planrunner.app.proof.testing import Tested, test_paths, tested_object
from planrunner.cli.group import given_settings
from planrunner.cli.settings import messages, output
from planrunner.errors import FAILED, INVALID, OK, UsageError
from planrunner.plan.expressions.quantities import parse_percent
from planrunner.views.findings import render_text
from planrunner.views.proof import junit, test_lines
from planrunner.views.terminal import Terminal


def _share(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    share = parse_percent(value if value.rstrip().endswith("%") else f"{value}%")
    if share is None or share > 1:
        raise click.BadParameter(f"`{value}` is not a percentage such as 80%", ctx, param)
    return share


@click.command("test")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("-k", "pattern", default="", metavar="PATTERN", help="Only cases whose file::name holds this.")
@click.option("--coverage", is_flag=True, help="List what no case reached.")
@click.option("--min-coverage", callback=_share, metavar="PERCENT", help="Code 1 where a plan is covered less.")
@click.option("--junit", metavar="FILE", help="Write JUnit XML as well.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def test_command(
    ctx: click.Context, /, paths: tuple[str, ...], pattern: str, coverage: bool, min_coverage: float | None,
    junit: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Test plans in imagined worlds: nothing is run, time is virtual. PATH is a test file, a plan or a folder.

    Tests are files called *.test.yaml beside a plan or under `tests`. A plan that no test file names is tested by the
    cases that follow from it: all goes well, each task fails once, each person says no.

    Codes: 0 all hold, 1 an expectation does not hold or too little is covered, 3 no plan and no test, 5 a test file or
    a plan has faults.

    \b
    Examples:
      planrunner test
      planrunner test plans/release.yaml --coverage
      planrunner test -k 'sign-off' --junit build/junit.xml
    """
    tested = test_paths(paths, pattern)
    screen = output(given_settings(ctx))
    found = tested_object(tested)
    if junit is not None:
        _write_junit(junit, found)
    if as_json:
        screen.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    elif tested.results or not tested.invalid:
        screen.write("".join(f"{line}\n" for line in test_lines(screen, found, coverage)))
    complaints = messages(given_settings(ctx))
    return _code(tested, found, min_coverage, complaints)


def _code(tested: Tested, found: dict[str, Any], least: float | None, screen: Terminal) -> int:
    if tested.invalid:
        for source, findings in tested.invalid:
            screen.write(render_text(findings, source, screen.color) + "\n")
        screen.write(f"error: {len(tested.invalid)} of the files cannot be used\n")
        return INVALID
    if found["failed"]:
        return FAILED
    thin = {path: one["share"] for path, one in found["coverage"].items() if least is not None and one["share"] < least}
    for path, share in thin.items():
        screen.write(f"error: `{path}` is covered to {share:.0%}, {least:.0%} is wanted\n")
    return FAILED if thin else OK


def _write_junit(path: str, found: dict[str, Any]) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(junit(found))
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error
