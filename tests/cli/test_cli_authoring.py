"""Commands that work on plan files: lint, fmt, convert, graph, schema, rule, init, capabilities."""

from __future__ import annotations

import json

import pytest

GOOD = "plan: p\ntasks:\n  - id: a\n    run: echo hi\n    timeout: 1m\n"
MISSPELT = "plan: p\ntasks:\n  - id: a\n    titel: Hi  # says hi\n    run: echo hi\n    timeout: 1m\n"
WARNS = "plan: p\ntasks:\n  - id: a\n    run: echo hi\n"


def test_lint_of_a_clean_plan_gives_0(run, plan):
    assert run("lint", plan(GOOD)).code == 0


def test_lint_tells_the_place_and_gives_1(run, plan):
    ran = run("lint", plan(MISSPELT))
    assert ran.code == 1
    assert "error[PLAN003]" in ran.out
    assert "--> p.yaml:4:5" in ran.out
    assert "\x1b[" not in ran.out


def test_json_is_short_for_its_format(run, plan):
    name = plan(MISSPELT)
    assert run("lint", "--json", name).out == run("lint", "--format", "json", name).out
    assert json.loads(run("lint", "--json", name).out)["findings"]


SETTINGS = "models:\n  default: fats\n  fast: {provider: ollama, model: m}\ntools:\n  read: {uses: files.raed}\n"


def test_settings_that_are_named_are_checked_as_config_check_does(run, plan):
    name = plan(SETTINGS, "planrunner.yaml")
    checked = run("config", "check", "--format", "json")
    ran = run("lint", "--format", "json", name)
    assert (ran.code, ran.out) == (checked.code, checked.out)
    assert ran.code == 1
    assert {found["code"] for found in json.loads(ran.out)["findings"]} >= {"PLAN841"}
    assert run("lint", name).out == run("config", "check").out


def test_sound_settings_are_let_be_with_every_file_they_include(run, plan):
    plan("models:\n  default: fast\n", "planrunner.yaml")
    plan("models:\n  fast: {provider: ollama, model: m}\n", "models.yaml")
    name = plan("include: [models.yaml]\nmodels:\n  default: fast\n", "planrunner.yaml")
    ran = run("lint", name)
    assert (ran.code, ran.out) == (0, "no findings in 2 files\n")


def test_settings_and_plans_may_be_named_together_and_each_file_is_told_once(run, plan, tmp_path):
    settings, good = plan(SETTINGS, "planrunner.yaml"), plan(GOOD)
    together = json.loads(run("lint", "--format", "json", settings, good).out)["findings"]
    beside = json.loads(run("lint", "--format", "json", good).out)["findings"]
    assert together == beside == json.loads(run("lint", "--format", "json", settings).out)["findings"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "planrunner.yaml").write_text(SETTINGS)
    found = run("lint", "--format", "concise", "elsewhere/planrunner.yaml", "--select", "PLAN841").out
    assert len(found.splitlines()) == 2
    assert all("elsewhere/planrunner.yaml:" in line for line in found.splitlines())


def test_a_folder_with_settings_and_no_plan_has_nothing_to_lint(run, plan):
    plan(SETTINGS, "planrunner.yaml")
    assert run("lint").code == 3


def test_lint_mends_no_settings(run, plan, tmp_path):
    name = plan(SETTINGS, "planrunner.yaml")
    assert run("lint", "--fix=all", name).code == 1
    assert run("lint", "--diff", name).out == ""
    assert (tmp_path / name).read_text() == SETTINGS


def test_the_settings_of_a_project_are_not_written_anew_as_if_they_were_a_plan(run, plan, tmp_path):
    text = "models:\n  default: fast\n  fast: {provider: ollama, model: m}\n"
    name = plan(text, "planrunner.yaml")
    ran = run("fmt", name)
    assert ran.code == 2
    assert "is not a plan: it holds the settings of a project" in ran.err
    assert "planrunner config check" in ran.err
    assert (tmp_path / name).read_text() == text


def test_lint_in_json_keeps_standard_output_to_the_object(run, plan):
    ran = run("lint", "--format", "json", plan(MISSPELT))
    data = json.loads(ran.out)
    assert data["format"] == 1
    assert [(found["code"], found["range"]["start"]["line"]) for found in data["findings"]] == [("PLAN003", 4)]


