"""Commits and merges: ``git.commit`` and ``git.merge``."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.git import checkout, index, scopes
from planrunner.capabilities.git.command import checked_reference, plain_call, shown
from planrunner.capabilities.git.configuration import user_value
from planrunner.capabilities.git.index import File, stage
from planrunner.capabilities.git.repository import (
    Head,
    Record,
    Repository,
    commit_of,
    head_of,
    looking,
    move,
    must_be_calm,
    open_repository,
    reason,
    short,
    slot,
    taking_back,
    tree_of_head,
    value_of,
)

_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")


def composed(context: Context, subject: str, body: str, trailers: Mapping[str, object], origin: bool) -> str:
    """The message: subject, an empty line, body, an empty line, trailers. ``origin`` adds run and task as trailers.
    Raises Failure for what is not a subject or a trailer."""
    subject = subject.strip()
    if not subject or any(ord(char) < 32 or ord(char) == 127 for char in subject):
        raise Failure("`subject` takes one line of text")
    if "\0" in body:
        raise Failure("`body` holds a null character")
    trailing = [(name, value) for name, given in trailers.items() for value in _values(given)]
    if origin:
        trailing += [("Planrunner-Run", context.call.run_id), ("Planrunner-Task", context.call.task.id)]
    lines = []
    for name, value in trailing:
        text = str(value).strip()
        if not _TOKEN.fullmatch(name):
            raise Failure(f"{name!r} is not the name of a trailer")
        if any(ord(char) < 32 or ord(char) == 127 for char in text):
            raise Failure(f"the trailer `{name}` takes one line of text")
        lines.append(f"{name}: {text}")
    return "\n\n".join(part for part in (subject, body.strip("\n"), "\n".join(lines)) if part) + "\n"


def _values(given: object) -> list[object]:
    return list(given) if isinstance(given, (list, tuple)) else [given]


class Committed(NamedTuple):
    commit: Annotated[str, Doc("its digest")]
    branch: Annotated[str, Doc("short name; empty when HEAD is detached")]
    parent: Annotated[str, Doc("empty for the first commit")]
    tree: Annotated[str, Doc("digest of what was committed")]
    subject: Annotated[str, Doc("first line of the message")]
    index_sha256: Annotated[str, Doc("SHA-256 of the entries of the index; empty where it was left alone")]


class _Prepared(NamedTuple):
    """A tree to be committed; ``copy`` is the index that goes with it, None where the index stays as it is; ``said`` is
    what the index said before."""

    tree: str
    copy: index.Copy | None
    said: str


def _preview(context: Context, **inputs: Any) -> Preview:
    repository = open_repository(context)
    head = head_of(repository)
    message = composed(
        context,
        inputs["subject"],
        inputs.get("body", ""),
        inputs.get("trailers") or {},
        inputs.get("origin", False),
    )
    paths, everything = inputs.get("paths") or [], inputs.get("all", False)
    with _prepared(repository, f"{slot(context)}-preview", paths, everything) as ready:
        base = head.commit or tree_of_head(repository)
        diff = repository.git.raw(
            "diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv", "--no-color", base, ready.tree
        )
    parent = ("-p", head.commit) if head.commit else ()
    meant = inputs.get("branch", "")
    calls = (
        plain_call("commit-tree", ready.tree, *parent, "-m", message),
        plain_call("update-ref", f"refs/heads/{checked_reference(meant)}" if meant else "HEAD", "COMMIT", head.commit),
    )
    place = meant or f"the branch HEAD is on then (now {head.name or 'none'})"
    return Preview(f"commit to {place}: {inputs['subject']}", shown(diff), calls)


@looking
def _capture(context: Context, **inputs: Any) -> dict[str, Any]:
    repository = open_repository(context)
    before: dict[str, Any] = {"slot": slot(context), "branch": head_of(repository).branch}
    if inputs.get("paths") or inputs.get("all"):
        before["index"] = index.keep(context, repository)
    return before


@taking_back
def undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    """Set the branch back to where the commit was put on it, unless it moved on, and the index with it where the commit
    changed it."""
    repository = open_repository(context)
    record = Record(context, before["slot"])
    noted = record.read()
    done = {**(outputs or {}), **noted}
    index.Copy(repository, before["slot"]).clear()
    stale = False
    if "index" in before and done and done.get("staged", True):
        index.must_have_been(before["index"], done.get("index_before"))
        stale = index.can_put_back(repository, before["index"], done["index_sha256"])
    reference = str(done.get("reference") or before["branch"] or "HEAD")
    moved = bool(done) and not done.get("refused") and _must_be_last(repository, reference, done)
    if moved:
        move(repository, reference, done["parent"], done["commit"], reason(context, "undo commit"))
    if stale:
        index.put_back(context, repository, before["index"], before["slot"])
    record.drop()
    return moved or stale


def _must_be_last(repository: Repository, reference: str, done: dict[str, Any]) -> bool:
    """Whether the commit is the last of its branch; false where it did not come there. Raises Failure (moved) where the
    branch moved on."""
    new, now = done["commit"], value_of(repository, reference)
    attached_since = reference == "HEAD" and head_of(repository).branch != ""
    if now not in (done["parent"], new) or attached_since:
        raise Failure(
            f"{short(reference)} has moved since: expected {new[:12]}, the commit of this task, found "
            f"{now[:12] or 'nothing'}. Nothing was taken back: `git revert {new[:12]}` takes the commit back and keeps "
            "what came after it",
            "moved",
        )
    return bool(now == new)


@capability(
    "git.commit",
    effect="idempotent",
    risks=("moves the branch",),
    preview=_preview,
    capture=_capture,
    undo=undo,
    own=("commit", "branch", "parent", "tree", "index_sha256"),
    preconditions=("program git",),
)
def commit(
    context: Context,
    subject: Annotated[str, Doc("first line of the message")],
    body: Annotated[str, Doc("text after the subject")] = "",
    trailers: Annotated[dict[str, str] | None, Doc("lines `Name: value` at the end of the message")] = None,
    origin: Annotated[bool, Doc("add the trailers Planrunner-Run and Planrunner-Task")] = False,
    author: Annotated[str, Doc("such as Ana <ana@example.org>; default: who commits")] = "",
    paths: Annotated[list[File] | None, Doc("commit these files as they are, and nothing else that is staged")] = None,
    all: Annotated[bool, Doc("stage every change of tracked files first")] = False,
    allow_empty: Annotated[bool, Doc("commit even if nothing changed")] = False,
    branch: Annotated[str, Doc("commit only if HEAD is on this branch; default: whichever it is on")] = "",
) -> Committed:
    """Commit what is staged. Hooks do not run and nothing is signed.

    With nothing to commit it fails with the class `empty`, and with `moved` where HEAD is not on the `branch` named.
    """
    if paths and all:
        raise Failure("`paths` and `all` exclude each other")
    repository = open_repository(context)
    record = Record(context, slot(context))
    if (noted := record.read()) and (found := _finished(context, repository, noted)):
        return found
    must_be_calm(repository)
    message = composed(context, subject, body, trailers or {}, origin)
    people = identities(context, repository, author)
    head = head_of(repository)
    if branch and head.branch != f"refs/heads/{checked_reference(branch)}":
        place = short(head.branch) if head.branch else "no branch"
        raise Failure(f"expected HEAD on `{branch}`, found {place}", "moved")
    with _prepared(repository, slot(context), paths or [], all) as ready:
        if not allow_empty and ready.tree == tree_of_head(repository):
            raise Failure("nothing to commit: the tree is the same as that of HEAD", "empty")
        new = make(repository, ready.tree, [head.commit] if head.commit else [], message, people)
        after = index.says(repository, ready.copy.path) if ready.copy else ""
        done = Committed(new, head.name, head.commit, ready.tree, subject.strip(), after)
        note = {**done._asdict(), "reference": head.branch or "HEAD", "index_before": ready.said}
        _carry_out(context, repository, ready.copy, note)
    return done


def _carry_out(context: Context, repository: Repository, copy: index.Copy | None, note: dict[str, Any]) -> None:
    """Index first, then the branch. The note says how far it came where one of them was refused."""
    record = Record(context, slot(context))
    record.write(note)
    staged = False
    try:
        if copy:
            copy.publish()
            staged = True
        move(
            repository, note["reference"], note["commit"], note["parent"], reason(context, f"commit: {note['subject']}")
        )
    except Failure as failure:
        if failure.failure not in ("cancelled", "timeout"):
            record.write({**note, "refused": True, "staged": staged})
        raise


def _finished(context: Context, repository: Repository, noted: dict[str, Any]) -> Committed | None:
    """What an earlier attempt has done, and what it left to do is done now; None where it has to be done again."""
    done = Committed(*(noted[name] for name in Committed._fields))
    now = value_of(repository, noted["reference"])
    if now and contains(repository, now, done.commit):
        return done
    copied = noted["index_sha256"] in ("", index.says(repository, repository.index_path))
    if now == done.parent and copied:
        move(repository, noted["reference"], done.commit, now, reason(context, f"commit: {done.subject}"))
        return done
    return None


def contains(repository: Repository, later: str, earlier: str) -> bool:
    """Whether one commit is based on another, or is the same."""
    found = repository.git.run("merge-base", "--is-ancestor", earlier, later, ok=(0, 1, 128))
    return found.code == 0


@contextlib.contextmanager
def _prepared(repository: Repository, name: str, paths: list[str], everything: bool) -> Iterator[_Prepared]:
    """The tree to commit, with a copy of the index that is gone afterwards."""
    copy, only = index.Copy(repository, name), index.Copy(repository, f"{name}-only")
    copy.take()
    try:
        tree_from, said = copy.path, index.says(repository, copy.path)
        if paths:
            only.take()  # files that git was told not to look at stay so
            head = head_of(repository)
            start = ("-i", "--reset", head.commit) if head.commit else ("--empty",)
            repository.git.run("read-tree", *start, index=only.path)
            for target in (copy.path, only.path):
                stage(repository, paths, target)
            tree_from = only.path
        elif everything:
            scopes.require_changed(repository, copy.path, ["."])
            repository.git.run("add", "--update", "--", ".", index=copy.path)
        tree = repository.git.text("write-tree", index=tree_from)
        changes = (paths or everything) and os.path.exists(copy.path)
        yield _Prepared(tree, copy if changes else None, said)
    finally:
        copy.clear()
        only.clear()


def make(repository: Repository, tree: str, parents: list[str], message: str, people: dict[str, str]) -> str:
    """Make a commit that nothing points to yet."""
    git = repository.git._replace(variables={**repository.git.variables, **people})
    options = [part for parent in parents for part in ("-p", parent)]
    return git.run("commit-tree", tree, *options, "-F", "-", stdin=message.encode()).text.strip()


FastForward = Literal["auto", "only", "never"]


class Merged(NamedTuple):
    commit: Annotated[str, Doc("the commit of HEAD now")]
    previous: Annotated[str, Doc("the commit of HEAD before")]
    how: Annotated[str, Doc("`up_to_date`, `fast_forward` or `merge`")]
    index_sha256: Annotated[str, Doc("SHA-256 of the entries of the index")]
    conflicts: Annotated[list[str], Doc("paths that both sides changed, where it failed as `conflict`; else none")]
    messages: Annotated[list[str], Doc("what git says about each of them")]


class _Result(NamedTuple):
    """What a merge comes to: ``tree`` is a commit where it is a fast-forward, else a tree."""

    how: str
    head: Head
    theirs: str
    tree: str


def _result(repository: Repository, ref: str, ff: str) -> _Result:
    if ff not in ("auto", "only", "never"):
        raise Failure(f"`ff` takes auto, only or never, found {ff}")
    head, theirs = checkout.must_have_commits(repository), commit_of(repository, ref)
    if contains(repository, head.commit, theirs):
        return _Result("up_to_date", head, theirs, head.commit)
    if ff != "never" and contains(repository, theirs, head.commit):
        return _Result("fast_forward", head, theirs, theirs)
    if ff == "only":
        raise Failure(f"{ref} is not a descendant of HEAD: a fast-forward is not possible", "diverged")
    return _Result("merge", head, theirs, _merged_tree(repository, head.commit, theirs))


def _merged_tree(repository: Repository, ours: str, theirs: str) -> str:
    """The tree of the merge. Raises Failure (conflict) with the paths and what git says about each."""
    asked = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs)
    ended = repository.git.run(*asked, ok=(0, 1, 129))
    if ended.code == 129:
        raise Failure("this git is too old to merge: 2.38 or later is needed")
    head, _, messages = os.fsdecode(ended.stdout).partition("\0\0")
    tree, *paths = [part for part in head.split("\0") if part]
    if ended.code == 0:
        return tree
    told = shown(os.fsencode(messages)).replace("\\x00", "\n").splitlines()
    said = [line for line in told if line.startswith("CONFLICT") and ": " in line]
    conflicts = sorted({os.fsencode(path).decode("utf-8", "replace") for path in paths})
    number = "1 path conflicts" if len(conflicts) == 1 else f"{len(conflicts)} paths conflict"
    raise Failure(
        f"{number}: {', '.join(conflicts[:5])}",
        "conflict",
        {"conflicts": conflicts, "messages": said[:100]},
    )


def _preview_merge(context: Context, ref: str, ff: FastForward = "auto", **_: Any) -> Preview:
    repository = open_repository(context)
    result = _result(repository, ref, ff)
    if result.how == "up_to_date":
        return Preview(f"{ref} is merged already")
    ours = result.head.commit
    diff = repository.git.raw("diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv", ours, result.tree)
    calls = [plain_call("read-tree", "-m", "-u", ours, result.tree)]
    if result.how == "merge":
        calls.insert(0, plain_call("commit-tree", result.tree, "-p", ours, "-p", result.theirs))
    new = result.theirs if result.how == "fast_forward" else "COMMIT"
    calls.append(plain_call("update-ref", result.head.branch or "HEAD", new, ours))
    return Preview(f"merge {ref} ({result.how.replace('_', ' ')})", shown(diff), tuple(calls))


@looking
def _capture_merge(context: Context, ref: str, ff: FastForward = "auto", **_: Any) -> dict[str, Any]:
    repository = open_repository(context)
    try:
        new = _result(repository, ref, ff).tree
    except Failure:  # the attempt itself will say so, and changes nothing
        new = head_of(repository).commit
    return checkout.capture(context, repository, new)


@taking_back
def _undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> bool:
    done = outputs or {}
    to = Head(before["branch"], done["commit"]) if done and done["how"] != "up_to_date" else None
    return checkout.undo(context, before, done.get("index_sha256", ""), to)


@capability(
    "git.merge",
    effect="idempotent",
    risks=("moves the branch", "replaces files of the working tree"),
    preview=_preview_merge,
    capture=_capture_merge,
    undo=_undo,
    foreign=("conflicts", "messages"),
    own=("commit", "previous", "how", "index_sha256"),
    preconditions=("program git",),
)
def merge(
    context: Context,
    ref: Annotated[str, Doc("commit or branch to merge into the current branch")],
    ff: Annotated[FastForward, Doc("fast-forward where possible, only so, or never")] = "auto",
    subject: Annotated[str, Doc("first line of the message; default: Merge REF")] = "",
    body: Annotated[str, Doc("text after the subject")] = "",
    trailers: Annotated[dict[str, str] | None, Doc("lines `Name: value` at the end of the message")] = None,
    origin: Annotated[bool, Doc("add the trailers Planrunner-Run and Planrunner-Task")] = False,
    author: Annotated[str, Doc("such as Ana <ana@example.org>; default: who commits")] = "",
) -> Merged:
    """Merge a branch into the current one.

    Where both changed the same lines it fails with the class `conflict` and the outputs `conflicts` and `messages`;
    branch, index and files are as before. Local changes in the way fail with `dirty`.
    """
    repository = open_repository(context)
    noted = Record(context, slot(context)).read()
    if noted.get("to") and checkout.is_done(repository, noted, Head(*noted["to"])):
        how = "merge" if noted["commits"][1] != noted["to"][1] else "fast_forward"
        return Merged(noted["to"][1], noted["commits"][0], how, index.says(repository, repository.index_path), [], [])
    must_be_calm(repository)
    result = _result(repository, ref, ff)
    head, new = result.head, result.tree
    if result.how == "merge":
        message = composed(context, subject or f"Merge {ref}", body, trailers or {}, origin)
        people = identities(context, repository, author)
        new = make(repository, result.tree, [head.commit, result.theirs], message, people)
    if result.how != "up_to_date":
        checkout.go(context, repository, result.tree, Head(head.branch, new), f"merge {ref}: {result.how}")
    return Merged(new, head.commit, result.how, index.says(repository, repository.index_path), [], [])


_PERSON = re.compile(r"([^<>\n\0]+?) *<([^<>\n\0]*)>")


def identities(context: Context, repository: Repository, author: str) -> dict[str, str]:
    """The variables by which git knows author and committer. Raises Failure where no committer is configured."""
    project = context.settings("git")
    committer = writer = tuple(
        re.sub(r"[<>\n\0]", "", project.get(key) or repository.get(f"user.{key}") or user_value(context, f"user.{key}"))
        for key in ("name", "email")
    )
    if author:
        match = _PERSON.fullmatch(author.strip())
        if match is None:
            raise Failure(f"`author` takes a name and an address such as Ana <ana@example.org>, found {author!r}")
        writer = (match[1], match[2])
        committer = committer if all(committer) else writer
    elif not all(committer):
        raise Failure(
            "no committer is configured: give `author: Name <mail>`, or set `git: {name: …, email: …}`"
            " in planrunner.yaml"
        )
    return {
        "GIT_AUTHOR_NAME": writer[0],
        "GIT_AUTHOR_EMAIL": writer[1],
        "GIT_COMMITTER_NAME": committer[0],
        "GIT_COMMITTER_EMAIL": committer[1],
    }
