"""``planrunner config``, ``--profile`` and what a run makes of both."""

from __future__ import annotations

import json
import os

import pytest
from workbench import ROOT

PLAN = "plan: p\ntasks:\n  - {id: a, uses: noop, timeout: 1m}\n"
GATED = "plan: g\ntasks:\n  - {id: sign, gate: approval, ask: Fine, timeout: 1h}\n"
SETTINGS = """\
include: config/models.yaml
scheduler: {max_parallel: 3}
forge: {kind: github, url: "https://me:geheim@forge.example/api", token: FORGE_TOKEN}
profiles:
  dev: {}
  ci:
    scheduler: {max_parallel: 1}
"""


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/models.yaml").write_text("models:\n  fast: {provider: ollama, model: m}\n")
    (tmp_path / "planrunner.yaml").write_text(SETTINGS)
    return tmp_path / "planrunner.yaml"


def test_show_tells_what_holds_and_where_each_value_stands(run, settings):
    assert "  max_parallel: 3\n" in run("config").out
    lines = run("--profile", "ci", "config", "show", "--origin").out.splitlines()
    assert any(line.split() == ["scheduler.max_parallel:", "1", "planrunner.yaml:7:31"] for line in lines)
    assert any(line.split() == ["models.fast.model:", '"m"', "config/models.yaml:2:35"] for line in lines)
    assert any(line.split() == ["scheduler.queue_policy:", '"fifo"', "default"] for line in lines)
    only = json.loads(run("--profile=ci", "config", "show", "scheduler", "--json").out)
    assert only["profile"] == "ci"
    assert only["settings"] == {"scheduler": {"max_parallel": 1}}
    assert only["origins"]["scheduler.max_parallel"] == "planrunner.yaml:7:31"


@pytest.mark.parametrize("arguments", [(), ("show", "--origin"), ("show", "forge", "--json")])
def test_show_keeps_secrets_to_itself(run, settings, arguments):
    out = run("config", *arguments).out
    assert "me:***@forge.example" in out
    assert "geheim" not in out
    assert "FORGE_TOKEN" not in out


def test_check_tells_every_finding_of_every_file_and_leaves_as_lint_does(run, settings):
    assert run("config", "check").code == 0
    (settings.parent / "config/models.yaml").write_text("models:\n  fast: {provider: olama, model: m}\n")
    settings.write_text(SETTINGS + "scheduler: {}\n")
    ran = run("config", "check", "--json")
    assert ran.code == 1
    found = {(each["file"].rpartition("/")[2], each["code"]) for each in json.loads(ran.out)["findings"]}
    assert found == {("models.yaml", "PLAN006"), ("planrunner.yaml", "PLAN002")}
    assert "config/models.yaml:2:20: error[PLAN006]" in run("config", "check", "--format", "concise").out


def test_check_finds_tools_that_call_what_is_not_installed(run, settings):
    settings.write_text("tools: {read: {uses: files.raed}}\n")
    ran = run("config", "check", "--format", "concise")
    assert ran.code == 1
    assert "did you mean `files.read`?" in ran.out
    settings.write_text("tools: {read: {uses: files.read}}\n")
    assert run("config", "check").code == 0


def test_a_project_without_settings_has_nothing_to_check_and_shows_nothing(run):
    assert run("config", "check").code == 3
    ran = run("config")
    assert (ran.code, ran.out) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("config", "shwo"), 2, "there is no `config shwo`: did you mean `show`?"),
        (("config", "show", "modles"), 3, "did you mean `models`?"),
        (("--profile", "cx", "config"), 2, "`planrunner.yaml` has no profile `cx`"),
        (("--profile", "cx", "exec", "p.yaml"), 2, "did you mean `ci`?"),
        (("--profile", "cx", "lint"), 2, "did you mean `ci`?"),
    ],
)
def test_what_there_is_not_is_said_with_the_nearest_name(run, plan, settings, arguments, code, said):
    plan(PLAN)
    ran = run(*arguments)
    assert ran.code == code
    assert said in ran.err


def _started(run):
    return next(json.loads(line) for line in run("events", "last", "--json").out.splitlines() if "run_started" in line)


