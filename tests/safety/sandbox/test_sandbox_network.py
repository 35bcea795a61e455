"""The network of a sandbox: closed, or open to the hosts that every level allows and to nobody else."""

from __future__ import annotations

import http.server
import os
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sandbox_project import Project, needs_bubblewrap

from planrunner.machine.events import Outcome
from planrunner.plan.rights import Level
from planrunner.safety.sandbox.presence import PROCESSES

pytestmark = needs_bubblewrap

FETCH = (
    "import sys, urllib.request, urllib.error\n"
    "try: print(urllib.request.urlopen(sys.argv[1], timeout=240).read().decode())\n"
    "except urllib.error.HTTPError as error: print(error.code, error.read().decode()); sys.exit(1)\n"
)
TUNNEL = (
    "import http.client, os, sys\n"
    "from urllib.parse import urlsplit\n"
    "proxy, target = urlsplit(os.environ['https_proxy']), sys.argv[1].split(':')\n"
    "line = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=100)\n"
    "line.set_tunnel(target[0], int(target[1]))\n"
    "line.request('GET', '/within')\n"
    "print(line.getresponse().read().decode())\n"
)
STRAIGHT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"


class Answering(http.server.BaseHTTPRequestHandler):
    """Says which path was asked for, and of which host."""

    def do_GET(self) -> None:
        body = f"{self.path} of {self.headers['Host']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def server() -> Iterator[int]:
    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield serving.server_address[1]
    serving.shutdown()
    serving.server_close()


def python(project: Project, code: str, words: tuple[str, ...], *levels: Level) -> Outcome:
    command = (os.path.realpath(sys.executable), "-I", "-c", code, *words)
    return project.run("", *levels, arguments=command)


def allowing(project: Project, port: int, *hosts: str, deny: tuple[str, ...] = ()) -> Level:
    (project.folder / "planrunner.yaml").write_text(f"network: {{private: ['127.0.0.1:{port}']}}\n")
    return Level("task t", {"network": {"allow": list(hosts), "deny": list(deny)}})


def test_an_allowed_host_is_reached_and_no_other(project: Project, server: int) -> None:
    level = allowing(project, server, "localhost", f"127.0.0.1:{server}")
    outcome = python(project, FETCH, (f"http://127.0.0.1:{server}/a?b=c",), level)
    assert outcome.stdout == f"/a?b=c of 127.0.0.1:{server}\n", outcome
    outcome = python(project, FETCH, ("http://example.org/",), level)
    assert (outcome.failure, outcome.rule) == ("policy", "policy.network.allow"), outcome
    assert outcome.stdout.startswith("403 planrunner: ") and "example.org" in outcome.message


def test_a_tunnel_leads_to_allowed_hosts_alone(project: Project, server: int) -> None:
    level = allowing(project, server, f"127.0.0.1:{server}")
    assert python(project, TUNNEL, (f"127.0.0.1:{server}",), level).stdout.startswith("/within of ")
    outcome = python(project, TUNNEL, ("127.0.0.1:1",), level)
    assert (outcome.failure, outcome.rule) == ("policy", "policy.network.allow"), outcome


def test_nothing_leaves_past_the_proxy(project: Project, server: int) -> None:
    level = allowing(project, server, f"127.0.0.1:{server}")
    assert python(project, STRAIGHT, ("127.0.0.1", str(server)), level).failure == "logic"


def test_a_private_address_needs_the_operator(project: Project, server: int) -> None:
    level = Level("task t", {"network": {"allow": [f"127.0.0.1:{server}"]}})
    outcome = python(project, FETCH, (f"http://127.0.0.1:{server}/",), level)
    assert outcome.failure == "policy" and "private" in outcome.message, outcome


def test_what_is_denied_is_not_reached_though_it_is_allowed(project: Project, server: int) -> None:
    level = allowing(project, server, f"127.0.0.1:{server}", deny=("127.0.0.0/8",))
    outcome = python(project, FETCH, (f"http://127.0.0.1:{server}/",), level)
    assert (outcome.failure, outcome.rule) == ("policy", "policy.network.deny"), outcome


@pytest.mark.parametrize("policy", [{"sandbox": True}, {"network": {"allow": []}}, {"sandbox": {"network": False}}])
def test_a_closed_network_has_no_way_out(project: Project, server: int, policy: dict[str, Any]) -> None:
    outcome = python(project, STRAIGHT, ("127.0.0.1", str(server)), Level("task t", policy))
    assert outcome.failure == "logic" and "Connection refused" in outcome.stderr
    assert python(project, "import os; print(os.environ.get('http_proxy'))", (), Level("task t", policy)).stdout == (
        "None\n"
    )


def test_an_open_network_is_that_of_the_machine(project: Project, server: int) -> None:
    level = Level("task t", {"sandbox": {"network": True}})
    assert python(project, STRAIGHT, ("127.0.0.1", str(server)), level).failure == ""


@pytest.mark.parametrize("levels", [(True, False), (False, True)])
def test_one_level_that_closes_the_network_suffices(project: Project, server: int, levels: tuple[bool, bool]) -> None:
    both = [Level(name, {"sandbox": {"network": how}}) for name, how in zip(("the plan", "task t"), levels)]
    assert python(project, STRAIGHT, ("127.0.0.1", str(server)), *both).failure == "logic"


def test_what_is_no_request_is_told_so(project: Project, server: int) -> None:
    code = (
        "import os, socket\nfrom urllib.parse import urlsplit\n"
        "at = urlsplit(os.environ['http_proxy'])\n"
        "line = socket.create_connection((at.hostname, at.port), 240)\n"
        "line.sendall(b'GET / HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n')\n"
        "print(line.recv(1000).decode().splitlines()[0])"
    )
    outcome = python(project, code, (), allowing(project, server, "example.org"))
    assert outcome.stdout == "HTTP/1.1 400 Bad Request\n", outcome


def test_a_task_that_is_shut_in_sees_its_own_program_and_the_processes_of_the_sandbox(
    project: Project, server: int
) -> None:
    names = "import glob; print(*sorted(open(name).read().strip() for name in glob.glob('/proc/[0-9]*/comm')))"
    told = python(project, names, (), allowing(project, server, "example.org")).stdout.split()
    assert set(told) - {name for name in told if name.startswith("python")} == PROCESSES


def test_the_proxy_ends_with_the_attempt(project: Project, server: int) -> None:
    before = {thread.name for thread in threading.enumerate()}
    python(project, "pass", (), allowing(project, server, "example.org"))
    left = {thread.name for thread in threading.enumerate()} - before
    assert "planrunner-proxy" not in left or _gone("planrunner-proxy")


def _gone(name: str) -> bool:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(240)
            return not thread.is_alive()
    return True


def test_a_socket_of_the_machine_is_not_reached_by_its_name_in_memory(project: Project) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0planrunner-{os.getpid()}")
        listening.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0planrunner-{os.getpid()}')"
        level = Level("task t", {"sandbox": {"network": True}})
        assert python(project, code, (), level).failure == "logic"
