"""MCP servers behind tasks: their tools, results, ends, and what they may not do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from canaries import canary
from mcp_parts import COMMAND, SERVER, environment_of, free_port, is_alive, over_http
from workbench import environment, planrunner

from planrunner.engine.effects import StartCall
from planrunner.extras import installing
from planrunner.machine.events import AttemptEnded, Outcome
from planrunner.testing.bench import Asked, Bench

Json = Any
NETWORK = {"private": ["127.0.0.1"]}


@pytest.fixture(params=["stdio", "http", "http before 2026"])
def settings(request: pytest.FixtureRequest) -> Iterator[dict[str, Json]]:
    """A project with the server `notes`."""
    if request.param == "stdio":
        yield {"tools": {"notes": {"mcp": COMMAND}}}
    else:
        with over_http(OLD="1" if "before" in request.param else "") as url:
            yield {"network": NETWORK, "tools": {"notes": {"mcp": url}}}


def once(folder: Path, name: str, given: dict[str, Json], settings: dict[str, Json], **asked: Any) -> Outcome:
    with Bench(name, str(folder), settings) as bench:
        return bench.call(Asked(given, timeout=60)._replace(**asked)).outcome


def called(folder: Path, tool: str, settings: dict[str, Json] | None = None, /, **arguments: Json) -> Outcome:
    given = {"server": "notes", "tool": tool, "arguments": arguments}
    return once(folder, "mcp.call", given, settings or {"tools": {"notes": {"mcp": COMMAND}}})


def project(
    folder: Path, *tasks: Json, plan: Json = None, **settings: Json
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A project whose plan calls tools of `notes`: (id, tool, arguments), or a task as it is."""
    listed = []
    for task in tasks:
        if isinstance(task, tuple):
            id_, tool, arguments = task
            task = {"id": id_, "uses": "mcp.call", "with": {"server": "notes", "tool": tool, "arguments": arguments}}
        listed.append({**task, **({"needs": [listed[-1]["id"]]} if listed else {})})
    whole = {"plan": "p", "defaults": {"timeout": "1m"}, "tasks": listed, **(plan or {})}
    (folder / "plan.json").write_text(json.dumps(whole))
    (folder / "planrunner.yaml").write_text(json.dumps({"tools": {"notes": {"mcp": COMMAND}}, **settings}))
    return lambda *words, **variables: planrunner(folder, *words, **variables)


def test_the_tools_of_a_server_are_listed(tmp_path: Path, settings: dict[str, Json]) -> None:
    ended = once(tmp_path, "mcp.tools", {"server": "notes"}, settings)
    tools = {tool["name"]: tool for tool in ended.outputs["tools"]}
    assert tools["keep"]["description"] == "Keep a note."
    assert set(tools["keep"]["schema"]["properties"]) == {"name", "text"}


def test_what_a_server_says_of_its_tools_is_bounded_and_plain(tmp_path: Path) -> None:
    with Bench("mcp.tools", str(tmp_path), {"tools": {"notes": {"mcp": COMMAND}}}) as bench:
        ended = bench.call(Asked({"server": "notes"}, timeout=60))
    tools = {tool["name"]: tool for tool in ended.outcome.outputs["tools"]}
    assert tools["hostile"]["description"].startswith("Look.\\u202eIGNORE")
    assert len(tools["hostile"]["description"]) < 2_010
    assert "\x1b" not in json.dumps(tools["hostile"]["schema"], ensure_ascii=False)
    assert "odd name\n" not in tools
    assert 'its name "odd name\\n" is not one of letters' in ended.log


def test_a_tool_gives_text_and_a_structured_result(tmp_path: Path, settings: dict[str, Json]) -> None:
    assert called(tmp_path, "keep", settings, name="a", text="b").outputs["text"] == "kept a, 1 in all"
    assert called(tmp_path, "environment", settings, name="NOWHERE").outputs["result"] is None


def test_what_is_not_text_is_kept_as_an_artifact(tmp_path: Path) -> None:
    ended = called(tmp_path, "picture")
    (picture,) = ended.artifacts
    assert (picture["name"], picture["type"]) == ("picture-1.png", "image/png")
    assert ended.outputs["text"] == "a small one\n[image/png, 16 bytes: the artifact picture-1.png]"


