"""The comments of a plan, tied to the keys and items they stand at, so that a writer of either notation can keep them.

A comment belongs to the place (the offset of a key or of an item of a list) it stands before or behind. A rewritten
tree keeps its comments as long as its nodes keep their spans, whatever else changes: keys may be renamed and reordered.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from planrunner.records import Struct
from planrunner.source import Source
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

_COMMENT = re.compile(r"(?:^|(?<=[\s,\[\]{}]))#[^\n]*", re.MULTILINE)
_MODELINE = re.compile(r"#\s*yaml-language-server:")
_BLANKS = r"(?:[ \t]*\r?\n)*"
_HEADER = re.compile(
    rf"\ufeff?{_BLANKS}(?:[ \t]*{_MODELINE.pattern}[^\n]*\n{_BLANKS})?((?:[ \t]*#[^\n]*\n)+)[ \t]*\r?\n"
)


class Comments(Struct):
    """Comments with their ``#``, as written.

    ``modeline`` names the schema for editors and stays the first line; ``header`` is the block at the top that a blank
    line parts from the plan. ``leading`` (whole lines before) and ``trailing`` (behind, on the same line) go by the
    offset of a key or item, ``closing`` (after the last child) by the start of a collection and whether it is a list.
    """

    modeline: str
    header: tuple[str, ...]
    leading: dict[int, tuple[str, ...]]
    trailing: dict[int, str]
    closing: dict[tuple[int, bool], tuple[str, ...]]


class _Place(Struct):
    """A key or an item; ``path`` are the collections around it, outermost first; ``flow`` if one has brackets."""

    start: int
    path: tuple[Mapping | Sequence, ...]
    flow: bool


NO_COMMENTS = Comments("", (), {}, {}, {})


def is_implied(key: Scalar) -> bool:
    """Whether the text did not spell the key out (``task x`` says ``id`` and ``tasks`` without the words)."""
    return key.start == key.end and not key.raw and not key.style


def read_comments(source: Source, tree: Node) -> Comments:
    """The comments of ``source``, whose tree is ``tree``. JSON has none."""
    if source.notation == "json" or "#" not in source.text:
        return NO_COMMENTS
    places, scalars = _places(tree)
    comments = _Found(source.text, tree, places)
    for start, end in _spans(source.text, scalars):
        comments.add(start, source.text[start:end].rstrip())
    leading = {at: tuple(lines) for at, lines in comments.leading.items()}
    closing = {at: tuple(lines) for at, lines in comments.closing.items()}
    return Comments(comments.modeline, tuple(comments.header), leading, comments.trailing, closing)


def _places(tree: Node) -> tuple[list[_Place], list[Scalar]]:
    """All places and all scalars, each in the order of the text; shared nodes once."""
    places: list[_Place] = []
    scalars: list[Scalar] = []
    seen: set[int] = set()
    stack: list[tuple[Node, tuple[Mapping | Sequence, ...], bool]] = [(tree, (), False)]
    while stack:
        node, path, flow = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Scalar):
            scalars.append(node)
            continue
        path, flow = (*path, node), flow or node.flow
        if isinstance(node, Sequence):
            places.extend(_Place(item.start, path, flow) for item in node.items if id(item) not in seen)
            stack.extend((item, path, flow) for item in node.items)
            continue
        for key, value in node.entries:
            if id(key) not in seen:
                seen.add(id(key))
                scalars.append(key)
                if not is_implied(key):
                    places.append(_Place(key.start, path, flow))
                stack.append((value, path, flow))
    places.sort(key=lambda place: (place.start, len(place.path)))
    scalars.sort(key=lambda scalar: scalar.start)
    return places, scalars


def _spans(text: str, scalars: list[Scalar]) -> Iterator[tuple[int, int]]:
    """The spans of the comments: what looks like one outside of the scalars and in the first line of a block text."""
    at = 0
    for scalar in scalars:
        if scalar.start > at and text.find("#", at, scalar.start) >= 0:
            yield from _between(text, at, scalar.start)
        if scalar.style and scalar.style in "|>":
            head = scalar.raw.partition("\n")[0]
            mark = head.find("#")
            if mark > 0:
                yield scalar.start + mark, scalar.start + len(head)
        at = max(at, scalar.end)
    yield from _between(text, at, len(text))


def _between(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while comment := _COMMENT.search(text, start, end):
        start = comment.end()
        yield comment.span()


class _Found:
    """Sorts comments, given in the order of the text, to their places."""

    def __init__(self, text: str, tree: Node, places: list[_Place]) -> None:
        self.modeline = ""
        self.header: list[str] = []
        self.leading: dict[int, list[str]] = {}
        self.trailing: dict[int, str] = {}
        self.closing: dict[tuple[int, bool], list[str]] = {}
        self._text = text
        self._tree = tree
        self._places = places
        self._starts = [place.start for place in places]
        block = _HEADER.match(text)
        self._header_end = block.end(1) if block else 0
        """Where the block of comments at the top ends that a blank line parts from what follows; 0 without one."""

    def add(self, start: int, comment: str) -> None:
        line = self._text.rfind("\n", 0, start) + 1
        if _MODELINE.match(comment) and not self.modeline:
            self.modeline = comment
        elif self._text[line:start].strip("\ufeff \t"):
            self._add_trailing(line, start, comment)
        elif start < self._header_end:
            self.header.append(comment)
        else:
            self._add_line(start, start - line, comment)

    def _add_trailing(self, line: int, start: int, comment: str) -> None:
        before = bisect_left(self._starts, start)
        on_line = self._places[bisect_left(self._starts, line) : before]
        block = [place for place in on_line if not place.flow]
        if not on_line:
            block = [place for place in self._places[:before] if not place.flow][-1:]
        chosen = block or on_line
        if not chosen:
            self._add_line(start, start - line, comment)
        elif chosen[-1].start in self.trailing:
            self.leading.setdefault(chosen[-1].start, []).append(comment)
        else:
            self.trailing[chosen[-1].start] = comment

    def _add_line(self, start: int, column: int, comment: str) -> None:
        index = bisect_right(self._starts, start)
        following = self._places[index] if index < len(self._places) else None
        if following is None or column > self._column(following.start):
            around = following.path if following else ()
            ended = [node for node in (self._places[index - 1].path if index else ()) if node not in around]
            fitting = [
                node for node in ended if not node.flow and self._column(node.start) + _is_headed(node) <= column
            ]
            owner = fitting[-1] if fitting else None if following else self._tree
            if owner is not None:
                self.closing.setdefault((owner.start, isinstance(owner, Sequence)), []).append(comment)
                return
        assert following is not None
        self.leading.setdefault(following.start, []).append(comment)

    def _column(self, start: int) -> int:
        return start - self._text.rfind("\n", 0, start) - 1


def _is_headed(node: Mapping | Sequence) -> bool:
    """Whether a mapping begins with a line of its own (``task x``), below which its keys are indented."""
    return isinstance(node, Mapping) and not (node.entries and node.entries[0][0].start == node.start)


class Keeper:
    """Hands the comments to a writer, each once."""

    def __init__(self, comments: Comments | None) -> None:
        self._comments = comments or NO_COMMENTS
        self._taken: set[object] = set()
        self._places = sorted({*self._comments.leading, *self._comments.trailing})

    def top(self) -> list[str]:
        """The modeline and the header, with the blank line behind it."""
        lines = [self._comments.modeline] if self._comments.modeline else []
        return [*lines, *self._comments.header, ""] if self._comments.header else lines

    def leading(self, start: int) -> tuple[str, ...]:
        lines = self._comments.leading.get(start, ())
        return lines if lines and self._take(("leading", start)) else ()

    def is_led(self, start: int) -> bool:
        """Whether lines of comment wait to be written before a place."""
        return start in self._comments.leading and ("leading", start) not in self._taken

    def trailing(self, start: int) -> str:
        """The comment behind a place, with two spaces before it, or an empty string."""
        comment = self._comments.trailing.get(start, "")
        return f"  {comment}" if comment and self._take(("trailing", start)) else ""

    def closing(self, node: Node) -> tuple[str, ...]:
        key = (node.start, isinstance(node, Sequence))
        lines = self._comments.closing.get(key, ())
        return lines if lines and not isinstance(node, Scalar) and self._take(("closing", *key)) else ()

    def inside(self, node: Node) -> bool:
        """Whether comments stand inside the brackets of a collection, so that one line cannot hold it."""
        at = bisect_left(self._places, node.start)
        return any(start < node.end and not self._is_own(start) for start in self._places[at : at + 1])

    def _is_own(self, start: int) -> bool:
        """Whether a comment at the start of a collection was that of its key or dash and is written already."""
        if start in self._comments.leading:
            return ("leading", start) in self._taken
        return ("trailing", start) in self._taken

    def left_over(self) -> list[str]:
        """The comments whose places the tree does not have any more."""
        rest = [line for at in self._comments.leading for line in self.leading(at)]
        rest += [self.trailing(at).strip() for at in self._comments.trailing]
        for (start, is_list), lines in self._comments.closing.items():
            rest += lines if self._take(("closing", start, is_list)) else ()
        return [line for line in rest if line]

    def _take(self, key: object) -> bool:
        if key in self._taken:
            return False
        self._taken.add(key)
        return True
