"""The output of tasks on standard error while a run goes on, as ``--output`` asks for it."""

from __future__ import annotations

import pytest

PLAN = """
plan: p
defaults: {timeout: 1m}
tasks:
  - id: build
    run: echo compiling; echo careful >&2; exit {code}
"""


def _told(text):
    lines = text.splitlines()
    return lines[: next(at for at, line in enumerate(lines) if line[:1] in "✔✘") + 1]


def test_output_is_shown_after_each_task_in_a_pipe(run, plan):
    lines = _told(run("exec", plan(PLAN.replace("{code}", "0"))).err)
    assert lines[3:5] == ["    compiling", "    careful"]


def test_output_line_by_line_and_none(run, plan):
    name = plan(PLAN.replace("{code}", "0"))
    assert "\nbuild | compiling\nbuild | careful\n" in run("exec", name, "--output", "prefixed").err
    assert "compiling" not in run("exec", name, "--output", "none").err


@pytest.mark.parametrize("words", [("retry", "last"), ("rerun", "last", "build"), ("resume", "last")])
def test_whatever_goes_on_with_a_run_takes_the_option(run, plan, words):
    run("exec", plan(PLAN.replace("{code}", "75")))
    ran = run(*words, "--output", "prefixed")
    assert ("build | compiling" in ran.err) is (words[0] != "resume")  # that one has failed already
    assert "no such option" not in ran.err.lower()


@pytest.mark.parametrize("mode", ["quiet", "jsonl"])
def test_output_that_nothing_would_show_is_refused(run, plan, mode):
    ran = run("exec", plan(PLAN.replace("{code}", "0")), "--progress", mode, "--output", "grouped")
    assert ran.code == 2
    assert f"--output grouped has no effect with --progress {mode}" in ran.err


@pytest.mark.parametrize("output", ["grouped", "prefixed"])
def test_a_secret_is_in_no_output(run, plan, output):
    plan("provider_credentials:\n  - {id: token, auth: {source: env, env_var: TOKEN}}\n", "planrunner.yaml")
    text = """
plan: p
defaults: {timeout: 1m}
tasks:
  - id: leak
    secrets: [token]
    run: printf 's3cr'; sleep 0.1; echo "et-word and $TOKEN"
"""
    ran = run("exec", plan(text), "--output", output, TOKEN="s3cret-word")
    assert "[secret:token] and [secret:token]" in ran.err
    assert "s3cret-word" not in ran.err