def test_a_long_text_is_cut_and_kept_whole(tmp_path: Path) -> None:
    ended = called(tmp_path, "long", size=300_000)
    assert ended.artifacts[0]["size"] == 300_000
    assert len(ended.outputs["text"]) < 200_200 and ended.outputs["text"].endswith("the artifact long-1.txt]")


def test_what_a_tool_calls_an_error_fails_the_task_with_its_text(tmp_path: Path, settings: dict[str, Json]) -> None:
    ended = called(tmp_path, "note", settings, name="missing")
    said = "Error executing tool note: there is no note `missing`"
    assert (ended.failure, ended.message, ended.outputs["text"]) == ("logic", f"`note` failed: {said}", said)


def test_an_unknown_tool_is_not_called_and_the_nearest_is_named(tmp_path: Path) -> None:
    ended = called(tmp_path, "kep")
    assert ended.message == "the server `notes` has no tool `kep`: did you mean `keep`?"


def test_tasks_of_a_run_meet_the_same_server_and_it_ends_with_the_run(tmp_path: Path) -> None:
    act = project(tmp_path, ("a", "keep", {"name": "n", "text": "words"}), ("b", "note", {"name": "n"}))
    ran = act("exec", "plan.json", "--json")
    result = json.loads(ran.stdout)["tasks"]["b"]["outputs"]["result"]
    assert result["text"] == "words"
    assert not is_alive(result["process"])
    assert act("replay", "last", PATH=os.defpath).returncode == 0


def test_a_server_that_does_not_want_to_end_is_ended(tmp_path: Path) -> None:
    stubborn = ["sh", "-c", f"trap '' TERM; {sys.executable} {SERVER}; exec sleep 600"]
    act = project(tmp_path, ("a", "environment", {"name": "PLANRUNNER_RUN_ID"}), tools={"notes": {"mcp": stubborn}})
    run_id = json.loads(act("exec", "plan.json", "--json").stdout)["tasks"]["a"]["outputs"]["text"]
    assert _alive_of(run_id) == []


def test_a_server_that_outlives_a_killed_planrunner_is_ended_when_the_run_goes_on(tmp_path: Path) -> None:
    stubborn = ["sh", "-c", f"trap '' TERM; {sys.executable} {SERVER}; exec sleep 600"]
    started = tmp_path / "started"
    act = project(tmp_path, ("a", "wait", {"started": str(started)}), tools={"notes": {"mcp": stubborn}})
    words = [sys.executable, "-m", "planrunner", "exec", "plan.json"]
    runner = subprocess.Popen(words, cwd=tmp_path, env=environment())
    while not started.exists():
        assert runner.poll() is None
        time.sleep(0.01)
    run_id = environment_of(int(started.read_text()))["PLANRUNNER_RUN_ID"]
    runner.kill()
    runner.wait()
    assert _alive_of(run_id)
    resumed = act("resume", run_id, "--settle", "a=failed")
    assert _alive_of(run_id) == [], resumed


def _alive_of(run_id: str) -> list[int]:
    """The living processes that carry the mark of a run."""
    marker = f"PLANRUNNER_RUN_ID={run_id}".encode()
    pids = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if _holds(path, marker)]
    return [pid for pid in pids if is_alive(pid)]


def _holds(path: Path, marker: bytes) -> bool:
    try:
        return marker in path.read_bytes().split(b"\0")
    except OSError:
        return False


DEEP = """
import json, sys
many = int(sys.argv[1])
schema = '{"type":"object","properties":{"a":' * many + '{}' + '}}' * many
answers = {
    "initialize": '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}',
    "tools/list": '{"tools":[{"name":"deep","inputSchema":' + schema + '}]}',
    "tools/call": '{"content":[],"structuredContent":{"a":' + '[' * 10000 + ']' * 10000 + '}}',
}
for line in sys.stdin:
    asked = json.loads(line)
    known = answers.get(asked.get("method"))
    if "id" in asked:
        said = f'"result":{known}' if known else '"error":{"code":-32601,"message":"no"}'
        print('{"jsonrpc":"2.0","id":%d,%s}' % (asked["id"], said), flush=True)
"""


