"""Services: started before what needs them, watched until they are ready, and ended with the run."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from commands import Started, start

from planrunner.engine.background import Background, address_fault
from planrunner.machine.events import Outcome

SERVER = """
import http.server, os, sys
open("pids", "a").write(f"{os.getpid()}\\n")
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


@pytest.fixture
def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Project:
    """A folder with a plan; its runs are those of the real command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "server.py").write_text(SERVER)

    def plan(self, services: str, tasks: str, head: str = "") -> None:
        text = f"plan: p\ndefaults: {{timeout: 4m}}\n{head}services:\n{services}\ntasks:\n{tasks}\n"
        (self.folder / "p.yaml").write_text(text)

    def start(self, *words: str) -> Started:
        return start(*words, folder=self.folder, env=os.environ)

    def do(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        out, err = process.communicate(timeout=240)
        assert process.returncode == code, out + err
        return out + err

    def tasks(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.do("show", "last", "--json"))["tasks"]
        return {name: each["status"] for name, each in found.items()}

    def pids(self) -> list[int]:
        return [int(line) for line in (self.folder / "pids").read_text().split()]

    def alive(self) -> list[int]:
        return [pid for pid in self.pids() if _is_alive(pid)]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def web(port: int, kind: str = "tcp") -> str:
    return f"  web: {{run: [{sys.executable}, server.py, '{port}'], ready: 'tcp://127.0.0.1:{port}', timeout: 4m}}".replace(
        "tcp://", f"{kind}://"
    )


SAID = "  said: {run: 'echo $$ > pids; echo now ready; exec sleep 600', ready: 'log: now ready', timeout: 4m}"

FETCH = f"""{sys.executable} -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1])' http://127.0.0.1:%d/p.yaml"""


@pytest.mark.parametrize("kind", ["tcp", "http"])
def test_what_needs_a_service_starts_when_it_answers_and_the_run_ends_it(
    project: Project, port: int, kind: str
) -> None:
    project.plan(
        web(port, kind), f"  - {{id: fetch, needs: [web], run: {json.dumps(FETCH % port)}}}", "max_parallel: 1\n"
    )
    project.do("exec", "p.yaml")
    assert project.tasks() == {"web": "completed", "fetch": "completed"}
    assert len(project.pids()) == 1 and project.alive() == []
    assert "GET /p.yaml" in project.do("logs", "last", "web"), "what it prints later is in its log too"
    project.do("replay", "last")


def test_finally_has_it_still_and_a_run_that_fails_ends_it_too(project: Project, port: int) -> None:
    tasks = "  - {id: bad, needs: [web], run: exit 1}\nfinally:\n"
    project.plan(web(port), tasks + f"  - {{id: last, run: {json.dumps(FETCH % port)}}}")
    project.do("exec", "p.yaml", code=1)
    assert project.tasks() == {"web": "completed", "bad": "failed", "last": "completed"}
    assert project.alive() == []


def test_after_a_failure_what_needs_a_service_is_retried_once_it_has_started_again(project: Project) -> None:
    tasks = "  - {id: bad, needs: [said], run: test -e mended}\n  - {id: next, needs: [bad], run: 'true'}"
    project.plan(SAID, tasks)
    project.do("exec", "p.yaml", code=1)
    (project.folder / "mended").touch()
    project.do("retry", "last")
    assert project.tasks() == {"said": "completed", "bad": "completed", "next": "completed"}
    project.do("replay", "last")


def test_a_gate_keeps_back_what_needs_a_service_too_when_that_starts_again(project: Project) -> None:
    tasks = (
        "  - {id: one, ask: 'so?'}\n  - {id: other, ask: 'so?'}\n"
        "  - {id: publish, needs: [said, one], run: touch published}"
    )
    project.plan(SAID, tasks)
    project.do("exec", "p.yaml", code=8)
    project.do("approve", "last", "other")
    project.do("resume", "last", code=8)
    assert project.tasks() == {"said": "completed", "one": "blocked", "other": "completed", "publish": "pending"}
    assert not (project.folder / "published").exists()
    project.do("approve", "last", "one")
    project.do("resume", "last")
    assert (project.folder / "published").exists()
    project.do("replay", "last")


def test_a_line_of_its_output_tells_that_it_is_ready_however_it_is_written(project: Project) -> None:
    script = "echo $$ >pids; printf 'now rea'; until test -e go; do sleep 0.01; done; printf 'dy\\n'; exec sleep 600"
    project.plan(
        f"  slow: {{run: {json.dumps(script)}, ready: 'log: now ready', timeout: 4m}}",
        "  - {id: go, run: touch go}\n  - {id: use, needs: [slow], run: test -e go}",
    )
    project.do("exec", "p.yaml")
    assert project.alive() == []


