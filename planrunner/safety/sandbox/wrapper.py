"""A command and its environment as they have to be started so that the process is shut in."""

from __future__ import annotations

import contextlib
import fcntl
import marshal
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from planrunner.records import Struct
from planrunner.safety.sandbox import presence
from planrunner.safety.sandbox.confinement import Command, Confinement, Refused, beneath
from planrunner.safety.sandbox.presence import obstacle
from planrunner.safety.sandbox.syscalls import program

Json = Any

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(presence.INSIDE)))
SOCKET = "/run/proxy"
"""Where the proxy's socket is seen inside."""
NOBODY = "65534"
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"))
_UNIX, _INTERNET, _NETLINK = 1, (2, 10), 16
_SLACK = (2, 256 << 20, 64)
"""The kernel's own bounds lie above those that are watched, by this factor and so many bytes or processes: what is too
much is seen, and told by its rule, before a process fails by itself."""


class Wrapped(Struct):
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


def wrapped(confinement: Confinement, command: Command, shown: int = 0) -> Wrapped:
    """How to start the command shut in. The kind has to work here (``settled``). ``shown`` is a descriptor by which a
    sandbox with a temporary folder of its own hands that over, and is closed with those of ``Wrapped``."""
    if confinement.kind == "none":
        return Wrapped(tuple(command.arguments), dict(command.env), command.directory)
    if confinement.kind == "docker":
        arguments = contained(confinement, command, presence.docker()[0])
        return Wrapped(arguments, dict(command.env), command.directory, command.name)
    env = {**command.env, "HOME": HOME, "TMPDIR": temporary(confinement)}
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
    shows = (shown,) if shown else ()
    handles = sorted((*held.values(), order, *shows))  # so none is laid over one that has yet to be moved to its number
    numbers = {handle: command.first + at if command.first else handle for at, handle in enumerate(handles)}
    files = {path: numbers[handle] for path, handle in held.items()}
    arguments = (
        *_bubble(confinement, command, files),
        *_shim(numbers[order], str(numbers.get(shown, "--"))),
        *command.arguments,
    )
    return Wrapped(arguments, env, "/", descriptors=tuple(handles))


def _held(root: str, paths: Sequence[str]) -> dict[str, int]:
    handles: dict[str, int] = {}
    try:
        for path in paths:
            handles[path] = opened(root, path)
    except BaseException:
        _let_go(handles.values())
        raise
    return handles


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


def _shim(order: int, shown: str = "--") -> tuple[str, ...]:
    """What stands before a command inside; ``order`` is the number of the descriptor with its order, ``shown`` that by
    which it hands over the temporary folder."""
    return (presence.interpreter(), "-I", "-S", "-B", presence.INSIDE, str(order), shown)


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
        "temporary": temporary(confinement),
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
    limits, result = confinement.limits, {}
    if limits.files is not None:
        result["NOFILE"] = limits.files
    if limits.memory is not None:
        result["DATA"] = limits.memory * _SLACK[0] + _SLACK[1]
    if limits.processes is not None and confinement.kind == "bubblewrap":
        result["NPROC"] = limits.processes * _SLACK[0] + _SLACK[2]  # in its own user namespace only its processes count
    return result


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
        read = parted(read, confinement)
        write = parted(write, confinement, confinement.guarded)
    return {
        "least": presence.LEAST_ABI,
        "closed": confinement.network == "none",
        "read": read,
        "list": [confinement.root, os.path.dirname(PACKAGE)],  # modules are found by the names in their folder
        "write": [*write, confinement.own],
        "devices": list(_DEVICES),
    }


def contained(confinement: Confinement, command: Command, docker: str) -> tuple[str, ...]:
    """The call of docker that runs the command in the image. Values of variables are not among the arguments: the
    client takes them from its own environment. Raises Refused where hosts are to be judged one by one."""
    if confinement.network == "judged":
        raise Refused("docker cannot let in some hosts and no others", "choose `profile: bubblewrap`")
    limits = confinement.limits
    bounds = ["--ulimit", "core=0"]
    if limits.memory is not None:
        bounds += ["--memory", str(limits.memory), "--memory-swap", str(limits.memory)]
    if limits.processes is not None:
        bounds += ["--pids-limit", str(limits.processes)]
    if limits.files is not None:
        bounds += ["--ulimit", f"nofile={limits.files}"]
    network = () if confinement.network == "open" else ("--network", "none")
    return (
        *(docker, "run", "--rm", "--interactive", "--init", "--pull", "never", "--name", command.name, *network),
        *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", *bounds),
        *("--user", f"{os.getuid()}:{os.getgid()}", "--tmpfs", f"{TEMPORARY}:size=1g", "--env", f"HOME={TEMPORARY}"),
        *_mounts(confinement),
        *(part for name in sorted(command.env) if name not in ("PATH", "HOME", "TMPDIR") for part in ("--env", name)),
        *("--workdir", command.directory, "--entrypoint", command.arguments[0], confinement.image),
        *command.arguments[1:],
    )


def _mounts(confinement: Confinement) -> Iterator[str]:
    layers: dict[str, str] = {}
    for path in confinement.readable:
        if beneath(path, confinement.root):
            layers[path] = f"{path}:{path}:ro"
    layers |= {path: f"{path}:{path}" for path in confinement.writable}
    layers |= {path: f"{path}:{path}:ro" for path in confinement.guarded if _seen(path, confinement)}
    for path in sorted(layers, key=lambda each: each.count("/")):
        yield from ("--volume", layers[path])
    for path in confinement.denied:
        if _seen(path, confinement):
            yield from ("--tmpfs", f"{path}:ro") if os.path.isdir(path) else ("--volume", f"/dev/null:{path}:ro")
    if confinement.own:
        yield from ("--volume", f"{confinement.own}:{confinement.own}")


