"""A tree as YAML in the canonical style, with its comments, anchors, aliases and merge keys."""

from __future__ import annotations

import re

from planrunner.syntax.comments import Comments, Keeper, is_implied
from planrunner.syntax.scalars import block_header, block_lines, double_quoted, is_plain_text, quoted, word
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

WIDTH = 100
"""Longest line on which a collection in brackets stays."""
TASK_LISTS = frozenset(("tasks", "nodes", "steps", "finally", "subplan"))
"""Lists whose items a blank line parts."""

_MAX_KEY = 1000
_INDICATORS = frozenset("-?:,[]{}#&*!|>'\"%@`")
_MEANS_MORE = re.compile(r":(?:\s|$)|\s#")
_FLOW_INDICATORS = re.compile(r"[,\[\]{}:?]")
_NAME = re.compile(r"[A-Za-z0-9_-]+")


def write_yaml(tree: Node, comments: Comments | None = None) -> str:
    """YAML that reads as equal data. Comments whose place is gone stand at the end."""
    writer = _Writer(tree, Keeper(comments))
    return "\n".join(writer.document()) + "\n"


def key_text(key: str) -> str:
    """A key without quotes where every reader takes it for the same string; ``on`` is a key of the plan language."""
    return key if key == "on" or _may_be_plain(key, True) else double_quoted(key)


def _may_be_plain(text: str, in_flow: bool) -> bool:
    if not is_plain_text(text) or _MEANS_MORE.search(text) or text[:3] in ("---", "..."):
        return False
    if text[0] in _INDICATORS and not (text[0] in "-?:" and len(text) > 1 and text[1] not in " -?:,[]{}"):
        return False
    return not in_flow or not (_FLOW_INDICATORS.search(text))


def scalar_text(node: Scalar, in_flow: bool = False) -> str:
    """A scalar on one line."""
    plain = word(node)
    if plain is not None:
        return plain
    text = str(node.value)
    return text if _may_be_plain(text, in_flow) else quoted(text)


