"""Which plan a call means: by name, from standard input, in another directory, under another command's name."""

from __future__ import annotations

import json

import pytest

TEXT = "plan: release\ntitle: Ship it\ntasks:\n  - {id: a, run: pwd, timeout: 1m}\n"


@pytest.mark.parametrize("ending", ["yaml", "yml"])
def test_a_plan_is_found_by_its_name(plan, run, ending):
    plan(TEXT, f"plans/release.{ending}")
    done = run("exec", "release", "--json")
    assert (done.code, json.loads(done.out)["plan"]) == (0, "release")


def test_a_plan_in_the_text_notation_is_found_by_its_name(plan, run):
    plan('plan release "Ship it"\n\ntask a\n  run: "true"\n  timeout: 1m\n', "plans/release.plan")
    assert run("exec", "release").code == 0


def test_a_name_is_looked_up_in_the_project_from_a_folder_of_it(plan, run, tmp_path):
    plan(TEXT, "plans/release.yaml")
    plan("scheduler: {max_parallel: 2}\n", "planrunner.yaml")
    (tmp_path / "sub").mkdir()
    assert run("exec", "release", cwd=tmp_path / "sub").code == 0


def test_a_name_of_two_plans_is_refused_with_both(plan, run):
    plan(TEXT, "plans/release.yaml")
    plan(TEXT, "plans/release.yml")
    done = run("exec", "release")
    assert done.code == 2
    assert "`release` names several plans: plans/release.yaml, plans/release.yml" in done.err


@pytest.mark.parametrize("command", ["exec", "lint", "preview", "graph", "fmt", "test"])
def test_a_name_is_that_of_a_plan_before_that_of_a_folder_or_a_file(plan, run, tmp_path, command):
    plan(TEXT, "plans/release.yaml")
    plan(TEXT, "plans/pages.yaml")
    (tmp_path / "release").mkdir()
    (tmp_path / "pages").write_text("hello")
    assert [run(command, word).code for word in ("release", "pages")] == [0, 0]


def test_a_word_with_a_slash_or_an_ending_is_a_path_first(plan, run, tmp_path):
    plan(TEXT, "plans/release.yaml")
    plan(TEXT.replace(", timeout: 1m", ""), "release/inner.plan.yaml")
    assert "is a folder, not a plan" in run("exec", "./release").err
    assert "release/inner.plan.yaml" in run("lint", "release/").out


@pytest.mark.parametrize("path", ["plans/deep/release.yaml", "release.plan.yaml", "plans/release.plan.json"])
@pytest.mark.parametrize("command", [("lint",), ("policy", "explain"), ("convert", "--to", "json")])
def test_every_command_finds_a_plan_by_its_name_wherever_plans_are(plan, run, path, command):
    plan('{"plan": "release", "tasks": [{"id": "a", "run": "pwd"}]}' if path.endswith("json") else TEXT, path)
    assert run(*command, "release").code == 0


def test_a_name_of_two_plans_in_folders_of_plans_is_refused_and_a_longer_one_is_not(plan, run):
    plan(TEXT, "plans/old/release.yaml")
    plan(TEXT, "plans/new/release.yaml")
    assert "names several plans: plans/new/release.yaml, plans/old/release.yaml" in run("exec", "release").err
    assert run("exec", "old/release").code == 0


def test_a_file_of_another_kind_does_not_hide_the_plan_of_its_name(plan, run):
    plan(TEXT, "plans/release.yaml")
    plan("image: redis\n", "release.yaml")
    plan('{"name": "release"}', "release.json")
    assert run("exec", "release").code == 0


def test_a_run_goes_on_with_a_plan_that_is_named(plan, run):
    plan(TEXT.replace("run: pwd", "run: exit 1"), "plans/release.yaml")
    run("exec", "release")
    plan(TEXT, "plans/release.yaml")
    assert run("revise", "release", "release", "--preview").code == 0
    assert run("retry", "release", "--plan", "release").code == 0


