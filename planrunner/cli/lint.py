"""``planrunner lint`` and ``fmt``."""

from __future__ import annotations

import sys
from typing import Any

import click

from planrunner.app.plans.lint import (
    Checked,
    Choice,
    check_codes,
    diff_text,
    format_text,
    lint_paths,
    reaches,
    read_files,
    write_text,
)
from planrunner.cli.group import given_settings
from planrunner.cli.options import PlanPath
from planrunner.cli.settings import Settings, output
from planrunner.diagnostics import Severity
from planrunner.errors import UsageError
from planrunner.records import Struct
from planrunner.views.findings import render_concise, render_json, render_summary, render_text
from planrunner.views.terminal import plural


class LintOptions(Struct):
    paths: tuple[str, ...]
    form: str
    fix: bool
    unsafe_fixes: bool
    diff: bool
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    fail_on: Severity
    stdin_filename: str


class LintCommand(click.Command):
    """``--fix`` may be followed by a path, so a value is only what stands behind an equals sign."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        meant = {"--fix=safe": "--fix", "--fix=all": "--unsafe-fixes"}
        return super().parse_args(ctx, [meant.get(word, word) for word in args])


@click.command("lint", cls=LintCommand)
@click.argument("paths", nargs=-1, type=PlanPath())
@click.option("--format", "form", type=click.Choice(["text", "concise", "json"]), default="text", help="How to print.")
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option("--fix", is_flag=True, help="Apply fixes that do not change the plan's meaning.")
@click.option(
    "--unsafe-fixes", is_flag=True, help="Also apply fixes that may change the meaning; the same as --fix=all."
)
@click.option("--diff", is_flag=True, help="Show what --fix would change, write nothing.")
@click.option("--select", multiple=True, metavar="CODES", help="Only these rules: codes, names or prefixes.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Skip these rules.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note"]),
    default="error",
    help="Lowest severity that exits with code 1.",
)
@click.option("--stdin-filename", default="<stdin>", metavar="NAME", help="Name to show for standard input.")
@click.pass_context
def lint_command(ctx: click.Context, /, **options: Any) -> int:
    """Check plans, and the settings of their projects. PATH is the name of a plan, a file, a folder (`docs/`) or `-`
    for standard input; without one the working directory is searched. A planrunner.yaml that is named is checked as by
    `config check`, but not fixed.

    Codes: 0 nothing at or above --fail-on, 1 findings, 3 no plan found.

    \b
    Examples:
      planrunner lint
      planrunner lint plans/release.yaml --fix
      planrunner lint --format json plans > findings.json
    """
    return _lint(given_settings(ctx), LintOptions(**options))


def _lint(given: Settings, options: LintOptions) -> int:
    choice = Choice(check_codes(options.select), check_codes(options.ignore))
    mend = "all" if options.unsafe_fixes else "safe" if options.fix or options.diff else None
    if mend and "-" in options.paths and not options.diff:
        raise UsageError("standard input cannot be fixed in place", "add --diff, or name a file")
    stdin = sys.stdin.buffer.read() if "-" in options.paths else b""
    results = lint_paths(options.paths, choice, mend, (options.stdin_filename, stdin))
    if options.diff:
        _print_diff(results)
    else:
        _write_back(results)
        print_findings(given, options.form, results)
    findings = [finding for checked in results for finding in checked.findings]
    return 1 if reaches(findings, options.fail_on) else 0


def _write_back(results: list[Checked]) -> None:
    for checked in results:
        if checked.source.text != checked.before:
            write_text(checked.source.name, checked.source.text)


def print_findings(given: Settings, form: str, results: list[Checked]) -> None:
    """Findings on standard output in the form that was asked for, with a last line that counts them."""
    screen = output(given)
    if form == "json":
        screen.write(render_json((checked.source, checked.findings) for checked in results))
        return
    for checked in results:
        if not checked.findings:
            continue
        if form == "concise":
            screen.write(render_concise(checked.findings, checked.source).rstrip("\n") + "\n")
        else:
            screen.write(render_text(checked.findings, checked.source, screen.color).rstrip("\n") + "\n\n")
    fixed = sum(checked.fixed for checked in results)
    summary = render_summary([finding for checked in results for finding in checked.findings], len(results))
    left = summary.replace("no findings", "none left")
    click.echo(f"{plural(fixed, 'finding')} fixed, {left}" if fixed else summary, err=form == "concise")


def _print_diff(results: list[Checked]) -> None:
    for checked in results:
        click.echo(diff_text(checked.source.name, checked.before, checked.source.text), nl=False)


@click.command("fmt")
@click.argument("paths", nargs=-1, type=PlanPath())
@click.option("--check", is_flag=True, help="Write nothing; code 1 where a plan is not in canonical form.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change.")
@click.option("--stdin-filename", default="<stdin>", metavar="NAME", help="Name to show for standard input.")
def fmt_command(paths: tuple[str, ...], check: bool, diff: bool, stdin_filename: str) -> int:
    """Format plans: canonical keys in one order and one layout. Comments stay.

    PATH is a file, a folder or `-`, which reads standard input and writes standard output.

    \b
    Examples:
      planrunner fmt plans/release.yaml
      planrunner fmt --check
      planrunner fmt - --stdin-filename x.plan < x.plan
    """
    if "-" in paths and len(paths) > 1:
        raise UsageError("standard input comes alone")
    stdin = sys.stdin.buffer.read() if "-" in paths else b""
    changed = 0
    for file in read_files(paths, (stdin_filename, stdin)):
        name, before = file.source.name, file.source.text
        after = format_text(file)
        changed += before != after
        if diff:
            click.echo(diff_text(name, before, after), nl=False)
        elif check:
            if before != after:
                click.echo(name)
        elif "-" in paths:
            click.echo(after, nl=False)
        elif before != after:
            write_text(name, after)
            click.echo(f"formatted {name}", err=True)
    return 1 if changed and (check or diff) else 0
