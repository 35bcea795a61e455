"""Foreign text in a call that is about to be made: the same judgement as lint's, by what the values came to and by who
really agreed. It follows from the plan and the recorded state alone, so a replay comes to the same."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from planrunner.machine.events import Outcome
from planrunner.machine.rights import POLICY, levels_of
from planrunner.machine.scope import NO_OVERLAY, Overlay, TaskScope
from planrunner.machine.state import State, Trait
from planrunner.plan.model import Plan
from planrunner.plan.rights import entries, host_fits
from planrunner.plan.taint.findings import TaintedFlow, call_shown, judged, shown, told, whence, written_code
from planrunner.plan.taint.flow import Flow
from planrunner.plan.taint.levels import Cell, Key, is_of_tools
from planrunner.plan.taint.levels import Place as Spot
from planrunner.plan.taint.positions import host_of
from planrunner.plan.taint.sinks import LOOKED_AT, Sink
from planrunner.plan.taint.traits import known, makes_rules
from planrunner.plan.tasks import tools_of
from planrunner.plan.templates import render

Json = Any


_SAID = dict.fromkeys(("plan", "capability"), "untrusted text would choose what runs")
_SAID["approval"] = "untrusted text would approve"
_SAID["rules"] = "untrusted text would become the rules of the project"
_RULES = {"url": "host", "page": "host", "script": "code", "manifest": "image", "written": "rules"}

_made: tuple[Flow, dict[str, Sink]] | None = None
"""The files of code from outside of the flow that was looked at last."""

_last: tuple[Plan, dict[str, Trait], Flow] | None = None
"""The flow of the run that was judged last; it follows from plan and traits."""


def refused(state: State, number: int, directory: str, part: str = "", overlay: Overlay = NO_OVERLAY) -> Outcome | None:
    """The outcome of a call in which foreign text would become what it may not; None where the call may be made.
    ``part`` says which of the task's calls it is: its own (empty) or ``rollback``. Raises TemplateError
    and EvaluationError as the call itself would."""
    if POLICY in state.tasks[number].cleared and not part:
        return None  # a policy asked about this call, and the question showed it
    for finding, spot in _judged(state, number, part):
        if finding.sink.key != "checks" and (why := _becomes(state, number, finding, directory, overlay)):
            use = _RULES.get(finding.sink.use, finding.sink.use)
            rule = f"taint.{use}"
            message = f"{why}: {told(_flow(state), spot, finding)}; a person has to see it first, or a closed choice"
            if is_of_tools(spot.level):
                message = f"{why}: the model chose it" + ("" if use == "rules" else ", and no policy lists it")
            return Outcome("policy", message, rule=rule)
    return None


def made(state: State, number: int) -> str:
    """A file of code with text from outside that a task of the run wrote, and that people did not see before the task
    of ``number``: what it starts may import it, test it or build it. Empty where there is none."""
    flow = _flow(state)
    global _made
    if _made is None or _made[0] is not flow:
        _made = flow, written_code(flow)
    names = _made[1]
    if not names:
        return ""
    seen = shown(flow.levels.task(_key(state, number)), lambda gate: _agreed(state, number, gate))
    return next((name for name, sink in names.items() if whence(flow, sink, seen) and _is_written(state, name)), "")


def writes_foreign(state: State, number: int) -> bool:
    """Whether text from outside that no person saw goes into what a call is given, or into a file that it writes."""
    flow, key = _flow(state), _key(state, number)
    spot = flow.levels.task(key)
    if call_shown(spot):
        return False
    cells = (Cell("input", key, "*"), *(Cell("file", (), name) for name in flow.written_by(spot)))
    seen = shown(spot, lambda gate: _agreed(state, number, gate))
    return bool(whence(flow, Sink("written", "", "with", "", "", "", cells), seen))


def _is_written(state: State, name: str) -> bool:
    """Whether a task that writes the file has begun."""
    keys = set(_flow(state).writers(name))
    ids = {key[-1] for key in keys}
    return any(
        task.attempts > 0
        and state.specs[number].id.rpartition("/")[2].partition("[")[0] in ids
        and _key(state, number) in keys
        for number, task in enumerate(state.tasks)
    )


def decides(state: State, number: int) -> dict[str, Json] | None:
    """What stands against a gate whose checks look for something in foreign text, as a look for its evidence."""
    for finding, spot in _judged(state, number, ""):
        if finding.sink.key == "checks":
            problem = f"untrusted text would decide: {told(_flow(state), spot, finding)}"
            return {"kind": "taint", "name": "taint.approval", "problem": problem}
    return None


def _judged(state: State, number: int, part: str) -> Iterator[tuple[TaintedFlow, Spot]]:
    flow = _flow(state)
    spot = flow.levels.task(_key(state, number))
    for finding in judged(flow, spot, part, lambda gate: _agreed(state, number, gate)):
        yield finding, spot


def _flow(state: State) -> Flow:
    global _last
    if _last is None or _last[0] is not state.plan or _last[1] is not state.traits:
        _last = state.plan, state.traits, Flow(state.plan, {name: known(t.taint) for name, t in state.traits.items()})
    return _last[2]


def _key(state: State, number: int) -> Key:
    """The ids of a task and of those that hold it, as they stand in the plan."""
    names: list[str] = []
    while number >= 0:
        frame = state.tasks[number].frame
        if frame.kind != "items":
            names.append(state.specs[number].id.rpartition("/")[2])
        elif called := _tool(state, number):
            names.append(called)
        number = frame.owner
    return tuple(reversed(names))


def _tool(state: State, number: int) -> str:
    """The tool that an item calls, of a fan-out of calls that a model asks for; empty for any other item."""
    frame = state.tasks[number].frame
    return str(frame.values[number - frame.first]["tool"]) if tools_of(state.specs[frame.owner]) else ""


def _agreed(state: State, number: int, gate: Key) -> bool:
    """Whether a person let a gate through that stands before the task, on its level or on one around it."""
    depth = len(_key(state, number))
    while number >= 0:
        frame = state.tasks[number].frame
        if frame.kind != "items" or _tool(state, number):
            if depth == len(gate):
                gate_number = frame.index.get(gate[-1])
                return gate_number is not None and _approved(state, gate_number)
            depth -= 1
        number = frame.owner
    return False


def _approved(state: State, number: int) -> bool:
    task = state.tasks[number]
    return task.status == "completed" and task.outputs.get("decision") == "approved"


def _becomes(state: State, number: int, finding: TaintedFlow, directory: str, overlay: Overlay) -> str:
    """What the value would become, by what it is in the end; empty where that is fine, and where a model has given
    nothing for this input of its tool."""
    use, inputs = finding.sink.use, state.specs[number].inputs
    if finding.sink.key == "with" and isinstance(inputs, dict) and finding.sink.name not in inputs:
        return ""
    if use not in LOOKED_AT:
        return _SAID.get(use, "untrusted text would run")
    values = list(_texts(render(finding.sink.value, TaskScope(state, number, overlay=overlay))))
    if use == "path":
        strange = [value for value in values if not _inside(directory, value)]
        return f"text from outside leads out of the working directory, to `{strange[0][:200]}`" if strange else ""
    if use == "option":
        strange = [value for value in values if re.match(r"--?[A-Za-z]", value)]
        return f"untrusted text would be taken for the option `{strange[0][:80]}`" if strange else ""
    if use == "written":
        strange = [value for value in values if makes_rules(value)]
        return f"untrusted text would become the rules of the project, in `{strange[0][:80]}`" if strange else ""
    bare = finding.sink.key not in ("with", "rollback") or not finding.sink.name
    strange = [value for value in values if not _may_reach(state, number, value, bare)]
    return f"untrusted text would choose the host of `{strange[0][:200]}`" if strange else ""


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        value = [value["url"]] if isinstance(value.get("url"), str) else list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _inside(directory: str, path: str) -> bool:
    whole = os.path.normpath(os.path.join(directory, path))
    return whole == directory or whole.startswith(directory.rstrip("/") + "/")


def _may_reach(state: State, number: int, address: str, bare: bool) -> bool:
    """Whether a policy lists the host of an address. ``bare``: a word without a scheme names a host too."""
    host, port = host_of(address)
    if not host and bare:
        host, port = host_of(f"any://{address}")
    if not host:
        return not os.path.isabs(address) and ".." not in address.split("/")
    listed = [entry for level in levels_of(state, number) for entry in _listed(level.data)]
    return any(host_fits(str(entry), host, port) for entry in listed)


def _listed(policy: Json) -> tuple[Json, ...]:
    network = policy.get("network") if isinstance(policy, dict) else None
    return (entries(network, "allow") or ()) if network is not None else ()
