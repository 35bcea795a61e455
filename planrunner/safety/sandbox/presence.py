"""What this machine has to shut processes in with, tried once for each process of planrunner."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import sys

from planrunner.records import Struct

LANDLOCK = {"create": 444, "add": 445, "restrict": 446}
"""Numbers of the system calls, the same on every architecture."""
LEAST_ABI = 6
"""From this version on Landlock also keeps signals and abstract sockets within."""
INSIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside.py")
"""The script that sets a process up inside."""
PROCESSES = frozenset({"bwrap", "sandbox-relay"})
"""Names of the sandbox's own processes. They end a moment after the task that they shut in."""
_PATIENCE = 10
_SYSTEM = ("/usr/bin", "/usr/local/bin", "/bin")


@functools.cache
def bubblewrap() -> tuple[str, str]:
    """The path of ``bwrap``, and why it does not work here where it does not."""
    folders = [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(each)]
    folders.sort(key=lambda folder: folder not in _SYSTEM)  # a project's own program of that name comes last
    path = shutil.which("bwrap", path=os.pathsep.join(folders))
    if path is None:
        return "", "`bwrap` is not on the PATH"
    trial = (path, "--unshare-all", "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534")
    roots = ("--ro-bind", "/", "/", "--proc", "/proc", "--remount-ro", "/proc", "--die-with-parent", "--", "/bin/true")
    try:
        done = subprocess.run([*trial, *roots], capture_output=True, timeout=_PATIENCE, env={}, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return path, f"`bwrap` cannot be started: {error}"
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return path, "" if done.returncode == 0 else f"`bwrap` does not work here: {said[-1] if said else done.returncode}"


@functools.cache
def takes_descriptors() -> bool:
    """Whether this ``bwrap`` lets in what it gets as an open descriptor."""
    try:
        done = subprocess.run([bubblewrap()[0], "--help"], capture_output=True, timeout=_PATIENCE, env={}, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return b"--ro-bind-fd" in done.stdout + done.stderr


@functools.cache
def landlock() -> int:
    """The version of Landlock that the kernel offers; 0 without Landlock."""
    try:
        version = ctypes.CDLL(None, use_errno=True).syscall(LANDLOCK["create"], None, 0, 1)
    except (OSError, AttributeError):
        return 0
    return max(0, int(version))


@functools.cache
def covers() -> bool:
    """Whether a process can have mounts of its own here, without bubblewrap, to be laid over files."""
    try:
        command = [interpreter(), "-I", "-S", "-B", INSIDE, "covers"]
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, env={}, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


@functools.cache
def docker() -> tuple[str, str]:
    """The path of ``docker``, and why no engine answers where none does."""
    path = shutil.which("docker")
    if path is None:
        return "", "`docker` is not on the PATH"
    try:
        done = subprocess.run(
            [path, "version", "--format", "{{.Server.Version}}"],
            capture_output=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return path, f"`docker` cannot be started: {error}"
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return path, "" if done.returncode == 0 else f"no docker engine answers: {said[-1] if said else done.returncode}"


def interpreter() -> str:
    """The interpreter that sets a process up inside: the very one that runs this, links resolved."""
    return os.path.realpath(sys.executable)


_MOST_OF_A_KIND = "/proc/sys/user/max_{}_namespaces"
_KINDS = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
_ENOUGH = 10_000
_OF_USERS = {
    "kernel.unprivileged_userns_clone": ("0", "only root may make user namespaces here"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "AppArmor keeps user namespaces from ordinary users"),
}
"""Settings that bind everybody but root: the value that does so, and what it means."""
_CONTAINER = "in a container, start that with `--security-opt {}`"


class Obstacle(Struct):
    """``what`` is in the way, as one clause, and ``cure`` removes it."""

    what: str
    cure: str


def obstacle(why: str) -> Obstacle:
    """The obstacle behind ``why``, which is what ``presence.bubblewrap`` gives where it does not work."""
    if "`bwrap` is not on the PATH" in why:
        return Obstacle("`bwrap` is not on the PATH", "install bubblewrap (`apt install bubblewrap`)")
    for kind in _KINDS:
        if _read(_MOST_OF_A_KIND.format(kind)) == "0":
            name = f"user.max_{kind}_namespaces"
            return Obstacle(f"`{name}` is 0 here", f"`sysctl {name}={_ENOUGH}` as root")
    if os.geteuid():
        for name, (value, what) in _OF_USERS.items():
            if _read(f"/proc/sys/{name.replace('.', '/')}") == value:
                return Obstacle(what, f"`sysctl {name}={1 - int(value)}` as root")
    if "mount proc" in why:
        return Obstacle("parts of `/proc` are hidden here", _CONTAINER.format("systempaths=unconfined"))
    if "No permissions" in why or "not permitted" in why or "denied" in why:
        return Obstacle("user namespaces are not allowed here", _CONTAINER.format("seccomp=unconfined"))
    said = why.rpartition("bwrap: ")[2]
    if "Unknown option" in why:
        return Obstacle(f"`bwrap` is too old: {said}", "install version 0.8 of bubblewrap or a newer one")
    return Obstacle(f"`bwrap` says: {said}", "allow user namespaces")


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
