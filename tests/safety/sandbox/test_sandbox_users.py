"""Whole runs of an ordinary user, who has no rights but their own: root becomes one that nobody is, in a process of its
own, with a home folder and no entry in the list of users; anybody else runs them as they are."""

from __future__ import annotations

import http.server
import json
import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_project import needs_bubblewrap, needs_landlock
from somebody import CANNOT
from workbench import ROOT

SCRIPT = Path(__file__).with_name("somebody.py")
CONFINED = """
plan: confined
defaults: {timeout: 1m}
tasks:
  - id: build
    policy: {sandbox: %(profile)s, files: {write: [build/**]}}
    run: |
      id -u > build/user
      touch outside.txt || echo kept >> build/told
      cat .planrunner/journal.db || echo hidden >> build/told
      cat "$OWN_KEY" || echo away >> build/told
    env: {OWN_KEY: %(secret)s}
  - id: code
    needs: [build]
    policy: {sandbox: {profile: %(profile)s, memory: 500MB, processes: 50}}
    uses: python.run
    with: {code: "result = open('build/user').read().strip()"}
"""
FLOOD = """
plan: flood
defaults: {timeout: 1m}
tasks:
  - {id: flood, policy: {sandbox: {profile: %s, output: 1MB}}, run: "yes"}
"""
HOSTS = """
plan: hosts
defaults: {timeout: 1m}
policy: {network: {allow: ["127.0.0.1:%d"]}}
tasks:
  - id: past
    run: "! %s -c 'import socket; socket.create_connection((\\"127.0.0.1\\", %d), 2)'"
  - id: through
    run: "%s -c 'import urllib.request as u; print(u.urlopen(\\"http://127.0.0.1:%d/\\").read().decode())'"
"""
OPEN = """
plan: open
defaults: {timeout: 1m}
policy: {sandbox: {network: true}}
tasks:
  - id: t
    run: "! %s -c 'import socket; socket.socket(socket.AF_UNIX).connect(\\"\\\\0%s\\")'"
"""
OUTSIDE = """
plan: outside
defaults: {timeout: 1m}
tasks:
  - {id: t, run: "id -u; cat .planrunner/journal.db 2>/dev/null || true"}
"""


