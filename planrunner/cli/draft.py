"""``planrunner draft``."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from planrunner.app.drafts.draft import Draft, DraftRequest, again, draft, write_draft
from planrunner.app.runs.execute import Silent
from planrunner.cli import runner
from planrunner.cli.group import given_settings
from planrunner.cli.options import PROGRESS, ExecOptions, Pairs, json_option, pairs
from planrunner.cli.output import print_document
from planrunner.cli.settings import Settings, output
from planrunner.errors import INVALID, OK, UsageError
from planrunner.plan.expressions.quantities import ADDABLE, parse_amount
from planrunner.plan.nearest import nearest
from planrunner.views.draft import Shown, draft_document, draft_lines, next_command

_ANSWERS = {"": "no", "n": "no", "no": "no", "e": "edit", "edit": "edit", "y": "yes", "yes": "yes"}


def _limits(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Pairs:
    """The limits of ``--budget``, each by its name. Raises UsageError for a name or an amount that there is not."""
    given = pairs(ctx, param, values)
    for what, text in given:
        if what not in ADDABLE:
            near = nearest(what, ADDABLE)
            way = f", did you mean `{near}`?" if near else f": there are {', '.join(f'`{each}`' for each in ADDABLE)}"
            raise UsageError(f"`--budget` has no `{what}`{way}")
        if parse_amount(what, text) is None:
            raise UsageError(f"`{text}` is not an amount of `{what}`", "write it such as `cost=$0.50` or `tokens=100k`")
    return given


@click.command("draft")
@click.argument("goal")
@click.option("-o", "--output", "file", metavar="FILE", help="The plan file to write; default: plans/NAME.yaml.")
@click.option("--model", default="", metavar="NAME", help="The model of planrunner.yaml that writes the plan.")
@click.option("--no-model", is_flag=True, help="Use no model, only the built-in templates.")
@click.option("--rounds", type=click.IntRange(1, 10), default=3, help="The most plans that the model writes (3).")
@click.option(
    "--budget",
    multiple=True,
    callback=_limits,
    metavar="NAME=AMOUNT",
    help="Limit the model: cost=$0.50, tokens=100k.",
)
@click.option("--yes", is_flag=True, help="Replace an existing FILE without a prompt. The plan does not run.")
@click.option("--progress", type=click.Choice(PROGRESS), help="Show the progress of the model (default: off).")
@json_option
@click.pass_context
def draft_command(ctx: click.Context, /, goal: str, **options: Any) -> int:
    """Draft a plan for GOAL, in plain words. planrunner checks the plan, shows a diff and what the plan may do, and
    writes it to a file. The plan runs only after you trust its digest, or confirm it at the prompt.

    If planrunner.yaml configures a model, the model writes the plan and gets the lint findings. Otherwise planrunner
    fills one of ten templates from the project: its commands, its repository, the files and addresses in GOAL.

    \b
    Exit codes: 0 drafted, 2 unknown goal, 5 the model wrote no valid plan.

    \b
    Examples:
      planrunner draft "run the tests and fix the formatting"
      planrunner draft "deploy with a health check" -o plans/deploy.yaml
      planrunner draft "split the release plan in two" -o plans/release.yaml --model planner --budget 'cost=$0.50'
    """
    given = given_settings(ctx)
    options["json"] = options.pop("as_json")
    if options["no_model"] and options["model"]:
        raise UsageError("--model and --no-model contradict each other")
    if options["file"] and os.path.exists(options["file"]) and not (options["yes"] or _is_attended(given, options)):
        raise UsageError(f"`{options['file']}` exists", "add --yes to replace it, or name another file")
    runner.lay_environment(given, options["file"])
    model = None if options["no_model"] else options["model"]
    request = DraftRequest(goal, options["file"], model, options["rounds"], options["budget"], given.state)
    watch = runner.watch(given, options["progress"]) if options["progress"] else Silent()
    return _shown(given, draft(request, watch), options)


def _is_attended(given: Settings, options: dict[str, Any]) -> bool:
    """Whether a person at a terminal answers."""
    return not (given.no_input or options["json"]) and sys.stdin.isatty() and sys.stdout.isatty()


def _shown(given: Settings, made: Draft, options: dict[str, Any]) -> int:
    """Show the draft, write it, and run it where a person at the terminal says so."""
    screen, attended = output(given), _is_attended(given, options)
    if not options["json"]:
        screen.write("".join(f"{line}\n" for line in draft_lines(screen, _view(made))))
    exists = made.before is not None and made.diff and made.review is not None
    if exists and not options["yes"] and not (attended and click.confirm(f"replace {made.path}?", default=False)):
        raise UsageError(
            f"`{made.path}` exists and was not changed", "add --yes to replace it, or name another file with -o"
        )
    path = write_draft(made)
    if options["json"]:
        print_document(draft_document(_view(made)._replace(written=path), given.program), line=True)
    elif made.review is None:
        click.echo(f"{path} has the text of the model; fix it, or draft again with a different goal", err=True)
    elif attended:
        return _asked(given, made)
    else:
        click.echo(
            f"wrote {path}; nothing was run. Read it, then: {next_command(given.program, _view(made))}", err=True
        )
    return OK if made.review is not None else INVALID


def _view(made: Draft) -> Shown:
    powers = None if made.review is None else made.review.summary
    return Shown(*(made.goal, made.by, made.path, made.source, made.before is None, made.diff, made.findings, powers),
                 *(made.reason, made.run_id))  # fmt: skip


def _asked(given: Settings, made: Draft) -> int:
    """Ask whether the plan is run, as often as it is edited; consent is for the plan that was shown last."""
    screen = output(given)
    while True:
        ways = "[y]es / [e]dit / [n]o" if made.review is not None else "[e]dit / [n]o"
        screen.write(f"run it? {ways}: ")
        line = sys.stdin.readline()
        answer = _ANSWERS.get(line.strip().lower(), "") if line else "no"
        if answer == "no":
            hint = f" Run it later: {next_command(given.program, _view(made))}" if made.review is not None else ""
            click.echo(f"{made.path} was not run.{hint}", err=True)
            return OK
        if answer == "edit":
            click.edit(filename=made.path)
            made = again(made)
            screen.write("".join(f"{line}\n" for line in draft_lines(screen, _view(made))))
        elif answer == "yes" and made.review is not None:
            return runner.exec_plan(given, ExecOptions(made.path, trust=made.digest))
