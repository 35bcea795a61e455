"""``git.diff``, ``git.log``, ``git.show`` and ``git.bisect``: differences and history."""

from __future__ import annotations

import os
import shutil
import time
from typing import Annotated, Any, NamedTuple, TypedDict

from planrunner.capabilities.contract import Context, Doc, Failure, capability, seconds
from planrunner.capabilities.files.text import bytes_of
from planrunner.capabilities.git import scopes
from planrunner.capabilities.git.command import SETTINGS, Git, checked_path
from planrunner.capabilities.git.commit import contains
from planrunner.capabilities.git.index import File
from planrunner.capabilities.git.repository import Repository, commit_of, listed, open_repository
from planrunner.capabilities.programs import Program, run

PLAIN = (
    *("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    *("--no-color", "--src-prefix=a/", "--dst-prefix=b/", "--no-renames"),
)
"""Options of every difference: no foreign program, be it of a submodule, and no settings of the user in its form."""

_FORMAT = "%H%x00%P%x00%an%x00%ae%x00%aI%x00%s%x00%B%x00%x01"


class Changed(TypedDict):
    """A file that differs; lines are null where it is binary."""

    path: str
    added: int | None
    removed: int | None


class Difference(NamedTuple):
    diff: Annotated[str, Doc("a unified diff")]
    truncated: Annotated[bool, Doc("the diff was longer than max_bytes")]
    files: Annotated[list[Changed], Doc("each with its path, and lines added and removed; null for a binary file")]
    added: Annotated[int, Doc("lines in all")]
    removed: Annotated[int, Doc("lines in all")]


class Commit(TypedDict):
    commit: str
    parents: list[str]
    author: str
    email: str
    date: str
    subject: str
    message: str


class History(NamedTuple):
    commits: Annotated[list[Commit], Doc("the newest first: commit, parents, author, email, date, subject, message")]


class Shown(NamedTuple):
    commit: Annotated[str, Doc("its digest")]
    parents: Annotated[list[str], Doc("digests of the commits it is based on")]
    author: Annotated[str, Doc("name of the author")]
    email: Annotated[str, Doc("mail address of the author")]
    date: Annotated[str, Doc("when it was written, as in 2026-01-31T12:00:00+00:00")]
    subject: Annotated[str, Doc("first line of the message")]
    message: Annotated[str, Doc("the whole message")]
    diff: Annotated[str, Doc("against the first parent")]
    files: Annotated[list[Changed], Doc("each with its path, and lines added and removed")]


@capability(
    "git.diff",
    effect="read",
    foreign=("diff", "files"),
    preconditions=("program git",),
)
def diff(
    context: Context,
    base: Annotated[str, Doc("commit to compare with; default: the index, or HEAD with staged")] = "",
    target: Annotated[str, Doc("commit to compare; default: the working tree, or the index with staged")] = "",
    paths: Annotated[list[File] | None, Doc("only these files and folders, taken literally")] = None,
    staged: Annotated[bool, Doc("what is staged rather than what stands in the working tree")] = False,
    context_lines: Annotated[int, Doc("unchanged lines around each change")] = 3,
    max_bytes: Annotated[int | str, Doc("cut the diff after this", quantity="size")] = "200KB",
) -> Difference:
    """What differs between commits, index and working tree."""
    repository = open_repository(context)
    if staged and target:
        raise Failure("`staged` compares the index: it takes no `target`")
    if target and not base:
        raise Failure("`target` needs a `base` to be compared with")
    wanted = [*(("--cached",) if staged else ()), *(commit_of(repository, name) for name in (base, target) if name)]
    wanted += ["--", *(checked_path(path) for path in paths or ())]
    scopes.require_named(context, paths or ())
    listed = repository.git.items("diff", *PLAIN, "--numstat", "-z", *wanted)
    scopes.require(context, "read", repository.top, map(_path, listed))
    most, around = bytes_of("max_bytes", max_bytes), f"-U{max(0, int(context_lines))}"
    text, more = repository.git.first(most, "diff", *PLAIN, around, *wanted)
    files = _counted(listed)
    added, removed = sum(file["added"] or 0 for file in files), sum(file["removed"] or 0 for file in files)
    return Difference(text.decode("utf-8", "replace"), more, files, added, removed)


@capability(
    "git.log",
    effect="read",
    foreign=("commits",),
    own=("commits.*.commit", "commits.*.date"),
    preconditions=("program git",),
)
def log(
    context: Context,
    ref: Annotated[str, Doc("commit to begin with")] = "HEAD",
    since: Annotated[str, Doc("leave out this commit and what it is based on")] = "",
    paths: Annotated[list[str] | None, Doc("only commits that change these, taken literally")] = None,
    limit: Annotated[int, Doc("at most so many commits")] = 50,
) -> History:
    """The newest commits, with their messages."""
    repository = open_repository(context)
    if not 0 < limit <= 10_000:
        raise Failure("`limit` must be between 1 and 10000")
    wanted = [commit_of(repository, ref), *(f"^{commit_of(repository, name)}" for name in (since,) if name)]
    return History(_commits(repository, [f"--max-count={limit}", *wanted, "--", *map(checked_path, paths or ())]))


@capability(
    "git.show",
    effect="read",
    foreign=("author", "email", "subject", "message", "diff", "files"),
    own=("commit", "parents", "date"),
    preconditions=("program git",),
)
def show(
    context: Context,
    ref: Annotated[str, Doc("the commit")] = "HEAD",
    max_bytes: Annotated[int | str, Doc("cut the diff after this", quantity="size")] = "200KB",
) -> Shown:
    """One commit with its message and its diff."""
    repository = open_repository(context)
    commit = commit_of(repository, ref)
    found = _commits(repository, ["--max-count=1", commit, "--"])[0]
    first = ("--root", commit) if not found["parents"] else (found["parents"][0], commit)
    asked = ("diff-tree", "-r", *PLAIN, "--no-commit-id")
    listed = repository.git.items(*asked, "--numstat", "-z", *first)
    scopes.require(context, "read", repository.top, map(_path, listed))
    text, _ = repository.git.first(bytes_of("max_bytes", max_bytes), *asked, "-p", *first)
    files = _counted(listed)
    return Shown(**found, diff=text.decode("utf-8", "replace"), files=files)


def _commits(repository: Repository, arguments: list[str]) -> list[Commit]:
    shape = ("--no-color", "--no-show-signature", "--encoding=UTF-8", f"--format=tformat:{_FORMAT}")
    text = repository.git.run("log", *shape, "--no-patch", "--no-notes", *arguments).text
    result = []
    for record in text.split("\0\x01\n"):
        if record:
            digest, parents, author, email, date, subject, message = record.split("\0")
            result.append(
                Commit(
                    commit=digest,
                    parents=parents.split(),
                    author=author,
                    email=email,
                    date=date,
                    subject=subject,
                    message=message.rstrip("\n"),
                )
            )
    return result


def _counted(items: list[str]) -> list[Changed]:
    result = []
    for item in items:
        added, removed, path = item.split("\t", 2)
        path = os.fsencode(path).decode("utf-8", "replace")
        numbers = [None if count == "-" else int(count) for count in (added, removed)]
        result.append(Changed(path=path, added=numbers[0], removed=numbers[1]))
    return result


def _path(item: str) -> str:
    """The path in a line of ``--numstat -z``."""
    return item.split("\t", 2)[2]


SKIP = 125


class Step(TypedDict):
    """One commit that was tried: its verdict is good, bad or skipped."""

    commit: str
    verdict: str
    exit_code: int
    seconds: Annotated[float, Doc("how long the test took", form="seconds")]


class Found(NamedTuple):
    first_bad: Annotated[str, Doc("the commit")]
    subject: Annotated[str, Doc("first line of its message")]
    author: Annotated[str, Doc("name of its author")]
    date: Annotated[str, Doc("when it was written")]
    steps: Annotated[list[Step], Doc("each commit that was tried: verdict, exit code, seconds")]
    candidates: Annotated[list[str], Doc("the commits that are left, where it failed as `undecided`; else none")]


class _Checkout(NamedTuple):
    """A working tree of our own, in which commits are tried."""

    git: Git
    folder: str
    directory: str
    clean: bool

    def go(self, commit: str) -> None:
        self.git.run("read-tree", "--reset", "-u", commit)
        self.git.run("update-ref", "--no-deref", "HEAD", commit)
        if self.clean:
            self.git.run("clean", "-ffdxq")
        os.makedirs(self.directory, exist_ok=True)


class _Trial(NamedTuple):
    """What is run to judge a commit."""

    arguments: list[str]
    timeout: float | None

    def judge(self, context: Context, checkout: _Checkout, commit: str) -> Step:
        checkout.go(commit)
        context.log.write(b"trying %s\n" % commit.encode())
        hidden = {name: None for name in context.environment() if name.startswith("GIT_")}
        started = time.monotonic()
        ended = run(context, Program(self.arguments, checkout.directory, hidden, timeout=self.timeout, loud=True))
        if ended.code < 0 or ended.code > SKIP:
            raise Failure(f"the test cannot judge {commit[:12]}: it ended with {ended.code}", "broken_test")
        verdict = "good" if ended.code == 0 else "skipped" if ended.code == SKIP else "bad"
        context.log.write(b"%s is %s\n" % (commit.encode(), verdict.encode()))
        took = round(time.monotonic() - started, 3)
        return Step(commit=commit, verdict=verdict, exit_code=ended.code, seconds=took)


@capability(
    "git.bisect",
    effect="read",
    risks=("runs the given command once for each commit it tries",),
    foreign=("subject", "author"),
    own=("first_bad", "date", "steps", "candidates"),
    preconditions=("program git",),
)
def bisect(
    context: Context,
    good: Annotated[str | list[str], Doc("a commit that is known to work, or several")],
    test: Annotated[
        list[str] | str,
        Doc("program with arguments, or a script for sh: 0 is good, 125 cannot tell, 1 to 124 is bad", use="command"),
    ],
    bad: Annotated[str, Doc("a commit that is known to be broken")] = "HEAD",
    verify: Annotated[bool, Doc("try the good and the bad commit first")] = True,
    clean: Annotated[bool, Doc("remove what a test leaves behind before the next commit is tried")] = True,
    first_parent: Annotated[bool, Doc("follow the first parents of merges only")] = False,
    each: Annotated[int | str, Doc("longest time for one test", quantity="duration")] = 0,
) -> Found:
    """Find the first commit for which a command fails.

    The command runs in a checkout of its own, in the same folder below its top as the task. It fails with the class
    `undecided` and the output `candidates` where only commits are left that it cannot judge.
    """
    repository = open_repository(context)
    start = [commit_of(repository, name) for name in ([good] if isinstance(good, str) else good)]
    end = commit_of(repository, bad)
    if not start or not all(contains(repository, end, commit) and commit != end for commit in start):
        raise Failure("`bad` must be based on every `good` commit, and be another one")
    trial = _Trial(_arguments(test), _seconds(each))
    checkout = _prepared(context, repository, clean)
    try:
        steps = _verified(context, trial, checkout, start, end) if verify else []
        first = _search(context, repository, trial, checkout, _Range(start, end, first_parent, steps))
    finally:
        shutil.rmtree(checkout.folder, ignore_errors=True)
    shape = "--format=%s%x00%an%x00%aI"
    subject, author, date = repository.git.run("log", "-1", "--no-show-signature", shape, first).text.split("\0")
    return Found(first, subject, author, date.strip(), steps, [])


class _Range(NamedTuple):
    """What is searched; ``steps`` grows."""

    good: list[str]
    bad: str
    first_parent: bool
    steps: list[Step]


def _search(context: Context, repository: Repository, trial: _Trial, checkout: _Checkout, within: _Range) -> str:
    good, bad, skipped = list(within.good), within.bad, set[str]()
    while True:
        left = _candidates(repository, good, bad, within.first_parent)
        open_ones = [commit for commit in left if commit != bad and commit not in skipped]
        if not open_ones:
            if len(left) > 1:
                raise Failure(
                    f"{len(left)} commits are left that the test cannot judge", "undecided", {"candidates": left}
                )
            return bad
        step = trial.judge(context, checkout, open_ones[0])
        within.steps.append(step)
        if step["verdict"] == "good":
            good.append(step["commit"])
        elif step["verdict"] == "bad":
            bad = step["commit"]
        else:
            skipped.add(step["commit"])


def _candidates(repository: Repository, good: list[str], bad: str, first_parent: bool) -> list[str]:
    """The commits that may be the first bad one, those first that halve what is left."""
    options = ["--bisect-all", *(["--first-parent"] if first_parent else [])]
    lines = repository.git.run("rev-list", *options, bad, *(f"^{commit}" for commit in good)).text.splitlines()
    return [line.split(" ", 1)[0] for line in lines]


def _verified(context: Context, trial: _Trial, checkout: _Checkout, good: list[str], bad: str) -> list[Step]:
    steps = []
    for commit, wanted in [*((commit, "good") for commit in good), (bad, "bad")]:
        step = trial.judge(context, checkout, commit)
        if step["verdict"] != wanted:
            raise Failure(
                f"{commit[:12]} was said to be {wanted}, but the test finds it {step['verdict']}", "wrong_ends"
            )
        steps.append(step)
    return steps


def _prepared(context: Context, repository: Repository, clean: bool) -> _Checkout:
    """An empty repository in the scratch folder that borrows objects and knows the tags."""
    folder = f"{context.call.scratch or context.cache('git') + '/' + context.call.key}.bisect"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, mode=0o700)
    kind = repository.git.text("rev-parse", "--show-object-format")
    Git(context, folder).run("init", "--quiet", "--template=", f"--object-format={kind}", folder)
    own = os.path.join(folder, ".git")
    with open(os.path.join(own, "objects", "info", "alternates"), "w", encoding="utf-8") as file:
        file.write(_quoted(os.path.join(repository.shared, "objects")) + "\n")
    git = Git(context, folder, SETTINGS, {"GIT_DIR": own, "GIT_WORK_TREE": folder})
    tags = "".join(f"create {name}\0{digest}\0" for name, digest in listed(repository, "refs/tags/").items())
    git.run("update-ref", "-z", "--stdin", stdin=os.fsencode(tags))
    return _Checkout(git, folder, os.path.normpath(os.path.join(folder, repository.below)), clean)


def _quoted(path: str) -> str:
    """A path as git reads it in a list of paths."""
    if not any(char in path for char in '"\\\n#'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _arguments(test: Any) -> list[str]:
    if isinstance(test, str):
        return ["sh", "-e", "-c", test]
    if not test or not all(isinstance(part, str) for part in test):
        raise Failure("`test` takes a program with its arguments, or a script")
    return list(test)


def _seconds(value: int | str) -> float | None:
    try:
        return seconds(value) or None
    except ValueError as error:
        raise Failure(f"`each`: {error}") from None
