"""The peer of the plans of git, for tests: repositories over loopback, and a forge."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

_PATH = Path(__file__).resolve().parents[2] / "plans/capabilities/peers/repositories.py"
_SPEC = importlib.util.spec_from_file_location("peer_repositories", _PATH)
assert _SPEC is not None and _SPEC.loader is not None
peer: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(peer)


@contextmanager
def served(root: Path, secret: str = "", redirect: str = "") -> Iterator[Any]:
    """Serve until the end of the block."""
    server = peer.Server(root, secret, redirect)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def bare(path: Path, source: Path) -> Path:
    """A repository to serve, with what ``source`` has, that takes pushes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for command in (
        ["git", "clone", "-q", "--bare", str(source), str(path)],
        ["git", "-C", str(path), "config", "http.receivepack", "true"],
    ):
        subprocess.run(command, check=True, capture_output=True)
    return path
