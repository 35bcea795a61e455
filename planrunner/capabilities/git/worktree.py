"""Working trees: ``git.status``, ``git.worktree_add`` and ``git.worktree_remove``, and what would be lost with one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.files.scope import scope_in
from planrunner.capabilities.git import index, scopes
from planrunner.capabilities.git.checkout import MODULE
from planrunner.capabilities.git.command import Git, checked_path, checked_reference, plain_call
from planrunner.capabilities.git.repository import (
    UNDER_WAY,
    Record,
    Repository,
    commit_of,
    head_of,
    looking,
    move,
    open_repository,
    reason,
    short,
    slot,
    taking_back,
    value_of,
)

Untracked = Literal["no", "normal", "all"]

_HELD = {"1": 8, "u": 10}
"""Fields before the path, by the kind of line."""


class Entry(TypedDict):
    """One path: what the index has against HEAD, and the working tree against the index, each as git's letter (``.``
    for no difference); ``kind`` is changed, conflict, untracked or ignored."""

    path: str
    kind: str
    staged: str
    unstaged: str


class Status(NamedTuple):
    branch: Annotated[str, Doc("short name; empty when HEAD is detached")]
    commit: Annotated[str, Doc("the commit of HEAD; empty before the first")]
    upstream: Annotated[str, Doc("such as origin/main; empty without one")]
    ahead: Annotated[int, Doc("commits that the upstream does not have")]
    behind: Annotated[int, Doc("commits that only the upstream has")]
    clean: Annotated[bool, Doc("nothing differs and nothing is untracked")]
    entries: Annotated[list[Entry], Doc("each path with its `kind`, and git's letters for what is staged and not")]


@capability(
    "git.status",
    effect="read",
    preconditions=("program git",),
)
def status(
    context: Context,
    paths: Annotated[list[str] | None, Doc("only these files and folders, taken literally")] = None,
    untracked: Annotated[Untracked, Doc("files that git does not know: none, folders as one, or each")] = "normal",
    ignored: Annotated[bool, Doc("tell ignored files too")] = False,
) -> Status:
    """What differs in the working tree, and how the branch stands to its upstream."""
    repository = open_repository(context)
    arguments = ["status", "--porcelain=v2", "--branch", "-z", f"--untracked-files={untracked}"]
    arguments += ["--ignore-submodules=all", f"--ignored={'traditional' if ignored else 'no'}", "--no-renames", "--"]
    return parsed(repository.git.run(*arguments, *(checked_path(path) for path in paths or ())).stdout)


def parsed(data: bytes) -> Status:
    """What ``git status --porcelain=v2 --branch -z --no-renames`` printed; odd bytes in names become U+FFFD."""
    facts: dict[str, str] = {}
    entries: list[Entry] = []
    for line in data.decode("utf-8", "replace").split("\0"):
        if line.startswith("# "):
            name, _, value = line[2:].partition(" ")
            facts[name] = value
        elif line:
            kind = line[0]
            if kind in "?!":
                word = "untracked" if kind == "?" else "ignored"
                entries.append(Entry(path=line[2:], kind=word, staged=".", unstaged="."))
            else:
                fields = line.split(" ", _HELD[kind])
                word = "conflict" if kind == "u" else "changed"
                entries.append(Entry(path=fields[-1], kind=word, staged=fields[1][0], unstaged=fields[1][1]))
    ahead, _, behind = facts.get("branch.ab", "").partition(" ")
    branch, commit = facts.get("branch.head", ""), facts.get("branch.oid", "")
    return Status(
        branch="" if branch == "(detached)" else branch,
        commit="" if commit == "(initial)" else commit,
        upstream=facts.get("branch.upstream", ""),
        ahead=int(ahead or 0),
        behind=-int(behind or 0),
        clean=not [entry for entry in entries if entry["kind"] != "ignored"],
        entries=entries,
    )


def folder_of(context: Context, path: str) -> str:
    """The absolute path of a folder to make or remove. Raises Failure (policy) for one outside, behind a link, or where
    nothing may be written."""
    parts = [part for part in checked_path(path).split("/") if part not in ("", ".")]
    if not parts:
        raise Failure(f"`{path}` is the working directory itself: name a folder to make in it", rule="files.root")
    if parts[-1].startswith("-"):
        raise Failure(f"`{path}` cannot be made: its name begins with `-`, as options do", rule="git.option")
    if (scope := scope_in(context)) is not None:
        scope.require("write", parts)
    at = os.path.realpath(context.call.directory)
    for part in parts[:-1]:
        at = os.path.join(at, part)
        if os.path.islink(at):
            raise Failure(f"{path} leads through `{part}`, which is a link", rule="files.link")
        if not os.path.isdir(at):
            raise Failure(f"{path} has no folder to stand in: {part} is missing")
    return os.path.join(at, parts[-1])


def held(repository: Repository, ignored: bool = False) -> list[str]:
    """What a working tree holds beside what is committed: changes and new files, those that git was told not to look
    at, submodules that are filled, and what is half done. ``ignored`` counts ignored files too."""
    git = repository.git._replace(directory=repository.top)
    asked = ["status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all"]
    asked.append(f"--ignored={'traditional' if ignored else 'no'}")
    paths = [entry["path"] for entry in parsed(git.raw(*asked)).entries]
    paths += _unseen(git)
    kept = (*UNDER_WAY, "modules")
    return paths + [name for name in kept if os.path.lexists(os.path.join(repository.folder, name))]


def _unseen(git: Git) -> Iterator[str]:
    """The paths at which ``git status`` does not look."""
    for item in git.items("ls-files", "-v", "--stage", "-z"):
        facts, _, path = item.partition("\t")
        tag, mode, _ = facts.split(" ", 2)
        place = os.path.join(git.directory, path)
        if (tag == "S" or tag.islower()) and os.path.lexists(place):
            yield path
        elif mode == MODULE:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if os.listdir(place):
                    yield path


MARK = "planrunner-made"


class Worktree(NamedTuple):
    path: Annotated[str, Doc("the folder")]
    branch: Annotated[str, Doc("empty when HEAD is detached")]
    commit: Annotated[str, Doc("the commit that is checked out")]


class Removed(NamedTuple):
    path: Annotated[str, Doc("the folder")]
    branch: Annotated[str, Doc("the branch that was checked out; empty when HEAD was detached")]
    commit: Annotated[str, Doc("the commit that was checked out; empty where the working tree did not exist")]


class _Entry(NamedTuple):
    """A working tree as git lists it."""

    path: str
    commit: str = ""
    branch: str = ""
    locked: str = ""


def _entries(repository: Repository) -> list[_Entry]:
    entries: list[_Entry] = []
    for item in os.fsdecode(repository.git.raw("worktree", "list", "--porcelain", "-z")).split("\0"):
        word, _, value = item.partition(" ")
        if word == "worktree":
            entries.append(_Entry(value))
        elif word in ("HEAD", "branch", "locked"):
            entries[-1] = entries[-1]._replace(**{"commit" if word == "HEAD" else word: value})
    return entries


def _entry_at(repository: Repository, place: str) -> _Entry | None:
    real = os.path.realpath(place)
    return next((entry for entry in _entries(repository)[1:] if os.path.realpath(entry.path) == real), None)


def _lock_text(name: str) -> str:
    return f"planrunner {name}"


def _is_ours(repository: Repository, place: str, name: str) -> bool:
    """Whether the working tree there is the one that this visit made, or began to make."""
    entry = _entry_at(repository, place)
    return entry is not None and (entry.locked == _lock_text(name) or _made_by(place) == name)


def _made_by(place: str) -> str:
    """The visit that made a working tree to the end; empty for any other."""
    with contextlib.suppress(OSError), open(_mark(place), encoding="utf-8") as file:
        return file.read()
    return ""


def _sign(place: str, name: str) -> None:
    with open(_mark(place), "w", encoding="utf-8") as file:
        file.write(name)


def _mark(place: str) -> str:
    """The file in git's own folder of a working tree that says which visit made it."""
    try:
        with open(os.path.join(place, ".git"), "rb") as file:
            folder = os.fsdecode(file.read()).removeprefix("gitdir: ").rstrip("\n")
    except OSError:
        return ""
    return os.path.join(place, folder, MARK)


