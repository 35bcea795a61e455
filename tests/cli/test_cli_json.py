"""What programs read: the object of a run fits the published schema, and so do errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "run.schema.json").read_text())

PLANS = {
    "attempts": """plan: p
params: {who: {type: string, default: ada}}
tasks:
  - id: again
    retry: {attempts: 2, delay: 0s}
    run: 'mkdir seen || { echo "n=1" >> "$PLANRUNNER_OUTPUT"; exit 0; }; exit 3'
    outputs: {n: int}
    timeout: 10m
outputs: {n: "{{ tasks.again.outputs.n }}"}
""",
    "gate": """plan: p
tasks:
  - {id: ask, gate: approval, ask: "Go?", expires: 1h, on_expiry: reject}
  - {id: go, needs: [ask], run: 'true', timeout: 10m}
""",
    "undone": """plan: p
on_failure: rollback
defaults: {timeout: 10m}
tasks:
  - {id: write, uses: files.write, with: {path: x, content: y}}
  - {id: each, needs: [write], foreach: [1, 2], run: 'exit {{ item }}'}
""",
    "kept": """plan: p
artifacts: [{name: report, from: make}]
tasks:
  - id: make
    run: echo r > r.txt
    artifacts: [{name: report, path: r.txt}]
    timeout: 10m
  - {id: not, needs: [make], when: 1 == 2, run: 'true', timeout: 10m}
""",
}


def fits(text: str) -> Any:
    data = json.loads(text)
    jsonschema.validate(data, SCHEMA)
    return data


@pytest.mark.parametrize("name", PLANS)
def test_the_object_of_a_run_fits_the_schema_and_is_that_of_show(run, plan, name):
    done = run("exec", plan(PLANS[name]), "--json", "--progress", "quiet")
    told, shown = fits(done.out), fits(run("show", "--json").out)
    assert (told["exit_code"], told["plan_file"]) == (done.code, shown["plan_file"])
    assert told["tasks"] == shown["tasks"]
    fits(run("exec", plan(PLANS[name], "dry.yaml"), "--dry-run", "--json").out)


def test_each_attempt_tells_its_class_of_failure_and_its_times(run, plan):
    told = fits(run("exec", plan(PLANS["attempts"]), "--json", "-p", "who=bo").out)
    first, second = told["tasks"]["again"]["attempt_history"]
    assert (first["failure"], first["exit_code"], second["failure"], second["exit_code"]) == ("logic", 3, "", 0)
    assert (
        told["started"] <= first["started"] <= first["ended"] <= second["started"] <= second["ended"] <= told["ended"]
    )
    assert told["params"] == {"who": "bo"}


@pytest.mark.parametrize(
    ("words", "code"),
    [(("exec", "nowhere.yaml"), 3), (("exec", "bad.yaml"), 5), (("show", "none"), 3), (("show", "--nothing"), 2)],
)
def test_under_json_an_error_is_an_object_too(run, plan, words, code):
    plan("plan: p\ntasks: [{id: a, run: 'true', need: [b]}]\n", "bad.yaml")
    done = run(*words, "--json")
    document = fits(done.out)
    error = document["error"]
    assert (document["status"], done.code, error["exit_code"]) == ("error", code, code)
    assert f"error: {error['message']}" in done.err
    assert ("PLAN003" in {each["code"] for each in error.get("findings", ())}) is (code == 5)


def test_the_next_steps_of_an_error_are_data_beside_its_hint(run, plan):
    run("exec", plan("plan: p\ntasks: [{id: a, run: 'true'}]\n"))
    error = fits(run("show", "none", "--json").out)["error"]
    assert error["hint"] == "`planrunner runs` lists the runs"
    assert error["next"] == [{"command": "runs", "arguments": []}]
