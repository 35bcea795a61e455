"""Receivers on loopback: an OpenTelemetry collector that reads protobuf, and a webhook."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver:
    """What was posted, as pairs of headers and body by path. ``status`` is what the next posts are answered; one that
    is refused is kept apart."""

    def __init__(self) -> None:
        self.posts: dict[str, list[tuple[dict[str, str], bytes]]] = {}
        self.refused = 0
        self.status = 200
        self.address = ""
        self.came = threading.Condition()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        with self.came:
            if self.status == 200:
                self.posts.setdefault(path, []).append((headers, body))
            else:
                self.refused += 1
            self.came.notify_all()
            return self.status

    def wait(self, path: str, count: int) -> list[tuple[dict[str, str], bytes]]:
        """The posts to a path, once there are so many."""
        with self.came:
            self.came.wait_for(lambda: len(self.posts.get(path, ())) >= count)
            return list(self.posts[path])

    def wait_refused(self, count: int) -> None:
        with self.came:
            self.came.wait_for(lambda: self.refused >= count)

    def spans(self) -> list[Any]:
        """Every span that was taken, in the order of its arrival."""
        return [
            span
            for _, body in self.posts.get("/v1/traces", ())
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> dict[str, Any]:
        """The metrics of the last message, by name."""
        _, body = self.posts["/v1/metrics"][-1]
        return {
            metric.name: metric
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver that listens until the end."""
    there = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            status = there.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    there.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield there
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
