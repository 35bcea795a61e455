"""``planrunner revise`` and ``diff``, and ``--plan`` of the commands that continue a run."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import click

from planrunner.app.history.compare import comparison, is_run, recorded_or_file
from planrunner.app.runs import proposals
from planrunner.app.runs.revise import ReviseRequest, compared, preview, revise
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.options import PlanPath, json_option, params_option
from planrunner.cli.output import print_document
from planrunner.cli.prompts import consent
from planrunner.cli.settings import Settings, messages, output
from planrunner.errors import OK, UsageError
from planrunner.views.compare import comparison_document, comparison_lines
from planrunner.views.revision import (
    Revision,
    declined_document,
    difference_document,
    difference_lines,
    proposal_lines,
    proposal_object,
    revision_lines,
    revision_object,
)


@click.command("revise")
@click.argument("run", shell_complete=RUN)
@click.argument("plan", required=False, type=PlanPath())
@params_option()
@click.option("--accept", "accepted", metavar="DIGEST", help="Accept the proposed plan with this digest.")
@click.option("--decline", is_flag=True, help="Decline the proposed plan and keep the current one.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the run.")
@click.option("--keep-unchanged", is_flag=True, help="Reuse every result whose call is unchanged.")
@click.option("--preview", "only_preview", is_flag=True, help="Only show what would change and what would re-run.")
@click.option(
    "--trust", default="", metavar="DIGEST", help="Accept a plan from outside the project if this is its digest."
)
@json_option
@click.pass_context
def revise_command(
    ctx: click.Context, /, run: str, plan: str | None, only_preview: bool, as_json: bool, **how: Any
) -> int:
    """Give a run its next revision: the plan in the file PLAN. `planrunner resume` continues the run.

    Completed tasks keep their results if their definition and their inputs are unchanged; changed, new and failed
    tasks run, and the tasks that depend on them. Without PLAN, show the plan that the run proposes.

    \b
    Examples:
      planrunner revise last release.yaml --preview
      planrunner revise last release.yaml --reason "the mirror has moved"
      planrunner retry last --plan release.yaml
      planrunner revise last --accept 3f2a91c0de11
    """
    given = given_settings(ctx)
    accepted, decline = how.pop("accepted"), how.pop("decline")
    if plan is None or accepted or decline:
        if plan is not None or (accepted and decline) or (how["params"] or how["keep_unchanged"] or how["trust"]):
            raise UsageError("--accept and --decline apply to the proposed plan; remove the other arguments")
        return _proposed(given, run, (accepted or "", decline, how["reason"]), as_json)
    request = ReviseRequest(run, plan, ask=partial(consent, given, False), **how)
    made = preview(request, given.state) if only_preview else revise(request, given.state)
    return _told(given, made, as_json, not only_preview)


def _proposed(given: Settings, run: str, answer: tuple[str, bool, str], as_json: bool) -> int:
    """Show, accept or decline what a run proposes."""
    accepted, decline, reason = answer
    screen = messages(given)
    if decline:
        run_id = proposals.decline(run, reason, given.state)
        if as_json:
            print_document(declined_document(run_id), line=True)
        else:
            screen.write(f"run {run_id} keeps its plan; continue: {given.program} resume {run_id}\n")
        return OK
    if accepted:
        made = proposals.accept(run, accepted, reason, given.state)
        return _told(given, made, as_json, True)
    proposal = proposals.open_proposal(run, given.state)
    made = proposals.shown(proposal, given.state)
    if as_json:
        print_document(proposal_object(proposal, made), line=True)
    else:
        sys.stdout.write("".join(f"{line}\n" for line in proposal_lines(output(given), proposal, made)))
    return OK


def _told(given: Settings, made: Revision, as_json: bool, recorded: bool) -> int:
    if as_json:
        print_document(revision_object(made, recorded), line=True)
        return OK
    screen = messages(given)
    sys.stdout.write("".join(f"{line}\n" for line in revision_lines(screen, made)))
    if made.changed and recorded:
        screen.write(f"continue: {given.program} resume {made.run_id}\n")
    return OK


def revised_first(given: Settings, request: ReviseRequest, quiet: bool) -> str:
    """Revise a run before something else is done with it; gives its id."""
    made = revise(request._replace(ask=partial(consent, given, False)), given.state)
    if not quiet:
        screen = messages(given)
        screen.write("".join(f"{line}\n" for line in revision_lines(screen, made)))
    return made.run_id


@click.command("diff")
@click.argument("one", shell_complete=RUN)
@click.argument("other", shell_complete=RUN)
@json_option
@click.pass_context
def diff_command(ctx: click.Context, /, one: str, other: str, as_json: bool) -> int:
    """Compare two runs, or two plans.

    Two runs: plan, parameters, versions, decisions and outcomes, the first difference and what follows from it. A run
    is an id, the start of one, `last`, or a file that `events --export` wrote.

    Two plans: tasks, edges, gates, budgets, policy, parameters. Each is a plan file or a revision of a run: RUN@1 is
    the plan it started with. A run beside a plan stands for its current plan.

    \b
    Examples:
      planrunner diff 20261121-1433 last
      planrunner diff last@1 last@2
      planrunner diff last release.yaml
    """
    given = given_settings(ctx)
    if is_run(one) and is_run(other):
        made = comparison(recorded_or_file(one, given.state), recorded_or_file(other, given.state))
        document, lines = comparison_document(made), comparison_lines(output(given), made)
    else:
        difference = compared(one, other, given.state)
        document = difference_document(one, other, difference)
        lines = difference_lines(output(given), difference) or ["the plans are the same"]
    if as_json:
        print_document(document, line=True)
    else:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return OK
