"""What ``retry`` and ``rerun`` share: the set of tasks shown first, then the run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from planrunner.app.rerun import RerunRequest, Stale, begin_anew
from planrunner.app.rerun import preview as stale_set
from planrunner.cli.options import UNATTENDED
from planrunner.cli.running import attended, report, tell_edited, watch
from planrunner.cli.settings import Settings
from planrunner.errors import OK

_Command = Callable[..., Any]

_OPTIONS = (
    click.option("--preview", is_flag=True, help="Only tell what would begin anew."),
    click.option("--unattended", is_flag=True, help=UNATTENDED),
    click.option("--no-wait", is_flag=True, help="At a terminal too, leave with code 8 where a gate waits."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)


def anew_options(command: _Command) -> _Command:
    """The options that both commands have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def begin(
    given: Settings, request: RerunRequest, *, preview: bool, as_json: bool, no_wait: bool, unattended: bool
) -> int:
    """Show what begins anew, and unless it is a ``preview`` do it; the exit code of the run."""
    stale = stale_set(request, given.state)
    if preview and as_json:
        from json import dumps

        sys.stdout.write(dumps({"format": 1, **stale._asdict()}, ensure_ascii=False) + "\n")
        return OK
    (sys.stdout if preview else sys.stderr).write(_told(stale))
    if preview:
        return OK
    seen = watch(given, "auto")
    onlooker = seen if no_wait or unattended else attended(given, seen)
    result = begin_anew(request._replace(unattended=unattended), given.state, onlooker)
    tell_edited(result)
    return report(result, as_json)


def _told(stale: Stale) -> str:
    lines = [f"run {stale.run_id}", f"  begins anew: {_names(stale.again)}"]
    if stale.perhaps:
        lines.append(f"  begins anew if its inputs have changed by then: {_names(stale.perhaps)}")
    kept = (
        "1 task that went well stays as it is"
        if stale.kept == 1
        else f"{stale.kept} tasks that went well stay as they are"
    )
    lines.append(f"  {kept}")
    return "\n".join(lines) + "\n"


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown
