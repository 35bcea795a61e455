"""What ``approve``, ``reject`` and ``answer`` share: the vote, what became of it, and going on with the run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from planrunner.app.gates import Voted, vote
from planrunner.cli.amounts import parse_amounts
from planrunner.cli.options import ResumeOptions
from planrunner.cli.running import resume_run
from planrunner.cli.settings import Settings
from planrunner.cli.steering import note
from planrunner.errors import DENIED, MISMATCH, OK, Denied, PlanrunnerError, RecordMismatch, UsageError

Json = Any
_Command = Callable[..., Any]

_OPTIONS = (
    click.option("--as", "by", metavar="NAME", default="", help="Who you are, where the system does not know."),
    click.option("--role", "roles", multiple=True, metavar="ROLE", help="A role you have; may be repeated."),
    click.option(
        "--shown", default="", metavar="DIGEST", help="Only if this is what is asked: see `planrunner gates`."
    ),
    click.option("--resume", "go_on", is_flag=True, help="Go on with the run at once."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)


def amounts(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """The values of ``--add``."""
    try:
        return parse_amounts(values)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def voting_options(command: _Command) -> _Command:
    """The options that the three commands have in common."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def cast(given: Settings, run: str, gate: str, body: dict[str, Json], *, go_on: bool, as_json: bool) -> int:
    """Vote, tell what became of it, and go on with the run where that is wanted; the exit code of the contract."""
    voted = vote(run, gate, {name: value for name, value in body.items() if value}, given.state)
    for one in voted:
        note(one.steered)
    refused = [one for one in voted if not one.steered.answer.applied]
    if as_json:
        sys.stdout.write(json.dumps([_as_data(one) for one in voted], ensure_ascii=False) + "\n")
        sys.stdout.flush()
    else:
        _tell(given, voted)
    if refused:
        raise _refusal(given, refused[0])
    steered = voted[-1].steered
    if go_on and not steered.held and not steered.ended:
        return resume_run(given, ResumeOptions(steered.run_id))
    return OK


def _as_data(voted: Voted) -> dict[str, Json]:
    answer = voted.steered.answer
    return {
        "format": 1,
        "run_id": voted.steered.run_id,
        "gate": voted.gate,
        "applied": answer.applied,
        "message": answer.message,
        "held": voted.steered.held,
    }


def _tell(given: Settings, voted: list[Voted]) -> None:
    for one in voted:
        if one.steered.answer.applied:
            sys.stderr.write(f"run {one.steered.run_id}: {one.steered.answer.message}\n")
    last = voted[-1].steered
    if last.answer.applied and not last.held and not last.ended:
        sys.stderr.write(f"  {given.program} resume {last.run_id}\n")


def _refusal(given: Settings, voted: Voted) -> PlanrunnerError:
    answer = voted.steered.answer
    kinds: dict[int, type[PlanrunnerError]] = {MISMATCH: RecordMismatch, DENIED: Denied}
    kind = kinds.get(answer.code, UsageError)
    return kind(f"run {voted.steered.run_id}: {answer.message}", f"{given.program} gates {voted.steered.run_id}")
