"""YAML text to the node tree: a composer of our own over libyaml's events, with no recursion anywhere.

Aliases put the *same* node object into the tree again, so a shared node keeps the place of its anchor; ``Node.anchor``
holds the name. A merge key ``<<`` disappears from ``Mapping.entries``; the entries it brings stand in its place (the
mapping's own keys win, of several merged mappings the first), and they are the very key and value objects of the merged
mapping, which itself is in ``Mapping.merged``. Keys are always strings, as written: ``1: x`` has the key ``"1"``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from planrunner.diagnostics import Diagnostic
from planrunner.records import Struct
from planrunner.source import Source, Span
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
    duplicate_key,
    empty_plan,
    too_deep,
    too_large,
)
from planrunner.syntax.scalars import NUMERIC, SPECIAL, SUSPICIOUS_KEYS, Unusable, resolve, trap
from planrunner.syntax.tree import Mapping, Node, Parsed, Plain, Scalar, Sequence
from planrunner.syntax.yaml_errors import collection_as_key, explain, nearest, old_yaml

try:
    from _ruamel_yaml import CParser
except ImportError:  # no wheel of the binding for this interpreter
    CParser = None

SCALAR = 7
"""The length of a scalar; every other event is shorter and begins with its kind."""
MAPPING_START, MAPPING_END = "mapping start", "mapping end"
SEQUENCE_START, SEQUENCE_END = "sequence start", "sequence end"
ALIAS, DOCUMENT_START, REST = "alias", "document start", "rest"


class Events(Struct):
    """A stream of parse events: ``next`` gives the next one at every call and None after the last, and raises ``error``
    where the text does not parse. Each is a tuple, which is what is made fastest: a scalar
    ``(anchor, tag, implicit, value, start, end, style)`` with two marks in it, the beginning of a collection
    ``(kind, anchor, tag, start, end, flow)``, its end ``(kind, end)``, an alias ``(kind, anchor, start, end)``, the
    beginning of a document ``(kind, start)``, anything else ``(kind,)``."""

    next: Callable[[], Any]
    error: type[Exception]


def read_events(text: str) -> Events:
    """The events of a text. Raises UnicodeEncodeError for a text with half of a surrogate pair in it."""
    text.encode()
    return read_python_events(text) if CParser is None else _events(iter(CParser(text).get_event, None))


def read_python_events(text: str) -> Events:
    """The same from ruamel's parser in Python, ten times slower."""
    return _events(iter(YAML(typ="safe", pure=True).parse(text)))


def _events(stream: Iterator[Any]) -> Events:
    """The event objects of ruamel as tuples."""

    def translated() -> Any:
        event = next(stream, None)
        return None if event is None else _TUPLES[type(event).__name__](event)

    return Events(translated, YAMLError)


_TUPLES: dict[str, Callable[[Any], Any]] = {
    "ScalarEvent": lambda e: (e.anchor, e.ctag, e.implicit, e.value, e.start_mark, e.end_mark, e.style),
    "MappingStartEvent": lambda e: (MAPPING_START, e.anchor, e.ctag, e.start_mark, e.end_mark, e.flow_style),
    "SequenceStartEvent": lambda e: (SEQUENCE_START, e.anchor, e.ctag, e.start_mark, e.end_mark, e.flow_style),
    "MappingEndEvent": lambda event: (MAPPING_END, event.end_mark),
    "SequenceEndEvent": lambda event: (SEQUENCE_END, event.end_mark),
    "AliasEvent": lambda event: (ALIAS, event.anchor, event.start_mark, event.end_mark),
    "DocumentStartEvent": lambda event: (DOCUMENT_START, event.start_mark),
    "DocumentEndEvent": lambda event: (REST,),
    "StreamStartEvent": lambda event: (REST,),
    "StreamEndEvent": lambda event: (REST,),
}


