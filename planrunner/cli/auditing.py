"""What each action of ``planrunner audit`` prints; the names are those of the actions."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from planrunner.app import audit as proof
from planrunner.app.auditlines import lines, text_of, verify_export
from planrunner.app.refused import NAME as REFUSED
from planrunner.cli.settings import Settings, output
from planrunner.errors import MISMATCH, OK, UsageError
from planrunner.journal.verifying import Verdict
from planrunner.views.terminal import harmless


def verify_journal(
    settings: Settings, run: str | None, heads: Sequence[str] = (), path: str = "", as_json: bool = False
) -> int:
    if path:
        found, told = verify_export(path, proof.anchors_of(heads)), list[dict[str, Any]]()
    else:
        found, told = proof.verify(run, settings.state, heads), proof.accepted(settings.state)
    if as_json:
        sys.stdout.write(json.dumps(_data(found, told), indent=2) + "\n")
    else:
        output(settings).write("\n".join([*_text(found, journal=not path), *map(_accepted, told)]) + "\n")
    return MISMATCH if found.breaks else OK


def export_journal(settings: Settings, run: str | None, form: str = "jsonl", target: str = "") -> int:
    file = _created(target) if target else sys.stdout
    try:
        for line in lines(run, settings.state):
            text = line if form == "jsonl" else harmless(text_of(line))
            if text:
                file.write(text + "\n")
    finally:
        if target:
            file.close()
    return OK


def head_journal(settings: Settings, run: str | None) -> int:
    found = proof.verify(run, settings.state)
    for each in found.runs:
        sys.stdout.write(f"{each.run}:{each.events}:{each.link}\n")
    if found.breaks:
        sys.stderr.write("\n".join(_text(found, journal=True)) + "\n")
    return MISMATCH if found.breaks else OK


def accept_journal(settings: Settings, run: str | None, because: str, as_json: bool = False) -> int:
    found = proof.accept(run, settings.state, because)
    if as_json:
        sys.stdout.write(json.dumps(_data(found, proof.accepted(settings.state)), indent=2) + "\n")
    else:
        count = len(found.breaks)
        told = "nothing was wrong" if not count else f"taken as it stands, with {_findings(count)}"
        output(settings).write(f"{told}\n")
    return OK


def _data(found: Verdict, accepted: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "format": 1,
        "intact": not found.breaks,
        "runs": [each._asdict() for each in found.runs],
        "breaks": [each._asdict() for each in found.breaks],
        "pruned": found.pruned,
        "heads": found.heads,
        "accepted": accepted,
    }


def _text(found: Verdict, journal: bool) -> list[str]:
    """The verdict, then each break; what limits it follows."""
    refused = sum(each.events for each in found.runs if each.run == REFUSED)
    runs = sum(each.run != REFUSED for each in found.runs)
    events = sum(each.events for each in found.runs) - refused
    if found.breaks:
        rows = [f"broken: {_findings(len(found.breaks))}"]
        rows += [f"  {each.run or 'the journal'}: {each.kind}: {harmless(each.message)}" for each in found.breaks]
    else:
        rows = [f"intact: {runs} run{'s' * (runs != 1)}, {events} event{'s' * (events != 1)}"]
        rows[0] += f", {refused} refusal{'s' * (refused != 1)}" if refused else ""
        rows[0] += f", {found.pruned} pruned" if found.pruned else ""
    if journal and not found.heads and runs:
        rows.append("  no heads are kept here: a cut tail or an old copy can only be told with `--head`")
    for each in found.runs:
        if each.since > 1:
            rows.append(f"  {each.run} is chained from event {each.since} on, which covers those before it together")
        if found.heads and each.anchored < each.events:
            rows.append(f"  {each.run}: the heads reach event {each.anchored} of {each.events}; the rest chains on")
    return rows


def _findings(count: int) -> str:
    return f"{count} finding{'s' * (count != 1)}"


def _accepted(told: dict[str, Any]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(told["at"]))
    what = told.get("run") or "the journal"
    return harmless(f"  {what} was taken as it stood by {told['by']} on {when}: {told['because']}")


def _created(path: str) -> Any:
    try:
        return os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="utf-8"
        )
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error


ACTIONS: dict[str, Callable[..., int]] = {
    "verify": verify_journal,
    "export": export_journal,
    "head": head_journal,
    "accept": accept_journal,
}
