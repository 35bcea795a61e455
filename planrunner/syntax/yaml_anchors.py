"""Anchors, aliases and merge keys of YAML, inside the bounds that keep a small text from standing for a huge plan."""

from __future__ import annotations

from typing import NamedTuple

from planrunner.diagnostics import Diagnostic
from planrunner.source import Span
from planrunner.syntax.findings import duplicate_key
from planrunner.syntax.limits import MAX_ALIASES, MAX_EXPANDED, Refused, too_large
from planrunner.syntax.tree import Mapping, Node, Plain, Scalar, Sequence
from planrunner.syntax.yaml_errors import nearest

_Entries = list[tuple[Scalar, Node]]


class Anchored(NamedTuple):
    """A node that aliases may name: how many nodes it stands for when expanded, and how many levels it has."""

    node: Node
    nodes: int
    height: int


class Anchors:
    """The anchors of a text so far; ``extra`` counts the nodes that aliases add to those that are written."""

    __slots__ = ("_aliases", "_known", "extra")

    def __init__(self) -> None:
        self._known: dict[str, Anchored | None] = {}
        self._aliases = 0
        self.extra = 0

    def open(self, name: str) -> None:
        """Note a collection that is not complete yet: an alias inside it would make it contain itself."""
        self._known[name] = None

    def define(self, name: str, anchored: Anchored) -> None:
        self._known[name] = anchored

    def follow(self, name: str, span: Span) -> Anchored:
        """What an alias stands for. Raises Refused where that is nothing, the alias itself, or too much."""
        if name not in self._known:
            near = nearest(name, self._known)
            help = f"did you mean `*{near}`?" if near else "an anchor, such as `&name`, stands before its aliases"
            raise Refused(Diagnostic("PLAN001", f"no anchor `&{name}` stands before this alias", span, help=help))
        anchored = self._known[name]
        if anchored is None:
            message = f"`*{name}` stands inside what `&{name}` names: it would contain itself"
            raise Refused(Diagnostic("PLAN013", message, span))
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise too_large(f"the plan has more than {MAX_ALIASES:,} aliases", *span)
        self.extra += anchored.nodes - 1
        if self.extra > MAX_EXPANDED:
            raise too_large(f"the aliases stand for more than {MAX_EXPANDED:,} nodes", *span)
        return anchored


def first_of_each(entries: _Entries, findings: list[Diagnostic]) -> _Entries:
    """The entries without those whose key stood before; each of these is a finding."""
    first: dict[Plain, Scalar] = {}
    kept: _Entries = []
    for key, value in entries:
        earlier = first.setdefault(key.value, key)
        if earlier is key:
            kept.append((key, value))
        else:
            findings.append(duplicate_key(key, earlier))
    return kept


def merge(node: Mapping, findings: list[Diagnostic]) -> None:
    """Put the entries of what ``<<`` names in its place, without those the mapping has itself."""
    taken = {key.value for key, _ in node.entries}
    entries: _Entries = []
    for key, value in node.entries:
        if key.value != "<<" or key.style:
            entries.append((key, value))
            continue
        node.merged = _merged(value, findings)
        for mapping in node.merged:
            fresh = [entry for entry in mapping.entries if entry[0].value not in taken]
            taken.update(name.value for name, _ in fresh)
            entries.extend(fresh)
    node.entries = entries


def _merged(value: Node, findings: list[Diagnostic]) -> tuple[Mapping, ...]:
    parts = value.items if isinstance(value, Sequence) else [value]
    found = tuple(part for part in parts if isinstance(part, Mapping))
    if len(found) != len(parts):
        message = "the merge key `<<` takes a mapping or a list of mappings"
        findings.append(Diagnostic("PLAN013", message, value.span, help="name one with an alias: `<<: *name`"))
    return found
