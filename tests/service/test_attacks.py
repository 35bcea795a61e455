"""Forty attacks on the service. None gets through; afterwards it answers, holds little memory and has written nothing
outside its project."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import commands
import pytest
from chromium import browser, opened
from serving import Answer, Served, awaited, make_project, serving

FORM = "application/x-www-form-urlencoded"
SCRIPT = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\"'><svg onload=alert(1)>"
)
HOSTILE = f"""\
plan: hostile
title: {json.dumps(SCRIPT)}
description: {json.dumps(SCRIPT)}
params:
  word: {{type: string, default: {json.dumps(SCRIPT)}, description: {json.dumps(SCRIPT)}}}
tasks:
  - id: says
    title: {json.dumps(SCRIPT)}
    run: |
      printf '%s\\n' {{{{ params.word }}}}
      printf '</script><script>document.title=1</script>' > page.html
    timeout: 1m
    artifacts: [{{name: page, path: page.html}}]
  - id: sign
    needs: [says]
    ask: {json.dumps(SCRIPT)}
    evidence: [{{artifact: page, task: says}}]
  - id: fails
    run: {json.dumps("printf '%s' " + "'</pre><script>document.title=2</script>'" + "; exit 3")}
    timeout: 1m
"""


class Held:
    """A service of two projects with tokens of each kind."""

    def __init__(self, served: Served, work: Path) -> None:
        self.served, self.work = served, work
        self.admin = served.make_token("root", "--scope", "admin")
        self.reader = served.make_token("reader", "--scope", "read")
        self.runner = served.make_token("runner", "--scope", "run")
        self.decider = served.make_token("decider", "--scope", "decide", "--project", "shop")
        self.other = served.make_token("other", "--scope", "run", "--scope", "decide", "--project", "site")

    def ask(self, token: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self.served.ask(method, path, body, authorization=f"Bearer {token}", **headers)

    def run(self, plan: str) -> str:
        answer = self.ask(self.admin, "POST", f"{self.served.api}/runs", {"plan": plan})
        assert answer.status == 202, answer
        run = str(answer.data["run_id"])
        awaited(lambda: self._stands(run))
        return run

    def _stands(self, run: str) -> bool:
        answer = self.ask(self.admin, "GET", f"{self.served.api}/runs/{run}")
        return answer.status == 200 and answer.data["exit_code"] is not None

    def gate(self, run: str) -> dict[str, Any]:
        gates = self.ask(self.admin, "GET", f"{self.served.api}/runs/{run}/gates").data["gates"]
        return dict(gates[0])


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    work = tmp_path_factory.mktemp("work")
    shop, site = make_project(work / "shop"), make_project(work / "site")
    (shop / "plans" / "hostile.yaml").write_text(HOSTILE, encoding="utf-8")
    (work / "secret.txt").write_text("the secret of the machine", encoding="utf-8")
    (work / "secret.yaml").write_text("plan: secret\ntasks: [{id: a, run: echo}]\n", encoding="utf-8")
    os.symlink(work / "secret.yaml", shop / "plans" / "linked.yaml")
    os.symlink(work, shop / "plans" / "out")
    with serving(shop, str(shop), str(site)) as running:
        found = Held(running, work)
        yield found
        assert running.get("/livez").status == 200, "it stays up"
        assert _memory(running) < 400 << 20
        assert sorted(each.name for each in work.iterdir()) == ["data", "secret.txt", "secret.yaml", "shop", "site"]


def _memory(served: Served) -> int:
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return int(found[1]) << 10 if found else 0


def _raw(served: Served, data: bytes, patience: float = 30.0) -> bytes:
    """What comes back for bytes as they are: one answer, or what there is of it when the service hangs up."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=patience) as client:
        client.sendall(data)
        answer = b""
        try:
            while not _is_whole(answer) and (part := client.recv(65536)):
                answer += part
        except (TimeoutError, ConnectionError):
            pass
    return answer


def _is_whole(answer: bytes) -> bool:
    head, separator, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return bool(separator and length) and len(body) >= int(length[1])


# 1-8: who asks