def test_a_shell_offers_the_names_of_plans(plan, complete):
    plan(TEXT, "plans/release.yaml")
    plan(TEXT, "plans/deep/check.plan.yaml")
    assert complete("exec", "") == {"release": "Ship it", "deep/check": "Ship it", "file": ""}
    assert complete("retry", "last", "--plan", "rel") == {"release": "Ship it", "file": ""}


def test_a_name_close_to_a_plan_names_that_plan(plan, run):
    plan(TEXT, "plans/release.yaml")
    done = run("exec", "relase")
    assert done.code == 3
    assert "plans/release.yaml" in done.err


def test_exec_without_a_plan_lists_the_plans_with_titles(plan, run):
    plan(TEXT, "plans/release.yaml")
    plan("plan: other\ntasks: [{id: a, run: 'true'}]\n", "plans/deep/other.yaml")
    done = run("exec")
    assert done.code == 2
    assert "no plan named" in done.err
    lines = [line.split(maxsplit=1) for line in done.err.splitlines() if ".yaml" in line]
    assert lines == [["plans/release.yaml", "Ship it"], ["plans/deep/other.yaml"]]


def test_a_bare_call_lists_the_plans(plan, run):
    plan(TEXT, "plans/release.yaml")
    done = run()
    assert (done.code, "plans/release.yaml  Ship it" in done.out) == (0, True)


def test_a_bare_call_without_plans_prints_help(run):
    done = run()
    assert (done.code, done.out.startswith("Usage: planrunner")) == (0, True)


def test_run_is_exec(plan, run):
    plan(TEXT, "plans/release.yaml")
    assert run("run", "release", "--json").code == 0
    assert "Usage: planrunner exec" in run("run", "--help").out


@pytest.mark.parametrize(
    ("word", "command"),
    [("list", "runs"), ("status", "show"), ("validate", "lint"), ("ps", "runs"), ("stop", "cancel"), ("rum", "run")],
)
def test_a_habit_from_other_tools_leads_to_the_command(run, word, command):
    done = run(word)
    assert (done.code, f"no command `{word}`: did you mean `{command}`?" in done.err) == (2, True)


def test_a_plan_runs_from_standard_input(run, tmp_path):
    done = run("exec", "-", "--progress", "quiet", "--json", stdin=TEXT)
    assert (done.code, json.loads(done.out)["status"]) == (0, "completed")
    logs = run("logs", "last", "a")
    assert str(tmp_path) in logs.out


def test_findings_of_a_plan_on_standard_input_have_places(run):
    done = run("exec", "-", stdin="plan: p\ntasks:\n  - {id: a, needs: [b]}\n")
    assert done.code == 5
    assert "<stdin>:3" in done.err


def test_a_run_of_a_plan_on_standard_input_goes_on(run):
    text = "plan: p\ntasks:\n  - {id: a, gate: approval, ask: Go on, timeout: 1h}\n"
    assert run("exec", "-", stdin=text).code == 8
    assert run("approve", "last", "a", "--resume").code == 0


def test_a_call_works_in_the_directory_that_is_named(plan, run, tmp_path):
    plan(TEXT, "there/plans/release.yaml")
    done = run("-C", "there", "exec", "release", PLANRUNNER_STATE="")
    assert done.code == 0
    assert (tmp_path / "there/.planrunner").is_dir()


def test_hints_name_the_directory_that_was_named(plan, run):
    plan("plan: p\ntasks:\n  - {id: a, run: exit 1}\n", "there/p.yaml")
    done = run("-C", "there", "exec", "p.yaml", PLANRUNNER_STATE="")
    assert done.code == 1
    assert "planrunner -C there logs" in done.err


def test_a_directory_that_does_not_exist_is_a_wrong_call(run):
    done = run("-C", "nowhere", "runs")
    assert (done.code, "-C `nowhere`: No such file or directory" in done.err) == (2, True)
