"""The model server of ``plans/capabilities/peers/models.py``, started for tests."""

from __future__ import annotations

import importlib.util
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from workbench import ROOT


class Server(NamedTuple):
    """aimock at an address of this machine; ``stop`` may be called before its end, and more than once."""

    url: str
    stop: Callable[[], None]


@contextmanager
def served(answers: Path) -> Iterator[Server]:
    """The server with the answers of a file, ready. Skips the test where aimock is not installed."""
    spec = importlib.util.spec_from_file_location("peer_models", ROOT / "plans/capabilities/peers/models.py")
    assert spec is not None and spec.loader is not None
    peer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peer)
    port = peer.free_port()
    command = peer.command(str(port), str(answers))
    if command is None:
        pytest.skip("aimock is not installed: npm install --prefix ~/.cache/planrunner/aimock @copilotkit/aimock")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop() -> None:
        process.kill()
        process.wait()

    try:
        url = f"http://127.0.0.1:{port}"
        _wait(f"{url}/health")
        yield Server(url, stop)
    finally:
        stop()


def _wait(url: str) -> None:
    for _ in range(2400):
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("aimock did not start")