@pytest.mark.parametrize(("levels", "name"), [(900, "mcp.tools"), (2, "mcp.call")])
def test_an_answer_that_is_nested_too_deeply_fails_its_call_at_once(tmp_path: Path, levels: int, name: str) -> None:
    (tmp_path / "deep.py").write_text(DEEP)
    settings = {"tools": {"notes": {"mcp": [sys.executable, "deep.py", str(levels)]}}}
    given = {"server": "notes", **({"tool": "deep"} if name == "mcp.call" else {})}
    ended = once(tmp_path, name, given, settings)
    assert ended.failure == "logic", ended
    assert "the server `notes` sent an answer that cannot be read: " in ended.message, ended
    assert "recursion" in ended.message and "bytes)" in ended.message


def test_a_server_that_ends_during_a_call_fails_it_and_is_started_again(tmp_path: Path) -> None:
    die = {"id": "a", "uses": "mcp.call", "with": {"server": "notes", "tool": "die"}, "allow_failure": True}
    act = project(tmp_path, die, ("b", "keep", {"name": "n", "text": "x"}))
    tasks = json.loads(act("exec", "plan.json", "--json").stdout)["tasks"]
    assert tasks["a"]["failure"] == "transient"
    said = "the server `notes` ended during the call; it said: something broke"
    assert tasks["a"]["attempt_history"][0]["message"] == said
    assert tasks["b"]["outputs"]["text"] == "kept n, 1 in all"


def test_a_server_over_http_that_ends_during_a_call_fails_it(tmp_path: Path) -> None:
    with over_http() as url:
        ended = called(tmp_path, "die", {"network": NETWORK, "tools": {"notes": {"mcp": url}}})
    assert ended.failure == "transient" and "the server `notes` ended during the call" in ended.message


@pytest.mark.parametrize("old", ["", "1"])
def test_a_server_over_http_that_begins_again_is_met_by_a_later_call(tmp_path: Path, old: str) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    with Bench("mcp.call", str(tmp_path), {"network": NETWORK, "tools": {"notes": {"mcp": url}}}) as bench:
        effects = bench._effects()

        def keep(key: str) -> Outcome:
            given = {"server": "notes", "tool": "keep", "arguments": {"name": key, "text": "x"}}
            effects.start([StartCall(bench._call(Asked(given, timeout=60, key=key)))])
            return next(event.outcome for event in effects.wait(None) if isinstance(event, AttemptEnded))

        with over_http(port, OLD=old):
            assert keep("a").outputs["text"] == "kept a, 1 in all"
        with over_http(port, OLD=old):
            second = keep("b")
            assert second.failure in ("", "transient"), second.message
            assert keep("c").failure == ""
        effects.close()


def test_a_server_that_knows_the_older_handshake_alone_is_started_again(tmp_path: Path) -> None:
    program = """
import json, sys
for number, line in enumerate(sys.stdin):
    asked = json.loads(line)
    if number == 0 and asked["method"] != "initialize":
        sys.exit("expected initialize")
    about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "o", "version": "1"}}
    told = {"initialize": about, "tools/list": {"tools": [{"name": "keep", "inputSchema": {"type": "object"}}]}}
    told["tools/call"] = {"content": [{"type": "text", "text": "kept"}]}
    print("a line that is not a message")
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": told[asked["method"]]}), flush=True)
"""
    ended = called(tmp_path, "keep", {"tools": {"notes": {"mcp": [sys.executable, "-c", program]}}})
    assert ended.outputs.get("text") == "kept", ended


