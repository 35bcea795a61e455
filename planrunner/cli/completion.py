"""``planrunner completion``, and the words that a shell may complete: plans, runs, tasks and gates.

The scripts and their protocol are click's. ``completes`` makes the ``shell_complete`` of a click parameter.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from planrunner.cli.group import COMPLETE, planrunner
from planrunner.later import Later

if TYPE_CHECKING:
    from planrunner.app.follow.summaries import recent
    from planrunner.app.history.show import look
    from planrunner.app.people.gates import waiting
    from planrunner.app.plans.files import project_plans
    from planrunner.machine.questions import limits_of
    from planrunner.machine.windows import windows
    from planrunner.plan.names import plan_name
else:
    look = Later("planrunner.app.history.show:look")
    waiting = Later("planrunner.app.people.gates:waiting")
    project_plans = Later("planrunner.app.plans.files:project_plans")
    windows = Later("planrunner.machine.windows:windows")
    plan_name = Later("planrunner.plan.names:plan_name")
    recent = Later("planrunner.app.follow.summaries:recent")
    limits_of = Later("planrunner.machine.questions:limits_of")


Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
Candidates = Callable[[click.Context, str], Iterable[tuple[str, str]]]
"""From the context of the call so far and the beginning of the word to values with a description each."""

SHELLS = ("bash", "fish", "zsh")

_MOST = 200
"""Tasks that are offered at the most."""


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> int:
    """Print a completion script for a shell.

    \b
    Examples:
      eval "$(planrunner completion bash)"
      planrunner completion zsh > ~/.zfunc/_planrunner
      planrunner completion fish > ~/.config/fish/completions/planrunner.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, shell
    click.echo(kind(planrunner, {}, "planrunner", COMPLETE).source())
    return 0


def completes(candidates: Candidates) -> Complete:
    """Offers the candidates that begin with the word; none where they cannot be found, since a shell shows no error."""

    def complete(ctx: click.Context, _: click.Parameter, word: str) -> list[CompletionItem]:
        try:
            return [CompletionItem(value, help=text) for value, text in candidates(ctx, word) if value.startswith(word)]
        except Exception:
            return []

    return complete


def _state(ctx: click.Context) -> str | None:
    """The state directory that the options before the command name. Nothing but completion is done in this process, so
    the working directory is changed as ``-C`` says."""
    given = ctx.find_root().params
    if given.get("directory"):
        os.chdir(given["directory"])
    return given.get("state") or os.environ.get("PLANRUNNER_STATE") or None


def _plans(ctx: click.Context, _: str) -> list[tuple[str, str]]:
    """The plans of the project by their names; of two with one name the paths."""
    _state(ctx)
    plans = [(plan_name(path), path, title) for path, title in project_plans()]
    count = Counter(name for name, _, _ in plans)
    return [(name if count[name] == 1 else path, title) for name, path, title in plans]


def _runs(ctx: click.Context, _: str) -> list[tuple[str, str]]:
    rows = recent(_state(ctx), limit=30)
    plans = [(plan, "the newest run of this plan") for plan in dict.fromkeys(row.plan_id for row in rows)]
    return [("last", "the newest run"), *plans, *((row.run, row.plan_id) for row in rows)]


def _tasks(ctx: click.Context, word: str) -> list[tuple[str, str]]:
    """The tasks of the run; of very many only the outermost."""
    candidates = [
        task for task in look(ctx.params.get("run") or "last", _state(ctx)).state.specs if task.id.startswith(word)
    ]
    if len(candidates) > _MOST:
        candidates = sorted(candidates, key=lambda task: _depth(task.id))[:_MOST]
    return [(task.id, task.title) for task in candidates]


def _depth(path: str) -> int:
    return sum(path.count(sign) for sign in "/[#@")


def _runs_and_tasks(ctx: click.Context, word: str) -> list[tuple[str, str]]:
    """The tasks of a run that is named already; else runs, and the tasks of the newest one."""
    if words := ctx.params.get("words"):
        ctx.params["run"] = words[0]
        return _tasks(ctx, word)
    return [*_runs(ctx, word), *_tasks(ctx, word)]


def _gates(ctx: click.Context, _: str) -> list[tuple[str, str]]:
    (run,) = waiting(ctx.params["run"], _state(ctx))
    gates = [(each.name, run.state.tasks[each.task].detail) for each in run.questions if each.kind == "gate"]
    opened = windows(run.state, [run.state.index[name] for name, _ in gates]).values()
    named = [(window.name, f"a window of {len(window.waiting)} gates") for window in opened if not window.coming]
    return [*gates, *named, *((limit.name, limit.ask) for limit in limits_of(run.questions))]


PLAN = completes(_plans)
RUN = completes(_runs)
TASK = completes(_tasks)
RUN_OR_TASK = completes(_runs_and_tasks)
GATE = completes(_gates)
