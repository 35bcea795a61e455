"""Why bubblewrap does not work, in a clause, and the next step: what it says there and how the kernel is set."""

from __future__ import annotations

import os

import pytest

from planrunner.safety.sandbox import presence
from planrunner.safety.sandbox.presence import obstacle

FORBIDDEN = (
    "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user "
    "namespaces. See <https://deb.li/bubblewrap> or <file:///usr/share/doc/bubblewrap/README.Debian.gz>."
)


@pytest.mark.parametrize(
    ("said", "what", "cure"),
    [
        ("`bwrap` is not on the PATH", "`bwrap` is not on", "apt install bubblewrap"),
        (FORBIDDEN, "user namespaces are not allowed", "seccomp=unconfined"),
        ("bwrap: Failed to make / slave: Permission denied", "user namespaces are not allowed", "seccomp=unconfined"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "/proc", "systempaths=unconfined"),
        ("bwrap: Unknown option --disable-userns", "Unknown option", "newer"),
        ("bwrap: something else", "something else", "user namespaces"),
    ],
)
def test_what_it_says_tells_the_next_step(monkeypatch: pytest.MonkeyPatch, said: str, what: str, cure: str) -> None:
    monkeypatch.setattr(presence, "_read", lambda path: "")  # whatever the settings of this machine are
    found = obstacle(said)
    assert what in found.what and cure in found.cure
    assert len(found.what) + len(found.cure) < 110, "a line of a report has room for it, with what is around it"


@pytest.mark.parametrize(
    ("uid", "path", "value", "cure"),
    [
        (0, "/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
        (1000, "/proc/sys/user/max_net_namespaces", "0", "sysctl user.max_net_namespaces=10000"),
        (1000, "/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
        (0, "/proc/sys/kernel/unprivileged_userns_clone", "0", "seccomp=unconfined"),
        (
            *(1000, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_a_setting_that_forbids_it_is_named(
    monkeypatch: pytest.MonkeyPatch, uid: int, path: str, value: str, cure: str
) -> None:
    monkeypatch.setattr(presence, "_read", lambda asked: value if asked == path else "")
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert cure in obstacle(FORBIDDEN).cure
