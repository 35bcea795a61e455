"""What a plan needs and what is missing here is told before its first task."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from workbench import ROOT

from planrunner.extras import installing

Run = Callable[..., tuple[int, str, str]]
Write = Callable[..., str]

PROJECT = """
provider_credentials:
  - {id: token, auth: {source: env, env_var: NOT_SET_ANYWHERE}}
  - {id: later, auth: {source: file, file_path: later.txt}}
models: {fast: {provider: openai, model: m, key_env: NO_SUCH_KEY}}
sql: {databases: {shop: {url_env: NO_SUCH_ADDRESS}}}
"""


@pytest.fixture
def project(plan: Write) -> None:
    plan(PROJECT, "planrunner.yaml")


@pytest.mark.usefixtures("project")
def test_all_that_is_missing_is_told_at_once_and_nothing_is_started(run: Run, plan: Write, tmp_path: Path) -> None:
    plan("""
plan: p
defaults: {timeout: 1m}
tasks:
  - {id: begin, gate: approval, ask: Begin}
  - {id: send, needs: [begin], run: 'echo sent', secrets: [token]}
  - {id: start, needs: [begin], run: [no-such-program, now]}
  - {id: build, needs: [begin], run: 'echo built > it', cwd: no/such}
  - {id: ask, needs: [begin], uses: llm.complete, with: {prompt: hi}}
  - {id: load, needs: [begin], uses: sql.query, with: {database: shop, statement: select 1}}
""")
    code, _, said = run("exec", "p.yaml")
    assert code == 5
    assert said.splitlines()[:1] == ["error: `p.yaml` cannot start: 5 things that it needs are missing here"]
    for part in (
        "`send`: the credential `token` (planrunner.yaml:3): the environment variable NOT_SET_ANYWHERE is not set: set it",
        "`start`: the program `no-such-program` is not on the PATH: install it",
        "`build`: the folder `no/such` to work in does not exist: mkdir -p no/such",
        "`ask`: `fast` takes its key from the variable NO_SUCH_KEY, which is not set: set it, such as `export",
        "`load`: the variable NO_SUCH_ADDRESS, which holds the address of the database `shop`, is not set",
    ):
        assert part in said
    assert json.loads(run("runs", "--json").out)["runs"] == []


@pytest.mark.usefixtures("project")
def test_what_a_task_before_may_make_is_a_note_and_the_run_starts(run: Run, plan: Write, tmp_path: Path) -> None:
    plan("""
plan: p
defaults: {timeout: 1m}
tasks:
  - {id: make, run: "mkdir site; echo later-under-test > later.txt"}
  - {id: list, needs: [make], run: 'ls', cwd: site, secrets: [later]}
""")
    code, _, said = run("exec", "p.yaml", "--progress", "plain")
    assert code == 0, said
    assert "note: `list`: the credential `later`" in said
    assert "(unless a task before it makes it)" in said
    assert "`site`" not in said, "a folder is mostly made by a task before"
    Path(tmp_path, "site").rmdir()
    assert "the folder `site` to work in does not exist" in run("preview", "p.yaml").out


@pytest.mark.usefixtures("project")
def test_tasks_that_will_not_run_need_nothing(run: Run, plan: Write) -> None:
    plan("""
plan: p
params: {send: {type: bool, default: false}}
defaults: {timeout: 1m}
tasks:
  - {id: send, when: params.send, run: 'echo sent', secrets: [token]}
  - {id: other, run: [no-such-program]}
  - {id: here, run: 'echo here'}
