"""`hypotheses` shows how a confidence comes about; `show`, `why` and documents tell of it too."""

from __future__ import annotations

import json

OUTAGE = """
plan: outage
defaults: {timeout: 1m}
hypotheses:
  race: {statement: Two writers race, confidence: 40%}
  pool: The pool is exhausted
tasks:
  - id: load
    run: exit 1
    allow_failure: true
    evidence:
      - {hypothesis: race, supports: exit_code == 1, weight: strong}
      - {hypothesis: pool, supports: exit_code == 3, refutes: outputs.lost > 1}
  - id: probe
    foreach: [1, 2, 3, 4, 5, 6, 7, 8]
    run: "true"
    evidence: {hypothesis: pool, refutes: exit_code == 0, weight: weak}
  - id: guard
    needs: [load]
    when: hypotheses.race.confidence >= 80%
    run: echo {{ hypotheses.race.confidence }}
"""


def test_the_table_shows_the_arithmetic_and_the_reasons(run, plan):
    assert run("exec", plan(OUTAGE)).code == 0
    lines = run("hypotheses").out.splitlines()
    assert lines == [
        "HYPOTHESIS  CONFIDENCE  STATUS     STATEMENT",
        "race        93%         supported  Two writers race",
        "pool        1%          refuted    The pool is exhausted",
        "",
        "race: prior 40% → odds 0.667 × 20 (load) = 13.3 → 93%",
        "    load supports: `exit_code == 1`",
        "pool: prior 50% → odds 1 ÷ 100 (probe, at its limit) = 0.01 → 1%",
        lines[7],
        "    probe refutes 8 times",
    ]
    assert lines[7].startswith("    load is neutral: `outputs.lost > 1` has no value: ")


def test_the_document_has_every_piece(run, plan):
    run("exec", plan(OUTAGE))
    told = json.loads(run("hypotheses", "last", "--json").out)
    assert (told["plan"], told["best"]) == ("outage", "race")
    pool = told["hypotheses"][1]
    assert [len(given["pieces"]) for given in pool["evidence"]] == [1, 8]
    assert pool["evidence"][1]["pieces"][0] == {
        "task": "probe[0]",
        "said": "refutes",
        "factor": 0.5,
        "why": "`exit_code == 0`",
    }
    assert json.loads(run("show", "--json").out)["hypotheses"][0]["confidence"] == 0.93


def test_show_and_why_tell_of_it(run, plan):
    run("exec", plan(OUTAGE))
    assert "hypotheses: race 93% supported, pool 1% refuted" in run("show").out
    assert run("logs", "last", "guard").out.endswith("93%\n")
    other = plan(OUTAGE.replace("exit 1", "exit 0"))
    run("exec", other)
    assert "`guard` was skipped: `hypotheses.race.confidence >= 80%` is false" in run("why", "guard").out


def test_a_plan_without_hypotheses_says_so(run, plan):
    run("exec", plan("plan: p\ntasks: [{id: a, uses: noop}]\n"))
    done = run("hypotheses")
    assert (done.code, done.out) == (0, "")
    assert "declares no hypotheses" in done.err
    assert json.loads(run("hypotheses", "--json").out)["hypotheses"] == []


def test_both_notations_and_the_formatter_keep_what_is_said(run, plan, tmp_path):
    first = plan(OUTAGE)
    text = run("convert", first, "--to", "plan").out
    (tmp_path / "other.plan").write_text(text)
    assert json.loads(run("convert", "other.plan", "--to", "json").out) == json.loads(
        run("convert", first, "--to", "json").out
    )
    assert run("fmt", first).code == 0
    assert "prior: 40%" in (tmp_path / first).read_text()
    assert run("lint", first).code == 0


def test_a_revision_weighs_results_anew_and_decides_again(run, plan, tmp_path):
    first = plan(OUTAGE.replace("when: hypotheses.race.confidence >= 80%", "when: hypotheses.race.confidence >= 95%"))
    run("exec", first)
    assert json.loads(run("show", "--json").out)["tasks"]["guard"]["status"] == "skipped"
    (tmp_path / "new.yaml").write_text(
        OUTAGE.replace("when: hypotheses.race.confidence >= 80%", "when: hypotheses.race.confidence >= 95%").replace(
            "confidence: 40%", "prior: 60%"
        )
    )
    done = run("rerun", "last", "guard", "--plan", "new.yaml")
    assert done.code == 0, done.err
    told = json.loads(run("show", "--json").out)
    assert (told["hypotheses"][0]["confidence"], told["tasks"]["guard"]["status"]) == (0.968, "completed")
    assert run("replay", "last").code == 0