@pytest.mark.parametrize(
    "credential",
    ["", "Bearer", "Bearer ", "Bearer null", "Basic cm9vdDo=", "bearer planrunner_00000000_x", "Bearer ../../data", "Bearer " + "a" * 9000],
)  # fmt: skip
def test_01_no_forged_credential_opens_anything(held: Held, credential: str) -> None:
    for path in ("/api/v1/projects", "/shop/runs", f"{held.served.api}/plans/plans/quick.yaml"):
        assert held.served.get(path, authorization=credential).status in (400, 401, 431)


def test_02_the_id_of_a_token_with_another_secret_is_nothing(held: Held) -> None:
    name, number, secret = held.admin.split("_", 2)
    for forged in (f"{name}_{number}_{secret[:-1]}x", f"{name}_{number}_", f"{name}_{number}_{secret}\u00e9".encode("latin-1").decode("latin-1")):  # fmt: skip
        assert held.served.get("/api/v1/projects", authorization=f"Bearer {forged}").status in (400, 401)


def test_03_a_token_in_the_address_or_a_made_up_cookie_is_nothing(held: Held) -> None:
    assert held.served.get(f"/shop/runs?token={held.admin}").status == 401
    port = held.served.port
    assert held.served.get("/shop/runs", cookie=f"planrunner-{port}=admin; session={held.admin}").status == 401


def test_04_a_reader_changes_nothing(held: Held) -> None:
    run = held.run("plans/asks.yaml")
    gate = held.gate(run)
    shown = {"shown": gate["shown"], "rationale": "x"}
    for method, path, body in (
        ("POST", f"{held.served.api}/runs", {"plan": "plans/quick.yaml"}),
        ("POST", f"{held.served.api}/runs/{run}/cancel", {}),
        ("POST", f"{held.served.api}/runs/{run}/gates/sign/approve", shown),
        ("PUT", f"{held.served.api}/plans", {"path": "plans/quick.yaml", "text": "x"}),
        ("PUT", f"{held.served.api}/memory/x", {"value": 1}),
    ):
        assert held.ask(held.reader, method, path, body).status == 403, path
    assert held.ask(held.admin, "GET", f"{held.served.api}/runs/{run}").data["status"] == "blocked"


def test_05_one_who_runs_does_not_decide_and_one_who_decides_does_not_run(held: Held) -> None:
    run = held.run("plans/asks.yaml")
    body = {"shown": held.gate(run)["shown"], "rationale": "x"}
    assert held.ask(held.runner, "POST", f"{held.served.api}/runs/{run}/gates/sign/approve", body).status == 403
    assert held.ask(held.decider, "POST", f"{held.served.api}/runs", {"plan": "plans/quick.yaml"}).status == 403


@pytest.mark.parametrize("place", ["", "/events", "/gates", "/artifacts", "/logs", "/why/work", "/stream"])
def test_06_a_run_of_another_project_is_not_there(held: Held, place: str) -> None:
    run = held.run("plans/quick.yaml")
    assert held.ask(held.other, "GET", f"/api/v1/projects/shop/runs/{run}{place}").status == 404
    assert held.ask(held.other, "GET", f"/api/v1/projects/site/runs/{run}{place}").status == 404
    assert "shop" not in held.ask(held.other, "GET", "/api/v1/projects").text


def test_07_a_revoked_token_is_nothing_at_once(held: Held) -> None:
    short = held.served.make_token("short", "--scope", "read")
    assert held.ask(short, "GET", "/api/v1/me").status == 200
    _command(held, "token", "revoke", short.split("_")[1])
    assert held.ask(short, "GET", "/api/v1/me").status == 401


def test_08_no_header_makes_somebody_else_of_the_one_who_asks(held: Held) -> None:
    spoofed = {
        "x_forwarded_user": "root",
        "x_remote_user": "root",
        "x_forwarded_for": "127.0.0.1",
        "forwarded": "for=127.0.0.1",
    }
    assert held.served.get("/api/v1/me", **spoofed).status == 401
    assert held.ask(held.reader, "GET", "/api/v1/me", **spoofed).data["name"] == "reader"


