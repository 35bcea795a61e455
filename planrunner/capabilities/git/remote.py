"""Other repositories under their names: ``git.fetch`` and ``git.push``.

A push has a lease: a branch elsewhere is changed only if it still is where it was seen.
"""

from __future__ import annotations

import contextlib
import os
from typing import Annotated, Any, NamedTuple, TypedDict

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git.command import Git, Refused, checked_reference, plain_call
from planrunner.capabilities.git.commit import contains
from planrunner.capabilities.git.repository import (
    Record,
    Repository,
    commit_of,
    head_of,
    listed,
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
from planrunner.capabilities.git.transport import Address, connected, parsed, require_repository

_PASSING = (
    "Could not resolve", "Connection refused", "Connection timed out", "Connection reset", "early EOF", "hung up",
    "The requested URL returned error: 5", "The requested URL returned error: 429", "Operation timed out",
    "Failed to connect", "unexpected disconnect", "RPC failed", "Empty reply", "transfer closed",
)  # fmt: skip
_DENIED = ("Authentication failed", "could not read Username", "could not read Password", "returned error: 401",
           "returned error: 403", "Permission denied", "Host key verification failed")  # fmt: skip

PACKS = ("--upload-pack=git-upload-pack",)
"""The program at the other end, whatever the repository's settings say."""


class Remote(NamedTuple):
    """Another repository: ``name`` is that of its settings, ``git`` is allowed to reach it."""

    name: str
    address: Address
    git: Git

    def ask(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> str:
        """Run git against it. Raises Failure in the class of what went wrong: transient, denied, policy, logic."""
        try:
            return self.git.run(*arguments, ok=ok).text
        except Refused as refused:
            raise failure_of(str(refused), kind_of(refused.said)) from None

    def value(self, reference: str) -> str:
        """What a reference, by its full name, points to there; empty where it does not exist."""
        listed = self.ask("ls-remote", *PACKS, "--end-of-options", self.address.text, reference)
        rows = [line.split("\t") for line in listed.splitlines()]
        return next((digest for digest, name in rows if name == reference), "")

    def has_branches(self) -> bool:
        """Whether there is any branch there."""
        return bool(self.ask("ls-remote", "--heads", *PACKS, "--end-of-options", self.address.text))

    def head(self) -> str:
        """The full name of the default branch there; empty where the server does not say."""
        listed = self.ask("ls-remote", "--symref", *PACKS, "--end-of-options", self.address.text, "HEAD")
        rows = [line.removeprefix("ref: ").split("\t") for line in listed.splitlines() if line.startswith("ref: ")]
        return next((branch for branch, name in rows if name == "HEAD"), "")


def kind_of(said: str) -> str:
    """The failure class of what git said about a remote repository."""
    if any(sign in said for sign in _DENIED):
        return "denied"
    if any(sign in said for sign in _PASSING):
        return "transient"
    return "policy" if "not allowed" in said else "logic"


def failure_of(message: str, kind: str) -> Failure:
    """The failure of a command about a remote repository; what git itself does not go by is refused by a rule."""
    return Failure(message, kind, rule="git.protocol" if kind == "policy" else "")


def remote_of(context: Context, repository: Repository, name: str, url: str = "", push: bool = False) -> Remote:
    """The remote of a name, at ``url`` or where the repository's settings say. Raises Failure where nothing says."""
    checked_reference(name, "remote")
    configured = (push and repository.get(f"remote.{name}.pushurl")) or repository.get(f"remote.{name}.url")
    text = url or configured
    if not text:
        raise Failure(f"the repository has no remote `{name}`: give its `url`")
    address = parsed(text)
    if address.scheme == "file" and "://" not in text and not text.startswith("/"):
        address = address._replace(text=os.path.join(context.call.directory if url else repository.top, text))
    require_repository(context, address, "write" if push else "read")
    return Remote(name, address, connected(context, repository.git, address))


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
    specs = [f"+refs/heads/{checked_reference(name)}:{aside}/heads/{name}" for name in branches]
    specs = specs or [f"+refs/heads/*:{aside}/heads/*"]
    return [*specs, *([f"+refs/tags/*:{aside}/tags/*"] if tags else [])]


def _fetch_command(remote: Remote, spec: list[str]) -> list[str]:
    return ["fetch", *QUIET, *PACKS, "--no-tags", "--no-prune", "--end-of-options", remote.address.text, *spec]


def _preview_fetch(
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
    calls = (plain_call(*_fetch_command(other, _spec(branches or [], tags, aside))), "git update-ref --stdin")
    return Preview(f"fetch from {other.address.text}", "", calls)


@looking
def _capture_fetch(context: Context, remote: str = "origin", **_: Any) -> dict[str, Any]:
    repository = open_repository(context)
    checked_reference(remote, "remote")
    return {"slot": slot(context), "top": repository.top}


@taking_back
def _undo_fetch(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
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
    preview=_preview_fetch,
    capture=_capture_fetch,
    undo=_undo_fetch,
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
        other.ask(*_fetch_command(other, _spec(branches or [], tags, aside)))
        changes = _changes(repository, aside, remote, tags, prune and not branches)
        for part in _in_turn(changes):
            told = _told(told, part)
            with record.holding({"updated": told}):
                _apply(context, repository, part, f"fetch {remote}")
    finally:
        _drop_aside(repository, slot(context))
    return Fetched(remote, other.address.text, told)


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
    updates = {each["ref"]: each for each in earlier}
    for ref, old, new in changes:
        updates[ref] = Update(ref=ref, old=updates[ref]["old"] if ref in updates else old, new=new)
    return [each for each in updates.values() if each["old"] != each["new"]]


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


PUSH = (
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


class _Push(NamedTuple):
    """A push: where to, and from which value to which."""

    remote: Remote
    ref: str
    new: str
    tracking: str


def _planned(context: Context, repository: Repository, inputs: dict[str, Any]) -> _Push:
    remote = remote_of(context, repository, inputs.get("remote", "origin"), inputs.get("url", ""), push=True)
    source, to = inputs.get("ref", ""), inputs.get("to", "")
    head = head_of(repository)
    target = to or source or head.name
    if not target:
        raise Failure("HEAD is on no branch: say where to push with `to`")
    full = _full(repository, target, bool(to))
    tracked = full.startswith("refs/heads/") and not inputs.get("url")
    tracking = f"refs/remotes/{remote.name}/{full.removeprefix('refs/heads/')}" if tracked else ""
    return _Push(remote, full, _source(repository, source, full), tracking)


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
        remote.git.run(*_push_command(remote, ref, new, old))
    except Refused as refused:
        if "stale info" in refused.said or "fetch first" in refused.said:
            raise Failure(f"{ref} has moved at {remote.address.text}", "moved") from None
        kind = "rejected" if "remote rejected" in refused.said else kind_of(refused.said)
        raise failure_of(str(refused), kind) from None


def _push_command(remote: Remote, ref: str, new: str, old: str) -> tuple[str, ...]:
    lease = f"--force-with-lease={ref}:{old}"
    return (*PUSH, lease, "--end-of-options", remote.address.text, f"{new}:{ref}")


def _preview_push(context: Context, **inputs: Any) -> Preview:
    repository = open_repository(context)
    plan = _planned(context, repository, inputs)
    old = plan.remote.value(plan.ref)
    summary = f"set {plan.ref} at {plan.remote.address.text} from {old[:12] or 'nothing'} to {plan.new[:12]}"
    if old == plan.new:
        return Preview(f"{plan.ref} at {plan.remote.address.text} is at {old[:12]} already")
    if not old and plan.ref.startswith("refs/heads/") and not plan.remote.has_branches():
        summary += _FIRST
    return Preview(summary, "", (plain_call(*_push_command(plan.remote, plan.ref, plan.new, old)),))


@looking
def _capture_push(context: Context, **inputs: Any) -> dict[str, Any]:
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
def _undo_push(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
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
    preview=_preview_push,
    capture=_capture_push,
    undo=_undo_push,
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
        _require_seen(repository, plan, now, expected, force)
        with record.holding({"old": now, "new": plan.new}, unsure=("transient",)):
            _push(plan.remote, plan.ref, plan.new, now)
    if plan.tracking and (tracked := value_of(repository, plan.tracking)) != plan.new:
        move(repository, plan.tracking, plan.new, tracked, reason(context, "push"))
    return Pushed(remote, plan.remote.address.text, plan.ref, old, plan.new, old != plan.new)


def _require_seen(repository: Repository, plan: _Push, now: str, expected: str, force: bool) -> None:
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