def _add_command(place: str, commit: str, name: str) -> list[str]:
    return ["add", "--detach", "--lock", f"--reason={_lock_text(name)}", "--", place, commit]


def _preview_add(context: Context, path: str, ref: str = "HEAD", branch: str = "") -> Preview:
    repository = open_repository(context)
    commit = commit_of(repository, ref)
    calls = [plain_call("worktree", *_add_command(folder_of(context, path), commit, slot(context)))]
    if branch:
        full = f"refs/heads/{checked_reference(branch)}"
        calls += [plain_call("update-ref", full, commit, "0" * len(commit)), plain_call("symbolic-ref", "HEAD", full)]
    return Preview(f"add the working tree {path} at {commit[:12]}", "", tuple(calls))


@looking
def _capture_add(context: Context, path: str, ref: str = "HEAD", branch: str = "") -> dict[str, Any]:
    repository = open_repository(context)
    folder_of(context, path)  # a path that the attempt will refuse is noted so
    full = f"refs/heads/{checked_reference(branch)}" if branch else ""
    return {"slot": slot(context), "path": path, "branch": full, "commit": commit_of(repository, ref)}


@taking_back
def _undo_add(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    repository = open_repository(context)
    place = folder_of(context, before["path"])
    ours = _is_ours(repository, place, before["slot"])
    record, done = Record(context, before["slot"]), outputs or {}
    new = record.read().get("commit") or (done["commit"] if done.get("branch") else "")
    if outputs and not ours and os.path.lexists(place):
        raise Failure(f"{before['path']} was replaced since by another process: it is left as it is", "moved")
    if ours:
        if _made_by(place):
            inner = open_repository(context, place)
            head = head_of(inner)
            if held(inner) or head.commit != before["commit"] or head.branch not in ("", before["branch"]):
                raise Failure(f"{before['path']} holds work of its own", "moved")
            scopes.require_committed(repository, before["commit"], place)
        repository.worktree("remove", "--force", "--force", "--", place)
    now = value_of(repository, before["branch"]) if new else ""
    if now not in ("", new):
        raise Failure(
            f"{short(before['branch'])} has moved since: expected {new[:12]}, found {now[:12]}, so it is left as it is",
            "moved",
        )
    if now:
        move(repository, before["branch"], "", now, reason(context, "undo worktree_add"))
    record.drop()
    return ours or now != ""


@capability(
    "git.worktree_add",
    effect="idempotent",
    risks=("makes a folder with the files of a commit",),
    preview=_preview_add,
    capture=_capture_add,
    undo=_undo_add,
    preconditions=("program git",),
)
def worktree_add(
    context: Context,
    path: Annotated[str, Doc("folder to make, inside the working directory", form="file-written")],
    ref: Annotated[str, Doc("commit to check out")] = "HEAD",
    branch: Annotated[str, Doc("make this branch for it, such as plan/{{ run.id }}; default: detached")] = "",
) -> Worktree:
    """Add a working tree of the same repository in a folder of its own."""
    repository, name = open_repository(context), slot(context)
    place = folder_of(context, path)
    commit = commit_of(repository, ref)
    full = f"refs/heads/{checked_reference(branch)}" if branch else ""
    ours = _is_ours(repository, place, name)
    if os.path.lexists(place) and not ours:
        raise Failure(f"{path} exists already", "exists")
    if full and value_of(repository, full) and not ours:
        raise Failure(f"the branch {short(full)} exists already", "exists")
    if ours and not _made_by(place):
        repository.worktree("remove", "--force", "--force", "--", place)
        ours = False
    if not ours:
        scopes.require_committed(repository, commit, place)
        repository.worktree(*_add_command(place, commit, name))
        _sign(place, name)
    inner = open_repository(context, place)
    if full:
        if not value_of(repository, full):
            with Record(context, name).holding({"commit": commit}):
                move(repository, full, commit, "", reason(context, "worktree_add"))
        inner.git.run("symbolic-ref", "-m", reason(context, "worktree_add"), "HEAD", full)
    entry = _entry_at(repository, place)
    if entry is not None and entry.locked == _lock_text(name):
        repository.git.run("worktree", "unlock", "--", place)
    return Worktree(path, full.removeprefix("refs/heads/"), commit)


def _preview_remove(context: Context, path: str) -> Preview:
    place = folder_of(context, path)
    return Preview(f"remove the working tree {path}", "", (plain_call("worktree", "remove", "--", place),))


@looking
def _capture_remove(context: Context, path: str) -> dict[str, Any]:
    repository = open_repository(context)
    place = folder_of(context, path)
    entry = _entry_at(repository, place)
    before: dict[str, Any] = {"slot": slot(context), "path": path}
    if entry is not None and os.path.isdir(place):
        inner = open_repository(context, place)
        before |= {"head": list(head_of(inner)), "index": index.keep(context, inner), "made": _made_by(place)}
    return before


@taking_back
def _undo_remove(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    repository = open_repository(context)
    place = folder_of(context, before["path"])
    record, done = Record(context, before["slot"]), outputs or {}
    if "head" not in before or not (record.read() or done.get("commit")):
        return False
    branch, commit = before["head"]
    changed = False
    if _entry_at(repository, place) is None:
        if os.path.lexists(place):
            raise Failure(f"{before['path']} was created again since", "moved")
        if branch and (now := value_of(repository, branch)) != commit:
            found = now[:12] or "nothing"
            raise Failure(f"{short(branch)} has moved since: expected {commit[:12]}, found {found}", "moved")
        scopes.require_committed(repository, commit, place)
        repository.worktree("add", "--detach", "--", place, commit)
        changed = True
        if before["made"]:
            _sign(place, before["made"])
    inner = open_repository(context, place)
    if list(head_of(inner)) == ["", commit] and branch:
        inner.git.run("symbolic-ref", "-m", reason(context, "undo worktree_remove"), "HEAD", branch)
        changed = True
    if index.says(inner, inner.index_path) != before["index"]["says"]:
        index.put_back(context, inner, before["index"], before["slot"])
        changed = True
    record.drop()
    return changed


@capability(
    "git.worktree_remove",
    effect="idempotent",
    risks=("removes a folder with a working tree",),
    preview=_preview_remove,
    capture=_capture_remove,
    undo=_undo_remove,
    preconditions=("program git",),
)
def worktree_remove(
    context: Context,
    path: Annotated[str, Doc("folder of the working tree", form="file-written")],
) -> Removed:
    """Remove a working tree that holds nothing but what is committed.

    Changes, new files and ignored files are never removed with it: it fails with the class `dirty`.
    """
    repository = open_repository(context)
    place = folder_of(context, checked_path(path))
    entry = _entry_at(repository, place)
    record = Record(context, slot(context))
    if entry is None:
        if not os.path.lexists(place):
            noted = record.read()
            return Removed(path, noted.get("branch", ""), noted.get("commit", ""))
        raise Failure(f"{path} is not a linked working tree of this repository")
    if os.path.isdir(place):
        inner = open_repository(context, place)
        if more := held(inner, ignored=True):
            raise Failure(f"{path} holds more than what is committed: {', '.join(more[:5])}", "dirty")
        scopes.require_kept(inner)
    if entry.locked:
        raise Failure(f"{path} is locked: {entry.locked}", "busy")
    branch = entry.branch.removeprefix("refs/heads/")
    record.write({"branch": branch, "commit": entry.commit})
    repository.worktree("remove", "--", place)
    return Removed(path, branch, entry.commit)
