"""Plugins that are single files of a project: ``.planrunner/plugins/*.py`` and what ``plugins: {files: […]}`` of
``planrunner.yaml`` names. Nothing of one is executed before its user has trusted its content.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from shlex import quote
from types import ModuleType
from typing import NamedTuple

from planrunner.errors import PlanInvalid, UsageError
from planrunner.plugins.scanning import HOOKS, Scan, scan
from planrunner.safety import trust
from planrunner.safety.project import read_data
from planrunner.views.terminal import harmless

FOLDER = os.path.join(".planrunner", "plugins")
LIMIT = 1 << 20
"""Bytes a plugin of one file may have."""


class ProjectFile(NamedTuple):
    """A file that may be a plugin: ``name`` is its path from the project, ``text`` what was read and nothing else will
    be executed, ``problem`` why it could not be read."""

    name: str
    path: str
    text: bytes = b""
    standing: trust.Standing = "untrusted"
    problem: str = ""

    def scan(self) -> Scan:
        """What it would register."""
        return Scan(problem=self.problem) if self.problem else scan(self.text)

    def has_hooks(self) -> bool:
        """Whether it speaks of hooks other than that for capabilities."""
        return any(hook.encode() in self.text for hook in HOOKS[1:])

    def refusal(self) -> str:
        """Why it is not loaded, and the command that changes that; empty where it may be."""
        if self.standing == "trusted" and not self.problem:
            return ""
        name = harmless(self.name)
        if problem := self.scan().problem:
            return f"`{name}` cannot be read: {problem}"
        state = "has changed since it was trusted" if self.standing == "changed" else "is not trusted"
        return f"`{name}` {state}; look at it with `{self.command('trust')}`"

    def command(self, action: str) -> str:
        """The command that does something about its trust, as a person would type it here."""
        return f"planrunner plugins {action} {harmless(_shown(self.path))}"


def project_files(project: str) -> tuple[ProjectFile, ...]:
    """The files of a project that may be plugins, read once, in a fixed order."""
    names = dict.fromkeys((*_in_folder(project), *_in_settings(project)))
    return tuple(read_file(os.path.join(project, name), name) for name in names)


def read_file(path: str, name: str) -> ProjectFile:
    """One file with its standing."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not make lint wait
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            return ProjectFile(name, path, problem="it is no regular file")
        with open(handle, "rb") as file:
            text = file.read(LIMIT + 1)
    except (OSError, ValueError) as error:  # settings may name what can be no path
        return ProjectFile(name, path, problem=getattr(error, "strerror", "") or str(error))
    if len(text) > LIMIT:
        return ProjectFile(name, path, problem=f"it is larger than {LIMIT >> 20} MiB")
    return ProjectFile(name, path, text, trust.standing(path, text))


def load(file: ProjectFile) -> ModuleType:
    """The module made of exactly the text that was read. Raises whatever the text does."""
    name = f"planrunner_project_{trust.digest(os.fsencode(file.path) + file.text)[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = file.path
    sys.modules[name] = module
    try:
        code = compile(file.text, file.path, "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102 (its user has looked at this very text and trusts it)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _in_folder(project: str) -> Iterator[str]:
    try:
        found = sorted(os.listdir(os.path.join(project, FOLDER)))
    except OSError:
        return
    yield from (os.path.join(FOLDER, name) for name in found if name.endswith(".py") and not name.startswith("."))


def _in_settings(project: str) -> Iterator[str]:
    try:
        section = read_data(project).get("plugins")
    except (PlanInvalid, UsageError):
        return  # whoever runs or lints a plan of the project is told
    files = section.get("files") if isinstance(section, dict) else None
    yield from (os.path.normpath(each) for each in files or () if isinstance(each, str) and each)


def _shown(path: str) -> str:
    """A path as a person would type it here."""
    near = os.path.relpath(path)
    return quote(path if near.startswith(os.pardir) else near)
