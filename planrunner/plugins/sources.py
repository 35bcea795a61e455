"""Where plugins come from: entry points of installed distributions, and single files of a project."""

from __future__ import annotations

import ast
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from shlex import quote
from types import ModuleType
from typing import NamedTuple

from planrunner.errors import PlanInvalid, UsageError
from planrunner.escapes import harmless
from planrunner.fileio import replace_file
from planrunner.records import Struct
from planrunner.safety import trust
from planrunner.safety.project import read_data

CAPABILITIES = "planrunner.capabilities"
PLUGINS = "planrunner.plugins"
_HEADER = "planrunner plugins 2"
_METADATA = (".dist-info", ".egg-info")


class Installed(NamedTuple):
    """An entry point: ``target`` is ``module`` or ``module:attribute``, ``plugin`` the distribution that has it."""

    group: str
    name: str
    target: str
    plugin: str
    version: str


def installed(keeps: bool = True) -> tuple[Installed, ...]:
    """Every plugin on ``sys.path``, from the cache where it still holds; it is brought up to date where ``keeps``."""
    key = "\n".join(_dependencies(sys.path))  # part of the file as well, so that a name shared by chance does no harm
    path = os.path.join(cache_folder(), f"plugins-{len(key)}-{sum(key.encode())}.txt")
    plugins = _read(path, key)
    if plugins is None:
        plugins = tuple(_look()) if any(map(_mentions, sys.path)) else ()
        if keeps:
            _write(path, key, plugins)
    return plugins


def cache_folder() -> str:
    """Where planrunner keeps what it can find out again: ``$XDG_CACHE_HOME/planrunner`` or ``~/.cache/planrunner``."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(root):
        root = os.path.expanduser("~/.cache")
    return os.path.join(root, "planrunner")


def _dependencies(path: Iterable[str]) -> list[str]:
    """What the answer depends on, a line each."""
    lines = [sys.version.split()[0]]
    for folder in path:
        try:
            if folder.startswith((sys.prefix, sys.base_prefix)) or folder.endswith(("-packages", ".zip")):
                lines.append(f"{folder}\t{os.stat(folder).st_mtime_ns}")
            else:
                names = sorted(name for name in os.listdir(folder or ".") if name.endswith(_METADATA))
                lines.extend(f"{os.path.abspath(folder)}\t{name}" for name in names)
        except OSError:
            continue  # sys.path may name what does not exist
    return [line.replace("\n", " ") for line in lines]


def _read(path: str, key: str) -> tuple[Installed, ...] | None:
    """The kept answer; None where it is missing, not ours or outdated."""
    try:
        with open(path, encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            if about.st_uid != os.geteuid() or about.st_mode & 0o022:
                return None
            header, kept, rows = file.read().split("\n\n", 2)
    except (OSError, ValueError):
        return None
    if header != _HEADER or kept != key:
        return None
    fields = [row.split("\t") for row in rows.splitlines()]
    return tuple(Installed(*row) for row in fields) if all(len(row) == 5 for row in fields) else None


def _write(path: str, key: str, plugins: Iterable[Installed]) -> None:
    """Keep the answer; a folder that cannot be written only means looking again next time."""
    rows = "\n".join("\t".join(one) for one in plugins)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, f"{_HEADER}\n\n{key}\n\n{rows}".encode())
    except OSError:
        return


def _mentions(folder: str) -> bool:
    """Whether a package of a folder may be a plugin: most folders have no plugin, which takes 2 ms to see. Anything
    else, such as an archive, always may."""
    try:
        names = os.listdir(folder or ".")
    except NotADirectoryError:
        return True
    except OSError:
        return False
    for name in names:
        if name.endswith(_METADATA):
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                    text = file.read()
                if CAPABILITIES.encode() in text or PLUGINS.encode() in text:
                    return True
            except NotADirectoryError:
                return True  # the metadata of an old installation is a file
            except OSError:
                continue
    return False


def _look() -> list[Installed]:
    points: dict[tuple[str, str, str], Installed] = {}
    from importlib.metadata import distributions

    for distribution in distributions():
        for point in distribution.entry_points:
            if point.group in (CAPABILITIES, PLUGINS):
                plugin = distribution.metadata["Name"] or "?"
                one = Installed(point.group, point.name, point.value, plugin, distribution.version or "?")
                points.setdefault((point.group, point.name, plugin), one)  # the first on sys.path is imported
    return [points[key] for key in sorted(points)]


HOOKS = (
    "planrunner_register_capabilities",
    "planrunner_register_rules",
    "planrunner_register_search_providers",
    "planrunner_observe_event",
)
"""The hooks of `hookspecs.py`, whose import costs more than reading a file."""


class Offered(Struct):
    """A capability that the text declares: its name, effect class, other options as written, and the signature."""

    name: str
    effect: str
    options: tuple[str, ...]
    signature: str
    line: int


class Scan(Struct):
    """What importing a text would register: capabilities and hooks; what it imports; ``problem`` where it cannot be
    read at all."""

    capabilities: tuple[Offered, ...] = ()
    hooks: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    problem: str = ""

    def families(self) -> frozenset[str]:
        """The part of each capability's name before its dot."""
        return frozenset(each.name.partition(".")[0] for each in self.capabilities)


