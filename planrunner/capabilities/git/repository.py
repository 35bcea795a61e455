"""The repository of a call: found, read, moved by compare-and-swap, with notes of attempts and what all undos share."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.git import configuration
from planrunner.capabilities.git.command import SETTINGS, Git, Refused, checked_revision
from planrunner.capabilities.git.configuration import user_values
from planrunner.fileio import locked
from planrunner.files.listing import repository_around

UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer")


class Repository(NamedTuple):
    """A working tree: ``top`` is its folder, ``folder`` what git keeps for it alone, ``shared`` what all working trees
    of the repository have in common; ``settings`` are its own, as far as they were let be."""

    git: Git
    top: str
    folder: str
    shared: str
    settings: tuple[tuple[str, str], ...]

    def get(self, key: str) -> str:
        """The last value of a setting; an empty text where it is not set."""
        return next((value for name, value in reversed(self.settings) if name.lower() == key.lower()), "")

    @property
    def below(self) -> str:
        """The working directory, from ``top`` on; ``.`` where it is the top."""
        return os.path.relpath(os.path.realpath(self.git.directory), os.path.realpath(self.top))

    @property
    def index_path(self) -> str:
        return os.path.join(self.folder, "index")

    def worktree(self, *arguments: str) -> None:
        """Add or remove a working tree, one at a time in the repository: git removes the folder of all trees with the
        last one, and an addition that began meanwhile fails. Raises Refused."""
        folder = os.open(self.shared, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with locked(folder):
                self.git.run("worktree", *arguments)
        finally:
            os.close(folder)


class Head(NamedTuple):
    """Where HEAD stands: ``branch`` is the full name of its branch, empty when it is detached; ``commit`` is empty on a
    branch without commits."""

    branch: str
    commit: str

    @property
    def name(self) -> str:
        """The short name of the branch."""
        return self.branch.removeprefix("refs/heads/")


def open_repository(context: Context, directory: str = "") -> Repository:
    """The repository around the working directory, or around a folder below it. Raises Failure where it does not exist,
    where it belongs to another user, and (policy) where its settings are refused."""
    directory = directory or context.call.directory
    plain = Git(context, directory)
    top, folder, shared = _find(plain)
    if os.path.realpath(top) != repository_around(directory):  # whatever the settings say
        raise Failure(f"the working tree of {folder} lies elsewhere: {top}", rule="git.worktree")
    found = configuration.read(plain, os.path.join(shared, "config"))
    found += configuration.read(plain, os.path.join(folder, "config.worktree"))
    configuration.check(found, context.settings("git").get("allow_config", ()))
    # settings that stay but must not answer for programs are laid over with nothing
    silenced = tuple((key, "") for key, _ in found if key.lower().startswith("credential.") and key.endswith(".helper"))
    git = Git(context, directory, SETTINGS + silenced, {"GIT_DIR": folder, "GIT_WORK_TREE": top})
    return Repository(git, top, folder, shared, tuple(found))


def _find(git: Git) -> list[str]:
    """Working tree, git's own folder for it, and the folder that all working trees share."""
    asked = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir")
    try:
        answer = git.text(*asked)
    except Refused as refused:
        if "not a git repository" in refused.said:
            raise Failure(f"{git.directory} lies in no git repository") from None
        if "dubious ownership" not in refused.said:
            raise
        trusted = tuple(("safe.directory", path) for path in user_values(git.context, "safe.directory"))
        answer = git._replace(settings=git.settings + trusted).text(*asked)
    lines = answer.split("\n")
    if len(lines) != 3:
        raise Failure(f"{git.directory} lies in a repository whose path has line ends")
    return lines


def head_of(repository: Repository) -> Head:
    """Where HEAD stands."""
    git = repository.git
    return Head(
        git.maybe("symbolic-ref", "--quiet", "HEAD"), git.maybe("rev-parse", "--quiet", "--verify", "HEAD^{commit}")
    )


def commit_of(repository: Repository, name: str) -> str:
    """The commit that a name stands for. Raises Failure where it does not exist."""
    return object_of(repository, name, "commit")


def object_of(repository: Repository, name: str, kind: str) -> str:
    """The object of a kind (commit, tree, object) that a name stands for. Raises Failure where it does not exist."""
    wanted = f"{checked_revision(name)}^{{{kind}}}"
    found = repository.git.run("rev-parse", "--quiet", "--verify", "--end-of-options", wanted, ok=(0, 1, 128))
    digest = found.text.strip().splitlines()
    if found.code or not digest:
        raise Failure(f"`{name}` names no {'commit' if kind == 'commit' else 'object'} here", "unknown_ref")
    return digest[-1]


def value_of(repository: Repository, reference: str) -> str:
    """What a reference, by its full name, points to; empty where it does not exist."""
    found = repository.git.run("rev-parse", "--quiet", "--verify", "--end-of-options", reference, ok=(0, 1, 128))
    return found.text.strip().splitlines()[-1] if found.code == 0 and found.stdout.strip() else ""


