"""What a model can read through the MCP server, and what it cannot."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_client import Answer, asked, beside, by_streams, call, names, project
from workbench import planrunner

GATED = """\
plan: gated
tasks:
  - {id: build, run: echo built, timeout: 10s}
  - {id: sign, gate: approval, ask: Ship it, needs: [build]}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a run that completed and one that waits at a gate."""
    folder = project(tmp_path_factory.mktemp("mcp") / "shop", gated=GATED)
    assert planrunner(folder, "exec", "plans/hello.yaml").returncode == 0
    assert planrunner(folder, "exec", "plans/gated.yaml").returncode == 8
    return folder


def test_a_client_starts_the_command_and_reads_a_run(ran: Path) -> None:
    async def work(client: Client) -> tuple[list[str], Answer]:
        return await names(client), await call(client, "status", run="last", tasks=True)

    listed, status = by_streams(ran, work)
    assert {"lint", "preview", "start", "status", "why", "logs", "events", "artifacts", "gates"} <= {*listed}
    assert status.told["status"] == "blocked"
    assert status.told["tasks"]["build"]["status"] == "completed"


@pytest.mark.parametrize("word", ["approve", "reject", "answer", "vote", "trust", "decide"])
def test_no_tool_decides_whatever_the_settings_say(tmp_path: Path, word: str) -> None:
    every = "[start, pause, resume, cancel, retry, rerun, revise]"
    settings = f"policy: {{capabilities: {{allow: ['*']}}}}\nmcp: {{actions: {every}, capabilities: ['*']}}\n"
    with beside(project(tmp_path / "p", settings)) as carry_out:
        tools = carry_out(names)
    assert "revise" in tools
    assert not [tool for tool in tools if word in tool]


def test_a_gate_is_shown_with_what_a_person_sees(ran: Path) -> None:
    answer = asked(ran, "gates")
    [gate] = answer.told["gates"]
    assert (gate["plan"], gate["gate"]) == ("gated", "sign")


def test_findings_have_places_for_text_without_a_file_too(ran: Path) -> None:
    answer = asked(ran, "lint", text="plan: a\ntasks:\n  - {id: b, run: 'true', nedds: [c]}\n")
    found = next(each for each in answer.told["findings"] if "nedds" in each["message"])
    assert (found["file"], found["range"]["start"]["line"]) == ("draft.yaml", 3)


def test_logs_are_cut_to_their_last_lines(ran: Path) -> None:
    [log] = asked(ran, "logs", run="last", task="build").told["logs"]
    assert (log["text"], log["cut"]) == ("built\n", False)


def test_events_go_on_where_the_last_answer_ended(ran: Path) -> None:
    first = asked(ran, "events", run="last", limit=2).told
    rest = asked(ran, "events", run="last", after=first["after"]).told
    assert [each["seq"] for each in first["events"]] == [1, 2]
    assert rest["events"][0]["seq"] == 3


def test_a_preview_says_the_worst_case_and_runs_nothing(ran: Path) -> None:
    before = asked(ran, "runs").told["runs"]
    answer = asked(ran, "preview", plan="hello", params={"name": "ana"})
    assert answer.told["params"] == {"name": "ana"}
    assert asked(ran, "runs").told["runs"] == before


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("statsu", {}, "there is no tool `statsu`"),
        ("retry", {"run": "last"}, "the project does not offer `retry`"),
        ("events", {"lmit": 3}, "no argument `lmit`, did you mean `limit`?"),
        ("events", {"limit": "a"}, '`limit` "a" does not fit: it takes integer'),
        ("events", {"limit": 5000}, "`limit` 5000 does not fit: at most 1000"),
        ("why", {}, "the argument `task` is missing"),
        ("why", {"task": "biuld"}, "`biuld`"),
        ("lint", {"paths": ["/etc/passwd"]}, "`/etc/passwd` lies outside the project"),
        ("lint", {"paths": ["../.."]}, "lies outside the project"),
        ("preview", {"plan": "../other/plan.yaml"}, "lies outside the project"),
        ("lint", {"text": "a", "name": "/etc/passwd"}, "lies outside the project"),
        ("status", {"run": "2020"}, "2020"),
    ],
)
def test_a_wrong_call_is_a_result_that_says_what_to_do(ran: Path, tool: str, arguments: Any, said: str) -> None:
    answer = asked(ran, tool, **arguments)
    assert answer.failed
    assert said in answer.told["error"]["message"]


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("plan: secret\ntasks: []\n")
    folder = project(tmp_path / "p")
    (folder / "plans" / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    answer = asked(folder, "preview", plan="plans/link.yaml")
    assert answer.failed
    assert "outside the project" in answer.told["error"]["message"]


def test_resources_are_plans_runs_schemas_and_rules_and_no_other_files(ran: Path) -> None:
    (ran / "notes.txt").write_text("private")

    async def work(client: Client) -> tuple[dict[str, str], list[str]]:
        listed = [str(each.uri) for each in (await client.list_resources()).resources]
        read = {uri: (await client.read_resource(uri)).contents[0].text for uri in listed}
        refused = []
        for uri in ("plans/notes.txt", "plans/planrunner.yaml", "plans/../../etc/passwd", "plans/%2Fetc%2Fpasswd", "x"):
            with pytest.raises(MCPError):
                await client.read_resource(f"planrunner://{uri}")
            refused.append(uri)
        return read, refused

    with beside(ran) as carry_out:
        read, refused = carry_out(work)
    assert len(refused) == 5
    assert read["planrunner://plans/plans/gated.yaml"] == GATED
    assert "PLAN501" in read["planrunner://rules"]
    assert '"tasks"' in read["planrunner://schema/plan"]
    assert sum(uri.startswith("planrunner://runs/") for uri in read) == 2


def test_many_calls_at_once_have_their_own_answers(ran: Path) -> None:
    async def work(client: Client) -> list[Answer]:
        return await asyncio.gather(*(call(client, "events", run="last", limit=count) for count in range(1, 21)))

    with beside(ran) as carry_out:
        answers = carry_out(work)
    whole = len(asked(ran, "events", run="last").told["events"])
    assert [len(each.told["events"]) for each in answers] == [min(count, whole) for count in range(1, 21)]


def test_a_line_as_long_as_a_file_is_cut_to_its_end(tmp_path: Path) -> None:
    wide = "plan: wide\ntasks:\n  - {id: a, run: 'head -c 3000000 /dev/zero | tr \"\\0\" x; echo end', timeout: 1m}\n"
    folder = project(tmp_path / "p", wide=wide)
    assert planrunner(folder, "exec", "plans/wide.yaml", "--progress", "quiet").returncode == 0
    [log] = asked(folder, "logs").told["logs"]
    assert (len(log["text"]), log["text"][-4:], log["cut"]) == (100_000, "end\n", True)
