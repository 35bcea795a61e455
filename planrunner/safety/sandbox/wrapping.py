"""A command and its environment as they have to be started so that the process is shut in."""

from __future__ import annotations

import marshal
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from planrunner.safety.sandbox import presence
from planrunner.safety.sandbox.around import parted
from planrunner.safety.sandbox.confinement import Command, Confinement, Refused
from planrunner.safety.sandbox.container import contained
from planrunner.safety.sandbox.holding import kept, opened
from planrunner.safety.sandbox.mounts import (
    HOME,
    RESOLVER,
    SETTINGS,
    SHARED,
    SYSTEM,
    TEMPORARY,
    covers,
    exchangeable,
    mounts,
)
from planrunner.safety.sandbox.obstacles import obstacle
from planrunner.safety.sandbox.scopes import beneath
from planrunner.safety.sandbox.syscalls import program

Json = Any

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(presence.INSIDE)))
SOCKET = "/run/proxy"
"""Where the proxy's socket is seen inside."""
NOBODY = "65534"
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"))
_UNIX, _INTERNET, _NETLINK = 1, (2, 10), 16
_SLACK = (2, 256 << 20, 64)
"""The kernel's own bounds lie above those that are watched, by this factor and so many bytes or processes: what is too
much is seen, and told by its rule, before a process fails by itself."""


class Wrapped(NamedTuple):
    """What to start, with which environment and where. ``descriptors`` have to be handed on to it and closed here;
    ``container`` is the name of one to be removed afterwards."""

    arguments: tuple[str, ...]
    env: dict[str, str]
    directory: str
    container: str = ""
    descriptors: tuple[int, ...] = ()


def settled(confinement: Confinement, asked: bool) -> Confinement:
    """The confinement of a kind that works here; ``asked`` means that it must be the one that was asked for. Raises
    Refused where nothing does."""
    if confinement.kind == "bubblewrap" and (why := presence.bubblewrap()[1]):
        weaker = confinement._replace(kind="landlock")
        if asked or not _suffices(weaker):
            raise Refused(f"the sandbox cannot be set up: {obstacle(why).what}", _cure(why))
        if _is_closed_at_the_top(weaker):
            words = f"Landlock alone lets no files be made in {weaker.root} itself, only in folders there"
            named = "name the folders that are written (`policy: {files: {write: [build/**]}}`)"
            raise Refused(words, f"{named}, or {_cure(why)}")
        return weaker
    if confinement.kind == "landlock" and not _suffices(confinement):
        raise Refused(_too_little(confinement), _cure(presence.bubblewrap()[1]))
    if confinement.kind == "docker":
        if why := presence.docker()[1]:
            raise Refused(f"the sandbox cannot be set up: {why}", "start the engine, or choose `profile: bubblewrap`")
        if not confinement.image:
            raise Refused("the profile `docker` needs an image", "write `sandbox: {profile: docker, image: …}`")
    return confinement


def _is_closed_at_the_top(confinement: Confinement) -> bool:
    """Whether the working directory may be written and has to be let in part by part, since something in it may not."""
    root = confinement.root
    held = (*confinement.denied, *confinement.guarded)
    return root in confinement.writable and any(beneath(path, root) for path in held) and not presence.covers()


def _suffices(confinement: Confinement) -> bool:
    """Whether Landlock can enforce it: it knows no hosts."""
    return presence.landlock() >= presence.LEAST_ABI and confinement.network != "judged"


def _too_little(confinement: Confinement) -> str:
    version = presence.landlock()
    if confinement.network == "judged" and version >= presence.LEAST_ABI:
        return "Landlock alone cannot let in some hosts and no others"
    return f"Landlock cannot shut it in: version {presence.LEAST_ABI} is needed, the kernel has {version or 'none'}"


def _cure(why: str) -> str:
    cure = obstacle(why).cure if why else "ask for `sandbox: bubblewrap`, which works here"
    return f"{cure}, see `planrunner doctor --sandbox`, or run with --no-sandbox at a terminal"


def wrapped(confinement: Confinement, command: Command) -> Wrapped:
    """How to start the command shut in. The kind has to work here (``settled``)."""
    if confinement.kind == "none":
        return Wrapped(tuple(command.arguments), dict(command.env), command.directory)
    if confinement.kind == "docker":
        arguments = contained(confinement, command, presence.docker()[0])
        return Wrapped(arguments, dict(command.env), command.directory, command.name)
    env = {**command.env, "HOME": HOME, "TMPDIR": TEMPORARY}
    if confinement.kind == "landlock":
        env |= dict.fromkeys(("HOME", "TMPDIR"), confinement.own or confinement.root)
        order = _kept(confinement, command)
        arguments = (*_shim(command.first or order), *command.arguments)
        return Wrapped(arguments, env, command.directory, descriptors=(order,))
    held = _held(confinement.root, exchangeable(confinement) if presence.takes_descriptors() else [])
    try:
        order = _kept(confinement, command)
    except BaseException:
        _let_go(held.values())
        raise
    handles = sorted((*held.values(), order))  # so none is laid over one that has yet to be moved to its number
    numbers = {handle: command.first + at if command.first else handle for at, handle in enumerate(handles)}
    files = {path: numbers[handle] for path, handle in held.items()}
    arguments = (*_bubble(confinement, command, files), *_shim(numbers[order]), *command.arguments)
    return Wrapped(arguments, env, "/", descriptors=tuple(handles))


