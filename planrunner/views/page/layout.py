"""Where the nodes of a drawing stand: columns from left to right, few crossings, straight long edges.

A level is laid out in the classic four steps: a column for each node (longest path), dummy nodes on edges that pass
columns, an order in each column by the mean place of neighbours, then heights near those of the neighbours. What a node
holds is laid out first and decides its size. Lengths are pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from planrunner.records import Struct

GAP_X, GAP_Y = 32, 22
"""Between columns, and between nodes of one column."""
PAD, TITLE = 11, 22
"""Inside the border of a group, and what its title takes above."""
SWEEPS = 6
"""How often the order is improved, forth and back."""
LARGE = 400
"""Nodes of a level from which fewer sweeps are made."""


class Node(Struct):
    """What is to be drawn. ``rank`` is its column; ``inside`` what is drawn within its border."""

    key: str
    rank: int
    width: float
    height: float
    inside: Level | None = None


class Link(Struct):
    """An edge between two nodes of a level, by their places in it; ``back`` leads to an earlier one."""

    source: int
    target: int
    kind: str = ""
    back: bool = False


class Level(NamedTuple):
    """Nodes that see each other."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]


class Box(Struct):
    """A node in its place. A group is the border around what it holds."""

    key: str
    x: float
    y: float
    width: float
    height: float
    group: bool


class Line(Struct):
    """An edge as the data of an SVG path, with the keys of its ends."""

    source: str
    target: str
    kind: str
    path: str
    back: bool = False
    label_x: float = 0.0
    label_y: float = 0.0


class Layout(Struct):
    """A level in its place: groups come before what they hold."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def laid_out(level: Level) -> Layout:
    """The layout of a level and of all that its nodes hold."""
    if not level.nodes:
        return Layout(0, 0, (), ())
    inner = {at: _inside(node.inside) for at, node in enumerate(level.nodes) if node.inside is not None}
    sizes = [_size(node, inner.get(at)) for at, node in enumerate(level.nodes)]
    columns = _Columns(level, sizes)
    columns.improve()
    return _placed(level, columns, inner)


def laid_upright(level: Level) -> Layout:
    """The layout of a level whose nodes hold nothing, from the top to the bottom."""
    turned = tuple(node._replace(width=node.height, height=node.width) for node in level.nodes)
    layout = laid_out(Level(turned, level.links))
    boxes = tuple(Box(box.key, box.y, box.x, box.height, box.width, False) for box in layout.boxes)
    lines = tuple(
        line._replace(path=_turned(line.path), label_x=line.label_y, label_y=line.label_x) for line in layout.lines
    )
    return Layout(layout.height, layout.width, boxes, lines)


def _turned(path: str) -> str:
    """A path with its axes exchanged."""
    words = path.split(" ")
    at = 0
    while at < len(words):
        if words[at] in "MCL":
            at += 1
            continue
        words[at], words[at + 1] = words[at + 1], words[at]
        at += 2
    return " ".join(words)


def _inside(level: Level) -> Layout:
    """What stands in a group: a short chain one below the other, all else like any level."""
    chain = _chain(level)
    return _stacked(level, chain) if chain else laid_out(level)


def _size(node: Node, inner: Layout | None) -> tuple[float, float]:
    if inner is None:
        return node.width, node.height
    return max(inner.width + 2 * PAD, node.width + PAD), inner.height + 2 * PAD + TITLE


class _Columns:
    """The columns of a level. Slots below ``count`` are nodes, those above stand on edges that pass a column."""

    def __init__(self, level: Level, sizes: Sequence[tuple[float, float]]) -> None:
        self.count = len(level.nodes)
        first = min(node.rank for node in level.nodes)
        self.ranks = [node.rank - first for node in level.nodes]
        self.heights = [size[1] for size in sizes]
        self.widths = [size[0] for size in sizes]
        self.before: list[list[int]] = [[] for _ in level.nodes]
        self.after: list[list[int]] = [[] for _ in level.nodes]
        self.ways: dict[int, list[int]] = {}
        for at, link in enumerate(level.links):
            if not link.back and self.ranks[link.target] > self.ranks[link.source]:
                self.ways[at] = self._connect(link)
        self.order: list[list[int]] = [[] for _ in range(max(self.ranks) + 1)]
        for slot, rank in enumerate(self.ranks):
            self.order[rank].append(slot)
        self.y = [0.0] * len(self.ranks)

    def _connect(self, link: Link) -> list[int]:
        way, here = [link.source], link.source
        for rank in range(self.ranks[link.source] + 1, self.ranks[link.target]):
            slot = len(self.ranks)
            self.ranks.append(rank)
            self.heights.append(2.0)
            self.widths.append(0.0)
            self.before.append([here])
            self.after.append([])
            self.after[here].append(slot)
            way.append(slot)
            here = slot
        self.after[here].append(link.target)
        self.before[link.target].append(here)
        return [*way, link.target]

    def improve(self) -> None:
        """Choose the order in the columns, then the heights."""
        sweeps = SWEEPS if len(self.ranks) < LARGE else 2
        for _ in range(sweeps):
            self._sort(range(1, len(self.order)), self.before)
            self._sort(range(len(self.order) - 2, -1, -1), self.after)
        self._sort(range(1, len(self.order)), self.before)
        for column in self.order:
            self._stack(column)
        for turn in range(sweeps + 2):
            forth = turn % 2 == 0
            ranks = range(1, len(self.order)) if forth else range(len(self.order) - 2, -1, -1)
            for rank in ranks:
                self._pull(self.order[rank], self.before if forth else self.after)
        least = min(self.y[slot] - self.heights[slot] / 2 for slot in range(len(self.y)))
        self.y = [y - least for y in self.y]

    def _sort(self, ranks: Iterable[int], neighbours: list[list[int]]) -> None:
        for rank in ranks:
            column = self.order[rank]
            if len(column) < 2:
                continue
            reference = range(len(self.order))
            places: dict[int, float] = {}
            for near in (rank - 1, rank + 1):
                if near in reference:
                    places.update({slot: float(at) for at, slot in enumerate(self.order[near])})
            own = {slot: float(at) for at, slot in enumerate(column)}
            means = {
                slot: sum(places[other] for other in neighbours[slot]) / len(neighbours[slot])
                if neighbours[slot]
                else own[slot]
                for slot in column
            }
            column.sort(key=lambda slot: (means[slot], own[slot]))

    def _stack(self, column: list[int]) -> None:
        y = 0.0
        for slot in column:
            self.y[slot] = y + self.heights[slot] / 2
            y += self.heights[slot] + GAP_Y

    def _pull(self, column: list[int], neighbours: list[list[int]]) -> None:
        """Move the slots of a column towards their neighbours, as far as those beside them leave room."""
        wanted = [
            sum(self.y[other] for other in neighbours[slot]) / len(neighbours[slot])
            if neighbours[slot]
            else self.y[slot]
            for slot in column
        ]
        for slot, y in zip(column, _apart(wanted, [self.heights[slot] for slot in column]), strict=True):
            self.y[slot] = y


def _apart(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Places in the given order that keep the gaps and are as near to the wanted ones as it goes: neighbours that would
    overlap form a block, which stands at the mean of what its members want."""
    blocks: list[tuple[float, int]] = []  # the sum of what the members want for the first of them, and how many
    offsets, reached = [], 0.0
    for height in heights:
        offsets.append(reached + height / 2)
        reached += height + GAP_Y
    for want, offset in zip(wanted, offsets, strict=True):
        blocks.append((want - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1] = (blocks[-1][0] + total, blocks[-1][1] + count)
    starts = [total / count for total, count in blocks for _ in range(count)]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]


