"""What a task does and what is done beside it: scripts, actions that undo or replace, freshness, watchdogs."""

from __future__ import annotations

import os
import re
from typing import Any

from planrunner.jsontext import stable_json
from planrunner.plan import lower_flow as flow
from planrunner.plan import lower_values as values
from planrunner.plan.lower_expressions import condition
from planrunner.plan.lower_values import Lowering
from planrunner.plan.model import Action, Fresh, Retry, Script, Watch, WatchAction
from planrunner.plan.shell.script import ScriptError, compile_script, simple_command
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence


def script(node: Node) -> str | tuple[str, ...] | None:
    """``run``: a script, or arguments that no shell sees. Line ends after a script mean nothing."""
    if isinstance(node, Sequence):
        return tuple(values.plain_text(item) for item in node.items if isinstance(item, Scalar))
    return node.value.rstrip("\n") if isinstance(node, Scalar) and isinstance(node.value, str) else None


def variable_of(name: str) -> str:
    """A name for an environment variable that shadows none of those that programs go by."""
    wanted = re.sub(r"[^A-Z0-9_]", "_", name.upper())
    return f"INPUT_{wanted}" if wanted in _TAKEN or not wanted[:1].isalpha() else wanted


_TAKEN = frozenset("PATH HOME USER SHELL PWD LANG TERM IFS ENV TMPDIR EDITOR PAGER LOGNAME MAIL TZ CDPATH PS1".split())


def variable_text(value: Any) -> str:
    """The text of an input as a variable: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else stable_json(value)


def made_ready(run: str | tuple[str, ...] | None) -> Script | None:
    """The script ready for the shell; one with a fault is reported by the rules and never runs."""
    if not isinstance(run, str):
        return None
    if "{{" not in run:
        return Script("", (), simple_command(run))
    try:
        ready = compile_script(run)
    except ScriptError:
        return None
    return ready if ready.values else ready._replace(text="")


def action(low: Lowering, node: Node) -> Action | None:
    """What undoes or replaces a task; None where it is said in words only."""
    if not isinstance(node, Mapping):
        return None
    found = {str(key.value): value for key, value in node.entries}
    run = script(found["run"]) if "run" in found else None
    uses = values.text(found["uses"]) if "uses" in found else ("shell" if run is not None else "")
    return Action(
        uses,
        low.with_defaults(uses, values.data(found["with"]) if "with" in found else {}),
        run,
        made_ready(run),
        flow.retry(low, found["retry"], Retry()) if "retry" in found else Retry(),
        values.duration(low, found["timeout"]) if "timeout" in found else None,
    )


def fresh(low: Lowering, node: Node) -> Fresh | None:
    """When a task counts as done already."""
    if not isinstance(node, Mapping):
        return None
    found = {str(key.value): value for key, value in node.entries}
    inputs = values.texts(found["inputs"]) if "inputs" in found else ()
    outputs = values.texts(found["outputs"]) if "outputs" in found else ()
    gitignore = "gitignore" in found and values.truth(found["gitignore"]) is True
    if (inputs or gitignore) and all(pattern.startswith("!") for pattern in inputs):
        what = "`gitignore: true`" if gitignore else f"`{inputs[0]}`"
        low.report("PLAN006", f"{what} leaves files out, and `fresh` names no `inputs` to take them from", node.span)
    for pattern in outputs:
        if pattern.startswith("!"):
            low.report("PLAN006", f"`{pattern}` leaves a file out, which only `inputs` can", found["outputs"].span)
    return Fresh(inputs, outputs, condition(low, found["when"]) if "when" in found else None, gitignore)


def kept_paths(low: Lowering, node: Node) -> tuple[str, ...]:
    """What a checkpoint keeps: patterns that stay below the directory of the run, each in one spelling."""
    found: dict[str, None] = {}
    items = node.items if isinstance(node, Sequence) else [node]
    if not items:
        low.report("PLAN006", "a checkpoint with no `paths` keeps nothing", node.span)
    for item in items:
        pattern = values.text(item)
        if problem := _unkept(pattern):
            low.report("PLAN006", f"a checkpoint cannot keep `{pattern}`: {problem}", item.span)
        elif pattern:
            found[os.path.normpath(pattern)] = None
    return tuple(found)


def _unkept(pattern: str) -> str:
    """Why a pattern is none of files of a run."""
    if "\0" in pattern:
        return "no path can hold the character NUL"
    if "{{" in pattern:
        return "its paths are taken literally, and hold no templates"
    whole = os.path.normpath(pattern)
    if whole.startswith(("/", "~")) or whole.split("/")[0] == "..":
        return "it lies outside the directory of the run"
    return "that is the whole directory, for which `checkpoint: true` stands" if pattern and whole == "." else ""


_WATCH: dict[str, WatchAction] = {"warn": "warn", "ask": "ask", "cancel": "cancel", "fail": "fail"}


def watchdog(low: Lowering, node: Node) -> tuple[Watch, ...]:
    """The steps of a watchdog in the order of the text."""
    found = []
    for item in node.items if isinstance(node, Sequence) else ():
        after, do = (item.get("after"), item.get("do")) if isinstance(item, Mapping) else (None, None)
        seconds = values.duration(low, after) if after is not None else None
        word = _WATCH.get(values.text(do)) if do is not None else None
        if seconds is not None and word is not None:
            found.append(Watch(seconds, word))
    return tuple(found)