# 9-14: from where


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost", "127.0.0.1:1", "[::ffff:127.0.0.1]"]
)
def test_09_a_name_that_was_bound_to_this_address_is_refused(held: Held, host: str) -> None:
    assert held.ask(held.admin, "GET", "/api/v1/projects", host=host).status == 421


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"}])  # fmt: skip
def test_10_a_page_from_elsewhere_changes_nothing(held: Held, headers: dict[str, str]) -> None:
    assert (
        held.ask(held.admin, "POST", f"{held.served.api}/runs", {"plan": "plans/quick.yaml"}, **headers).status == 403
    )


@pytest.mark.parametrize("kind", ["text/plain", FORM, "multipart/form-data; boundary=x"])
def test_11_json_in_the_clothes_of_a_form_starts_nothing(held: Held, kind: str) -> None:
    body = json.dumps({"plan": "plans/quick.yaml"}).encode()
    assert held.ask(held.admin, "POST", f"{held.served.api}/runs", body, content_type=kind).status in (415, 422)


def test_12_a_form_without_the_proof_of_its_page_writes_nothing(held: Held) -> None:
    before = (held.served.folder / "plans/quick.yaml").read_bytes()
    for proof in ("", "x", "\u00e9"):
        body = urlencode({"form": proof, "plan": "owned", "do": "save", "digest": ""}).encode()
        assert held.ask(held.admin, "POST", "/shop/plans/plans/quick.yaml", body, content_type=FORM).status == 403
    assert (held.served.folder / "plans/quick.yaml").read_bytes() == before


def test_13_nothing_is_changed_by_an_address_that_is_opened(held: Held) -> None:
    run = held.run("plans/asks.yaml")
    for path in (f"/runs/{run}/cancel", f"/runs/{run}/gates/sign/approve", f"/runs/{run}/rollback", "/runs"):
        answer = held.ask(held.admin, "GET", f"{held.served.api}{path}")
        assert answer.status in (200, 404, 405)
    for override in ({"x_http_method_override": "POST"}, {"x_method_override": "DELETE"}):
        assert held.ask(held.admin, "GET", f"{held.served.api}/runs/{run}/cancel", **override).status in (404, 405)
    assert held.ask(held.admin, "GET", f"{held.served.api}/runs/{run}").data["status"] == "blocked"


def test_14_no_answer_lets_other_origins_read_or_frame_it(held: Held) -> None:
    for path in ("/shop/runs", f"{held.served.api}/runs", "/static/page.js"):
        headers = held.ask(held.admin, "GET", path, origin="https://evil.example").headers
        assert "access-control-allow-origin" not in headers
        assert (
            "frame-ancestors 'none'" in headers["content-security-policy"]
            and headers["x-content-type-options"] == "nosniff"
        )


# 15-22: paths and names

CLIMBS = [
    "../secret.yaml", "plans/../../secret.yaml", "/etc/passwd.yaml", "plans/linked.yaml", "plans/out/secret.yaml",
    "planrunner.yaml", ".planrunner/journal.yaml", "plans/x.yaml\0.txt", "plans/.git/hooks.yaml",
]  # fmt: skip
ODD = ["plans/%2e%2e/%2e%2e/secret.yaml", "plans\\..\\..\\secret.yaml", "..%2fsecret.yaml", "plans/....//secret.yaml"]
"""Names that lead out where they are decoded twice; taken as they are written they lead nowhere."""


@pytest.mark.parametrize("path", [*CLIMBS, *ODD])
def test_15_no_path_reads_outside_the_project(held: Held, path: str) -> None:
    for address in (f"{held.served.api}/plans/{quote(path, safe='/%')}", f"/shop/plans/{quote(path, safe='/%')}"):
        answer = held.ask(held.admin, "GET", address)
        assert answer.status in (400, 401, 403, 404), (address, answer.status)
        assert "plan: secret" not in answer.text and "root:" not in answer.text


@pytest.mark.parametrize("path", CLIMBS)
def test_16_no_path_writes_outside_the_project(held: Held, path: str) -> None:
    body = {"path": path, "text": "plan: owned\ntasks: [{id: a, run: echo}]\n"}
    for method in ("POST", "PUT"):
        assert held.ask(held.admin, method, f"{held.served.api}/plans", body).status in (400, 403, 404, 409, 422)
    assert "owned" not in (held.work / "secret.yaml").read_text()


