"""What ``retry`` and ``rerun`` share: the set of tasks shown first, then the run."""

from __future__ import annotations

import sys

from planrunner.app.rerun import RerunRequest, Stale, begin_anew, preview
from planrunner.cli.running import report, tell_edited, watch
from planrunner.cli.settings import Settings
from planrunner.errors import OK


def begin(given: Settings, request: RerunRequest, only_tell: bool, as_json: bool) -> int:
    """Show what begins anew, and unless ``only_tell`` do it; the exit code of the run."""
    stale = preview(request, given.state)
    if only_tell and as_json:
        from json import dumps

        sys.stdout.write(dumps({"format": 1, **stale._asdict()}, ensure_ascii=False) + "\n")
        return OK
    (sys.stdout if only_tell else sys.stderr).write(_told(stale))
    if only_tell:
        return OK
    result = begin_anew(request, given.state, watch(given, "auto"))
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