def test_lint_in_concise_form_is_a_line_a_finding(run, plan):
    ran = run("lint", "--format", "concise", plan(MISSPELT))
    assert ran.out.startswith("p.yaml:4:5: error[PLAN003]")
    assert len(ran.out.splitlines()) == 1


@pytest.mark.parametrize(("threshold", "code"), [("error", 0), ("warning", 1), ("note", 1)])
def test_fail_on_moves_the_threshold_of_code_1(run, plan, threshold, code):
    assert run("lint", "--fail-on", threshold, plan(WARNS)).code == code


def test_fix_mends_the_file_keeps_comments_and_gives_the_code_of_what_is_left(run, plan, tmp_path):
    name = plan(MISSPELT)
    (tmp_path / name).chmod(0o640)
    ran = run("lint", "--fix", name)
    assert ran.code == 0
    assert (tmp_path / name).read_text() == MISSPELT.replace("titel:", "title:")
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o640
    assert "1 finding fixed" in ran.out


def test_diff_shows_the_mending_and_writes_nothing(run, plan, tmp_path):
    name = plan(MISSPELT)
    ran = run("lint", "--diff", name)
    assert "-    titel: Hi  # says hi\n+    title: Hi  # says hi\n" in ran.out
    assert (tmp_path / name).read_text() == MISSPELT


def test_select_and_ignore_choose_rules_by_code_beginning_or_name(run, plan):
    name = plan("plan: p\ntasks:\n  - id: a\n    needs: [b]\n    run: echo\n")
    codes = {}
    for label, arguments in {
        "all": [],
        "select": ["--select", "PLAN101"],
        "beginning": ["--select", "PLAN5"],
        "ignore": ["--ignore", "undefined-need,PLAN501"],
    }.items():
        data = json.loads(run("lint", "--format", "json", *arguments, name).out)
        codes[label] = {found["code"] for found in data["findings"]}
    assert codes == {"all": {"PLAN101", "PLAN501"}, "select": {"PLAN101"}, "beginning": {"PLAN501"}, "ignore": set()}


def test_a_rule_that_does_not_exist_is_a_wrong_call_with_the_nearest_name(run, plan):
    ran = run("lint", "--select", "PLAN1O1", plan(GOOD))
    assert ran.code == 2
    assert "did you mean `PLAN101`?" in ran.err


def test_lint_reads_standard_input_under_the_name_it_is_given(run):
    ran = run("lint", "-", "--stdin-filename", "x/y.yaml", "--format", "concise", stdin=MISSPELT)
    assert ran.out.startswith("x/y.yaml:4:5:")


def test_a_folder_is_searched_for_plans_only(run, plan):
    for name in (
        "one.plan.yaml",
        "plans/two.yaml",
        "deep/three.yaml",
        ".hidden/four.plan.yaml",
        "node_modules/x.plan.yaml",
    ):
        plan(MISSPELT, name)
    plan("version: 3\ntasks: {build: echo}\n", "Taskfile.yml")
    plan("- hosts: all\n  tasks: []\n", "playbook.yaml")
    plan("key: value\n", "plans/values.yaml")
    plan('{"id": "four", "tasks": [{"id": "a", "needz": []}]}', "plans/four.json")
    plan('{"id": "data", "tasks": 3}', "plans/data.json")
    plan('{"id": "data", "tasks": [{"id": "a", "needz": []}]}', "deep/data.json")
    ran = run("lint", "--format", "concise")
    assert [line.split(":")[0] for line in ran.out.splitlines()] == [
        "one.plan.yaml",
        "deep/three.yaml",
        "plans/four.json",
        "plans/two.yaml",
    ]


def test_a_folder_without_plans_gives_3(run):
    ran = run("lint")
    assert ran.code == 3
    assert "no plan in `.`" in ran.err


def test_a_file_that_is_not_there_gives_3_and_the_nearest_name(run, plan):
    plan(GOOD, "release.yaml")
    ran = run("lint", "relaese.yaml")
    assert ran.code == 3
    assert "did you mean `release.yaml`?" in ran.err


def test_bytes_that_are_no_text_are_a_finding_and_no_crash(run, tmp_path):
    (tmp_path / "p.yaml").write_bytes(b"plan: \xff\xfe\n")
    ran = run("lint", "p.yaml")
    assert ran.code == 1
    assert "PLAN012" in ran.out
    assert "PLAN012" in run("lint", "-", stdin=b"plan: \xff\n").out


