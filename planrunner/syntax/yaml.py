"""YAML text to the node tree: a composer of our own over libyaml's events, with no recursion anywhere.

Aliases put the *same* node object into the tree again, so a shared node keeps the place of its anchor; ``Node.anchor``
holds the name. A merge key ``<<`` disappears from ``Mapping.entries``; the entries it brings stand in its place (the
mapping's own keys win, of several merged mappings the first), and they are the very key and value objects of the merged
mapping, which itself is in ``Mapping.merged``. Keys are always strings, as written: ``1: x`` has the key ``"1"``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

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
from planrunner.syntax.scalars import FIRST, SUSPICIOUS_KEYS
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence
from planrunner.syntax.yaml_anchors import Anchored, Anchors, first_of_each, merge
from planrunner.syntax.yaml_scalars import ScalarReader

_Items = list[Node]
_Position = tuple[_Items, bool, int]
"""Where the loop stands: the children of the innermost collection, whether they are keys and values in turn, and the
offset at which the last node ended."""


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
        from planrunner.syntax.yaml_errors import explain  # late: only texts that do not parse need the wording

        return Refused(explain(error, self._text))

    def _walk(self, stream: libyaml.Events) -> Node | None:
        """The loop over all events. Scalars are made in place: a call for each would cost a fifth of the whole time."""
        text, scalars, first, steps = self._text, self._scalars, FIRST, self._steps()
        words, keys = scalars.words, self._keys
        items: _Items = []
        root, keyed, end, number = items, False, 0, 0
        for number, event in enumerate(islice(iter(stream.next, None), MAX_NODES + 1)):
            kind = type(event)
            if kind is not tuple:
                self._number = number
                items, keyed, end = steps[kind](event, (items, keyed, end))
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
                elif value[:1] in first:
                    known = words.get(value, words)
                    value = scalars.typed(value, start, end) if known is words else known
                items.append(Scalar(value, start, end, raw))
        if number >= MAX_NODES:
            raise too_large(f"the plan has more than {MAX_NODES:,} nodes", end, end)
        return root[0] if root else None

    def _steps(self) -> dict[type, Callable[[Any, _Position], _Position]]:
        return {
            libyaml.MappingStart: self._open_mapping,
            libyaml.SequenceStart: self._open_sequence,
            libyaml.MappingEnd: self._close_mapping,
            libyaml.SequenceEnd: self._close_sequence,
            libyaml.Alias: self._alias,
            libyaml.DocumentStart: self._document,
            libyaml.End: lambda event, position: position,
        }

    def _document(self, event: Any, position: _Position) -> _Position:
        if position[0]:
            start = event.start_mark.index
            message = "a plan file holds one document; this `---` starts another"
            raise Refused(
                Diagnostic("PLAN013", message, Span(start, start + 3), help="put each plan into a file of its own")
            )
        return position

    def _open_mapping(self, event: Any, position: _Position) -> _Position:
        self._open(event, position)
        return [], True, position[2]

    def _open_sequence(self, event: Any, position: _Position) -> _Position:
        self._open(event, position)
        return [], False, position[2]

    def _open(self, event: Any, position: _Position) -> None:
        items, keyed, _ = position
        start, anchor, flow = event.start_mark.index, event.anchor or "", event.flow_style
        depth = len(self._stack) + 1
        if depth > MAX_DEPTH:
            raise too_deep(start)
        if keyed and not len(items) & 1:
            from planrunner.syntax.yaml_errors import collection_as_key  # late like ``explain``

            raise Refused(collection_as_key(self._text, start, self._stack[-1][2]))
        if anchor or event.ctag is not None:
            self._scalars.check_tag(event.ctag, start, ("seq", "map"))
            start = self._scalars.after_properties(start, event.end_mark.index)
        if anchor:
            self._anchors.open(anchor)
        self._stack.append((items, keyed, start, flow, anchor, self._seen() if anchor else 0))
        self._reach.append(depth)

    def _close_sequence(self, event: Any, position: _Position) -> _Position:
        _, _, start, flow, _, _ = self._stack[-1]
        return self._close(Sequence(position[0], start, event.end_mark.index if flow else position[2], flow))

    def _close_mapping(self, event: Any, position: _Position) -> _Position:
        _, _, start, flow, _, _ = self._stack[-1]
        children: Any = position[0]
        keys = children[::2]
        node = Mapping(list(zip(keys, children[1::2])), start, event.end_mark.index if flow else position[2], flow)
        names = {key.value for key in keys}
        if len(names) != len(keys):
            node.entries = first_of_each(node.entries, self.findings)
        if "<<" in names:
            merge(node, self.findings)
        return self._close(node)

    def _close(self, node: Mapping | Sequence) -> _Position:
        items, keyed, _, _, anchor, nodes_before = self._stack.pop()
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

    def _alias(self, event: Any, position: _Position) -> _Position:
        items, keyed, _ = position
        span = Span(event.start_mark.index, event.end_mark.index)
        if keyed and not len(items) & 1:
            message = f"an alias, `*{event.anchor}`, stands for a key"
            raise Refused(Diagnostic("PLAN013", message, span, help="write the key itself"))
        anchored = self._anchors.follow(event.anchor, span)
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