def scan(text: bytes) -> Scan:
    """Read the text of a Python file. A capability counts where its name is written out in ``@capability("…")``."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
        functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        capabilities = [offered for function in functions for offered in _offered(function)]
        hooks = tuple(sorted({each.name for each in functions if each.name in HOOKS}))
        return Scan(tuple(capabilities), hooks, tuple(sorted(set(_imports(nodes)))))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # too deep for Python counts as well
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        return Scan(problem=f"it is not Python: {type(error).__name__}{line}")


def _offered(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Offered]:
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call) or _last_name(decorator.func) != "capability":
            continue
        name = _text(decorator.args[0]) if decorator.args else None
        given = {each.arg: each.value for each in decorator.keywords if each.arg}
        name = name or _text(given.pop("name", None))
        if name is None:
            continue
        effect = _text(given.pop("effect", None)) or "unsafe"
        options = tuple(f"{option}={ast.unparse(value)}" for option, value in given.items())
        returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
        signature = f"{function.name}({ast.unparse(function.args)}){returns}"
        yield Offered(name, effect, options, signature, function.lineno)


def _imports(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


FOLDER = os.path.join(".planrunner", "plugins")
LIMIT = 1 << 20
"""Bytes a plugin of one file may have."""


class ProjectFile(Struct):
    """A file that may be a plugin: ``name`` is its path from the project, ``text`` what was read and nothing else will
    be executed, ``problem`` why it could not be read."""

    name: str
    path: str
    text: bytes = b""
    trust: trust.TrustState = "untrusted"
    problem: str = ""

    def scan(self) -> Scan:
        """What it would register."""
        return Scan(problem=self.problem) if self.problem else scan(self.text)

    def has_hooks(self) -> bool:
        """Whether it speaks of hooks other than that for capabilities."""
        return any(hook.encode() in self.text for hook in HOOKS[1:])

    def refusal(self) -> str:
        """Why it is not loaded, and the command that changes that; empty where it may be."""
        if self.trust == "trusted" and not self.problem:
            return ""
        name = harmless(self.name)
        if problem := self.scan().problem:
            return f"`{name}` cannot be read: {problem}"
        state = "has changed since it was trusted" if self.trust == "changed" else "is not trusted"
        return f"`{name}` {state}; look at it with `{self.command('trust')}`"

    def command(self, action: str) -> str:
        """The command that does something about its trust, as a person would type it here."""
        near = os.path.relpath(self.path)
        return f"planrunner plugins {action} {harmless(quote(self.path if near.startswith(os.pardir) else near))}"


def project_files(project: str) -> tuple[ProjectFile, ...]:
    """The files of a project that may be plugins, read once, in a fixed order."""
    names = dict.fromkeys((*_in_folder(project), *_in_settings(project)))
    return tuple(read_file(os.path.join(project, name), name) for name in names)


def read_file(path: str, name: str) -> ProjectFile:
    """One file with its trust."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not make lint wait
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            return ProjectFile(name, path, problem="it is not a regular file")
        with open(handle, "rb") as file:
            text = file.read(LIMIT + 1)
    except (OSError, ValueError) as error:  # settings may name what can be no path
        return ProjectFile(name, path, problem=getattr(error, "strerror", "") or str(error))
    if len(text) > LIMIT:
        return ProjectFile(name, path, problem=f"it is larger than {LIMIT >> 20} MiB")
    return ProjectFile(name, path, text, trust.trust_state(path, text))


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
        names = sorted(os.listdir(os.path.join(project, FOLDER)))
    except OSError:
        return
    yield from (os.path.join(FOLDER, name) for name in names if name.endswith(".py") and not name.startswith("."))


def _in_settings(project: str) -> Iterator[str]:
    try:
        section = read_data(project).get("plugins")
    except (PlanInvalid, UsageError):
        return  # `exec` and `lint` of the project say so
    files = section.get("files") if isinstance(section, dict) else None
    yield from (os.path.normpath(each) for each in files or () if isinstance(each, str) and each)
