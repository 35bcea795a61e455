"""``planrunner test``: what cases may say, how the world answers, and what is told where an expectation fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

Write = Callable[[str, str], str]
Call = Callable[..., tuple[int, str, str]]
Data = Callable[..., tuple[int, Any]]

PLAN = """
plan: release
params:
  stage: {type: string, default: test, choices: [test, prod]}
defaults: {timeout: 10s}
tasks:
  - id: build
    run: make
    retry: {attempts: 3, delay: 1s, jitter: 0, backoff: fixed}
    outputs: {version: string}
    expect: [stdout contains "done"]
  - id: sign-off
    gate: approval
    needs: [build]
    ask: Release it?
  - id: publish
    needs: [sign-off]
    when: params.stage == "prod"
    run: echo "{{ tasks.build.outputs.version }}"
    on_failure: explain
  - id: explain
    run: echo no
outputs:
  version: "{{ tasks.build.outputs.version }}"
"""


def cases(text: str) -> str:
    return "plan: release.yaml\n" + text


@pytest.fixture
def one(write: Write, data: Data) -> Callable[[str], dict[str, Any]]:
    """The result of a test file with one case."""
    write("release.yaml", PLAN)

    def run(case: str) -> dict[str, Any]:
        indented = "\n".join(f"    {line}" for line in case.strip().splitlines())
        name = write("release.test.yaml", cases(f"cases:\n  - name: it\n{indented}\n"))
        _, found = data("test", name)
        assert len(found["cases"]) == 1
        result: dict[str, Any] = found["cases"][0]
        return result

    return run


def abouts(result: dict[str, Any]) -> list[str]:
    return [miss["about"] for miss in result["misses"]]


def test_what_is_not_mocked_goes_well_criteria_and_gates_included(one: Callable[[str], dict[str, Any]]) -> None:
    result = one("params: {stage: prod}\nexpect: {status: completed, exit_code: 0, never: [explain]}")
    assert result["passed"], result


def test_criteria_of_a_mocked_task_are_judged(one: Callable[[str], dict[str, Any]]) -> None:
    result = one("mocks: {build: {stdout: half}}\nexpect: {status: failed, tasks: {build: {attempts: 3}}}")
    assert result["passed"], result
    good = one("mocks: {build: {stdout: all done}}\nexpect: {status: completed, tasks: {build: {attempts: 1}}}")
    assert good["passed"], good


def test_each_attempt_has_its_outcome_and_the_last_one_repeats(one: Callable[[str], dict[str, Any]]) -> None:
    result = one(
        "mocks: {build: [fails, {exit_code: 75}, {stdout: done, outputs: {version: v7}}]}\n"
        "expect: {status: completed, outputs: {version: v7}, tasks: {build: {attempts: 3, outputs: {version: v7}}}}"
    )
    assert result["passed"], result
    assert one("mocks: {build: [fails]}\nexpect: {tasks: {build: {attempts: 3, status: failed}}}")["passed"]


def test_a_mock_may_name_a_pattern_and_the_more_exact_one_wins(one: Callable[[str], dict[str, Any]]) -> None:
    result = one("mocks: {'*': fails, build: {stdout: done}, publish: ok}\nexpect: {status: completed}")
    assert result["passed"], result


def test_time_is_virtual_and_a_mock_that_takes_too_long_times_out(one: Callable[[str], dict[str, Any]]) -> None:
    result = one(
        "mocks: {build: [{takes: 2h}, {stdout: done, takes: 5s}]}\nexpect: {duration: '== 16s', status: completed}"
    )
    assert result["passed"], result
    late = one("mocks: {build: {stdout: done, takes: 5s}}\nexpect: {duration: < 2s}")
    assert abouts(late) == ["duration"]


@pytest.mark.parametrize(
    ("word", "status", "code"), [("approve", "completed", 0), ("reject", "failed", None), ("wait", "blocked", 8)]
)
def test_a_case_says_what_people_decide(
    word: str, status: str, code: int | None, one: Callable[[str], dict[str, Any]]
) -> None:
    exit_code = "" if code is None else f", exit_code: {code}"
    result = one(f"gates: {{sign-off: {word}}}\nexpect: {{status: {status}{exit_code}}}")
    assert result["passed"], result


GATED = """
plan: gated
defaults: {timeout: 1m}
tasks:
  - {id: draft, run: write}
  - id: review
    needs: [draft]
    gate: decision
    ask: Which way?
    approvers: {roles: [editors], count: 2}
    options: [{id: short}, {id: long}]
    expires: 2h
    on_reject: {rework: draft, max: 2}
  - {id: print, needs: [review], run: "print {{ tasks.review.outputs.choice }}"}
