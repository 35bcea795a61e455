"""Starting a program with ``posix_spawn``: environment, directory, place on the PATH, and why it cannot start."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping

from planrunner.capabilities.contract import Spawn

_ENTER = 'cd -- "$1" || exit 126; unset OLDPWD; shift; exec "$@"'
_TRANSIENT = frozenset((errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY))


_OF_AN_OUTER_RUN = frozenset(
    f"PLANRUNNER_{name}" for name in ("RUN_ID", "TASK", "ATTEMPT", "KEY", "IDEMPOTENCY_KEY", "UNDO", "OUTPUT")
)


class SpawnFailed(Exception):
    """A process could not be started; ``failure`` is the failure class of the attempt, ``rule`` what forbids it."""

    def __init__(self, failure: str, message: str, rule: str = "") -> None:
        super().__init__(message)
        self.failure = failure
        self.message = message
        self.rule = rule


class Programs:
    """Spawns programs in one base environment; remembers where on the PATH they are."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = {name: value for name, value in environment.items() if name not in _OF_AN_OUTER_RUN}
        self._found: dict[tuple[str, str, str], str] = {}
        self._null = _above_standard_descriptors()
        self._closed = tuple([(os.POSIX_SPAWN_CLOSE, number) for number in _inheritable()])

    def spawn(self, spawn: Spawn, env: dict[str, str], out: int, err: int) -> int:
        """The process number of the started program, which gets ``env`` and no more; raises SpawnFailed."""
        arguments, enter = spawn.arguments, self._directory(spawn.directory)
        if not arguments or not arguments[0]:
            raise SpawnFailed("logic", "there is no command to execute")
        if enter:
            # a change of directory here would be one for every thread of the process, so a shell makes it
            if code := _why_not(os.path.join(enter, self.locate(arguments[0], env, enter))):
                raise _explained(OSError(code, os.strerror(code)), arguments[0])
            arguments = ("/bin/sh", "-c", _ENTER, "sh", enter, *arguments)
        stdin = _memory_file(spawn.stdin) if spawn.stdin else self._null
        try:
            return self._spawn(arguments, env, (stdin, out, err, *spawn.descriptors))
        except ValueError as error:
            raise SpawnFailed("logic", f"the command cannot be started: {error}") from None
        except OSError as error:
            raise _explained(error, arguments[0]) from None
        finally:
            if stdin != self._null:
                os.close(stdin)

    def _spawn(self, arguments: tuple[str, ...], env: dict[str, str], streams: tuple[int, ...]) -> int:
        copies = [(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)]
        return os.posix_spawn(
            self.locate(arguments[0], env, ""),
            arguments,
            env,
            file_actions=(*self._closed, *copies),
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores these two, and a child would inherit that
        )

    def _directory(self, directory: str) -> str:
        """The directory to enter, or nothing when the process would be there anyway."""
        if not directory or directory == os.getcwd():
            return ""
        if not os.path.isdir(directory):
            raise SpawnFailed("logic", f"there is no folder `{directory}` to work in")
        return directory

    def locate(self, name: str, env: Mapping[str, str], directory: str) -> str:
        """The path of a program on the PATH of ``env``. Raises SpawnFailed where it is not there."""
        if "/" in name:
            return name
        path = env.get("PATH", os.defpath)
        found = self._found.get((name, path, directory))
        if found is None or not os.access(found, os.X_OK):
            found = self._found[name, path, directory] = search(name, path, directory)
        return found

    def close(self) -> None:
        os.close(self._null)


def _why_not(path: str) -> int:
    """Why the kernel would not execute a file (an errno), nought where nothing is known against it. A shell would take
    a file that is neither a program nor a script with a #! line for a script of its own."""
    if not os.access(path, os.X_OK):
        return errno.EACCES if os.path.exists(path) else errno.ENOENT
    try:
        with open(path, "rb") as file:
            head = file.read(4)
        other = set(os.listdir("/proc/sys/fs/binfmt_misc")) - {"register", "status"}
    except OSError:
        return errno.EACCES if os.path.isdir(path) else 0
    return 0 if head[:2] == b"#!" or head == b"\x7fELF" or other else errno.ENOEXEC


def search(name: str, path: str, directory: str) -> str:
    """The path of a program on this PATH, seen from a directory. Raises SpawnFailed where it is not there."""
    for folder in path.split(os.pathsep):
        candidate = os.path.join(directory, folder, name) if folder[:1] != "/" else f"{folder}/{name}"
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    raise SpawnFailed("logic", f"command not found: {name} is not on the PATH")


def _explained(error: OSError, name: str) -> SpawnFailed:
    code = error.errno
    if code in _TRANSIENT:
        return SpawnFailed("transient", f"{name} could not be started for now: {error.strerror}")
    if code == errno.ENOENT:
        return SpawnFailed("logic", f"command not found: {name}")
    if code == errno.E2BIG:
        return SpawnFailed("logic", f"{name} is given more text than a process may start with; hand it over in a file")
    if code == errno.ENOEXEC:
        return SpawnFailed("logic", f"{name} is neither a program nor a script with a #! line")
    return SpawnFailed("logic", f"{name} cannot be executed: {error.strerror}")


def _memory_file(data: bytes) -> int:
    """A descriptor that reads ``data``: a pipe would have to be fed while the process runs."""
    handle = os.memfd_create("stdin", os.MFD_CLOEXEC)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _inheritable() -> list[int]:
    """Descriptors that whoever started planrunner left open: they are not for the tasks."""
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if number > 2 and os.get_inheritable(number):
                found.append(number)
        except OSError:
            continue  # the one that listed them
    return found


def _above_standard_descriptors() -> int:
    """/dev/null on a descriptor above 2; closed standard streams are filled so that no pipe takes their numbers."""
    handle = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    while handle <= 2:
        handle = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    return handle
