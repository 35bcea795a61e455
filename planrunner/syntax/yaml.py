"""YAML text to the node tree: a composer of our own over libyaml's events, with no recursion anywhere.

Aliases put the *same* node object into the tree again, so a shared node keeps the place of its anchor; ``Node.anchor``
holds the name. A merge key ``<<`` disappears from ``Mapping.entries``; the entries it brings stand in its place (the
mapping's own keys win, of several merged mappings the first), and they are the very key and value objects of the merged
mapping, which itself is in ``Mapping.merged``. Keys are always strings, as written: ``1: x`` has the key ``"1"``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

from planrunner.diagnostics import Diagnostic
from planrunner.source import Source, Span
from planrunner.syntax import libyaml
from planrunner.syntax.findings import duplicate_key, empty_plan
from planrunner.syntax.limits import (
    MAX_ALIASES,
    MAX_DEPTH,
    MAX_EXPANDED,
    MAX_NODES,
    MAX_SCALAR,
    CollectorPaused,
    Refused,
    check_length,
    check_scalar,
    too_deep,
    too_large,
)
from planrunner.syntax.parsed import Parsed
from planrunner.syntax.scalars import FIRST, SUSPICIOUS_KEYS, Unusable, resolve, trap
from planrunner.syntax.tree import Mapping, Node, Plain, Scalar, Sequence
from planrunner.syntax.yaml_errors import collection_as_key, explain, nearest, old_yaml

_CORE = "tag:yaml.org,2002:"
_CORE_SCALARS = ("str", "int", "float", "bool", "null")
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*(?:\s|#[^\n]*\n)*)+")

_Items = list[Node]
_Position = tuple[_Items, bool, int]
"""Where the loop stands: the children of the innermost collection, whether they are keys and values in turn, and the
offset at which the last node ended."""


class _Frame(NamedTuple):
    """What a collection that is still open puts aside: the state of its parent, and its own beginnings."""

    items: _Items
    keyed: bool
    start: int
    flow: bool
    anchor: str
    nodes_before: int


class _Anchored(NamedTuple):
    """A node that aliases may name: how many nodes it stands for when expanded, and how many levels it has."""

    node: Node
    nodes: int
    height: int


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

    __slots__ = (
        "_aliases",
        "_anchors",
        "_closed",
        "_extra",
        "_number",
        "_reach",
        "_stack",
        "_text",
        "_words",
        "findings",
    )

    def __init__(self, text: str) -> None:
        self.findings: list[Diagnostic] = []
        # libyaml drops a byte order mark and counts without it; a line break in its place keeps every offset right
        self._text = "\n" + text[1:] if text[:1] == "\ufeff" else text
        self._stack: list[_Frame] = []
        self._reach = [0]
        self._anchors: dict[str, _Anchored | None] = {}
        self._words: dict[str, Plain] = {}
        self._aliases = self._extra = self._number = self._closed = 0

    def compose(self) -> Node:
        """The root node; raises Refused where there is none."""
        try:
            stream = libyaml.read_events(self._text)
        except UnicodeEncodeError:
            raise Refused(explain(None, self._text)) from None
        try:
            root = self._walk(stream)
        except stream.error as error:
            raise Refused(explain(error, self._text)) from None
        if root is None or (isinstance(root, Scalar) and root.start == root.end):
            raise Refused(empty_plan())
        return root

    def _walk(self, stream: libyaml.Events) -> Node | None:
        """The loop over all events. Scalars are made in place: a call for each would cost a fifth of the whole time."""
        text, words, first, steps = self._text, self._words, FIRST, self._steps()
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
                    if value in SUSPICIOUS_KEYS:
                        self._check_key(value, start, end)
                elif value[:1] in first:
                    known = words.get(value, words)
                    value = self._typed(value, start, end) if known is words else known
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

    # collections

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
            raise Refused(collection_as_key(self._text, start, self._stack[-1].start))
        if anchor or event.ctag is not None:
            self._check_tag(event.ctag, start, ("seq", "map"))
            start = self._after_properties(start, event.end_mark.index)
        if anchor:
            self._anchors[anchor] = None
        self._stack.append(_Frame(items, keyed, start, flow, anchor, self._seen()))
        self._reach.append(depth)

    def _close_sequence(self, event: Any, position: _Position) -> _Position:
        frame, end = self._stack.pop(), self._end(event, position)
        return self._close(frame, Sequence(position[0], frame.start, end, frame.flow))

    def _close_mapping(self, event: Any, position: _Position) -> _Position:
        frame, end = self._stack.pop(), self._end(event, position)
        children: Any = position[0]
        keys = children[::2]
        node = Mapping(list(zip(keys, children[1::2])), frame.start, end, frame.flow)
        names = {key.value for key in keys}
        if len(names) != len(keys):
            node.entries = self._first_of_each(node.entries)
        if "<<" in names:
            self._merge(node)
        return self._close(frame, node)

    def _end(self, event: Any, position: _Position) -> int:
        """Where a collection ends: after its bracket, or where its last child ends (libyaml gives the next token)."""
        start, end = event.start_mark.index, event.end_mark.index
        return end if end > start else position[2]

    def _close(self, frame: _Frame, node: Mapping | Sequence) -> _Position:
        reach, depth = self._reach.pop(), len(self._stack)
        self._reach[-1] = max(self._reach[-1], reach)
        self._closed += 1
        if frame.anchor:
            node.anchor = frame.anchor
            self._anchors[frame.anchor] = _Anchored(node, self._seen() - frame.nodes_before + 1, reach - depth)
        frame.items.append(node)
        return frame.items, frame.keyed, node.end

    def _seen(self) -> int:
        """Nodes so far, aliases expanded."""
        return self._number - self._closed + self._extra

    def _first_of_each(self, entries: list[tuple[Scalar, Node]]) -> list[tuple[Scalar, Node]]:
        """The entries without those whose key stood before; each of these is a finding."""
        first: dict[Plain, Scalar] = {}
        kept = []
        for key, value in entries:
            earlier = first.setdefault(key.value, key)
            if earlier is key:
                kept.append((key, value))
            else:
                self.findings.append(duplicate_key(key, earlier))
        return kept

    # anchors, aliases, merge keys

    def _alias(self, event: Any, position: _Position) -> _Position:
        items, keyed, _ = position
        span = Span(event.start_mark.index, event.end_mark.index)
        anchored = self._anchored(event.anchor, span)
        if keyed and not len(items) & 1:
            raise Refused(
                Diagnostic(
                    "PLAN013", f"an alias, `*{event.anchor}`, stands for a key", span, help="write the key itself"
                )
            )
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise too_large(f"the plan has more than {MAX_ALIASES:,} aliases", *span)
        self._extra += anchored.nodes - 1
        if self._extra > MAX_EXPANDED:
            raise too_large(f"the aliases stand for more than {MAX_EXPANDED:,} nodes", *span)
        reach = len(self._stack) + anchored.height
        if reach > MAX_DEPTH:
            raise too_deep(span.start)
        self._reach[-1] = max(self._reach[-1], reach)
        items.append(anchored.node)
        return items, keyed, span.end

    def _anchored(self, name: str, span: Span) -> _Anchored:
        if name not in self._anchors:
            near = nearest(name, self._anchors)
            help = f"did you mean `*{near}`?" if near else "an anchor, such as `&name`, stands before its aliases"
            raise Refused(Diagnostic("PLAN001", f"no anchor `&{name}` stands before this alias", span, help=help))
        anchored = self._anchors[name]
        if anchored is None:
            raise Refused(
                Diagnostic("PLAN013", f"`*{name}` stands inside what `&{name}` names: it would contain itself", span)
            )
        return anchored

    def _merge(self, node: Mapping) -> None:
        """Put the entries of what ``<<`` names in its place, without those the mapping has itself."""
        taken = {key.value for key, _ in node.entries}
        entries: list[tuple[Scalar, Node]] = []
        for key, value in node.entries:
            if key.value != "<<" or key.style:
                entries.append((key, value))
                continue
            node.merged = self._merged(value)
            for mapping in node.merged:
                fresh = [entry for entry in mapping.entries if entry[0].value not in taken]
                taken.update(name.value for name, _ in fresh)
                entries.extend(fresh)
        node.entries = entries

    def _merged(self, value: Node) -> tuple[Mapping, ...]:
        parts = value.items if isinstance(value, Sequence) else [value]
        found = tuple(part for part in parts if isinstance(part, Mapping))
        if len(found) != len(parts):
            message = "the merge key `<<` takes a mapping or a list of mappings"
            self.findings.append(Diagnostic("PLAN013", message, value.span, help="name one with an alias: `<<: *name`"))
        return found

    # scalars

    def _typed(self, text: str, start: int, end: int) -> Plain:
        """The value of an unquoted scalar whose first character leaves open what it is."""
        value = self._resolved(text, start, end)
        mistaken = trap(text)
        if mistaken:
            self.findings.append(old_yaml(text, value, mistaken, Span(start, end)))
        else:
            self._words[text] = value
        return value

    def _check_key(self, text: str, start: int, end: int) -> None:
        if not text:
            raise Refused(Diagnostic("PLAN001", "a key is missing before `:`", Span(start, start + 1)))
        self.findings.append(old_yaml(text, text, "a boolean", Span(start, end)))

    def _resolved(self, text: str, start: int, end: int) -> Plain:
        try:
            return resolve(text)
        except Unusable as problem:
            raise Refused(
                Diagnostic("PLAN013", str(problem), Span(start, end), help="quote it if text is meant")
            ) from None

    def _special(self, event: Any, is_key: bool) -> Scalar:
        """A scalar with an anchor or a tag, or one that is too long."""
        anchor, tag, _, text, start_mark, end_mark, style = event
        begin, end = start_mark.index, end_mark.index
        check_scalar(len(text), begin, end)
        start = self._after_properties(begin, end)
        raw = self._text[start:end].rstrip(" \t\r\n") if style in ("|", ">") else self._text[start:end]
        end = start + len(raw)
        kind = self._check_tag(tag, begin, _CORE_SCALARS)
        value: Plain = text
        if is_key:
            if not style and text in SUSPICIOUS_KEYS:
                self._check_key(text, start, end)
        elif kind and kind != "str":
            value = self._tagged(kind, text, Span(start, end))
        elif not kind and not style:
            value = self._typed(text, start, end)
        node = Scalar(value, start, end, raw, style or "")
        if anchor:
            node.anchor = anchor
            self._anchors[anchor] = _Anchored(node, 1, 0)
        return node

    def _after_properties(self, start: int, end: int) -> int:
        """The start of a node itself, behind its anchor and tag (libyaml starts it with those)."""
        found = _PROPERTIES.match(self._text, start)
        return min(found.end(), end) if found else start

    def _check_tag(self, found: Any, begin: int, allowed: tuple[str, ...]) -> str:
        """The core type that a tag names, ``str`` for a lone ``!``, empty without a tag."""
        if found is None:
            return ""
        tag = str(found)
        if tag == "!":
            return "str"
        name = tag[len(_CORE) :] if tag.startswith(_CORE) else ""
        if name in allowed:
            return name
        shown = f"!!{name}" if name else tag
        start = self._text.find("!", begin)
        help = "plans use plain YAML: only !!str, !!int, !!float, !!bool, !!null, !!seq and !!map are read"
        raise Refused(
            Diagnostic("PLAN013", f"the tag `{shown}` is not supported", Span(start, start + len(shown)), help=help)
        )

    def _tagged(self, kind: str, text: str, span: Span) -> Plain:
        value = self._resolved(text, *span)
        if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        expected = {"int": int, "float": float, "bool": bool, "null": type(None)}[kind]
        if type(value) is not expected:
            raise Refused(Diagnostic("PLAN013", f"`{text[:40]}` is not what its tag `!!{kind}` says", span))
        return value
