"""``planrunner resume``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from planrunner.app.runs.resume import Manner, resume
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.options import (
    RESOLUTIONS,
    ResumeOptions,
    accept_policy_option,
    no_sandbox_option,
    no_wait_option,
    output_option,
    progress_option,
    result_option,
    revised_option,
    unattended_option,
)
from planrunner.cli.runner import (
    attended,
    lay_environment,
    may_leave_sandbox,
    report,
    report_steered,
    tell_edited,
    watch,
    with_proposals,
)
from planrunner.cli.settings import Settings, may_ask
from planrunner.errors import RunHeld
from planrunner.later import Later

if TYPE_CHECKING:
    from planrunner.app.runs.checkpoints import ForkRequest, fork
    from planrunner.app.runs.control import take_back_pause
    from planrunner.app.runs.revise import ReviseRequest
    from planrunner.cli.checkpoints import Restoration, restore, tell_of_files
    from planrunner.cli.prompts import decided
    from planrunner.cli.revise import revised_first
else:
    ForkRequest = Later("planrunner.app.runs.checkpoints:ForkRequest")
    fork = Later("planrunner.app.runs.checkpoints:fork")
    ReviseRequest = Later("planrunner.app.runs.revise:ReviseRequest")
    Restoration = Later("planrunner.cli.checkpoints:Restoration")
    restore = Later("planrunner.cli.checkpoints:restore")
    tell_of_files = Later("planrunner.cli.checkpoints:tell_of_files")
    decided = Later("planrunner.cli.prompts:decided")
    revised_first = Later("planrunner.cli.revise:revised_first")
    take_back_pause = Later("planrunner.app.runs.control:take_back_pause")


def _settled(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """``task=retry`` as pairs; the values of an item of a matrix have equals signs too."""
    settled = []
    for value in values:
        name, _, resolution = value.rpartition("=")
        if not name or resolution not in RESOLUTIONS:
            ways = ", ".join(f"TASK={word}" for word in RESOLUTIONS)
            raise click.BadParameter(f"`{value}` is not one of {ways}", ctx, param)
        settled.append((name, resolution))
    return tuple(settled)


@click.command("resume")
@click.argument("run", shell_complete=RUN)
@click.option(
    "--settle",
    multiple=True,
    metavar="TASK=HOW",
    callback=_settled,
    help="Settle a task in doubt, or all inside a container: retry, completed, failed or rollback.",
)
@unattended_option
@click.option(
    "--from",
    "checkpoint",
    metavar="CHECKPOINT",
    help="Continue from a checkpoint as a new run; this run stays unchanged.",
)
@click.option("--restore-files", is_flag=True, help="With --from: restore the files of the checkpoint.")
@click.option("--yes", is_flag=True, help="Do not prompt before files change.")
@accept_policy_option
@result_option
@progress_option
@output_option
@no_wait_option
@no_sandbox_option
@revised_option
@click.pass_context
def resume_command(
    ctx: click.Context,
    /,
    checkpoint: str | None,
    restore_files: bool,
    yes: bool,
    mended: str | None,
    params: tuple[tuple[str, str], ...],
    **options: Any,
) -> int:
    """Continue a run that was interrupted or is waiting. RUN is an id, the start of one, or `last`.

    TASK of `--settle` is a path, a container of tasks in doubt, or a pattern: `fan[*]` stands for every item,
    `all` for every task in doubt.

    \b
    Examples:
      planrunner resume last
      planrunner resume last --settle tag=completed
      planrunner resume last --settle all=retry
      planrunner resume last --settle "fan[*]=retry" --settle "fan[2]=completed"
      planrunner resume last --from cp-build
      planrunner resume last --plan release.yaml
    """
    given = given_settings(ctx)
    if restore_files and checkpoint is None:
        raise click.UsageError("--restore-files goes with --from")
    if checkpoint is not None:
        request = ForkRequest(options["run"], checkpoint, state=given.state)
        if restore_files:
            restore(request, given, Restoration(yes, options["json"]))
        made = fork(request)
        if made.files:
            tell_of_files(made)
        options["run"] = made.run_id
        click.echo(f"run {made.run_id} continues from checkpoint {made.checkpoint} of {made.parent}", err=True)
    if mended is not None:
        revision = ReviseRequest(options["run"], mended, params, settle=options.pop("settle"))
        options["run"] = revised_first(given, revision, options["progress"] == "quiet")
        options["settle"] = ()
    elif params:
        raise click.UsageError("-p goes with --plan")
    return resume_run(given, ResumeOptions(**options))


def resume_run(given: Settings, options: ResumeOptions) -> int:
    """Continue a run; the exit code of the contract."""
    lay_environment(given)
    progress = watch(given, options.progress, options.output)
    if not (options.no_wait or options.unattended):
        progress = attended(given, progress)
    tell_edited(given, options.run)
    settle = options.settle
    if may_ask(given) and not (settle or options.unattended or options.no_wait):
        settle = decided(given, options.run)
    manner = Manner(options.unattended, options.accept_policy, options.no_sandbox and may_leave_sandbox(options.run))
    try:
        result = resume(options.run, settle, given.state, progress, manner)
    except RunHeld:
        taken_back = None if settle or manner != Manner() else take_back_pause(options.run, given.state)
        if taken_back is None:
            raise
        if taken_back.answer.applied:
            return report_steered(taken_back, options.json)
        result = resume(options.run, (), given.state, progress)  # it has paused meanwhile
    return report(with_proposals(result, progress, options.unattended, manner.unconfined), options.json)
