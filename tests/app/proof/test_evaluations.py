"""``planrunner eval``: what files may say, what is found in them, and how versions are compared."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from workbench import environment

from planrunner.app.proof.evalruns import Fund
from planrunner.plan.model import Budgets

Write = Callable[[str, str], str]
Call = Callable[..., tuple[int, str, str]]
Data = Callable[..., tuple[int, Any]]

PLAN = """
plan: words
params: {text: {type: string, required: true}}
defaults: {timeout: 1m}
tasks:
  - id: count
    run: echo "n=$(echo {{ params.text }} | wc -w)" >> "$PLANRUNNER_OUTPUT"
    outputs: {n: int}
  - {id: mark, run: "echo {{ params.text }} > mark.txt"}
outputs: {n: "{{ tasks.count.outputs.n }}"}
"""
SUITE = """
eval: words
plan: words.yaml
expect: [status == "completed"]
cases:
  - id: three
    params: {text: a b c}
    expect: [outputs.n == 3, {schema: {outputs: {type: object, required: [n]}, outputs.n: {type: integer}}}]
  - id: two
    params: {text: a b}
    expect: [outputs.n == 2, duration < 1m]
"""


def git(*words: str) -> None:
    said = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *said, *words], check=True, capture_output=True)


def test_plans_run_in_copies_and_the_project_stays_as_it_is(write: Write, data: Data, tmp_path: Path) -> None:
    write("words.yaml", PLAN)
    write("words.eval.yaml", SUITE)
    code, told = data("eval")
    assert (code, told["passed"]) == (0, 2)
    assert not (tmp_path / "mark.txt").exists()
    assert not list((tmp_path / ".planrunner").iterdir())


@pytest.mark.parametrize(
    ("line", "place", "code", "said"),
    [
        ("outputs.m == 3", "8:20", "PLAN202", "plan `words` has no output `m`"),
        ("tasks.cont.ok", "8:18", "PLAN201", "the plan has no task `cont`"),
        ('status == "completd"', "8:22", "PLAN006", "the status of a run is never `completd`"),
        ("duration < 5", "8:12", "PLAN205", "a duration is compared with a number"),
        ("{schema: {outputs.n: {type: int}}}", "8:33", "PLAN006", "not a valid JSON Schema"),
        ("{equals: {outputs.n: 3}}", "8:13", "PLAN003", "`equals`"),
        ("{judge: ''}", "8:20", "PLAN006", "a criterion is not empty"),
    ],
)
def test_what_is_wrong_with_an_expectation_is_found_where_it_stands(
    line: str, place: str, code: str, said: str, write: Write, call: Call
) -> None:
    write("words.yaml", PLAN)
    write(
        "a.eval.yaml",
        f"eval: a\nplan: words.yaml\ncases:\n  - id: one\n    params: {{text: a}}\n\n    expect:\n         - {line}\n",
    )
    left, _, err = call("eval")
    assert left == 5
    assert f"[{code}]" in err
    assert said in err
    assert f"a.eval.yaml:{place}" in err, err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('eval: a\ncases:\n  - {id: one, expect: [status == "failed"]}\n', "the case names no plan and no run"),
        ('eval: a\nplan: wards.yaml\ncases: [{id: one, expect: [status == "failed"]}]\n', "did you mean `./words.yaml`?"),
        ("eval: a\nplan: words.yaml\ncases: [{id: one, params: {text: a}}]\n", "the case `one` expects nothing"),
        ('eval: a\nplan: words.yaml\nmodels: [big]\ncases: [{id: one, run: last, expect: [status == "failed"]}]\n', "planrunner.yaml has no model `big`"),
        ('eval: a\nplan: words.yaml\nreplaces: x\ncases: [{id: one, run: last, expect: [status == "failed"]}]\n', "`replaces` has no effect without `models`"),
        ('eval: a\nplan: words.yaml\ncases: [{id: one, run: last, repeat: 2, expect: [status == "failed"]}]\n', "`repeat` has no effect on a recorded `run`"),
        ('eval: a\nplan: words.yaml\npass: 8\ncases: [{id: one, run: last, expect: [status == "failed"]}]\n', "`pass`"),
        ('eval: a\nplan: words.yaml\nexpect: [status == "failed"]\ncases: [{id: one}]\n', "`text`"),
        ('eval: a\nplan: words.yaml\nexpect: [status == "failed"]\ncases: [{id: x, run: last}, {id: x, run: last}]\n', "two cases are called `x`"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_meant_so_is_refused_before_anything_runs(
    text: str, said: str, write: Write, call: Call
) -> None:
    write("words.yaml", PLAN)
    write("a.eval.yaml", text)
    left, _, err = call("eval")
    assert left == 5
    assert said in err, err


def test_a_regression_against_a_revision_a_plan_a_run_and_a_saved_result_is_found(
    write: Write, data: Data, call: Call, tmp_path: Path
) -> None:
    write("words.yaml", PLAN)
    write("words.eval.yaml", SUITE)
    git("init", "-q")
    git("add", "words.yaml", "words.eval.yaml")
    git("commit", "-qm", "one")
    assert call("eval", "--save", "before.json")[0] == 0
    assert call("exec", "words.yaml", "-p", "text=a b c")[0] == 0
    write("better.yaml", PLAN)
    write("words.yaml", PLAN.replace("wc -w", "wc -l"))
    for option, other, known in (
        ("--against", "HEAD", 2), ("--against", "better.yaml", 2), ("--against", "last", 1), ("--baseline", "before.json", 2),
    ):  # fmt: skip
        code, told = data("eval", option, other)
        comparison = told["comparison"]
        assert code == 1
        assert (comparison["against"], comparison["regressed"], len(comparison["cases"])) == (other, known, known)
        assert comparison["cases"][0]["rate"] == [1.0, 0.0]
    assert (
        subprocess.run(["git", "status", "--short", "-uno"], capture_output=True, text=True).stdout == " M words.yaml\n"
    )
    assert not (tmp_path / ".git" / "worktrees").exists()
    code, told = data("eval", "--baseline", "before.json", "-k", "none")
    assert code == 3


def test_what_got_worst_comes_first_and_only_what_falls_below_its_share_regressed(write: Write, data: Data) -> None:
    write("words.yaml", PLAN)
    write("words.eval.yaml", SUITE)
    data("eval", "--save", "before.json")
    text = SUITE.replace("plan: words.yaml", "plan: words.yaml\npass: 0%").replace("outputs.n == 2,", "outputs.n == 5,")
    write("words.eval.yaml", text)
    code, told = data("eval", "--baseline", "before.json")
    assert (code, told["comparison"]["regressed"]) == (0, 0)
    assert [row["id"] for row in told["comparison"]["cases"]] == ["two", "three"]


def test_results_are_a_table_and_junit(write: Write, call: Call) -> None:
    write("words.yaml", PLAN)
    write("words.eval.yaml", SUITE.replace("outputs.n == 2,", "outputs.n == 5,"))
    code, out, _ = call("eval", "--junit", "out.xml")
    assert code == 1
    assert "two, 1 run of 1: completed" in out
    assert "`outputs.n == 5` is false: outputs.n is 2" in out
    assert "1 passed, 1 failed" in out
    (suite,) = ET.parse("out.xml").getroot()
    assert [(test.get("name"), [child.tag for child in test]) for test in suite] == [
        ("three 1", []),
        ("two 1", ["failure"]),
    ]


def test_what_is_not_there_is_said(write: Write, call: Call) -> None:
    assert call("eval")[0] == 3
    write("words.yaml", PLAN)
    write("words.eval.yaml", SUITE)
    code, _, err = call("eval", "--against", "nonsense")
    assert (code, "`nonsense` is not a plan file, a recorded run or a git revision" in err) == (3, True)
    write("x.json", "{}")
    code, _, err = call("eval", "--baseline", "x.json")
    assert (code, "is not a result that `planrunner eval --save` wrote" in err) == (2, True)
    code, _, err = call("eval", "--against", "a", "--baseline", "b")
    assert code == 2
    code, _, err = call("eval", "--recorded", "nonsense")
    assert (code, "git revision" in err) == (3, False)
    code, _, err = call("eval", "--recorded", "words.yaml")
    assert (code, "the history `words.yaml` cannot be used" in err) == (2, True)
    code, _, err = call("eval", "--save", "nowhere/out.json")
    assert (code, "`nowhere/out.json` cannot be written: there is no folder `nowhere`" in err) == (2, True)


def test_a_plan_that_does_not_start_fails_its_case_with_the_reason(write: Write, data: Data) -> None:
    write("words.yaml", PLAN)
    write("planrunner.yaml", "policy: {capabilities: {deny: [shell]}}\n")
    write("words.eval.yaml", SUITE)
    code, told = data("eval")
    assert code == 1
    broken = told["suites"][0]["cases"][0]["scores"][0]["broken"]
    assert broken.startswith("there is no run (exit code 12)")
    assert "planrunner.yaml denies `shell`" in broken


def test_shares_of_runs_never_pass_the_limit_and_what_is_left_goes_to_the_next() -> None:
    fund = Fund(Budgets(cost=2.0), 4)
    none = {"cost": 0.0}
    shares = [fund.reserve(none) for _ in range(4)]
    assert shares == [{"cost": 0.5}] * 4
    fund.settle(shares[0], {"cost": 0.1})
    assert fund.reserve(none) == pytest.approx({"cost": 0.4})
    for share in (*shares[1:], {"cost": 0.4}):
        fund.settle(share, {})  # what is not known counts as used
    assert fund.reserve(none) is None


def test_a_run_gets_what_its_plan_sets_aside_once_others_gave_it_back() -> None:
    fund = Fund(Budgets(cost=2.0), 4)
    first = fund.reserve({"cost": 1.5})
    assert first == {"cost": 1.5}
    fund.settle(first, {"cost": 0.1})
    assert fund.reserve({"cost": 1.5}) == {"cost": 1.5}


def test_a_saved_result_is_json_of_the_same_shape(write: Write, data: Data) -> None:
    write("words.yaml", PLAN)
    write("words.eval.yaml", SUITE)
    _, told = data("eval", "--save", "out.json")
    assert json.loads(Path("out.json").read_text()).keys() == told.keys()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_told_to_end_ends_the_runs_it_started(
    number: int, write: Write, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mark = tmp_path / "mark"
    write(
        "plan.yaml",
        f"plan: long\ndefaults: {{timeout: 5m}}\ntasks: [{{id: a, run: echo $$ > {mark}; exec sleep 200}}]\n",
    )
    write("a.eval.yaml", 'eval: a\nplan: plan.yaml\ncases: [{id: one, expect: [status == "completed"]}]\n')
    copies = tmp_path_factory.mktemp("copies")
    started = subprocess.Popen([sys.executable, "-m", "planrunner", "eval"], env=environment(TMPDIR=str(copies)))
    while not (mark.exists() and mark.read_text().strip()):
        assert started.poll() is None
        time.sleep(0.05)
    started.send_signal(number)
    assert started.wait() == 128 + number
    assert not Path(f"/proc/{mark.read_text().strip()}").exists()
    assert not list(copies.iterdir())
