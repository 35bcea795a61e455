"""Runs in the environment of planrunner, in an empty folder, beside a `planrunner serve` that it starts; prints one
JSON object a round.

service.py starts ROUNDS    S13: runs started by HTTP
service.py lists ROUNDS     S14: 1,000 runs that wait and 200 that go on
service.py pages ROUNDS     S15: the pages of a run and of a plan with 1,000 tasks and with 10,000, and live events
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from measure import median_of, until
from playwright.sync_api import sync_playwright

from planrunner.app.runs.execute import ExecRequest
from planrunner.app.runs.host import Host
from planrunner.journal.stores import open_journal

Json = Any

NOOP = "plan: noop\ntasks:\n  - {id: only, uses: noop}\n"
GATE = "plan: asks\ntasks:\n  - {id: before, uses: noop}\n  - {id: ask, ask: 'Go on?', needs: [before]}\n"
SLEEP = "plan: sleeps\ntasks:\n  - {id: wait, uses: sleep, with: {duration: 1h}, timeout: 2h}\n"
CLIENTS, SECONDS = 50, 5


class Service:
    """A service for the project of the working directory, and a client of it."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.api = f"/api/v1/projects/{os.path.basename(os.getcwd())}"
        self._own = threading.local()

    def ask(self, method: str, path: str, body: Json = None) -> tuple[int, bytes]:
        """A request on the connection of this thread, and its answer."""
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def start(self, plan: str) -> tuple[str, float, float]:
        """Start a run: its id, when it was asked for (seconds since 1970), and the seconds until the answer."""
        at, clock = time.time(), time.perf_counter()
        while True:
            status, data = self.ask("POST", f"{self.api}/runs", {"plan": plan})
            if status != 429:
                break
            time.sleep(0.05)
        assert status == 202, data
        return json.loads(data)["run_id"], at, time.perf_counter() - clock

    def cpu(self) -> float:
        """Seconds of processor that the service has used."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """MiB that it has in memory."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            found = re.search(r"VmRSS:\s+(\d+)", file.read())
        assert found
        return int(found[1]) / 1024