def test_a_run_records_its_profile_and_keeps_to_the_most_tasks_at_once(run, plan, settings):
    name = plan(PLAN)
    assert run("--profile", "ci", "exec", name).code == 0
    first = _started(run)
    assert (first["environment"]["profile"], first["max_parallel"]) == ("ci", 1)
    assert run("exec", name, "--max-parallel", "9", PLANRUNNER_PROFILE="dev").code == 0
    second = _started(run)
    assert (second["environment"]["profile"], second["max_parallel"]) == ("dev", 3)
    assert run("exec", name, "--max-parallel", "2").code == 0
    third = _started(run)
    assert "profile" not in third["environment"]
    assert third["max_parallel"] == 2


def test_a_run_that_goes_on_keeps_its_profile_and_refuses_another(run, plan, settings):
    name = plan(GATED)
    assert run("--profile", "ci", "exec", name).code == 8
    ran = run("--profile", "dev", "resume", "last")
    assert ran.code == 2
    assert "began with the profile `ci` and keeps to that; `dev` was asked for" in ran.err
    assert "`--profile ci`" in ran.err
    assert run("--profile", "none", "resume", "last").code == 2
    assert run("--profile", "ci", "resume", "last").code == 8
    settings.write_text(SETTINGS.replace("ci:", "cd:"))
    ran = run("resume", "last")
    assert ran.code == 2
    assert "no profile `ci`" in ran.err
    settings.write_text(f"profile: dev\n{SETTINGS}")
    assert run("approve", "last", "sign").code == 0
    assert run("resume", "last").code == 0


def test_a_run_without_a_profile_stays_without_one(run, plan, settings):
    name = plan(GATED)
    assert run("exec", name).code == 8
    settings.write_text(f"profile: ci\n{SETTINGS}")
    assert run("resume", "last").code == 8
    ran = run("--profile", "ci", "resume", "last")
    assert ran.code == 2
    assert "began without a profile" in ran.err


SHELL = "plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 1m}\n"
DENIED = "policy: {capabilities: {deny: [shell]}}\n"


@pytest.mark.parametrize(
    ("files", "arguments", "level"),
    [
        (
            {"planrunner.yaml": "include: config/policy.yaml\n", "config/policy.yaml": DENIED},
            (),
            "config/policy.yaml denies",
        ),
        (
            {"planrunner.yaml": f"profiles: {{ci: {{{DENIED.strip()}}}}}\n"},
            ("--profile", "ci"),
            "profile ci of planrunner.yaml denies",
        ),
        (
            {"planrunner.yaml": f"profile: ci\nprofiles: {{ci: {{{DENIED.strip()}}}}}\n"},
            (),
            "profile ci of planrunner.yaml denies",
        ),
        ({"home/planrunner/config.yaml": DENIED}, (), "config.yaml"),
        (
            {"home/planrunner/config.yaml": DENIED, "planrunner.yaml": "policy: {capabilities: {allow: [shell]}}\n"},
            (),
            "config.yaml",
        ),
    ],
    ids=["included", "profile", "default profile", "user", "user before project"],
)
def test_every_level_of_policy_holds_a_run_back(run, plan, tmp_path, files, arguments, level):
    name = plan(SHELL)
    assert run("exec", name, XDG_CONFIG_HOME=str(tmp_path / "home")).code == 0
    for path, text in files.items():
        plan(text, path)
    ran = run(*arguments, "exec", name, XDG_CONFIG_HOME=str(tmp_path / "home"))
    assert ran.code == 12
    assert level in ran.err


def test_explain_and_show_tell_the_file_and_the_line_of_each_level(run, plan, tmp_path):
    name = plan(SHELL)
    plan("include: config/b.yaml\npolicy: {network: {allow: [a.example]}}\n"
         "profiles:\n  ci:\n    policy: {network: {allow: []}}\n", "planrunner.yaml")  # fmt: skip
    plan("policy:\n  capabilities:\n    allow: [shell]\n", "config/b.yaml")
    told = run("--profile", "ci", "policy", "explain", name).out
    assert run("--profile", "ci", "policy", name).out == told
    for place in ("planrunner.yaml:2:27", "planrunner.yaml:5:31", "config/b.yaml:3:13"):
        assert place in told, told
    shown = run("--profile", "ci", "config", "show", "policy", "--origin").out
    assert [line.split() for line in shown.splitlines()] == [
        ["policy[0].network.allow[0]:", '"a.example"', "planrunner.yaml:2:28"],
        ["policy[0].capabilities.allow[0]:", '"shell"', "config/b.yaml:3:13"],
        ["policy[1].network.allow:", "[]", "planrunner.yaml:5:31"],
    ]


