"""A service as it runs for people: `planrunner serve` in a process of its own, and a client that speaks plain HTTP."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import commands
import pytest

Json = Any

PATIENCE = 240.0
"""Seconds in which anything awaited comes about; only a service that hangs needs them."""


class Answer(NamedTuple):
    """What came back. ``data`` is the JSON of the body; None for anything else."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Json:
        return json.loads(self.body) if "json" in self.headers.get("content-type", "") else None

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class Served:
    """A running service. ``project`` is the name of its first project in addresses."""

    def __init__(self, process: commands.Started, address: str, folder: Path, environment: dict[str, str]) -> None:
        self.process = process
        self.address = address
        self.folder = folder
        self.environment = environment
        self.project = folder.name
        self.port = int(address.rpartition(":")[2])
        self.token = ""

    @property
    def api(self) -> str:
        return f"/api/v1/projects/{self.project}"

    def ask(self, method: str, path: str, body: Json = None, **headers: str) -> Answer:
        """One request over a connection of its own. A ``body`` that is not bytes is sent as JSON. Underscores in the
        names of headers are hyphens."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            given.setdefault("authorization", f"Bearer {self.token}")
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
            given.setdefault("content-type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, data, given)
            came = connection.getresponse()
            return Answer(came.status, {name.lower(): value for name, value in came.getheaders()}, came.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Json = None, **headers: str) -> Answer:
        return self.ask("POST", path, {} if body is None else body, **headers)

    def start(self, plan: str, **more: Json) -> str:
        """Start a run through the API; its id."""
        answer = self.post(f"{self.api}/runs", {"plan": plan, **more})
        assert answer.status == 202, answer
        return str(answer.data["run_id"])

    def run(self, run: str, **headers: str) -> Json:
        """The run, as soon as it has begun."""

        def begun() -> Json:
            found = self.get(f"{self.api}/runs/{run}", **headers)
            return found.data if found.status == 200 and found.data["status"] != "queued" else None

        return awaited(begun)

    def settled(self, run: str, **headers: str) -> Json:
        """The run, as soon as it has ended or waits for something."""
        return awaited(lambda: shown if (shown := self.run(run, **headers))["exit_code"] is not None else None)

    def make_token(self, name: str, *words: str) -> str:
        """A token of the user of the service, made as people make it."""
        ran = commands.run("token", "create", name, *words, folder=self.folder, env=self.environment)
        assert ran.code == 0, ran.err
        return ran.out.strip()


def awaited(look: Callable[[], Json]) -> Json:
    """What ``look`` gives, as soon as it is something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)
    return found


@contextmanager
def serving(folder: Path, *words: str, **variables: str) -> Iterator[Served]:
    """Serve the project in a folder, on a free port, as the user of this process with a home of their own; the test is
    skipped where the extra is not installed."""
    pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
    home = folder.parent / "data"
    environment = {**os.environ, "XDG_DATA_HOME": str(home), **variables}
    process = commands.start("serve", "--port", "0", *words, folder=folder, env=environment)
    try:
        line = process.stderr.readline()
        found = re.search(r"serves (http://\S+)", line)
        assert found, line + process.stderr.read()
        yield Served(process, found[1], folder, environment)
    finally:
        stopped(process)


def stopped(process: commands.Started) -> int:
    """Stop a service as people do; its exit code."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE)


PLANS = {
    "quick": "plan: quick\ntitle: Two tasks\ndefaults: {timeout: 1m}\ntasks:\n"
    "  - {id: one, run: echo first}\n  - {id: two, needs: [one], run: echo second}\n",
    "asks": "plan: asks\ndefaults: {timeout: 1m}\ntasks:\n"
    "  - {id: work, run: echo done}\n  - {id: sign, needs: [work], ask: 'Publish it?'}\n"
    "  - {id: publish, needs: [sign], run: echo published}\n",
    "fails": "plan: fails\ndefaults: {timeout: 1m}\ntasks:\n  - {id: breaks, run: exit 3}\n",
    "takes": "plan: takes\ndefaults: {timeout: 1m}\nparams: {word: {type: string, default: none}}\ntasks:\n"
    "  - {id: says, run: 'echo {{ params.word }}'}\n",
    "waits": "plan: waits\ndefaults: {timeout: 10m}\ntasks:\n"
    "  - {id: stands, run: 'echo waiting; until test -e go; do sleep 0.05; done; echo gone'}\n",
}


def make_project(folder: Path) -> Path:
    """A project with some plans."""
    (folder / "plans").mkdir(parents=True)
    (folder / "planrunner.yaml").write_text("scheduler: {max_concurrency: 8}\n")
    for name, text in PLANS.items():
        (folder / "plans" / f"{name}.yaml").write_text(text)
    return folder
