"""Requests and answers: what is sent, what comes out, and what is not written down."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import socket
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from http_workbench import Peer, Project, Seen, answer, as_json

from planrunner.capabilities.builtin import TARGETS, load
from planrunner.capabilities.contract import declaration_of


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def echo(seen: Seen, *_: Any) -> bytes:
    data = {"method": seen.method, "target": seen.target, "headers": seen.headers, "body": seen.body.decode("latin-1")}
    return as_json(json.dumps(data))


class TestWhatIsSent:
    @pytest.mark.parametrize("verb", ["get", "head", "put", "post", "patch", "delete"])
    def test_each_method_goes_out_under_its_name(self, project: Project, verb: str) -> None:
        with Peer(lambda seen, *_: answer(200, b"" if seen.method == "HEAD" else b"ok")) as peer:
            ended = project.call(f"http.{verb}", None, url=peer.url)
        assert (ended.failure, ended.outputs["status"]) == ("", 200)
        assert [seen.method for seen in peer.requests] == [verb.upper()]

    def test_any_method_goes_by_request(self, project: Project) -> None:
        with Peer(lambda *_: answer(207, "many")) as peer:
            assert project.call("http.request", None, method="propfind", url=peer.url).outputs["status"] == 207
            assert peer.requests[0].method == "PROPFIND"
            for bad in ("CONNECT", "GET /x", "", "GE\r\nT"):
                assert project.call("http.request", None, method=bad, url=peer.url).failure == "logic"
            assert len(peer.requests) == 1

    def test_query_headers_json_and_forms(self, project: Project) -> None:
        with Peer(echo) as peer:
            sent = project.get(f"{peer.url}/a?x=1", query={"y": ["ä", 2], "z": True}, headers={"X-N": 5}).outputs[
                "json"
            ]
            assert (sent["target"], sent["headers"]["x-n"]) == ("/a?x=1&y=%C3%A4&y=2&z=true", "5")
            sent = project.call("http.post", None, url=peer.url, json={"k": "ä", "n": None}).outputs["json"]
            assert (sent["headers"]["content-type"], sent["body"].encode("latin-1").decode()) == (
                "application/json",
                '{"k":"ä","n":null}',
            )
            sent = project.call("http.put", None, url=peer.url, form={"a": "1 2", "b": ["x", "y"]}).outputs["json"]
            assert sent["body"] == "a=1+2&b=x&b=y"
            sent = project.call("http.patch", None, url=peer.url, body="grüße").outputs["json"]
            assert sent["body"].encode("latin-1").decode() == "grüße"
            assert sent["headers"]["user-agent"].startswith("planrunner/")

    def test_files_go_out_as_a_form_and_as_they_are(self, project: Project) -> None:
        big = os.urandom(3_000_000)
        (project.path / "big.bin").write_bytes(big)
        (project.path / "a.txt").write_text("hello")
        with Peer(lambda *_: answer(201)) as peer:
            project.call(
                "http.post",
                None,
                url=peer.url,
                form={"note": "n"},
                files={"one": "a.txt", "two": {"path": "big.bin", "name": "x.dat", "type": "x/y"}},
            )
            body = peer.requests[0].body
            assert b'name="note"\r\n\r\nn\r\n' in body
            assert b'name="one"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nhello\r\n' in body
            assert b'name="two"; filename="x.dat"\r\nContent-Type: x/y\r\n\r\n' + big in body
            project.call("http.put", None, url=peer.url, body_file="big.bin")
            assert peer.requests[1].body == big
            assert peer.requests[1].headers["content-length"] == "3000000"

    def test_a_file_is_sent_again_in_full_when_the_request_is(self, project: Project) -> None:
        (project.path / "a.bin").write_bytes(b"x" * 200_000)
        again = [503, 307, 201]
        with Peer(lambda seen, _, n: answer(again[n - 1], b"", location="/next")) as peer:
            ended = project.call("http.put", None, url=peer.url, body_file="a.bin", retries={"delay": 0.01})
        assert ended.outputs["status"] == 201
        assert [len(seen.body) for seen in peer.requests] == [200_000] * 3

    @pytest.mark.parametrize(
        "path", ["../secret", "/etc/passwd", "link", "folder/link/x", "folder", "pipe", "gone", ""]
    )
    def test_no_file_outside_is_sent(self, project: Project, path: str) -> None:
        (project.path.parent / "secret").write_text("s")
        (project.path / "link").symlink_to("../secret")
        (project.path / "folder").mkdir()
        (project.path / "folder" / "link").symlink_to(project.path.parent)
        os.mkfifo(project.path / "pipe")
        with Peer(echo) as peer:
            for inputs in ({"files": {"f": path}}, {"body_file": path}):
                assert project.call("http.post", None, url=peer.url, **inputs).failure in ("policy", "logic")
            assert peer.connections == 0

    @pytest.mark.parametrize(
        ("inputs", "said"),
        [
            ({"json": 1, "body": "x"}, "expected one of `json`, `form` (with `files`), `body` and `body_file`, found"),
            ({"url": "http://u:p@127.0.0.1/"}, "the address holds credentials, which would stand in the journal"),
            ({"url": "ftp://127.0.0.1/"}, "is not an http(s) URL"),
            ({"url": "http://"}, "is not an http(s) URL"),
            ({"url": 7}, "`url` must be text"),
            ({"heders": {}}, "unknown input `heders`"),
            ({"headers": {"Content-Length": 3}}, "the header `Content-Length` is set by the request itself"),
            ({"headers": {"X": "a\r\nY: b"}}, "`headers.X` must be one line of ASCII text"),
            ({"headers": {"host": "elsewhere"}}, "the header `host` is set by the request itself"),
            ({"headers": ["x"]}, "`headers` must be a mapping"),
            ({"query": {"a": {"b": 1}}}, "`query.a` must be text, a number, a boolean or a list of these"),
            (
                {"auth": {"bearer": "x"}},
                "`auth` must be `credential`, `bearer_env`, `basic_env`, or `header` with `credential` or `header_env`",
            ),
            ({"auth": {"bearer_env": "NOT_SET"}}, "the environment variable `NOT_SET`, which `auth` names, is not set"),
            ({"timeout": "soon"}, '`timeout`: expected a duration such as 10s, found "soon"'),
            ({"timeout": {"conect": 1}}, "`timeout` has the part `conect`, expected connect, read, write or total"),
            ({"retries": -1}, "`retries` must be a number from 0 to 100"),
            ({"retries": {"x": 1}}, "`retries` has the part `x`"),
            (
                {"expect_status": [200, "300-200"]},
                '`expect_status` must be a status such as 200, `2xx` or `200-299`, found "300-200"',
            ),
            ({"expect_status": "ok"}, '`expect_status` must be a status such as 200, `2xx` or `200-299`, found "ok"'),
            ({"max_bytes": "lots"}, "`max_bytes`: expected a size"),
            ({"follow_redirects": "no"}, "`follow_redirects` must be true or false"),
            ({"json": float("nan")}, "`json` cannot be sent"),
            ({"files": ["a"]}, "`files` must be a mapping of fields to paths"),
            ({"files": {"a": {"nme": 1}}}, "a file to send is a path or a mapping of `path`, `name` and `type`"),
        ],
    )
    def test_what_makes_no_request_is_said_before_anything_is_sent(
        self, project: Project, inputs: dict[str, Any], said: str
    ) -> None:
        with Peer(echo) as peer:
            ended = project.call("http.post", None, **{"url": peer.url, **inputs})
            assert ended.failure == "logic"
            assert said in ended.message
            assert peer.connections == 0


class TestWhatComesOut:
    def test_status_headers_data_text_and_digest(self, project: Project) -> None:
        body = '{"a": [1, "ä"]}'
        headers = {"X_Mixed": "Yes", "set_cookie": "s=secret", "x_auth_token": "t", "link": "<a>"}
        with Peer(lambda *_: as_json(body, 201, **headers)) as peer:
            out = project.get(f"{peer.url}/p?q=1").outputs
        assert out["json"] == {"a": [1, "ä"]}
        assert (out["status"], out["text"], out["size"], out["attempts"]) == (201, body, len(body.encode()), 1)
        assert out["headers"]["x-mixed"] == "Yes"
        assert not {"set-cookie", "x-auth-token"} & out["headers"].keys()
        assert out["sha256"] == hashlib.sha256(body.encode()).hexdigest()
        assert (out["url"], out["artifact"]) == (f"{peer.url}/p?q=1", None)
        assert 0 < out["elapsed"] < 240

    @pytest.mark.parametrize(
        ("expect", "status", "failure"),
        [
            (None, 204, ""), (None, 304, "logic"), (None, 404, "logic"), (None, 503, "transient"),
            (404, 404, ""), ("2xx", 404, "logic"), (["2xx", 404], 404, ""), ("400-410", 404, ""), (200, 201, "logic"),
            (None, 408, "transient"), (None, 425, "transient"), (None, 429, "transient"), (None, 500, "transient"),
            (None, 501, "logic"), (None, 502, "transient"), (None, 504, "transient"), (503, 503, ""),
        ],
    )  # fmt: skip
    def test_a_status_that_is_not_expected_fails_with_the_outputs(
        self, project: Project, expect: Any, status: int, failure: str
    ) -> None:
        body = b"" if status in (204, 304) else b"the reason"
        with Peer(lambda *_: answer(status, body)) as peer:
            ended = project.get(peer.url, expect_status=expect, retries=0)
        assert ended.failure == failure
        assert ended.outputs["status"] == status
        if failure and body:
            assert ended.outputs["text"] == "the reason"
            assert f"answered {status} Said: the reason" in ended.message

    def test_a_schema_that_is_none_is_told_before_anything_is_sent(self, project: Project) -> None:
        for schema, message in (
            ({"type": "strng"}, '/type: "strng" is not one of'),
            ("d.json", "/: expected object or boolean, found string"),
        ):
            ended = project.get("http://127.0.0.1:9/", expect_schema=schema)
            assert (ended.failure, message in ended.message) == ("logic", True)

    def test_the_answer_has_to_fit_its_schema(self, project: Project) -> None:
        schema = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
        answers = [as_json('{"id": 1}'), as_json('{"id": "x"}'), as_json("[]"), answer(200, "hi"), as_json("{")]
        with Peer(lambda _, __, n: answers[n - 1]) as peer:
            assert project.get(peer.url, expect_schema=schema).outputs["json"] == {"id": 1}
            ended = project.get(peer.url, expect_schema=schema)
            assert (ended.failure, ended.outputs["json"]) == ("logic", {"id": "x"})
            assert "the response does not match `expect_schema`: /id:" in ended.message
            assert project.get(peer.url, expect_schema=schema).failure == "logic"
            for _ in range(2):
                assert "the answer is not JSON" in project.get(peer.url, expect_schema=schema).message

    @pytest.mark.parametrize(
        ("body", "why"),
        [
            (b'{"a": 1,', "Expecting property name enclosed in double quotes: line 1 column 9 (char 8)"),
            (b'{"a": NaN}', "NaN is not JSON"),
            (b'"\xff"', "it is not UTF-8"),
            (b"[" * 5000 + b"]" * 5000, "it is nested too deeply"),
            (b'{"a": "\\ud800"}', "answer.json.a is not text that UTF-8 can encode: it has half of a surrogate pair"),
            (b'{"a": 1}', ""),
            (b"", ""),
        ],
    )
    def test_an_answer_that_is_json_in_name_alone_says_why_there_is_no_data(
        self, project: Project, body: bytes, why: str
    ) -> None:
        with Peer(lambda *_: answer(200, body, content_type="application/json")) as peer:
            outputs = project.get(peer.url).outputs
            assert outputs["json_problem"] == why
            assert (outputs["json"] is None) == (body != b'{"a": 1}')
            if why:
                assert project.get(peer.url, expect_schema={}).message.endswith(f"the answer is not JSON: {why}")
            assert project.get(peer.url, save="kept.json").outputs["json_problem"] == ""

    @pytest.mark.parametrize(
        "body", ["{", "NaN", "[1e999999]", '{"a": Infinity}', '"\\ud800"', "[" * 100_000, "1" * 5000, "\xff"]
    )
    def test_what_only_looks_like_json_is_text(self, project: Project, body: str) -> None:
        with Peer(lambda *_: as_json(body)) as peer:
            ended = project.get(peer.url)
        assert ended.failure == ""
        assert ended.outputs["json"] is None
        assert ended.outputs["text"] == body
        json.dumps(ended.outputs, ensure_ascii=False, allow_nan=False).encode()

    def test_text_is_read_by_its_charset_and_what_is_no_text_becomes_an_artifact(self, project: Project) -> None:
        answers = [
            answer(200, "grüße".encode("latin-1"), content_type="text/plain; charset=ISO-8859-1"),
            answer(200, b"\xff\xfe\x00\x81", content_type="application/octet-stream"),
            answer(200, "grüße".encode(), content_type="text/plain; charset=klingon"),
        ]
        with Peer(lambda _, __, n: answers[n - 1]) as peer:
            assert project.get(peer.url).outputs["text"] == "grüße"
            out = project.get(f"{peer.url}/logo.png").outputs
            assert (out["text"], out["artifact"]["name"]) == ("", "logo.png")
            with project.context().artifact(out["artifact"]["sha256"]) as kept:
                assert kept.read() == b"\xff\xfe\x00\x81"
            assert project.get(peer.url).outputs["text"] == "grüße"

    def test_what_is_large_or_asked_for_becomes_an_artifact(self, project: Project) -> None:
        large = "x" * 300_000
        with Peer(lambda *_: answer(200, large, content_type="text/plain")) as peer:
            out = project.get(f"{peer.url}/list").outputs
            assert (out["text"], out["json"], out["size"]) == ("", None, 300_000)
            assert out["artifact"]["sha256"] == out["sha256"] == hashlib.sha256(large.encode()).hexdigest()
            out = project.get(f"{peer.url}/list", save="page").outputs
            assert (out["text"], out["artifact"]["name"], out["artifact"]["type"]) == ("", "page", "text/plain")
        assert [each["name"] for each in project.services.kept] == ["list", "page"]

    @pytest.mark.parametrize("packing", ["gzip", "deflate", "raw deflate", "two members"])
    def test_packed_answers_are_unpacked(self, project: Project, packing: str) -> None:
        text = b"grow " * 50_000
        bare = zlib.compressobj(wbits=-15)
        packed = {
            "gzip": gzip.compress(text),
            "deflate": zlib.compress(text),
            "raw deflate": bare.compress(text) + bare.flush(),
            "two members": gzip.compress(text[:70_000]) + gzip.compress(text[70_000:]),
        }[packing]
        name = "deflate" if "deflate" in packing else "gzip"
        with Peer(lambda *_: answer(200, packed, content_encoding=name)) as peer:
            out = project.get(peer.url).outputs
        assert out["size"] == len(text)
        assert out["sha256"] == hashlib.sha256(text).hexdigest()
        assert peer.requests[0].headers["accept-encoding"] == "gzip, deflate"

    def test_packing_that_is_broken_or_was_not_asked_for_fails(self, project: Project) -> None:
        whole = gzip.compress(os.urandom(1000))
        answers = [
            answer(200, whole[:500], content_encoding="gzip"),
            answer(200, b"no gzip", content_encoding="gzip"),
            answer(200, b"x", content_encoding="br"),
        ]
        with Peer(lambda _, __, n: answers[n - 1]) as peer:
            assert "ends in the middle" in project.get(peer.url, retries=0).message
            assert "cannot be unpacked" in project.get(peer.url, retries=0).message
            assert "packed as `br`, which was not asked for" in project.get(peer.url, retries=0).message

    def test_chunks_come_together(self, project: Project) -> None:
        chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n \r\n5\r\nworld\r\n0\r\nX: y\r\n\r\n"

        def drip(_: Seen, connection: socket.socket, __: int) -> bytes:
            for byte in chunked[:-1]:
                connection.sendall(bytes([byte]))
            return chunked[-1:]

        with Peer(drip) as peer:
            assert project.get(peer.url).outputs["text"] == "hello world"

    def test_a_redirect_of_the_same_origin_is_followed_or_not(self, project: Project) -> None:
        def act(seen: Seen, *_: Any) -> bytes:
            return answer(200, seen.method) if seen.target == "/b" else answer(302, b"x" * 300_000, location="/b")

        with Peer(act) as peer:
            out = project.get(f"{peer.url}/a").outputs
            assert (out["text"], out["url"]) == ("GET", f"{peer.url}/b")
            out = project.get(f"{peer.url}/a", follow_redirects=False, expect_status=302).outputs
            assert (out["status"], out["headers"]["location"]) == (302, "/b")

    def test_the_query_of_another_origin_is_not_given_out(self, project: Project) -> None:
        with (
            Peer(lambda *_: answer(200, "hi")) as other,
            Peer(lambda *_: answer(302, b"", location=f"{other.url}/f?signature=abc")) as peer,
        ):
            assert project.get(peer.url).outputs["url"] == f"{other.url}/f"

    def test_head_reads_no_body_however_much_is_announced(self, project: Project) -> None:
        with Peer(lambda *_: answer(200, b"", content_length=10**12)) as peer:
            out = project.call("http.head", None, url=peer.url).outputs
        assert (out["status"], out["headers"]["content-length"], out["text"]) == (200, str(10**12), "")


class TestBounds:
    def test_an_answer_above_the_limit_is_not_read(self, project: Project) -> None:
        with Peer(lambda *_: answer(200, b"x" * 2000)) as peer:
            ended = project.get(peer.url, max_bytes=1000)
            assert (ended.failure, ended.message) == ("logic", "the answer is larger than `max_bytes`, which is 1000")
            assert project.get(peer.url, max_bytes="2kB").outputs["size"] == 2000

    def test_an_answer_without_end_is_cut_off(self, project: Project) -> None:
        sent = [0]

        def pour(_: Seen, connection: socket.socket, __: int) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while sent[0] < 1 << 30:
                sent[0] += connection.send(b"x" * 65536)

        with Peer(pour) as peer:
            assert "larger than `max_bytes`" in project.get(peer.url, max_bytes="1MB").message
        assert sent[0] < 20_000_000

    def test_a_redirect_with_a_body_without_end_is_followed_all_the_same(self, project: Project) -> None:
        def act(seen: Seen, connection: socket.socket, _: int) -> bytes | None:
            if seen.target == "/b":
                return answer(200, "there")
            connection.sendall(b"HTTP/1.1 302 Found\r\nlocation: /b\r\n\r\n")
            while True:
                connection.sendall(b"x" * 65536)

        with Peer(act) as peer:
            assert project.get(f"{peer.url}/a").outputs["text"] == "there"

    def test_memory_stays_small_whatever_is_sent(self, tmp_path: Path) -> None:
        code = """