def test_fmt_rewrites_aliases_keeps_comments_and_is_done_after_once(run, plan, tmp_path):
    name = plan(
        "# head\nplan_id: p\nsteps:\n  - run: echo hi  # says hi\n    timeout: 1m\n    id: a\n    depends_on: []\n"
    )
    assert run("fmt", "--check", name).code == 1
    assert run("fmt", name).code == 0
    text = (tmp_path / name).read_text()
    assert text.startswith("# head\nplan: p\n")
    assert "tasks:" in text
    assert "# says hi" in text
    assert text.index("id: a") < text.index("run:")
    assert run("fmt", "--check", name).code == 0


def test_fmt_of_standard_input_prints_the_plan(run):
    ran = run("fmt", "-", stdin="plan_id: p\nsteps: [{id: a, run: echo}]\n")
    assert ran.code == 0
    assert ran.out.startswith("plan: p\n")


def test_fmt_of_a_text_that_does_not_parse_gives_5_and_changes_nothing(run, plan, tmp_path):
    name = plan("plan: p\ntasks: [\n")
    ran = run("fmt", name)
    assert ran.code == 5
    assert "error[PLAN001]" in ran.err
    assert (tmp_path / name).read_text() == "plan: p\ntasks: [\n"


def test_a_plan_goes_through_every_notation_and_comes_back_the_same(run, plan):
    name = plan(GOOD)
    as_json = json.loads(run("convert", name, "--to", "json").out)
    text = run("convert", name, "--to", "plan")
    assert text.code == 0
    plan(text.out, "p.plan")
    back = run("convert", "p.plan", "--to", "json")
    assert json.loads(back.out) == as_json
    assert as_json["tasks"][0]["run"] == "echo hi"


def test_a_text_plan_without_a_plan_line_is_converted_with_the_name_it_has(run, plan):
    plan("task a\n  run: echo hi\n  timeout: 5s\n", "small.plan")
    converted = run("convert", "small.plan", "--to", "yaml").out
    assert converted.startswith("plan: small\n")
    plan(converted, "other.yaml")
    assert run("lint", "other.yaml").code == 0


def test_convert_does_not_overwrite(run, plan):
    name = plan(GOOD)
    assert run("convert", name, "--to", "json", "-o", "q.json").code == 0
    ran = run("convert", name, "--to", "json", "-o", "q.json")
    assert ran.code == 2
    assert "is there already" in ran.err


def test_graph_is_drawn_in_every_format(run, plan):
    name = plan(
        "plan: p\ntasks:\n  - {id: a, run: echo, timeout: 1m}\n  - {id: b, run: echo, needs: [a], timeout: 1m}\n"
    )
    assert run("graph", name).out.startswith("a")
    assert "n0 --> n1" in run("graph", name, "--format", "mermaid").out
    assert '"a" -> "b";' in run("graph", name, "--format", "dot").out
    assert json.loads(run("graph", name, "--format", "json").out)["edges"][0]["from"] == "a"
    assert run("graph").code == 2


def test_graph_of_a_faulty_plan_gives_5_with_the_findings(run, plan):
    ran = run("graph", plan(MISSPELT))
    assert ran.code == 5
    assert "error[PLAN003]" in ran.err
    assert ran.out == ""


def test_schema_prints_the_whole_a_part_and_the_capabilities(run):
    whole = json.loads(run("schema").out)
    assert "tasks" in whole["properties"]
    part = json.loads(run("schema", "tasks.retry").out)
    assert "definitions" in part or "properties" in part
    assert json.loads(run("schema", "tasks.retry.backoff").out)["enum"]
    inputs = json.loads(run("schema", "capabilities").out)["properties"]
    assert inputs["files.write"]["required"]
    wrong = run("schema", "tasks.rety")
    assert wrong.code == 3
    assert "did you mean `retry`?" in wrong.err