@pytest.mark.parametrize("path", CLIMBS)
def test_17_no_path_starts_a_plan_from_outside(held: Held, path: str) -> None:
    assert held.ask(held.admin, "POST", f"{held.served.api}/runs", {"plan": path}).status in (400, 403, 404, 422)


@pytest.mark.parametrize("path", CLIMBS)
def test_18_no_path_shows_what_lint_and_preview_would_read(held: Held, path: str) -> None:
    text = f"plan: a\ntasks: [{{id: a, subplan: {json.dumps(path)}}}]\n"
    looked = held.ask(held.admin, "POST", f"{held.served.api}/plans/validate", {"path": "plans/a.yaml", "text": text})
    assert "secret of the machine" not in looked.text and "root:" not in looked.text
    answer = held.ask(held.admin, "POST", f"{held.served.api}/plans/preview", {"path": path})
    assert answer.status in (400, 403, 404, 422) and "plan: secret" not in answer.text


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../../data",
        "%2e%2e%2f",
        "last/../../..",
        "'; DROP TABLE runs; --",
        "\0",
        "*",
        "a" * 5000,
        "-rf",
        "${HOME}",
    ],
)
def test_19_no_name_of_a_run_leads_anywhere(held: Held, name: str) -> None:
    for place in ("", "/logs", "/artifacts/x", "/events", "/gates"):
        answer = held.ask(held.admin, "GET", f"{held.served.api}/runs/{quote(name, safe='%')}{place}")
        assert answer.status in (400, 404, 405, 422), (name, place, answer.status)


def test_20_no_static_address_reads_the_package_or_the_machine(held: Held) -> None:
    for path in (
        "/static/../render.py",
        "/static/%2e%2e/render.py",
        "/static//etc/passwd",
        "/static/..%5crender.py",
        "/static/",
    ):
        assert held.ask(held.admin, "GET", path).status in (401, 404, 405), path


def test_21_nothing_that_is_told_of_an_error_shows_the_machine(held: Held) -> None:
    for path, body in (
        ("/plans/validate", {"path": "plans/a.yaml", "text": "&a [*a]"}),
        ("/plans/preview", {"path": "plans/none.yaml"}),
    ):
        answer = held.ask(held.admin, "POST", f"{held.served.api}{path}", body)
        assert "Traceback" not in answer.text and "site-packages" not in answer.text
        assert str(held.work) not in answer.text, answer.text


def test_22_a_redirect_leads_nowhere_else(held: Held) -> None:
    for to in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/%09/evil.example"):
        body = urlencode({"token": held.reader, "to": to}).encode()
        answer = held.served.ask("POST", "/sign-in", body, content_type=FORM)
        assert answer.headers.get("location", "/") in ("/", "/%09/evil.example"), answer.headers


# 23-30: too much, too slow, too odd


def test_23_a_large_body_is_refused(held: Held) -> None:
    assert (
        held.ask(
            held.admin, "POST", f"{held.served.api}/plans/validate", b"x" * (5 << 20), content_type="application/json"
        ).status
        == 413
    )
    head = f"POST {held.served.api}/plans HTTP/1.1\r\nHost: 127.0.0.1:{held.served.port}\r\nAuthorization: Bearer {held.admin}\r\n"
    told = _raw(held.served, f"{head}Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{{".encode())
    assert b" 413 " in told.split(b"\r\n")[0]


