"""Carries out changes to a tree, all or none: everything is prepared beside its place, made durable, then switched in.

Each switch is one rename, which takes what stood there aside in the same moment. It is compared with what was expected,
so that the work of others is noticed and put back, never lost. When anything fails all is switched back; after a kill
the same can be done with nothing but the list of steps.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence

from planrunner.failures import Failure
from planrunner.files import beneath
from planrunner.files.beneath import Beneath
from planrunner.files.changes import AS_IT_COMES, WAY, Step, fits
from planrunner.files.walk import FileState, state_at, state_in

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def perform(tree: Beneath, steps: Sequence[Step]) -> None:
    """Carry out the steps. Raises Failure, with everything as it was, when one of them cannot be done."""
    try:
        for step in steps:
            tree.go_on()
            try:
                _prepare(tree, step)
            except OSError as error:  # it names what lies aside, which the user does not know of
                raise OSError(error.errno, error.strerror, step.change.path) from None
        with tree.undisturbed():
            for step in _removals(steps):
                _take_away(tree, step)
            for step in _placements(steps):
                _put(tree, step)
            _settle_modes(tree, steps)
            _sync(tree, steps)
    except OSError as error:
        back(tree, steps)
        raise Failure(f"{error.filename or 'the tree'} cannot be written: {error.strerror}") from None
    except BaseException:
        back(tree, steps)
        raise
    clean(tree, steps)


def settle(tree: Beneath, steps: Sequence[Step]) -> bool:
    """What became of steps that a kill may have cut off: True when all of them are done. Otherwise those that are done
    are undone, so that they can be done again; what others have changed since is left as it is."""
    done = all(fits(state_at(tree, step.change.path), step.change.after) for step in steps)
    if done and all(_replaced_as_expected(tree, step) for step in steps):
        clean(tree, steps)
        return True
    back(tree, steps)
    return False


def back(tree: Beneath, steps: Sequence[Step]) -> None:
    """Undo what is done of the steps, wherever they were cut off; nothing that others have changed is touched."""
    with tree.undisturbed():
        for step in reversed(_placements(steps)):
            with contextlib.suppress(OSError, Failure):
                _unput(tree, step)
        for step in reversed(_removals(steps)):
            with contextlib.suppress(OSError, Failure):
                _bring_back(tree, step)
        for step in _removals(steps):  # permissions come last: they may forbid to put anything in
            with contextlib.suppress(OSError, Failure), _above(tree, step.change.path) as (folder, name):
                if step.change.before is not None and step.change.before.kind == "folder":
                    _chmod(folder, name, step.change.before.mode)
        clean(tree, steps)


def clean(tree: Beneath, steps: Sequence[Step]) -> None:
    """Remove what lies aside, where it is the old or the new content of a step."""
    for step in steps:
        for name in (step.aside, _older(step)):
            with contextlib.suppress(OSError, Failure), tree.inside(step.place) as folder:
                aside = state_in(folder, name, step.place)
                if aside is not None and (_is_known(aside, step) or _is_partial(tree, aside, step)):
                    os.unlink(name, dir_fd=folder)


def _is_known(aside: FileState, step: Step) -> bool:
    return aside.kind != "folder" and (fits(aside, step.change.before) or fits(aside, step.change.after))


def _is_partial(tree: Beneath, aside: FileState, step: Step) -> bool:
    """Whether this was being prepared when it was cut off: not so once the step is done."""
    if aside.kind != "file" or aside.mode != 0o600:
        return False
    return not fits(state_at(tree, step.change.path), step.change.after)


def _replaced_as_expected(tree: Beneath, step: Step) -> bool:
    """Whether what lies aside, if anything does, is what was to be replaced."""
    try:
        with tree.inside(step.place) as folder:
            aside = state_in(folder, step.aside, step.place)
    except OSError:
        return False  # its folder was there a moment ago
    return aside is None or _is_known(aside, step)


def _removals(steps: Sequence[Step]) -> list[Step]:
    """Those that take something away or put in its place something of another kind, the deepest first."""
    result = [step for step in steps if step.change.before and _kind(step.change.after) != _kind(step.change.before)]
    return sorted(result, key=_path, reverse=True)


def _placements(steps: Sequence[Step]) -> list[Step]:
    """Those that put something there, folders before what they hold."""
    return sorted((step for step in steps if step.change.after is not None), key=_path)


def _path(step: Step) -> list[str]:
    return step.change.path.split("/")


def _kind(state: FileState | None) -> str:
    """Folder, leaf (a file or a link: one can take the place of the other) or nothing."""
    return "" if state is None else "folder" if state.kind == "folder" else "leaf"


def _prepare(tree: Beneath, step: Step) -> None:
    """Make what is to stand there under the name beside it."""
    after = step.change.after
    if after is None or after.kind == "folder":
        return
    with tree.inside(step.place) as folder:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(step.aside, dir_fd=folder)
        if after.kind == "link":
            os.symlink(after.target, step.aside, dir_fd=folder)
        elif not (step.change.origin and _linked(tree, folder, step)):
            _write(tree, folder, step, after)


def _linked(tree: Beneath, aside: int, step: Step) -> bool:
    """A second name for a file that moves, so that it keeps its times and need not be copied; False where the file
    system has none."""
    with _above(tree, step.change.origin) as (folder, name):
        try:
            os.link(name, step.aside, src_dir_fd=folder, dst_dir_fd=aside, follow_symlinks=False)
        except OSError:
            return False
    if fits(state_in(aside, step.aside, step.change.path), step.change.after):
        return True
    os.unlink(step.aside, dir_fd=aside)
    return False


def _write(tree: Beneath, folder: int, step: Step, after: FileState) -> None:
    def chunks() -> Iterator[bytes]:
        for data in step.change.source() if step.change.source else ():
            tree.go_on()
            yield data

    if write_new(folder, step.aside, after.mode, chunks()) != after.sha256:
        raise Failure(f"{step.change.path}: its content has changed meanwhile", "transient")


def write_new(folder: int, name: str, mode: int | None, chunks: Iterable[bytes]) -> str:
    """Write a new file, durable on return, in an open folder; gives the SHA-256 of its bytes. ``mode`` None: what the
    system gives. Raises FileExistsError."""
    hashed = hashlib.sha256()
    with open(os.open(name, _NEW, 0o666 if mode is None else 0o600, dir_fd=folder), "wb", buffering=0) as file:
        for data in chunks:
            hashed.update(data)
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    return hashed.hexdigest()


def _take_away(tree: Beneath, step: Step) -> None:
    path, before = step.change.path, step.change.before
    assert before is not None
    with tree.inside(step.place) as aside, _above(tree, path) as (folder, name):
        try:
            if before.kind == "folder":
                os.rmdir(name, dir_fd=folder)
                return
            _move(folder, name, aside, step.aside)
        except OSError as error:
            raise _changed(path, error) from None
        if not fits(state_in(aside, step.aside, path), before):
            _move(aside, step.aside, folder, name)
            raise Failure(f"{path} was changed by another process meanwhile")


def _put(tree: Beneath, step: Step) -> None:
    path, before, after = step.change.path, step.change.before, step.change.after
    assert after is not None
    with tree.inside(step.place) as aside, _above(tree, path) as (folder, name):
        try:
            if after.kind == "folder":
                _make(folder, name, step)
            elif _kind(before) == "leaf":
                _swap(aside, step, folder, name)
                if not fits(state_in(aside, step.aside, path), before):
                    _swap(aside, step, folder, name)
                    raise Failure(f"{path} was changed by another process meanwhile")
            else:
                _move(aside, step.aside, folder, name)
        except OSError as error:
            raise _changed(path, error) from None


def _make(folder: int, name: str, step: Step) -> None:
    if _kind(step.change.before) == "folder":
        return  # only its permissions change, and they come last
    try:
        os.mkdir(name, 0o700 if step.change.after != WAY else 0o755, dir_fd=folder)
    except FileExistsError:
        if not (step.change.way and _kind(state_in(folder, name, step.change.path)) == "folder"):
            raise  # a folder on the way may have been made by a task beside this one


def _changed(path: str, error: OSError) -> Failure | OSError:
    if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT, errno.ENOTDIR, errno.EISDIR):
        return Failure(f"{path} was changed by another process meanwhile")
    return OSError(error.errno, error.strerror, path)


def _unput(tree: Beneath, step: Step) -> None:
    """Take away what was put, or swap it back."""
    path, before, after = step.change.path, step.change.before, step.change.after
    assert after is not None
    with tree.inside(step.place) as aside, _above(tree, path) as (folder, name):
        now = state_in(folder, name, path)
        if now is None or fits(now, before):
            return
        if after.kind == "folder" == now.kind:
            if _kind(before) == "folder":
                _chmod(folder, name, before.mode if before else AS_IT_COMES)
            else:
                os.rmdir(name, dir_fd=folder)
        elif fits(now, after):
            if _kind(before) == "leaf":
                if state_in(aside, step.aside, path) is None:  # cut off between the renames of ``_swap``
                    os.rename(_older(step), step.aside, src_dir_fd=aside, dst_dir_fd=aside)
                _swap(aside, step, folder, name)
            elif not (step.change.origin and _moved_back(tree, folder, step)):
                os.unlink(name, dir_fd=folder)
        _fsync(folder)


def _moved_back(tree: Beneath, folder: int, step: Step) -> bool:
    """Move a file to where it came from, if that is free: what was taken away there may be lost."""
    with contextlib.suppress(OSError, Failure), _above(tree, step.change.origin) as (home, name):
        _move(folder, step.change.path.rpartition("/")[2], home, name)
        _fsync(home)
        return True
    return False


def _bring_back(tree: Beneath, step: Step) -> None:
    """Put back what was taken away."""
    path, before = step.change.path, step.change.before
    assert before is not None
    with tree.inside(step.place) as aside, _above(tree, path) as (folder, name):
        if before.kind != "folder":
            _move(aside, step.aside, folder, name)
        elif state_in(folder, name, path) is None:
            os.mkdir(name, 0o700, dir_fd=folder)
        _fsync(folder)


def _settle_modes(tree: Beneath, steps: Sequence[Step]) -> None:
    """Permissions of folders come last: they may forbid to put anything in."""
    for step in reversed(_placements(steps)):
        after = step.change.after
        if after is not None and after.kind == "folder" and after.mode != AS_IT_COMES:
            with _above(tree, step.change.path) as (folder, name):
                _chmod(folder, name, after.mode)


def _chmod(folder: int, name: str, mode: int) -> None:
    if mode == AS_IT_COMES:
        return
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fchmod(handle, mode)
    finally:
        os.close(handle)


def _move(old_folder: int, old: str, new_folder: int, new: str) -> None:
    """Rename to a name that is free. Raises FileExistsError where it is not."""
    try:
        beneath.renameat2(old_folder, old, new_folder, new, beneath.NOREPLACE)
    except OSError as error:
        if not beneath.without(error, "renameat2"):
            raise
        os.link(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder, follow_symlinks=False)
        os.unlink(old, dir_fd=old_folder)


def _swap(aside: int, step: Step, folder: int, name: str) -> None:
    """What lies aside takes the place, what stood there lies aside."""
    try:
        beneath.renameat2(aside, step.aside, folder, name, beneath.EXCHANGE)
    except OSError as error:
        if not beneath.without(error, "renameat2"):
            raise
        older = _older(step)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(older, dir_fd=aside)
        os.link(name, older, src_dir_fd=folder, dst_dir_fd=aside, follow_symlinks=False)
        os.rename(step.aside, name, src_dir_fd=aside, dst_dir_fd=folder)
        os.rename(older, step.aside, src_dir_fd=aside, dst_dir_fd=aside)


def _older(step: Step) -> str:
    """A second name aside, where two names cannot be swapped at once."""
    return f"{step.aside[: -len('.planrunner')]}.old.planrunner"


@contextlib.contextmanager
def _above(tree: Beneath, path: str) -> Iterator[tuple[int, str]]:
    """The open folder that a path is in, and its name there."""
    with contextlib.ExitStack() as stack:
        try:
            place = stack.enter_context(tree.parent(path.split("/")))
        except (FileNotFoundError, NotADirectoryError):
            raise Failure(f"{path} was changed by another process meanwhile") from None
        yield place


def _sync(tree: Beneath, steps: Sequence[Step]) -> None:
    for parent in sorted({step.change.path.rpartition("/")[0] for step in steps}):
        # one that was removed is gone
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, Failure), tree.inside(parent) as folder:
            _fsync(folder)


def _fsync(folder: int) -> None:
    if stat.S_ISDIR(os.fstat(folder).st_mode):
        os.fsync(folder)
