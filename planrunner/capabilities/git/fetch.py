"""``git.fetch`` and ``git.clone``."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Annotated, Any, NamedTuple, TypedDict

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git import scopes
from planrunner.capabilities.git.command import SETTINGS, Git, Refused, checked_path, checked_reference, plain_call
from planrunner.capabilities.git.remote import PACKS, Address, Remote, connected, parsed, remote_of, require_repository
from planrunner.capabilities.git.repository import (
    Record,
    Repository,
    head_of,
    looking,
    open_repository,
    reason,
    slot,
    taking_back,
)
from planrunner.capabilities.git.worktree import folder_of, held, is_empty_place

QUIET = ("--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", "--no-auto-gc", "--no-progress")


class Moved(NamedTuple):
    """A reference that is set; empty values stand for none."""

    ref: str
    old: str
    new: str


class Update(TypedDict):
    """A reference that was set; ``old`` is empty where it is new, ``new`` where it is gone."""

    ref: str
    old: str
    new: str


class Fetched(NamedTuple):
    remote: Annotated[str, Doc("name of the remote")]
    url: Annotated[str, Doc("where it is")]
    updated: Annotated[
        list[Update], Doc("each reference that was set: `old` is empty if it is new, `new` if it is gone")
    ]


def _spec(branches: list[str], tags: bool, aside: str) -> list[str]:
    found = [f"+refs/heads/{checked_reference(name)}:{aside}/heads/{name}" for name in branches]
    found = found or [f"+refs/heads/*:{aside}/heads/*"]
    return [*found, *([f"+refs/tags/*:{aside}/tags/*"] if tags else [])]


def _command(remote: Remote, spec: list[str]) -> list[str]:
    return ["fetch", *QUIET, *PACKS, "--no-tags", "--no-prune", "--end-of-options", remote.address.text, *spec]


def _preview(
    context: Context,
    remote: str = "origin",
    url: str = "",
    branches: list[str] | None = None,
    tags: bool = False,
    prune: bool = False,
) -> Preview:
    repository = open_repository(context)
    other = remote_of(context, repository, remote, url)
    aside = f"refs/planrunner/{slot(context)}"
    calls = (plain_call(*_command(other, _spec(branches or [], tags, aside))), "git update-ref --stdin")
    return Preview(f"fetch from {other.address.text}", "", calls)


@looking
def _capture(context: Context, remote: str = "origin", **_: Any) -> dict[str, Any]:
    repository = open_repository(context)
    checked_reference(remote, "remote")
    return {"slot": slot(context), "top": repository.top}


@taking_back
def undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    """Set every reference that was changed back, unless it moved on since."""
    repository = open_repository(context)
    record = Record(context, before["slot"])
    updated = (outputs or {}).get("updated") or record.read().get("updated", [])
    _drop_aside(repository, before["slot"])
    changes = []
    for change in updated:
        ref, old, new = change["ref"], change["old"], change["new"]
        now = listed(repository, ref).get(ref, "")
        if now not in (old, new):
            found, wanted = now[:12] or "nothing", new[:12] or "nothing"
            raise Failure(f"`{ref}` has moved since: expected {wanted}, found {found}. Nothing was taken back", "moved")
        if now != old:
            changes.append(Moved(ref, now, old))
    for part in _in_turn(changes):
        _apply(context, repository, part, "undo fetch")
    record.drop()
    return bool(changes)


@capability(
    "git.fetch",
    effect="idempotent",
    risks=("reaches over the network",),
    spends=("calls",),
    preview=_preview,
    capture=_capture,
    undo=undo,
    foreign=("updated",),
    own=("remote",),
    preconditions=("program git",),
)
def fetch(
    context: Context,
    remote: Annotated[str, Doc("name of the remote, under which its branches are kept")] = "origin",
    url: Annotated[str, Doc("another address than the repository's settings have for it", use="url")] = "",
    branches: Annotated[list[str] | None, Doc("only these; default: all")] = None,
    tags: Annotated[bool, Doc("fetch tags too; tags that are here already never move")] = False,
    prune: Annotated[bool, Doc("forget branches that are gone there")] = False,
) -> Fetched:
    """Fetch branches of another repository into `refs/remotes/NAME/`. Submodules are left alone."""
    repository = open_repository(context)
    other, record = remote_of(context, repository, remote, url), Record(context, slot(context))
    aside = f"refs/planrunner/{slot(context)}"
    told: list[Update] = record.read().get("updated", [])
    _drop_aside(repository, slot(context))
    try:
        other.ask(*_command(other, _spec(branches or [], tags, aside)))
        changes = _changes(repository, aside, remote, tags, prune and not branches)
        for part in _in_turn(changes):
            told = _told(told, part)
            with record.holding({"updated": told}):
                _apply(context, repository, part, f"fetch {remote}")
    finally:
        _drop_aside(repository, slot(context))
    return Fetched(remote, other.address.text, told)


def listed(repository: Repository, *prefixes: str) -> dict[str, str]:
    """References that are not symbolic, with what they point to."""
    shape = "--format=%(refname)%00%(objectname)%00%(symref)"
    lines = os.fsdecode(repository.git.raw("for-each-ref", shape, *prefixes)).splitlines()
    rows = (line.split("\0") for line in lines)
    return {name: digest for name, digest, symbolic in rows if not symbolic}


def _tracked(repository: Repository, remote: str, tags: bool) -> dict[str, str]:
    return listed(repository, f"refs/remotes/{remote}/", *(["refs/tags/"] if tags else []))


def _changes(repository: Repository, aside: str, remote: str, tags: bool, prune: bool) -> list[Moved]:
    """What has to be set so that our references say what was fetched."""
    here, there = _tracked(repository, remote, tags), listed(repository, f"{aside}/")
    wanted = {}
    for name, digest in there.items():
        kind, _, short = name.removeprefix(f"{aside}/").partition("/")
        full = f"refs/remotes/{remote}/{short}" if kind == "heads" else f"refs/tags/{short}"
        if kind == "heads" or full not in here:
            wanted[full] = digest
    changes = [Moved(name, here.get(name, ""), new) for name, new in wanted.items() if here.get(name) != new]
    if prune:
        gone = [name for name in here if name.startswith("refs/remotes/") and name not in wanted]
        changes += [Moved(name, here[name], "") for name in gone]
    return sorted(changes)


def _in_turn(changes: list[Moved]) -> list[list[Moved]]:
    gone, left = ([each for each in changes if (each.new == "") is going] for going in (True, False))
    return [part for part in (gone, left) if part]


def _told(earlier: list[Update], changes: list[Moved]) -> list[Update]:
    """What an earlier attempt noted and what is done now, as one change of each reference."""
    found = {each["ref"]: each for each in earlier}
    for ref, old, new in changes:
        found[ref] = Update(ref=ref, old=found[ref]["old"] if ref in found else old, new=new)
    return [each for each in found.values() if each["old"] != each["new"]]


def _apply(context: Context, repository: Repository, changes: list[Moved], what: str) -> None:
    """Set references in one transaction, each only from its old value. Raises Failure (moved)."""
    lines = []
    for ref, old, new in changes:
        zero = "0" * len(old or new)
        lines.append(f"update {ref}\0{new or zero}\0{old or zero}\0")
    try:
        data = os.fsencode("".join(lines))
        repository.git.run("update-ref", "-m", reason(context, what), "--no-deref", "-z", "--stdin", stdin=data)
    except Refused as refused:
        kind = "moved" if "but expected" in refused.said or "already exists" in refused.said else "logic"
        raise Failure(str(refused), kind) from None


def _drop_aside(repository: Repository, name: str) -> None:
    left = listed(repository, f"refs/planrunner/{name}/")
    if left:
        data = "".join(f"delete {ref}\0\0" for ref in left)
        repository.git.run("update-ref", "--no-deref", "-z", "--stdin", stdin=os.fsencode(data))
    with contextlib.suppress(OSError):  # git leaves the folder below refs/ itself
        os.rmdir(os.path.join(repository.shared, "refs", "planrunner"))


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
    if not is_empty_place(place) and not _is_ours(context, place, name):
        raise Failure(f"{path} exists already", "exists")
    if is_empty_place(place):
        staged = _staged(place, name)
        shutil.rmtree(staged, ignore_errors=True)
        try:
            remote.ask(*_clone_command(remote.address, branch, depth, tags, name, staged))
            made = open_repository(context, staged)
            if head := head_of(made).commit:
                scopes.require_committed(made, head, place)
            _note_tags(made)
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


def _note_tags(repository: Repository) -> None:
    with open(os.path.join(repository.folder, TAGS), "w", encoding="ascii") as file:
        file.writelines(f"^{digest}\n" for digest in listed(repository, "refs/tags/").values())


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
