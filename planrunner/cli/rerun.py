"""``planrunner rerun`` and ``retry``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from planrunner.app.runs.rerun import RerunRequest, Stale, rerun
from planrunner.app.runs.rerun import preview as stale_set
from planrunner.app.runs.revise import ReviseRequest
from planrunner.cli.completion import RUN, TASK
from planrunner.cli.group import given_settings
from planrunner.cli.options import (
    accept_policy_option,
    json_option,
    no_wait_option,
    options,
    output_option,
    progress_option,
    revised_option,
    unattended_option,
)
from planrunner.cli.output import print_document
from planrunner.cli.runner import attended, lay_environment, report, tell_edited, watch, with_proposals
from planrunner.cli.settings import Settings
from planrunner.errors import OK, NextStep, UsageError
from planrunner.later import Later
from planrunner.views.documents import document_of

if TYPE_CHECKING:
    from planrunner.cli.revise import revised_first
else:
    revised_first = Later("planrunner.cli.revise:revised_first")

_rerun_options = options(
    click.option("--preview", is_flag=True, help="Only show what would re-run."),
    unattended_option,
    no_wait_option,
    accept_policy_option,
    progress_option,
    output_option,
    json_option,
    revised_option,
)


def begin(given: Settings, request: RerunRequest, *, preview: bool, as_json: bool, **how: Any) -> int:
    """Show what runs again, and unless it is a ``preview`` do it; ``how`` are the other options that both commands
    have. The exit code of the run."""
    mended, params = how.pop("mended"), how.pop("params")
    if mended is not None:
        request = _revised(given, request, ReviseRequest(request.run, mended, params), preview, how["progress"])
    elif params:
        raise click.UsageError("-p goes with --plan")
    if mended is None:
        tell_edited(given, request.run)
    stale = stale_set(request, given.state, acting=not preview)
    if preview and as_json:
        print_document(document_of(stale), line=True)
        return OK
    if preview:
        sys.stdout.write(_listing(stale))
        return OK
    if how["progress"] != "quiet" and (stale.again or stale.perhaps):
        sys.stderr.write(_summary(stale))
    lay_environment(given)
    seen = watch(given, how["progress"], how["output"])
    onlooker = seen if how["no_wait"] or how["unattended"] else attended(given, seen)
    request = request._replace(unattended=how["unattended"], accepts_policy=how["accept_policy"])
    result = with_proposals(rerun(request, given.state, onlooker), onlooker, how["unattended"])
    return report(result, as_json)


def _revised(
    given: Settings, request: RerunRequest, revision: ReviseRequest, preview: bool, progress: str
) -> RerunRequest:
    """The request as it stands after the run was revised."""
    if preview:
        raise click.UsageError(
            f"`planrunner revise {request.run} {revision.plan} --preview` shows what a revision does"
        )
    if request.retry and request.tasks:
        raise click.UsageError("--plan re-runs every failed or changed task: name no task")
    return request._replace(run=revised_first(given, revision, progress == "quiet"))


def _summary(stale: Stale) -> str:
    lines = [f"run {stale.run_id}", f"  re-runs: {_names(stale.again)}"]
    if stale.perhaps:
        lines.append(f"  re-runs only if its inputs have changed: {_names(stale.perhaps)}")
    return "\n".join([*lines, _kept(stale)]) + "\n"


def _kept(stale: Stale) -> str:
    if stale.kept == 1:
        return "  1 completed task is reused"
    return f"  {stale.kept} completed tasks are reused"


def _listing(stale: Stale) -> str:
    """The stale set, a task a line, with the digest of the call that the next one is compared with."""
    width = max(map(len, (*stale.again, *stale.perhaps)), default=0)
    lines = [f"run {stale.run_id}"]
    if stale.again:
        lines += ["  re-runs:", *[_line(stale, name, width) for name in stale.again]]
    if stale.perhaps:
        lines.append("  re-runs only if its inputs have changed:")
        lines += [_line(stale, name, width) for name in stale.perhaps]
    return "\n".join([*lines, _kept(stale)]) + "\n"


def _line(stale: Stale, name: str, width: int) -> str:
    facts = []
    if name in stale.inside:
        count = len(stale.inside[name])
        facts.append("1 inner task is compared" if count == 1 else f"{count} inner tasks are compared one by one")
    elif name in stale.calls:
        facts.append(f"was called with {stale.calls[name][:12]}")
    if name in stale.finals:
        facts.append("under `finally`")
    return f"    {name.ljust(width)}  {', '.join(facts)}".rstrip()


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown


@click.command("rerun")
@click.argument("run", shell_complete=RUN)
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...", shell_complete=TASK)
@click.option("--downstream", is_flag=True, help="Re-run every dependent task, whatever it declares.")
@click.option("--keep-unchanged", is_flag=True, help="Reuse results of dependent tasks whose call is unchanged.")
@click.option("--only-failed", is_flag=True, help="Do not re-run completed tasks.")
@_rerun_options
@click.pass_context
def rerun_command(ctx: click.Context, /, run: str, tasks: tuple[str, ...], **how: Any) -> int:
    """Re-run tasks of a run, also of one that has completed.

    Dependent tasks re-run too, also inside subplans, loops and fan-outs. A result is reused only if the inputs are
    unchanged and the task is pure, declares `effect: read` or calls a model, or if its `fresh` says so. Tasks under
    `finally` re-run.

    \b
    Examples:
      planrunner rerun last build --preview
      planrunner rerun last build --keep-unchanged
      planrunner rerun last "fetch[3]"
    """
    wide = {name: bool(how.pop(name)) for name in ("downstream", "keep_unchanged", "only_failed")}
    if wide["downstream"] and wide["keep_unchanged"]:
        raise UsageError("--downstream and --keep-unchanged exclude each other", NextStep("rerun", "--help"))
    return begin(given_settings(ctx), RerunRequest(run, tasks, **wide), **how)


@click.command("retry")
@click.argument("run", shell_complete=RUN)
@click.argument("tasks", nargs=-1, metavar="[TASK]...", shell_complete=TASK)
@_rerun_options
@click.pass_context
def retry_command(ctx: click.Context, /, run: str, tasks: tuple[str, ...], **how: Any) -> int:
    """Retry tasks that failed, were cancelled or were undone, with the tasks that did not run because of them, and
    continue.

    A failed item of a fan-out, or a failed step of a subplan, is retried alone; completed tasks keep their results.
    Tasks under `finally` re-run.

    \b
    Examples:
      planrunner retry last
      planrunner retry last "fetch[3]"
      planrunner retry last "polish#2/draft"
    """
    return begin(given_settings(ctx), RerunRequest(run, tasks, retry=True), **how)