""")
    assert run("exec", "p.yaml", "--only", "here").code == 0
    said = run("exec", "p.yaml", "-p", "send=true", "--only", "send").err
    assert "`send`: the credential `token`" in said and "other" not in said


@pytest.mark.usefixtures("project")
def test_preview_lists_it_and_a_dry_run_goes_through(run: Run, plan: Write) -> None:
    plan("plan: p\ntasks:\n  - {id: a, run: [no-such-program], timeout: 1m}\n")
    shown = run("preview", "p.yaml")
    assert shown.code == 0
    assert "missing   a: the program `no-such-program` is not on the PATH" in shown.out
    assert "a run does not start without it (code 5)" in shown.out
    (row,) = json.loads(run("preview", "p.yaml", "--json").out)["missing"]
    assert (row["kind"], row["tasks"], row["refuses"]) == ("program", ["a"], True)
    assert run("exec", "p.yaml", "--dry-run").code == 0


def test_a_capability_needs_its_program_and_a_plan_with_its_own_path_is_left_alone(run: Run, plan: Write) -> None:
    plan("plan: p\ntasks:\n  - {id: a, uses: git.status, timeout: 1m}\n")
    empty = str(Path(plan("", "bin/empty")).parent)
    code, _, said = run("exec", "p.yaml", PATH=os.path.abspath(empty))
    assert (code, "`a`: the program `git` is not on the PATH" in said) == (5, True)
    plan("plan: p\nenv: {PATH: /made/later}\ntasks:\n  - {id: a, run: [no-such-program], timeout: 1m}\n")
    assert run("exec", "p.yaml").code == 1


@pytest.mark.usefixtures("project")
def test_a_run_that_goes_on_is_held_to_what_its_other_tasks_need(run: Run, plan: Write, tmp_path: Path) -> None:
    plan("""
plan: p
defaults: {timeout: 1m}
tasks:
  - {id: send, run: 'echo sent', secrets: [token]}
  - {id: go, needs: [send], gate: approval, ask: Go on}
  - {id: work, needs: [go], run: 'test -e ok', secrets: [token]}
""")
    assert run("exec", "p.yaml", NOT_SET_ANYWHERE="a-token-under-test").code == 8
    code, _, said = run("resume", "last")
    assert (code, "cannot go on: one thing that it needs is missing here" in said) == (5, True)
    assert "`work`: the credential `token`" in said and "`send`" not in said
    assert run("approve", "last", "go", NOT_SET_ANYWHERE="a-token-under-test").code == 0
    assert run("resume", "last", NOT_SET_ANYWHERE="a-token-under-test").code == 1
    assert "`work`: the credential `token`" in run("retry", "last").err
    (tmp_path / "ok").touch()
    assert run("retry", "last", NOT_SET_ANYWHERE="a-token-under-test").code == 0


@pytest.mark.parametrize(
    ("settings", "env", "said"),
    [
        ("{}", "", "`ask`: planrunner.yaml names no forge"),
        ("{kind: github}", "", "`ask`: planrunner.yaml names no token"),
        ("{kind: github, token: NO_SUCH_TOKEN}", "", "`ask`: the environment variable `NO_SUCH_TOKEN` holds no secret"),
        ("{kind: github, credential: token}", "", "`ask`: the credential `token`"),
        ("{kind: github, token: NO_SUCH_TOKEN}", "env: {NO_SUCH_TOKEN: here}", ""),
    ],
)
def test_a_forge_is_there_before_anybody_is_asked(run: Run, plan: Write, settings: str, env: str, said: str) -> None:
    plan(f"{PROJECT}forge: {settings}\n", "planrunner.yaml")
    plan(f"""
plan: p
{env}
defaults: {{timeout: 1m}}
tasks:
  - {{id: go, gate: approval, ask: Go on}}
  - {{id: ask, needs: [go], uses: git.pull_request, with: {{title: Mend it, repository: ana/shop}}}}
""")
    code, _, told = run("exec", "p.yaml")
    assert (code, said in told) == (5 if said else 8, True), told


AGENT = "plan: p\ntasks:\n  - {id: a, agent: {model: here, tools: [notes]}, prompt: Read}\n"
SERVERS = """
models: {here: {provider: openai-compatible, model: m, base_url: "http://127.0.0.1:9/v1"}}
network: {private: ["127.0.0.1:9"]}
tools:
  notes: {mcp: [python3, server.py]}