def test_a_profile_does_not_widen_what_the_project_denies(run, plan, tmp_path):
    name = plan(SHELL)
    plan(f"{DENIED}profiles: {{open: {{policy: {{capabilities: {{allow: ['*']}}}}}}}}\n", "planrunner.yaml")
    assert run("--profile", "open", "exec", name).code == 12


def test_an_approval_counts_for_the_profile_of_the_run_whatever_the_voter_goes_by(run, plan, settings):
    name = plan(GATED)
    assert run("--profile", "ci", "exec", name).code == 8
    assert run("approve", "last", "sign", PLANRUNNER_PROFILE="dev").code == 0
    assert run("resume", "last").code == 0


@pytest.mark.parametrize(
    "task",
    [
        "uses: files.write, with: {path: config/models.yaml, content: x}",
        "uses: files.write, with: {path: config/Models.YAML, content: x}",
        "uses: files.write, cwd: config, with: {path: models.yaml, content: x}",
        "uses: files.append, with: {path: ./config//models.yaml, content: x}",
        "uses: files.delete, with: {path: config, recursive: true}",
        "uses: files.move, with: {path: config, to: elsewhere}",
        "uses: files.copy, with: {path: planned.yaml, to: config/models.yaml, replace: true}",
        "uses: sql.execute, with: {database: 'sqlite:///config/models.yaml', statement: 'create table t (a)'}",
    ],
)
def test_a_plan_does_not_write_to_what_the_settings_include(run, plan, settings, task):
    plan("models: {}\n", "planned.yaml")
    name = plan(f"plan: p\ntasks:\n  - {{id: a, timeout: 1m, {task}}}\n")
    before = (settings.parent / "config/models.yaml").read_bytes()
    ran = run("exec", name)
    assert ran.code == 12
    assert "planrunner.yaml includes it" in ran.err
    assert (settings.parent / "config/models.yaml").read_bytes() == before
    beside = plan(
        "plan: p\ntasks:\n  - {id: a, timeout: 1m, uses: files.write, with: {path: config/b, content: x}}\n", "b.yaml"
    )
    assert run("exec", beside).code == 0


def test_lint_tells_the_faults_of_included_files_beside_the_plans(run, plan, settings):
    plan(PLAN)
    (settings.parent / "config/models.yaml").write_text("modles: {}\n")
    ran = run("lint", "--format", "concise")
    assert ran.code == 1
    assert "config/models.yaml:1:1: error[PLAN003]" in ran.out
    assert run("exec", "p.yaml").code == 5


def test_the_schema_of_the_settings_is_printed_whole_and_in_parts(run):
    assert json.loads(run("schema", "project").out)["title"] == "The project's file of planrunner"
    assert "max_parallel" in json.loads(run("schema", "project.scheduler").out)["properties"]
    ran = run("schema", "project.schedular")
    assert ran.code == 3
    assert "did you mean `scheduler`?" in ran.err


@pytest.mark.parametrize("path", ["project", "project.agents", "project.policy", "project.models"])
def test_every_reference_of_the_schema_leads_somewhere(run, path):
    schema = json.loads(run("schema", path).out)

    def references(value):
        if isinstance(value, dict):
            yield from (each for key, each in value.items() if key == "$ref" and isinstance(each, str))
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from references(each)

    found = set(references(schema))
    assert found
    for reference in found:
        here = schema
        for name in reference.removeprefix("#/").split("/"):
            here = here[name]


def test_completion_offers_the_profiles(complete, settings):
    assert list(complete("--profile", "")) == ["dev", "ci", "none"]


@pytest.mark.parametrize("command", [("exec", "p.yaml"), ("lint",), ("config", "check"), ("doctor",), ("plugins",)])
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_nobody_waits_for_a_file_of_settings_that_never_ends(run, plan, tmp_path, command, kind):
    plan(PLAN)
    if kind == "pipe":
        os.mkfifo(tmp_path / "planrunner.yaml")
    else:
        (tmp_path / "planrunner.yaml").symlink_to("/dev/zero")
    ran = run(*command)
    assert ran.code in (1, 2)
    assert "not a regular file" in ran.out + ran.err