def test_one_that_is_not_ready_in_time_fails_with_its_last_output(project: Project, port: int) -> None:
    script = "echo $$ >pids; echo cannot bind >&2; exec sleep 600"
    service = f"  web: {{run: {json.dumps(script)}, ready: 'tcp://127.0.0.1:{port}', timeout: 1s}}"
    project.plan(service, "  - {id: use, needs: [web], run: touch ran}")
    said = project.do("exec", "p.yaml", code=1)
    assert f"was not ready in time: tcp://127.0.0.1:{port} did not answer; its last output: cannot bind" in said
    assert project.tasks() == {"web": "failed", "use": "omitted"}
    assert project.alive() == []


@pytest.mark.parametrize(("script", "said"), [
    ("echo no such database >&2; exit 3", "ended before it was ready: exit code 3: no such database"),
    ("setsid sleep 600 >/dev/null 2>&1 </dev/null & exit 0", "(exit code 0): a service stays in the foreground"),
])  # fmt: skip
def test_one_that_ends_before_it_is_ready_fails(project: Project, port: int, script: str, said: str) -> None:
    service = f"  web: {{run: {json.dumps(script)}, ready: 'tcp://127.0.0.1:{port}', timeout: 4m}}"
    project.plan(service, "  - {id: use, needs: [web], run: touch ran}")
    assert said in project.do("exec", "p.yaml", code=1)
    assert not (project.folder / "ran").exists()


def test_one_that_dies_fails_what_needs_it_and_leaves_the_others_alone(project: Project) -> None:
    script = "echo up; until test -e die; do sleep 0.01; done; echo out of memory >&2; exit 9"
    project.plan(
        f"  db: {{run: {json.dumps(script)}, ready: 'log: up', timeout: 4m}}",
        "  - {id: use, needs: [db], allow_failure: true, run: touch die; exec sleep 600}\n"
        "  - {id: other, run: 'until test -e die; do sleep 0.01; done'}\n"
        "  - {id: later, needs: [db, use], run: touch ran}",
        "on_failure: continue\n",
    )
    said = project.do("exec", "p.yaml", code=1)
    assert "the service `db` has ended: exit code 9: out of memory" in said
    assert project.tasks() == {"db": "completed", "use": "failed", "other": "completed", "later": "failed"}
    assert not (project.folder / "ran").exists()


def test_it_ends_with_a_run_that_waits_and_is_started_again_with_it(project: Project, port: int) -> None:
    tasks = "  - {id: go, needs: [web], gate: approval, ask: Go}\n"
    project.plan(web(port), tasks + f"  - {{id: use, needs: [web, go], run: {json.dumps(FETCH % port)}}}")
    project.do("exec", "p.yaml", code=8)
    assert len(project.pids()) == 1 and project.alive() == []
    project.do("approve", "last", "go")
    project.do("resume", "last")
    assert project.tasks() == {"web": "completed", "go": "completed", "use": "completed"}
    assert len(project.pids()) == 2 and project.alive() == []
    project.do("replay", "last")


SLOW = (
    "echo $$ >>pids; test ! -e approved || until test -e go; do sleep 0.01; done; touch serves; echo up; exec sleep 600"
)


def test_what_needs_it_through_others_waits_when_it_starts_again(project: Project) -> None:
    project.plan(
        f"  web: {{run: {json.dumps(SLOW)}, ready: 'log: up', timeout: 4m}}",
        "  - {id: migrate, needs: [web], run: rm serves}\n  - {id: go, needs: [migrate], gate: approval, ask: Go}\n"
        "  - {id: use, needs: [go], run: test -e serves}",
    )
    project.do("exec", "p.yaml", code=8)
    (project.folder / "approved").touch()
    project.do("approve", "last", "go")
    runner = project.start("resume", "last")
    wait_until(lambda: len(project.pids()) == 2)
    (project.folder / "go").touch()
    out, err = runner.communicate(timeout=240)
    assert runner.returncode == 0, out + err
    said = out + err
    assert said.index("web completed") < said.index("use started")
    project.do("replay", "last")


def test_what_ran_and_needs_it_through_others_waits_after_a_crash_and_an_interruption(project: Project) -> None:
    use = "touch began; test -e approved || exec sleep 600; test -e serves"
    project.plan(
        f"  web: {{run: {json.dumps(SLOW)}, ready: 'log: up', timeout: 4m}}",
        "  - {id: migrate, needs: [web], run: rm serves}\n"
        f"  - {{id: use, needs: [migrate], effect: idempotent, run: {json.dumps(use)}}}",
        "max_parallel: 1\n",
    )
    runner = project.start("exec", "p.yaml")
    wait_until((project.folder / "began").exists)
    runner.send_signal(signal.SIGKILL)
    runner.wait(240)
    (project.folder / "approved").touch()
    runner = project.start("resume", "last")
    wait_until(lambda: len(project.pids()) == 2)
    runner.send_signal(signal.SIGINT)
    out, err = runner.communicate(timeout=240)
    assert runner.returncode == 130, out + err
    runner = project.start("resume", "last")
    wait_until(lambda: len(project.pids()) == 3)
    (project.folder / "go").touch()
    out, err = runner.communicate(timeout=240)
    assert runner.returncode == 0, out + err
    assert project.tasks() == {"web": "completed", "migrate": "completed", "use": "completed"}
    project.do("replay", "last")


