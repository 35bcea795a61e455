"""Untrusted text becomes no command, host, plan or approval, unless a person saw it."""

from __future__ import annotations

from collections.abc import Iterator

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Task
from planrunner.plan.rules.texts import Text, place_of
from planrunner.plan.rules.view import PlanView, span_of
from planrunner.plan.taint.findings import TaintedFlow, judged, told
from planrunner.plan.taint.flow import Flow
from planrunner.plan.taint.levels import Place, is_of_tools
from planrunner.plan.taint.sinks import LOOKED_AT
from planrunner.plan.taint.traits import known, row
from planrunner.plan.tasks import every

_CODE = {
    "url": "PLAN812",
    "host": "PLAN812",
    "page": "PLAN812",
    "plan": "PLAN813",
    "capability": "PLAN813",
    "rules": "PLAN813",
}
_CODE |= {"approval": "PLAN814"}
_WHAT = {
    "PLAN811": "untrusted text would run",
    "PLAN812": "untrusted text would choose a host",
    "PLAN813": "untrusted text would choose what may be run",
    "PLAN814": "untrusted text would decide a gate",
}


def check(view: PlanView) -> Iterator[Diagnostic]:
    tasks = list(every(view.plan.tasks))
    names = {action.uses for task in tasks for action in (task, task.rollback) if action is not None}
    rows = {name: row(found) for name in names if name and (found := view.capabilities.get(name)) is not None}
    flow = Flow(view.plan, {name: known(found) for name, found in rows.items()})
    for place in flow.levels.every():
        for each in judged(flow, place):
            if each.sink.use not in LOOKED_AT or (each.sink.use in _CODE and not _allows_hosts(view, place)):
                yield _finding(view, flow, place, each)


def _allows_hosts(view: PlanView, place: Place) -> bool:
    """Whether a policy lists the hosts that may be reached: then the run looks at the very host."""
    assert place.task is not None
    policies = [place.task.policy, place.level.plan.policy, *(level.data for level in view.levels)]
    networks = [policy.get("network") for policy in policies if isinstance(policy, dict)]
    return any(isinstance(each, list) or (isinstance(each, dict) and each.get("allow")) for each in networks)


def _finding(view: PlanView, flow: Flow, place: Place, found: TaintedFlow) -> Diagnostic:
    code = _CODE.get(found.sink.use, "PLAN811")
    task, level = place.task, place.level
    assert task is not None
    tool = is_of_tools(level)
    linked = None
    while level.outer is not None:
        if level.plan.file and level.linked:
            linked = level.holder
        level = level.outer
    if linked is not None:
        span = span_of(linked, "subplan", "uses")
    else:
        alone = view._replace(plan=view.plan._replace(tasks=(task,)))
        text, start = found.sink.text, found.sink.text.find(found.sink.template)
        end = start + len(found.sink.template) if start >= 0 else len(text)
        span = place_of(alone, Text(0, found.sink.key, "before", text), max(start, 0), end)
    if tool:
        message = f"{_WHAT[code]}: a model calls `{task.id}` with any `{found.sink.name or found.sink.key}`"
        return Diagnostic(code, message, span, help=_HOSTS if code == "PLAN812" else "do not give it this tool")
    message = f"{_WHAT[code]}: {told(flow, place, found)}"
    return Diagnostic(code, message, span, help=_way_out(flow, task, found))


_HOSTS = "list the hosts that may be reached: `policy: {network: {allow: [api.example.org]}}`"


def _way_out(flow: Flow, task: Task, found: TaintedFlow) -> str:
    """The lines that mend it."""
    first = next((cell for cell in reversed(found.way) if cell.kind == "output"), None)
    written = flow.levels.task(first.at).task if first is not None else None
    ways = []
    if written is not None and found.way[-1].kind != "file" and (shape := _shape(flow, written)):
        choice = "{type: object, required: [choice], properties: {choice: {enum: [a, b]}}}"
        name = f"tasks.{written.id}.outputs.{shape[0]}.choice"
        ways.append(f"let `{written.id}` choose: `{shape[1]}: {choice}`, and read `{name}`")
    if found.sink.use in ("url", "host", "page"):
        ways.append(_HOSTS)
    if found.sink.use == "approval":
        ways.append("compare the whole value (`==`), or let a person decide: `gate: approval`")
    else:
        shown = (
            f"{{value: '{found.sink.template}'}}" if "{{" in found.sink.template else f"{{file: {found.sink.template}}}"
        )
        if found.sink.use == "rules" and written is not None and first is not None:  # there is no such file before
            shown = f"{{value: '{{{{ tasks.{written.id}.outputs.{first.name} }}}}'}}"
        gate = f"- {{id: look, gate: approval, ask: …, evidence: [{shown}]}}"
        ways.append(f"show it to a person first: `{gate}`, and let `{task.id}` need `look`")
    return "; or ".join(ways)


def _shape(flow: Flow, written: Task) -> tuple[str, str] | None:
    """An output, and the input by which the plan can bind it to closed choices."""
    shaped = flow.known(written.uses).shaped.items()
    return next(((output, name) for output, name in shaped if "/" not in name), None)
