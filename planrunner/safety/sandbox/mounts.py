"""The view of the file system that ``bwrap`` is told to build: nothing but what is listed is there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from planrunner.safety.sandbox.confinement import Confinement
from planrunner.safety.sandbox.scopes import beneath

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = tuple(
    f"/etc/{name}"
    for name in (
        *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "timezone", "nsswitch.conf"),
        *("passwd", "group", "hosts", "services", "protocols", "mime.types", "magic", "inputrc", "bash.bashrc"),
        *("profile", "locale.alias", "debian_version", "os-release", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs"),
        *("pki/ca-trust/extracted", "ca-certificates", "fonts", "python3", "perl", "java"),
    )
)
"""Of the system's settings those that programs need to run; none of them is a secret."""
RESOLVER = "/etc/resolv.conf"
TEMPORARY, HOME, SHARED = "/tmp", "/tmp/home", "/dev/shm"  # noqa: S108 - made anew for each attempt
ROOM = 1 << 30
"""Bytes of temporary files, unless the limit on memory is smaller: they lie in memory."""


def mounts(confinement: Confinement, held: Mapping[str, int]) -> Iterator[str]:
    """The arguments of ``bwrap`` about files; ``held`` are the numbers of paths that it gets as open descriptors."""
    room = str(min(ROOM, confinement.limits.memory or ROOM))
    yield from _system(confinement)
    yield from ("--dev", "/dev", "--perms", "1777", "--size", room, "--tmpfs", SHARED, "--remount-ro", "/dev")
    yield from ("--proc", "/proc", "--remount-ro", "/proc")  # settings of the kernel lie there, and root may write them
    yield from ("--perms", "1777", "--size", room, "--tmpfs", TEMPORARY, "--dir", "/run")
    yield from ("--symlink", TEMPORARY, f"/var{TEMPORARY}", "--perms", "0700", "--dir", HOME)
    hidden = []
    for path, how in _layers(confinement):
        if how == "denied":
            if os.path.isdir(path):
                hidden.append(path)
                yield from ("--perms", "0755", "--tmpfs", path)
            else:
                yield from ("--ro-bind", "/dev/null", path)
        elif path in held:
            yield from ("--bind-fd" if how == "writable" else "--ro-bind-fd", str(held[path]), path)
        else:
            yield from ("--bind" if how == "writable" else "--ro-bind", path, path)
    if confinement.fresh and any(beneath(confinement.fresh, path) for path in hidden):
        yield from ("--perms", "0700", "--size", room, "--tmpfs", confinement.fresh)
    for path in hidden:
        yield from ("--remount-ro", path)
    yield from ("--remount-ro", "/")


def _system(confinement: Confinement) -> Iterator[str]:
    for path in SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    names = (*SETTINGS, RESOLVER) if confinement.network == "open" else SETTINGS
    for path in names:
        real = os.path.realpath(path)
        if os.path.exists(real):
            yield from ("--ro-bind", real, path)


def exchangeable(confinement: Confinement) -> list[str]:
    """Paths that are let in and that another task could exchange for a link meanwhile."""
    return [
        path
        for path, how in _layers(confinement)
        if how != "denied" and path != confinement.root and beneath(path, confinement.root)
    ]


def covers(confinement: Confinement) -> list[tuple[str, str]]:
    """What has to be laid over files where the rest of the view is that of the machine: what is denied, and what is let
    in otherwise than the folder around it. Outer layers come first."""
    layers = _layers(confinement)
    around = [path for path, _ in layers]
    return [
        (path, how)
        for path, how in layers
        if how == "denied" or any(path != other and beneath(path, other) for other in around)
    ]


def _layers(confinement: Confinement) -> list[tuple[str, str]]:
    """Each path and how it is let in, outer ones first; what lies in something denied is not let in again."""
    found: dict[str, str] = {}
    for how in ("readable", "writable", "guarded", "denied"):
        for path in getattr(confinement, how):
            if how == "readable" and any(beneath(path, system) for system in SYSTEM):
                continue
            found[path] = how
    visible = {
        path: how
        for path, how in found.items()
        if os.path.lexists(path)
        and not any(path != around and beneath(path, around) for around in confinement.denied)
        and (how != "denied" or _shows(path, found))
    }
    layers = sorted(visible.items(), key=lambda layer: layer[0].count("/") if layer[0] != "/" else 0)
    return [*layers, *([(confinement.own, "writable")] if confinement.own else [])]


def _shows(path: str, found: dict[str, str]) -> bool:
    """Whether a path would be seen if nothing were laid over it."""
    around = (*(other for other, how in found.items() if how != "denied"), *SYSTEM)
    return any(beneath(path, other) for other in around)
