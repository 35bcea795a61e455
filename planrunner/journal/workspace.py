"""The state directory of a project: where it is, that it is ours, and what lies in it."""

from __future__ import annotations

import errno
import os
import stat

from planrunner.caller import workspace
from planrunner.errors import StorageFailed
from planrunner.fileio import sync_folder

NAME = ".planrunner"
FOLDERS = ("artifacts", "cache", "logs", "tmp", "locks")
"""Made in this order: if the last one exists, all do, even while another process makes them."""

FILES = tuple(f"{name}.db{end}" for name in ("journal", "queue", "follow") for end in ("", "-wal", "-shm", "-journal"))
_ROLLBACK = "-journal"
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
"""How the log for undoing a write ends when it names a file that SQLite then deletes; ours spans one database and never
does."""

_MARKS = (NAME, "planrunner.yaml", ".git")
_ELSEWHERE = "choose another state directory with --state DIR or PLANRUNNER_STATE"


def find_state(plan_path: str | None, chosen: str | None = None) -> str:
    """The absolute path of the state directory; nothing is created.

    ``chosen`` (``--state``) wins, then the environment variable PLANRUNNER_STATE. Else it is ``.planrunner`` in the
    nearest directory, upwards from the plan (without a plan: from the working directory), that holds ``.planrunner``,
    ``planrunner.yaml`` or ``.git``; where none does, ``.planrunner`` in the working directory.
    """
    chosen = chosen or workspace().state
    return os.path.abspath(chosen) if chosen else os.path.join(find_project(plan_path), NAME)


def find_project(plan_path: str | None) -> str:
    """The directory a plan belongs to, which is where its tasks run: see ``find_state``."""
    here = workspace().root
    start = os.path.dirname(os.path.join(here, plan_path)) if plan_path else here
    return _project(os.path.normpath(start)) or here


def program(state: str) -> str:
    """The command of this program for a state directory, from the working directory, as hints show it."""
    if state == find_state(None):
        return "planrunner"
    quoted = state.replace("'", "'\\''")
    return f"planrunner --state '{quoted}'"


def _project(directory: str) -> str | None:
    while True:
        if is_marked(directory):
            return directory
        above = os.path.dirname(directory)
        if above == directory:
            return None
        directory = above


def is_marked(directory: str) -> bool:
    """Whether a folder is a project, or holds the state directory of one."""
    return any(os.path.lexists(os.path.join(directory, mark)) for mark in _MARKS)


def prepare_state(state: str) -> None:
    """Make the state directory (mode 0700) and what belongs in it, where it is missing.

    The entries are durable on return. Raises StorageFailed for a place that cannot be written, and as ``check_state``.
    """
    try:
        if not os.path.lexists(state):
            os.makedirs(os.path.dirname(state), exist_ok=True)
            os.mkdir(state, 0o700)
            sync_folder(os.path.dirname(state))
    except FileExistsError:
        pass  # another process was first
    except OSError as error:
        raise unusable(state, error) from error
    check_state(state)
    try:
        _ignore(state)
        for folder in FOLDERS:
            _make(os.path.join(state, folder))
        sync_folder(state)
    except OSError as error:
        raise unusable(state, error) from error


def check_state(state: str) -> None:
    """Refuse a state directory that another user could have made: a link, another owner, writable by everybody.

    Raises StorageFailed; FileNotFoundError where there is none.
    """
    try:
        about = os.lstat(state)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unusable(state, error) from error
    if stat.S_ISLNK(about.st_mode):
        raise StorageFailed(f"the state directory `{state}` is a symbolic link, which is not followed", _ELSEWHERE)
    if not stat.S_ISDIR(about.st_mode):
        raise StorageFailed(f"the state directory `{state}` is not a directory", _ELSEWHERE)
    if about.st_uid != os.geteuid():
        users = f"user {about.st_uid}, not to you (user {os.geteuid()})"
        raise StorageFailed(f"the state directory `{state}` belongs to {users}", _as_owner(about.st_uid))
    if about.st_mode & stat.S_IWOTH:
        raise StorageFailed(
            f"the state directory `{state}` can be written by everybody, so anybody could have changed what lies in it",
            f"look through it, then make it yours alone with `chmod 700 {state}`, or {_ELSEWHERE}",
        )


