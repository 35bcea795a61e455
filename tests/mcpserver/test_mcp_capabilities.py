"""Capabilities as tools: only under the policy of the project, and as runs that are kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp_client import asked, beside, names, project

POLICY = """\
policy:
  capabilities:
    allow: [files.read, files.write, shell, python.run, http.get, {uses: files.delete, with: {path: "tmp/**"}}]
    ask: [files.move]
    deny: [git.push]
mcp: {capabilities: [%s]}
"""


def offered(folder: Path) -> set[str]:
    with beside(folder) as carry_out:
        return {name for name in carry_out(names) if name.startswith("call_")}


def test_the_policy_and_the_setting_both_have_to_name_a_capability(tmp_path: Path) -> None:
    every = {"call_files_read", "call_files_write", "call_files_delete", "call_http_get"}
    assert offered(project(tmp_path / "a", POLICY % "'*'")) == every
    assert offered(project(tmp_path / "b", POLICY % "files.*")) == every - {"call_http_get"}
    assert offered(project(tmp_path / "c", POLICY % "")) == set()
    assert offered(project(tmp_path / "d", "mcp: {capabilities: ['*']}\n")) == set()


def test_what_runs_commands_or_code_is_never_a_tool(tmp_path: Path) -> None:
    settings = "policy: {capabilities: {allow: ['*']}}\nmcp: {capabilities: ['*']}\n"
    tools = offered(project(tmp_path / "p", settings))
    assert "call_files_read" in tools
    assert not tools & {"call_shell", "call_python_run", "call_docker_run", "call_git_bisect", "call_agent_ask"}
    assert not [tool for tool in tools if tool.startswith(("call_llm", "call_mcp", "call_agent"))]


def test_a_call_is_a_run_with_a_journal(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", POLICY % "'*'")
    wrote = asked(folder, "call_files_write", path="a.txt", content="{{ params.path }} {% raw %}")
    assert not wrote.failed
    assert (folder / "a.txt").read_text() == "{{ params.path }} {% raw %}"  # a value is never a template
    [run] = asked(folder, "runs").told["runs"]
    assert (run["run_id"], run["plan"], run["status"]) == (wrote.told["run_id"], "call-files-write", "completed")
    read = asked(folder, "call_files_read", path="a.txt")
    assert read.told["call"]["outputs"]["content"] == "{{ params.path }} {% raw %}"


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/passwd", ".planrunner/journal.db", "planrunner.yaml"])
def test_a_call_that_leaves_its_bounds_is_an_error(tmp_path: Path, path: str) -> None:
    folder = project(tmp_path / "p", POLICY % "'*'")
    answer = asked(folder, "call_files_write", path=path, content="x")
    assert answer.failed
    assert answer.told["call"]["failure"] == "policy"


def test_the_policy_judges_the_values_of_a_call_before_it_begins(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", POLICY % "'*'")
    (folder / "tmp").mkdir()
    for place in ("tmp/a", "b"):
        (folder / place).write_text("x")
    assert not asked(folder, "call_files_delete", path="tmp/a").failed
    refused = asked(folder, "call_files_delete", path="b")
    assert "does not allow `files.delete`" in refused.told["error"]["message"]
    assert (folder / "b").exists()
    assert len(asked(folder, "runs").told["runs"]) == 1


def test_a_tool_has_the_schema_and_the_hints_of_its_capability(tmp_path: Path) -> None:
    async def work(client: Client) -> dict[str, Any]:
        return {tool.name: tool for tool in (await client.list_tools()).tools}

    with beside(project(tmp_path / "p", POLICY % "'*'")) as carry_out:
        tools = carry_out(work)
    assert tools["call_files_read"].annotations.read_only_hint
    assert not tools["call_files_write"].annotations.read_only_hint
    assert tools["call_files_write"].input_schema["required"] == ["path", "content"]
    assert tools["status"].annotations.read_only_hint
    assert not tools["start"].annotations.read_only_hint


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to others")
def test_settings_of_another_user_offer_nothing_more(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", POLICY % "'*'")
    os.chown(folder / "planrunner.yaml", 12345, 12345)
    assert offered(folder) == set()