_CORE = "tag:yaml.org,2002:"
_CORE_SCALARS = ("str", "int", "float", "bool", "null")
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*(?:\s|#[^\n]*\n)*)+")


class ScalarReader:
    """Reads the scalars of one text; ``words`` are the values of the words met so far, but for those with a finding."""

    __slots__ = ("_findings", "_text", "words")

    def __init__(self, text: str, findings: list[Diagnostic]) -> None:
        self._text = text
        self._findings = findings
        self.words: dict[str, Plain] = {}

    def typed(self, text: str, start: int, end: int) -> Plain:
        """The value of an unquoted scalar whose first character leaves open what it is."""
        value = self._resolved(text, start, end)
        mistaken = trap(text)
        if mistaken:
            self._misread(text, value, mistaken, Span(start, end))
        else:
            self.words[text] = value
        return value

    def check_key(self, text: str, start: int, end: int) -> None:
        if not text:
            raise Refused(Diagnostic("PLAN001", "a key is missing before `:`", Span(start, start + 1)))
        self._misread(text, text, "a boolean", Span(start, end))

    def _misread(self, text: str, value: Plain, mistaken: str, span: Span) -> None:
        self._findings.append(old_yaml(text, value, mistaken, span))

    def _resolved(self, text: str, start: int, end: int) -> Plain:
        try:
            return resolve(text)
        except Unusable as problem:
            raise Refused(
                Diagnostic("PLAN013", str(problem), Span(start, end), help="quote it if text is meant")
            ) from None

    def special(self, event: Any, is_key: bool) -> Scalar:
        """A scalar with an anchor or a tag, or one that is too long."""
        anchor, tag, _, text, start_mark, end_mark, style = event
        begin, end = start_mark.index, end_mark.index
        check_scalar(len(text), begin, end)
        start = self.after_properties(begin, end)
        raw = self._text[start:end].rstrip(" \t\r\n") if style in ("|", ">") else self._text[start:end]
        end = start + len(raw)
        kind = self.check_tag(tag, begin, _CORE_SCALARS)
        value: Plain = text
        if is_key:
            if not style and text in SUSPICIOUS_KEYS:
                self.check_key(text, start, end)
        elif kind and kind != "str":
            value = self._tagged(kind, text, Span(start, end))
        elif not kind and not style:
            value = self.typed(text, start, end)
        node = Scalar(value, start, end, raw, style or "")
        node.anchor = anchor or ""
        return node

    def after_properties(self, start: int, end: int) -> int:
        """The start of a node itself, behind its anchor and tag (libyaml starts it with those)."""
        match = _PROPERTIES.match(self._text, start)
        return min(match.end(), end) if match else start

    def check_tag(self, found: Any, begin: int, allowed: tuple[str, ...]) -> str:
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


_Entries = list[tuple[Scalar, Node]]


class Anchored(Struct):
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
    mappings = tuple(part for part in parts if isinstance(part, Mapping))
    if len(mappings) != len(parts):
        message = "the merge key `<<` takes a mapping or a list of mappings"
        findings.append(Diagnostic("PLAN013", message, value.span, help="name one with an alias: `<<: *name`"))
    return mappings


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
        """The root node; raises Refused without one."""
        try:
            stream = read_events(self._text)
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

    def _walk(self, stream: Events) -> Node | None:
        """The loop over all events. Scalars are made in place: a call for each would cost a fifth of the whole time."""
        text, scalars, special, numeric, steps = self._text, self._scalars, SPECIAL, NUMERIC, self._steps()
        words, keys = scalars.words, self._keys
        items: _Items = []
        root, keyed, end, number = items, False, 0, 0
        for number, event in enumerate(islice(iter(stream.next, None), MAX_NODES + 1)):
            if len(event) != SCALAR:
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
            MAPPING_START: self._open,
            SEQUENCE_START: self._open,
            MAPPING_END: self._close_mapping,
            SEQUENCE_END: self._close_sequence,
            ALIAS: self._alias,
            DOCUMENT_START: self._document,
            REST: lambda event, items, keyed, end: (items, keyed, end),
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
        return [], kind is MAPPING_START, end

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
