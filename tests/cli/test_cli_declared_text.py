"""A value that is declared ``string`` is the text that was written, also where YAML takes that for a number."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PLAN = """plan: p
defaults: {{timeout: 10s}}
params:
  word: {{type: string, default: {word}}}
  chosen: {{type: string, choices: [{word}, other], default: {word}}}
tasks:
  - id: a
    run: echo "[{{{{ params.word }}}}] [{{{{ params.chosen }}}}]"
    outputs: {{kept: {{type: string, value: {word}}}}}
  - {{id: b, subplan: inner, params: {{word: {word}}}}}
subplans:
  inner:
    params: {{word: {{type: string, required: true}}}}
    defaults: {{timeout: 10s}}
    tasks: [{{id: c, run: 'echo "<{{{{ params.word }}}}>"'}}]
"""


def test_a_run_reads_the_text_that_was_written(run: Callable[..., Any], plan: Callable[[str], str]) -> None:
    done = run("exec", plan(PLAN.format(word="1.10")), "--progress", "plain")
    assert "[1.10] [1.10]" in done.out + done.err and "<1.10>" in done.out + done.err
    assert run("show", "last", "--json").data["tasks"]["a"]["outputs"]["kept"] == "1.10"


def test_the_text_is_kept_in_json_in_the_text_notation_and_by_fixes(
    run: Callable[..., Any], plan: Callable[[str], str], tmp_path: Path
) -> None:
    path = plan(PLAN.format(word="0012345"))
    for notation in ("json", "plan"):
        text = run("convert", path, "--to", notation).out
        (tmp_path / f"q.{notation}").write_text(text)
        done = run("exec", f"q.{notation}", "--progress", "plain")
        assert "[0012345] [0012345]" in done.out + done.err
    assert run("lint", path, "--fix", "--unsafe-fixes").code == 0
    assert (tmp_path / "p.yaml").read_text() == PLAN.format(word='"0012345"')


def test_a_number_without_a_declared_type_is_not_changed_by_safe_fixes(
    run: Callable[..., Any], plan: Callable[[str], str], tmp_path: Path
) -> None:
    text = "plan: p\ntasks: [{id: a, uses: noop, with: {value: 0012}}]\n"
    run("lint", plan(text), "--fix")
    assert (tmp_path / "p.yaml").read_text() == text


def test_a_form_keeps_its_texts(run: Callable[..., Any], plan: Callable[[str], str]) -> None:
    form = "form: {v: {type: string, default: 1.10}, c: {type: string, choices: [3.9, 3.10]}}"
    run("exec", plan(f"plan: p\ntasks: [{{id: g, gate: approval, ask: go, {form}}}]\n"), "--no-wait")
    done = run("answer", "last", "g", "--as", "ana", "-f", "c=3.10", "--resume")
    assert done.code == 0, done.err
    outputs = run("show", "last", "--json").data["tasks"]["g"]["outputs"]
    assert (outputs["v"], outputs["c"]) == ("1.10", "3.10")


@pytest.mark.parametrize(("given", "said"), [("1.10", "the number `1.1`: write it in quotes"), ("0x1F", '"0x1F"')])
def test_a_number_of_a_file_of_parameters_is_refused_where_its_digits_are_lost(
    given: str, said: str, run: Callable[..., Any], plan: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "params.yaml").write_text(f"word: {given}\n")
    done = run("exec", plan(PLAN.format(word="x")), "--params-file", "params.yaml")
    assert done.code != 0 and said in done.err, done.err


def test_a_number_of_a_trigger_whose_digits_would_change_is_a_finding(run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PLAN.format(word="x"))
    trigger = {"plan": "p.yaml", "cron": "0 0 * * *", "params": {"word": 0}}
    text = json.dumps({"triggers": {"t": trigger}}).replace('"word": 0', '"word": 0012')
    (tmp_path / "planrunner.yaml").write_text(text)
    done = run("config", "check")
    assert done.code != 0 and "`0012` reads as the number 12" in done.out + done.err