def _placed(level: Level, columns: _Columns, inner: dict[int, Layout]) -> Layout:
    lefts, x = [], 0.0
    for column in columns.order:
        lefts.append(x)
        x += max(columns.widths[slot] for slot in column) + GAP_X
    boxes: list[Box] = []
    lines: list[Line] = []
    for at, node in enumerate(level.nodes):
        left, top = lefts[columns.ranks[at]], columns.y[at] - columns.heights[at] / 2
        boxes.append(Box(node.key, left, top, columns.widths[at], columns.heights[at], at in inner))
        if at in inner:
            moved = _moved(inner[at], left + PAD, top + TITLE + PAD)
            boxes += moved.boxes
            lines += moved.lines
    of = {box.key: box for box in boxes}
    height = max(box.y + box.height for box in boxes)
    height = max(height, *(columns.y[slot] + 1 for slot in range(len(columns.y))))
    for at, link in enumerate(level.links):
        source, target = of[level.nodes[link.source].key], of[level.nodes[link.target].key]
        if link.back:
            height += 24
            passed = _passed(columns, link, link.source), _passed(columns, link, link.target)
            lines.append(_back(source, target, link.kind, height, passed))
        elif at in columns.ways:
            path = _path(source, target, columns.ways[at], columns, lefts)
            lines.append(Line(source.key, target.key, link.kind, path))
    height += 18 if any(link.back for link in level.links) else 0
    return Layout(x - GAP_X, height, tuple(boxes), tuple(lines))


