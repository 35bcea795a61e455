"""Trying again, waiting as long as the other side asks, idempotency keys, time limits, and stopping at once."""

from __future__ import annotations

import asyncio
import email.utils
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from http_workbench import Peer, Project, Seen, answer

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.http.client import async_client, refusal
from planrunner.capabilities.http.exchange import retry_after

QUICK = {"times": 2, "delay": 0.01}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def sequence(*answers: bytes | None) -> Callable[[Seen, socket.socket, int], bytes | None]:
    return lambda _, __, number: answers[min(number, len(answers)) - 1]


class TestTryingAgain:
    @pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
    def test_a_status_that_may_pass_is_tried_again(self, project: Project, status: int) -> None:
        with Peer(sequence(answer(status), answer(status), answer(200, "at last"))) as peer:
            ended = project.get(peer.url, retries=QUICK)
        assert (ended.failure, ended.outputs["text"], ended.outputs["attempts"]) == ("", "at last", 3)

    def test_in_the_end_it_fails_as_transient_with_the_last_answer(self, project: Project) -> None:
        with Peer(sequence(answer(503, "busy"))) as peer:
            ended = project.get(peer.url, retries=QUICK)
        assert (ended.failure, ended.outputs["status"], ended.outputs["attempts"]) == ("transient", 503, 3)
        assert len(peer.requests) == 3

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 501])
    def test_what_will_not_pass_is_not_tried_again(self, project: Project, status: int) -> None:
        with Peer(sequence(answer(status))) as peer:
            assert project.get(peer.url, retries=QUICK).failure == "logic"
        assert len(peer.requests) == 1

    @pytest.mark.parametrize("fault", ["hang up", "half a head", "half a body", "broken chunk", "garbage", "short"])
    def test_a_connection_that_breaks_off_is_tried_again(self, project: Project, fault: str) -> None:
        said = {
            "hang up": b"",
            "half a head": b"HTTP/1.1 200 OK\r\ncontent-le",
            "half a body": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
            "broken chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
            "garbage": b"\x15\x03\x01\x00\x02garbage\r\n\r\n",
            "short": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n",
        }[fault]

        def act(_: Seen, connection: socket.socket, number: int) -> bytes | None:
            if number == 3:
                return answer(200, "whole")
            connection.sendall(said)
            return None

        with Peer(act) as peer:
            assert project.get(peer.url, retries=QUICK).outputs["text"] == "whole"
            assert len(peer.requests) == 3
        with Peer(lambda _, connection, __: connection.sendall(said)) as peer:
            assert project.get(peer.url, retries=0).failure == "transient"

    def test_more_than_announced_is_not_taken_for_the_answer(self, project: Project) -> None:
        with Peer(sequence(answer(200, "12345EXTRA", content_length=5, connection="close"))) as peer:
            assert project.get(peer.url).outputs["text"] == "12345"

    def test_a_refused_connection_is_tried_again_and_fails_as_transient(self, project: Project) -> None:
        free = socket.socket()
        free.bind(("127.0.0.1", 0))
        for name in ("http.get", "http.post"):
            ended = project.call(name, None, url=f"http://127.0.0.1:{free.getsockname()[1]}/", retries=QUICK)
            assert (ended.failure, len(project.tries)) == ("transient", 3)
            assert "Connection refused" in ended.message
        free.close()

    @pytest.mark.parametrize("name", ["http.post", "http.patch"])
    def test_what_may_have_taken_effect_is_sent_again_only_with_a_key(self, project: Project, name: str) -> None:
        for first in (answer(503), None):
            with Peer(sequence(first, answer(201))) as peer:
                assert project.call(name, None, url=peer.url, json=1, retries=QUICK).failure == "transient"
                assert len(peer.requests) == 1
                assert "idempotency-key" not in peer.requests[0].headers
            with Peer(sequence(first, answer(201))) as peer:
                ended = project.call(name, None, url=peer.url, json=1, retries=QUICK, idempotent=True)
                assert (ended.failure, ended.outputs["attempts"]) == ("", 2)
                assert [seen.headers["idempotency-key"] for seen in peer.requests] == ["once", "once"]

    def test_what_was_answered_by_a_redirect_is_not_sent_again_where_that_leads_to_nobody(
        self, project: Project
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}/done"
        with Peer(sequence(answer(303, location=nowhere))) as peer:
            assert project.call("http.post", url=peer.url, body="order", retries=QUICK).failure == "transient"
        assert [seen.method for seen in peer.requests] == ["POST"]

    def test_the_key_is_that_of_the_task_or_one_of_the_plan(self, project: Project) -> None:
        with Peer(sequence(answer(201))) as peer:
            for once in ("visit-1", "visit-1", "visit-2"):
                project.call("http.post", project.context(once=once), url=peer.url, idempotent=True)
            project.call("http.post", None, url=peer.url, idempotency_key="mine", idempotency_header="X-Once")
        keys = [seen.headers.get("idempotency-key", seen.headers.get("x-once")) for seen in peer.requests]
        assert keys == ["visit-1", "visit-1", "visit-2", "mine"]

    def test_put_and_delete_are_tried_again(self, project: Project) -> None:
        for name in ("http.put", "http.delete", "http.head"):
            with Peer(sequence(answer(503), answer(200))) as peer:
                assert project.call(name, None, url=peer.url, retries=QUICK).outputs["attempts"] == 2