@contextmanager
def served() -> Iterator[Service]:
    words = [sys.executable, "-m", "planrunner", "serve", "--port", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    found = re.search(r":(\d+)\b", process.stderr.readline())
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        assert found
        yield Service(process, int(found[1]))
    finally:
        process.terminate()
        process.wait(120)


def written(name: str, text: str) -> str:
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    return name


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def starts(rounds: int) -> Iterator[dict[str, float]]:
    """Milliseconds from a request to the first durable event of its run, and runs a second to their ends."""
    plan = written("noop.yaml", NOOP)
    with served() as service:
        _finished([service.start(plan)[0] for _ in range(20)])
        for _ in range(rounds):
            yield _started(service, plan)


def _started(service: Service, plan: str) -> dict[str, float]:
    alone = [_alone(service, plan) for _ in range(100)]
    together = _paced(service, plan)
    _finished([run for run, _, _ in together])
    rate = _sustained(service, plan)
    first = _first_events()
    one = [(first[run] - at) * 1000 for run, at, _ in alone]
    fifty = [(first[run] - at) * 1000 for run, at, _ in together]
    return {
        "one p50": percentile(one, 0.5),
        "one p99": percentile(one, 0.99),
        "fifty p50": percentile(fifty, 0.5),
        "fifty p99": percentile(fifty, 0.99),
        "runs/s": rate,
    }


def _alone(service: Service, plan: str) -> tuple[str, float, float]:
    """One client that starts a run and waits for its end."""
    started = service.start(plan)
    _finished([started[0]])
    return started


def _finished(runs: list[str]) -> None:
    """Wait until runs are over."""
    left = set(runs)
    journal = open_journal(".planrunner", readonly=True)
    try:
        while left:
            left -= {row.run for row in journal.runs(len(runs) + CLIENTS) if row.status}
            time.sleep(0.005)
    finally:
        journal.close()


def _paced(service: Service, plan: str) -> list[tuple[str, float, float]]:
    """Fifty clients that start a run a second each."""
    begin = time.perf_counter() + 0.2

    def client(number: int) -> list[tuple[str, float, float]]:
        found = []
        for turn in range(SECONDS):
            due = begin + turn + number / CLIENTS
            time.sleep(max(0.0, due - time.perf_counter()))
            found.append(service.start(plan))
        return found

    with ThreadPoolExecutor(CLIENTS) as clients:
        return [each for part in clients.map(client, range(CLIENTS)) for each in part]


def _sustained(service: Service, plan: str, most: int = 500) -> float:
    """Runs a second, from the first request to the end of the last run, started as fast as they are taken."""
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        runs = list(clients.map(lambda _: service.start(plan)[0], range(most)))
    _finished(runs[-CLIENTS * 4 :])
    return most / (time.perf_counter() - began)


def _first_events() -> dict[str, float]:
    journal = open_journal(".planrunner", readonly=True)
    try:
        return {row.run: row.created for row in journal.runs(1_000_000)}
    finally:
        journal.close()


def lists(rounds: int) -> Iterator[dict[str, float]]:
    """Memory, processor while idle, and milliseconds for the lists."""
    gate, sleep = written("asks.yaml", GATE), written("sleeps.yaml", SLEEP)
    written("planrunner.yaml", "scheduler: {max_concurrency: 200}\n")
    with Host() as host:
        request = ExecRequest(os.path.abspath(gate), unattended=True, state=os.path.abspath(".planrunner"))
        while len(open_rows()) < 1000:
            for run in [host.start(request) for _ in range(20)]:
                run.result()
    with served() as service:
        for _ in range(200):
            service.start(sleep)
        going = f"{service.api}/runs?status=running"
        until(lambda: json.loads(service.ask("GET", going)[1])["counts"].get("running") == 200)
        for _ in range(rounds):
            yield _listed(service)


def _listed(service: Service) -> dict[str, float]:
    used = service.cpu()
    time.sleep(10)
    idle = (service.cpu() - used) / 10 * 100
    page = f"/{os.path.basename(os.getcwd())}"
    figures = {"memory": service.memory(), "idle": idle}
    for name, path in (
        ("runs", f"{service.api}/runs"),
        ("gates", f"{service.api}/gates"),
        ("page of runs", f"{page}/runs"),
        ("inbox", f"{page}/inbox"),
    ):
        figures[name] = median_of(lambda path=path: _ok(service.ask("GET", path)))
    return figures


def open_rows() -> list[Json]:
    if not os.path.exists(".planrunner/journal.db"):
        return []
    journal = open_journal(".planrunner", readonly=True)
    try:
        return journal.runs(2000)
    finally:
        journal.close()


def pages(rounds: int) -> Iterator[dict[str, float]]:
    """Milliseconds of the server, bytes, and milliseconds until a browser has painted; events that a page missed."""
    runs = {size: _run_of(size) for size in (1_000, 10_000)}
    with served() as service, _browser() as browser:
        for _ in range(rounds):
            yield _shown(service, runs, browser) | _live(service)


def _shown(service: Service, runs: dict[int, str], browser: Json) -> dict[str, float]:
    figures: dict[str, float] = {}
    here = f"/{os.path.basename(os.getcwd())}"
    places = {str(size): f"{here}/runs/{run}" for size, run in runs.items()}
    places |= {f"plan {size}": f"{here}/plans/many{size}.yaml" for size in runs} | {"plans": f"{here}/plans"}
    for name, path in places.items():
        figures[f"{name} server"] = median_of(lambda path=path: _ok(service.ask("GET", path)), 11)
        figures[f"{name} kB"] = len(_ok(service.ask("GET", path))) / 1000
        if browser is not None:
            figures[f"{name} paint"] = _paint(browser, f"http://127.0.0.1:{service.port}{path}")
    return figures


def _run_of(size: int) -> str:
    rows = [f"  - {{id: t{number}, uses: noop}}" for number in range(100)]
    rows += [f"  - {{id: t{number}, uses: noop, needs: [t{number - 100}]}}" for number in range(100, size)]
    plan = written(f"many{size}.yaml", "\n".join(["plan: many", "tasks:", *rows, ""]))
    with Host() as host:
        started = host.start(ExecRequest(os.path.abspath(plan), unattended=True, state=os.path.abspath(".planrunner")))
        started.result()
    return started.id


@contextmanager
def _browser() -> Iterator[Json]:
    """A browser of this machine; None where there is none."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        yield None
        return
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


def _paint(browser: Json, address: str) -> float:
    """The median of three first paints, by the browser's own measure."""
    found = []
    for _ in range(3):
        page = browser.new_page()
        page.goto(address)
        until(lambda page=page: page.evaluate(_PAINTED) >= 0)
        found.append(float(page.evaluate(_PAINTED)))
        page.close()
    return statistics.median(found)


_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"


def _live(service: Service) -> dict[str, float]:
    """How many events of a run come late or not at all to one who follows it at 200 events a second."""
    tasks = "".join(f"  - {{id: t{number}, uses: noop}}\n" for number in range(1000))
    plan = written("stream.yaml", f"plan: stream\nmax_parallel: 50\ntasks:\n{tasks}")
    run = service.start(plan)[0]
    until(lambda: service.ask("GET", f"{service.api}/runs/{run}")[0] == 200)
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
    connection.request("GET", f"{service.api}/runs/{run}/events/stream")
    answer = connection.getresponse()
    seen, began = 0, time.perf_counter()
    for line in answer:
        seen += line.startswith(b"id:")
        if b"run_ended" in line:
            break
    took = time.perf_counter() - began
    journal = open_journal(".planrunner", readonly=True)
    try:
        return {"missed": float(sum(1 for _ in journal.entries(run)) - seen), "events/s": seen / took}
    finally:
        journal.close()


def _ok(answer: tuple[int, bytes]) -> bytes:
    assert answer[0] == 200, answer
    return answer[1]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.mkdir(".planrunner", 0o700)
    for round_ in {"starts": starts, "lists": lists, "pages": pages}[sys.argv[1]](int(sys.argv[2])):
        print(json.dumps(round_), flush=True)
