"""Every task names a capability that is installed and gives it the inputs it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from planrunner.diagnostics import Diagnostic, Edit, Fix, Label
from planrunner.plan.commands.looks import looks_like_calls
from planrunner.plan.lower_actions import variable_of
from planrunner.plan.model import Action, Capability, Field, Task
from planrunner.plan.nearest import nearest
from planrunner.plan.rules.constants import Fault, faults
from planrunner.plan.rules.places import Within, value_place
from planrunner.plan.rules.view import PlanView, find_word, has_key, names, span_of

CODES = ("PLAN007", "PLAN008", "PLAN009", "PLAN202")

IN_PLAN_SCHEMA = frozenset({"shell", "files.read", "files.write", "noop", "fail", "sleep"})
"""Capabilities whose inputs the schema of plans knows: it has judged all their values under `with` but text."""


_KEEP_ONE = "keep one, and put the other into a task of its own"


def check(view: PlanView) -> Iterable[Diagnostic]:
    used = view.used
    demanding = {name for name, found in used.items() if any(field.required for field in found.inputs)}
    for task in view.plan.tasks:
        if task.uses:
            capability = used.get(task.uses)
            if capability is None:
                yield _unknown(view, task, task.uses, "uses")
            elif capability.takes_run and not has_key(task, "run") and not capability.inputs:
                help_ = "give it `run: …`, a script or a list of arguments"
                yield Diagnostic("PLAN008", f"`{task.uses}` has nothing to run", span_of(task, "uses"), help=help_)
            else:
                if task.run is not None and has_key(task, "run") and not capability.takes_run:
                    yield _beside(task, "run", f"`{capability.name}` runs no script")
                elif has_key(task, "command") and looks_like_calls(task.command):
                    yield _beside(task, "command", "the capability is called, and not what the command says")
                if task.inputs or task.uses in demanding:
                    yield from _inputs(view, _Use(task, capability, task.inputs, task.run))
                if task.outputs:
                    yield from _outputs(view, task, capability)
        elif (
            task.inputs
            and not task.command
            and (task.steps or task.subplan or task.loop is not None or task.sub is not None)
        ):
            yield _unread(view, task)
        if task.rollback is not None:
            yield from _action(view, task, task.rollback, "rollback")
        if task.degraded is not None:
            yield from _action(view, task, task.degraded, "degraded")


def _action(view: PlanView, task: Task, action: Action, key: str) -> Iterable[Diagnostic]:
    capability = view.capabilities.get(action.uses) if action.uses else None
    if action.uses and capability is None:
        yield _unknown(view, task, action.uses, key)
    elif capability is not None and action.run is not None and not capability.takes_run:
        message = f"`run` and `uses` exclude each other here: `{action.uses}` runs no script"
        yield Diagnostic("PLAN009", message, find_word(view, task, "run", key), help=_KEEP_ONE)
    elif capability is not None:
        yield from _inputs(view, _Use(task, capability, action.inputs, action.run, key))


class _Use(NamedTuple):
    """A capability with the inputs that it is given: by a task, or by what undoes or replaces one (``key``)."""

    task: Task
    capability: Capability
    inputs: Any
    run: Any
    key: str = "with"

    def whole(self) -> Within:
        """Where the inputs stand."""
        return Within(self.task, self.key, self.inputs if self.key == "with" else {"with": self.inputs})


def _beside(task: Task, key: str, why: str) -> Diagnostic:
    """What a task says to do beside its capability, which would do without it. A command in words may stand there: it
    tells people what the capability is for."""
    label = Label(span_of(task, "uses"), "`uses` stands here")
    message = f"`{key}` and `uses` exclude each other here: {why}"
    return Diagnostic("PLAN009", message, span_of(task, key), labels=(label,), help=_KEEP_ONE)


def _unread(view: PlanView, task: Task) -> Diagnostic:
    """Inputs of a task that calls no capability itself."""
    span = span_of(task, "with")
    message = f"what stands under `with` of `{task.id}` reaches nothing: it calls no capability itself"
    if task.sub is None:
        return Diagnostic("PLAN008", message, span, help="what is inside reads the names around it; it needs no inputs")
    fix = None
    if view.source.text[span.start : span.end] == "with" and not has_key(task, "params"):
        fix = Fix("write `params`", (Edit(span, "params"),))
    return Diagnostic("PLAN008", message, span, help="a subplan takes its values under `params`", fix=fix)


def _unknown(view: PlanView, task: Task, name: str, key: str) -> Diagnostic:
    span = find_word(view, task, name, key)
    missing = getattr(view.capabilities, "missing", None)
    if missing is not None and (why := missing(name)):
        return Diagnostic("PLAN007", f"the capability `{name}` cannot be used", span, help=why)
    close = nearest(name, view.capabilities)
    if close:
        written = view.source.text[span.start : span.end] == name
        fix = Fix(f"use `{close}`", (Edit(span, close),), safe=False) if written else None
        return Diagnostic("PLAN007", f"unknown capability `{name}`, did you mean `{close}`?", span, fix=fix)
    family = name.partition(".")[0] + "."
    members = sorted(known for known in view.capabilities if known.startswith(family))
    way = f"the family has {names(members)}" if members else "`planrunner capabilities` lists the installed ones"
    if aside := getattr(view.capabilities, "aside", ""):
        way = f"{aside}; {way}"
    return Diagnostic("PLAN007", f"unknown capability `{name}`", span, help=way)


def _inputs(view: PlanView, use: _Use) -> Iterable[Diagnostic]:
    task, capability, inputs = use.task, use.capability, use.inputs
    given: Mapping[str, Any] = inputs if isinstance(inputs, dict) else {}
    fields = {field.name: field for field in capability.inputs}
    judged = use.key == "with" and capability.name in IN_PLAN_SCHEMA and has_key(task, "with")
    meant: set[str | None] = set()
    for name, value in given.items():
        field = fields.get(name)
        if field is not None:
            if isinstance(value, str) or not judged:
                yield from (_unfit(view, use, field, fault) for fault in faults(value, field))
        elif not capability.open_inputs:
            close = nearest(str(name), fields)
            meant.add(close)
            yield _unknown_input(view, use, str(name), close)
    if isinstance(inputs, dict) or inputs is None:
        for field in capability.inputs:
            absent = field.required and field.name not in given and field.name not in meant
            if absent and not (capability.takes_run and use.run is not None):
                yield _missing(view, use, field)


def _outputs(view: PlanView, task: Task, capability: Capability) -> Iterable[Diagnostic]:
    """Declared outputs that nothing gives: the capability gives others, and the plan says no value or file."""
    given = [field.name for field in capability.outputs]
    if not given or capability.open_outputs or capability.takes_run:
        return
    for output in task.outputs:
        if output.name in given or output.value is not None or output.path:
            continue
        span = find_word(view, task, output.name, "outputs")
        message = f"`{capability.name}` gives no output `{output.name}`"
        close = nearest(output.name, given)
        if close is None:
            yield Diagnostic("PLAN202", message, span, help=f"it gives {names(given)}")
            continue
        written = view.source.text[span.start : span.end] == output.name
        fix = Fix(f"rename it to `{close}`", (Edit(span, close),), safe=False) if written else None
        yield Diagnostic("PLAN202", f"{message}, did you mean `{close}`?", span, fix=fix)


def _unknown_input(view: PlanView, use: _Use, name: str, close: str | None) -> Diagnostic:
    capability = use.capability
    span = find_word(view, use.task, name, use.key)
    fields = [field.name for field in capability.inputs]
    if capability.takes_run and not fields:
        message = f"the input `{name}` does not reach the script of `{capability.name}`"
        return Diagnostic("PLAN008", message, span, help=f"hand it over with `env: {{{variable_of(name)}: …}}`")
    message = f"`{capability.name}` takes no input `{name}`"
    if close:
        field = next(each for each in capability.inputs if each.name == close)
        written = view.source.text[span.start : span.end] == name and close not in use.inputs
        fits = written and not any(faults(use.inputs[name], field))
        fix = Fix(f"rename it to `{close}`", (Edit(span, close),)) if fits else None
        return Diagnostic("PLAN008", f"{message}, did you mean `{close}`?", span, fix=fix)
    way = f"it takes {names(fields)}" if fields else "it takes no inputs"
    return Diagnostic("PLAN008", message, span, help=way)


def _missing(view: PlanView, use: _Use, field: Field) -> Diagnostic:
    about = f"{field.name}: {field.description}" if field.description else f"it is of type {field.type}"
    message = f"`{use.capability.name}` needs the input `{field.name}`"
    if use.key != "with":
        where = "" if use.inputs else " under `with:`"
        span = find_word(view, use.task, use.capability.name, use.key)
        return Diagnostic("PLAN008", f"{message}{where} of `{use.key}`", span, help=about)
    where = "" if has_key(use.task, "with") else " under `with:`"
    return Diagnostic("PLAN008", message + where, span_of(use.task, "with", "uses"), help=about)


def _unfit(view: PlanView, use: _Use, field: Field, fault: Fault) -> Diagnostic:
    """The finding about a value that is written out."""
    inside = () if use.key == "with" else ("with",)
    span, word = value_place(view, use.whole(), (*inside, field.name, *fault.path), fault.unknown)
    path = fault.path[:-1] if fault.unknown else fault.path
    named = field.name + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
    message = f"input `{named}` of `{use.capability.name}` {fault.said}"
    if not fault.near:
        return Diagnostic("PLAN008", message, span, help=fault.help or field.description)
    fix = Fix(f"write `{fault.near}`", (Edit(span, fault.near),), safe=False) if word else None
    return Diagnostic("PLAN008", f"{message}, did you mean `{fault.near}`?", span, fix=fix)
