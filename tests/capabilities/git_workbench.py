"""A real repository to work in, what planrunner gives a capability, and what of a repository must come back."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from planrunner.capabilities.contract import Call, Context, basic_environment, declaration_of
from planrunner.plan.model import Task

PERSON = {
    "GIT_AUTHOR_NAME": "Ana",
    "GIT_AUTHOR_EMAIL": "ana@example.org",
    "GIT_COMMITTER_NAME": "Ana",
    "GIT_COMMITTER_EMAIL": "ana@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}
SETTINGS: dict[str, Any] = {"git": {"name": "Ana", "email": "ana@example.org"}}


class Noted:
    """A log in memory."""

    def __init__(self) -> None:
        self.out = b""
        self.err = b""

    def write(self, data: bytes, stream: str = "stdout") -> None:
        if stream == "stderr":
            self.err += data
        else:
            self.out += data

    def beat(self) -> None:
        pass

    @property
    def usage(self) -> dict[str, Any]:
        return {}

    def spend(self, amounts: Mapping[str, Any]) -> None:
        pass


class Desk:
    """What the engine does for a capability: settings from a dict, artifacts and caches in a folder."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], env: Mapping[str, str]) -> None:
        self.folder = folder
        self.given = settings
        self.env = env

    def settings(self, section: str) -> dict[str, Any]:
        return dict(self.given.get(section, {}))

    def keep(self, content: bytes | str, name: str, type: str) -> dict[str, Any]:
        data = Path(content).read_bytes() if isinstance(content, str) else content
        digest = hashlib.sha256(data).hexdigest()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / digest).write_bytes(data)
        return {"name": name, "type": type, "sha256": digest, "size": len(data)}

    def artifact(self, sha256: str) -> BinaryIO:
        return io.BytesIO((self.folder / sha256).read_bytes())

    def cache(self, name: str) -> str:
        path = self.folder / "cache" / name
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    def noted(self, name: str) -> str:
        path = self.folder / "notes" / name.replace(" ", "-")
        return path.read_text() if path.exists() else ""

    def note(self, name: str, text: str) -> None:
        path = self.folder / "notes" / name.replace(" ", "-")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def environment(self) -> dict[str, str]:
        return {**basic_environment(os.environ), **self.env}

    def conceal(self, name: str, value: str) -> None:
        """Nothing is kept from anybody here."""

    def directory(self) -> str:
        return str(self.folder)

    def memory(self, layer: str, part: str, stopped: object) -> Any:
        raise NotImplementedError

    def enclosed(self, arguments: Sequence[str], env: Mapping[str, str], directory: str, made: str = "") -> None:
        """No policy shuts anything in here."""


class Bench:
    """Calls capabilities on one folder; each step has a key of its own unless one is given."""

    def __init__(self, folder: Path, state: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        self.state = state
        self.settings: dict[str, Any] = {**SETTINGS, **(settings or {})}
        self.log = Noted()
        self.env: dict[str, str] = {}
        self.steps = 0

    def context(self, key: str = "") -> Context:
        if not key:
            self.steps += 1
            key = f"step-{self.steps}"
        call = Call("run-1", Task("step"), 1, key, {}, "", (), {}, self.env, str(self.folder), "", None, once=key)
        return Context(call, self.log, lambda: False, Desk(self.state, self.settings, self.env))

    def do(self, function: Any, key: str = "", **inputs: Any) -> Any:
        return function(self.context(key), **inputs)

    def act(self, function: Any, **inputs: Any) -> Done:
        """Capture, then do: gives what is needed to take it back."""
        context = self.context()
        declaration: Any = declaration_of(function)
        before = declaration.capture(context, **inputs)
        outputs = function(context, **inputs)
        return Done(self, context, declaration, before, outputs)

    def preview(self, function: Any, **inputs: Any) -> Any:
        declaration: Any = declaration_of(function)
        return declaration.preview(self.context(), **inputs)


class Done:
    """A step that was done, to be taken back: with its outputs, or as after a crash without them."""

    def __init__(self, bench: Bench, context: Context, declaration: Any, before: Any, outputs: Any) -> None:
        self.bench = bench
        self.context = context
        self.declaration = declaration
        self.before = before
        self.outputs = outputs

    def undo(self, seen: bool = True) -> Any:
        return self.declaration.undo(self.context, self.before, self.outputs._asdict() if seen else None)


def git(folder: Path, *arguments: str, check: bool = True, **more: Any) -> str:
    """Git as somebody else would use it."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **PERSON, **more.pop("env", {})}
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, check=False, **more)
    if check and done.returncode:
        raise AssertionError(f"git {arguments}: {done.stderr.decode()}")
    return done.stdout.decode().rstrip("\n")


def repository(folder: Path, **files: str) -> Path:
    """A repository with one commit on main, of these files (``a_txt`` is ``a.txt``)."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in (files or {"a_txt": "one\n"}).items():
        (folder / name.replace("_", ".")).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def tree_state(folder: Path) -> dict[str, Any]:
    """Refs, HEAD, what the index says and everything in the working tree with its permissions."""
    git_dir = Path(git(folder, "rev-parse", "--absolute-git-dir"))
    tree = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if ".git" in relative.parts or ".planrunner" in relative.parts:
            continue
        if path.is_symlink():
            tree[str(relative)] = ("link", os.readlink(path))
        elif path.is_dir():
            tree[str(relative)] = ("folder", oct(path.stat().st_mode))
        else:
            tree[str(relative)] = (oct(path.stat().st_mode), path.read_bytes())
    return {
        "refs": git(folder, "for-each-ref", "--format=%(refname) %(objectname) %(symref)"),
        "HEAD": (git_dir / "HEAD").read_bytes(),
        "index": git(folder, "ls-files", "--stage", "-v"),
        "tree": tree,
        "config": (git_dir / "config").read_bytes() if (git_dir / "config").exists() else None,
        "left": sorted(p.name for p in git_dir.iterdir() if p.name.endswith((".lock", ".planrunner"))),
    }