def _as_owner(uid: int) -> str:
    """Root neither leaves files in the directory of another user nor trusts what is there."""
    if os.geteuid():
        return _ELSEWHERE
    return (
        f"run planrunner as its owner (`sudo -u '#{uid}' planrunner …`, in a container `--user {uid}`), or {_ELSEWHERE}"
    )


def check_contents(state: str) -> list[tuple[str, int]]:
    """What lies directly in a state directory and can be read or written by others, with its mode. A checkout of
    a foreign repository may carry a state directory: its links must not lead our writes elsewhere. Raises
    StorageFailed for a link, for what is of another kind than it should be, for what belongs to another user, and for a
    log that would have SQLite delete a file elsewhere."""
    open_paths: list[tuple[str, int]] = []
    for name in (*FILES, *FOLDERS):
        path = os.path.join(state, name)
        try:
            there = os.lstat(path)
        except OSError:
            continue
        if not (stat.S_ISDIR if name in FOLDERS else stat.S_ISREG)(there.st_mode):
            raise StorageFailed(f"`{path}` is a link or of another kind, and is not followed", _ELSEWHERE)
        if there.st_uid != os.geteuid():
            users = f"user {there.st_uid}, not to you (user {os.geteuid()})"
            raise StorageFailed(f"`{path}` belongs to {users}", f"look at it, then `chown {os.geteuid()} {path}`")
        if name.endswith(_ROLLBACK) and _ending(path) == _NAMES_ANOTHER:
            raise StorageFailed(
                f"`{path}` names another file, which SQLite would delete: planrunner did not write it",
                "look at where the state directory came from, then move that file away",
            )
        if there.st_mode & 0o077:
            open_paths.append((path, stat.S_IMODE(there.st_mode)))
    return open_paths


def _ending(path: str) -> bytes:
    try:
        with open(path, "rb", opener=private) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - len(_NAMES_ANOTHER)))
            return file.read(len(_NAMES_ANOTHER))
    except OSError:
        return b""  # it is gone by now, or SQLite cannot read it either


def mend_modes(state: str) -> tuple[str, ...]:
    """Make a state directory and what lies in it the user's alone; gives what to tell about that. Raises as
    ``check_contents``, and StorageFailed where a mode cannot be changed."""
    mode = stat.S_IMODE(os.lstat(state).st_mode)
    inside = check_contents(state)
    try:
        if mode & 0o077:
            os.chmod(state, 0o700)
        for path, _ in inside:
            try:
                os.chmod(path, 0o700 if os.path.isdir(path) else 0o600)
            except FileNotFoundError:
                pass  # the last one out has just taken the log away
    except OSError as error:
        raise unusable(state, error) from error
    if not mode & 0o077:
        return ()  # what lies in it could not be reached
    return (f"the state directory `{state}` had mode {mode:o}, so others could look into it: now it has 700",)


def private(path: str, flags: int) -> int:
    """The opener of a file in a state directory: no link is followed, and a new file is the user's alone."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _make(folder: str) -> None:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise


def _ignore(state: str) -> None:
    try:
        file = os.open(os.path.join(state, ".gitignore"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    try:
        os.write(file, b"*\n")
    finally:
        os.close(file)


def unusable(state: str, error: OSError) -> StorageFailed:
    """The error to show where the system refuses something in a state directory."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = f"free some space, then run the command again, or {_ELSEWHERE}" if full else _ELSEWHERE
    return StorageFailed(f"the state directory `{state}` cannot be used: {error.strerror or error}", hint)
