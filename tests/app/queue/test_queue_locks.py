"""A worker and its own process's other connections keep the file of the queue together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from planrunner.app.queue.store import Store

OTHER = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM pauses').fetchall(); c.close()"


def _gone() -> list[str]:
    """Files that this process has open and that were deleted."""
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    targets = [os.readlink(link) for link in links if os.path.islink(link)]
    return [target for target in targets if "queue.db" in target and target.endswith("(deleted)")]


def test_another_process_that_looks_at_the_queue_does_not_take_its_log_away(tmp_path: Path) -> None:
    """SQLite moves and deletes the log with the last connection; what it goes by are locks, which closing any
    descriptor of the file drops."""
    state = str(tmp_path / "state")
    with Store(state) as worker:
        with Store(state) as enqueuer:
            enqueuer.set_pause(None)
        subprocess.run([sys.executable, "-c", OTHER, worker.path], check=True)
        assert not _gone()
        with Store(state) as resumer:
            resumer.set_pause(None)
        assert worker.pause() is None