def test_24_a_body_without_an_end_is_refused(held: Held) -> None:
    head = f"POST {held.served.api}/plans HTTP/1.1\r\nHost: 127.0.0.1:{held.served.port}\r\nAuthorization: Bearer {held.admin}\r\n"
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", held.served.port), timeout=240) as client:
        client.sendall(f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        sent = 0
        try:
            while sent < 64:
                client.sendall(chunk)
                sent += 1
            told = client.recv(4096)
        except OSError:
            told = b"HTTP/1.1 413 cut off"
    assert b" 413 " in told.split(b"\r\n")[0]
    assert _memory(held.served) < 400 << 20


def test_25_a_packed_body_is_not_unpacked(held: Held) -> None:
    bomb = gzip.compress(b"[" * (50 << 20))
    answer = held.ask(
        held.admin,
        "POST",
        f"{held.served.api}/plans/validate",
        bomb,
        content_type="application/json",
        content_encoding="gzip",
    )
    assert answer.status in (400, 415, 422)


def test_26_many_connections_that_say_nothing_hinder_nobody(held: Held) -> None:
    waiting = [socket.create_connection(("127.0.0.1", held.served.port)) for _ in range(200)]
    try:
        for client in waiting:
            client.sendall(b"GET /livez HTTP/1.1\r\nHost:")
        assert held.served.get("/livez").status == 200
        assert held.ask(held.admin, "GET", "/api/v1/projects").status == 200
    finally:
        for client in waiting:
            client.close()


@pytest.mark.parametrize(
    "head",
    [
        "GET /livez HTTP/1.1\r\nHost: {host}\r\nX: " + "a" * 200_000,
        "GET /" + "a" * 200_000 + " HTTP/1.1\r\nHost: {host}",
        "GET /livez HTTP/1.1\r\nHost: {host}\r\nHost: evil.example",
        "GET /livez HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
        "GET /livez HTTP/9.9\r\nHost: {host}",
        "GET http://evil.example/ HTTP/1.1\r\nHost: {host}",
        "\x16\x03\x01\x02\x00\x01\x00\x01",
        "POST /shop/runs HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1",
    ],
)
def test_27_requests_that_are_not_http_end_without_harm(held: Held, head: str) -> None:
    data = head.format(host=f"127.0.0.1:{held.served.port}").encode("latin-1") + b"\r\nConnection: close\r\n\r\n"
    told = _raw(held.served, data, 10).split(b"\r\n")[0]
    assert b" 5" not in told.partition(b" ")[1] + told.partition(b" ")[2][:4]
    assert b"owned" not in told
    assert held.served.get("/livez").status == 200


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000, "a: &a [x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(1000)), "- " * 20_000, "{" * 50_000,
        'plan: a\ntasks: [{id: a, when: "' + "(" * 20_000 + '"}]', 'plan: a\ntasks: [{id: a, run: "' + "{{ a | " * 10_000 + '"}]',
        "!!python/object/apply:os.system ['touch owned']", "\ud800", "\0", "plan: a\n" * 50_000, "a: 2026-13-45T99:99:99Z", "x: " + "9" * 100_000,
    ],
)  # fmt: skip
def test_28_no_text_of_a_plan_takes_long_or_acts(held: Held, text: str) -> None:
    body = {"path": "plans/a.yaml", "text": text}
    for place in ("validate", "complete", "format", "fix"):
        more = {"offset": len(text) // 2} if place == "complete" else {}
        started = time.monotonic()
        answer = held.ask(held.reader, "POST", f"{held.served.api}/plans/{place}", {**body, **more})
        assert answer.status in (200, 400, 422), (place, answer.status, answer.text[:200])
        assert time.monotonic() - started < 60
    assert not (held.served.folder / "owned").exists()


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'"x"', b"\xff\xfe", b'{"plan": NaN}', b'{"plan": 1e999}', b"[" * 100_000, b'{"a":' * 20_000, b'{"plan": "a", "plan": "b"}', b'{"plan": "plans/quick.yaml", "trust": true, "vouched": true}', *(b'{"plan": "plans/takes.yaml", "path": "plans/a.json", "params": %b}' % params for params in (b'{"word": NaN}', b'{"word": -1e999}', b'{"\\ud800": 1}', b'{"word": ' + b'{"a":' * 900 + b"1" + b"}" * 901))])  # fmt: skip
def test_29_no_odd_json_is_a_fault(held: Held, body: bytes) -> None:
    for place in ("/runs", "/plans", "/plans/validate", "/plans/preview"):
        answer = held.ask(held.admin, "POST", f"{held.served.api}{place}", body, content_type="application/json")
        assert answer.status in (400, 404, 422), (place, body[:20], answer.status)


