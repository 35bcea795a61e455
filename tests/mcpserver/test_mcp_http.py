"""The server over HTTP: on this machine alone, behind a token, and ended in order."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_client import call, project
from workbench import environment, planrunner

from planrunner.extras import installing


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A server in a process of its own, with pipes for its streams."""
    command, pipe = [sys.executable, "-m", "planrunner", "mcp", *words], subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


class Served:
    """A server over HTTP."""

    def __init__(self, folder: Path) -> None:
        self.process = started(folder, "--http")
        assert self.process.stderr is not None
        said = [self.process.stderr.readline() for _ in range(3)]
        address = re.search(r"http://127\.0\.0\.1:\d+/mcp", said[0])
        assert address is not None, said
        self.address = address[0]
        self.headers = {"authorization": f"Bearer {said[2].split()[-1]}"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    one = Served(project(tmp_path_factory.mktemp("http") / "p"))
    yield one
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(240) == 143


def test_a_client_with_the_token_lists_plans(served: Served) -> None:
    async def work() -> object:
        async with (
            httpx2.AsyncClient(headers=served.headers) as http,
            Client(streamable_http_client(served.address, http_client=http)) as client,
        ):
            return (await call(client, "plans")).told["plans"]

    assert asyncio.run(work()) == [{"path": "plans/hello.yaml", "title": "Say hello"}]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
    ],
)
def test_others_and_web_pages_are_turned_away(served: Served, headers: dict[str, str], status: int) -> None:
    token = {} if status == 401 else served.headers
    answer = httpx2.post(served.address, json={"jsonrpc": "2.0"}, headers={**token, **headers})
    assert answer.status_code == status


def test_a_short_token_and_a_port_without_http_are_refused(tmp_path: Path) -> None:
    folder = project(tmp_path / "p")
    short = planrunner(folder, "mcp", "--http", PLANRUNNER_MCP_TOKEN="short")
    assert (short.returncode, "shorter than 16 characters" in short.stderr) == (2, True)
    alone = planrunner(folder, "mcp", "--port", "80")
    assert (alone.returncode, "--port has no effect without --http" in alone.stderr) == (2, True)


def test_a_server_on_standard_streams_ends_with_its_client_and_with_a_signal(tmp_path: Path) -> None:
    folder = project(tmp_path / "p")
    for number, code in ((0, 0), (signal.SIGTERM, 143)):
        process = started(folder)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        assert '"id":1' in process.stdout.readline()
        if number:
            process.send_signal(number)
        else:
            process.stdin.close()
        assert process.wait(240) == code


def test_a_client_that_vanishes_leaves_no_report_of_a_fault(tmp_path: Path) -> None:
    folder = project(tmp_path / "p")
    (folder / ".planrunner").mkdir(0o700)
    process = started(folder)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    process.stdin.close()
    assert process.wait(240) == 0
    assert "fault" not in process.stderr.read()


@pytest.mark.parametrize("module", ["mcp", "uvicorn"])
def test_a_missing_extra_is_named(tmp_path: Path, module: str) -> None:
    folder = project(tmp_path / "p")
    program = f"import sys; sys.modules[{module!r}] = None; from planrunner.cli import main; sys.exit(main(['mcp']))"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert installing("mcp") in done.stderr
