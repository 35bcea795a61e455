"""What ``planrunner plugins`` does: tell of plugins, judge their capabilities, trust files, write a new one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import unified_diff
from typing import Any, Literal, NamedTuple

from planrunner.app.sight import check_project
from planrunner.errors import NotFound, UsageError
from planrunner.journal.workspace import find_project
from planrunner.plan.model import Capability
from planrunner.plan.nearest import nearest
from planrunner.plugins.catalogue import faults_of, undocumented, unsound
from planrunner.plugins.registry import Registry
from planrunner.plugins.sources import CAPABILITIES, ProjectFile, Scan, read_file
from planrunner.safety import trust

State = Literal["ready", "left out", "untrusted", "changed"]


class Plugin(NamedTuple):
    """A plugin as lists show it: a package, or a file of the project. ``capabilities`` are those it registered, or for
    a file that is not trusted those it would; ``problems`` are sentences."""

    name: str
    version: str
    kind: Literal["package", "file"]
    state: State
    families: tuple[str, ...]
    hooks: tuple[str, ...]
    capabilities: tuple[str, ...]
    problems: tuple[str, ...]


class Verdict(NamedTuple):
    """What is wrong with the declaration of a capability; no faults where nothing is."""

    capability: str
    faults: tuple[str, ...]


class Examined(NamedTuple):
    """A file that is to be trusted: what it would register, and a unified diff against the text that was trusted
    before (empty where none was)."""

    file: ProjectFile
    scan: Scan
    diff: str


def plugins() -> list[Plugin]:
    """Every plugin there is, with what loading all of them came to. Raises PlanInvalid where the project's file, which
    names some of them, has errors."""
    check_project(find_project(None))
    registry = Registry()
    registry.described()
    registry.rules()
    registry.observer()
    packages = dict.fromkeys((entry.plugin, entry.version) for entry in registry.installed())
    found = [_package(registry, name, version) for name, version in packages]
    return [*found, *(_file(registry, file) for file in registry.files())]


def plugin(name: str) -> Plugin:
    """One plugin by its name, or by that of a family it has. Raises NotFound with the nearest name."""
    every = plugins()
    for each in every:
        if name == each.name or name in each.families or name == each.name.removeprefix("planrunner-"):
            return each
    near = nearest(name, [word for each in every for word in (each.name, *each.families)])
    hint = f"did you mean `{near}`?" if near else "`planrunner plugins list` names them"
    raise NotFound(f"there is no plugin `{name}`", hint)


def described(names: Iterable[str], registry: Registry | None = None) -> list[Capability]:
    """The descriptions of capabilities that can be loaded."""
    registry = Registry() if registry is None else registry
    return [found for name in names if (found := registry.find(name)) is not None]


def check(name: str | None) -> tuple[list[Plugin], list[Verdict]]:
    """The plugins that are meant, and what is wrong with the declarations of their capabilities."""
    found = plugins() if name is None else [plugin(name)]
    named = [capability for each in found if each.state == "ready" for capability in each.capabilities]
    registry = Registry()
    return found, [
        Verdict(each.name, (*unsound(each), *faults_of(registry.resolve(each.name)), *undocumented(each)))
        for each in described(named, registry)
    ]


def examine(path: str) -> Examined:
    """A file as somebody should see it before trusting it. Raises NotFound, and UsageError for what is no file of
    Python."""
    file = _read(path)
    return Examined(file, file.scan(), _diff(file))


def trust_file(examined: Examined) -> None:
    """Trust exactly the text that was examined. Raises StorageFailed."""
    trust.trust(examined.file.path, examined.file.text)


def untrust_file(path: str) -> bool:
    """Trust nothing of a file any more; whether there was something to take back."""
    return trust.untrust(os.path.abspath(path))


def _read(path: str) -> ProjectFile:
    if not os.path.lexists(path):
        raise NotFound(f"there is no file `{path}`")
    full = os.path.abspath(path)
    file = read_file(full, os.path.relpath(full, find_project(None)))
    if problem := file.scan().problem:
        raise UsageError(f"`{path}` cannot be trusted: {problem}")
    return file


def _diff(file: ProjectFile) -> str:
    before = trust.trusted(file.path)
    if before is None:
        return ""
    now = file.text.decode("utf-8", "replace").splitlines(keepends=True)
    lines = unified_diff(before.text.splitlines(keepends=True), now, f"{file.name} (trusted)", file.name)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _package(registry: Registry, name: str, version: str) -> Plugin:
    entries = [entry for entry in registry.installed() if entry.plugin == name]
    families = tuple(sorted({entry.name for entry in entries if entry.group == CAPABILITIES}))
    return _loaded(registry, Plugin(name, version, "package", "ready", families, (), (), ()))


def _file(registry: Registry, file: ProjectFile) -> Plugin:
    found = file.scan()
    families = tuple(sorted(found.families()))
    if file.refusal():
        state: State = "left out" if found.problem else "changed" if file.standing == "changed" else "untrusted"
        offered = tuple(sorted(each.name for each in found.capabilities))
        return Plugin(file.name, "", "file", state, families, found.hooks, offered, registry.problems(file.name))
    return _loaded(registry, Plugin(file.name, "", "file", "ready", families, (), (), ()))


def _loaded(registry: Registry, found: Plugin) -> Plugin:
    """The plugin with what came of loading it."""
    problems, hooks = registry.problems(found.name), registry.hooks_of(found.name)
    capabilities = registry.registered(found.name)
    state: State = "ready" if capabilities or hooks or not problems else "left out"
    return found._replace(state=state, hooks=hooks, capabilities=capabilities, problems=problems)


def plugin_object(found: Plugin) -> dict[str, Any]:
    """A plugin as JSON data."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found._asdict().items()}