def _moved(layout: Layout, dx: float, dy: float) -> Layout:
    boxes = tuple(box._replace(x=box.x + dx, y=box.y + dy) for box in layout.boxes)
    lines = tuple(
        line._replace(path=_shifted(line.path, dx, dy), label_x=line.label_x + dx, label_y=line.label_y + dy)
        for line in layout.lines
    )
    return Layout(layout.width, layout.height, boxes, lines)


def _shifted(path: str, dx: float, dy: float) -> str:
    """A path moved; its steps are ``M x y``, ``C x y x y x y`` and ``L x y``, so that numbers alternate."""
    words, axis = [], 0
    for word in path.split(" "):
        if word in "MCL":
            words.append(word)
            continue
        words.append(_number(float(word) + (dy if axis else dx)))
        axis = 1 - axis
    return " ".join(words)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _joined(*parts: str | float) -> str:
    return " ".join(part if isinstance(part, str) else _number(part) for part in parts)


def _path(source: Box, target: Box, way: list[int], columns: _Columns, lefts: list[float]) -> str:
    x, y = source.x + source.width, source.y + source.height / 2
    parts: list[str | float] = ["M", x, y]
    for slot in way[1:-1]:
        rank = columns.ranks[slot]
        there, level = lefts[rank], columns.y[slot]
        half = (there - x) / 2
        parts += ["C", x + half, y, there - half, level, there, level]
        x, y = lefts[rank + 1] - GAP_X, level
        parts += ["L", x, y]
    half = (target.x - x) / 2
    end = target.y + target.height / 2
    return _joined(*parts, "C", x + half, y, target.x - half, end, target.x, end)


def _passed(columns: _Columns, link: Link, at: int) -> float:
    """How wide the column of one end of a link is, where nodes stand between it and the foot of the level; else 0."""
    column = columns.order[columns.ranks[at]]
    below = [slot for slot in column if slot < columns.count and columns.y[slot] > columns.y[at]]
    return max(columns.widths[slot] for slot in column) if below and link.source != link.target else 0.0


def _back(source: Box, target: Box, kind: str, bottom: float, passed: tuple[float, float]) -> Line:
    """An edge that leads back runs below all else, from the one foot to the other. Where nodes stand below one of them,
    it passes those on the right: ``passed`` from where the columns of source and target begin."""
    start, end = source.x + source.width / 2, target.x + target.width / 2
    if source.key == target.key:
        start, end = source.x + source.width * 0.7, source.x + source.width * 0.3
    departure: tuple[str | float, ...] = ("M", start, source.y + source.height)
    if passed[0]:
        start, foot = source.x + passed[0] + 16, source.y + source.height * 0.75
        departure = (
            "M",
            source.x + source.width,
            foot,
            "L",
            start - 6,
            foot,
            "C",
            start,
            foot,
            start,
            foot,
            start,
            foot + 6,
        )
    arrival: tuple[str | float, ...] = ("L", end, target.y + target.height + 4)
    if passed[1]:
        end, foot = target.x + passed[1] + 16, target.y + target.height * 0.75
        arrival = ("L", end, foot + 6, "C", end, foot, end, foot, end - 6, foot, "L", target.x + target.width + 4, foot)
    turn = min(10.0, abs(start - end) / 2)
    path = _joined(
        *(*departure, "L", start, bottom - turn),
        *("C", start, bottom, start, bottom, start - turn, bottom, "L", end + turn, bottom),
        *("C", end, bottom, end, bottom, end, bottom - turn, *arrival),
    )
    return Line(source.key, target.key, kind, path, True, (start + end) / 2, bottom + 12)


def _chain(level: Level) -> list[int]:
    """The nodes in their order if a level is a short chain without groups; else none."""
    if not 1 < len(level.nodes) <= 6 or any(node.inside for node in level.nodes) or any(x.back for x in level.links):
        return []
    order = sorted(range(len(level.nodes)), key=lambda at: level.nodes[at].rank)
    steps = {(link.source, link.target) for link in level.links}
    return order if steps == set(pairwise(order)) else []


def _stacked(level: Level, order: list[int]) -> Layout:
    width = max(node.width for node in level.nodes)
    boxes: list[Box] = []
    y = 0.0
    for at in order:
        node = level.nodes[at]
        boxes.append(Box(node.key, 0, y, width, node.height, False))
        y += node.height + GAP_Y - 6
    kinds = {(link.source, link.target): link.kind for link in level.links}
    lines = [
        Line(
            above.key,
            below.key,
            kinds[first, second],
            _joined("M", width / 2, above.y + above.height, "L", width / 2, below.y),
        )
        for above, below, first, second in zip(boxes, boxes[1:], order, order[1:], strict=False)
    ]
    return Layout(width, y - GAP_Y + 6, tuple(boxes), tuple(lines))
