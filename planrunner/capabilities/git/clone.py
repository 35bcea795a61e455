"""``git.clone``: a repository of its own in a new folder, and what would be lost with it."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git import scopes
from planrunner.capabilities.git.command import SETTINGS, Git, Refused, checked_path, checked_reference, plain_call
from planrunner.capabilities.git.remote import PACKS, Remote
from planrunner.capabilities.git.repository import (
    Repository,
    head_of,
    listed,
    looking,
    open_repository,
    slot,
    taking_back,
)
from planrunner.capabilities.git.transport import Address, connected, parsed, require_repository
from planrunner.capabilities.git.worktree import folder_of, held

MARK = "planrunner.made"
TAGS = "planrunner-tags"
"""The file in git's own folder that says which tags came with the clone: those of others hold work of its own."""


class Cloned(NamedTuple):
    path: Annotated[str, Doc("the folder")]
    url: Annotated[str, Doc("where it came from")]
    branch: Annotated[str, Doc("empty when HEAD is detached")]
    commit: Annotated[str, Doc("empty for a repository without commits")]


def _remote(context: Context, url: str) -> Remote:
    address = parsed(url)
    if address.scheme == "file" and "://" not in url and not url.startswith("/"):
        address = address._replace(text=os.path.join(context.call.directory, url))
    require_repository(context, address, "read")
    return Remote("origin", address, connected(context, Git(context, context.call.directory), address))


def _clone_command(address: Address, branch: str, depth: int, tags: bool, name: str, staged: str) -> list[str]:
    options = ["--template=", "--no-local", "--no-recurse-submodules", "--no-progress", "--origin=origin", *PACKS]
    options += [f"--config={MARK}={name}"]
    if branch:
        options.append(f"--branch={checked_reference(branch)}")
    if depth:
        options += [f"--depth={int(depth)}", "--no-single-branch"]
    if not tags:
        options.append("--no-tags")
    return ["clone", *options, "--end-of-options", address.text, staged]


def _preview_clone(
    context: Context, url: str, path: str, branch: str = "", depth: int = 0, tags: bool = True
) -> Preview:
    remote = _remote(context, url)
    command = _clone_command(remote.address, branch, depth, tags, slot(context), checked_path(path))
    return Preview(f"clone {remote.address.text} into {path}", "", (plain_call(*command),))


@looking
def _capture_clone(context: Context, path: str, **_: Any) -> dict[str, Any]:
    folder_of(context, path)  # a path that the attempt will refuse is noted so
    return {"slot": slot(context), "path": path}


@taking_back
def _undo_clone(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    place = folder_of(context, before["path"])
    staged = _staged(place, before["slot"])
    ours = _is_ours(context, place, before["slot"])
    if outputs and os.path.lexists(place) and not ours:
        raise Failure(f"{before['path']} was replaced since by another process: it is left as it is", "moved")
    if ours:
        made = open_repository(context, place)
        _must_hold_nothing_else(made, before["path"])
        scopes.require_kept(made)
        os.rename(place, staged)
    changed = ours or os.path.lexists(staged)
    shutil.rmtree(staged, ignore_errors=True)
    return changed


@capability(
    "git.clone",
    effect="idempotent",
    risks=("reaches over the network",),
    spends=("calls",),
    preview=_preview_clone,
    capture=_capture_clone,
    undo=_undo_clone,
    own=("*",),
    preconditions=("program git",),
)
def clone(
    context: Context,
    url: Annotated[str, Doc("address of the repository; without user and password", use="url")],
    path: Annotated[str, Doc("folder to make, inside the working directory", form="file-written")],
    branch: Annotated[str, Doc("branch or tag to check out; default: the one HEAD is on there")] = "",
    depth: Annotated[int, Doc("only so many commits of each branch; 0 is all")] = 0,
    tags: Annotated[bool, Doc("take tags as well")] = True,
) -> Cloned:
    """Clone a repository into a new folder. Submodules are left alone, and nothing of the clone is run."""
    place = folder_of(context, path)
    name = slot(context)
    remote = _remote(context, url)
    if os.path.lexists(place) and not _is_ours(context, place, name):
        raise Failure(f"{path} exists already", "exists")
    if not os.path.lexists(place):
        staged = _staged(place, name)
        shutil.rmtree(staged, ignore_errors=True)
        try:
            remote.ask(*_clone_command(remote.address, branch, depth, tags, name, staged))
            made = open_repository(context, staged)
            if head := head_of(made).commit:
                scopes.require_committed(made, head, place)
            with open(os.path.join(made.folder, TAGS), "w", encoding="ascii") as file:
                file.writelines(f"^{digest}\n" for digest in listed(made, "refs/tags/").values())
            os.rename(staged, place)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    at = head_of(open_repository(context, place))
    return Cloned(path, remote.address.text, at.name, at.commit)


def _staged(place: str, name: str) -> str:
    folder, last = os.path.split(place)
    return os.path.join(folder, f".{last[:100]}.{name}.planrunner")


def _is_ours(context: Context, place: str, name: str) -> bool:
    """Whether a folder is the clone that this visit made: its settings say so."""
    config = os.path.join(place, ".git", "config")
    if not os.path.isfile(config) or os.path.islink(config):
        return False
    with contextlib.suppress(Refused):
        plain = Git(context, os.path.dirname(place), SETTINGS)
        return plain.maybe("config", "--file", config, "--no-includes", "--get", MARK) == name
    return False


def _must_hold_nothing_else(repository: Repository, path: str) -> None:
    """Raises Failure (moved) where work would be lost with a clone: changes, new files, commits that no remote has,
    the history of further working trees. Ignored files count as made by machines."""
    if found := held(repository):
        raise Failure(f"{path} holds changes: {', '.join(found[:5])}", "moved")
    git, head = repository.git, head_of(repository).commit
    if git.maybe("rev-parse", "--quiet", "--verify", "refs/stash"):
        raise Failure(f"{path} holds stashed changes", "moved")
    if os.path.lexists(os.path.join(repository.shared, "worktrees")):
        raise Failure(f"{path} has further working trees: see `git worktree list`", "moved")
    fetched = b""
    with contextlib.suppress(FileNotFoundError), open(os.path.join(repository.folder, TAGS), "rb") as file:
        fetched = file.read()
    refs = ("--branches", "--tags", *([head] if head else ()), "--not", "--remotes")
    own = git.run("rev-list", "--max-count=1", *refs, "--stdin", stdin=fetched).text.strip()
    if own:
        raise Failure(f"{path} holds commits that are nowhere else, such as {own[:12]}", "moved")
