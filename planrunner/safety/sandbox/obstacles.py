"""What keeps ``bwrap`` from working here, and what removes that: from what it said and from settings of the kernel."""

from __future__ import annotations

import os
from typing import NamedTuple

_MOST_OF_A_KIND = "/proc/sys/user/max_{}_namespaces"
_KINDS = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
_ENOUGH = 10_000
_OF_USERS = {
    "kernel.unprivileged_userns_clone": ("0", "only root may make user namespaces here"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "AppArmor keeps user namespaces from ordinary users"),
}
"""Settings that bind everybody but root: the value that does so, and what it means."""
_CONTAINER = "in a container, start that with `--security-opt {}`"


class Obstacle(NamedTuple):
    """``what`` is in the way, as one clause, and ``cure`` removes it."""

    what: str
    cure: str


def obstacle(why: str) -> Obstacle:
    """The obstacle behind ``why``, which is what ``presence.bubblewrap`` gives where it does not work."""
    if "no `bwrap`" in why:
        return Obstacle("there is no `bwrap` on the PATH", "install bubblewrap (`apt install bubblewrap`)")
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