"""


@pytest.mark.parametrize(
    ("gates", "expect"),
    [
        ("approve", "{status: completed, tasks: {review: {outputs: {choice: short, decision: approved}}}}"),
        ("{decision: approve, option: long}", "{tasks: {review: {outputs: {choice: long}}}}"),
        ("[reject, approve]", "{status: completed, order: [draft, draft, print], events: [TasksReset]}"),
        ("reject", "{status: failed, order: [draft, draft, draft], never: [print]}"),
        ("expire", "{status: failed, duration: '> 2h', events: [GateDecided], never: [print]}"),
        ("{decision: reject, by: ann, comment: too long}", "{tasks: {review: {detail: too long}}}"),
        ("wait", "{status: blocked, waiting: [review]}"),
    ],
)
def test_gates_are_decided_as_often_as_they_ask(gates: str, expect: str, write: Write, data: Data) -> None:
    write("gated.yaml", GATED)
    write("gated.test.yaml", f"plan: gated.yaml\ncases: [{{name: it, gates: {{review: {gates}}}, expect: {expect}}}]\n")
    code, found = data("test", "gated.test.yaml")
    assert code == 0, found["cases"][0]["misses"]


def test_generated_cases_decide_a_gate_in_every_way(write: Write, data: Data) -> None:
    write("gated.yaml", GATED)
    code, found = data("test", "gated.yaml")
    assert code == 0
    assert found["coverage"]["gated.yaml"]["kinds"]["gates"] == {"reached": 3, "all": 3}


def test_a_mock_says_what_an_attempt_uses(write: Write) -> None:
    from planrunner.app.proof.test import runnable, runs, stage_of
    from planrunner.app.proof.testfile import read_tests
    from planrunner.app.proof.world import known_capabilities
    from planrunner.machine.events import AttemptEnded
    from planrunner.source import Source

    write("release.yaml", PLAN)
    text = cases("cases: [{name: it, mocks: {build: {stdout: done, usage: {cost: 0.5, tokens: 70}}}}]")
    (case,) = read_tests(Source(text, "release.test.yaml"), runnable).cases
    plan = runnable("release.yaml")
    (lived,) = runs(stage_of(plan, case, known_capabilities(plan)), case)
    ended = [entry.event for entry in lived.entries if isinstance(entry.event, AttemptEnded)]
    assert ended[0].outcome.usage == {"cost": 0.5, "tokens": 70}


def test_money_in_a_mock_counts_against_a_budget(write: Write, data: Data) -> None:
    plan = "plan: p\nbudgets: {cost: $1}\ntasks: [{id: a, run: x, timeout: 1m, budgets: {cost: $1}}, {id: b, needs: [a], run: x, timeout: 1m}]\n"
    write("p.yaml", plan)
    case = "{name: a, mocks: {a: {usage: {cost: COST}}}, expect: {status: STATUS}}"
    for cost, status in (("$0.5", "completed"), ("$2.50", "failed")):
        text = case.replace("COST", cost).replace("STATUS", status)
        _, found = data("test", write("p.test.yaml", f"plan: p.yaml\ncases: [{text}]\n"))
        assert found["cases"][0]["passed"], (cost, found["cases"][0])


@pytest.mark.parametrize(("code", "status"), [(0, "completed"), (3, "completed"), (75, "completed"), (4, "failed")])
def test_a_mocked_exit_code_that_is_good_completes_its_task(write: Write, data: Data, code: int, status: str) -> None:
    task = "{id: a, run: x, timeout: 1m, ok_codes: [0, 3, 75], stdout: text, outputs: {said: string}}"
    write("p.yaml", f"plan: p\ntasks: [{task}]\noutputs: {{said: '{{{{ default(tasks.a.outputs.said, 1) }}}}'}}\n")
    case = f"{{name: a, mocks: {{a: {{exit_code: {code}, stdout: hi}}}}, expect: {{tasks: {{a: {status}}}}}}}"
    _, found = data("test", write("p.test.yaml", f"plan: p.yaml\ncases: [{case}]\n"))
    assert found["cases"][0]["passed"], found["cases"][0]


def test_a_strict_case_lets_what_it_does_not_name_fail(one: Callable[[str], dict[str, Any]]) -> None:
    result = one("strict: true\nexpect: {status: failed, tasks: {build: {failure: unmocked}}}")
    assert result["passed"], result


def test_a_miss_tells_what_was_expected_what_came_where_and_why(one: Callable[[str], dict[str, Any]]) -> None:
    result = one("expect:\n  tasks:\n    publish: completed")
    (miss,) = result["misses"]
    assert (miss["about"], miss["expected"], miss["got"]) == ("tasks.publish.status", "completed", "skipped")
    assert miss["place"] == "release.test.yaml:6:18"
    assert miss["why"][0] == '`publish` was skipped: `params.stage == "prod"` is false'


@pytest.mark.parametrize(
    ("expect", "about"),
    [
        ("{status: failed}", "status"),
        ("{exit_code: 1}", "exit_code"),
        ("{reason: budget}", "reason"),
        ("{order: [sign-off, build]}", "order"),
        ("{never: [bui*]}", "never build"),
        ("{waiting: [sign-off]}", "waiting"),
        ("{outputs: {version: v1}}", "outputs.version"),
        ("{duration: '> 1d'}", "duration"),
        ("{holds: [tasks.build.attempts == 2]}", "holds"),
        ("{events: [RunEnded, RunStarted]}", "events"),
        ("{tasks: {build: {reason: x}}}", "tasks.build.reason"),
        ("{tasks: {build: {outputs: {version: 1}}}}", "tasks.build.outputs.version"),
        ("{tasks: {'*': completed}}", "tasks.*.status"),
    ],
)
def test_every_kind_of_expectation_can_fail(expect: str, about: str, one: Callable[[str], dict[str, Any]]) -> None:
    result = one(f"expect: {expect}")
    assert about in abouts(result)
    assert not result["passed"]


def test_facts_decide_preconditions_only_where_a_case_gives_them(write: Write, data: Data) -> None:
    write("p.yaml", "plan: p\ntasks:\n  - {id: a, run: x, timeout: 1m, preconditions: [disk.free >= 1GB]}\n")
    write("p.test.yaml", "plan: p.yaml\ncases:\n"
          "  - {name: unsaid, expect: {status: completed}}\n"
          "  - {name: full, facts: {disk.free: 2KB}, expect: {status: failed, never: [a]}}\n")  # fmt: skip
    code, found = data("test", "p.test.yaml")
    assert code == 0, found


@pytest.mark.parametrize(
    ("faults", "expect"),
    [
        ("[{timeout: build}]", "{status: completed, tasks: {build: {attempts: 2}}}"),
        ("[{done-but-error: build}]", "{status: completed, tasks: {build: {attempts: 2}}}"),
        ("[{in-doubt: build}]", "{status: completed, tasks: {build: {attempts: 1}}, events: [RunResumed]}"),
        ("[{in-doubt: build, settle: wait}]", "{status: blocked, waiting: [build]}"),
        ("[{in-doubt: build, settle: failed}]", "{status: completed, tasks: {build: {attempts: 2}}}"),
        ("[{interrupted: build}]", "{status: completed, events: [StopRequested, RunParked, RunResumed]}"),
        ("[{crash: 2}]", "{status: completed, events: [RunResumed]}"),
        ("[{crash: 2, entries: lost}]", "{status: completed, events: [RunResumed]}"),
    ],
)
def test_faults_hit_the_run_and_it_goes_on(faults: str, expect: str, one: Callable[[str], dict[str, Any]]) -> None:
    result = one(f"mocks: {{build: {{stdout: done}}}}\nfaults: {faults}\nexpect: {expect}")
    assert result["passed"], result


def test_a_crash_at_every_write_runs_the_case_once_for_each(one: Callable[[str], dict[str, Any]]) -> None:
    result = one("params: {stage: prod}\nfaults: [{crash: every-write}]\nexpect: {status: completed}")
    assert result["passed"], result
    assert result["runs"] >= 4


BAD = [
    ("cases:\n  - {name: a, mocks: {biuld: ok}}", "PLAN201", "plan `release` has no task `biuld`, did you mean `build`?", "biuld"),
    ("cases:\n  - {name: a, mocks: {x*: ok}}", "PLAN201", "no task of plan `release` is called like `x*`", "x*"),
    ("cases:\n  - {name: a, gates: {build2: wait}}", "PLAN201", "did you mean `build`?", "build2"),
    ("cases:\n  - {name: a, gates: {explain: wait}}", "PLAN201", "`explain` is not a gate", "explain"),
    ("cases:\n  - {name: a, facts: {disk.fre: 1}}", "PLAN201", "there is no fact `disk.fre`, did you mean `disk.free`?", "disk.fre"),
    ("cases:\n  - {name: a, facts: {disk.free: much}}", "PLAN006", "is a size such as `50MB`", "much"),
    ("cases:\n  - {name: a, params: {stge: prod}}", "PLAN006", "did you mean `stage`?", "stge"),
    ("cases:\n  - {name: a, params: {stage: moon}}", "PLAN006", "takes one of test, prod", "moon"),
    ("cases:\n  - {name: a, mocks: {build: {outputs: {versio: 1}}}}", "PLAN202", "did you mean `version`?", "versio"),
    ("cases:\n  - {name: a, mocks: {build: {stdot: x}}}", "PLAN003", "did you mean `stdout`?", "stdot"),
    ("cases:\n  - {name: a, mocks: {build: {usage: {cots: 1}}}}", "PLAN003", "did you mean `cost`?", "cots"),
    ("cases:\n  - {name: a, mocks: {build: {usage: {tokens: -7}}}}", "PLAN006", "must be at least 0", "-7"),
    ("cases:\n  - {name: a, mocks: {build: {usage: {cost: much}}}}", "PLAN006", "money is written like", "much"),
    ("cases:\n  - {name: a, mocks: {build: {takes: 5}}}", "PLAN005", "must be text", "5"),
    ("cases:\n  - {name: a, mocks: {build: perhaps}}", "PLAN006", "cannot be `perhaps`", "perhaps"),
    ("cases:\n  - {name: a, expect: {status: done}}", "PLAN006", "not `done`", "done"),
    ("cases:\n  - {name: a, expect: {tasks: {publsh: failed}}}", "PLAN201", "did you mean `publish`?", "publsh"),
    ("cases:\n  - {name: a, expect: {order: [bild]}}", "PLAN201", "did you mean `build`?", "bild"),
    ("cases:\n  - {name: a, expect: {outputs: {versoin: 1}}}", "PLAN202", "did you mean `version`?", "versoin"),
    ("cases:\n  - {name: a, expect: {events: [RunEnd]}}", "PLAN006", "did you mean `RunEnded`?", "RunEnd"),
    ("cases:\n  - {name: a, expect: {holds: [1 +]}}", "PLAN207", "something is missing", "+"),
    ("cases:\n  - {name: a, expect: {holds: [tasks.bild.ok]}}", "PLAN201", "did you mean `build`?", "tasks.bild.ok"),
    ("cases:\n  - {name: a, expect: {duration: < 3 parsecs}}", "PLAN207", "parsecs", "parsecs"),
    ("cases:\n  - {name: a, faults: [{attempt: 1}]}", "PLAN004", "a fault needs the key `crash`", "attempt"),
    ("cases:\n  - {name: a, faults: [{crash: sometimes}]}", "PLAN006", "cannot be `sometimes`", "sometimes"),
    ("cases: []", "PLAN006", "needs at least 1 item", "[]"),
    ("cases:\n  - {name: a}\n  - {name: a}", "PLAN002", "two cases are called `a`", "a"),
    ("cases:\n  - {expect: {status: failed}}", "PLAN004", "a case needs the key `name`", "expect"),
    ("cases:\n  - {name: a, plan: relase.yaml}", "PLAN006", "there is no plan `relase.yaml`", "relase.yaml"),
    ("cases:\n  - {name: a, expext: {}}", "PLAN003", "did you mean `expect`?", "expext"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "message", "marked"), BAD, ids=[row[2][:40] for row in BAD])
def test_a_fault_in_a_test_file_is_a_finding_with_its_exact_place(
    text: str, code: str, message: str, marked: str, write: Write, call: Call
) -> None:
    from planrunner.app.proof.test import runnable
    from planrunner.app.proof.testfile import read_tests
    from planrunner.source import Source

    write("release.yaml", PLAN)
    name = write("release.test.yaml", cases(text))
    found = read_tests(Source(cases(text), name), runnable).findings
    (finding,) = found
    assert finding.code == code
    assert message in finding.message + finding.help
    assert cases(text)[finding.span.start : finding.span.end] == marked
    exit_code, _, told = call("test", name)
    assert exit_code == 5
    assert f"{name}:" in told


def test_a_test_file_without_a_plan_says_so(write: Write, call: Call) -> None:
    write("a.test.yaml", "cases:\n  - {name: a}\n")
    code, _, told = call("test", "a.test.yaml")
    assert code == 5
    assert "the test file names no plan" in told


@pytest.mark.parametrize("junk", ["", "a: [", "- 1", "\0", "plan: release.yaml\ncases: {}", "cases:\n  - 7"])
def test_no_test_file_is_too_broken_for_a_finding(junk: str, write: Write, call: Call) -> None:
    write("release.yaml", PLAN)
    code, _, told = call("test", write("a.test.yaml", junk))
    assert code == 5
    assert "error[PLAN" in told


def test_a_plan_with_faults_gives_its_own_findings(write: Write, call: Call) -> None:
    write("release.yaml", PLAN.replace("needs: [build]", "needs: [biuld]"))
    write("release.test.yaml", cases("cases:\n  - {name: a, expect: {status: completed}}"))
    code, _, told = call("test", "release.yaml")
    assert code == 5
    assert "PLAN101" in told


def test_nothing_to_test_is_code_three(write: Write, call: Call) -> None:
    write("notes.txt", "nothing")
    assert call("test")[0] == 3
    assert call("test", "gone.test.yaml")[0] == 3


def test_tests_are_found_beside_a_plan_below_tests_and_in_folders(write: Write, data: Data) -> None:
    write("plans/release.yaml", PLAN)
    write("plans/release.test.yaml", cases("cases: [{name: beside, expect: {status: completed}}]"))
    write("plans/tests/more.test.yaml", "plan: ../release.yaml\ncases: [{name: below, expect: {status: completed}}]")
    write("plans/tests/other.test.yaml", "plan: ../other.yaml\ncases: [{name: other, expect: {status: completed}}]")
    write("plans/other.yaml", "plan: other\ntasks: [{id: a, run: x, timeout: 1m}]\n")
    _, found = data("test", "plans/release.yaml")
    assert sorted(case["name"] for case in found["cases"]) == ["below", "beside"]
    _, everything = data("test", ".")
    assert sorted(case["name"] for case in everything["cases"]) == ["below", "beside", "other"]


def test_a_plan_without_tests_is_tested_by_the_cases_that_follow_from_it(write: Write, data: Data) -> None:
    write("release.yaml", PLAN)
    code, found = data("test", "release.yaml")
    assert code == 0
    assert all(case["generated"] and case["passed"] for case in found["cases"])
    names = {case["name"] for case in found["cases"]}
    assert {"all goes well", "`build` fails once", "`build` fails every time", "`sign-off` is decided: reject",
            "stage is prod"} <= names  # fmt: skip
    missing = found["coverage"]["release.yaml"]["missing"]
    assert {(point["task"], point["text"]) for point in missing} <= {
        ("publish", "on failure to explain"),
        ("explain", "starts"),
    }


def test_coverage_names_what_no_case_reached(write: Write, call: Call) -> None:
    write("release.yaml", PLAN)
    write("release.test.yaml", cases("cases: [{name: well, expect: {status: completed}}]"))
    _, out, _ = call("test", "release.yaml", "--coverage")
    for line in ("task `publish` starts", "edge `publish` on failure to explain", "gate `sign-off` rejected",
                 "failure `build` is tried again", 'condition `publish` when `params.stage == "prod"` is true'):  # fmt: skip
        assert f"not covered: {line}" in out


def test_too_little_coverage_is_code_one(write: Write, call: Call) -> None:
    write("release.yaml", PLAN)
    write("release.test.yaml", cases("cases: [{name: well, expect: {status: completed}}]"))
    assert call("test", "release.yaml", "--min-coverage", "20%")[0] == 0
    code, _, told = call("test", "release.yaml", "--min-coverage", "80%")
    assert code == 1
    assert "covered to 45%, less than 80%" in told
    assert call("test", "release.yaml", "--min-coverage", "80")[0] == code
    assert call("test", "release.yaml", "--min-coverage", "800")[0] == 2


def test_cases_are_chosen_by_a_part_of_their_name(write: Write, data: Data, call: Call) -> None:
    write("release.yaml", PLAN)
    write("release.test.yaml", cases("cases: [{name: one, expect: {status: completed}}, {name: two}]"))
    _, found = data("test", "-k", "tw")
    assert [case["name"] for case in found["cases"]] == ["two"]
    assert call("test", "-k", "three")[0] == 3


def test_junit_holds_every_case_and_tells_why_one_failed(write: Write, call: Call, tmp_path: Path) -> None:
    write("release.yaml", PLAN)
    text = "cases: [{name: well, expect: {status: completed}}, {name: 'bad <&\\u0007>', expect: {status: failed}}]"
    write("release.test.yaml", cases(text.replace("'bad", '"bad').replace(">'", '>"')))
    code, _, _ = call("test", "--junit", "out.xml")
    assert code == 1
    root = ET.parse(tmp_path / "out.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    failure = root.find(".//failure")
    assert failure is not None
    assert "status: expected failed, got completed" in str(failure.get("message"))


def test_the_schema_of_test_files_is_a_sound_json_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    from planrunner.fileio import read_data

    schema = json.loads(read_data("schemas", "plan-test.schema.json"))
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    assert not list(validator.iter_errors({"plan": "a", "cases": [{"name": "a", "expect": {"status": "failed"}}]}))
    assert list(validator.iter_errors({"plan": "a", "cases": [{"name": "a", "expect": {"status": "done"}}]}))


NESTED = """
plan: nested
defaults: {timeout: 1m}
tasks:
  - id: list
    run: ls
    outputs: {files: list}
  - id: each
    needs: [list]
    foreach: tasks.list.outputs.files
    run: echo {{ item }}
    retry: {attempts: 2, delay: 1s}
  - id: polish
    needs: [each]
    loop:
      max: 3
      until: tasks.review.outputs.good
      tasks:
        - {id: draft, run: write}
        - {id: review, needs: [draft], run: read, outputs: {good: bool}}
  - id: ship
    needs: [polish]
    subplan:
      - {id: pack, run: tar}
      - {id: send, needs: [pack], run: scp, allow_failure: true}