class Somebody:
    """An ordinary user with a home folder in which there is a project."""

    def __init__(self, home: Path, uid: int) -> None:
        self.home, self.uid = home, uid
        self.project = home / "project"
        self.project.mkdir()
        (self.project / "planrunner.yaml").touch()

    def write(self, name: str, text: str) -> Path:
        path = self.project / name
        path.write_text(text)
        return path

    def own(self) -> None:
        """Hand everything in the home folder over."""
        for path in (self.home, *self.home.rglob("*")):
            os.chown(path, self.uid or -1, self.uid or -1, follow_symlinks=False)

    def does(self, *arguments: str, without: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Run planrunner as this user in their project. Skips the test where nobody can become them here."""
        reach = sorted({*map(os.path.realpath, (ROOT, sys.prefix, sys.base_prefix)), str(self.home)})
        order = json.dumps({"uid": self.uid, "reach": reach, "without": without})
        command = (sys.executable, str(SCRIPT), order, sys.executable, "-m", "planrunner", *arguments)
        env = {"HOME": str(self.home), "PATH": os.defpath, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
        done = subprocess.run(
            command, cwd=self.project, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
            check=False,
        )  # fmt: skip
        if done.returncode == CANNOT:
            pytest.skip(done.stderr)
        return done

    def said(self, task: str) -> str:
        return self.does("logs", "last", task).stdout


@pytest.fixture
def somebody() -> Iterator[Somebody]:
    home = Path(tempfile.mkdtemp(prefix="planrunner-home-")).resolve()
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    try:
        yield Somebody(home, next(uid for uid in range(60_100, 60_900) if uid not in taken) if not os.getuid() else 0)
    finally:
        shutil.rmtree(home)


def confined(somebody: Somebody, profile: str) -> None:
    secret = somebody.home / "key"
    secret.write_text("open sesame")
    somebody.write("confined.yaml", CONFINED % {"profile": profile, "secret": secret})
    somebody.own()
    done = somebody.does("exec", "confined.yaml", "--progress", "quiet")
    assert done.returncode == 0, done.stderr
    assert (somebody.project / "build" / "told").read_text() == "kept\nhidden\naway\n"
    assert not (somebody.project / "outside.txt").exists()


def modes_are_private(state: Path, uid: int) -> None:
    for path in (state, *state.rglob("*")):
        found = path.lstat()
        expected = 0o700 if path.is_dir() else 0o600
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (expected, uid), path


@needs_bubblewrap
def test_a_whole_run_behind_namespaces(somebody: Somebody) -> None:
    confined(somebody, "bubblewrap")
    user = somebody.uid or os.getuid()
    assert (somebody.project / "build" / "user").read_text() == "65534\n"
    assert (somebody.project / "build" / "user").stat().st_uid == user
    modes_are_private(somebody.project / ".planrunner", user)
    modes_are_private(somebody.home / ".local" / "share" / "planrunner", user)
    assert somebody.does("audit", "verify").stdout.startswith("intact: 1 run")


@needs_landlock
def test_a_whole_run_behind_landlock_alone(somebody: Somebody) -> None:
    confined(somebody, "landlock")
    assert (somebody.project / "build" / "user").read_text() == f"{somebody.uid or os.getuid()}\n"
    assert somebody.does("audit", "verify").returncode == 0


@pytest.mark.parametrize(
    "profile",
    [pytest.param("bubblewrap", marks=needs_bubblewrap), pytest.param("landlock", marks=needs_landlock)],
)
def test_a_limit_ends_a_task(somebody: Somebody, profile: str) -> None:
    somebody.write("flood.yaml", FLOOD % profile)
    somebody.own()
    done = somebody.does("exec", "flood.yaml", "--progress", "quiet")
    assert done.returncode == 12 and "`task flood` allows 1,000,000 bytes" in done.stderr, done.stderr


class _Greeting(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"good morning")

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@needs_bubblewrap
def test_a_host_is_reached_through_the_proxy_alone(somebody: Somebody) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Greeting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port, python = server.server_address[1], sys.executable
        somebody.write("planrunner.yaml", "network: {private: [127.0.0.1]}\n")
        somebody.write("hosts.yaml", HOSTS % (port, python, port, python, port))
        somebody.own()
        done = somebody.does("exec", "hosts.yaml", "--progress", "quiet")
        server.shutdown()
    assert done.returncode == 0, done.stderr
    assert "refused" in somebody.said("past").lower() and somebody.said("through") == "good morning\n"


@needs_bubblewrap
@pytest.mark.parametrize("without", [(), ("landlock",)], ids=["all", "no-landlock"])
def test_a_socket_of_the_machine_is_not_reached_by_its_name_in_memory_though_the_network_is_open(
    somebody: Somebody, without: tuple[str, ...]
) -> None:
    name = f"planrunner-{os.urandom(8).hex()}"
    somebody.write("open.yaml", OPEN % (sys.executable, name))
    somebody.own()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{name}")
        listening.listen()
        done = somebody.does("exec", "open.yaml", "--progress", "quiet", without=without)
    assert done.returncode == 0, done.stderr
    assert "PermissionError" in somebody.said("t")


@needs_bubblewrap
def test_a_plan_from_outside_is_shut_in(somebody: Somebody) -> None:
    (somebody.home / "outside.yaml").write_text(OUTSIDE)
    somebody.own()
    refused = somebody.does("exec", "../outside.yaml")
    assert refused.returncode == 12, refused.stderr
    digest = next(word for word in refused.stderr.split() if word.startswith("sha256:"))
    done = somebody.does("exec", "../outside.yaml", "--trust", digest, "--progress", "quiet")
    assert done.returncode == 0, done.stderr
    assert somebody.said("t").splitlines()[-1] == "65534"


@needs_bubblewrap
def test_every_probe_is_held(somebody: Somebody) -> None:
    somebody.own()
    done = somebody.does("doctor", "--sandbox")
    assert done.returncode == 0 and "bubblewrap holds: 41 probes\n" in done.stdout, done.stdout


@needs_bubblewrap
@needs_landlock
def test_where_user_namespaces_are_off_landlock_holds_and_each_command_says_how_to_allow_them(
    somebody: Somebody,
) -> None:
    somebody.write("asked.yaml", FLOOD % "bubblewrap")
    somebody.write("files.yaml", OUTSIDE.replace("run:", "policy: {files: {write: [build/**]}}, run:"))
    somebody.own()
    off = ("namespaces",)
    cure = "`sysctl user.max_user_namespaces=10000` as root"
    told = somebody.does("doctor", "--sandbox", without=off)
    assert told.returncode == 0, told.stdout
    assert told.stdout.endswith(f"landlock holds: 40 probes\nbubblewrap would confine more: {cure}\n")
    assert cure in somebody.does("doctor", without=off).stdout
    asked = somebody.does("exec", "asked.yaml", "--progress", "quiet", without=off)
    assert asked.returncode == 12
    assert f"`user.max_user_namespaces` is 0 here; {cure}, see `planrunner doctor --sandbox`" in asked.stderr
    assert somebody.does("exec", "files.yaml", "--progress", "quiet", without=off).returncode == 0
    assert somebody.said("t") == f"{somebody.uid or os.getuid()}\n"


@needs_bubblewrap
def test_where_landlock_was_asked_for_and_is_missing_the_profile_that_works_is_named(somebody: Somebody) -> None:
    somebody.write("asked.yaml", FLOOD % "landlock")
    somebody.own()
    done = somebody.does("exec", "asked.yaml", "--progress", "quiet", without=("landlock",))
    assert done.returncode == 12 and "ask for `sandbox: bubblewrap`, which works here" in done.stderr, done.stderr
    assert "bubblewrap holds: 41 probes" in somebody.does("doctor", "--sandbox", without=("landlock",)).stdout


@needs_bubblewrap
def test_where_nothing_can_shut_in_what_would_have_to_be_is_refused_with_the_next_step(somebody: Somebody) -> None:
    somebody.write("files.yaml", OUTSIDE.replace("run:", "policy: {files: {write: [build/**]}}, run:"))
    somebody.own()
    nothing = ("namespaces", "landlock")
    cure = "`sysctl user.max_user_namespaces=10000` as root"
    told = somebody.does("doctor", "--sandbox", without=nothing)
    assert told.returncode == 1 and told.stdout.endswith(f"nothing here can shut processes in: {cure}\n"), told.stdout
    done = somebody.does("exec", "files.yaml", "--progress", "quiet", without=nothing)
    assert done.returncode == 12 and f"{cure}, see `planrunner doctor --sandbox`" in done.stderr, done.stderr
    assert somebody.said("t") == ""
