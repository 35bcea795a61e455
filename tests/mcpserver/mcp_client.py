"""A project with an MCP server, and a client of the official library that speaks to it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from workbench import environment

from planrunner.app.runs.host import Host
from planrunner.caller import Principal, Workspace, acting
from planrunner.mcpserver.server import make_server
from planrunner.mcpserver.tool import Site

Json = Any
Work = Callable[[Client], Awaitable[Json]]

HELLO = """\
plan: hello
title: Say hello
params: {name: {type: string, default: world}}
tasks:
  - id: greet
    run: echo "hello $NAME"
    env: {NAME: "{{ params.name }}"}
    timeout: 10s
"""


class Answer(NamedTuple):
    """The result of a call: whether it is an error, and its document."""

    failed: bool
    told: Json


def project(folder: Path, settings: str = "{}", **plans: str) -> Path:
    """A project with these plans, by name."""
    (folder / "plans").mkdir(parents=True)
    (folder / "planrunner.yaml").write_text(settings)
    for name, text in {"hello": HELLO, **plans}.items():
        (folder / "plans" / f"{name}.yaml").write_text(text)
    return folder


@contextmanager
def beside(folder: Path) -> Iterator[Work]:
    """A function that carries work out with a client of a server in this process, which works in ``folder``."""
    before = os.getcwd()
    os.chdir(folder)
    state = str(folder / ".planrunner")
    try:
        with Host() as host, acting(Principal("ana"), Workspace(str(folder), state)):
            site = Site(str(folder), state, host, lambda: None)
            yield lambda work: asyncio.run(_with(make_server(site, lambda error: repr(error)), work))
    finally:
        os.chdir(before)


async def _with(server: Any, work: Work) -> Json:
    async with Client(server) as client:
        return await work(client)


def by_streams(folder: Path, work: Work, **variables: str) -> Json:
    """What work gives with a client that starts ``planrunner mcp`` itself."""
    started = StdioServerParameters(
        command=sys.executable, args=["-m", "planrunner", "mcp"], env=environment(**variables), cwd=str(folder)
    )
    return asyncio.run(_with(stdio_client(started), work))


async def call(client: Client, tool: str, **arguments: Json) -> Answer:
    """A call of a tool; its text says the same as its structure."""
    result = await client.call_tool(tool, arguments)
    [text] = result.content
    assert json.loads(text.text) == result.structured_content
    return Answer(bool(result.is_error), result.structured_content)


def asked(folder: Path, tool: str, **arguments: Json) -> Answer:
    """A call of a tool in this process."""

    async def work(client: Client) -> Answer:
        return await call(client, tool, **arguments)

    with beside(folder) as carry_out:
        return carry_out(work)


async def names(client: Client) -> list[str]:
    """The tools there are."""
    return [tool.name for tool in (await client.list_tools()).tools]