def test_29_no_odd_place_of_a_stream_is_a_fault(held: Held) -> None:
    run = held.run("plans/quick.yaml")
    for place in ("events/stream", "log/stream?task=one"):
        given = {"authorization": f"Bearer {held.admin}", "Last-Event-ID": "99999999999999999999"}
        assert held.served.get(f"{held.served.api}/runs/{run}/{place}", **given).status == 400


def test_30_a_storm_from_one_visitor_does_not_shut_out_another(held: Held) -> None:
    statuses: list[int] = []

    def storm() -> None:
        statuses.extend(held.served.get("/api/v1/projects", authorization="Bearer x").status for _ in range(150))

    threads = [threading.Thread(target=storm) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert held.ask(held.admin, "GET", "/api/v1/projects").status == 200
    for thread in threads:
        thread.join()
    assert set(statuses) <= {401, 429}


# 31-36: decisions and trust


def test_31_a_decision_for_other_content_decides_nothing(held: Held) -> None:
    run = held.run("plans/asks.yaml")
    address = f"{held.served.api}/runs/{run}/gates/sign/approve"
    for shown in (
        "0" * 64,
        "",
        "x",
        held.gate(run)["shown"][:-1] + "0" if not held.gate(run)["shown"].endswith("0") else "1" * 12,
    ):
        assert held.ask(held.decider, "POST", address, {"shown": shown, "rationale": "x"}).status in (400, 409, 422), (
            shown
        )
    assert held.ask(held.admin, "GET", f"{held.served.api}/runs/{run}").data["status"] == "blocked"


def test_32_an_approval_that_is_sent_again_approves_nothing_else(held: Held) -> None:
    first, second = held.run("plans/asks.yaml"), held.run("plans/asks.yaml")
    body = {"shown": held.gate(first)["shown"], "rationale": "x"}
    assert held.ask(held.decider, "POST", f"{held.served.api}/runs/{first}/gates/sign/approve", body).status == 200
    again = held.ask(held.decider, "POST", f"{held.served.api}/runs/{first}/gates/sign/reject", body)
    assert again.status in (400, 404, 409), again
    elsewhere = held.ask(held.decider, "POST", f"{held.served.api}/runs/{second}/gates/sign/approve", body)
    if body["shown"] != held.gate(second)["shown"]:
        assert elsewhere.status in (400, 404, 409)


def test_33_approve_and_reject_at_once_decide_once_and_tell_both(held: Held) -> None:
    for _ in range(10):
        run = held.run("plans/asks.yaml")
        body = {"shown": held.gate(run)["shown"], "rationale": "x"}
        told: list[int] = []
        ask: Callable[[str], None] = lambda what, run=run, body=body, told=told: told.append(  # noqa: E731
            held.ask(held.decider, "POST", f"{held.served.api}/runs/{run}/gates/sign/{what}", body).status
        )
        threads = [threading.Thread(target=ask, args=(what,)) for what in ("approve", "reject")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) == 2 and told.count(200) == 1 and max(told) in (400, 404, 409), told


def test_34_the_one_who_asks_does_not_name_who_decides(held: Held) -> None:
    run = held.run("plans/asks.yaml")
    body = {"shown": held.gate(run)["shown"], "rationale": "x"}
    for more in ({"by": "root"}, {"as": "root"}, {"roles": ["release"]}, {"name": "root"}):
        answer = held.ask(held.decider, "POST", f"{held.served.api}/runs/{run}/gates/sign/approve", {**body, **more})
        assert answer.status in (403, 422), more
    assert held.ask(held.admin, "GET", f"{held.served.api}/runs/{run}").data["status"] == "blocked"


def test_35_a_plan_that_a_client_writes_runs_only_when_it_is_trusted(held: Held) -> None:
    body = {
        "path": "plans/sent.yaml",
        "text": "plan: sent\ntasks: [{id: a, run: touch owned}]\ndefaults: {timeout: 1m}\n",
    }
    assert held.ask(held.runner, "POST", f"{held.served.api}/plans", body).status == 201
    assert held.ask(held.runner, "POST", f"{held.served.api}/runs", {"plan": "plans/sent.yaml"}).status in (403, 422)
    assert not (held.served.folder / "owned").exists()


def test_36_a_plan_over_another_one_needs_what_was_read(held: Held) -> None:
    before = (held.served.folder / "plans/quick.yaml").read_text()
    for digest in ("", "0" * 64):
        body = {"path": "plans/quick.yaml", "text": "plan: owned\ntasks: []\n", "digest": digest}
        assert held.ask(held.runner, "PUT", f"{held.served.api}/plans", body).status == 409
    assert (held.served.folder / "plans/quick.yaml").read_text() == before


# 37-40: script in what is shown


@pytest.fixture(scope="module")
def hostile(held: Held) -> str:
    return held.run("plans/hostile.yaml")


PAGES = ("/runs", "/runs/{run}", "/runs/{run}#says", "/inbox", "/plans", "/plans/plans/hostile.yaml", "/start?plan=plans/hostile.yaml", "/queue", "/go?q=" + quote(SCRIPT), "/runs?q=" + quote(SCRIPT), "/plans?q=" + quote(SCRIPT))  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_37_no_page_holds_markup_of_a_plan_or_an_address(held: Held, hostile: str, page: str) -> None:
    html = held.ask(held.admin, "GET", f"/shop{page.format(run=hostile)}".partition("#")[0], accept="text/html").text
    seen = Elements()
    seen.feed(html)
    assert seen.odd == []
    assert "frame-ancestors" in held.ask(held.admin, "GET", "/shop/runs").headers["content-security-policy"]


class Elements(HTMLParser):
    """Collects what acts: scripts of the page itself, handlers and styles in attributes, images, foreign addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.odd: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        inline = (
            tag == "script"
            and not (given.get("src") or "").startswith("/static/")
            and given.get("type") != "application/json"
        )
        acts = inline or tag in ("img", "iframe", "object", "embed", "base", "style")
        names = any(name.startswith("on") or name in ("style", "srcdoc") for name in given)
        leads = any((given.get(name) or "").strip().lower().startswith(("javascript:", "data:", "//", "http")) for name in ("href", "src", "action"))  # fmt: skip
        if acts or names or leads:
            self.odd.append(f"{tag} {attrs}"[:200])


def test_38_a_browser_runs_nothing_of_it(held: Held, hostile: str) -> None:
    with browser() as chromium:
        page = opened(chromium, f"{held.served.address}/sign-in")
        page.locator("input[name=token]").fill(held.admin)
        page.keyboard.press("Enter")
        page.wait_for_url("**/")
        faults: list[str] = []
        page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        for place in PAGES:
            page.goto(f"{held.served.address}/shop{place.format(run=hostile)}")
            assert page.title() not in ("owned", "1", "2"), place
        page.goto(f"{held.served.address}/shop/plans/plans/hostile.yaml")
        page.locator("#src").focus()
        page.keyboard.press("Control+End")
        page.keyboard.type("# more\n")
        page.locator("#saved", has_text="not saved").wait_for()
        assert page.title() != "owned" and faults == []


def test_39_an_artifact_is_a_file_and_never_a_page(held: Held, hostile: str) -> None:
    listed = held.ask(held.admin, "GET", f"{held.served.api}/artifacts?run={hostile}").data["artifacts"]
    assert listed
    for each in listed:
        address = f"{held.served.api}/artifacts/{quote(str(each['name']))}/content?run={hostile}"
        answer = held.ask(held.admin, "GET", address)
        assert b"<script>" in answer.body, answer
        assert "attachment" in answer.headers["content-disposition"]
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_40_no_line_end_in_an_address_becomes_a_header(held: Held) -> None:
    for path in (
        "/shop/go?q=x%0d%0aset-cookie:%20owned=1",
        "/shop/plans/x%0d%0aset-cookie:owned=1.yaml",
        "/sign-in?to=/%0d%0ax:y",
    ):
        answer = held.ask(held.admin, "GET", path)
        assert "owned" not in answer.headers.get("set-cookie", "") and "x" not in answer.headers


def _command(held: Held, *words: str) -> None:
    ran = commands.run(*words, folder=held.served.folder, env=held.served.environment)
    assert ran.code == 0, ran.err