def test_where_it_fails_to_start_again_what_needs_it_through_others_is_not_run(project: Project) -> None:
    project.plan(
        "  web: {run: 'test ! -e approved || exit 3; echo up; exec sleep 600', ready: 'log: up', timeout: 4m}",
        "  - {id: go, needs: [web], gate: approval, ask: Go}\n  - {id: use, needs: [go], run: touch ran}",
        "on_failure: continue\n",
    )
    project.do("exec", "p.yaml", code=8)
    (project.folder / "approved").touch()
    project.do("approve", "last", "go")
    assert "the service `web` failed to start again" in project.do("resume", "last", code=1)
    assert project.tasks() == {"web": "failed", "go": "completed", "use": "omitted"}
    project.do("replay", "last")


@pytest.mark.parametrize("kind", ["tcp", "http"])
def test_a_port_that_another_program_listens_on_fails_it(project: Project, port: int, kind: str) -> None:
    project.plan(web(port, kind), "  - {id: use, needs: [web], run: touch ran}")
    with socket.create_server(("127.0.0.1", port)):
        said = project.do("exec", "p.yaml", code=1)
    assert f"port {port} of 127.0.0.1 is in use by another program" in said
    assert project.tasks() == {"web": "failed", "use": "omitted"}
    assert not (project.folder / "pids").exists(), "it was not started"
    project.do("retry", "last")
    assert project.tasks() == {"web": "completed", "use": "completed"}


def test_the_last_answer_tells_why_it_is_not_ready() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"http://127.0.0.1:{server.server_port}/health"
        lack = address_fault(address)
        server.shutdown()
    background = Background(cast("Any", None), cast("Any", None), cast("Any", Mock()), cast("Any", None), {})
    attempt: Any = SimpleNamespace(call=SimpleNamespace(name="web", ready=address))
    background._answered(attempt, lack)
    outcome = background.ended(attempt, cast("Any", SimpleNamespace(stdout="", stderr="")), Outcome("timeout"))
    assert outcome is not None
    assert outcome.message == f"was not ready in time: {address} answered 501"


def test_of_its_output_the_last_lines_are_shown(project: Project) -> None:
    script = "for n in $(seq 90); do echo line $n; done; exit 3"
    project.plan(f"  web: {{run: {json.dumps(script)}, ready: 'log: up', timeout: 4m}}", "  - {id: use, run: 'true'}")
    said = project.do("exec", "p.yaml", code=1)
    assert "70 lines before these: planrunner logs" in said
    assert "    line 71\n" in said and "    line 70\n" not in said


def test_after_a_crash_what_ran_waits_for_it(project: Project, port: int) -> None:
    script = f"touch began; until test -e go; do sleep 0.01; done; {FETCH % port}"
    project.plan(
        web(port), f"  - {{id: use, needs: [web], effect: idempotent, run: {json.dumps(script)}}}", "max_parallel: 1\n"
    )
    runner = project.start("exec", "p.yaml")
    wait_until((project.folder / "began").exists)
    runner.send_signal(signal.SIGKILL)
    runner.wait(240)
    (project.folder / "go").touch()
    project.do("resume", "last")
    assert project.tasks() == {"web": "completed", "use": "completed"}
    assert len(project.pids()) == 2 and project.alive() == []
    project.do("replay", "last")


def test_ctrl_c_ends_it_with_the_run(project: Project, port: int) -> None:
    project.plan(web(port), "  - {id: use, needs: [web], run: touch began; exec sleep 600}")
    runner = project.start("exec", "p.yaml")
    wait_until((project.folder / "began").exists)
    runner.send_signal(signal.SIGINT)
    assert runner.wait(240) == 130
    assert project.alive() == []


@pytest.mark.parametrize(("service", "said"), [
    ("db: {run: sleep 1, ready: 'tcp://example.org:80'}", "`ready` is tcp://127.0.0.1:PORT"),
    ("db: {run: sleep 1}", "a service needs the key `ready`"),
    ("db: {run: sleep 1, ready: 'log: up', reddy: 1}", "no key `reddy`, did you mean `ready`?"),
    ("db: {run: 'curl {{ params.nope }}', ready: 'log: up'}", "nope"),
    ("a b: {run: sleep 1, ready: 'log: up'}", "`a b` is not a name for a service"),
    ("use: {run: sleep 1, ready: 'log: up'}", "use"),
])  # fmt: skip
def test_lint_looks_at_services_as_at_tasks(project: Project, service: str, said: str) -> None:
    project.plan(f"  {service}", "  - {id: use, run: 'true'}")
    assert said in project.do("lint", "p.yaml", code=1)


def test_policy_denies_a_service_what_it_denies_a_task(project: Project) -> None:
    project.plan("  db: {run: nc -l 1, ready: 'log: up'}", "  - {id: use, needs: [db], run: 'true'}",
                 "policy: {capabilities: {deny: [{uses: shell, run: 'nc *'}]}}\n")  # fmt: skip
    assert "nc" in project.do("lint", "p.yaml", code=1)
