"""From a source to a plan: parse, schema, canonical keys, lowering, rules; all findings of all stages in one order."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Table
from typing import Protocol

from planrunner import syntax
from planrunner.diagnostics import RULES, Diagnostic, Rule, arrange, has_errors
from planrunner.errors import NotFound
from planrunner.plan import rules, schema
from planrunner.plan.canonical import canonical
from planrunner.plan.lower import lower
from planrunner.plan.model import Capability, Plan
from planrunner.plan.nearest import nearest
from planrunner.record import NamedTuple
from planrunner.source import Source, notation_of
from planrunner.syntax.limits import MAX_TEXT
from planrunner.syntax.tree import Mapping, Node, Scalar


class Capabilities(Protocol):
    """What there is to use. ``find`` may load what it finds, ``names`` loads nothing."""

    def find(self, name: str) -> Capability | None: ...

    def names(self) -> tuple[str, ...]: ...


class Loaded(NamedTuple):
    """``plan`` is None exactly when a finding is an error; ``tree`` is canonical, and None where nothing parsed."""

    plan: Plan | None
    findings: tuple[Diagnostic, ...]
    tree: Node | None


class File(NamedTuple):
    """A plan file that was read; where ``findings`` says that its bytes are no text, there is nothing to load."""

    source: Source
    findings: tuple[Diagnostic, ...] = ()


def load(source: Source, capabilities: Capabilities) -> Loaded:
    """Load a plan. Never raises for what a text may hold: faults are findings."""
    collecting = gc.isenabled()
    gc.disable()  # everything made here stays alive: a collection in between only costs
    try:
        return _load(source, capabilities)
    finally:
        if collecting:
            gc.enable()


def _load(source: Source, capabilities: Capabilities) -> Loaded:
    parsed = syntax.parse(source)
    if parsed.tree is None:
        return Loaded(None, arrange(parsed.findings), None)
    whole = named(parsed.tree, source)
    found = schema.check(whole)
    findings = [*parsed.findings, *found]
    if not isinstance(whole, Mapping):
        return Loaded(None, arrange(findings), whole)
    tree = canonical(whole)
    lowered = lower(tree)
    findings += _unsaid(lowered.findings, found)
    findings += rules.run(lowered.plan, source, _Table(capabilities), _plugin_checks(capabilities))
    return Loaded(None if has_errors(findings) else lowered.plan, arrange(findings), tree)


def named(tree: Node, source: Source) -> Node:
    """A text file that holds only tasks is a plan with the name of its file."""
    if (
        source.notation != "text"
        or not isinstance(tree, Mapping)
        or any(tree.key(key) for key in ("plan", "plan_id", "id"))
    ):
        return tree
    stem = os.path.basename(source.name).split(".")[0]
    name = re.sub(r"^[^A-Za-z_]+|[^A-Za-z0-9_-]+", "", stem) or "plan"
    return Mapping(
        [(Scalar("plan", 0, 0, "plan"), Scalar(name, 0, 0, name)), *tree.entries], tree.start, tree.end, tree.flow
    )


def _unsaid(later: Iterable[Diagnostic], schema_findings: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """What lowering found, without what the schema has said of the same value in other words."""
    said = {finding.span for finding in schema_findings}
    return (finding for finding in later if finding.code != "PLAN006" or finding.span not in said)


def _plugin_checks(capabilities: Capabilities) -> list[rules.Check]:
    """The lint rules that plugins brought along, where ``capabilities`` knows plugins; their codes become known."""
    found: tuple[tuple[Rule, rules.Check], ...] = getattr(capabilities, "rules", tuple)()
    for rule, _ in found:
        RULES.setdefault(rule.code, rule)
    return [check for _, check in found]


class _Table(Table[str, Capability]):
    """Capabilities as the mapping that rules look into; only what a plan names is ever loaded."""

    def __init__(self, capabilities: Capabilities) -> None:
        self._capabilities = capabilities

    def __getitem__(self, name: str) -> Capability:
        found = self._capabilities.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._capabilities.names())

    def __len__(self) -> int:
        return len(self._capabilities.names())


def read_plan(path: str) -> File:
    """Read a plan file. Raises NotFound, naming a file of a similar name, where there is none; a folder is none.

    Where the bytes are no text, ``findings`` says so and the source is empty: it is not worth loading.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_TEXT + 1)
    except OSError as error:
        raise _not_found(path, error) from None
    source, findings = syntax.decode(content, path)
    return File(source or Source("", path, notation_of(path)), findings)


def _not_found(path: str, error: OSError) -> NotFound:
    if isinstance(error, IsADirectoryError):
        return NotFound(f"`{path}` is a folder, not a plan", "name a file in it")
    if not isinstance(error, FileNotFoundError):
        return NotFound(f"`{path}` cannot be read: {error.strerror}")
    near = _near_files(path)
    return NotFound(f"there is no file `{path}`", f"did you mean {near}?" if near else "")


def _near_files(path: str) -> str:
    """The file of the same folder, or of ``plans/``, whose name is closest or that only lacks its ending."""
    folder, name = os.path.split(path)
    candidates = []
    for place in dict.fromkeys((folder, os.path.join(folder, "plans"))):
        try:
            entries = sorted(os.listdir(place or "."))
        except OSError:
            continue
        candidates += [
            os.path.join(place, entry) for entry in entries if entry.endswith((".yaml", ".yml", ".json", ".plan"))
        ]
    names = {os.path.basename(entry): entry for entry in reversed(candidates)}
    stems = {os.path.basename(entry).split(".")[0]: entry for entry in reversed(candidates)}
    exact = names.get(name) or stems.get(name.split(".")[0])
    close = nearest(name, names)
    found = exact or (names[close] if close else "")
    return f"`{found}`" if found else ""