SECRET = """\
plan: p
tasks:
  - {id: a, run: 'test ${#TOKEN} = %s', secrets: {TOKEN: key}, timeout: 1m}
"""


def test_a_profile_and_a_user_may_say_where_a_credential_comes_from(run, plan, tmp_path):
    (tmp_path / "prod.key").write_text("a longer secret for prod")
    (tmp_path / "prod.key").chmod(0o600)
    plan(
        "provider_credentials: [{id: key, auth: {source: env, env_var: OUR_KEY}}]\nprofiles:\n  prod:\n"
        "    provider_credentials: [{id: key, auth: {source: file, env_var: null, file_path: prod.key}}]\n",
        "planrunner.yaml",
    )
    assert run("exec", plan(SECRET % 12), OUR_KEY="a-dev-secret").code == 0
    assert run("--profile", "prod", "exec", plan(SECRET % 24)).code == 0
    ran = run("exec", plan(SECRET % 12))
    assert ran.code == 5
    assert "planrunner.yaml:1)" in ran.err
    (tmp_path / "planrunner.yaml").unlink()
    plan("provider_credentials: [{id: key, auth: {source: env, env_var: MINE}}]\n", "home/planrunner/config.yaml")
    assert run("exec", plan(SECRET % 8), MINE="mine-own", XDG_CONFIG_HOME=str(tmp_path / "home")).code == 0


TOOLS = """\
agents:
  reader: {tools: [files.read, files.blob, 'git.*', notes.find, team], denied: [git.push, git.puhs]}
tools:
  notes: {mcp: [notes]}
  team: [files.edit, files.glib, inner]
  inner: [files.rmove]
profiles:
  ci: {agents: {reader: {tools: ['flies.*', more.find]}}, tools: {more: {mcp: [more]}}}
"""
UNKNOWN = [
    ("2:32", "the agent `reader` names the tool `files.blob`, which does not exist, did you mean `files.glob`?"),
    ("2:91", "the agent `reader` names the tool `git.puhs`, which does not exist, did you mean `git.push`?"),
    ("5:22", "the group `team` names the tool `files.glib`, which does not exist, did you mean `files.glob`?"),
    ("6:11", "the group `inner` names the tool `files.rmove`, which does not exist, did you mean `files.move`?"),
    ("8:34", "the agent `reader` names the tool `flies.*`, which does not exist"),
]


@pytest.mark.parametrize("command", [("lint", "planrunner.yaml"), ("config", "check")])
def test_a_word_that_names_no_tool_is_told_where_it_stands(run, plan, command):
    plan(TOOLS, "planrunner.yaml")
    code, out, err = run(*command)
    lines = (out + err).splitlines()
    assert code == 1
    places = [(line.split("planrunner.yaml:")[1], lines[at - 1].removeprefix("error[PLAN841] "))
              for at, line in enumerate(lines) if line.startswith(" --> ")]  # fmt: skip
    assert places == UNKNOWN


def test_a_plan_with_an_agent_that_names_no_tool_is_refused_and_told_where_to_mend_it(run, plan):
    plan("agents: {reader: {tools: [files.read, files.blob]}}\n", "planrunner.yaml")
    plan("plan: p\ntasks:\n  - {id: a, agent: reader, prompt: Read}\n")
    code, _, said = run("exec", "p.yaml")
    assert code == 5
    whose = "the agent `reader` of planrunner.yaml names the tool `files.blob`, which does not exist"
    assert f"error[PLAN841] {whose}, did you mean `files.glob`?\n --> p.yaml:3:13\n" in said
    assert "help: `planrunner config check` shows where it stands" in said


@pytest.mark.parametrize("name", ["test", "eval"])
def test_the_schema_of_files_of_tests_and_evaluations_is_written_where_an_editor_finds_it(run, tmp_path, name):
    assert run("schema", name, "--write", "s.json").code == 0
    published = json.loads((ROOT / "schemas" / f"plan-{name}.schema.json").read_text())
    assert json.loads((tmp_path / "s.json").read_text()) == json.loads(run("schema", name).out) == published


def test_an_editor_is_told_no_schema_that_nothing_writes():
    """In a project of a reader there is no folder `schemas`."""
    pages = [ROOT / "README.md", *(ROOT / "docs" / "how-to").glob("*.md"), *(ROOT / "docs" / "tutorial").glob("*.md")]
    assert [page.name for page in pages if "$schema=.." in page.read_text()] == []
