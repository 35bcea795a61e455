"""What a capability says of itself, held against the call of a case; nothing is called."""

from __future__ import annotations

import json
from typing import Any

from planrunner.app.schemas import input_schema
from planrunner.capabilities.annotations import fitted
from planrunner.capabilities.binding import bind
from planrunner.capabilities.contract import Failure
from planrunner.capabilities.jsonschema import faults
from planrunner.plan.load import load
from planrunner.plugins.callables import faults_of
from planrunner.plugins.claims import undocumented, unsound
from planrunner.source import Source
from planrunner.testing.conformance.trial import Trial


def _check_schema(trial: Trial) -> None:
    """The declaration is sound, the inputs of the case fit it, and a plan that makes the call lints clean."""
    found = trial.bench.description
    wrong = [fault for fault in unsound(found) if "preview" not in fault and "undo" not in fault]
    wrong += faults_of(trial.bench.function)
    assert not wrong, "; ".join(wrong)
    if found.takes_run:
        return
    misfits = faults(input_schema(found), _arrived(trial))
    assert not misfits, f"the inputs of the case do not fit the schema: {'; '.join(misfits)}"
    loaded = load(Source(json.dumps(plan_of(trial)), "case.json", "json"), trial.bench.registry)
    errors = [f"{finding.code} {finding.message}" for finding in loaded.findings if finding.severity == "error"]
    assert not errors, f"a plan with this call does not lint clean: {'; '.join(errors)}"


def _arrived(trial: Trial) -> dict[str, Any]:
    """The inputs as the function gets them: a number is text where text is wanted, as in a run."""
    given: dict[str, Any] = _data(trial.ready.inputs)
    function = bind(trial.bench.name, trial.bench.function).typed
    try:
        return given if function is None else fitted(function, given)
    except Failure as failure:
        raise AssertionError(f"the inputs of the case do not fit the schema: {failure}") from None


def _check_docs(trial: Trial) -> None:
    """There are words for the capability, its inputs and its outputs."""
    missing = list(undocumented(trial.bench.description))
    assert not missing, "; ".join(missing)


def plan_of(trial: Trial) -> dict[str, Any]:
    """A plan whose only task makes the call of the case; what looks like a template is meant as it stands."""
    task: dict[str, Any] = {"id": "task", "uses": trial.bench.name, "timeout": "5m", "cwd": trial.bench.directory}
    ready = trial.ready
    if ready.run:
        task["run"] = ready.run if isinstance(ready.run, str) else list(ready.run)
    if ready.inputs:
        task["with"] = _escaped(_data(ready.inputs))
    if ready.env:
        task["env"] = _escaped(dict(ready.env))
    return {"plan": "case", "tasks": [task]}


def _data(inputs: Any) -> Any:
    return json.loads(json.dumps(dict(inputs)))


def _escaped(value: Any) -> Any:
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        return "{{ " + json.dumps(value) + " }}"
    if isinstance(value, dict):
        return {name: _escaped(item) for name, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list) else value