def _held(root: str, paths: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    try:
        for path in paths:
            found[path] = opened(root, path)
    except BaseException:
        _let_go(found.values())
        raise
    return found


def _let_go(handles: Iterable[int]) -> None:
    for handle in handles:
        os.close(handle)


def _bubble(confinement: Confinement, command: Command, held: Mapping[str, int]) -> tuple[str, ...]:
    share = ("--share-net",) if confinement.network == "open" else ()
    proxy = ("--ro-bind", command.proxy, SOCKET) if command.proxy else ()
    return (
        presence.bubblewrap()[0],
        *("--unshare-all", *share, "--unshare-user", "--disable-userns", "--uid", NOBODY, "--gid", NOBODY),
        *("--hostname", "sandbox", "--die-with-parent", "--new-session"),
        *_with_proxy(tuple(mounts(confinement, held)), proxy),
        *("--chdir", command.directory, "--"),
    )


def _with_proxy(files: tuple[str, ...], proxy: tuple[str, ...]) -> tuple[str, ...]:
    """The root becomes read-only last."""
    return (*files[:-2], *proxy, *files[-2:])


def _shim(order: int) -> tuple[str, ...]:
    """What stands before a command inside; ``order`` is the number of the descriptor with its order."""
    return (presence.interpreter(), "-I", "-S", "-B", presence.INSIDE, str(order), "--")


def _kept(confinement: Confinement, command: Command) -> int:
    """A descriptor with the order: as an argument it would have no room for a folder of thousands of files."""
    return kept(marshal.dumps(_order(confinement, command)))


def _order(confinement: Confinement, command: Command) -> dict[str, Json]:
    alone = confinement.kind == "landlock"
    return {
        "title": command.title or command.arguments[0],
        "relay": SOCKET if command.proxy else "",
        "drop": alone,
        "covers": covers(confinement) if alone and presence.covers() else [],
        "directory": command.directory,
        "landlock": _rules(confinement),
        "limits": _limits(confinement),
        "filter": program(os.uname().machine, _families(confinement), owners=not alone),
    }


def _families(confinement: Confinement) -> tuple[int, ...]:
    """Of sockets that may be made. Landlock does not keep a process from a socket file, behind which a daemon with more
    rights may listen; in the network of the machine it alone keeps one from sockets that have a name in memory only."""
    if confinement.kind == "landlock":
        return (_NETLINK,) if confinement.network == "none" else (_NETLINK, *_INTERNET)
    if confinement.network == "open" and presence.landlock() < presence.LEAST_ABI:
        return (_NETLINK, *_INTERNET)
    return (_NETLINK, _UNIX, *_INTERNET)


def _limits(confinement: Confinement) -> dict[str, int]:
    limits, found = confinement.limits, {}
    if limits.files is not None:
        found["NOFILE"] = limits.files
    if limits.memory is not None:
        found["DATA"] = limits.memory * _SLACK[0] + _SLACK[1]
    if limits.processes is not None and confinement.kind == "bubblewrap":
        found["NPROC"] = (
            limits.processes * _SLACK[0] + _SLACK[2]
        )  # in a namespace of users of its own nobody else counts
    return found


def _rules(confinement: Confinement) -> dict[str, Json]:
    """Landlock is the wall where it stands alone, and behind namespaces the second one."""
    if confinement.kind == "bubblewrap":
        if presence.landlock() < presence.LEAST_ABI:
            return {}
        write = [*confinement.writable, TEMPORARY, SHARED, *filter(None, (confinement.own, confinement.fresh))]
        return {"least": 1, "closed": False, "read": ["/"], "list": [], "write": write, "devices": ["/dev"]}
    settings = (*SETTINGS, RESOLVER) if confinement.network == "open" else SETTINGS
    read = [*map(os.path.realpath, (*SYSTEM, *settings)), "/proc", *confinement.readable, *confinement.guarded]
    write = [*confinement.writable]
    if not presence.covers():
        read = parted(read, confinement.denied)
        write = parted(write, (*confinement.denied, *confinement.guarded))
    return {
        "least": presence.LEAST_ABI,
        "closed": confinement.network == "none",
        "read": read,
        "list": [confinement.root, os.path.dirname(PACKAGE)],  # modules are found by the names in their folder
        "write": [*write, confinement.own],
        "devices": list(_DEVICES),
    }
