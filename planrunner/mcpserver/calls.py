"""Capabilities as tools: a call is a run of a plan with one task, so that policy, sandbox, journal and undo hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from planrunner.app.plans.lint import registry
from planrunner.app.plans.reference import input_schema
from planrunner.app.runs.execute import ExecRequest
from planrunner.errors import Denied, Hint, NextStep
from planrunner.jsontext import write_json
from planrunner.mcpserver.tool import Offer, Site, Tool
from planrunner.plan.model import Capability
from planrunner.plan.policy_checks import uses
from planrunner.plan.rights import CapabilityUse, Level, capability
from planrunner.safety.project import levels, policy_records
from planrunner.views.documents import document_of
from planrunner.views.run import task_object

Json = Any

TIMEOUT = "10m"
"""How long a call may take."""
TASK = "call"

_CODE = ("command", "script")
"""Uses of inputs that are carried out as code."""
_VERBATIM = frozenset({("sql.query", "statement"), ("sql.execute", "statement")})
"""Inputs that take no template: they are written into the plan, and refused where they hold one."""
_WITHIN_RUNS = ("agent", "branch", "llm", "mcp", "memory", "plan")
"""Families that make sense only as a part of a run, or that would have the model ask models."""


def capability_tools(site: Site, offered: Offer) -> Iterator[Tool]:
    """A tool for each capability that the settings offer and that the policy of the project allows by an entry of its
    own, without asking. A capability that runs scripts is left out: its commands would be the model's."""
    if not offered.capabilities:
        return
    known, operator = registry(site.root), levels(policy_records(site.root))
    for name in known.names():
        if offered.has_capability(name) and name.partition(".")[0] not in _WITHIN_RUNS:
            found = known.find(name)
            if found is not None and not _runs_code(found) and _is_allowed(operator, found):
                yield _tool(found)


def _runs_code(found: Capability) -> bool:
    return found.takes_run or any(field.use in _CODE for field in found.inputs)


def _is_allowed(operator: tuple[Level, ...], found: Capability) -> bool:
    """Whether an entry allows calls, of these or those values, and none asks about them."""
    open_values = dict.fromkeys((field.name for field in found.inputs), "{{ params.value }}")
    right = capability(operator, CapabilityUse(found.name, open_values))
    return right.verdict == "allow" and right.level is not None


def _tool(found: Capability) -> Tool:
    schema = input_schema(found)
    del schema["title"], schema["description"]
    reads = found.effect in ("pure", "read")
    description = f"{found.summary}\n\n{found.description}".strip()
    return Tool(
        tool_name(found.name),
        found.name,
        f"{description}\n\nThe call is a run of its own: `run_id` names it.",
        schema,
        lambda site, given: _called(site, found.name, given),
        reads,
        not reads and not found.undo,
    )


def tool_name(capability: str) -> str:
    """The name of the tool of a capability: clients take letters, digits and underscores."""
    return "call_" + capability.replace(".", "_").replace("-", "_")


def _called(site: Site, name: str, given: dict[str, Json]) -> dict[str, Json]:
    """What a call gives. Raises Denied for one that the policy would refuse or ask about, and as ``Host.start``."""
    _refuse(site, name, given)
    path = os.path.join(site.root, f"<{name}>.json")
    params = tuple((key, each) for key, each in given.items() if (name, key) not in _VERBATIM)
    request = ExecRequest(path, params, state=site.state, unattended=True, vouched=True, text=_plan(name, given))
    result = site.host.start(request).result()
    state = result.state
    told = {"run_id": result.run_id, "status": result.status, "reason": state.reason}
    return document_of(told, {"call": task_object(state, state.index[TASK])})


def _refuse(site: Site, name: str, given: dict[str, Json]) -> None:
    operator = levels(policy_records(site.root))
    for wanted, right in uses(operator, CapabilityUse(name, given, final=True)):
        if right.verdict != "allow":
            word = "asks a person about" if right.verdict == "ask" else "does not allow"
            hint = Hint("write a plan that calls it, and let a person start it: ", NextStep("exec", "PLAN"))
            raise Denied(f"the policy of the project {word} {wanted.what}", hint, right.rule)


def _plan(name: str, given: dict[str, Json]) -> bytes:
    """The plan of a call. Arguments are parameters: what looks like a template in them stays text."""
    values = {key: each if (name, key) in _VERBATIM else f"{{{{ params.{key} }}}}" for key, each in given.items()}
    task = {"id": TASK, "uses": name, "with": values, "timeout": TIMEOUT}
    identity = name.replace(".", "-").replace("_", "-")
    plan = {
        "plan": f"call-{identity}",
        "title": f"call of {name}",
        "params": {key: {} for key in given if (name, key) not in _VERBATIM},
        "tasks": [task],
    }
    return write_json(plan).encode()
