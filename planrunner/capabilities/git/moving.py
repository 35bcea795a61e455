"""Moving HEAD with working tree and index to another commit: what switching and merging share."""

from __future__ import annotations

from typing import Any

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.git import index, scopes, trees
from planrunner.capabilities.git.records import Record
from planrunner.capabilities.git.repository import (
    Head,
    Repository,
    head_of,
    move,
    open_repository,
    reason,
    short,
    slot,
    value_of,
)


def capture(context: Context, repository: Repository, new: str) -> dict[str, Any]:
    """What has to be known to come back from a move to the commit ``new``."""
    head = must_have_commits(repository)
    paths = trees.differing(repository, head.commit, new)
    scopes.require_moved(repository, paths)
    return {
        "slot": slot(context),
        "branch": head.branch,
        "commit": head.commit,
        "index": index.keep(context, repository),
        "tree": trees.keep(context, repository, paths),
        "new": new,
    }


def must_have_commits(repository: Repository) -> Head:
    """Where HEAD stands. Raises Failure where nothing is committed yet."""
    head = head_of(repository)
    if not head.commit:
        raise Failure(f"HEAD has no commit yet: {short(head.branch)} is empty, so commit something first")
    return head


def go(context: Context, repository: Repository, new: str, to: Head, what: str) -> None:
    """Move to the commit ``new`` with HEAD as in ``to``: files and index first, then the references. Issued again, what
    an earlier attempt left halfway is put back before. Raises Failure (policy) where a file may not be written, or
    rules over plans."""
    record, name = Record(context, slot(context)), slot(context)
    if noted := record.read():
        _recover(context, repository, noted)
    head = head_of(repository)
    if head == to:
        return
    paths = trees.differing(repository, head.commit, new)
    scopes.require_moved(repository, paths)
    trees.must_not_hide(repository, paths)
    copy = index.Copy(repository, name)
    copy.take()
    note: dict[str, Any] = {"commits": [head.commit, new], "branch": head.branch, "to": list(to), "before": copy.before}
    try:
        copy.hold()
        note["tree"] = trees.keep(context, repository, paths)
        record.write(note)
        _change_files(repository, record, copy, (head.commit, new))
        record.write({**note, "index": index.digest(copy.path), "says": index.says(repository, copy.path)})
        copy.publish()
    finally:
        copy.clear()
    _set_head(context, repository, head, to, what)


def _change_files(repository: Repository, record: Record, copy: index.Copy, commits: tuple[str, str]) -> None:
    try:
        trees.move_files(repository, copy, *commits)
    except Failure as failure:
        if failure.failure == "dirty":  # nothing was touched
            record.drop()
        raise


def _recover(context: Context, repository: Repository, noted: dict[str, Any]) -> None:
    """Files back to what they were, unless the index says that the move was made: then HEAD is all that may be left."""
    index.Copy(repository, slot(context)).clear()
    if index.digest(repository.index_path) == noted["before"]:
        trees.recover(context, repository, noted)


def is_done(repository: Repository, noted: dict[str, Any], to: Head) -> bool:
    """Whether an earlier attempt of the visit has come to its end."""
    return bool(noted) and noted.get("to") == list(to) and head_of(repository) == to


def _set_head(context: Context, repository: Repository, old: Head, to: Head, what: str) -> None:
    why = reason(context, what)
    if to.branch and to.branch == old.branch:
        move(repository, to.branch, to.commit, old.commit, why)
    elif to.branch:
        repository.git.run("symbolic-ref", "-m", why, "HEAD", to.branch)
    elif old.branch or old.commit != to.commit:
        repository.git.run("update-ref", "--no-deref", "-m", why, "HEAD", to.commit, old.commit)


def undo(context: Context, before: dict[str, Any], index_after: str, to: Head | None) -> bool:
    """Back to where the capture was taken: HEAD, its branch, the index byte for byte and every file that was changed.
    ``to`` is where the outputs say that the task went; None where they do not say that it went anywhere. False where
    it did not. Raises Failure (moved) before anything is touched where somebody moved on."""
    repository = open_repository(context)
    record = Record(context, before["slot"])
    noted = record.read()
    index.Copy(repository, before["slot"]).clear()
    if noted:
        to = Head(*noted["to"])
    if to is None:
        return False
    was = Head(before["branch"], before["commit"])
    now = _must_be_between(repository, noted, was, to)
    index_after = index_after or noted.get("index", "?")
    stale = index.can_put_back(repository, before["index"], index_after, noted.get("says", ""))
    trees.put_back(context, repository, before["tree"], trees.differing(repository, before["commit"], before["new"]))
    if stale:
        index.put_back(context, repository, before["index"], before["slot"])
    if now != was:
        _set_head(context, repository, now, was, "undo")
    record.drop()
    return True


def _must_be_between(repository: Repository, noted: dict[str, Any], was: Head, to: Head) -> Head:
    """Where HEAD stands. Raises Failure (moved) unless it went from ``was`` to ``to`` by this task alone, and nowhere
    since."""
    now = head_of(repository)
    began = Head(noted["branch"], noted["commits"][0]) if noted else was
    if began != was:
        raise Failure(
            f"HEAD had moved when this task began: expected {_told(was)}, found {_told(began)}. Nothing was taken "
            "back: look with `git reflog` which one to go back to",
            "moved",
        )
    if now not in (was, to):
        raise Failure(
            f"HEAD has moved since: expected {_told(to)}, where this task left it, found {_told(now)}. Nothing was "
            f"taken back: bring it back with `{_way(to)}` and roll back again, or leave it as it is",
            "moved",
        )
    if was.branch and (stands := value_of(repository, was.branch)) not in (was.commit, to.commit):
        raise Failure(
            f"{short(was.branch)} has moved since: expected {was.commit[:12]}, found {stands[:12] or 'nothing'}. "
            "Nothing was taken back",
            "moved",
        )
    return now


def _told(head: Head) -> str:
    return f"{short(head.branch) if head.branch else 'a detached HEAD'} at {head.commit[:12] or 'no commit'}"


def _way(to: Head) -> str:
    return f"git switch {to.name}" if to.branch else f"git switch --detach {to.commit[:12]}"