def listed(repository: Repository, *prefixes: str) -> dict[str, str]:
    """References that are not symbolic, with what they point to."""
    shape = "--format=%(refname)%00%(objectname)%00%(symref)"
    lines = os.fsdecode(repository.git.raw("for-each-ref", shape, *prefixes)).splitlines()
    rows = (line.split("\0") for line in lines)
    return {name: digest for name, digest, symbolic in rows if not symbolic}


def tree_of_head(repository: Repository) -> str:
    """The tree of HEAD, or the empty one before the first commit."""
    tree = repository.git.maybe("rev-parse", "--quiet", "--verify", "HEAD^{tree}")
    return tree or repository.git.text("hash-object", "-t", "tree", "--stdin")


def must_be_calm(repository: Repository) -> None:
    """Raises Failure while a merge, a rebase or the like is half done."""
    for name in UNDER_WAY:
        if os.path.lexists(os.path.join(repository.folder, name)):
            raise Failure(f"something is under way in this working tree: {name} exists; end it first", "busy")


def move(repository: Repository, reference: str, new: str, old: str, why: str) -> None:
    """Set a reference to ``new`` if it is at ``old`` (both may be empty: no such reference). Raises Failure (moved)."""
    zero = "0" * len(new or old)
    change = ("-d", reference, old) if not new else (reference, new, old or zero)
    try:
        repository.git.run("update-ref", "--no-deref", "-m", why, *change)
    except Refused as refused:
        if "but expected" in refused.said or "reference already exists" in refused.said:
            raise Failure(f"{short(reference)} has moved: {refused}", "moved") from None
        if ".lock': File exists" in refused.said or "Unable to create" in refused.said:
            raise Failure(f"{refused}; another git process has it, or one was killed", "transient") from None
        raise


@contextlib.contextmanager
def making(what: str) -> Iterator[None]:
    """While a reference is set that has to be new. Raises Failure (exists) where another process has just made it."""
    try:
        yield
    except Failure as failure:
        if failure.failure != "moved":
            raise
        raise Failure(f"{what} was created meanwhile by another process", "exists") from None


def short(reference: str) -> str:
    """The name of a reference as people say it."""
    for prefix in ("refs/heads/", "refs/tags/", "refs/remotes/"):
        reference = reference.removeprefix(prefix)
    return f"`{reference}`"


def reason(context: Context, what: str) -> str:
    """What the reflog says about a change of ours."""
    return f"planrunner {context.call.run_id}/{context.call.task.id}: {what}"


def slot(context: Context) -> str:
    """What names the traces of a task's visit: the same in all its attempts, and when one is issued again."""
    call = context.call
    return sha256((call.once or call.key).encode()).hexdigest()[:24]


class Record:
    """A note under a name, durable once ``write`` has returned. It holds nothing but JSON data."""

    __slots__ = ("_context", "_name")

    def __init__(self, context: Context, slot: str) -> None:
        self._context = context
        self._name = f"git {slot}"

    def read(self) -> dict[str, Any]:
        """What was noted; empty where nothing was."""
        text = self._context.noted(self._name)
        found = json.loads(text) if text else {}
        return found if isinstance(found, dict) else {}

    def write(self, data: dict[str, Any]) -> None:
        """Note it in place of what was there. Raises StorageFailed."""
        self._context.note(self._name, json.dumps(data))

    @contextlib.contextmanager
    def holding(self, data: dict[str, Any], unsure: tuple[str, ...] = ()) -> Iterator[None]:
        """Note it for an act that happens as a whole or not at all. Where that fails the note is what it was, but for
        the classes of failure that leave open whether it happened."""
        earlier = self.read()
        self.write(data)
        try:
            yield
        except Failure as failure:
            if failure.failure not in ("cancelled", "timeout", *unsure):
                self.write(earlier) if earlier else self.drop()
            raise

    def drop(self) -> None:
        """Forget it."""
        self._context.note(self._name, "")


Before = dict[str, Any]
Outputs = dict[str, Any] | None

_PASSING = ("transient", "timeout", "cancelled")


def looking(capture: Callable[..., Before]) -> Callable[..., Before]:
    """Make of a function the ``capture`` of a capability: what the attempt itself will refuse, with a class of its own,
    is left to it. What may pass is raised, since another look may do."""

    @functools.wraps(capture)
    def looked(context: Context, **inputs: Any) -> Before:
        try:
            return capture(context, **inputs)
        except Failure as failure:
            if failure.failure in _PASSING:
                raise
            return {"slot": slot(context), "late": str(failure)}

    return looked


def taking_back(
    undo: Callable[[Context, Before, Outputs], bool],
) -> Callable[[Context, Before, Outputs], dict[str, Any]]:
    """Make of a function the ``undo`` of a capability. It answers whether there was something to take back."""

    @functools.wraps(undo)
    def taken_back(context: Context, before: Before, outputs: Outputs) -> dict[str, Any]:
        if "late" not in before:
            return {"changed": undo(context, before, outputs)}
        if outputs is None and not any(Record(context, before["slot"] + part).read() for part in ("", "-branch")):
            return {"changed": False}
        raise Failure(f"cannot roll back: the earlier state was never recorded: {before['late']}")

    return taken_back
