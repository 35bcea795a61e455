"""``planrunner gates``, ``approve``, ``reject`` and ``answer``."""

from __future__ import annotations

import sys
import time
from typing import Any, Literal

import click

from planrunner.app.people.gates import Voted, decide, vote_document, waiting, waiting_document
from planrunner.app.people.questions import project_questions
from planrunner.cli.completion import GATE, RUN
from planrunner.cli.group import given_settings
from planrunner.cli.options import (
    Pairs,
    ResumeOptions,
    json_option,
    options,
    output_option,
    pairs,
    parse_amounts,
    progress_option,
)
from planrunner.cli.output import print_document
from planrunner.cli.resume import resume_run
from planrunner.cli.runner import report_notices
from planrunner.cli.settings import Settings, output
from planrunner.errors import DENIED, MISMATCH, OK, Denied, PlanrunnerError, RecordMismatch, UsageError
from planrunner.journal.workspace import find_project
from planrunner.machine.requests import Vote
from planrunner.views.gates import decided_lines, project_lines, waiting_lines

Json = Any


@click.command("gates")
@click.argument("run", default="", shell_complete=RUN)
@json_option
@click.pass_context
def gates_command(ctx: click.Context, /, run: str, as_json: bool) -> int:
    """List what waits for a person: tasks in doubt, gates, used-up budgets and slow tasks of all runs, or of RUN.

    Without RUN also plans of the project to trust, and triggers that would start nothing.

    \b
    Examples:
      planrunner gates
      planrunner gates last
      planrunner gates --json
    """
    given = given_settings(ctx)
    runs = waiting(run or None, given.state)
    of_project = [] if run else project_questions(find_project(None))
    if as_json:
        print_document(waiting_document(runs, time.time(), of_project))
        return 0
    screen = output(given)
    lines: list[str] = []
    for one in sorted(runs, key=lambda one: all(question.kind != "doubt" for question in one.questions)):
        if one.asks:
            lines.append(f"{one.state.plan.id}  run {one.state.run_id}")
            lines += waiting_lines(screen, one.state, one.questions, time.time(), bool(run))
            lines += decided_lines(screen, one.state, one.decided)
    for question in of_project:
        lines += project_lines(screen, question)
    screen.write("\n".join(lines or ["nothing waits for people"]) + "\n")
    return 0


_voting_options = options(
    click.option("--as", "by", metavar="NAME", default="", help="Your name, if the system does not know it."),
    click.option("--role", "roles", multiple=True, metavar="ROLE", help="A role you have; may be repeated."),
    click.option(
        "--shown", default="", metavar="DIGEST", help="Refuse unless the gate still shows this: see `planrunner gates`."
    ),
    click.option("--resume", "go_on", is_flag=True, help="Continue the run at once."),
    progress_option,
    output_option,
    json_option,
)


def amounts(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """The values of ``--add``."""
    try:
        return parse_amounts(values)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def _cast(ctx: click.Context, run: str, gate: str, verdict: Literal["approve", "reject"], said: dict[str, Any]) -> int:
    """Vote, tell what became of it, and continue with the run where that is wanted; the exit code of the contract."""
    given = given_settings(ctx)
    go_on, as_json, progress, shown = (said.pop(name) for name in ("go_on", "as_json", "progress", "output"))
    if not go_on and (progress != "auto" or shown is not None):
        raise click.UsageError("--progress and --output go with --resume")
    voted = decide(run, Vote(gate, verdict, **said), given.state)
    for one in voted:
        report_notices(one.steered)
    refused = [one for one in voted if not one.steered.answer.applied]
    if as_json:
        print_document([vote_document(one) for one in voted], line=True)
    else:
        _tell(given, voted, go_on)
    if refused:
        raise _refusal(given, refused[0])
    steered = voted[-1].steered
    if go_on and not steered.held and not steered.ended:
        return resume_run(given, ResumeOptions(steered.run_id, progress=progress, output=shown))
    return OK


def _tell(given: Settings, voted: list[Voted], go_on: bool) -> None:
    for one in voted:
        if one.steered.answer.applied:
            sys.stderr.write(f"run {one.steered.run_id}: {one.steered.answer.message}\n")
    last = voted[-1].steered
    if last.answer.applied and not last.held and not last.ended and not go_on:
        sys.stderr.write(f"  {given.program} resume {last.run_id}\n")


def _refusal(given: Settings, voted: Voted) -> PlanrunnerError:
    answer = voted.steered.answer
    kinds: dict[int, type[PlanrunnerError]] = {MISMATCH: RecordMismatch, DENIED: Denied}
    kind = kinds.get(answer.code, UsageError)
    step = f"{given.program} gates {voted.steered.run_id}"
    hint = f"vote as one of them with `--as NAME`; {step} has the command" if kind is Denied else step
    return kind(f"run {voted.steered.run_id}: {answer.message}", hint)


@click.command("approve")
@click.argument("run", shell_complete=RUN)
@click.argument("gate", shell_complete=GATE)
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the decision.")
@click.option("--add", multiple=True, metavar="WHAT=AMOUNT", callback=amounts, help="Add to a budget; may be repeated.")
@_voting_options
@click.pass_context
def approve_command(ctx: click.Context, /, run: str, gate: str, **said: Any) -> int:
    """Approve a gate. GATE is the path of a task, the end of one, or a pattern such as `each[*]/sign`.

    The approval covers only what the gate shows now; with --shown it is refused if that is not what you reviewed. To
    approve a used-up budget (`budget`, or TASK/budget), add to it with --add.

    \b
    Examples:
      planrunner approve last sign-off --reason "the notes are complete"
      planrunner approve last sign-off --as ana --role release --shown 1f2e3d4c5b6a
      planrunner approve last 'deploy[*]/sign' --resume
      planrunner approve last budget --add 'cost=$2' --resume
    """
    return _cast(ctx, run, gate, "approve", said)


@click.command("reject")
@click.argument("run", shell_complete=RUN)
@click.argument("gate", shell_complete=GATE)
@click.option("--reason", required=True, metavar="TEXT", help="Why; passed to the tasks that re-run.")
@click.option("--rework", is_flag=True, help="Refuse unless the rejection sends the run back to an earlier task.")
@_voting_options
@click.pass_context
def reject_command(ctx: click.Context, /, run: str, gate: str, **said: Any) -> int:
    """Reject a gate: one rejection by a person who may decide is enough.

    The plan says what follows (`on_reject`): the gate fails, another task runs, or the run goes back to an earlier task
    with your reason as the comment. Rejecting a budget stops the tasks that need it.

    \b
    Examples:
      planrunner reject last sign-off --reason "the second figure is wrong"
      planrunner reject last sign-off --reason "shorter, please" --rework --resume
    """
    return _cast(ctx, run, gate, "reject", said)


@click.command("answer")
@click.argument("run", shell_complete=RUN)
@click.argument("gate", shell_complete=GATE)
@click.argument("choice", metavar="[OPTION]", default="")
@click.option("-f", "--field", "fields", multiple=True, metavar="FIELD=VALUE", callback=pairs, help="Fill a field.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the decision.")
@_voting_options
@click.pass_context
def answer_command(ctx: click.Context, /, run: str, gate: str, fields: Pairs, **said: Any) -> int:
    """Choose an option of a gate, or fill in its form. The values become outputs of the gate.

    \b
    Examples:
      planrunner answer last way later --reason "after the holidays"
      planrunner answer last limits -f size=50MB -f strict=yes --resume
    """
    return _cast(ctx, run, gate, "approve", {"fields": dict(fields), **said})
