"""Runs in the environment of a peer, in an empty folder, beside its server; prints one JSON object a round.

service_peers.py prefect starts ROUNDS    S13: runs of a flow with one task, started by HTTP
service_peers.py prefect lists ROUNDS     S14: 1,000 runs that are paused
service_peers.py prefect pages ROUNDS     S15: what the page of a run with 1,000 tasks is drawn from

The clock is that of service.py: from the request until the run is on record as running. Prefect records the time of
that state (``start_time``).
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from measure import median_of, until

Json = Any

FLOWS = """
from prefect import flow, serve, task

@task
def only():
    pass

@flow
def one():
    only()

@flow
def many():
    for _ in range(1000):
        only()

if __name__ == "__main__":
    serve(one.to_deployment("bench"), many.to_deployment("bench"))
"""
SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_RUNNER_POLL_FREQUENCY": "1",  # whole seconds; ten without this
}
TOGETHER = 10


class Peer:
    """The processes of a peer, each in a session of its own, and a client of its API."""

    def __init__(self, port: int, api: str) -> None:
        self.port = port
        self.api = api
        self._processes: list[subprocess.Popen[bytes]] = []
        self._own = threading.local()

    def spawn(self, words: Sequence[str], settings: dict[str, str]) -> None:
        with open(f"log{len(self._processes)}", "wb") as log:
            process = subprocess.Popen(
                words,
                env=os.environ | settings,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._processes.append(process)

    def ask(self, method: str, path: str, body: Json = None) -> tuple[int, bytes]:
        """A request on the connection of this thread, and its answer."""
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, self.api + path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise

    def read(self, method: str, path: str, body: Json = None) -> Json:
        """The document that answers a request, which is sent again while the server is busy, for a minute at most."""
        deadline = time.monotonic() + 60
        while True:
            try:
                status, data = self.ask(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                status, data = 503, str(error).encode()
            if status < 300:
                return json.loads(data)
            assert status == 503 and time.monotonic() < deadline, (status, data[:500])
            time.sleep(0.1)

    def answers(self, path: str) -> bool:
        try:
            return self.ask("GET", path)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def memory(self) -> float:
        """MiB that its processes have in memory, those that they started among them."""
        page = os.sysconf("SC_PAGE_SIZE") / (1 << 20)
        return sum(int(fields[21]) for fields in self._family()) * page

    def cpu(self) -> float:
        """Seconds of processor that its processes have used."""
        return sum(int(fields[11]) + int(fields[12]) for fields in self._family()) / os.sysconf("SC_CLK_TCK")

    def _family(self) -> Iterator[list[str]]:
        """The fields of ``/proc/PID/stat`` from the third on."""
        sessions = {str(process.pid) for process in self._processes}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(") ")[2].split()
            except OSError:
                continue
            if fields[3] in sessions:
                yield fields

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


@contextmanager
def prefect() -> Iterator[Peer]:
    """A server on SQLite, and a process that serves two flows with the limit of five at once that it has by itself."""
    with open("flows.py", "w", encoding="utf-8") as file:
        file.write(FLOWS)
    peer = Peer(_free_port(), "/api")
    home = {"PREFECT_HOME": os.path.abspath("home"), "PREFECT_API_URL": f"http://127.0.0.1:{peer.port}/api"}
    settings = SETTINGS | home
    server = ["-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(peer.port)]
    try:
        peer.spawn([sys.executable, *server], settings)
        until(lambda: peer.answers("/health"))
        peer.spawn([sys.executable, "flows.py"], settings)
        until(lambda: peer.answers("/deployments/name/many/bench"))
        yield peer
    finally:
        peer.stop()


def prefect_starts(rounds: int) -> Iterator[dict[str, float]]:
    """Milliseconds until a run is running, and runs a second to their ends."""
    with prefect() as peer:
        deployment = peer.read("GET", "/deployments/name/one/bench")["id"]

        def run() -> float:
            at = time.time()
            made = peer.read("POST", f"/deployments/{deployment}/create_flow_run", {})
            return _moment(_ended(peer, made["id"])["start_time"]) - at

        run()
        for _ in range(rounds):
            yield _round(run)


def _ended(peer: Peer, run: str) -> Json:
    """A flow run that has ended."""
    while not (found := peer.read("GET", f"/flow_runs/{run}"))["end_time"]:
        time.sleep(0.1)
    assert found["state_type"] == "COMPLETED", found["state"]
    return found


def prefect_lists(rounds: int) -> Iterator[dict[str, float]]:
    """Memory, processor while idle, and milliseconds for the list of runs: of the server and the process that serves
    the flows, with runs that are paused as the server keeps them; none of them has a process."""
    with prefect() as peer:
        flow = peer.read("GET", "/flows/name/one")["id"]
        paused = {"flow_id": flow, "state": {"type": "PAUSED", "name": "Suspended"}}
        for _ in range(1000):
            peer.read("POST", "/flow_runs/", paused)
        wanted = {"limit": 25, "flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}}}
        assert peer.read("POST", "/flow_runs/paginate", wanted)["count"] >= 1000
        for _ in range(rounds):
            used = peer.cpu()
            time.sleep(10)
            idle = (peer.cpu() - used) / 10 * 100
            runs = median_of(lambda: peer.read("POST", "/flow_runs/paginate", wanted))
            yield {"memory": peer.memory(), "idle": idle, "runs": runs}


def prefect_pages(rounds: int) -> Iterator[dict[str, float]]:
    """Milliseconds and bytes of the graph of a run with 1,000 tasks: its page is a program that fetches this."""
    with prefect() as peer:
        deployment = peer.read("GET", "/deployments/name/many/bench")["id"]
        run = peer.read("POST", f"/deployments/{deployment}/create_flow_run", {})["id"]
        _ended(peer, run)
        path = f"/flow_runs/{run}/graph-v2"
        until(lambda: len(peer.read("GET", path)["nodes"]) == 1000)
        for _ in range(rounds):
            server = median_of(lambda: peer.read("GET", path), 11)
            yield {"1000 server": server, "1000 kB": len(peer.ask("GET", path)[1]) / 1000}


def _round(run: Callable[[], float]) -> dict[str, float]:
    """One client, then some at once, each of which waits for the end of its run."""
    alone = [run() for _ in range(2)]
    began = time.perf_counter()
    with ThreadPoolExecutor(TOGETHER) as clients:
        together = list(clients.map(lambda _: run(), range(TOGETHER)))
    rate = TOGETHER / (time.perf_counter() - began)
    one, ten = (statistics.median(found) * 1000 for found in (alone, together))
    return {"one p50": one, "together p50": ten, "runs/s": rate}


def _moment(text: str) -> float:
    """Seconds since 1970 of a time as Prefect writes it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


PARTS = {
    "prefect starts": prefect_starts,
    "prefect lists": prefect_lists,
    "prefect pages": prefect_pages,
}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for round_ in PARTS[" ".join(sys.argv[1:3])](int(sys.argv[3])):
        print(json.dumps(round_), flush=True)