class TestRetryAfter:
    def test_the_pause_is_as_long_as_asked(self, project: Project) -> None:
        for seconds, least in (("1", 0.95), ("", 0.85)):
            started = time.monotonic()
            value = seconds or email.utils.formatdate(time.time() + 1.95, usegmt=True)
            with Peer(sequence(answer(429, retry_after=value), answer(200))) as peer:
                assert project.get(peer.url).failure == ""
                assert least < time.monotonic() - started < 240

    def test_it_is_not_waited_for_longer_than_the_longest_delay(self, project: Project) -> None:
        for value in ("3600", email.utils.formatdate(time.time() + 3600, usegmt=True)):
            with Peer(sequence(answer(429, retry_after=value))) as peer:
                ended = project.call("http.get", None, url=peer.url)
                assert (ended.failure, ended.outputs["status"], len(project.tries)) == ("transient", 429, 1)
                assert "longer than `max_delay`" in ended.message
                assert ended.retry_after is not None and ended.retry_after > 3000

    @pytest.mark.parametrize(
        ("value", "seconds"),
        [("0", 0), ("120", 120), (" 5 ", 5), ("-1", None), ("1.5", None), ("soon", None), ("", None), ("٣", None),
         ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("Wed, 99 Oct 2015 07:28:00 GMT", None),
         ("Wed, 21 Oct 99999999999999999999 07:28:00 GMT", None)],
    )  # fmt: skip
    def test_seconds_and_dates_are_read_and_nothing_else(self, value: str, seconds: float | None) -> None:
        assert retry_after(value) == seconds

    def test_what_cannot_be_read_is_like_no_header(self, project: Project) -> None:
        with Peer(sequence(answer(503, retry_after="soon"), answer(200))) as peer:
            assert project.get(peer.url, retries=QUICK).failure == ""


