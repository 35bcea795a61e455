"""What a task does and what is done beside it: scripts, linked plans, actions that undo or replace, watchdogs."""

from __future__ import annotations

import os
import re
from typing import Any

from planrunner.jsontext import stable_json
from planrunner.plan.files import Fault
from planrunner.plan.lower import flow as flow
from planrunner.plan.lower import values as values
from planrunner.plan.lower.values import Lowering, condition
from planrunner.plan.model import Action, Fresh, Param, Plan, Retry, Script, Watch, WatchAction
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.params import misfit, numbers_of
from planrunner.plan.shell.quoting import ScriptError, compile_script, simple_command
from planrunner.plan.templated import is_template
from planrunner.source import Span
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


def made_ready(run: str | tuple[str, ...] | None, params: tuple[Param, ...] = ()) -> Script | None:
    """The script ready for the shell, in a plan with these parameters; one with a fault is reported by the rules and
    never runs."""
    if not isinstance(run, str):
        return None
    if "{{" not in run:
        return Script("", (), simple_command(run))
    try:
        ready = compile_script(run, numbers_of(params))
    except ScriptError:
        return None
    return ready if ready.values else ready._replace(text="")


def action(low: Lowering, node: Node) -> Action | None:
    """What undoes or replaces a task; None where it is said in words only."""
    if not isinstance(node, Mapping):
        return None
    parts = {str(key.value): value for key, value in node.entries}
    run = script(parts["run"]) if "run" in parts else None
    uses = values.text(parts["uses"]) if "uses" in parts else ("shell" if run is not None else "")
    return Action(
        uses,
        low.with_defaults(uses, values.data(parts["with"]) if "with" in parts else {}),
        run,
        made_ready(run, low.params),
        flow.retry(low, parts["retry"], Retry()) if "retry" in parts else Retry(),
        values.duration(low, parts["timeout"]) if "timeout" in parts else None,
    )


def fresh(low: Lowering, node: Node) -> Fresh | None:
    """When a task counts as done already."""
    if not isinstance(node, Mapping):
        return None
    parts = {str(key.value): value for key, value in node.entries}
    inputs = values.texts(parts["inputs"]) if "inputs" in parts else ()
    outputs = values.texts(parts["outputs"]) if "outputs" in parts else ()
    gitignore = "gitignore" in parts and values.truth(parts["gitignore"]) is True
    if (inputs or gitignore) and all(pattern.startswith("!") for pattern in inputs):
        what = "`gitignore: true`" if gitignore else f"`{inputs[0]}`"
        low.report("PLAN006", f"{what} leaves files out, and `fresh` names no `inputs` to take them from", node.span)
    for pattern in outputs:
        if pattern.startswith("!"):
            low.report("PLAN006", f"`{pattern}` leaves a file out, which only `inputs` can", parts["outputs"].span)
    return Fresh(inputs, outputs, condition(low, parts["when"]) if "when" in parts else None, gitignore)


def kept_paths(low: Lowering, node: Node) -> tuple[str, ...]:
    """What a checkpoint keeps: patterns that stay below the directory of the run, each in one spelling."""
    result: dict[str, None] = {}
    items = node.items if isinstance(node, Sequence) else [node]
    if not items:
        low.report("PLAN006", "a checkpoint with no `paths` keeps nothing", node.span)
    for item in items:
        pattern = values.text(item)
        if problem := _unkept(pattern):
            low.report("PLAN006", f"a checkpoint cannot keep `{pattern}`: {problem}", item.span)
        elif pattern:
            result[os.path.normpath(pattern)] = None
    return tuple(result)


def _unkept(pattern: str) -> str:
    """Why a pattern cannot match files of a run."""
    if "\0" in pattern:
        return "a path cannot contain the character NUL"
    if "{{" in pattern:
        return "its paths are literal and cannot hold templates"
    whole = os.path.normpath(pattern)
    if whole.startswith(("/", "~")) or whole.split("/")[0] == "..":
        return "it lies outside the directory of the run"
    return "that is the whole directory, which is `checkpoint: true`" if pattern and whole == "." else ""


_WATCH: dict[str, WatchAction] = {"warn": "warn", "ask": "ask", "cancel": "cancel", "fail": "fail"}


def watchdog(low: Lowering, node: Node) -> tuple[Watch, ...]:
    """The steps of a watchdog in the order of the text."""
    result = []
    for item in node.items if isinstance(node, Sequence) else ():
        after, do = (item.get("after"), item.get("do")) if isinstance(item, Mapping) else (None, None)
        seconds = values.duration(low, after) if after is not None else None
        word = _WATCH.get(values.text(do)) if do is not None else None
        if seconds is not None and word is not None:
            result.append(Watch(seconds, word))
    return tuple(result)


_SEVERAL = 8
"""Parameters that a message lists."""


def linked(low: Lowering, node: Scalar) -> Plan | None:
    """The plan that ``subplan: word`` links to; a link that leads to none is reported at the word."""
    word = values.text(node)
    if low.links is None or not word:
        return None
    found = low.links.find(word)
    if isinstance(found, Fault):
        low.report(found.code, found.message, node.span, found.help)
        return None
    if services := [task.id for task in found.tasks if task.ready]:
        message = f"the subplan `{word}` has the service `{services[0]}`; only those of the outermost plan are started"
        low.report("PLAN020", message, node.span, "declare it in this plan, and let the task of the subplan need it")
    if found.breakers:
        message = f"`breakers` of the subplan `{word}` have no effect: only those of the outermost plan count"
        help_ = "write them in this plan: they count for the tasks of its subplans too"
        low.report("PLAN021", message, node.span, help_)
    return found


def check_params(low: Lowering, word: str, plan: Plan, node: Node | None, place: Span) -> None:
    """Report parameters that the subplan does not have, those it needs and does not get, and literals that do not
    fit; ``place`` is where a missing one is told."""
    given = {str(key.value): (key, value) for key, value in node.entries} if isinstance(node, Mapping) else {}
    known = {param.name: param for param in plan.params}
    for name, (key, value) in given.items():
        if name not in known:
            low.report("PLAN114", *_unknown(word, name, known, key))
        else:
            _check_value(low, known[name], value)
    for param in plan.params:
        if param.required and param.name not in given:
            help_ = param.description or f"it is of type {param.type}"
            low.report("PLAN114", f"the subplan `{word}` needs the parameter `{param.name}`", place, help_)


def params(low: Lowering, plan: Plan | None, node: Node) -> Any:
    """The values that a task gives a subplan, read by the types that its plan declares."""
    types = {param.name: param.type for param in plan.params} if plan is not None else {}
    if not isinstance(node, Mapping):
        return values.data(node)
    return {str(key.value): values.declared(low, value, types.get(str(key.value), "")) for key, value in node.entries}


def _unknown(word: str, name: str, known: dict[str, Param], key: Scalar) -> tuple[str, Span, str]:
    near = nearest(name, known)
    way = meant(near)
    listed = ", ".join(f"`{other}`" for other in list(known)[:_SEVERAL])
    help_ = "" if near else f"it has {listed}" if known else "it has no parameters"
    return f"the subplan `{word}` has no parameter `{name}`{way}", key.span, help_


def _check_value(low: Lowering, param: Param, node: Node) -> None:
    value = values.declared(low, node, param.type)
    if is_template(value):
        return
    _, problem = misfit(param._replace(default=value))
    if problem:
        low.report("PLAN114", problem, node.span)
