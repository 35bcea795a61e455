"""YAML text to the node tree: a composer of our own over libyaml's events, with no recursion anywhere.

Aliases put the *same* node object into the tree again, so a shared node keeps the place of its anchor; ``Node.anchor``
holds the name. A merge key ``<<`` disappears from ``Mapping.entries``; the entries it brings stand in its place (the
mapping's own keys win, of several merged mappings the first), and they are the very key and value objects of the merged
mapping, which itself is in ``Mapping.merged``. Keys are always strings, as written: ``1: x`` has the key ``"1"``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from operator import attrgetter
from typing import Any, TypeAlias

from planrunner.diagnostics import Diagnostic
from planrunner.source import Source, Span
from planrunner.syntax import libyaml
from planrunner.syntax.findings import empty_plan
from planrunner.syntax.limits import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_SCALAR,
    CollectorPaused,
    Refused,
    check_length,
    too_deep,
    too_large,
)
from planrunner.syntax.parsed import Parsed
from planrunner.syntax.scalars import NUMERIC, SPECIAL, SUSPICIOUS_KEYS
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence
from planrunner.syntax.yaml_anchors import Anchored, Anchors, first_of_each, merge
from planrunner.syntax.yaml_errors import collection_as_key, explain
from planrunner.syntax.yaml_scalars import ScalarReader

_Items = list[Node]
_Position = tuple[_Items, bool, int]
"""Where the loop stands: the children of the innermost collection, whether they are keys and values in turn, and the
offset at which the last node ended."""
_Step: TypeAlias = "Callable[[Any, _Items, bool, int], _Position]"
"""What an event other than a scalar does to that position."""
_value = attrgetter("value")

_Frame = tuple[_Items, bool, int, bool, str, int]
"""What a collection that is open puts aside: items and keyed of its parent, then its own start, whether it has
brackets, its anchor, and the number of nodes before it (counted only where there is an anchor)."""


def parse_yaml(source: Source) -> Parsed:
    """Read YAML. At most one syntax error is found: libyaml cannot go on after one."""
    composer = Composer(source.text)
    try:
        check_length(source.text)
        with CollectorPaused():
            return Parsed(composer.compose(), tuple(composer.findings))
    except Refused as refusal:
        return Parsed(None, (*composer.findings, refusal.finding))


class Composer:
    """Builds the tree of one text; ``findings`` holds what was noticed and did not stop it."""

    __slots__ = ("_anchors", "_closed", "_keys", "_number", "_reach", "_scalars", "_stack", "_text", "findings")

    def __init__(self, text: str) -> None:
        self.findings: list[Diagnostic] = []
        # libyaml drops a byte order mark and counts without it; a line break in its place keeps every offset right
        self._text = "\n" + text[1:] if text[:1] == "\ufeff" else text
        self._stack: list[_Frame] = []
        self._reach = [0]
        self._anchors = Anchors()
        self._scalars = ScalarReader(self._text, self.findings)
        self._keys: dict[str, str] = {}
        self._number = self._closed = 0

    def compose(self) -> Node:
        """The root node; raises Refused where there is none."""
        try:
            stream = libyaml.read_events(self._text)
        except UnicodeEncodeError:
            raise self._refused(None) from None
        try:
            root = self._walk(stream)
        except stream.error as error:
            raise self._refused(error) from None
        if root is None or (isinstance(root, Scalar) and root.start == root.end):
            raise Refused(empty_plan())
        return root

    def _refused(self, error: Exception | None) -> Refused:
        return Refused(explain(error, self._text))

    def _walk(self, stream: libyaml.Events) -> Node | None:
        """The loop over all events. Scalars are made in place: a call for each would cost a fifth of the whole time."""
        text, scalars, special, numeric, steps = self._text, self._scalars, SPECIAL, NUMERIC, self._steps()
        words, keys = scalars.words, self._keys
        items: _Items = []
        root, keyed, end, number = items, False, 0, 0
        for number, event in enumerate(islice(iter(stream.next, None), MAX_NODES + 1)):
            if len(event) != libyaml.SCALAR:
                self._number = number
                items, keyed, end = steps[event[0]](event, items, keyed, end)
                continue
            anchor, tag, _, value, start_mark, end_mark, style = event
            start, end = start_mark.index, end_mark.index
            if tag is not None or anchor is not None or len(value) > MAX_SCALAR:
                items.append(self._special(event, keyed and not len(items) & 1))
            elif style:
                raw = text[start:end]
                if style in "|>":
                    raw = raw.rstrip(" \t\r\n")
                    end = start + len(raw)
                items.append(Scalar(value, start, end, raw, style))
            else:
                raw = value if end - start == len(value) else text[start:end]
                if keyed and not len(items) & 1:
                    key = keys.setdefault(value, value)  # plans repeat their keys: a tenth less memory
                    value, raw = key, key if raw is value else raw
                    if value in SUSPICIOUS_KEYS:
                        scalars.check_key(value, start, end)
                elif value in special or value[:1] in numeric:
                    known = words.get(value, words)
                    value = scalars.typed(value, start, end) if known is words else known
                items.append(Scalar(value, start, end, raw))
        if number >= MAX_NODES:
            raise too_large(f"the plan has more than {MAX_NODES:,} nodes", end, end)
        return root[0] if root else None

    def _steps(self) -> dict[str, _Step]:
        return {
            libyaml.MAPPING_START: self._open,
            libyaml.SEQUENCE_START: self._open,
            libyaml.MAPPING_END: self._close_mapping,
            libyaml.SEQUENCE_END: self._close_sequence,
            libyaml.ALIAS: self._alias,
            libyaml.DOCUMENT_START: self._document,
            libyaml.REST: lambda event, items, keyed, end: (items, keyed, end),
        }

    def _document(self, event: Any, items: _Items, keyed: bool, end: int) -> _Position:
        if items:
            start = event[1].index
            message = "a plan file holds one document; this `---` starts another"
            raise Refused(
                Diagnostic("PLAN013", message, Span(start, start + 3), help="put each plan into a file of its own")
            )
        return items, keyed, end

    def _open(self, event: Any, items: _Items, keyed: bool, end: int) -> _Position:
        kind, anchor, tag, start_mark, end_mark, flow = event
        start, stack = start_mark.index, self._stack
        depth = len(stack) + 1
        if depth > MAX_DEPTH:
            raise too_deep(start)
        if keyed and not len(items) & 1:
            raise Refused(collection_as_key(self._text, start, stack[-1][2]))
        if anchor or tag is not None:
            self._scalars.check_tag(tag, start, ("seq", "map"))
            start = self._scalars.after_properties(start, end_mark.index)
        if anchor:
            self._anchors.open(anchor)
        stack.append((items, keyed, start, flow, anchor or "", self._seen() if anchor else 0))
        self._reach.append(depth)
        return [], kind is libyaml.MAPPING_START, end

    def _close_sequence(self, event: Any, children: _Items, _keyed: bool, end: int) -> _Position:
        frame = self._stack.pop()
        flow = frame[3]
        return self._close(Sequence(children, frame[2], event[1].index if flow else end, flow), frame)

    def _close_mapping(self, event: Any, children: Any, _keyed: bool, end: int) -> _Position:
        frame = self._stack.pop()
        flow, keys = frame[3], children[::2]
        node = Mapping(list(zip(keys, children[1::2])), frame[2], event[1].index if flow else end, flow)
        names = set(map(_value, keys))
        if len(names) != len(keys):
            node.entries = first_of_each(node.entries, self.findings)
        if "<<" in names:
            merge(node, self.findings)
        return self._close(node, frame)

    def _close(self, node: Mapping | Sequence, frame: _Frame) -> _Position:
        items, keyed, _, _, anchor, nodes_before = frame
        reach = self._reach.pop()
        if reach > self._reach[-1]:
            self._reach[-1] = reach
        self._closed += 1
        if anchor:
            node.anchor = anchor
            height = reach - len(self._stack)
            self._anchors.define(anchor, Anchored(node, self._seen() - nodes_before + 1, height))
        items.append(node)
        return items, keyed, node.end

    def _seen(self) -> int:
        """Nodes so far, aliases expanded."""
        return self._number - self._closed + self._anchors.extra

    def _alias(self, event: Any, items: _Items, keyed: bool, _end: int) -> _Position:
        _, name, start_mark, end_mark = event
        span = Span(start_mark.index, end_mark.index)
        if keyed and not len(items) & 1:
            message = f"an alias, `*{name}`, stands for a key"
            raise Refused(Diagnostic("PLAN013", message, span, help="write the key itself"))
        anchored = self._anchors.follow(name, span)
        reach = len(self._stack) + anchored.height
        if reach > MAX_DEPTH:
            raise too_deep(span.start)
        self._reach[-1] = max(self._reach[-1], reach)
        items.append(anchored.node)
        return items, keyed, span.end

    def _special(self, event: Any, is_key: bool) -> Scalar:
        """A scalar with an anchor or a tag, or one that is too long."""
        node = self._scalars.special(event, is_key)
        if node.anchor:
            self._anchors.define(node.anchor, Anchored(node, 1, 0))
        return node
