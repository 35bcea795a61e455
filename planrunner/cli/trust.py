"""``planrunner trust`` and ``policy``."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from planrunner.app.people.admission import (
    Review,
    forget,
    listed,
    project_object,
    review,
    trust_plan,
    trust_project,
)
from planrunner.app.plans.policies import explain, explained_document
from planrunner.cli.group import CommandGroup, given_settings
from planrunner.cli.options import PlanPath, json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import Settings, output
from planrunner.errors import DENIED, OK, UsageError
from planrunner.views.documents import listing
from planrunner.views.rights import LONGEST_PATH, item, powers_lines, render

_JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON; nothing is prompted for, and only --yes records trust."
)


@click.group("trust", cls=CommandGroup, default="add")
def trust_command() -> None:
    """Trust plans from outside the project, list what is trusted, and revoke trust.

    \b
    Examples:
      planrunner trust ../release.yaml
      planrunner trust ~/projects/shop
      planrunner trust list
      planrunner trust forget ../release.yaml
    """


@trust_command.command("add")
@click.argument("plan", type=PlanPath())
@click.option("--yes", is_flag=True, help="Do not prompt.")
@_JSON
@click.pass_context
def add_trust(ctx: click.Context, /, plan: str, **options: Any) -> int:
    """Show what a plan from outside the project may do, and trust exactly this plan.

    PLAN may be the folder of a project: then its plans run from anywhere as they do inside it, until its
    planrunner.yaml changes.
    """
    given = given_settings(ctx)
    return _project(given, plan, options) if os.path.isdir(plan) else _plan(given, plan, options)


@trust_command.command("list")
@_JSON
@click.pass_context
def list_trust(ctx: click.Context, /, as_json: bool) -> int:
    """List trusted plans and projects."""
    trusted = listed()
    screen = output(given_settings(ctx))
    if as_json:
        print_document(listing("trusted", trusted))
        return OK
    lines = [f"{row['kind']:<8} {row['digest'][:19]}  {_path(row['path'])}\n" for row in trusted]
    screen.write("".join(lines) or "nothing is trusted\n")
    return OK


@trust_command.command("forget")
@click.argument("plan", metavar="PLAN|DIGEST", type=PlanPath())
def forget_trust(plan: str) -> int:
    """Revoke the trust in a plan or project, named by path or digest."""
    for path in forget(plan):
        click.echo(f"{_path(path)} is no longer trusted")
    return OK


@click.group("policy", cls=CommandGroup, default="explain")
def policy_command() -> None:
    """Policies: what plans and their tasks may do.

    \b
    Examples:
      planrunner policy explain plans/release.yaml
      planrunner policy explain plans/release.yaml --json
    """


@policy_command.command("explain")
@click.argument("plan", type=PlanPath())
@json_option
def explain_(plan: str, as_json: bool) -> int:
    """Show what each task of PLAN may do, and the line that allows it.

    The exit code is 12 where a policy refuses something that a task wants.

    \b
    Examples:
      planrunner policy explain plans/release.yaml
    """
    loaded, tasks = explain(plan)
    if as_json:
        print_document(explained_document(loaded, tasks))
    else:
        click.echo(render(f"{loaded.id} ({plan})", tasks))
    return DENIED if any(each.verdict == "deny" for task in tasks for each in task.said) else 0


def _plan(given: Settings, path: str, options: dict[str, Any]) -> int:
    examination = review(path)
    _show(given, examination, options["as_json"])
    if examination.summary["trusted"] == "trusted":
        return _say(f"{_path(path)} is already trusted as it is", options)
    if not _agreed(given, options, "trust exactly this plan?"):
        return OK if options["as_json"] else _say("not trusted", options, DENIED)
    trust_plan(path, examination)
    return _say(f"{_path(path)} is trusted as it is; after a change it prompts again", options)


def _show(given: Settings, found: Review, as_json: bool) -> None:
    screen = output(given)
    if as_json:
        print_document(found.summary)
    else:
        screen.write("".join(f"{line}\n" for line in powers_lines(screen, found.summary)))


def _project(given: Settings, path: str, options: dict[str, Any]) -> int:
    project = project_object(path)
    root = _path(project["project"])
    if options["as_json"]:
        print_document(project)
    else:
        sections = ", ".join(map(item, project["sections"])) or "nothing"
        told = f"every plan in {root} would run from anywhere, now and after changes, as it does inside the project"
        output(given).write(f"{told}\nits planrunner.yaml says something about: {sections}\n")
    if project["trusted"] == "trusted":
        return _say(f"{root} is already trusted", options)
    if not _agreed(given, options, "trust the whole project?"):
        return OK if options["as_json"] else _say("not trusted", options, DENIED)
    trust_project(path)
    return _say(f"{root} is trusted until its planrunner.yaml changes", options)


def _agreed(given: Settings, options: dict[str, Any], question: str) -> bool:
    """Whether the answer is yes. Raises UsageError away from a terminal."""
    if options["yes"] or options["as_json"]:
        return bool(options["yes"])
    if given.no_input or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("cannot prompt for trust: not at a terminal", "read the plan, then add --yes")
    return click.confirm(question, default=False)


def _say(text: str, options: dict[str, Any], code: int = OK) -> int:
    click.echo(text, err=options["as_json"])
    return code


def _path(path: str) -> str:
    return item(path, LONGEST_PATH)