@pytest.mark.parametrize("module", ["mcp", "mcp.client"])
def test_without_the_extra_the_failure_says_what_to_install(
    tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "planrunner.capabilities.mcp.session", raising=False)
    monkeypatch.delattr("planrunner.capabilities.mcp.session", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    assert installing("mcp") in called(tmp_path, "keep").message


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    broken = {"tools": {"notes": {"mcp": [sys.executable, "-c", "raise SystemExit('no licence')"]}}}
    ended = called(tmp_path, "keep", broken)
    assert ended.failure == "logic"
    assert ended.message == "the server `notes` did not start: Connection closed; it said: no licence"


def test_a_program_of_a_server_that_is_not_there_is_named_before_the_run(tmp_path: Path) -> None:
    act = project(tmp_path, ("k", "keep", {}), tools={"notes": {"mcp": ["no-such-program"]}})
    refused = act("exec", "plan.json")
    assert refused.returncode == 5
    assert "the program `no-such-program` of the server `notes` is not on the PATH" in refused.stderr


def test_a_tool_that_the_project_leaves_out_is_named_by_lint(tmp_path: Path) -> None:
    act = project(tmp_path, ("k", "kep", {}), tools={"notes": {"mcp": ["cat"], "tools": ["keep"]}})
    said = act("lint", "plan.json").stdout
    assert "the server `notes` has no tool `kep` for plans, did you mean `keep`?" in said


def test_the_timeout_of_a_task_ends_its_call_and_leaves_the_server(tmp_path: Path, settings: dict[str, Json]) -> None:
    wait = {"server": "notes", "tool": "wait", "arguments": {"started": str(tmp_path / "started")}}
    first = {"id": "a", "uses": "mcp.call", "with": wait, "timeout": "3s", "allow_failure": True}
    act = project(tmp_path, ("k", "keep", {"name": "n", "text": "x"}), first, ("b", "note", {"name": "n"}), **settings)
    tasks = json.loads(act("exec", "plan.json", "--json").stdout)["tasks"]
    assert tasks["a"]["failure"] == "timeout"
    assert tasks["b"]["outputs"]["result"]["text"] == "x"


def test_a_private_address_is_reached_only_where_the_project_says_so(tmp_path: Path) -> None:
    with over_http() as url:
        ended = called(tmp_path, "keep", {"tools": {"notes": {"mcp": url}}})
    assert (ended.failure, ended.rule) == ("policy", "network.private")


def test_a_credential_passes_by_a_variable_and_is_shown_nowhere(tmp_path: Path) -> None:
    secret = canary("mcp")
    said = {"command": COMMAND, "env": {"MODE": "fast"}, "secrets": {"NOTES_TOKEN": "notes"}}
    credentials = [{"id": "notes", "auth": {"source": "env", "env_var": "FROM_HERE"}}]
    calls = [(name.lower(), "environment", {"name": name}) for name in ("MODE", "NOTES_TOKEN", "FROM_HERE")]
    act = project(tmp_path, *calls, tools={"notes": {"mcp": said}}, provider_credentials=credentials)
    tasks = json.loads(act("exec", "plan.json", "--json", FROM_HERE=secret).stdout)["tasks"]
    told = [tasks[id_]["outputs"]["text"] for id_, _, _ in calls]
    assert told == ["fast", "[secret:notes]", "not set"]


def test_a_tool_that_the_project_does_not_list_is_refused(tmp_path: Path) -> None:
    ended = called(tmp_path, "die", {"tools": {"notes": {"mcp": COMMAND, "tools": ["keep", "note*"]}}})
    assert (ended.failure, ended.rule) == ("policy", "mcp.tools")
    assert ended.message.endswith("it lists `tools: [keep, note*]`")


DENY = {"capabilities": {"deny": [{"uses": "mcp.call", "with": {"server": "notes", "tool": "delete_*"}}]}}


def test_a_policy_denies_by_server_and_tool(tmp_path: Path) -> None:
    act = project(tmp_path, ("a", "delete_note", {"name": "n"}), policy=DENY)
    ran = act("exec", "plan.json")
    assert ran.returncode == 12
    assert "{uses: mcp.call, with: {server: notes, tool: delete_*}}" in ran.stderr


def test_a_policy_asks_by_server_and_tool(tmp_path: Path) -> None:
    asks = {"capabilities": {"ask": DENY["capabilities"]["deny"]}}
    act = project(tmp_path, ("k", "keep", {"name": "n", "text": "x"}), ("a", "delete_note", {"name": "n"}), policy=asks)
    ran = act("exec", "plan.json")
    assert ran.returncode == 8
    asked = act("gates", "last").stdout
    assert "delete_note" in asked, asked
    assert act("approve", "last", "a").returncode == 0


def test_a_policy_shuts_the_program_of_a_server_in(tmp_path: Path) -> None:
    shutil.copy(SERVER, tmp_path / "server.py")
    tools = {"notes": {"mcp": [sys.executable, "server.py"]}}
    act = project(tmp_path, ("a", "environment", {"name": "HOME"}), policy={"sandbox": "bubblewrap"}, tools=tools)
    tasks = json.loads(act("exec", "plan.json", "--json").stdout)["tasks"]
    if tasks["a"].get("failure") == "policy":
        pytest.skip(tasks["a"]["attempt_history"][0]["message"])
    assert tasks["a"]["outputs"]["text"] == "/tmp/home"


def test_tasks_under_other_policies_do_not_share_a_server(tmp_path: Path) -> None:
    call = {"server": "notes", "tool": "note", "arguments": {"name": "n"}}
    other = {"id": "c", "uses": "mcp.call", "with": call, "policy": {"env": {"deny": ["X"]}}, "allow_failure": True}
    act = project(tmp_path, ("a", "keep", {"name": "n", "text": "x"}), ("b", "note", {"name": "n"}), other)
    tasks = json.loads(act("exec", "plan.json", "--json").stdout)["tasks"]
    assert tasks["b"]["outputs"]["result"]["text"] == "x"
    assert "there is no note `n`" in tasks["c"]["attempt_history"][0]["message"]


def test_a_credential_passes_by_a_header(tmp_path: Path) -> None:
    secret = canary("mcp-header")
    credentials = [{"id": "notes", "auth": {"source": "env", "env_var": "FROM_HERE"}}]
    with over_http() as url:
        tools = {"notes": {"mcp": {"url": url, "credential": "notes", "headers": {"X-Who": "me"}}}}
        calls = [("who", "header", {"name": "x-who"}), ("key", "header", {"name": "authorization"})]
        act = project(tmp_path, *calls, tools=tools, network=NETWORK, provider_credentials=credentials)
        tasks = json.loads(act("exec", "plan.json", "--json", FROM_HERE=secret).stdout)["tasks"]
    assert [tasks[id_]["outputs"]["text"] for id_ in ("who", "key")] == ["me", "Bearer [secret:notes]"]


def test_an_unknown_server_is_told_before_the_run(tmp_path: Path) -> None:
    task = {"id": "a", "uses": "mcp.call", "with": {"server": "nots", "tool": "keep"}, "timeout": "1m"}
    act = project(tmp_path, task)
    for words in (("exec", "plan.json"), ("lint", "plan.json")):
        ran = act(*words)
        assert ran.returncode != 0
        assert "there is no MCP server `nots`, did you mean `notes`?" in ran.stdout + ran.stderr


def test_a_server_that_a_template_names_wrongly_is_told_at_the_call(tmp_path: Path) -> None:
    call = {"server": "{{ params.server }}", "tool": "keep"}
    act = project(tmp_path, {"id": "a", "uses": "mcp.call", "with": call}, plan={"params": {"server": "nots"}})
    ran = act("exec", "plan.json")
    assert ran.returncode != 0 and "has no MCP server `nots` under `tools`: did you mean `notes`?" in ran.stderr


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"mcp": {"command": ["x"], "url": "http://x"}}, "`url` and `command` exclude each other"),
        ({"mcp": {"env": {"A": "b"}}}, "`command`"),
        ({"mcp": {"url": "ftp://x/y"}}, "http"),
        ({"mcp": {"url": "https://me:pw@x/y"}}, "http"),
        ({"mcp": "npx 'unclosed"}, "no closing quotation"),
        ({"mcp": ""}, "mcp"),
        ({"mcp": {"url": "https://x", "env": {"A": "b"}}}, "`env` has no effect"),
        ({"mcp": {"command": "x", "headers": {"A": "b"}}}, "`headers` has no effect"),
        ({"mcp": "x", "with": {"a": 1}}, "`with` has no effect"),
        ({"uses": "shell", "tools": ["x"]}, "`tools` has no effect"),
        ({"mcp": {"command": "x", "secrets": {"A": "nowhere"}}}, "the credential `nowhere`, which does not exist"),
        ({"mcp": {"url": "https://x", "credential": "nowhere"}}, "the credential `nowhere`, which does not exist"),
        ({"mcp": {"comand": "x"}}, "did you mean `command`?"),
    ],
)
def test_settings_that_say_nothing_are_findings(tmp_path: Path, said: Json, told: str) -> None:
    act = project(tmp_path, tools={"notes": said})
    ran = act("config", "check")
    assert ran.returncode == 1
    assert told in ran.stdout, ran.stdout
