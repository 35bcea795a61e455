"""Every property of the published schema where a text may stand is one that random sound plans evaluate, or one that is
known to be taken as it is written: a new property is put among either."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from sound_plans import FRAGMENTS, Maker

from planrunner.plan.load import load
from planrunner.plan.schema import published
from planrunner.plugins.registry import Registry
from planrunner.source import Source

Json = Any

TEMPLATE = "{{ params.data.n }}"
SCHEMA = published()
AS_WRITTEN = frozenset(
    """
    action.retry action.uses approvers.roles approvers.users artifact.description artifact.from artifact.name
    artifact.retention artifact.type breaker.uses capability_entry.run capability_entry.uses
    capability_entry.with capability_scopes.allow capability_scopes.ask capability_scopes.deny checkpoint.paths
    criterion.judge defaults.with failure_edge.class failure_mode.recover host_scopes.allow host_scopes.ask
    host_scopes.deny hypothesis.cost hypothesis.evidence hypothesis.rationale
    hypothesis.statement hypothesis.status hypothesis.tests hypothesis.title memory.keys memory.read
    memory.retention memory.write next.on next_edge.on on_failure.class option.id output.description output.name
    output.type parameter.choices parameter.default parameter.description plan.artifacts plan.created_at
    plan.deadline plan.description plan.hypotheses plan.labels plan.memory plan.owner plan.params
    plan.stakeholders plan.subplans plan.title plan.version policy.capabilities policy.data policy.dependencies
    policy.env policy.files.deny policy.files.read policy.files.write policy.labels policy.network
    policy.python.allow policy.python.ask policy.python.deny policy.sandbox.cpu policy.sandbox.image
    policy.tools retry.on rollback_policy.only scopes.allow scopes.ask scopes.deny subplan_of_plan.description
    subplan_of_plan.params subplan_of_plan.title task.approvers task.artifacts task.assumptions
    task.capabilities task.deadline task.description task.effects task.escalate task.failure_modes task.kind
    task.labels task.next task.on_failure task.on_reject task.on_success task.outputs task.owner task.risks
    task.secrets task.shell task.subplan task.title task.uses
    evidence.hypothesis evidence.weight hypothesis.prior plan.reflect.agent plan.reflect.model plan.reflect.rubric
    task.agent task.branches.agents task.context task.context.files task.context.memory.layers
    agent.context agent.denied agent.description agent.fallback agent.memory agent.model agent.parameters agent.system
    agent.tools defaults.agent hook.ask hook.deny hook.say hook.tool loop.steps plan.steps subplan_of_plan.steps
    task.model task.steps text_of_file.file
    task.context.skills task.denied task.reflect.agent task.reflect.model task.reflect.rubric task.schema task.tools
    """.split()
)
"""Properties whose texts are words, names and patterns, or data in which places of other properties stand."""

ELSEWHERE = frozenset(
    """
    evidence.refutes evidence.supports hook.when task.branches task.branches.prompts task.choose task.prompt task.score task.until
    """.split()
)
"""Places that a run evaluates and that the tests of agents and of hypotheses fill: a random plan has neither."""


def resolved(part: Json) -> Json:
    while "$ref" in part:
        found = SCHEMA
        for name in part["$ref"][2:].split("/"):
            found = found[name]
        part = found
    return part


def takes_text(part: Json) -> bool:
    """Whether a template may stand in a value that this part of the schema describes."""
    part = resolved(part)
    if "enum" in part or "const" in part:
        return False
    types = [part["type"]] if isinstance(part.get("type"), str) else part.get("type")
    references = [each for each in part.get("allOf", ()) if "$ref" in each]
    if types is None:
        if references:
            return any(takes_text(each) for each in references)
        return not part.keys() & {"properties", "items", "allOf"}
    if "string" in types and ("pattern" not in part or re.search(part["pattern"], TEMPLATE)):
        return True
    if "array" in types and ("items" not in part or takes_text(part["items"])):
        return True
    more = part.get("additionalProperties")
    if "object" in types and "properties" not in part and more is None:
        return True
    return isinstance(more, dict) and takes_text(more)


def places(name: str, part: Json) -> Iterator[str]:
    """The properties of a part of the schema that take text, without other names and repeated lists of them."""
    for key, value in part.get("properties", {}).items():
        repeated = list(value) == ["$ref"] and "/properties/" in value["$ref"]
        if repeated or "Another name" in value.get("description", ""):
            continue
        if takes_text(value):
            yield f"{name}.{key}"
        if "properties" in value:
            yield from places(f"{name}.{key}", value)


def test_every_place_of_the_schema_is_evaluated_in_random_plans_or_known_to_be_taken_as_written() -> None:
    found = set(places("plan", SCHEMA))
    for name, part in SCHEMA["definitions"].items():
        if not name.startswith("inputs_of") and name != "step":
            found |= set(places(name, part))
    assert found - set(FRAGMENTS) == AS_WRITTEN | ELSEWHERE


@pytest.mark.parametrize("place", sorted(FRAGMENTS))
def test_no_text_that_a_run_evaluates_is_called_literal(place: str) -> None:
    for seed in range(5):
        text = json.dumps(Maker(seed, [place]).document, indent=1)
        findings = load(Source(text, "p.json", "json"), Registry()).findings
        assert "PLAN212" not in {finding.code for finding in findings}, seed
