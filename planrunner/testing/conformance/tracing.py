"""What a call does to the world outside, seen by the kernel: run in a forked process under strace, or, where there is
none, with Python's audit hooks, which see what Python does and not what its programs do."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from planrunner.ancestry import look
from planrunner.engine.orphans import pids

_CALLS = "%file,%network,fchdir,clone,clone3,vfork,fork,ftruncate,fchmod,fchown,fsetxattr,futimesat"
_PATIENCE = 60.0


class Observed(NamedTuple):
    """What came back, the paths that were written to or changed, and the INET addresses that were connected to."""

    result: Any
    writes: tuple[str, ...]
    connections: tuple[str, ...]
    complete: bool
    """False without strace: programs that were started are not seen."""


def observe(work: Callable[[], Any], folder: str) -> Observed:
    """Do ``work`` in a forked process and watch it; ``folder`` is for what the watching leaves behind. Raises
    RuntimeError where ``work`` raises."""
    return _traced(work, folder) if can_trace() else _audited(work)


@cache
def can_trace() -> bool:
    """Whether strace is there and may watch the processes of this user."""
    if shutil.which("strace") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        try:
            return bool(_traced(lambda: "seen", folder).result == "seen")
        except (OSError, RuntimeError):
            return False


def _traced(work: Callable[[], Any], folder: str) -> Observed:
    go_read, go_write = os.pipe()
    child, results = _fork(work, lambda: os.read(go_read, 1))
    os.close(go_read)
    told = os.path.join(folder, "strace.err")
    try:
        with open(told, "wb") as said:
            watcher = subprocess.Popen(
                ["strace", "-f", "-ff", "-y", "-e", f"trace={_CALLS}", "-p", str(child),
                 "-o", os.path.join(folder, "trace")],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
            )  # fmt: skip
        _await_attached(watcher, told)
        os.write(go_write, b"x")
    finally:
        os.close(go_write)
        result = _result(child, results)
    try:
        watcher.wait(5)
    except subprocess.TimeoutExpired:  # something that was started lives on: what it did so far counts
        watcher.terminate()
        watcher.wait()
    writes, connections = _read_traces(folder, child)
    return Observed(result, writes, connections, True)


def _await_attached(watcher: subprocess.Popen[bytes], told: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while "attached" not in (said := Path(told).read_text(errors="replace")):
        if watcher.poll() is not None or time.monotonic() > deadline:
            watcher.kill()
            raise RuntimeError(f"strace cannot watch: {said.strip()}")
        time.sleep(0.002)


def _audited(work: Callable[[], Any]) -> Observed:
    seen: list[tuple[str, str]] = []

    def watched() -> Any:
        os.open = _opening  # in this child alone
        sys.addaudithook(lambda event, given: seen.extend(_audit(event, given)))
        return work(), seen

    child, results = _fork(watched, lambda: None)
    result, found = _result(child, results)
    writes = tuple(dict.fromkeys(what for kind, what in found if kind == "write"))
    return Observed(result, writes, tuple(dict.fromkeys(what for kind, what in found if kind == "connect")), False)


_PATH_EVENTS = {
    "os.mkdir": ((0, 2),),
    "os.rename": ((0, 2), (1, 3)),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.link": ((0, 2), (1, 3)),
    "os.symlink": ((1, 2),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.truncate": ((0, None),),
    "os.utime": ((0, 3),),
}
"""Where the arguments of an audit event have each path that changes, and the descriptor of the folder it starts at."""

_open = os.open
_folder = threading.local()


def _opening(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    """``os.open`` that notes the folder for the audit event, which does not carry it."""
    _folder.descriptor = dir_fd
    try:
        return _open(path, flags, mode, dir_fd=dir_fd)
    finally:
        _folder.descriptor = None


def _audit(event: str, given: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    if event == "open" and isinstance(given[0], (str, bytes)):
        flags = given[2] if isinstance(given[2], int) else 0
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            yield "write", _absolute(given[0], getattr(_folder, "descriptor", None))
    elif event in _PATH_EVENTS:
        for path, folder in _PATH_EVENTS[event]:
            if isinstance(given[path], (str, bytes)):
                yield "write", _absolute(given[path], None if folder is None else given[folder])
    elif event == "socket.connect" and isinstance(given[1], tuple):
        yield "connect", f"{given[1][0]}:{given[1][1]}"


def _absolute(path: str | bytes, folder: int | None) -> str:
    """The path from the root; ``folder`` is the descriptor it starts at, None or -1 for the current directory."""
    name = os.fsdecode(path)
    if folder is not None and folder >= 0 and not os.path.isabs(name):
        name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
    return os.path.abspath(name)


def _fork(work: Callable[[], Any], ready: Callable[[], object]) -> tuple[int, int]:
    """A child that does the work once it is ``ready``, and the descriptor its result comes from."""
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    try:
        sys.dont_write_bytecode = True
        ready()
        try:
            data = pickle.dumps((work(), ""))
        except BaseException:
            data = pickle.dumps((None, traceback.format_exc()))
        with open(write, "wb") as pipe:
            pipe.write(data)
    finally:
        os._exit(0)


def _result(child: int, descriptor: int) -> Any:
    with open(descriptor, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    if not data:
        raise RuntimeError("the process that made the call ended without a result")
    result, problem = pickle.loads(data)  # noqa: S301 (our own child wrote it)
    if problem:
        raise RuntimeError(problem)
    return result


# Reading what strace wrote: a file for each process, a line for each call.

_LINE = re.compile(r"^(?P<call>\w+)\((?P<given>.*)\)\s+= (?P<code>-?\d+)(?P<rest>.*)$")
_NEW = frozenset({"clone", "clone3", "vfork", "fork"})
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_AT = re.compile(r"(?:AT_FDCWD|\d+)<([^>]*)>")
_INET = re.compile(
    r"sa_family=AF_INET6?,.*?sin6?_port=htons\((\d+)\).*?(?:inet_addr\(|inet_pton\(AF_INET6, )\"([^\"]+)\""
)
_WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_CHANGING = re.compile(
    r"^(creat|rename|unlink|mkdir|rmdir|link|symlink|f?chmod|[lf]?chown|f?truncate|utim|futimesat|mknod|[lf]?setxattr"
    r"|[lf]?removexattr)"
)


def _read_traces(folder: str, first: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    writes: dict[str, None] = {}
    connections: dict[str, None] = {}
    waiting = [(first, os.getcwd())]
    for pid, directory in waiting:  # children are found in the trace of who made them
        for call, given, code, rest in _calls(os.path.join(folder, f"trace.{pid}")):
            if call in _NEW:
                waiting.append((code, directory))
            elif call == "chdir":
                directory = os.path.join(directory, _texts(given)[0])
            elif call == "fchdir":
                directory = (_AT.findall(given) or [directory])[0]
            elif call in ("connect", "sendto", "sendmsg", "sendmmsg"):
                connections.update(dict.fromkeys(f"{host}:{port}" for port, host in _INET.findall(given)))
            elif call.startswith("open") and _WRITING.search(given):
                writes.update(dict.fromkeys(_AT.findall(rest) or _targets(given, directory)))
            elif call.startswith("symlink"):
                writes.update(dict.fromkeys(_targets(_TEXT.sub("", given, count=1), directory)))  # not where it leads
            elif _CHANGING.match(call):
                writes.update(dict.fromkeys(_targets(given, directory)))
    return tuple(os.path.normpath(path) for path in writes), tuple(connections)


def _calls(path: str) -> Iterator[tuple[str, str, int, str]]:
    """The calls that succeeded; a connection under way counts as well."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                match = _LINE.match(line.rstrip("\n"))
                if match and (int(match["code"]) >= 0 or "EINPROGRESS" in match["rest"] or match["call"] == "connect"):
                    yield match["call"], match["given"], int(match["code"]), match["rest"]
    except FileNotFoundError:
        return


