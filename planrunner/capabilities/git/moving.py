"""Moving HEAD with working tree and index to another commit: what switching and merging share."""

from __future__ import annotations

from typing import Any

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.git import index, trees
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
    head = head_of(repository)
    paths = trees.differing(repository, head.commit, new)
    return {
        "slot": slot(context),
        "branch": head.branch,
        "commit": head.commit,
        "index": index.keep(context, repository),
        "tree": trees.keep(context, repository, paths),
        "new": new,
    }


def go(context: Context, repository: Repository, new: str, to: Head, what: str) -> None:
    """Move to the commit ``new`` with HEAD as in ``to``: files and index first, then the references. Issued again, what
    an earlier attempt left halfway is put back before."""
    record, name = Record(context, slot(context)), slot(context)
    if noted := record.read():
        _recover(context, repository, noted)
    head = head_of(repository)
    paths = trees.differing(repository, head.commit, new)
    trees.must_not_hide(repository, paths)
    copy = index.Copy(repository, name)
    copy.take()
    note = {"commits": [head.commit, new], "branch": head.branch, "to": list(to), "before": copy.before}
    try:
        record.write({**note, "tree": trees.keep(context, repository, paths)})
        trees.go(repository, copy, head.commit, new)
        record.write({**note, "tree": record.read()["tree"], "index": index.digest(copy.path)})
        copy.publish()
    finally:
        copy.clear()
    _set_head(context, repository, head, to, what)


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


def undo(context: Context, before: dict[str, Any], index_after: str, to: Head) -> None:
    """Back to where the capture was taken: HEAD, its branch, the index byte for byte and every file that was changed.
    Raises Failure (moved) before anything is touched where somebody moved on."""
    repository = open_repository(context)
    record = Record(context, before["slot"])
    index_after = index_after or record.read().get("index", "?")
    index.Copy(repository, before["slot"]).clear()
    was, now = Head(before["branch"], before["commit"]), head_of(repository)
    if now not in (was, to):
        raise Failure(f"HEAD has moved since, to {short(now.branch or now.commit)}", "moved")
    if was.branch and value_of(repository, was.branch) not in (was.commit, to.commit):
        raise Failure(f"{short(was.branch)} has moved since", "moved")
    stale = index.can_put_back(repository, before["index"], index_after)
    trees.put_back(context, repository, before["tree"], trees.differing(repository, before["commit"], before["new"]))
    if stale:
        index.put_back(context, repository, before["index"], before["slot"])
    if now != was:
        _set_head(context, repository, now, was, "undo")
    record.drop()
