"""Checkpoints as text: the columns of the list, and what one of them holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from planrunner.escapes import harmless
from planrunner.jsontext import as_text
from planrunner.views.status import counts_text
from planrunner.views.terminal import Terminal, plural

if TYPE_CHECKING:
    from planrunner.machine.events import CheckpointTaken
    from planrunner.machine.state import State

Json = Any


SHOWN = 20
"""Paths of one kind of change that are listed."""

LONG = 160
"""Characters of a value that are shown."""


def columns(taken: CheckpointTaken | None) -> tuple[str, str]:
    """What was kept, and how it differs from what was kept before: two cells of the list."""
    if taken is None:
        return "", ""
    if not taken.files:
        return "none" if taken.problem else "", ""
    held = f"{taken.held}{' (not whole)' if taken.problem else ''}"
    return held, f"+{taken.added} ~{taken.changed} -{taken.removed}" if taken.since else "first"


def warning(task: str, taken_files: bool, problem: str) -> str:
    """The sentence that says what a checkpoint lacks."""
    what = "does not hold every file" if taken_files else "holds no files"
    return f"the checkpoint of {harmless(task)} {what}: {harmless(problem)}"


def warnings(terminal: Terminal, state: State) -> list[str]:
    """A line for each checkpoint that lacks something."""
    if state.checkpoints is None:
        return []
    problems = state.checkpoints.problems.items()
    return [f"  {terminal.sign('in_doubt')} {warning(task, *problem)}" for task, problem in problems]


def lines(terminal: Terminal, document: dict[str, Json], clock: str) -> list[str]:
    """Everything that a checkpoint holds; ``clock`` is its time as people read it."""
    head = terminal.paint(harmless(document["checkpoint"]), "bold")
    where = "the run ended with it" if document["ended"] else f"entry {document['entry']}"
    shown = [f"{head} of run {document['run_id']} ({harmless(document['plan'])}), {where}, {clock}"]
    shown += _part("tasks", [counts_text(document["tasks"])])
    shown += _part("parameters", [f"{name} = {_value(value)}" for name, value in document["params"].items()])
    shown += _part("outputs", list(_outputs(document["outputs"])))
    shown += _part("artifacts", [_artifact(record) for record in document["artifacts"]])
    shown += _part("decisions", [_decision(one) for one in document["decisions"]])
    shown += _part("evidence", [_criterion(one) for one in document["evidence"]])
    shown += _part("files", list(_files(document["files"])) if document["files"] else [])
    environment = {**document["environment"]}
    variables = environment.pop("env", None) or {}
    if settings := environment.pop("settings", None):
        environment["settings"] = settings["digest"][:12]
    here = [f"{name} {_value(value)}" for name, value in environment.items() if value]
    return shown + _part("environment", here + [f"${name} = {_value(value)}" for name, value in variables.items()])


def _part(title: str, rows: Sequence[str]) -> list[str]:
    return [title, *(f"  {row}" for row in rows)] if rows else []


def _value(value: Json) -> str:
    text = harmless(as_text(value, LONG).replace("\n", "\\n"))
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


def _outputs(outputs: dict[str, dict[str, Json]]) -> Iterator[str]:
    for task, values in outputs.items():
        for name, value in values.items():
            yield f"{harmless(task)}.{harmless(name)} = {_value(value)}"


def _artifact(record: dict[str, Json]) -> str:
    path = harmless(str(record.get("path") or record.get("name", "")))
    return f"{harmless(record['task'])}: {path} ({str(record.get('sha256', ''))[:12]})"


def _decision(one: dict[str, Json]) -> str:
    by = f" by {', '.join(map(harmless, one['by']))}" if one["by"] else ""
    why = f": {_value(one['reason'])}" if one["reason"] else ""
    return f"{harmless(one['task'])} {one['decision']}{by}{why}"


def _criterion(one: dict[str, Json]) -> str:
    held = "holds" if one["holds"] else f"does not hold: {_value(one.get('why', ''))}"
    by = " (decided by people)" if one["by"] == "people" else ""
    return f"{harmless(one['task'])}: `{_value(one['criterion'])}` {held}{by}"


def _files(files: dict[str, Json]) -> Iterator[str]:
    if "manifest" not in files:
        yield f"none: {harmless(files['problem'])}"
        return
    of = "" if files["own"] else f", of {harmless(files['of'])}, the newest one with files before"
    yield f"{plural(files['held'], 'path')}, {files['size']:,} bytes{of}"
    if files["git"]:
        branch = f" on {harmless(files['git']['branch'])}" if files["git"].get("branch") else ""
        head = files["git"].get("head", "")
        yield f"git {head[:12] if head else 'without a commit'}{branch}"
    if files["patterns"]:
        yield f"limited to {', '.join(map(harmless, files['patterns']))}"
    if files["problem"]:
        yield f"not whole: {harmless(files['problem'])}"
    if not files["since"]:
        yield "the first one of the run: nothing to compare it with"
    for name in ("added", "changed", "removed"):
        for path in files[name][:SHOWN]:
            yield f"{name} {_value(path)}"
        if len(files[name]) > SHOWN:
            yield f"{name} {len(files[name]) - SHOWN} more"