def test_the_written_schema_accepts_good_plans_and_refuses_wrong_inputs(run, tmp_path):
    import jsonschema

    assert run("schema", "--write", "s.json").code == 0
    check = jsonschema.Draft7Validator(json.loads((tmp_path / "s.json").read_text()))
    good = {"plan": "p", "tasks": [{"id": "a", "uses": "files.write", "with": {"path": "x", "content": "y"}}]}
    assert not list(check.iter_errors(good))
    wrong = {"plan": "p", "tasks": [{"id": "a", "uses": "files.write", "with": {"pth": "x"}}]}
    assert list(check.iter_errors(wrong))


def test_rule_explains_by_code_and_by_name(run):
    by_code, by_name = run("rule", "plan103"), run("rule", "dependency-cycle")
    assert by_code.out == by_name.out
    assert "PLAN103" in by_code.out
    every = json.loads(run("rule", "--all", "--json").out)["rules"]
    assert all(rule["explanation"] for rule in every)
    assert run("rule").code == 2
    assert "did you mean `dependency-cycle`?" in run("rule", "dependency-cicle").err


def test_init_writes_a_plan_in_canonical_form_that_lints_clean_and_overwrites_nothing(run, tmp_path):
    ran = run("init")
    assert ran.code == 0
    assert ran.out.splitlines() == ["wrote plans/hello.yaml", "wrote plans/README.md"]
    assert run("lint", "--fail-on", "note").code == 0
    assert run("fmt", "--check", "plans").code == 0
    (tmp_path / "plans/hello.yaml").write_text("mine")
    again = run("init")
    assert again.code == 2
    assert (tmp_path / "plans/hello.yaml").read_text() == "mine"


def test_capabilities_are_listed_described_and_found_by_their_nearest_name(run):
    listed = json.loads(run("capabilities", "--json").out)["capabilities"]
    assert {"shell", "noop", "fail", "sleep"} <= {found["name"] for found in listed}
    one = json.loads(run("capabilities", "files.write", "--json").out)
    assert one["schema"]["required"]
    assert "effect" in run("capabilities", "shell").out
    wrong = run("capabilities", "files.wirte")
    assert wrong.code == 3
    assert "did you mean `files.write`?" in wrong.err


def test_doctor_tells_what_is_there_and_fails_on_a_state_directory_that_cannot_be_used(run, tmp_path):
    data = json.loads(run("doctor", "--json").out)
    assert data["ok"]
    assert {"python", "sqlite", "sh", "state"} <= {check["name"] for check in data["checks"]}
    (tmp_path / "file").write_text("")
    broken = run("--state", str(tmp_path / "file"), "doctor")
    assert broken.code == 1
    assert "is not a directory" in broken.out


def test_doctor_compares_this_deployment_with_the_one_that_the_last_run_recorded(run, plan):
    file = plan("plan: p\ntasks:\n  - {id: t, run: 'true', timeout: 1m}\n")

    def told(text: str) -> dict[str, str]:
        checks = json.loads(run("doctor", "--json", PLANRUNNER_DEPLOYMENT=text).out)["checks"]
        return next((check for check in checks if check["name"] == "deployment"), {})

    here = "name=production commit=4f2a91c"
    assert not told("")
    assert f"{here} planrunner=" in told(here)["found"]
    assert run("exec", file, PLANRUNNER_DEPLOYMENT=here).code == 0
    assert "as the last run here recorded" in told(here)["found"]
    assert "commit=4f2a91c" in told("name=production commit=77aa01b")["advice"]
    assert told("production")["verdict"] == "problem"
    wrong = run("exec", file, PLANRUNNER_DEPLOYMENT="production")
    assert wrong.code == 2
    assert "`production`, expected `name=value`" in wrong.err