def _targets(given: str, directory: str) -> list[str]:
    """The paths that a call names, each from the folder of its descriptor or from the working directory."""
    texts, folders = _texts(given), _AT.findall(given)
    if not texts:
        return folders[:1]
    bases = folders if len(folders) == len(texts) else [folders[0] if folders else directory] * len(texts)
    return [os.path.join(base, text) for base, text in zip(bases, texts)]


def _texts(given: str) -> list[str]:
    found = _TEXT.findall(re.sub(r"<[^>]*>", lambda part: part[0].replace('"', ""), given))
    return [_unescaped(text) for text in found]


def _unescaped(text: str) -> str:
    """A text as strace writes it, with bytes as ``\\303``, as a path."""
    plain = text.encode("ascii", "replace").decode("unicode_escape", "replace")
    return plain.encode("latin-1", "replace").decode("utf-8", "surrogateescape")


def children(known: frozenset[int] = frozenset()) -> frozenset[int]:
    """The ids of the processes below this one that run, those of its children included; empty where the system does
    not tell. What is ``known`` is left out, with all that it starts meanwhile."""
    parents = dict(_processes())
    numbers: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        above = waiting.pop()
        below = [
            process
            for process, parent in parents.items()
            if parent == above and process not in numbers and process not in known
        ]
        numbers.update(below)
        waiting += below
    return frozenset(numbers)


def told(processes: Iterable[int]) -> str:
    """Processes in words: what each was started as, and its id."""
    return ", ".join(f"`{_command(process)}` ({process})" for process in sorted(processes))


def _processes() -> Iterable[tuple[int, int]]:
    """Each process that has not ended, and its parent."""
    try:
        every = pids()
    except OSError:
        return
    for seen in filter(None, map(look, every)):
        if seen.state not in "ZX":
            yield seen.pid, seen.parent


def _command(process: int) -> str:
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return "?"
