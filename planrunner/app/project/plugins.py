"""Plugins: list them, check their capabilities, run their conformance cases, trust files, write a new one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from difflib import unified_diff
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

import planrunner
from planrunner import __version__
from planrunner.app.people.persons import require_person
from planrunner.app.runs.setup import check_project
from planrunner.capabilities import builtin
from planrunner.errors import Hint, NextStep, NotFound, UsageError
from planrunner.journal.workspace import find_project
from planrunner.plan.model import Capability
from planrunner.plan.nearest import nearest
from planrunner.plugins.catalogue import faults_of, undocumented, unsound
from planrunner.plugins.registry import Registry
from planrunner.plugins.sources import CAPABILITIES, ProjectFile, Scan, read_file
from planrunner.process import ended_in_order
from planrunner.records import Struct
from planrunner.safety import trust
from planrunner.views.documents import document

State = Literal["ready", "left out", "untrusted", "changed"]


class Plugin(Struct):
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


class Verdict(Struct):
    """What is wrong with the declaration of a capability; no faults where nothing is."""

    capability: str
    faults: tuple[str, ...]


class ReviewedFile(Struct):
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
    result = []
    for name, version in packages:
        entries = [entry for entry in registry.installed() if entry.plugin == name]
        families = tuple(sorted({entry.name for entry in entries if entry.group == CAPABILITIES}))
        result.append(_loaded(registry, Plugin(name, version, "package", "ready", families, (), (), ())))
    return [*result, *(_file(registry, file) for file in registry.files())]


def plugin(name: str) -> Plugin:
    """One plugin by its name, or by that of a family it has. Raises NotFound with the nearest name."""
    every = plugins()
    for each in every:
        if name == each.name or name in each.families or name == each.name.removeprefix("planrunner-"):
            return each
    near = nearest(name, [word for each in every for word in (each.name, *each.families)])
    hint = f"did you mean `{near}`?" if near else Hint(NextStep("plugins list"), " names them")
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


def checked_document(checked: Iterable[Plugin], verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """The problems of plugins, and the faults of each capability."""
    problems = [problem for each in checked for problem in each.problems]
    return document(problems=problems, capabilities={each.capability: each.faults for each in verdicts})


def examine(path: str) -> ReviewedFile:
    """A file as it is reviewed before it is trusted. Raises NotFound, and UsageError for anything but a Python file."""
    file = _read(path)
    return ReviewedFile(file, file.scan(), _diff(file))


def trust_file(examined: ReviewedFile) -> None:
    """Trust exactly the text that was examined. Raises Denied where a run asks, StorageFailed."""
    require_person("plugin")
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


def _file(registry: Registry, file: ProjectFile) -> Plugin:
    found = file.scan()
    families = tuple(sorted(found.families()))
    if file.refusal():
        state: State = "left out" if found.problem else "changed" if file.trust == "changed" else "untrusted"
        offered = tuple(sorted(each.name for each in found.capabilities))
        return Plugin(file.name, "", "file", state, families, found.hooks, offered, registry.problems(file.name))
    return _loaded(registry, Plugin(file.name, "", "file", "ready", families, (), (), ()))


def _loaded(registry: Registry, plugin: Plugin) -> Plugin:
    """The plugin with what came of loading it."""
    problems, hooks = registry.problems(plugin.name), registry.hooks_of(plugin.name)
    capabilities = registry.registered(plugin.name)
    state: State = "ready" if capabilities or hooks or not problems else "left out"
    return plugin._replace(state=state, hooks=hooks, capabilities=capabilities, problems=problems)


_GRACE = 3.0
"""Seconds for the suite to put its worlds away once it is asked to end."""


def run_cases(file: str) -> int:
    """The exit code of the suite. Ends with it, and with everything it started, when this process is told to end.
    Raises NotFound without such a file."""
    if not os.path.isfile(file):
        raise NotFound(f"there is no file `{file}`", "name one with a list CASES")
    sys.stdout.flush()
    with ended_in_order():
        suite = subprocess.Popen(
            [sys.executable, "-m", "planrunner.testing.conformance", file],
            stdin=subprocess.DEVNULL,
            stdout=_descriptor(sys.stdout),
            start_new_session=True,
        )
        try:
            return suite.wait()
        finally:
            _put_away(suite)


def _put_away(suite: subprocess.Popen[bytes]) -> None:
    """Ask the suite to end, then end what is left of its session's group."""
    try:
        if suite.poll() is None:
            suite.terminate()
            suite.wait(_GRACE)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(suite.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nothing is left
    suite.wait()


def _descriptor(stream: Any) -> int | None:
    """Where this process writes its own results; None, which is descriptor 1, where the stream has no number."""
    try:
        return int(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return None


_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_FOLDER = os.path.join(os.path.dirname(planrunner.__file__), "plugins", "template")
_FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "readme.txt",
    ".gitignore": "gitignore.txt",
    "src/planrunner_{{ family }}.py": "module.txt",
    "tests/test_{{ family }}.py": "tests.txt",
    "plans/{{ family }}.yaml": "plan.txt",
    ".github/workflows/test.yml": "workflow.txt",
}
"""Path in the package to the template it is made from."""


class Written(NamedTuple):
    """What was written, and the commands to continue with."""

    files: tuple[str, ...]
    next: tuple[str, ...]


def write(name: str, into: str) -> Written:
    """Write the package ``planrunner-NAME`` in the folder ``into``. Raises UsageError for a name that cannot be a
    family or is taken, and where something lies in the way."""
    family = _family(name)
    package = f"planrunner-{family.replace('_', '-')}"
    root = os.path.normpath(os.path.join(into, package))
    if os.path.lexists(root):
        raise UsageError(f"`{root}` is there already, and nothing is overwritten", "remove it, or add --into DIR")
    values = {"family": family, "package": package, "version": __version__}
    templates = Environment(loader=FileSystemLoader(_FOLDER), undefined=StrictUndefined, keep_trailing_newline=True)  # noqa: S701 (no HTML)
    made = []
    try:
        for path, template in _FILES.items():
            target = os.path.join(root, templates.from_string(path).render(values))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "x", encoding="utf-8") as file:
                file.write(templates.get_template(template).render(values))
            made.append(target)
    except OSError as error:
        raise UsageError(f"`{root}` cannot be written: {error.strerror or error}") from error
    following = (
        f"cd {root}",
        "pip install -e '.[test]'",
        "pytest",
        f"planrunner capabilities {family}.add",
        f"planrunner exec plans/{family}.yaml",
    )
    return Written(tuple(made), following)


def _family(name: str) -> str:
    """The family that a name stands for. Raises UsageError with a name that would do."""
    if _NAME.fullmatch(name) is None:
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower().removeprefix("planrunner")).strip("_")
        better = plain if _NAME.fullmatch(plain) else ""
        hint = f"did you mean `{better}`?" if better else "such as `weather`"
        raise UsageError(
            f"`{name}` is not a valid family name: use lower-case letters, digits and `_`, starting with a letter", hint
        )
    holders = {target.partition(".")[0]: "planrunner itself" for target in builtin.TARGETS}
    for entry in Registry().installed():
        if entry.group == CAPABILITIES:
            holders.setdefault(entry.name, f"the installed plugin {entry.plugin}")
    if name in holders:
        raise UsageError(f"the family `{name}` belongs to {holders[name]}", f"such as `my_{name}`")
    near = nearest(name, holders)
    if near and (name.startswith(near) or near.startswith(name)) and abs(len(near) - len(name)) <= 1:
        raise UsageError(f"`{name}` is easily taken for the family `{near}` of {holders[near]}", f"such as `my_{name}`")
    return name
