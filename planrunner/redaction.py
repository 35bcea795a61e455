"""Secrets taken out of bytes on their way to wherever they are shown or kept, at any boundary between two pieces.

Every spelling of a value is looked for. Looking for one after the other would take time for each, and a large regular
expression far more. So a piece of text is read as numbers of eight bytes, one after the other, and those are compared
with a set in one step: whoever writes fifteen bytes writes one of the eight numbers that can stand in them at such a
place. Spellings whose number was met are then looked for themselves. The time does not hang on what the text is, nor,
by much, on how many secrets there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from threading import Lock
from typing import Any, Literal, NamedTuple
from weakref import WeakSet

from planrunner.spellings import SHORTEST as SHORTEST
from planrunner.spellings import lines, spellings

Json = Any

MASK = b"***"
"""Written where the name of a secret would tell its value."""

HALF = 8
"""Bytes of the beginning of a spelling that are masked as well at the end of a text."""

_HEAD = SHORTEST
"""Bytes by whose first ones the beginning of a spelling is known at the end of a piece."""


class Span(NamedTuple):
    """Where a spelling stands: from ``start`` to before ``end``, and what is written instead."""

    start: int
    end: int
    mask: bytes


class _Net(NamedTuple):
    """How spellings are met: by numbers of ``width`` bytes at every ``step``-th byte, which takes ``cost`` nanoseconds
    a byte. ``chance`` is the share of spellings whose numbers are met where they do not stand, in bad cases."""

    step: int
    width: int
    form: Literal["I", "Q"]
    cost: float
    chance: float

    @property
    def shortest(self) -> int:
        """Bytes of the shortest spelling that cannot slip through."""
        return self.step + self.width - 1


_NETS = (_Net(16, 8, "Q", 3.0, 0.0), _Net(8, 8, "Q", 5.0, 0.0), _Net(4, 4, "I", 8.0, 0.1))
_SOUGHT = 0.3
"""Nanoseconds a byte to look for one spelling by itself."""


class _Grid:
    """Spellings in a net, by the numbers that stand in them."""

    __slots__ = ("_net", "_numbers", "_where")

    def __init__(self, net: _Net, some: Iterable[bytes]) -> None:
        self._net = net
        self._where: dict[int, list[bytes]] = {}
        for each in some:
            for number in self._kept(each):
                self._where.setdefault(number, []).append(each)
        self._numbers = frozenset(self._where)

    def _kept(self, spelling: bytes) -> Iterator[int]:
        """The numbers of as many places in a row as lie between two that are looked at, where the rarest are."""
        step, width, form = self._net[:3]
        rare = [_rarity(spelling[at : at + width]) for at in range(len(spelling) - width + 1)]
        first = max(range(len(rare) - step + 1), key=lambda at: sum(rare[at : at + step]))
        for at in range(first, first + step):
            yield memoryview(spelling[at : at + width]).cast(form)[0]

    def met(self, data: bytes) -> Iterator[bytes]:
        """The spellings that may stand in the data."""
        step, width, form = self._net[:3]
        cells = memoryview(data)[: len(data) // width * width].cast(form)
        for number in self._numbers.intersection(cells if step == width else cells[:: step // width]):
            yield from self._where[number]


class _Known:
    """The spellings of all values that are looked for. It never changes: another one takes its place."""

    __slots__ = ("_grids", "_heads", "_longest", "_sought", "_starts", "has_numbers", "masks")

    def __init__(self, masks: dict[bytes, bytes]) -> None:
        self.masks = masks
        self.has_numbers = any(not each.strip(b"0123456789.+-e") for each in masks)
        self._longest = max(map(len, masks), default=0)
        nets, self._sought = _cheapest(masks)
        self._grids = tuple(_Grid(net, some) for net, some in nets)
        self._heads: dict[bytes, list[bytes]] = {}
        for each in masks:
            self._heads.setdefault(each[:_HEAD], []).append(each)
        self._starts = frozenset(each[:size] for each in masks for size in range(1, _HEAD))

    def spans(self, data: bytes) -> list[Span]:
        """Where anything is to be masked, in order; overlapping places are one."""
        found: dict[tuple[int, int], bytes] = {}
        for each in chain(self._sought, {each for grid in self._grids for each in grid.met(data)}):
            start = data.find(each)
            while start >= 0:
                found[start, start + len(each)] = each
                start = data.find(each, start + 1)
        return _merged(Span(*place, self.masks[found[place]]) for place in sorted(found, key=_by_start_then_longest))

    def unfinished(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of a spelling that goes on in the next piece."""
        size = len(data)
        for start in range(max(0, size - self._longest + 1), size - _HEAD + 1):
            for each in self._heads.get(data[start : start + _HEAD], ()):
                if len(each) > size - start and each.startswith(data[start:]):
                    return size - start
        for start in range(max(0, size - _HEAD + 1), size):
            if data[start:] in self._starts:
                return size - start
        return 0


def _by_start_then_longest(place: tuple[int, int]) -> tuple[int, int]:
    return place[0], -place[1]