class _Writer:
    def __init__(self, tree: Node, keeper: Keeper) -> None:
        self._tree = tree
        self._keeper = keeper
        self._lines: list[str] = []
        self._anchors = _anchors(tree)
        self._written: set[int] = set()

    def document(self) -> list[str]:
        tree, keeper = self._tree, self._keeper
        self._lines = keeper.top()
        if isinstance(tree, Scalar):
            self._lines.append(scalar_text(tree))
        elif not _children(tree):
            self._lines.append("[]" if isinstance(tree, Sequence) else "{}")
            self._lines.extend(keeper.closing(tree))
        else:
            self._define(tree)
            self._block(tree, "", "")
        self._lines.extend(keeper.left_over())
        return self._lines

    def _block(self, node: Mapping | Sequence, indent: str, name: str) -> None:
        """The children of a collection, a line or more each; ``name`` is the key it stands behind."""
        if isinstance(node, Mapping):
            self._entries(node, indent)
        else:
            self._items(node, indent, name in TASK_LISTS)
        self._lines.extend(indent + comment for comment in self._keeper.closing(node))

    def _entries(self, node: Mapping, indent: str) -> None:
        merged = self._merged(node)
        brought = {id(key) for mapping in merged for key, _ in mapping.entries}
        pending = bool(merged)
        for key, value in node.entries:
            if pending and (id(key) in brought or brought.isdisjoint(id(each) for each, _ in node.entries)):
                self._lines.append(f"{indent}<<: {self._merge_text(merged)}")
                pending = False
            if id(key) not in brought:
                self._entry(key, value, indent)
        if pending:
            self._lines.append(f"{indent}<<: {self._merge_text(merged)}")

    def _entry(self, key: Scalar, value: Node, indent: str) -> None:
        if not is_implied(key):
            self._lines.extend(indent + comment for comment in self._keeper.leading(key.start))
        name = key_text(str(key.value))
        if key.anchor and id(key) in self._anchors:
            name = f"{self._define(key)}{name}"
        behind = "" if is_implied(key) else self._keeper.trailing(key.start)
        if len(name) > _MAX_KEY:
            self._lines.append(f"{indent}? {name}")
            name = ""
        self._value(f"{indent}{name}:", value, indent, behind, str(key.value))

    def _items(self, node: Sequence, indent: str, apart: bool) -> None:
        for index, item in enumerate(node.items):
            if apart and index and isinstance(item, Mapping) and not self._fits(item, len(indent) + 2):
                self._lines.append("")
            self._lines.extend(indent + comment for comment in self._keeper.leading(item.start))
            begin, is_block = len(self._lines), isinstance(item, Mapping) and not item.flow
            self._value(f"{indent}-", item, indent, "" if is_block else self._keeper.trailing(item.start), "")
            # what stood behind `task x` has no key of its own; a first key at the same place has taken its comment
            self._lines[begin] += self._keeper.trailing(item.start)

    def _value(self, before: str, node: Node, indent: str, behind: str, name: str) -> None:
        """A value behind its key or dash (``before``), with the comment ``behind`` on the first line."""
        if id(node) in self._written:
            self._lines.append(f"{before} *{self._anchors[id(node)]}{behind}")
            return
        line = self._one_line(node, len(before) + 1)
        if line is not None:
            self._lines.append(f"{before} {line}{behind}")
            self._lines.extend(indent + comment for comment in self._keeper.closing(node))
            return
        anchor = self._define(node).rstrip()
        before = f"{before} {anchor}" if anchor else before
        deeper = indent + "  "
        if isinstance(node, Scalar):
            text = str(node.value)
            self._lines.append(f"{before} {block_header(text)}{behind}")
            self._lines.extend(block_lines(text, deeper))
            return
        start = len(self._lines)
        if before.endswith("-") and not anchor and not behind and self._may_share_line(node):
            self._block(node, deeper, name)
            self._lines[start] = f"{before} {self._lines[start][len(deeper) :]}"
            return
        self._lines.append(before + behind)
        self._block(node, deeper, name)

    def _may_share_line(self, node: Mapping | Sequence) -> bool:
        """Whether the first child of an item may stand behind its dash: not where a comment must come before it."""
        first: Node = node.entries[0][0] if isinstance(node, Mapping) else node.items[0]
        return not self._keeper.is_led(first.start)

    # one line

    def _fits(self, node: Node, column: int) -> bool:
        written = set(self._written)
        fits = self._one_line(node, column) is not None
        self._written = written
        return fits

    def _one_line(self, node: Node, column: int) -> str | None:
        """The node on one line, or None where it takes more; nothing is marked as written but where a line is given."""
        if isinstance(node, Scalar):
            if isinstance(node.value, str) and block_header(node.value) is not None:
                return None
            return self._define(node) + scalar_text(node)
        if not _children(node):
            return self._define(node) + ("[]" if isinstance(node, Sequence) else "{}")
        if not node.flow or self._keeper.inside(node):
            return None
        written = set(self._written)
        text = self._flow(node)
        if column + len(text) <= WIDTH:
            return text
        self._written = written
        return None

    def _flow(self, node: Node) -> str:
        if id(node) in self._written:
            return f"*{self._anchors[id(node)]}"
        anchor = self._define(node)
        if isinstance(node, Scalar):
            return anchor + scalar_text(node, True)
        if isinstance(node, Sequence):
            return f"{anchor}[{', '.join(self._flow(item) for item in node.items)}]"
        merged = self._merged(node)
        brought = {id(key) for mapping in merged for key, _ in mapping.entries}
        parts = [f"<<: {self._merge_text(merged)}"] if merged else []
        parts.extend(
            f"{key_text(str(key.value))}: {self._flow(value)}" for key, value in node.entries if id(key) not in brought
        )
        return f"{anchor}{{{', '.join(parts)}}}"

    # anchors

    def _define(self, node: Node) -> str:
        """The anchor in front of a node that aliases will name; the node counts as written from here on."""
        name = self._anchors.get(id(node))
        if name is None:
            return ""
        self._written.add(id(node))
        return f"&{name} "

    def _merged(self, node: Mapping) -> tuple[Mapping, ...]:
        """The mappings that ``<<`` can bring: written before, and with nothing in them that the mapping lacks."""
        names = {key.value for key, _ in node.entries}
        for mapping in node.merged:
            if id(mapping) not in self._written or any(key.value not in names for key, _ in mapping.entries):
                return ()
        return node.merged

    def _merge_text(self, merged: tuple[Mapping, ...]) -> str:
        names = [f"*{self._anchors[id(mapping)]}" for mapping in merged]
        return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def _children(node: Mapping | Sequence) -> list[object]:
    return list(node.entries if isinstance(node, Mapping) else node.items)


def _anchors(tree: Node) -> dict[int, str]:
    """The names of the nodes that stand in the tree more than once and had an anchor, by identity."""
    uses: dict[int, int] = {}
    shared: list[Node] = []
    stack: list[Node] = [tree]
    while stack:
        node = stack.pop()
        uses[id(node)] = uses.get(id(node), 0) + 1
        if uses[id(node)] > 1:
            if uses[id(node)] == 2 and node.anchor:
                shared.append(node)
            continue
        if isinstance(node, Sequence):
            stack.extend(node.items)
        elif isinstance(node, Mapping):
            stack.extend(value for _, value in node.entries)
            stack.extend(node.merged)
    return _distinct(shared)


def _distinct(shared: list[Node]) -> dict[int, str]:
    names: dict[int, str] = {}
    taken: set[str] = set()
    for node in sorted(shared, key=lambda each: each.start):
        stem = name = node.anchor if _NAME.fullmatch(node.anchor) else "shared"
        number = 1
        while name in taken:
            number += 1
            name = f"{stem}-{number}"
        taken.add(name)
        names[id(node)] = name
    return names