@pytest.mark.parametrize("where", ["head", "inside", "all"])
def test_doctor_finds_a_damaged_journal_and_says_what_to_do(run, plan, tmp_path, where):
    assert not [check for check in json.loads(run("doctor", "--json").out)["checks"] if check["name"] == "journal"]
    tasks = "".join(f"  - {{id: t{number}, run: echo {number}, timeout: 1m}}\n" for number in range(40))
    assert run("exec", plan(f"plan: p\ntasks:\n{tasks}")).code == 0
    whole = run("doctor")
    assert whole.code == 0
    assert "journal.db" in whole.out
    path = tmp_path / "state" / "journal.db"
    data = bytearray(path.read_bytes())
    first, last = {"head": (0, 100), "inside": (4096, len(data)), "all": (0, len(data))}[where]
    data[first:last] = b"rubbish " * ((last - first) // 8) + b"x" * ((last - first) % 8)
    path.write_bytes(data)
    ran = run("doctor")
    assert ran.code == 1
    [line] = [line for line in ran.out.splitlines() if " journal " in line]
    assert line.startswith(("✘", "x"))
    assert "damaged" in line
    assert "restore it from a copy, or move it away" in line
    assert path.read_bytes() == bytes(data)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("network: {private: [\n", "planrunner.yaml:1:"),
        ("# ours\nnetwork:\n  private: 5\n", "planrunner.yaml:3:12: `private` must be "),
        ("people: {ana: release}\nnetwrk: {}\n", "planrunner.yaml:2:1: "),
        (b"people: \xff\n", "planrunner.yaml:1:"),
    ],
)
def test_doctor_says_what_is_wrong_with_the_file_of_the_project_and_where(run, tmp_path, text, told):
    path = tmp_path / "planrunner.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    ran = run("doctor")
    assert ran.code == 1
    [line] = [line for line in ran.out.splitlines() if " project " in line]
    assert line.startswith(("✘", "x"))
    assert told in line
    data = json.loads(run("doctor", "--json").out)
    assert not data["ok"]
    assert [each["name"] for each in data["checks"] if each["verdict"] == "problem"] == ["project"]


def test_doctor_names_a_file_of_the_project_that_is_sound_or_cannot_be_read(run, tmp_path):
    path = tmp_path / "planrunner.yaml"
    assert " project " not in run("doctor").out
    path.write_text("people: {ana: release}\n")
    assert run("doctor").code == 0
    assert f"project        {path}" in run("doctor").out
    path.unlink()
    path.mkdir()
    ran = run("doctor")
    assert ran.code == 1
    assert "cannot be read" in ran.out


MIXED = """\
# what it is for
tasks:
- timeout: 5m
  run: echo hi
  id: a
- needs: [a]
  with:
    message: x
  uses: log
  id: b
params: {name: {default: you, type: string}}
plan: mixed
"""


@pytest.mark.parametrize("target", ["yaml", "plan", "json"])
def test_a_converted_plan_is_in_canonical_form(target, run, plan):
    name = plan(MIXED)
    plan(run("convert", name, "--to", target).out, f"q.{target}")
    ran = run("fmt", "--check", "--diff", f"q.{target}")
    assert (ran.code, ran.out) == (0, "")


def test_every_notation_of_a_plan_gives_the_same_json_text(run, plan):
    name = plan(MIXED)
    texts = {run("convert", name, "--to", "json").out}
    for target in ("yaml", "plan", "json"):
        plan(run("convert", name, "--to", target).out, f"q.{target}")
        texts.add(run("convert", f"q.{target}", "--to", "json").out)
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("Makefile", "all: a.o\n\techo done\n", "a Makefile"),
        (".github/workflows/ci.yml", "on: push\njobs:\n  a:\n    runs-on: x\n    services: {r: {image: redis:7}}\n", "a workflow of GitHub Actions"),
        (".gitlab-ci.yml", "stages: [a]\nb:\n  script: [c]\n", "a pipeline of GitLab"),
        ("justfile", "a:\n  echo b\n", "a justfile"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["convert", "lint", "exec", "fmt"])
def test_a_file_of_another_tool_is_told_as_what_it_is(command, name, text, what, run, plan, tmp_path):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    plan(text, name)
    done = run(command, name)
    assert done.code in (1, 3, 5), done
    said = done.out + done.err
    assert f"this is {what}, not a plan" in said and "come-from-other-tools" in said and said.count("PLAN0") == 2


def test_a_plan_for_a_makefile_or_with_the_words_of_a_workflow_is_a_plan(run, plan):
    plan("plan: p\ntasks:\n  - {id: jobs, run: make, timeout: 1m}\n", "Makefile.yaml")
    assert run("lint", "Makefile.yaml").code == 0


def test_convert_writes_the_other_notation_unless_told(run, plan):
    plan("plan: p\ntasks:\n  - {id: a, run: make, timeout: 1m}\n", "p.yaml")
    text = run("convert", "p.yaml").out
    assert text == run("convert", "p.yaml", "--to", "plan").out
    plan(text, "p.plan")
    assert run("convert", "p.plan").out == run("convert", "p.plan", "--to", "yaml").out