def _cheapest(spellings: Iterable[bytes]) -> tuple[list[tuple[_Net, list[bytes]]], list[bytes]]:
    """Which nets are worth their cost, each with its spellings, and the spellings to look for by themselves."""
    plans = []
    for chosen in (each for count in range(len(_NETS) + 1) for each in combinations(_NETS, count)):
        caught: dict[_Net, list[bytes]] = {net: [] for net in chosen}
        rest: list[bytes] = []
        for each in spellings:
            next((caught[net] for net in chosen if len(each) >= net.shortest), rest).append(each)
        sought = len(rest) + sum(net.chance * len(some) for net, some in caught.items())
        plans.append((sum(net.cost for net in chosen) + _SOUGHT * sought, [*caught.items()], rest))
    _, nets, rest = min(plans, key=lambda plan: plan[0])
    return nets, rest


def _rarity(part: bytes) -> int:
    """How little a part of a spelling looks like one of the words of a text, or the beginning of a key of some kind."""
    return min(3, sum(not 97 <= byte <= 122 and byte not in b" -_" for byte in part))


def _merged(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for span in spans:
        if found and span.start < found[-1].end:
            found[-1] = found[-1]._replace(end=max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


_ALL: WeakSet[Redactor] = WeakSet()
"""Those that somebody still holds."""


def without_any(text: str) -> str:
    """A text without the values that any redactor of this process looks for."""
    for redactor in list(_ALL):
        text = redactor.text(text)
    return text


class Redactor:
    """Takes the values that were added out of bytes, texts and data. Values may be added at any time, from any thread;
    streams that are under way know them from their next piece on."""

    __slots__ = ("__weakref__", "_known", "_lock", "_masks")

    def __init__(self) -> None:
        self._lock = Lock()
        self._masks: dict[bytes, bytes] = {}
        self._known = _Known(self._masks)
        _ALL.add(self)

    @property
    def known(self) -> _Known:
        """What is looked for by now; made when it is first asked for."""
        found = self._known
        if found.masks is not self._masks:
            found = self._known = _Known(self._masks)
        return found

    def add(self, name: str, value: bytes) -> None:
        """Look for a value from now on, line by line, and write ``[secret:NAME]`` instead, ``***`` for one without a
        name. Lines that are shorter than ``SHORTEST`` bytes are left out, unless there are no others."""
        mask = b"[secret:%s]" % name.encode() if name else MASK
        sought = lines(value) or (value,)
        if all(line in self._masks for line in sought):
            return
        new = {each for line in sought for each in spellings(line)}
        with self._lock:
            masks = {**dict.fromkeys(new, mask), **self._masks}
            for other in {mask, *masks.values()}:
                if any(each in other for each in (masks if other == mask else new)):
                    masks = {each: MASK if given == other else given for each, given in masks.items()}
            self._masks = masks

    def stream(self) -> Stream:
        """For bytes that come in pieces."""
        return Stream(self)

    def bytes(self, data: bytes) -> bytes:
        """The bytes without the values; the same object where there are none."""
        spans = self.known.spans(data)
        if not spans:
            return data
        parts: list[bytes] = []
        at = 0
        for span in spans:
            parts += (data[at : span.start], span.mask)
            at = span.end
        return b"".join((*parts, data[at:]))

    def text(self, text: str) -> str:
        """The text without the values, and without the beginning of one where it was cut off in the middle of it."""
        if len(text) < SHORTEST:
            return text
        data = text.encode("utf-8", "surrogatepass")
        clean = self.bytes(data)
        if (half := self.known.unfinished(clean)) >= HALF:
            clean = clean[:-half] + MASK
        return text if clean is data else clean.decode("utf-8", "surrogatepass")

    def data(self, value: Json) -> Json:
        """JSON data without the values, names of maps included; a number that is one becomes text."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self.data(each) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.data(each) for each in value]
        if self.known.has_numbers and isinstance(value, (int, float)):
            written = repr(value)
            clean = self.text(written)
            return value if clean == written else clean
        return value


class Stream:
    """Bytes that come in pieces, handed on as soon as nothing of them can be the beginning of a value."""

    __slots__ = ("_covered", "_held", "_redactor", "met")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""
        self._covered = 0
        """Bytes at the beginning of what is held for which a mask was written already."""
        self.met: set[bytes] = set()
        """The masks that were written."""

    def take(self, data: bytes) -> bytes:
        """What can be shown by now."""
        window = self._held + data if self._held else data
        return self._shown(window, len(window) - self._redactor.known.unfinished(window))

    def rest(self) -> bytes:
        """What is left at the end."""
        return self._shown(self._held, len(self._held))

    def _shown(self, window: bytes, cut: int) -> bytes:
        """The window up to ``cut`` with masks; the rest is held."""
        parts: list[bytes] = []
        at = self._covered
        for span in self._redactor.known.spans(window):
            if span.start < at:
                at = max(at, span.end)
            elif span.start < cut:
                parts += (window[at : span.start], span.mask)
                self.met.add(span.mask)
                at = span.end
        parts.append(window[at:cut])
        self._held, self._covered = window[cut:], max(0, at - cut)
        return b"".join(parts)
