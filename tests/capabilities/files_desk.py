"""A working directory with the services of an engine, and what every test of the family does there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planrunner.capabilities.builtin import TARGETS, load
from planrunner.capabilities.contract import Call, Context, Declaration, declaration_of
from planrunner.engine.services import AttemptServices
from planrunner.journal.sqlite import open_journal
from planrunner.plan.model import Task


@pytest.fixture(autouse=True, scope="module")
def hasty() -> Iterator[None]:
    """For tests that import it: what is written need not survive a power loss, only a kill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


MUTATING = ("append", "copy", "delete", "edit", "mkdir", "move", "restore", "template", "write")


class NoLog:
    def write(self, data: bytes, stream: str = "stdout") -> None:
        raise AssertionError("nothing to log")

    def beat(self) -> None: ...

    @property
    def usage(self) -> dict[str, Any]:
        return {}

    def spend(self, amounts: Any) -> None: ...


class Desk:
    """``root`` is the working directory; ``visit`` counts the visits of the one task that acts here."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.state = folder / "state"
        for folder in (self.root, self.state):
            folder.mkdir(exist_ok=True)
        open_journal(str(self.state)).close()
        self.visit = 0

    def context(self, attempt: int = 1, cwd: str = "") -> Context:
        key, once = f"run:task:{self.visit}:{attempt}", f"run:task:{self.visit}"
        call = Call(
            "run", Task("task", cwd=cwd), attempt, key, {}, "", (), {}, {}, str(self.root / cwd), "", None, once=once
        )
        return Context(call, NoLog(), lambda: False, AttemptServices(str(self.state), str(self.root), None, {}))

    def do(self, verb: str, attempt: int = 1, **inputs: Any) -> dict[str, Any]:
        """One attempt of the present visit."""
        found = function(verb)(self.context(attempt), **inputs)
        return dict(found._asdict())

    def fresh(self, verb: str, **inputs: Any) -> dict[str, Any]:
        """The first attempt of a new visit."""
        self.visit += 1
        return self.do(verb, **inputs)

    def preview(self, verb: str, **inputs: Any) -> Any:
        preview = declaration(verb).preview
        assert preview is not None
        return preview(self.context(), **inputs)

    def capture(self, verb: str, **inputs: Any) -> dict[str, Any]:
        capture = declaration(verb).capture
        assert capture is not None
        return capture(self.context(), **inputs)

    def undo(self, verb: str, before: dict[str, Any], outputs: dict[str, Any] | None = None) -> Any:
        undo = declaration(verb).undo
        assert undo is not None
        return undo(
            self.context()._replace(call=self.context().call._replace(key="run:task:undo:1", once="undo")),
            before,
            outputs,
        )

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
        target.chmod(mode)
        return target

    def read(self, path: str) -> str:
        return (self.root / path).read_bytes().decode()

    def tree(self) -> dict[str, tuple[str, int, bytes]]:
        return tree(self.root)


def function(verb: str) -> Callable[..., Any]:
    return load(TARGETS[f"files.{verb}"])


def declaration(verb: str) -> Declaration:
    found = declaration_of(function(verb))
    assert found is not None
    return found


def tree(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """Everything below a folder: kind, permissions, content."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            key = os.path.relpath(path, root)
            if stat.S_ISLNK(status.st_mode):
                found[key] = ("link", 0, os.fsencode(os.readlink(path)))
            elif stat.S_ISDIR(status.st_mode):
                found[key] = ("folder", stat.S_IMODE(status.st_mode), b"")
            else:
                found[key] = ("file", stat.S_IMODE(status.st_mode), Path(path).read_bytes())
    return found