import gzip, io, resource, sys, zlib
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from http_workbench import Peer, Project, answer
pack = zlib.compressobj(9, wbits=31)
bomb = b"".join([pack.compress(bytes(1 << 20)) for _ in range(120)]) + pack.flush()
project = Project(Path(sys.argv[2]))
with Peer(lambda seen, *_: answer(200, bomb, content_encoding="gzip")) as peer:
    project.get(peer.url, max_bytes="100kB")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = project.get(peer.url, max_bytes="16MiB")
    kept = project.get(peer.url, max_bytes="1GiB", save="zeros")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert refused.failure == "logic" and "larger" in refused.message, refused
assert kept.outputs["size"] == 120 << 20, kept
print(grown)
"""
        done = subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) < 40_000, f"{done.stdout} KiB more at 120 MiB"

    def test_too_many_headers_are_refused(self, project: Project) -> None:
        with Peer(lambda *_: b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000 + b"\r\n") as peer:
            assert project.get(peer.url, retries=0).failure == "transient"


class TestSecrets:
    def test_no_credential_comes_out_anywhere(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TOKEN_OF_MINE", "s3cret-t0ken")
        monkeypatch.setenv("PAIR_OF_MINE", "ana:pa55word")
        packed = base64.b64encode(b"ana:pa55word").decode()
        ways = [
            ({"bearer_env": "TOKEN_OF_MINE"}, "authorization", "Bearer s3cret-t0ken"),
            ({"basic_env": "PAIR_OF_MINE"}, "authorization", f"Basic {packed}"),
            ({"header": "X-Key", "header_env": "TOKEN_OF_MINE"}, "x-key", "s3cret-t0ken"),
        ]
        repeated = {"Bearer": "s3cret-t0ken", "Basic": "ana:pa55word"}

        def repeat(seen: Seen, _: Any, __: int) -> bytes:
            given = seen.headers.get("authorization", "Bearer").partition(" ")[0]
            body = {"you": seen.headers, repeated[given]: [f"so it is {repeated[given].partition(':')[2]}"]}
            return as_json(json.dumps(body), int(seen.target[1:]), x_back=repeated[given])

        with Peer(repeat) as peer:
            for status in (200, 401, 500):
                for auth, header, value in ways:
                    project.log.data = b""
                    ended = project.get(f"{peer.url}/{status}", auth=auth, retries={"times": 1, "delay": 0})
                    assert peer.requests[-1].headers[header] == value
                    seen = json.dumps(ended.outputs) + ended.message + project.log.data.decode()
                    assert "***" in seen
                    assert not [each for each in ("s3cret", "pa55word", packed) if each in seen], (auth, status)

    def test_other_spellings_of_a_credential_are_masked_as_well(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        secret = 'a"b\\c/d e&f'
        monkeypatch.setenv("ODD", secret)
        body = json.dumps({"plain": secret}) + f" {quote(secret, safe='')}"
        with Peer(lambda *_: answer(200, body)) as peer:
            assert project.get(peer.url, auth={"bearer_env": "ODD"}).outputs["text"] == '{"plain": "***"} ***'

    def test_the_environment_of_the_task_comes_before_that_of_the_runner(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WHO", "runner-one")
        with Peer(echo) as peer:
            for env, expected in (({}, "Bearer runner-one"), ({"WHO": "task-two"}, "Bearer task-two")):
                project.call("http.get", project.context(env), url=peer.url, auth={"bearer_env": "WHO"})
                assert peer.requests[-1].headers["authorization"] == expected

    @pytest.mark.parametrize("name", ["post", "put", "patch", "delete", "get"])
    def test_a_preview_shows_the_exact_request_and_sends_nothing(
        self, project: Project, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TOKEN_OF_MINE", "s3cret-t0ken")
        declared = declaration_of(load(TARGETS[f"http.{name}"]))
        assert declared is not None and declared.preview is not None
        inputs: dict[str, Any] = {"auth": {"bearer_env": "TOKEN_OF_MINE"}, "headers": {"X-Api-Key": "k3y", "A": "b"}}
        if name != "get":
            inputs["json"] = {"a": "s3cret-t0ken"}
        with Peer(echo) as peer:
            shown = declared.preview(project.context(), url=f"{peer.url}/x?q=1", **inputs)
            assert peer.connections == 0
        (text,) = shown.calls
        method = "" if name == "get" else f"-X {name.upper()} "
        assert text.startswith(f"curl {method}'{peer.url}/x?q=1' ")
        assert "-H 'authorization: Bearer ***'" in text
        assert "-H 'x-api-key: ***' -H 'a: b'" in text
        assert "s3cret" not in text + shown.summary
        assert ("""--data-binary '{"a":"***"}'""" in text) == (name != "get")

    def test_a_preview_needs_no_credentials(self, project: Project) -> None:
        declared = declaration_of(load(TARGETS["http.post"]))
        assert declared is not None and declared.preview is not None
        for auth, line in (
            ({"bearer_env": "NOT_SET"}, "authorization: Bearer ***"),
            ({"basic_env": "NOT_SET"}, "authorization: Basic ***"),
            ({"header": "X-Key", "header_env": "NOT_SET"}, "x-key: ***"),
        ):
            (text,) = declared.preview(project.context(), url="http://127.0.0.1:1/", auth=auth).calls
            assert f"-H '{line}'" in text

    def test_a_preview_of_files_names_them(self, project: Project) -> None:
        (project.path / "a.txt").write_text("hello")
        declared = declaration_of(load(TARGETS["http.post"]))
        assert declared is not None and declared.preview is not None
        (text,) = declared.preview(
            project.context(), url="http://127.0.0.1:1/", form={"n": 1}, files={"f": "a.txt"}, idempotent=True
        ).calls
        assert text == (
            "curl -X POST http://127.0.0.1:1/ -H 'idempotency-key: once' -F n=1 "
            "-F 'f=@a.txt;filename=a.txt;type=text/plain'"
        )
        (text,) = declared.preview(project.context(), url="http://127.0.0.1:1/", body_file="a.txt").calls
        assert text.endswith("--data-binary @a.txt")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"url": 5}, "`url` must be text, found 5"),
        ({"url": ["http://a"]}, "`url` must be text"),
        ({"headers": ["a"]}, "`headers` must be a mapping"),
        ({"query": ["a"]}, "`query` must be a mapping"),
        ({"auth": ["a"]}, "`auth` must be"),
        ({"save": 5}, "`save` must be text, the name of an artifact, found 5"),
        ({"url": "http://u:pw@h:port/"}, "`http://***@h:port/` is not an address"),
        ({"url": "ftp://u:pw@h/"}, "`ftp://***@h/` is not an http(s) URL"),
    ],
)
def test_an_input_of_another_kind_is_named(project: Project, inputs: dict[str, Any], message: str) -> None:
    ended = project.get(**{"url": "http://127.0.0.1:9/", **inputs})
    assert ended.failure == "logic"
    assert message in ended.message
    assert "pw" not in ended.message
