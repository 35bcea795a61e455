"""Pushing with a lease: a branch elsewhere is changed only if it still is where it was seen."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git.command import Refused, checked_reference, plain_call
from planrunner.capabilities.git.commit import contains
from planrunner.capabilities.git.fetch import QUIET
from planrunner.capabilities.git.remote import PACKS, Remote, failure_of, kind_of, remote_of
from planrunner.capabilities.git.repository import (
    Record,
    Repository,
    commit_of,
    head_of,
    looking,
    move,
    object_of,
    open_repository,
    reason,
    short,
    slot,
    taking_back,
    value_of,
)

COMMAND = (
    *("push", "--porcelain", "--no-verify", "--no-recurse-submodules", "--no-follow-tags", "--no-signed"),
    *("--receive-pack=git-receive-pack", "--no-progress"),
)


_FIRST = (
    "; it is the first branch there: a server that makes it the default and does not delete that keeps it, and then "
    "the push, and what it rests on, cannot be rolled back"
)


class Pushed(NamedTuple):
    remote: Annotated[str, Doc("name of the remote")]
    url: Annotated[str, Doc("where it is")]
    ref: Annotated[str, Doc("full name of the reference there")]
    old: Annotated[str, Doc("what it pointed to before; empty: it is new")]
    new: Annotated[str, Doc("what it points to now")]
    changed: Annotated[bool, Doc("false where it pointed there already")]


class _Plan(NamedTuple):
    """A push: where to, and from which value to which."""

    remote: Remote
    ref: str
    new: str
    tracking: str


def _planned(context: Context, repository: Repository, inputs: dict[str, Any]) -> _Plan:
    remote = remote_of(context, repository, inputs.get("remote", "origin"), inputs.get("url", ""), push=True)
    source, to = inputs.get("ref", ""), inputs.get("to", "")
    head = head_of(repository)
    target = to or source or head.name
    if not target:
        raise Failure("HEAD is on no branch: say where to push with `to`")
    full = _full(repository, target, bool(to))
    tracked = full.startswith("refs/heads/") and not inputs.get("url")
    tracking = f"refs/remotes/{remote.name}/{full.removeprefix('refs/heads/')}" if tracked else ""
    return _Plan(remote, full, _source(repository, source, full), tracking)


def _full(repository: Repository, target: str, given: bool) -> str:
    """The full name of a reference there: what is a tag here and no branch is pushed as a tag."""
    for prefix in ("refs/heads/", "refs/tags/"):
        if target.startswith(prefix):
            return prefix + checked_reference(target.removeprefix(prefix))
    name = checked_reference(target)
    is_tag = value_of(repository, f"refs/tags/{name}") and not value_of(repository, f"refs/heads/{name}")
    return f"refs/tags/{name}" if is_tag and not given else f"refs/heads/{name}"


def _source(repository: Repository, source: str, full: str) -> str:
    if full.startswith("refs/tags/") and (
        tag := value_of(repository, f"refs/tags/{source.removeprefix('refs/tags/')}")
    ):
        return tag
    return commit_of(repository, source or "HEAD")


def _push(remote: Remote, ref: str, new: str, old: str) -> None:
    """Change one reference there. Raises Failure (moved) where it is not at ``old``, and (rejected) where the other
    side does not want it."""
    try:
        remote.git.run(*_command(remote, ref, new, old))
    except Refused as refused:
        if "stale info" in refused.said or "fetch first" in refused.said:
            raise Failure(f"{ref} has moved at {remote.address.text}", "moved") from None
        kind = "rejected" if "remote rejected" in refused.said else kind_of(refused.said)
        raise failure_of(str(refused), kind) from None


def _command(remote: Remote, ref: str, new: str, old: str) -> tuple[str, ...]:
    lease = f"--force-with-lease={ref}:{old}"
    return (*COMMAND, lease, "--end-of-options", remote.address.text, f"{new}:{ref}")


def _preview(context: Context, **inputs: Any) -> Preview:
    repository = open_repository(context)
    plan = _planned(context, repository, inputs)
    old = plan.remote.value(plan.ref)
    summary = f"set {plan.ref} at {plan.remote.address.text} from {old[:12] or 'nothing'} to {plan.new[:12]}"
    if old == plan.new:
        return Preview(f"{plan.ref} at {plan.remote.address.text} is at {old[:12]} already")
    if not old and plan.ref.startswith("refs/heads/") and not plan.remote.has_branches():
        summary += _FIRST
    return Preview(summary, "", (plain_call(*_command(plan.remote, plan.ref, plan.new, old)),))


@looking
def _capture(context: Context, **inputs: Any) -> dict[str, Any]:
    repository = open_repository(context)
    plan = _planned(context, repository, inputs)
    return {
        "slot": slot(context),
        "remote": plan.remote.name,
        "url": plan.remote.address.text,
        "ref": plan.ref,
        "tracking": plan.tracking,
        "tracked": value_of(repository, plan.tracking) if plan.tracking else "",
    }


def _put_back(remote: Remote, ref: str, old: str, now: str) -> None:
    """Raises Failure (rejected) with a way out where the other side keeps the branch that is its default by now."""
    try:
        _push(remote, ref, old, now)
    except Failure as failure:
        if old or failure.failure != "rejected" or remote.head() != ref:
            raise
        raise Failure(
            f"{remote.address.text} does not delete {short(ref)}, its default branch, so it keeps {now[:12]}: make "
            "another branch the default there, or let it go with `git config receive.denyDeleteCurrent ignore` there, "
            f"and roll back again. {failure}",
            "rejected",
        ) from None


@taking_back
def _undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    record, given = Record(context, before["slot"]), outputs or {}
    done = record.read() or (given if given.get("changed") else {})
    if not done:
        return False
    repository = open_repository(context)
    remote = remote_of(context, repository, before["remote"], before["url"], push=True)
    ref, old, new = before["ref"], done["old"], done["new"]
    now = remote.value(ref)
    if now not in (old, new):
        raise Failure(
            f"{ref} has moved at {before['url']} since: expected {new[:12]}, found {now[:12] or 'nothing'}. "
            "Nothing was taken back: fetch, and see whose commits it has now",
            "moved",
        )
    if now != old:
        _put_back(remote, ref, old, now)
    tracking, tracked = before["tracking"], before["tracked"]
    if tracking and value_of(repository, tracking) == new != tracked:
        move(repository, tracking, tracked, new, reason(context, "undo push"))
    record.drop()
    return bool(now != old)


@capability(
    "git.push",
    effect="idempotent",
    risks=("changes a branch of another repository over the network",),
    spends=("calls",),
    preview=_preview,
    capture=_capture,
    undo=_undo,
    own=("*",),
    preconditions=("program git",),
)
def push(
    context: Context,
    remote: Annotated[str, Doc("name of the remote")] = "origin",
    url: Annotated[str, Doc("another address than the repository's settings have for it", use="url")] = "",
    ref: Annotated[str, Doc("branch, tag or commit to push; default: HEAD")] = "",
    to: Annotated[str, Doc("name there; default: that of the branch or tag here")] = "",
    expected: Annotated[str, Doc("commit that it must be at there; default: what was last fetched")] = "",
    force: Annotated[bool, Doc("allow that commits there are left behind; the lease holds all the same")] = False,
) -> Pushed:
    """Push one branch or tag. Hooks of this side do not run.

    It fails with the class `moved` where the other side is not where it was last seen, and with `diverged` where it has
    commits that would be left behind. The undo of a push that made a branch deletes it. Most servers refuse that for
    their default branch, which the first branch of an empty repository becomes: then the undo fails with the class
    `rejected`.
    """
    inputs = {"remote": remote, "url": url, "ref": ref, "to": to}
    repository, record = open_repository(context), Record(context, slot(context))
    plan = _planned(context, repository, inputs)
    now, noted = plan.remote.value(plan.ref), record.read()
    old = str(noted.get("old", now))
    if now != plan.new:
        _check(repository, plan, now, expected, force)
        with record.holding({"old": now, "new": plan.new}, unsure=("transient",)):
            _push(plan.remote, plan.ref, plan.new, now)
    if plan.tracking and (tracked := value_of(repository, plan.tracking)) != plan.new:
        move(repository, plan.tracking, plan.new, tracked, reason(context, "push"))
    return Pushed(remote, plan.remote.address.text, plan.ref, old, plan.new, old != plan.new)


def _check(repository: Repository, plan: _Plan, now: str, expected: str, force: bool) -> None:
    seen = object_of(repository, expected, "object") if expected else ""
    seen = seen or (value_of(repository, plan.tracking) if plan.tracking else "")
    if seen and seen != now:
        raise Failure(f"{plan.ref} has moved there, to {now[:12] or 'nothing'} from {seen[:12]}: fetch first", "moved")
    if not now:
        return
    if not force and (plan.ref.startswith("refs/tags/") or not contains(repository, plan.new, now)):
        raise Failure(f"{plan.ref} has commits there that this push would leave behind", "diverged")
    if repository.git.run("cat-file", "-e", now, ok=(0, 1, 128)).code:
        plan.remote.ask("fetch", *QUIET, *PACKS, "--no-tags", "--end-of-options", plan.remote.address.text, plan.ref)