class TestTime:
    def test_parts_have_limits_of_their_own(self, project: Project) -> None:
        with Peer(lambda *_: time.sleep(600)) as peer:
            started = time.monotonic()
            ended = project.get(peer.url, timeout={"read": "300ms"}, retries=0)
            assert ended.failure == "transient"
            assert "read timeout" in ended.message
            assert time.monotonic() - started < 240

    def test_slow_bytes_end_at_the_total(self, project: Project) -> None:
        def drip(_: Seen, connection: socket.socket, __: int) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
            for _i in range(10_000):
                connection.sendall(b"x")
                time.sleep(0.05)

        with Peer(drip) as peer:
            started = time.monotonic()
            ended = project.get(peer.url, timeout={"total": 0.6}, retries=0)
            assert ended.failure == "transient"
            assert "total time" in ended.message
            assert time.monotonic() - started < 240

    @pytest.mark.parametrize("where", ["answer", "body", "lookup", "connect", "send", "tls"])
    def test_a_request_that_waits_ends_when_the_attempt_is_stopped(
        self, project: Project, where: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        over = threading.Event()

        def act(_: Seen, connection: socket.socket, __: int) -> bytes | None:
            if where == "body":
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nx")
            over.wait(600)
            return None

        with Peer(act) as peer:
            full = _never_accepts() if where in ("connect", "send", "tls") else None
            url = peer.url if full is None else f"http://127.0.0.1:{full[0].getsockname()[1]}"
            inputs: dict[str, Any] = {"timeout": 900}
            if where == "lookup":
                monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(600))
            if where == "send":
                (project.path / "big").write_bytes(b"x" * 50_000_000)
                inputs["body_file"] = "big"
            url = url.replace("http:", "https:") if where == "tls" else url
            started = time.monotonic()
            threading.Timer(0.4, project.stop.set).start()
            ended = project.call("http.put" if where == "send" else "http.get", None, url=url, **inputs)
            assert time.monotonic() - started < 240
            assert "was stopped" in ended.message
            over.set()
            for each in full or ():
                each.close()

    def test_an_asynchronous_request_ends_when_the_attempt_is_stopped(self, project: Project) -> None:
        async def ask(url: str) -> Failure | None:
            async with async_client(project.context(), timeout=600) as connected:
                try:
                    await connected.get(url)
                except Exception as error:
                    return refusal(error)
            return None

        with Peer(lambda *_: time.sleep(600)) as peer:
            threading.Timer(0.4, project.stop.set).start()
            started = time.monotonic()
            failure = asyncio.run(ask(peer.url))
            assert failure is not None and "was stopped" in str(failure)
            assert time.monotonic() - started < 240
        project.stop.clear()
        with Peer(sequence(answer(200, b"x" * 500_000))) as peer:
            assert asyncio.run(ask(peer.url)) is None


def _never_accepts() -> list[socket.socket]:
    """A port where connections come about and nobody ever reads."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    return [listener]


class TestTls:
    @pytest.fixture
    def certificate(self, tmp_path: Path) -> Path:
        made = tmp_path / "cert.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(made), "-out", str(tmp_path / "crt")],
            check=True, capture_output=True,
        )  # fmt: skip
        made.write_bytes(made.read_bytes() + (tmp_path / "crt").read_bytes())
        return made

    def test_certificates_are_checked_and_those_of_the_operator_count(
        self, project: Project, certificate: Path
    ) -> None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
        listener = tls.wrap_socket(socket.socket(), server_side=True)
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except ssl.SSLError:
                    continue
                except OSError:
                    return
                with connection:
                    try:
                        connection.recv(65536)
                        connection.sendall(answer(200, b"x" * 300_000, connection="close"))
                    except OSError:
                        continue

        threading.Thread(target=serve, daemon=True).start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        ended = project.get(url, retries=QUICK)
        assert (ended.failure, len(project.tries)) == ("logic", 1)
        assert "certificate verify failed" in ended.message
        project.network(f"private: [127.0.0.1], ca: {certificate}")
        assert project.get(url, retries=0).outputs["size"] == 300_000

        async def ask() -> int:
            async with async_client(project.context()) as connected:
                return len((await connected.get(url)).content)

        assert asyncio.run(ask()) == 300_000
        project.network("private: [127.0.0.1], ca: /does/not/exist")
        assert "`network.ca`: /does/not/exist: No such file" in project.get(url).message
        listener.close()
