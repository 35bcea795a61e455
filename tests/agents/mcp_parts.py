"""The test server as the settings of a project name it, and the same over HTTP."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = Any

SERVER = str(Path(__file__).with_name("mcp_server.py"))
COMMAND = [sys.executable, SERVER]


def free_port() -> int:
    """A port below those that the system gives to others by itself, so no other program takes it first."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def over_http(port: int = 0, **variables: str) -> Iterator[str]:
    """The address of the server."""
    port = port or free_port()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([*COMMAND, str(port)], stdout=quiet, stderr=quiet, env={**os.environ, **variables})
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def is_alive(pid: int) -> bool:
    """Whether a process lives; one that ended and whose parent has not looked does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def environment_of(pid: int) -> dict[str, str]:
    pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(os.fsdecode(pair).partition("=")[::2] for pair in pairs if pair)
