"""Plan files: reading them, the subplans that they link to or name, each lowered once and bounded, and their texts."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from hashlib import sha256
from typing import Protocol

from planrunner.diagnostics import Diagnostic
from planrunner.errors import NotFound
from planrunner.fileio import read_regular
from planrunner.plan.model import Plan, Task
from planrunner.plan.nearest import meant, nearest
from planrunner.records import Struct
from planrunner.source import MAX_TEXT, Source, Span, notation_of
from planrunner.syntax import limits
from planrunner.syntax.tree import Mapping, Node, Scalar


class File(Struct):
    """A plan file that was read; where ``findings`` says that its bytes are not text, there is nothing to load."""

    source: Source
    findings: tuple[Diagnostic, ...] = ()


def read_plan(path: str) -> File:
    """Read a plan file. Raises NotFound, naming a file of a similar name, where the file does not exist or is a folder.

    Where the bytes are not text, ``findings`` says so and the source is empty: it is not worth loading.
    """
    try:
        content = read_regular(path, MAX_TEXT + 1)
    except OSError as error:
        raise _not_found(path, error) from None
    return decode(content, path)


def decode(content: bytes, name: str) -> File:
    """The bytes of a plan, as ``read_plan`` gives them; ``name`` is what the plan is called."""
    source, findings = limits.decode(content, name)
    if source is not None and (found := _of_another_tool(source)) is not None:
        return File(source, (found,))
    return File(source or Source("", name, notation_of(name)), findings)


_OTHERS = (
    ("a Makefile", r"(?:GNU)?[Mm]akefile(?:\..+)?|.*\.mk", r"", "run: make TARGET"),
    ("a workflow of GitHub Actions", r"", r"jobs:\s*$(?=[^\0]*^\s+(?:runs-on|uses):)", ""),
    ("a pipeline of GitLab", r"\.gitlab-ci\.ya?ml", r"stages:\s*(?:\[|$)(?=[^\0]*^\s+script:)", ""),
    ("a Taskfile", r"[Tt]askfile(?:\.dist)?\.ya?ml", r"", "run: task NAME"),
    ("a justfile", r"\.?[Jj]ustfile", r"", "run: just RECIPE"),
    ("a file of Docker Compose", r"(?:docker-)?compose\.ya?ml", r"", "run: docker compose up --detach"),
)
"""What people try to run: what it is, its name, what it has, and the task that calls it."""


def _of_another_tool(source: Source) -> Diagnostic | None:
    """The finding for a text that another tool runs; whatever has `plan` at the margin is a plan."""
    if re.search(r"^[\"{]?\s*\"?plan", source.text, re.MULTILINE):
        return None
    name = os.path.basename(source.name)
    for what, names, held, call in _OTHERS:
        if (names and re.fullmatch(names, name)) or (held and re.search(f"^{held}", source.text, re.MULTILINE)):
            way = f"call it from a task (`{call}`), or port it" if call else "port it"
            help_ = f"{way}: docs/how-to/come-from-other-tools.md has both side by side"
            return Diagnostic("PLAN005", f"this is {what}, not a plan", Span(0, 0), help=help_)
    return None


def _not_found(path: str, error: OSError) -> NotFound:
    if isinstance(error, IsADirectoryError):
        return NotFound(f"`{path}` is a folder, not a plan", "name a file in it")
    if not isinstance(error, FileNotFoundError):
        return NotFound(f"`{path}` cannot be read: {error.strerror}")
    near = near_files(path)
    return NotFound(f"there is no file `{path}`", f"did you mean `{near}`?" if near else "")


_ENDINGS = (".yaml", ".yml", ".json", ".plan")
"""How the names of plan files end."""


def near_files(path: str, endings: tuple[str, ...] = _ENDINGS) -> str:
    """The file of the same folder, or of ``plans/``, whose name is closest or that only lacks its ending."""
    folder, name = os.path.split(path)
    candidates = []
    for place in dict.fromkeys((folder, os.path.join(folder, "plans"))):
        try:
            entries = sorted(os.listdir(place or "."))
        except OSError:
            continue
        candidates += [os.path.join(place, entry) for entry in entries if entry.endswith(endings)]
    names = {os.path.basename(entry): entry for entry in reversed(candidates)}
    stems = {os.path.basename(entry).split(".")[0]: entry for entry in reversed(candidates)}
    exact = names.get(name) or stems.get(name.split(".")[0])
    close, stem = nearest(name, names), nearest(name, stems)
    return exact or (names[close] if close else stems[stem] if stem else "")


class Outcome(Protocol):
    """What loading a file gives: its plan unless there are errors, and the findings."""

    @property
    def plan(self) -> Plan | None: ...

    @property
    def findings(self) -> tuple[Diagnostic, ...]: ...


MAX_LEVELS = 8
"""Subplans inside subplans."""
MAX_FILES = 100
MAX_BYTES = 16 * 1024 * 1024
"""Of all linked files together."""
MAX_INSTRUCTIONS = 1 << 20
"""Bytes of a file of instructions."""
MAX_TASKS = 100_000
"""Tasks of a plan with those of all its subplans, each counted as often as it is used."""

_FILE = r".*[./\\].*"
"""A word that names a file: names of subplans hold no dot and no slash."""


class Fault(Struct):
    """Why a link leads to no plan."""

    code: str
    message: str
    help: str = ""


class _Weight(Struct):
    tasks: int
    levels: int


class _File(Struct):
    plan: Plan | None
    fault: Fault | None
    sha256: str = ""


class _Text(Struct):
    text: str
    fault: Fault | None = None
    sha256: str = ""


class Library:
    """The files of one load, plans and texts of instructions, each read once, however many plans name it. Paths count
    from the folder of the plan that is loaded."""

    def __init__(self, name: str, load: Callable[[Source, Links], Outcome]) -> None:
        self.folder = os.path.dirname(name)
        self._load = load
        self._weights: dict[int, tuple[Plan, _Weight]] = {}
        """By the identity of the plans, which stay alive here."""
        self._bytes = 0
        self.linked: dict[str, _File] = {}
        self._texts: dict[str, _Text] = {}

    def files(self) -> tuple[tuple[str, str], ...]:
        digests = {path: file.sha256 for path, file in self.linked.items()}
        digests |= {path: file.sha256 for path, file in self._texts.items()}
        return tuple((path, digest) for path, digest in digests.items() if digest)

    def fault(self) -> Fault | None:
        """Why one of the files gives nothing; None where all do."""
        faults = [file.fault for file in self.linked.values()] + [text.fault for text in self._texts.values()]
        return next(filter(None, faults), None)

    def text(self, path: str, named: str) -> str | Fault:
        """The text of a file of instructions, without the line ends around it; ``named`` is what the plan calls it."""
        found = self._texts.get(path)
        if found is None:
            if len(self.linked) + len(self._texts) >= MAX_FILES:
                return Fault("PLAN011", f"more than {MAX_FILES} files are linked together")
            found = self._texts[path] = self._read_text(path, named)
        return found.fault or found.text

    def _read_text(self, path: str, named: str) -> _Text:
        place = os.path.join(self.folder, path)
        try:
            content = read_regular(place, MAX_INSTRUCTIONS + 1)
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            return _Text("", Fault("PLAN841", f"`{named}` is not UTF-8 text"))
        except FileNotFoundError:
            near = near_files(place, ("",))
            here = os.path.relpath(near, os.path.dirname(place) or ".") if near else ""
            way = meant(here and os.path.normpath(os.path.join(os.path.dirname(named), here)))
            return _Text("", Fault("PLAN841", f"there is no file `{named}`{way}", "paths count from the plan's folder"))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            return _Text("", Fault("PLAN841", f"the file `{named}` cannot be read: {why}"))
        if len(content) > MAX_INSTRUCTIONS:
            return _Text("", Fault("PLAN011", f"`{named}` has more than {MAX_INSTRUCTIONS:,} bytes"))
        return _Text(text.strip(), None, sha256(content).hexdigest())

    def open(self, path: str, chain: tuple[str, ...]) -> _File:
        """The plan of a file, loaded with the links it has itself; ``chain`` are the files around it."""
        found = self.linked.get(path)
        if found is None:
            if len(self.linked) >= MAX_FILES:
                return _File(None, Fault("PLAN011", f"more than {MAX_FILES} files are linked together"))
            self.linked[path] = found = self._read(path, chain)
        return found

    def _read(self, path: str, chain: tuple[str, ...]) -> _File:
        place = os.path.join(self.folder, path)
        try:
            if not stat.S_ISREG(os.stat(place).st_mode):
                return _File(None, Fault("PLAN111", f"`{path}` is not a readable plan file"))
            file = read_plan(place)
            content = read_regular(place, MAX_BYTES)
        except (OSError, ValueError, NotFound):
            near, named = near_files(place) if "\0" not in path else "", path
            if "\0" not in path and not os.path.isabs(path):  # as the plan that names them has to write them
                here = os.path.join(self.folder, os.path.dirname(chain[-1]) if chain else "")
                named, near = os.path.relpath(place, here), near and os.path.relpath(near, here)
            way = meant(near)
            return _File(
                None, Fault("PLAN111", f"there is no file `{named}`{way}", "paths count from the plan's folder")
            )
        self._bytes += len(content)
        if self._bytes > MAX_BYTES:
            message = f"the linked files have more than {MAX_BYTES:,} bytes together"
            return _File(None, Fault("PLAN011", message))
        digest = sha256(content).hexdigest()
        if file.findings:
            return _File(None, self._faulty(path, place, file.source, file.findings), digest)
        loaded = self._load(file.source, Links(self, (*chain, path)))
        refused = [found for found in loaded.findings if found.severity == "error"]
        if refused:
            return _File(None, self._faulty(path, place, file.source, refused), digest)
        assert loaded.plan is not None, "a plan without errors is there"
        return _File(loaded.plan._replace(file=path), None, digest)

    def _faulty(
        self, path: str, place: str, source: Source, findings: list[Diagnostic] | tuple[Diagnostic, ...]
    ) -> Fault:
        """Of a file that lies elsewhere, and need be no plan at all, nothing is quoted: what a plan links to must not
        come out in the log of a lint."""
        home = os.path.realpath(self.folder)
        near = os.path.commonpath([home, os.path.realpath(place)]) == home
        return _faulty(
            path, place, source, findings if near else [finding._replace(message="") for finding in findings]
        )

    def too_large(self, plan: Plan) -> bool:
        """Whether a plan has too many tasks with those of all that it links to."""
        return bool(self._weights) and self.weight(plan).tasks > MAX_TASKS

    def weight(self, plan: Plan) -> _Weight:
        """How many tasks a plan has with all its subplans, and how many levels of them."""
        found = self._weights.get(id(plan))
        if found is None:
            found = self._weights[id(plan)] = (plan, self._weigh(plan.tasks))
        return found[1]

    def _weigh(self, tasks: tuple[Task, ...]) -> _Weight:
        count, levels = 0, 0
        for task in tasks:
            count += 1
            for inner in (task.subplan, task.loop.tasks if task.loop is not None else ()):
                if inner:
                    below = self._weigh(inner)
                    count, levels = count + below.tasks, max(levels, below.levels)
            if task.sub is not None:
                below = self.weight(task.sub)
                count, levels = count + below.tasks, max(levels, below.levels)
        return _Weight(count, levels + 1)


def _faulty(path: str, place: str, source: Source, findings: list[Diagnostic] | tuple[Diagnostic, ...]) -> Fault:
    """The first faults of a linked file."""
    errors = [found for found in findings if found.severity == "error"]
    shown = "; ".join(f"{_line(source, found.span)} {found.code} {found.message}".rstrip() for found in errors[:2])
    help_ = f"`planrunner lint {place}` shows all of it"
    count = "an error" if len(errors) == 1 else f"{len(errors)} errors"
    return Fault("PLAN112", f"`{path}` has {count}: line {shown}", help_)


def _line(source: Source, span: Span) -> int:
    return source.place(min(span.start, len(source.text))).line


class Links:
    """What ``subplan`` may name inside one file. ``chain`` are the files from the outermost to this one."""

    def __init__(self, library: Library | None = None, chain: tuple[str, ...] = ()) -> None:
        self._library = library
        self._chain = chain
        self._open: list[str] = []
        self._nodes: dict[str, Node] = {}
        self._made: dict[str, Plan] = {}
        self._lower: Callable[[str, Mapping], Plan] | None = None

    def declare(self, node: Node | None, lower: Callable[[str, Mapping], Plan]) -> None:
        """Make the plan's ``subplans`` known; ``lower`` gives the plan of one that is in the file itself."""
        self._lower = lower
        if isinstance(node, Mapping):
            self._nodes = {str(key.value): value for key, value in node.entries}

    def make_all(self) -> tuple[Plan, ...]:
        """Every subplan in this file, in the order of the text, used or not."""
        for name, node in self._nodes.items():
            if isinstance(node, Mapping) and name not in self._made:
                self._named(name, node)
        return tuple(self._made[name] for name in self._nodes if name in self._made)

    def file_from(self, folder: str, word: str) -> Plan | Fault:
        """The plan in a file whose path counts from another folder than that of the plan."""
        if self._library is None:
            return self._file(word)
        here = os.path.join(self._library.folder, os.path.dirname(self._chain[-1]) if self._chain else "")
        return self._file(os.path.relpath(os.path.join(folder, word), here or "."))

    def text(self, word: str) -> str | Fault:
        """The text of a file of instructions, or why there is none."""
        if self._library is None:
            return Fault("PLAN841", f"`{word}` cannot be read from here")
        here = os.path.dirname(self._chain[-1]) if self._chain else ""
        return self._library.text(os.path.normpath(os.path.join(here, word)), word)

    def find(self, word: str) -> Plan | Fault:
        """The plan that ``subplan: word`` links to, or why it leads to none."""
        node = self._nodes.get(word)
        if isinstance(node, Mapping):
            return self._checked(word, self._named(word, node))
        if isinstance(node, Scalar) and isinstance(node.value, str):
            word = node.value.strip()
        elif not re.fullmatch(_FILE, word, re.DOTALL):
            way = meant(nearest(word, self._nodes))
            help_ = "name a file, such as `checks.yaml`, or one of the plan's `subplans`"
            return Fault("PLAN111", f"no subplan is called `{word}`{way}", help_)
        return self._file(word)

    def _named(self, name: str, node: Mapping) -> Plan | Fault:
        if name in self._open:
            return _circle([*self._open[self._open.index(name) :], name])
        if self._level() >= MAX_LEVELS:
            return _too_deep()
        if name not in self._made:
            assert self._lower is not None
            self._open.append(name)
            self._made[name] = self._lower(name, node)
            self._open.pop()
        return self._made[name]

    def _file(self, word: str) -> Plan | Fault:
        if self._library is None:
            return Fault("PLAN111", f"`{word}` cannot be read from here")
        here = os.path.dirname(self._chain[-1]) if self._chain else ""
        path = os.path.normpath(os.path.join(here, word))
        if path in self._chain:
            return _circle([*self._chain[self._chain.index(path) :], path])
        if self._level() >= MAX_LEVELS:
            return _too_deep()
        file = self._library.open(path, self._chain)
        return self._checked(word, file.plan) if file.plan is not None else file.fault or _too_deep()

    def _level(self) -> int:
        return max(len(self._chain) - 1, 0) + len(self._open)

    def _checked(self, word: str, plan: Plan | Fault) -> Plan | Fault:
        """The plan, unless it makes the whole too large or too deep."""
        if isinstance(plan, Fault) or self._library is None:
            return plan
        weight = self._library.weight(plan)
        if self._level() + weight.levels > MAX_LEVELS:
            return _too_deep()
        if weight.tasks > MAX_TASKS:
            return Fault("PLAN011", f"`{word}` has more than {MAX_TASKS:,} tasks with those of its subplans")
        return plan


def _circle(names: list[str]) -> Fault:
    path = " -> ".join(f"`{name}`" for name in names)
    return Fault("PLAN113", f"a subplan contains itself: {path}", "to repeat tasks use `loop` with `max`")


def _too_deep() -> Fault:
    return Fault("PLAN113", f"subplans are nested deeper than {MAX_LEVELS} levels", "bring some of them into one plan")
