"""Git: real repositories, further ones reached as files, and the forge of the peer over loopback."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from planrunner.testing.conformance import Case, Ready

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = {"git": {"name": "Ana", "email": "ana@example.org", "protocols": ["file"]}}
KEPT = (".git/objects/**", ".git/logs/**", "*/.git/objects/**", "*/.git/logs/**")
"""Objects and reflogs grow: nothing is lost with an undo."""
MARKED = ("further.git/objects/**", *KEPT)


def _git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{role}_{what}": "ana" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    when = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-01T00:00:00Z")
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **who, **when}
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout


def _repository(directory: Path) -> None:
    """Two branches that differ, something staged, something changed, something unknown, and a tag."""
    _git(directory, "init", "-q", "-b", "main")
    (directory / "a.txt").write_text("one\n")
    _git(directory, "add", "-A")
    _git(directory, "commit", "-q", "-m", "first")
    _git(directory, "tag", "v0")
    _git(directory, "switch", "-q", "-c", "other")
    (directory / "b.txt").write_text("two\n")
    _git(directory, "add", "-A")
    _git(directory, "commit", "-q", "-m", "second")
    _git(directory, "switch", "-q", "main")
    (directory / "staged.txt").write_text("staged\n")
    _git(directory, "add", "staged.txt")
    (directory / "unknown.txt").write_text("unknown\n")


def _in(inputs: dict[str, Any]) -> Callable[[Path], Ready]:
    def setup(directory: Path) -> Ready:
        _repository(directory)
        return Ready(inputs, SETTINGS)

    return setup


def _with_remote(inputs: dict[str, Any]) -> Callable[[Path], Ready]:
    """A repository whose remote ``origin`` has moved on; it lies in the same folder."""

    def setup(directory: Path) -> Ready:
        _repository(directory)
        _git(directory, "clone", "-q", "--bare", ".", "further.git")
        _git(directory, "remote", "add", "origin", str(directory / "further.git"))
        _git(directory, "push", "-q", "origin", "other:refs/heads/news")
        return Ready(inputs, SETTINGS)

    return setup


def _worktree(directory: Path) -> Ready:
    _repository(directory)
    _git(directory, "worktree", "add", "-q", "--detach", "tree", "other")
    return Ready({"path": "tree"}, SETTINGS)


def _forge(directory: Path) -> Iterator[Ready]:
    spec = importlib.util.spec_from_file_location("peer_forge", ROOT / "plans/capabilities/peers/repositories.py")
    assert spec is not None and spec.loader is not None
    peer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peer)
    _repository(directory)
    server = peer.Server(directory)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    forge = {"kind": "gitlab", "url": f"{server.url}/gitlab", "repository": "ana/project", "token": "LOGIN"}
    settings = {**SETTINGS, "network": {"private": ["127.0.0.1"]}, "forge": forge}
    inputs = {"title": "A thing", "body": "Why.", "head": "other"}
    yield Ready(inputs, settings, {"LOGIN": peer.LOGIN}, look=lambda: [one for one in server.requests if one["open"]])
    server.shutdown()
    server.server_close()
    thread.join()


def _slow(directory: Path) -> Ready:
    _repository(directory)
    return Ready({"good": "v0", "bad": "other", "test": ["sleep", "30"]}, SETTINGS)


CASES = [
    Case("git.status", _in({"untracked": "all"})),
    Case("git.diff", _in({"staged": True})),
    Case("git.diff", _in({"base": "gone"}), name="of an unknown commit", fails="unknown_ref"),
    Case("git.log", _in({"ref": "other"})),
    Case("git.show", _in({"ref": "other"})),
    Case("git.bisect", _in({"good": "v0", "bad": "other", "test": "test ! -e b.txt"}), volatile=("steps",)),
    Case("git.bisect", _slow, name="slow", waits=True),
    Case("git.add", _in({"paths": ["."]}), ignore=KEPT),
    Case("git.commit", _in({"subject": "A change"}), ignore=KEPT, volatile=("commit",)),
    Case(
        "git.commit",
        _in({"subject": "A change", "paths": ["unknown.txt"]}),
        "of a path",
        ignore=KEPT,
        volatile=("commit",),
    ),
    Case("git.branch", _in({"name": "plan/x", "start": "other", "switch": True}), ignore=KEPT),
    Case("git.switch", _in({"ref": "other"}), ignore=KEPT),
    Case("git.tag", _in({"name": "v1", "message": "One."}), ignore=KEPT, volatile=("object",)),
    Case("git.tag_delete", _in({"name": "v0"}), ignore=KEPT),
    Case("git.merge", _in({"ref": "other", "ff": "never"}), ignore=KEPT, volatile=("commit",)),
    Case("git.clone", _with_remote({"url": "further.git", "path": "copy"}), ignore=KEPT),
    Case("git.clone", _in({"url": "ext::sh", "path": "copy"}), name="from a command", fails="policy"),
    Case("git.fetch", _with_remote({}), ignore=KEPT),
    Case("git.push", _with_remote({"to": "news", "ref": "v0", "force": True}), ignore=MARKED),
    Case("git.worktree_add", _in({"path": "tree", "ref": "other"}), ignore=KEPT),
    Case("git.worktree_remove", _worktree, ignore=(*KEPT, ".git/worktrees/**")),
    Case("git.pull_request", _forge, volatile=("url",)),
]
