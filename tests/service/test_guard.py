"""Limits of the service: hosts, origins, sizes, rates and time. Whatever breaks them, it goes on answering."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import MutableMapping
from contextlib import ExitStack
from typing import Any

import pytest
from serving import PATIENCE, Served

from planrunner.service.access import Access
from planrunner.service.app import make_app
from planrunner.service.guard import Guard, Limits
from planrunner.service.plans import DRAFTED, Drafts
from planrunner.service.problems import Problem

LIMITS = Limits()


def _raw(served: Served, data: bytes) -> bytes:
    """What comes back for bytes on a connection of their own, until the service closes it."""
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
        return b"".join(parts)


_LIVE = b"GET /livez HTTP/1.1\r\nhost: HOST\r\n\r\n"


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1", "", "127.0.0.1:1"])
def test_a_name_that_is_not_its_own_is_refused(served: Served, host: str) -> None:
    for path in ("/", "/livez", f"{served.api}/runs", "/static/page.css"):
        assert served.get(path, host=host).status in (400, 421), path


def test_its_own_names_are_answered(served: Served) -> None:
    for host in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        assert served.get("/livez", host=f"{host}:{served.port}").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://localhost.evil.example"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_a_page_from_elsewhere_changes_nothing(served: Served, headers: dict[str, str]) -> None:
    before = served.get(f"{served.api}/runs").data["newest"]
    answer = served.post(f"{served.api}/runs", {"plan": "plans/quick.yaml"}, **headers)
    assert answer.status == 403
    assert served.get(f"{served.api}/runs").data["newest"] == before
    assert "access-control-allow-origin" not in answer.headers


def test_a_form_of_another_site_is_no_json(served: Served) -> None:
    body = b'{"plan": "plans/quick.yaml"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert served.ask("POST", f"{served.api}/runs", body, content_type=kind).status in (415, 422), kind


def test_a_body_that_is_too_large_is_refused_before_it_is_read(served: Served) -> None:
    head = f"POST {served.api}/runs HTTP/1.1\r\nhost: 127.0.0.1:{served.port}\r\ncontent-type: application/json\r\n"
    told = _raw(served, f"{head}content-length: {1 << 40}\r\n\r\n".encode())
    assert told.startswith(b"HTTP/1.1 413 ")
    piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    body = f"{head}transfer-encoding: chunked\r\n\r\n".encode() + piece * (LIMITS.body // 65536 + 1)
    assert b"HTTP/1.1 413 " in _raw(served, body)[:400]
    assert served.get("/livez").status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: x\r\na: " + b"b" * 100_000 + b"\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\nabcd",
        b"\x16\x03\x01\x02\x00",
        b"GET /livez HTTP/9.9\r\nhost: HOST\r\n\r\n",
        b"GET /livez?" + b"a" * 66_000 + b" HTTP/1.1\r\nhost: HOST\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: HOST\r\n" + b"x: y\r\n" * 10_000 + b"\r\n",
        b"POST /livez HTTP/1.1\r\nhost: HOST\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
        + _LIVE,
    ],
)
def test_what_is_no_request_is_refused(served: Served, data: bytes) -> None:
    told = _raw(served, data.replace(b"HOST", f"127.0.0.1:{served.port}".encode()))
    assert not told or told.startswith((b"HTTP/1.1 4", b"HTTP/1.1 501")), told[:200]
    assert told.count(b"HTTP/1.1 ") < 2, "a connection with such a request is closed"
    assert b"Traceback" not in told
    assert served.get("/livez").status == 200


@pytest.mark.slow
def test_connections_that_say_nothing_more_are_closed_and_hinder_nobody(served: Served) -> None:
    slow = [socket.create_connection(("127.0.0.1", served.port), PATIENCE) for _ in range(150)]
    try:
        for each in slow:
            each.sendall(f"GET /livez HTTP/1.1\r\nhost: 127.0.0.1:{served.port}\r\n".encode())
        assert served.get("/livez").status == 200
        assert served.settled(served.start("plans/quick.yaml"))["status"] == "completed"
        for each in slow:  # the service closes each of them; the socket waits for that
            assert each.recv(1) == b""
    finally:
        for each in slow:
            each.close()


class _Open(Access):
    """Lets the account of the process in, from anywhere."""

    def __init__(self) -> None:
        super().__init__("cookie", None)

    @property
    def is_open(self) -> bool:
        return True


def _scope(**more: Any) -> MutableMapping[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "path": "/x",
        "query_string": b"",
        "headers": [(b"host", b"here")],
        "client": ("127.0.0.1", 1),
        "server": None,
        **more,
    }


async def _nothing() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _hello(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def test_more_requests_than_allowed_are_told_to_wait() -> None:
    guard = Guard(_hello, _Open(), ["here"], Limits(rate=1e-9, burst=3))
    statuses: list[int] = []

    async def keep(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def ask() -> None:
        for _ in range(5):
            await guard(_scope(), _nothing, keep)

    asyncio.run(ask())
    assert statuses == [200, 200, 200, 429, 429]


def test_a_client_that_takes_nothing_is_cut_off() -> None:
    guard = Guard(_hello, _Open(), ["here"], Limits(seconds=0.01))
    cut: list[bool] = []

    async def never(_message: Any) -> None:
        await asyncio.Event().wait()

    asyncio.run(guard(_scope(state={"abort": lambda: cut.append(True)}), _nothing, never))
    assert cut == [True]


def test_a_body_that_does_not_arrive_is_waited_for_no_longer() -> None:
    async def reads(_scope: Any, receive: Any, _send: Any) -> None:
        await receive()

    async def never() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    statuses: list[int] = []

    async def keep(message: MutableMapping[str, Any]) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    asyncio.run(Guard(reads, _Open(), ["here"], Limits(seconds=0.01))(_scope(), never, keep))
    assert statuses == [408]


def test_a_fault_is_told_without_its_inside(caplog: pytest.LogCaptureFixture) -> None:
    async def breaks(_scope: Any, _receive: Any, _send: Any) -> None:
        raise KeyError("the inside")

    said: list[bytes] = []

    async def keep(message: MutableMapping[str, Any]) -> None:
        said.append(message.get("body", b""))

    asyncio.run(Guard(breaks, _Open(), ["here"], LIMITS)(_scope(), _nothing, keep))
    assert b"the inside" not in b"".join(said)
    assert "a fault of planrunner" in caplog.text


def test_a_fault_behind_the_framework_is_a_problem_too(caplog: pytest.LogCaptureFixture) -> None:
    app = make_app([])

    @app.get("/livez/fault")
    def breaks() -> None:
        raise KeyError("the inside")

    cut: list[bool] = []
    said: list[bytes] = []

    async def keep(message: MutableMapping[str, Any]) -> None:
        said.append(message.get("body", b""))

    scope = _scope(path="/livez/fault", state={"abort": lambda: cut.append(True)}, app=app)
    asyncio.run(Guard(app, _Open(), ["here"], LIMITS)(scope, _nothing, keep))
    assert b'"detail":"a fault of planrunner; the log of the service says more"' in b"".join(said)
    assert "a fault of planrunner in GET /livez/fault" in caplog.text
    assert not cut


def test_one_draft_too_many_is_told_to_wait() -> None:
    drafts = Drafts()
    with ExitStack() as writing:
        for _ in range(DRAFTED):
            writing.enter_context(drafts.turn())
        with pytest.raises(Problem) as told, drafts.turn():
            pass
        assert (told.value.status, told.value.headers["retry-after"]) == (503, "30")
    with drafts.turn():
        pass
