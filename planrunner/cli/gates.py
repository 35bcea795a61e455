"""``planrunner gates``."""

from __future__ import annotations

import json
import time

import click

from planrunner.app.gates import waiting
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.settings import output
from planrunner.views.gates import budget_gate_lines, decided_lines, gate_lines, gate_objects, watchdog_lines


@click.command("gates")
@click.argument("run", default="", shell_complete=RUN)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def gates_command(ctx: click.Context, /, run: str, as_json: bool) -> int:
    """List what waits for people: gates, used-up budgets and slow tasks of every run, or of RUN with what they show.

    \b
    Examples:
      planrunner gates
      planrunner gates last
      planrunner gates --json
    """
    given = given_settings(ctx)
    found = waiting(run or None, given.state)
    if as_json:
        gates = [
            {"run_id": one.state.run_id, "plan": one.state.plan.id, "held": one.held, **gate}
            for one in found
            for gate in gate_objects(one.state, time.time())
        ]
        decided = [
            {"run_id": one.state.run_id, "plan": one.state.plan.id, "held": one.held, "gate": task, "decision": words}
            for one in found
            for task, words in ((one.state.specs[number].id, words) for number, words in one.decided.items())
        ]
        click.echo(
            json.dumps({"format": 1, "gates": gates, "decided": decided}, indent=2, ensure_ascii=False, default=str)
        )
        return 0
    screen = output(given)
    lines: list[str] = []
    for one in found:
        if one.gates or one.budgets or one.decided or one.watched:
            lines.append(f"{one.state.plan.id}  run {one.state.run_id}")
            for number in one.gates:
                lines += gate_lines(screen, one.state, number, time.time(), bool(run))
            for number in one.watched:
                lines += watchdog_lines(screen, one.state, number)
            for asked in one.budgets:
                lines += budget_gate_lines(screen, one.state, asked)
            lines += decided_lines(screen, one.state, one.decided)
    screen.write("\n".join(lines or ["nothing waits for people"]) + "\n")
    return 0
