"""A collector of another make between planrunner and the receiver: what it takes and passes on is everything, once."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from receivers import receiver
from serving import awaited

from planrunner.app.follow.follower import Follower
from planrunner.app.follow.reporting import Place, Reporting

Run = Callable[..., str]


def _program() -> str:
    """Where `.ci/programs` has it."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    found = next(Path(cache, "planrunner", "rotel").glob("lib/*/site-packages/rotel/rotel-agent"), None)
    if found is None:
        pytest.skip("the collector rotel is not installed; `.ci/programs` does that")
    return str(found)


@contextmanager
def _collecting(program: str, folder: Path, onward: str) -> Iterator[str]:
    """The address of a collector that passes everything on to ``onward``."""
    with socket.socket() as http, socket.socket() as grpc:
        for each in (http, grpc):
            each.bind(("127.0.0.1", 0))
        takes, speaks = (f"127.0.0.1:{each.getsockname()[1]}" for each in (http, grpc))
    words = [program, "start", "--otlp-http-endpoint", takes, "--otlp-grpc-endpoint", speaks]
    words += ["--exporter", "otlp", "--otlp-exporter-endpoint", onward, "--otlp-exporter-protocol", "http"]
    words += ["--pid-file", str(folder / "pid"), "--log-file", str(folder / "log")]
    with open(folder / "said", "wb") as said:
        process = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT)
    try:
        awaited(lambda: _is_open(takes, process, folder))
        yield f"http://{takes}"
    finally:
        process.terminate()
        process.wait(240)


def _is_open(address: str, process: subprocess.Popen[bytes], folder: Path) -> bool:
    assert process.poll() is None, (folder / "said").read_text()
    host, _, port = address.partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_a_collector_of_another_make_takes_every_span_and_measure(
    project: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _program()
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    folder = tmp_path / "collector"
    folder.mkdir()
    with receiver() as there, _collecting(program, folder, there.address) as address:
        (project / "planrunner.yaml").write_text(f"telemetry: {{endpoint: '{address}'}}\n")
        for plan in ("quick", "fails", "nested"):
            run(plan)
        with Follower(str(project / ".planrunner")) as follower:
            telling = Reporting(Place("shop", str(project), "", print, dict), follower)
            assert telling.once(), telling.problems
            telling.close()
        there.wait("/v1/metrics", 1)
        spans = awaited(lambda: there.spans() if len(there.spans()) >= 11 else None)
        names = sorted(span.name for span in spans)
        metrics = there.metrics()
    pages = ["pages", "pages[0]", "pages[0]/try", "pages[1]", "pages[1]/try"]
    assert names == sorted(["bad", "one", "plan fails", "plan nested", "plan quick", "two", *pages])
    ended = sum(point.as_int for point in metrics["planrunner.runs_ended"].sum.data_points)
    assert ended == 3