"""


def test_cases_reach_into_whatever_a_plan_holds(write: Write, data: Data) -> None:
    write("nested.yaml", NESTED)
    write("nested.test.yaml", """
plan: nested.yaml
cases:
  - name: two items, three rounds
    mocks:
      list: {outputs: {files: [a, b]}}
      each[1]: [fails, ok]
      review: [{outputs: {good: false}}]
      polish#3/review: {outputs: {good: true}}
      ship/send: fails
    expect:
      status: completed
      tasks:
        each[0]: {status: completed, attempts: 1}
        each[1]: {status: completed, attempts: 2}
        polish#1/draft: completed
        polish#3/review: completed
        ship/send: failed
      order: [list, "each[0]", polish#1/draft, polish#2/draft, polish#3/draft, pack, send]
      never: [polish#4/draft]
""")  # fmt: skip
    code, found = data("test", "nested.test.yaml")
    assert code == 0, found["cases"]
    assert found["share"] > 0.9


def test_generated_cases_fill_fan_outs_and_end_loops(write: Write, data: Data) -> None:
    write("nested.yaml", NESTED)
    code, found = data("test", "nested.yaml")
    assert code == 0, found["cases"]
    assert found["share"] == 1


LABELLED = """
plan: p
defaults: {timeout: 10s}
policy: {gates: {prod: {ask: "prod?"}}}
tasks:
  - {id: a, run: "true", labels: [prod]}
  - {id: s, subplan: [{id: b, run: "true", labels: [prod]}, {id: c, run: "true"}]}
"""


def test_the_cases_that_follow_from_a_plan_say_no_where_a_label_demands_a_gate(write: Write, data: Data) -> None:
    code, found = data("test", write("p.yaml", LABELLED))
    assert code == 0
    names = [case["name"] for case in found["cases"]]
    assert "`a` is decided: reject" in names
    assert "`s/b` is decided: reject" in names
    assert found["coverage"]["p.yaml"]["kinds"]["gates"] == {"reached": 4, "all": 4}


def test_a_case_decides_about_a_task_behind_a_gate_of_its_label(write: Write, data: Data, call: Call) -> None:
    write("p.yaml", LABELLED)
    text = "plan: p.yaml\ncases: [{name: no, gates: {a: reject}, expect: {status: failed, never: [a]}}]\n"
    code, found = data("test", write("p.test.yaml", text))
    assert code == 0
    assert found["coverage"]["p.yaml"]["kinds"]["gates"]["reached"] == 2  # `a` rejected, `s/b` approved
    text = "plan: p.yaml\ncases: [{name: no, gates: {s: reject}, expect: {status: failed}}]\n"
    code, _, err = call("test", write("p.test.yaml", text))
    assert code == 5
    assert "people decide `a`, `s/b`" in err


def test_a_file_that_cannot_be_used_has_no_sum_and_an_empty_one_tells_what_belongs_in_it(
    write: Write, call: Call
) -> None:
    code, out, err = call("test", write("p.test.yaml", ""))
    assert (code, out) == (5, "")
    assert "a test file has `plan:` and `cases:`" in err
    assert "planrunner init" not in err


def test_what_holds_other_tasks_is_no_gate(write: Write, call: Call) -> None:
    plan = """
plan: p
defaults: {timeout: 10s}
tasks:
  - {id: lp, loop: {max: 2, tasks: [{id: x, run: one}]}}
  - {id: sub, subplan: [{id: y, run: two}]}
  - {id: ok, gate: approval}
"""
    write("p.yaml", plan)
    text = "plan: p.yaml\ncases: [{name: no, gates: {lp/x: reject}, expect: {status: failed}}]\n"
    code, _, err = call("test", write("p.test.yaml", text))
    assert code == 5
    assert "people decide `ok`" in err
    assert "`lp`," not in err


def test_an_outcome_that_only_the_engine_can_know_of_is_a_failure_like_others(
    one: Callable[[str], dict[str, Any]],
) -> None:
    result = one("mocks: {build: {failure: interrupted}}\nexpect: {status: failed, tasks: {build: {attempts: 3}}}")
    assert result["passed"], result


SHORT = """
plan: short
defaults: {timeout: 20s}
budgets: {tokens: 10k, on_exhausted: gate}
tasks:
  - {id: items, foreach: [1, 2, 3, 4, 5, 6], budgets: {tokens: 3k}, max_parallel: 3, run: echo x}
  - {id: big, needs: [items], budgets: {tokens: 9k}, run: echo big}
  - {id: calls, needs: [big], foreach: [1, 2, 3], budgets: {calls: 2, on_exhausted: gate}, run: echo y}
"""


def test_generated_cases_extend_a_budget_that_asks_people_when_it_is_short(write: Write, call: Call) -> None:
    code, out, err = call("test", write("short.yaml", SHORT))
    assert code == 0, out + err
    assert "all goes well  completed" in out
    assert "`big` fails once  failed" in out


def test_a_case_of_ones_own_waits_where_a_budget_asks_people(write: Write, call: Call) -> None:
    write("short.yaml", SHORT)
    write(
        "tests/short.test.yaml",
        "plan: ../short.yaml\ncases:\n  - name: a\n    expect: {status: blocked, waiting: [big]}\n",
    )
    code, out, err = call("test", "tests/short.test.yaml")
    assert code == 0, out + err
