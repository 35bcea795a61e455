"""Working trees of candidates: ``branch.base``, ``branch.fork`` and ``branch.drop``.

In a git repository they are linked working trees at a commit that holds everything as it is, new files included and
without what git ignores; elsewhere they are copies. They are in `.branches`, which git does not look into.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.files.scope import BRANCHES
from planrunner.capabilities.git.command import Refused
from planrunner.capabilities.git.repository import Repository, open_repository, slot, tree_of_head
from planrunner.files.beneath import APART, Beneath
from planrunner.files.listing import listing, repository_around
from planrunner.files.walk import MOST, FileState, state_at
from planrunner.jsontext import read_json, stable_json

Json = Any

_AUTHOR = (("user.name", "planrunner"), ("user.email", "planrunner@localhost"))


class Base(NamedTuple):
    commit: Annotated[str, Doc("commit of the current state; empty without a git repository")]


class Fork(NamedTuple):
    path: Annotated[str, Doc("folder that replaces the working directory")]
    kind: Annotated[Literal["worktree", "copy"], Doc("kind of the tree")]
    manifest: Annotated[str, Doc("digest of the list of its files, an artifact")]


class Dropped(NamedTuple):
    dropped: Annotated[bool, Doc("whether a tree existed")]


@capability("branch.base", effect="read", own=("*",))
def base(context: Context) -> Base:
    """Record the current state, from which candidates start. This is the first step of a task with `branches`."""
    repository = _repository(context)
    if repository is None:
        return Base("")
    index = os.path.join(context.cache("branches"), f"{slot(context)}.index")
    when = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"@{int(context.call.began)} +0000")
    git = repository.git
    git = git._replace(settings=git.settings + _AUTHOR, variables={**git.variables, **when})
    try:
        git.run("read-tree", tree_of_head(repository), index=index)
        git.run("add", "--all", index=index)
        tree = git.text("write-tree", index=index)
    finally:
        Path(index).unlink(missing_ok=True)
    return Base(git.text("commit-tree", "-m", f"planrunner {context.call.run_id}", tree))


def _preview_fork(context: Context, commit: str = "") -> Preview:
    return Preview(f"make a {'working tree' if commit else 'copy'} for a candidate in {BRANCHES}")


def _capture_fork(context: Context, commit: str = "") -> dict[str, Json]:
    return {"place": place_of(context, _candidate(context))}


def _undo_fork(context: Context, before: dict[str, Json], outputs: dict[str, Json] | None) -> dict[str, Json]:
    return {"changed": _remove(context, before["place"])}


@capability(
    "branch.fork",
    effect="idempotent",
    risks=("makes a folder with a copy of all files",),
    own=("*",),
    preview=_preview_fork,
    capture=_capture_fork,
    undo=_undo_fork,
)
def fork(
    context: Context,
    commit: Annotated[str, Doc("the output `commit` of `branch.base`; empty: copy the working directory")] = "",
) -> Fork:
    """Create the working tree of a candidate: a linked working tree of git, or a copy."""
    place = place_of(context, _candidate(context))
    whole = os.path.join(context.call.directory, place)
    _remove(context, place)
    _hide(context)
    below = "."
    if commit:
        repository = open_repository(context)
        repository.worktree("add", "--detach", "--", whole, commit)
        below = repository.below
    else:
        _copy(context, whole)
    _hide(context)
    path = place if below == "." else f"{place}/{below}"
    rows = {name: state.as_json() for name, state in states(context, path).items()}
    kept = context.keep(stable_json(rows).encode("ascii"), "manifest", "json")
    return Fork(path, "worktree" if commit else "copy", str(kept["sha256"]))


def _preview_drop(context: Context) -> Preview:
    return Preview("remove the working tree of a candidate")


@capability(
    "branch.drop",
    effect="idempotent",
    risks=("removes the working tree of a candidate",),
    own=("*",),
    preview=_preview_drop,
    irreversible=True,
)
def drop(context: Context) -> Dropped:
    """Remove the working tree of the candidate that this task belongs to, with its contents."""
    name = context.call.task.id
    dropped = [_remove(context, place_of(context, each)) for each in (name, name.rpartition("/")[0])]
    return Dropped(any(dropped))


def _candidate(context: Context) -> str:
    """The task that holds the steps of a candidate."""
    return context.call.task.id.rpartition("/")[0]


def place_of(context: Context, candidate: str) -> str:
    """The folder of a candidate, from the working directory on; the same whenever the run asks."""
    digest = sha256(f"{context.call.run_id} {candidate}".encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{BRANCHES}/{re.sub(r'[^A-Za-z0-9]+', '-', candidate)[-40:].strip('-')}-{digest}"


def states(context: Context, path: str) -> dict[str, FileState]:
    """The files and links below a folder, without what git ignores and without the folders of git and planrunner."""
    root = os.path.join(context.call.directory, path)
    names = listing(root, os.path.join(root, ".planrunner"), (), MOST).found
    result: dict[str, FileState] = {}
    with Beneath(root, cancelled=context.cancelled) as tree:
        for name in names:
            if _is_apart(name):
                continue
            state = state_at(tree, name)
            if state is not None and state.kind != "folder":
                result[name] = state
    return result


def kept_states(context: Context, digest: str) -> dict[str, FileState]:
    """The files and links of a tree as ``fork`` noted them."""
    with context.artifact(digest) as file:
        return {name: FileState(**told) for name, told in read_json(file.read().decode("ascii")).items()}


def _is_apart(name: str) -> bool:
    return any(part.casefold() in (*APART, BRANCHES) for part in name.split("/"))


def _repository(context: Context) -> Repository | None:
    """The repository around the working directory; None without one, and where git is not installed."""
    if not repository_around(context.call.directory) or shutil.which("git") is None:
        return None
    return open_repository(context)


def _hide(context: Context) -> None:
    """Make the folder of all trees, which git is told to ignore."""
    folder = os.path.join(context.call.directory, BRANCHES)
    if os.path.islink(folder):
        raise Failure(f"{BRANCHES} is a link: remove it", rule="files.link")
    for again in (True, False):  # a candidate that ends beside this one may take the empty folder away
        os.makedirs(folder, exist_ok=True)
        try:
            Path(folder, ".gitignore").write_text("*\n", encoding="ascii")
            return
        except FileNotFoundError:
            if not again:
                raise


def _copy(context: Context, whole: str) -> None:
    top = context.call.directory
    os.makedirs(whole)
    for name in states(context, "."):
        if context.cancelled():
            raise Failure("stopped while copying", "cancelled")
        goal = os.path.join(whole, name)
        os.makedirs(os.path.dirname(goal), exist_ok=True)
        shutil.copy2(os.path.join(top, name), goal, follow_symlinks=False)


def _remove(context: Context, place: str) -> bool:
    """Remove a tree; True where there was one."""
    whole = os.path.join(context.call.directory, place)
    there = os.path.lexists(whole)
    if there and os.path.lexists(os.path.join(whole, ".git")):
        with contextlib.suppress(Refused):  # one that was only begun is not a working tree yet
            open_repository(context).worktree("remove", "--force", "--force", "--", whole)
    if os.path.lexists(whole):
        shutil.rmtree(whole)
    folder = os.path.join(context.call.directory, BRANCHES)
    with contextlib.suppress(OSError):
        if there and os.listdir(folder) == [".gitignore"]:
            os.unlink(os.path.join(folder, ".gitignore"))
            os.rmdir(folder)  # not where another candidate has begun meanwhile
    return there
