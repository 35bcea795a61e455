"""A Dask cluster for rehearsals and tests: a scheduler and workers on free ports of 127.0.0.1, each its own process.

    with Cluster(folder) as cluster:
        cluster.address   # tcp://127.0.0.1:…

Needs the package distributed. Raises RuntimeError where a part does not start.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

_START = 120.0
_HERE = ("--host", "127.0.0.1", "--no-dashboard")


class Cluster:
    """A cluster that runs until ``stop``, or until the end of a ``with`` block. ``resources`` has one text for each
    worker, such as ``gpu=1``; ``environment`` is laid over that of this process; ``port`` 0 is any free one."""

    def __init__(
        self,
        folder: Path,
        resources: Sequence[str] = ("", ""),
        threads: int = 2,
        environment: Mapping[str, str] | None = None,
        port: int = 0,
        protocol: str = "tcp",
    ) -> None:
        self._protocol = protocol
        self._folder, self._threads = folder, threads
        self._environment = {**os.environ, **(environment or {})}
        self.workers: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        told = folder / "scheduler.json"
        told.unlink(missing_ok=True)
        self.scheduler = self._start("scheduler", "--port", str(port), "--scheduler-file", str(told))
        try:
            self.address = str(self._wait(lambda: json.loads(told.read_text())["address"]))
            for each in resources:
                self.add(each)
        except BaseException:
            self.stop()
            raise

    def add(self, resources: str = "", environment: Mapping[str, str] | None = None) -> None:
        """Start one more worker, and wait until the scheduler knows it."""
        name = f"worker-{len(self.workers)}"
        words = ("worker", self.address, "--no-nanny", "--nthreads", str(self._threads), "--name", name)
        more = ("--resources", resources) if resources else ()
        before = dict(self._environment)
        self._environment |= environment or {}
        self.workers.append(self._start(*words, "--local-directory", str(self._folder / name), *more))
        self._environment = before
        log = self._folder / f"{name}.log"
        self._wait(lambda: "Registered to:" in log.read_text() or None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End all of it."""
        for process in (*self.workers, self.scheduler):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        name = words[words.index("--name") + 1] if "--name" in words else words[0]
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                (
                    sys.executable,
                    "-m",
                    f"distributed.cli.dask_{words[0]}",
                    *words[1:],
                    *_HERE,
                    "--protocol",
                    self._protocol,
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def _wait(self, look: Any) -> Any:
        until = time.monotonic() + _START
        while time.monotonic() < until:
            with contextlib.suppress(OSError, ValueError, KeyError):
                if (seen := look()) is not None:
                    return seen
            if any(each.poll() is not None for each in (self.scheduler, *self.workers)):
                break
            time.sleep(0.02)
        logs = "\n".join(path.read_text()[-2000:] for path in sorted(self._folder.glob("*.log")))
        raise RuntimeError(f"the Dask cluster did not start: {logs}")