def _seen(path: str, confinement: Confinement) -> bool:
    return any(beneath(path, around) for around in (*confinement.readable, *confinement.writable))


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
TEMPORARY, HOME, SHARED = "/tmp", "/tmp/home", "/dev/shm"  # noqa: S108 - made for each attempt
ROOM = 1 << 30
"""Bytes of temporary files, unless the limit on memory is smaller: they lie in memory."""


def temporary(confinement: Confinement) -> str:
    """The folder for temporary files in a sandbox with files of its own. ``/tmp`` itself is that around a project that
    lies in it directly: what is written there has to fail, so there it is the home."""
    return HOME if os.path.dirname(confinement.root) == TEMPORARY else TEMPORARY


def mounts(confinement: Confinement, held: Mapping[str, int]) -> Iterator[str]:
    """The arguments of ``bwrap`` about files; ``held`` are the numbers of paths that it gets as open descriptors."""
    room = str(min(ROOM, confinement.limits.memory or ROOM))
    yield from _system(confinement)
    yield from ("--dev", "/dev", "--perms", "1777", "--size", room, "--tmpfs", SHARED, "--remount-ro", "/dev")
    yield from ("--proc", "/proc", "--remount-ro", "/proc")  # settings of the kernel lie there, and root may write them
    yield from ("--perms", "1777", "--size", room, "--tmpfs", TEMPORARY, "--dir", "/run")
    yield from ("--symlink", TEMPORARY, f"/var{TEMPORARY}", "--perms", "0700")
    hidden = []
    if temporary(confinement) == HOME:
        hidden.append(TEMPORARY)
        yield from ("--size", room, "--tmpfs", HOME)
    else:
        yield from ("--dir", HOME)
    around = os.path.dirname(confinement.root)
    if around != TEMPORARY and beneath(around, TEMPORARY):  # what is written there would be gone, and no one would know
        hidden.append(around)
        yield from ("--perms", "0755", "--tmpfs", around)
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
    chosen: dict[str, str] = {}
    for how in ("readable", "writable", "guarded", "denied"):
        for path in getattr(confinement, how):
            if how == "readable" and any(beneath(path, system) for system in SYSTEM):
                continue
            chosen[path] = how
    visible = {
        path: how
        for path, how in chosen.items()
        if os.path.lexists(path)
        and not any(path != around and beneath(path, around) for around in confinement.withheld(path))
        and (how != "denied" or _shows(path, chosen))
    }
    layers = sorted(visible.items(), key=lambda layer: layer[0].count("/") if layer[0] != "/" else 0)
    return [*layers, *([(confinement.own, "writable")] if confinement.own else [])]


def _shows(path: str, found: dict[str, str]) -> bool:
    """Whether a path would be seen if nothing were laid over it."""
    around = (*(other for other, how in found.items() if how != "denied"), *SYSTEM)
    return any(beneath(path, other) for other in around)


def parted(paths: Iterable[str], confinement: Confinement, guarded: Sequence[str] = ()) -> list[str]:
    """The paths, a folder that holds something denied or ``guarded`` taken apart into what else is in it. Nothing new
    can be made in a folder that was taken apart."""
    return [part for path in paths for part in _parts(path, (*confinement.withheld(path), *guarded))]


def _parts(path: str, without: Sequence[str]) -> Iterator[str]:
    if any(beneath(path, each) for each in without):
        return
    if os.path.islink(path):
        return  # what it leads to is let in by its own path or not at all
    if not any(beneath(each, path) for each in without):
        yield path
        return
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return
    for name in names:
        yield from _parts(os.path.join(path, name), without)


_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
HIGH = 300
"""Descriptors are kept from this number on, out of the way of those that a process is given."""


def opened(root: str, path: str) -> int:
    """A descriptor for a path that is the root or lies below it; both are real. Raises Refused where a link leads there
    now, and OSError where nothing does."""
    with _folder(root, os.path.dirname(path) if path != root else root) as folder:
        name = os.path.basename(path) if path != root else "."
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if stat.S_ISLNK(os.fstat(handle).st_mode):
            raise Refused(f"{path} became a link while it was to be let in", rule="sandbox.files")
        return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, HIGH)
    finally:
        os.close(handle)


def made(root: str, path: str, folder: bool) -> bool:
    """Make a folder, or an empty file, and the folders around it; whether the file was made now. Raises as ``opened``
    does."""
    with _folder(root, path if folder else os.path.dirname(path), make=True) as around:
        if folder:
            return False
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(os.path.basename(path), flags, 0o644, dir_fd=around))
        except FileExistsError:
            return False
        return True


def kept(content: bytes) -> int:
    """A descriptor from which these bytes are read, out of memory."""
    handle = os.memfd_create("order", os.MFD_CLOEXEC)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(handle, 0, os.SEEK_SET)
        return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, HIGH)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _folder(root: str, path: str, make: bool = False) -> Iterator[int]:
    handle = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.path.relpath(path, root).split("/"):
            if name == ".":
                continue
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=handle)
            try:
                inner = os.open(name, _FOLDER, dir_fd=handle)
            except NotADirectoryError:
                raise Refused(f"{path} is reached through a link or a file now", rule="sandbox.files") from None
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)