"""


@pytest.fixture
def without(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Variables of a process that has no package of these names."""

    def hidden(*packages: str) -> dict[str, str]:
        folder = tmp_path / "hidden"
        folder.mkdir(exist_ok=True)
        lines = ["import sys", *(f"sys.modules[{name!r}] = None" for name in packages)]
        (folder / "sitecustomize.py").write_text("\n".join(lines))
        return {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")))}

    return hidden


@pytest.mark.parametrize("uses, package, extra", [
    ("uses: llm.complete, with: {prompt: hi}", "pydantic_ai", "llm"),
    ("uses: agent.critique, with: {text: hi, rubric: fine}", "pydantic_ai", "llm"),
    ("uses: research.fetch, with: {sources: ['https://example.org']}", "trafilatura", "web"),
    ("uses: mcp.tools, with: {server: notes}", "mcp", "mcp"),
    ("agent: {tools: [notes]}, prompt: hi", "mcp", "mcp"),
])  # fmt: skip
def test_a_missing_extra_is_told_before_the_start(
    run: Run, plan: Write, without: Callable[..., dict[str, str]], uses: str, package: str, extra: str
) -> None:
    plan(SERVERS, "planrunner.yaml")
    plan(f"plan: p\ntasks:\n  - {{id: a, {uses}, timeout: 1m}}\n")
    code, _, said = run("exec", "p.yaml", **without(package))
    assert code == 5, said
    assert f"the Python package `{package}` is not installed (extra `{extra}`): {installing(extra)}" in said
    assert installing(extra) in run("preview", "p.yaml", **without(package)).out


def test_a_server_whose_tools_a_policy_offers_to_no_model_is_not_needed(
    run: Run, plan: Write, without: Callable[..., dict[str, str]]
) -> None:
    plan(SERVERS, "planrunner.yaml")
    plan(AGENT)
    assert "missing   a/model: the Python package `mcp`" in run("preview", "p.yaml", **without("mcp")).out
    for place in ("planrunner.yaml", "p.yaml"):
        told = "policy: {capabilities: {deny: [mcp.*]}}\n"
        plan(SERVERS + told if place == "planrunner.yaml" else SERVERS, "planrunner.yaml")
        plan(AGENT.replace("tasks:", f"{told}tasks:") if place == "p.yaml" else AGENT)
        assert "missing" not in run("preview", "p.yaml", **without("mcp")).out, place


@pytest.mark.parametrize("address, private, refused", [
    ("http://127.0.0.1:9/v1", "10.0.0.0/8", "127.0.0.1, an address of this machine"),
    ("http://localhost:9/v1", "10.0.0.0/8", "localhost (127.0.0.1), an address of this machine"),
    ("http://[::1]:9/v1", "127.0.0.1", "::1, an address of this machine"),
    ("https://192.168.1.7/v1", "192.168.1.7:80", "192.168.1.7, a private address"),
    ("http://127.0.0.1:9/v1", "127.0.0.1:9", ""),
    ("http://localhost:9/v1", "localhost", ""),
    ("http://localhost:9/v1", "::1", ""),
    ("http://not-looked-up.invalid/v1", "10.0.0.0/8", ""),
])  # fmt: skip
@pytest.mark.parametrize("asked", ["uses: llm.complete, with: {prompt: hi}", "agent: {}, prompt: hi"])
def test_a_private_address_of_a_model_that_the_project_does_not_list_is_told_before_the_start(
    run: Run, plan: Write, address: str, private: str, refused: str, asked: str
) -> None:
    model = f'{{provider: openai-compatible, model: m, base_url: "{address}"}}'
    plan(f'models: {{here: {model}}}\nnetwork: {{private: ["{private}"]}}\n', "planrunner.yaml")
    plan(f"plan: p\ntasks:\n  - {{id: a, {asked}, timeout: 1m}}\n")
    rows = json.loads(run("preview", "p.yaml", "--json").out)["missing"]
    if not refused:
        assert rows == []
        return
    (row,) = rows
    assert row["refuses"] and row["text"].startswith(f"refused to connect to {refused}: if plans may reach it, write")
    code, _, said = run("exec", "p.yaml")
    assert (code, "`p.yaml` cannot start" in said) == (5, True)


@pytest.mark.parametrize("budgets, price, is_missing", [
    ("budgets: {cost: $1}, ", "", True),
    ("budgets: {tokens: 9k}, ", "", False),
    ("budgets: {cost: $1}, ", ", price: {input: 1, output: 2}", False),
])  # fmt: skip
@pytest.mark.parametrize("asked", ["uses: llm.complete, with: {prompt: hi}", "agent: {}, prompt: hi"])
def test_a_model_without_a_price_under_a_limit_of_the_cost_is_told_before_the_start(
    run: Run, plan: Write, budgets: str, price: str, is_missing: bool, asked: str
) -> None:
    plan(SERVERS.replace('/v1"', f'/v1"{price}'), "planrunner.yaml")
    plan(f"plan: p\ntasks:\n  - {{id: a, {budgets}{asked}, timeout: 1m}}\n")
    rows = json.loads(run("preview", "p.yaml", "--json").out)["missing"]
    assert [("the price of `here` (m) is unknown" in row["text"], row["refuses"]) for row in rows] == [
        (True, True)
    ] * is_missing
    if is_missing:
        assert run("exec", "p.yaml").code == 5


def test_an_extra_is_demanded_at_the_start_whatever_tasks_come_before(
    run: Run, plan: Write, tmp_path: Path, without: Callable[..., dict[str, str]]
) -> None:
    plan(SERVERS, "planrunner.yaml")
    tasks = "  - {id: make, run: touch made}\n  - {id: list, needs: [make], uses: mcp.tools, with: {server: notes}}\n"
    plan(f"plan: p\ndefaults: {{timeout: 1m}}\ntasks:\n{tasks}")
    code, _, said = run("exec", "p.yaml", **without("mcp"))
    assert (code, installing("mcp") in said) == (5, True)
    assert not Path(tmp_path, "made").exists()


@pytest.mark.parametrize(
    "task",
    [
        "{id: fast, run: no_such_tool_x hi, on_failure: {to: slow, recovers: true}}",
        "{id: fast, run: no_such_tool_x hi, allow_failure: true}",
        "{id: fast, run: no_such_tool_x hi, when: host.os == 'darwin'}",
        "{id: fast, allow_failure: true, subplan: [{id: in, run: no_such_tool_x hi}]}",
    ],
)
def test_a_program_may_be_missing_where_the_plan_goes_on_without(run: Run, plan: Write, task: str) -> None:
    plan(f"plan: p\ndefaults: {{timeout: 1m}}\ntasks:\n  - {task}\n  - {{id: slow, run: echo fallback}}\n")
    code, _, said = run("exec", "p.yaml")
    assert code == 0, said
    assert ("(its failure is allowed)" in said) == ("darwin" not in task)


def test_a_failure_of_one_class_that_is_handled_is_not_that_of_a_missing_program(run: Run, plan: Write) -> None:
    task = "{id: fast, run: no_such_tool_x hi, on_failure: {to: slow, class: timeout, recovers: true}}"
    plan(f"plan: p\ndefaults: {{timeout: 1m}}\ntasks:\n  - {task}\n  - {{id: slow, run: echo fallback}}\n")
    assert run("exec", "p.yaml").code == 5


@pytest.mark.parametrize("project", [True, False])
def test_a_reflection_without_a_model_stops_no_run(run: Run, plan: Write, project: bool) -> None:
    own = "" if project else "reflect: true\n"
    plan("reflect: true\n" if project else "", "planrunner.yaml")
    plan(f"plan: p\ndefaults: {{timeout: 1m}}\n{own}tasks:\n  - {{id: slow, run: echo done}}\n")
    code, _, said = run("exec", "p.yaml")
    assert code == 0, said
    assert "`reflection`: no model is configured" in said


def test_a_project_without_a_time_table_lists_its_triggers_without_the_extra(
    run: Run, plan: Write, without: Callable[..., dict[str, str]]
) -> None:
    assert "no triggers" in run("trigger", **without("cronsim", "watchfiles")).err
    plan("plan: p\ntasks: [{id: a, run: echo, timeout: 1m}]\n")
    plan("triggers:\n  n: {plan: p.yaml, cron: '1 2 * * *'}\n  w: {plan: p.yaml, watch: in/*}\n", "planrunner.yaml")
    listed = run("trigger", **without("cronsim", "watchfiles"))
    assert listed.code == 0 and "changes of in/*" in listed.out and "triggers need" in listed.out, listed
