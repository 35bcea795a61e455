"""Downloads: continued after drops and in later attempts, checked, whole or not there, taken back."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from planrunner.files import staged

sys.path.insert(0, str(Path(__file__).parents[1]))

from http_workbench import Peer, Project, Seen, answer

from planrunner.capabilities.builtin import TARGETS, load
from planrunner.capabilities.contract import Failure, declaration_of
from planrunner.capabilities.files.records import forget_old

BODY = os.urandom(700_001)
DIGEST = hashlib.sha256(BODY).hexdigest()
QUICK = {"times": 3, "delay": 0.01}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


class Files:
    """Serves one file with ranges, breaking off after ``drops`` bytes one connection after the other."""

    def __init__(self, body: bytes = BODY, etag: str = '"v1"', drops: tuple[int, ...] = (), **headers: object) -> None:
        self.body, self.etag, self.drops, self.headers = body, etag, list(drops), headers

    def __call__(self, seen: Seen, connection: socket.socket, _: int) -> bytes | None:
        headers = {**({"etag": self.etag} if self.etag else {}), **self.headers}
        start, status = 0, 200
        asked = seen.headers.get("range", "")
        if asked and seen.headers.get("if-range", self.etag) == self.etag:
            start, status = int(asked.removeprefix("bytes=").removesuffix("-")), 206
            headers["content_range"] = f"bytes {start}-{len(self.body) - 1}/{len(self.body)}"
        if start >= len(self.body):
            return answer(416, b"", content_range=f"bytes */{len(self.body)}")
        said = answer(status, self.body[start:], **headers)
        if not self.drops:
            return said
        connection.sendall(said[: said.index(b"\r\n\r\n") + 4 + self.drops.pop(0)])
        return None


def download(project: Project, url: str, context: Any = None, **inputs: Any) -> Any:
    return project.call("http.download", context, **{"url": url, "retries": QUICK, **inputs})


def leftovers(project: Project) -> list[str]:
    folder = project.state / "cache" / "http-downloads"
    return sorted(os.listdir(folder)) if folder.exists() else []


class TestWhole:
    def test_a_file_arrives_in_its_place_and_nothing_is_left_beside_it(self, project: Project) -> None:
        with Peer(Files()) as peer:
            ended = download(project, f"{peer.url}/f?x=1", path="out.bin", sha256=DIGEST, size=len(BODY))
        assert ended.failure == "", ended
        assert (project.path / "out.bin").read_bytes() == BODY
        out = ended.outputs
        assert (out["size"], out["sha256"], out["changed"], out["resumed"]) == (len(BODY), DIGEST, True, 0)
        assert (out["url"], out["attempts"], out["artifact"]) == (f"{peer.url}/f", 1, None)
        assert sorted(os.listdir(project.path)) == ["out.bin", "planrunner.yaml"]
        assert leftovers(project) == []
        assert peer.requests[0].headers["accept-encoding"] == "identity"

    def test_without_a_path_it_is_an_artifact(self, project: Project) -> None:
        with Peer(Files()) as peer:
            out = download(project, f"{peer.url}/data.tar").outputs
            assert (out["path"], out["artifact"]["name"], out["artifact"]["sha256"]) == ("", "data.tar", DIGEST)
            out = download(project, peer.url, path="a", artifact="both").outputs
        assert (out["artifact"]["name"], (project.path / "a").read_bytes() == BODY) == ("both", True)
        with project.context().artifact(DIGEST) as kept:
            assert kept.read() == BODY

    def test_a_file_that_is_there_already_is_not_asked_for(self, project: Project) -> None:
        (project.path / "out.bin").write_bytes(BODY)
        with Peer(Files()) as peer:
            out = download(project, peer.url, path="out.bin", sha256=f"SHA256:{DIGEST.upper()}").outputs
            assert (out["changed"], out["attempts"], peer.connections) == (False, 0, 0)
            assert download(project, peer.url, path="out.bin").outputs["changed"] is False
            assert len(peer.requests) == 1

    def test_an_empty_file_is_a_file(self, project: Project) -> None:
        with Peer(Files(b"")) as peer:
            assert peer.url
        with Peer(lambda *_: answer(200, b"")) as peer:
            assert download(project, peer.url, path="e").outputs["size"] == 0
        assert (project.path / "e").read_bytes() == b""

    @pytest.mark.parametrize(
        ("inputs", "said"),
        [
            ({"sha256": "0" * 64}, f"the file has the SHA-256 {DIGEST}, expected {'0' * 64}"),
            ({"size": 5}, "the file has 700001 bytes, expected 5"),
            ({"max_bytes": "100kB"}, "the file has 700001 bytes, more than `max_bytes`, which is 100000"),
        ],
    )
    def test_the_wrong_file_does_not_get_into_place(self, project: Project, inputs: Any, said: str) -> None:
        (project.path / "out.bin").write_text("old")
        with Peer(Files()) as peer:
            ended = download(project, peer.url, path="out.bin", **inputs)
        assert (ended.failure, said in ended.message) == ("logic", True), ended.message
        assert (project.path / "out.bin").read_text() == "old"
        assert leftovers(project) == []

    def test_a_file_without_end_is_cut_off(self, project: Project) -> None:
        def pour(_: Seen, connection: socket.socket, __: int) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                connection.sendall(b"x" * 65536)

        with Peer(pour) as peer:
            assert "larger than `max_bytes`" in download(project, peer.url, path="x", max_bytes="1MB").message
        assert leftovers(project) == []

    @pytest.mark.parametrize(
        "path",
        ["../x", "/tmp/x", "link", "sub/x", ".git/config", "a/.planrunner/x", "folder", "planrunner.yaml", "no/x"],
    )
    def test_no_file_lands_where_plans_do_not_write(self, project: Project, path: str) -> None:
        outside = project.path.parent / "outside"
        outside.mkdir()
        (outside / "x").write_text("old")
        (project.path / "link").symlink_to(outside / "x")
        (project.path / "sub").symlink_to(outside)
        (project.path / "folder").mkdir()
        with Peer(Files()) as peer:
            ended = download(project, peer.url, path=path)
            assert ended.failure in ("policy", "logic")
            assert peer.connections == 0
        assert (os.listdir(outside), (outside / "x").read_text()) == (["x"], "old")

    def test_a_failing_status_is_told_and_kept_out_of_the_file(self, project: Project) -> None:
        with Peer(lambda *_: answer(404, "gone away")) as peer:
            ended = download(project, peer.url, path="x")
        assert (ended.failure, ended.outputs["status"]) == ("logic", 404)
        assert "answered 404 Said: gone away" in ended.message
        assert not (project.path / "x").exists()


class TestGoingOn:
    def test_drops_in_the_middle_are_gone_on_with(self, project: Project) -> None:
        with Peer(Files(drops=(100_000, 250_000, 90_000, 70_000))) as peer:
            out = download(project, peer.url, path="out.bin", retries={"times": 1, "delay": 0}).outputs
        assert (project.path / "out.bin").read_bytes() == BODY
        assert [seen.headers.get("range") for seen in peer.requests][:3] == [None, "bytes=100000-", "bytes=350000-"]
        assert {seen.headers.get("if-range") for seen in peer.requests[1:]} == {'"v1"'}
        assert (out["resumed"], out["attempts"]) == (510_000, 5)

    def test_a_later_attempt_goes_on_where_the_earlier_one_broke_off(self, project: Project) -> None:
        files = Files(drops=(300_000, 0, 0, 0))
        with Peer(files) as peer:
            ended = download(project, peer.url, path="out.bin", retries={"times": 1, "delay": 0})
            assert ended.failure == "transient"
            assert not (project.path / "out.bin").exists()
            files.drops = []
            out = download(project, peer.url, path="out.bin", context=project.context(once="another")).outputs
        assert (out["resumed"], out["sha256"]) == (300_000, DIGEST)
        assert peer.requests[-1].headers["range"] == "bytes=300000-"

    @pytest.mark.parametrize("size", [1_000, 200_000])
    def test_a_server_that_sends_less_than_was_asked_for_is_asked_for_the_rest(
        self, project: Project, size: int
    ) -> None:
        body = BODY[: 20 * size]

        def act(seen: Seen, connection: socket.socket, _: int) -> bytes | None:
            if "range" not in seen.headers:
                connection.sendall(answer(200, body, etag='"v1"')[: -len(body) + size])
                connection.close()
                return None
            start = int(seen.headers["range"][6:-1])
            part = body[start : start + size]
            span = f"bytes {start}-{start + len(part) - 1}/{len(body)}"
            return answer(206, part, content_range=span, etag='"v1"')

        with Peer(act) as peer:
            ended = download(project, peer.url, path="whole", retries={"times": 1, "delay": 0.01})
        assert (ended.failure, (project.path / "whole").read_bytes()) == ("", body)

    def test_a_server_that_sends_nothing_of_the_rest_is_given_up(self, project: Project) -> None:
        def act(seen: Seen, *_: Any) -> bytes:
            if "range" not in seen.headers:
                return answer(200, BODY, etag='"v1"', connection="close")[: -len(BODY) + 1000]
            return answer(206, b"", content_range=f"bytes 1000-{len(BODY) - 1}/{len(BODY)}", etag='"v1"')

        with Peer(act) as peer:
            ended = download(project, peer.url, path="whole", retries={"times": 1, "delay": 0.01})
        assert (ended.failure, (project.path / "whole").exists()) == ("transient", False)
        assert len(peer.requests) == 2

    def test_a_disk_that_takes_a_part_of_a_piece_gets_no_file_with_a_hole(self, project: Project) -> None:
        code = """if True:
            import resource, sys
            from types import SimpleNamespace
            from planrunner.capabilities.http.download import Partial
            resource.setrlimit(resource.RLIMIT_FSIZE, (60, resource.RLIM_INFINITY))
            partial = Partial(SimpleNamespace(cache=lambda name: sys.argv[1]), "x")
            try:
                partial.add(bytes(100))
            except OSError as error:
                print(partial.size, error.strerror)
        """
        done = subprocess.run([sys.executable, "-c", code, str(project.path)], capture_output=True, text=True)
        assert done.stdout == "60 File too large\n", done.stderr

    def test_a_stopped_attempt_keeps_what_it_has(self, project: Project) -> None:
        over = threading.Event()

        def slow(seen: Seen, connection: socket.socket, number: int) -> bytes | None:
            if number > 1:
                return Files()(seen, connection, number)
            connection.sendall(answer(200, BODY, etag='"v1"')[:200_000])
            over.wait(600)
            return None

        for delay in (0.5, 5.0, 50.0):  # the least one in which all arrives that was sent
            over.clear()
            with Peer(slow) as peer:
                threading.Timer(delay, project.stop.set).start()
                assert "was stopped" in download(project, peer.url, path="out.bin").message
                over.set()
                project.stop.clear()
                out = download(project, peer.url, path="out.bin").outputs
            assert out["sha256"] == DIGEST
            if out["resumed"] > 190_000:
                break
        assert 190_000 < out["resumed"] < 200_000

    def test_another_file_at_the_address_is_read_from_its_beginning(self, project: Project) -> None:
        files = Files(drops=(300_000, 0))
        other = os.urandom(500_000)
        with Peer(files) as peer:
            download(project, peer.url, path="x", retries={"times": 1, "delay": 0})
            files.body, files.etag = other, '"v2"'
            out = download(project, peer.url, path="x").outputs
        assert (out["sha256"], out["resumed"]) == (hashlib.sha256(other).hexdigest(), 0)

    def test_a_server_that_mixes_two_files_is_not_trusted(self, project: Project) -> None:
        other = os.urandom(500_000)

        def mix(seen: Seen, connection: socket.socket, number: int) -> bytes | None:
            if number == 1:
                return Files(drops=(300_000,))(seen, connection, number)
            if asked := seen.headers.get("range"):
                start = int(asked[6:-1])
                span = f"bytes {start}-{len(other) - 1}/{len(other)}"
                return answer(206, other[start:], content_range=span, etag='"v2"')
            return answer(200, other, etag='"v2"')

        with Peer(mix) as peer:
            assert download(project, peer.url, path="x").outputs["sha256"] == hashlib.sha256(other).hexdigest()

    @pytest.mark.parametrize(("sent", "goes_on"), [("07:28:00", False), ("07:28:01", True)])
    def test_a_time_of_change_tells_nothing_in_the_second_in_which_it_is_sent(
        self, project: Project, sent: str, goes_on: bool
    ) -> None:
        day = "Wed, 21 Oct 2015"
        files = Files(etag="", drops=(100_000,), last_modified=f"{day} 07:28:00 GMT", date=f"{day} {sent} GMT")
        with Peer(files) as peer:
            assert download(project, peer.url, path="file", retries=QUICK).failure == ""
        assert ("range" in peer.requests[1].headers) is goes_on

    def test_without_a_validator_it_starts_anew_unless_the_digest_is_known(self, project: Project) -> None:
        with Peer(Files(etag="", drops=(300_000,))) as peer:
            assert download(project, peer.url, path="x").outputs["resumed"] == 0
            assert "range" not in peer.requests[-1].headers
        with Peer(Files(etag="", drops=(300_000,))) as peer:
            assert download(project, peer.url, path="y", sha256=DIGEST).outputs["resumed"] == 300_000
        with Peer(Files(etag='W/"weak"', drops=(300_000,))) as peer:
            assert download(project, peer.url, path="z").outputs["resumed"] == 0

    def test_a_beginning_that_turns_out_wrong_is_thrown_away_once(self, project: Project) -> None:
        changed = bytes(300_000) + BODY[300_000:]
        files = Files(changed, etag="", drops=(200_000,))
        with Peer(lambda *args: Files(etag="")(*args) if args[2] > 1 else files(*args)) as peer:
            out = download(project, peer.url, path="x", sha256=DIGEST).outputs
        assert out["sha256"] == DIGEST
        assert [("range" in seen.headers) for seen in peer.requests] == [False, True, False]

    def test_what_was_complete_already_is_recognised(self, project: Project) -> None:
        with Peer(Files()) as peer:
            wrong = download(project, peer.url, path="missing/folder/x")
            assert wrong.failure == "logic"
            peer.requests.clear()
        files = Files(drops=(len(BODY) - 1, 0, 0))
        with Peer(files) as peer:
            download(project, peer.url, path="x", retries={"times": 1, "delay": 0})
            files.body = BODY[:-1]
            out = download(project, peer.url, path="x").outputs
        assert (out["size"], out["resumed"]) == (len(BODY) - 1, len(BODY) - 1)

    def test_what_nobody_goes_on_with_is_forgotten_after_a_month(self, project: Project) -> None:
        folder = project.state / "cache" / "http-downloads"
        folder.mkdir(parents=True)
        for name, days in (("old.part", 31), ("young.part", 29)):
            (folder / name).write_text("x")
            os.utime(folder / name, (time.time() - days * 86400,) * 2)
        forget_old(str(folder))
        assert leftovers(project) == ["young.part"]

    def test_busy_servers_are_waited_for(self, project: Project) -> None:
        with Peer(lambda *a: answer(429, retry_after="1") if a[2] == 1 else Files()(*a)) as peer:
            started = time.monotonic()
            assert download(project, peer.url, path="x").outputs["attempts"] == 2
            assert time.monotonic() - started > 0.95

    def test_two_at_once_do_not_get_into_each_others_way(self, project: Project) -> None:
        ended: list[Any] = []
        with Peer(Files(drops=(200_000, 200_000, 200_000))) as peer:
            threads = [
                threading.Thread(
                    target=lambda name=f"x{n}": ended.append(  # type: ignore[misc]
                        download(project, peer.url, project.context(once=name), path=name, sha256=DIGEST)
                    )
                )
                for n in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(240)
        assert [each.failure for each in ended] == [""] * 4, ended
        assert {(project.path / f"x{n}").read_bytes() for n in range(4)} == {BODY}
        assert leftovers(project) == []


class TestTakingBack:
    def _parts(self) -> Any:
        declared = declaration_of(load(TARGETS["http.download"]))
        assert declared is not None and declared.capture is not None and declared.undo is not None
        return declared

    @pytest.mark.parametrize("old", [None, "old content"])
    @pytest.mark.parametrize("seen", [True, False])
    def test_what_stood_there_stands_there_again(self, project: Project, old: str | None, seen: bool) -> None:
        place = project.path / "x"
        if old is not None:
            place.write_text(old)
            place.chmod(0o640)
        declared = self._parts()
        before = declared.capture(project.context(), url="http://127.0.0.1:1/", path="x")
        with Peer(Files()) as peer:
            ended = download(project, peer.url, path="x")
        assert place.read_bytes() == BODY
        for _ in range(2):
            declared.undo(project.context(), before, ended.outputs if seen else None)
            assert (place.read_text() if place.exists() else None) == old
            assert old is None or place.stat().st_mode & 0o777 == 0o640
        assert sorted(os.listdir(project.path)) == sorted({"planrunner.yaml", *(["x"] if old is not None else [])})

    def test_what_never_happened_needs_no_undo(self, project: Project) -> None:
        declared = self._parts()
        before = declared.capture(project.context(), url="http://127.0.0.1:1/", path="x")
        declared.undo(project.context(), before, None)
        assert declared.capture(project.context(), url="http://127.0.0.1:1/") == {}
        assert declared.undo(project.context(), {}, None) is None

    def test_what_a_kill_left_beside_the_file_is_removed(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        declared = self._parts()
        before = declared.capture(project.context(), url="http://127.0.0.1:1/", path="x")

        def killed(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with Peer(Files()) as peer, monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(staged, "_put", killed)
            patched.setattr(staged, "back", lambda *_: None)
            load(TARGETS["http.download"])(project.context(), url=peer.url, path="x")
        assert len(os.listdir(project.path)) == 2
        declared.undo(project.context(), before, None)
        assert os.listdir(project.path) == ["planrunner.yaml"]

    def test_what_somebody_changed_since_is_left_as_it_is(self, project: Project) -> None:
        declared = self._parts()
        before = declared.capture(project.context(), url="http://127.0.0.1:1/", path="x")
        with Peer(Files()) as peer:
            outputs = download(project, peer.url, path="x").outputs
        (project.path / "x").write_text("mine")
        for told in (outputs, None):
            with pytest.raises(Failure, match="x was changed since it was downloaded"):
                declared.undo(project.context(), before, told)
        assert (project.path / "x").read_text() == "mine"

    @pytest.mark.parametrize("foreign", [False, True])
    def test_folders_that_were_made_go_again_unless_they_hold_something(self, project: Project, foreign: bool) -> None:
        declared = self._parts()
        before = declared.capture(project.context(), url="http://127.0.0.1:1/", path="a/b/x", parents=True)
        with Peer(Files()) as peer:
            ended = download(project, peer.url, path="a/b/x", parents=True)
        assert (project.path / "a/b/x").read_bytes() == BODY
        if foreign:
            (project.path / "a/mine").write_text("mine")
        assert [declared.undo(project.context(), before, ended.outputs)["changed"] for _ in range(2)] == [True, False]
        left = sorted(
            str(path.relative_to(project.path)) for path in project.path.rglob("*") if path.name != "planrunner.yaml"
        )
        assert left == (["a", "a/mine"] if foreign else [])

    def test_what_a_kill_left_above_a_folder_that_was_still_to_be_made_is_removed(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        declared = self._parts()
        before = declared.capture(project.context(), url="http://127.0.0.1:1/", path="a/x", parents=True)

        def killed(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with Peer(Files()) as peer, monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(staged, "_put", killed)
            patched.setattr(staged, "back", lambda *_: None)
            load(TARGETS["http.download"])(project.context(), url=peer.url, path="a/x", parents=True)
        assert len(os.listdir(project.path)) == 2
        declared.undo(project.context(), before, None)
        assert os.listdir(project.path) == ["planrunner.yaml"]

    def test_a_missing_folder_leaves_nothing_to_capture_and_fails_the_attempt(self, project: Project) -> None:
        declared = self._parts()
        before = declared.capture(project.context(), url="http://127.0.0.1:1/", path="a/x")
        assert before["stood"] is None
        ended = download(project, "http://127.0.0.1:1/", path="a/x")
        assert (ended.failure, ended.message) == (
            "logic",
            "folder `a` does not exist for a/x; `parents: true` makes it",
        )
        assert declared.undo(project.context(), before, None) == {"changed": False}

    def test_the_preview_says_what_goes_where(self, project: Project) -> None:
        shown = self._parts().preview(project.context(), url="http://127.0.0.1:1/d/f.zip?k=1", path="x", sha256="a")
        assert shown.summary == "would download http://127.0.0.1:1/d/f.zip to x"
        assert shown.calls == ("curl 'http://127.0.0.1:1/d/f.zip?k=1'",)
        shown = self._parts().preview(project.context(), url="http://127.0.0.1:1/d/f.zip")
        assert shown.summary.endswith("to the artifact `f.zip`")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"sha256": "abc"}, "`sha256` must be 64 hexadecimal digits, found abc"),
        ({"sha256": 5}, "`sha256` must be 64 hexadecimal digits"),
        ({"path": 5}, "`path` must be text"),
        ({"artifact": ["a"]}, "`artifact` must be text"),
        ({"path": "no/such/x"}, "folder `no/such` does not exist for no/such/x; `parents: true` makes it"),
    ],
)
def test_inputs_are_looked_at_before_anything_is_sent(project: Project, inputs: dict[str, Any], message: str) -> None:
    ended = download(project, "http://127.0.0.1:9/", **inputs)
    assert (ended.failure, message in ended.message) == ("logic", True), ended.message
