"""Whether the sandbox holds on this machine: what must not succeed is tried from inside and looked at from outside."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from planrunner.records import Struct
from planrunner.safety.sandbox import presence
from planrunner.safety.sandbox.confinement import Command, Confinement, Kind
from planrunner.safety.sandbox.wrapper import PACKAGE, Wrapped, wrapped

Json = Any

_PROBES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "probes.py")
_PATIENCE = 60
_OF_THE_ENGINE = ("daemon",)
"""What no sandbox without namespaces could hold: the engine ends daemons with their task."""


class Probe(Struct):
    """One thing that was tried; ``found`` says what got out, and is empty where the sandbox held."""

    name: str
    held: bool
    found: str = ""


class _Outside(Struct):
    """What is put outside to be got at."""

    order: dict[str, Json]
    datagrams: socket.socket
    victim: subprocess.Popen[bytes]
    folder: str


def try_out(kind: Kind, only: Sequence[str] = ()) -> list[Probe]:
    """Every probe, or those named, against a confinement of this kind, which works here. Raises OSError where nothing
    can be started."""
    with contextlib.ExitStack() as stack:
        outside = _put_outside(stack)
        outside.order.update(only=list(only), left_out=_OF_THE_ENGINE if kind == "landlock" else ())
        said = _tried(kind, outside)
        seen = _seen_outside(outside)
    return [Probe(name, not (found or seen.get(name)), found or seen.get(name, "")) for name, found in said.items()]


def _put_outside(stack: contextlib.ExitStack) -> _Outside:
    folder = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="planrunner-doctor-")))
    token, mark = secrets.token_hex(16), f"planrunner-victim-{secrets.token_hex(8)}"
    workspace, outside, state = (os.path.join(folder, name) for name in ("project", "outside", "project/.planrunner"))
    for path in (
        outside,
        os.path.join(workspace, ".git", "hooks"),
        os.path.join(state, "tmp", "own"),
        f"{workspace}/keys",
    ):
        os.makedirs(path, mode=0o700)
    os.symlink(outside, f"{workspace}/assets")
    os.symlink("keys", f"{workspace}/alias")
    secrets_of = dict.fromkeys((f"{outside}/secret", f"{state}/journal.db", f"{workspace}/keys/key"), token)
    files = {f"{workspace}/planrunner.yaml": "", **secrets_of}
    for path, content in files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
    ports = [_listening(stack, family, address) for family, address in _LOCAL]
    abstract = f"planrunner-{secrets.token_hex(8)}"
    _listening(stack, socket.AF_UNIX, "\0" + abstract)
    _listening(stack, socket.AF_UNIX, f"{outside}/socket")
    datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    datagrams.bind(("127.0.0.1", ports[0]))
    datagrams.setblocking(False)
    command = (sys.executable, "-I", "-S", "-c", f"import time; time.sleep({_PATIENCE})  # {mark}")
    victim = stack.enter_context(subprocess.Popen(command, env={"SECRET": token}, stdin=subprocess.DEVNULL))
    stack.callback(victim.kill)
    order = {
        "token": token, "mark": mark, "daemon": f"planrunner-daemon-{secrets.token_hex(8)}", "victim": victim.pid,
        "namespace": os.readlink("/proc/self/ns/pid"), "port": ports[0], "port6": ports[1], "abstract": abstract,
        "socket": f"{outside}/socket", "secret_file": f"{outside}/secret", "outside": outside, "state": state,
        "journal": f"{state}/journal.db", "workspace": workspace,
        "home_file": os.path.join(os.path.expanduser("~"), f".{mark}"),
    }  # fmt: skip
    return _Outside(order, datagrams, victim, folder)


_LOCAL: tuple[tuple[int, Any], ...] = ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_INET6, ("::1", 0)))


def _listening(stack: contextlib.ExitStack, family: int, address: Any) -> int:
    """The port of a socket that takes connections; 0 where the machine has none of this family."""
    server = stack.enter_context(socket.socket(family))
    try:
        server.bind(address)
    except OSError:
        return 0
    server.listen()
    return int(server.getsockname()[1]) if family != socket.AF_UNIX else 0


def _tried(kind: Kind, outside: _Outside) -> dict[str, str]:
    workspace, state = outside.order["workspace"], outside.order["state"]
    engine = dict.fromkeys(map(os.path.realpath, (PACKAGE, sys.prefix, sys.base_prefix)))
    programs = tuple(path for path in engine if path not in ("/", "/usr"))
    guarded = (f"{workspace}/planrunner.yaml", f"{workspace}/.git", *programs)
    own = os.path.join(state, "tmp", "own")
    shut = Confinement(kind, workspace, (workspace,), programs, guarded, (state, f"{workspace}/keys"), own=own)
    arguments = (presence.interpreter(), "-I", "-S", "-B", _PROBES, json.dumps(outside.order))
    way = wrapped(shut, Command(arguments, {"PATH": os.defpath}, workspace))
    try:
        done = _run(way)
    finally:
        for each in way.descriptors:
            os.close(each)
    try:
        results = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.decode("utf-8", "replace").strip()[-500:]
        raise OSError(f"the probes did not come to their end ({done.returncode}): {said}") from None
    return dict(results)


def _run(way: Wrapped) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        way.arguments, env=way.env, cwd=way.directory, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=_PATIENCE, start_new_session=True, check=False, pass_fds=way.descriptors,
    )  # fmt: skip


def _seen_outside(outside: _Outside) -> dict[str, str]:
    """What probes have done that only shows here, by the name of the probe."""
    escapes = {}
    with contextlib.suppress(BlockingIOError):
        outside.datagrams.recv(100)
        escapes["send_datagram"] = "a datagram arrived outside"
    if outside.victim.poll() is not None:
        escapes["signal_everybody"] = "a process outside was ended"
    if os.path.lexists(outside.order["home_file"]):
        escapes["write_home"] = "a file was written into the home directory"
        os.unlink(outside.order["home_file"])
    if set(os.listdir(outside.order["outside"])) != {"secret", "socket"}:
        escapes["link_out"] = "a file was written outside"
    deadline = time.monotonic() + 1
    while (left := list(_running(outside.order["daemon"]))) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        escapes["daemon"] = "a daemon outlived its task"
        with contextlib.suppress(OSError):
            os.kill(pid, 9)
    return escapes


def _running(mark: str) -> Iterator[int]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
            if mark.encode() in file.read():
                yield int(name)
