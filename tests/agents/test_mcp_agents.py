"""Agents that use the tools of MCP servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("mcp")
pytest.importorskip("pydantic_ai")

from bench import Bench
from mcp_parts import COMMAND, over_http

Json = Any
Make = Callable[..., Bench]
PLAN = "plan: p\ntasks: [{id: fix, agent: coder, prompt: Look.}]\n"
HARMLESS = {"mcp": COMMAND, "tools": ["keep", "note", "delete_note", "picture"]}


@pytest.fixture
def make(make: Make) -> Make:
    """A project whose agent has the server `notes` and follows a script."""

    def made(
        script: Any, provider: str = "openai-compatible", server: Json = HARMLESS, tools: Json = ("notes",)
    ) -> Bench:
        bench = make(script, provider)
        bench.settings["tools"] = {"notes": server}
        bench.settings["agents"]["coder"]["tools"] = list(tools)
        return bench

    return made


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
def test_an_agent_calls_the_tools_of_a_server(make: Make, provider: str) -> None:
    bench = make([[("notes_keep", {"name": "a", "text": "one"})], [("notes_note", {"name": "a"})], "Done."], provider)
    told = bench.run(PLAN)
    assert told["status"] == "completed", told
    assert sorted(bench.model.heard[0].tools) == ["notes_delete_note", "notes_keep", "notes_note", "notes_picture"]
    assert "kept a, 1 in all" in bench.model.heard[1].last()
    assert '"text": "one"' in bench.model.heard[2].last().replace('\\"', '"')


def test_it_replays_with_the_server_gone(make: Make) -> None:
    with over_http() as url:
        bench = make([[("notes_keep", {"name": "a", "text": "one"})], "Done."], server={"mcp": url})
        assert bench.run(PLAN)["status"] == "completed"
    bench.model.__exit__()
    replayed = bench.call("replay", "last")
    assert "replays exactly" in replayed.stdout, replayed


def test_a_task_may_narrow_and_deny_tools_of_a_server(make: Make) -> None:
    bench = make(["Done."])
    bench.run(
        "plan: p\ntasks: [{id: fix, agent: coder, prompt: Look., tools: ['notes.*note'], denied: [notes.delete_note]}]\n"
    )
    assert bench.model.heard[0].tools == ["notes_note"]


def test_an_agent_may_have_one_tool_of_a_server(make: Make) -> None:
    bench = make(["Done."], tools=["notes.picture"])
    bench.run(PLAN)
    assert bench.model.heard[0].tools == ["notes_picture"]


def test_a_call_that_a_policy_denies_is_told_with_its_rule(make: Make) -> None:
    bench = make([[("notes_delete_note", {"name": "a"}), ("notes_keep", {"name": "a", "text": "x"})], "Done."])
    denied = {"uses": "mcp.call", "with": {"server": "notes", "tool": "delete_*"}}
    told = bench.run(PLAN, policy={"capabilities": {"deny": [denied]}})
    assert told["status"] == "completed", told
    said = bench.model.heard[1].said()
    assert "It failed (policy): planrunner.yaml denies `mcp.call`" in said
    assert "kept a, 1 in all" in said


def test_a_call_that_a_policy_asks_about_waits_for_a_person_and_others_do_not(make: Make) -> None:
    bench = make([[("notes_keep", {"name": "a", "text": "x"})], [("notes_delete_note", {"name": "a"})], "Done."])
    asked = {"uses": "mcp.call", "with": {"server": "notes", "tool": "delete_*"}}
    told = bench.run(PLAN, policy={"capabilities": {"ask": [asked]}})
    assert (told["exit_code"], len(told["gates"])) == (8, 1), told
    gate = told["gates"][0]["gate"]
    assert len(bench.model.heard) == 2
    assert bench.call("approve", "last", gate).returncode == 0
    assert bench.call("resume", "last").returncode == 0
    assert "deleted" in bench.model.heard[2].last()


def test_what_a_server_says_of_a_tool_reaches_the_model_bounded_and_plain(make: Make) -> None:
    bench = make(["Done."], server={"mcp": COMMAND, "tools": ["hostile"]})
    bench.run(PLAN)
    (tool,) = bench.model.heard[0].body["tools"]
    assert len(tool["function"]["description"]) < 2_010
    assert "\x1b" not in str(tool) and "\u202e" not in str(tool)


def test_a_server_that_lists_too_many_tools_is_a_clear_failure(make: Make) -> None:
    bench = make(["Done."], server={"mcp": {"command": COMMAND, "env": {"MANY_TOOLS": "150"}}})
    told = bench.run(PLAN)
    assert told["tasks"]["fix"]["status"] == "failed"
    assert "the server `notes` has 160 tools, and 100 are the most" in str(told)


def test_the_tools_of_a_server_that_a_policy_denies_are_not_listed(make: Make) -> None:
    bench = make(["Done."])
    told = bench.run(PLAN, policy={"capabilities": {"deny": ["mcp.*"]}})
    assert told["status"] == "completed", told
    assert bench.model.heard[0].tools == []
