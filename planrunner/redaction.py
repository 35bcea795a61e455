"""Secrets taken out of bytes on their way to wherever they are shown or kept, at any boundary between two pieces.

Every spelling of a value is looked for. Looking for one after the other would take time for each, and a large regular
expression far more. So a piece of text is read as numbers of eight bytes, one after the other, and those are compared
with a set in one step: a text of fifteen bytes has one of the eight numbers that can stand in them at such a
place. Spellings whose number was met are then looked for themselves. The time does not hang on what the text is, nor,
by much, on how many secrets there are.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from threading import Lock
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit
from weakref import WeakSet

SHORTEST = 6
"""Bytes of the shortest value, or line of one, that is looked for: shorter ones stand in any text by chance."""

_UNCHANGED_BY_SCRIPTS = "-_.!~*'()"
"""What the ``encodeURIComponent`` of browsers leaves as it is."""


def spellings(value: bytes) -> frozenset[bytes]:
    """A value of one line as it is, and as JSON, URLs, forms, shells, hexadecimal, base64, HTML and Python write it."""
    written = {value, *_octets(value)}
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return frozenset(written)
    written |= {each.encode("utf-8") for each in (*_json(text), *_addresses(text), *_shell(text), *_html(text))}
    written |= {each.encode("utf-8") for each in _python(text)}
    return frozenset(written)


def lines(value: bytes) -> tuple[bytes, ...]:
    """What of a value is looked for: each of its lines that is long enough, without the frame lines of PEM files."""
    each = (line.strip() for line in value.splitlines())
    return tuple(dict.fromkeys(line for line in each if len(line) >= SHORTEST and not line.startswith(b"-----")))


_DEEPEST = 4
"""Levels at which parts of parts are looked for: a key in JSON in base64."""
_MOST_PARTS = 1_000
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|key|auth|cred|sign|private|pin$", re.IGNORECASE)
_WORD = re.compile(r"(?:[A-Z]?[a-z]{1,19}|[A-Z]{1,19})(?:[ ._-]+(?:[A-Z]?[a-z]{1,19}|[A-Z]{1,19}))*")
"""A name of something, such as ``service_account`` or ``db.example.org``: no digit, no changing case."""
_PAIR = re.compile(
    r"""(?:^|[;,&\s])\s*([A-Za-z_][\w.-]*(?: \w+)?)\s*=\s*("[^"]*"|'[^']*'|[^;&\s]+?(?=,[A-Za-z_][\w.-]*=|[;&\s]|$))"""
)
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{8,}={0,2}")


def parts(value: bytes) -> tuple[bytes, ...]:
    """What else of a value is looked for: the members of JSON, the password and the parameters of an address, the
    values of ``NAME=value`` pairs, the password of ``user:password``, and all of these in what base64 holds. Parts
    that are shorter than ``SHORTEST`` are left out, and so are words that the name of a part does not call secret."""
    found: dict[bytes, None] = {}
    waiting = [(value, 0)]
    for whole, depth in waiting:
        if depth == _DEEPEST or len(found) >= _MOST_PARTS:
            break
        for name, part in _parts(whole):
            if len(part) < SHORTEST or part in found or part == value or (not name and _is_word(part)):
                continue
            found.update(dict.fromkeys(lines(part) or (part,)))
            waiting.append((part, depth + 1))
    return tuple(found)


def names_secret(name: str) -> bool:
    """Whether what has such a name may be a secret."""
    return _SECRET_NAME.search(name) is not None


def _is_word(part: bytes) -> bool:
    return _WORD.fullmatch(part.decode("utf-8", "replace")) is not None


def _parts(whole: bytes) -> Iterator[tuple[bool, bytes]]:
    """The parts of a value, each with whether its name says that it is secret."""
    if _BASE64.fullmatch(whole) and (inner := _unpacked(whole)):
        yield True, inner
    try:
        text = whole.decode()
    except UnicodeDecodeError:
        return
    for secret, part in chain(_members(text), _of_address(text), _pairs(text)):
        yield secret, part.encode("utf-8", "surrogatepass")


def _unpacked(whole: bytes) -> bytes:
    """The text that base64 holds; empty for anything else."""
    try:
        inner = base64.b64decode(whole.translate(bytes.maketrans(b"-_", b"+/")) + b"=="[: -len(whole) % 4])
        return inner if inner.decode().replace("\n", "").replace("\r", "").replace("\t", "").isprintable() else b""
    except ValueError:
        return b""


def _members(text: str) -> Iterator[tuple[bool, str]]:
    try:
        waiting = [("", json.loads(text))] if text.lstrip()[:1] in ("{", "[") else []
    except (ValueError, RecursionError):
        return
    for name, value in waiting:
        secret = names_secret(name)
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(name, each) for each in value]
        elif isinstance(value, str):
            yield secret, value
        elif secret and type(value) is int:
            yield True, str(value)


def _of_address(text: str) -> Iterator[tuple[bool, str]]:
    if "://" in text and not re.search(r"\s", text):
        try:
            address = urlsplit(text)
            password, given = address.password, parse_qsl(address.query)
        except ValueError:
            return
        yield from ((True, each) for each in (password, unquote(password or "")) if each)
        yield from ((names_secret(name), each) for name, each in given)
    elif pair := re.fullmatch(r"[\w.@+-]+:([^\s:]+)", text):
        yield True, pair[1]


def _pairs(text: str) -> Iterator[tuple[bool, str]]:
    if "=" not in text or _PAIR.match(text) is None:
        return
    for name, given in _PAIR.findall(text):
        secret = names_secret(name)
        yield secret, given[1:-1] if given[0] in "\"'" and given[-1] == given[0] else given


def _wrapped(value: bytes) -> Iterator[bytes]:
    """A value in base64 as programs print it: in lines, and those of several lines as a whole."""
    whole = base64.b64encode(value)
    if b"\n" in value:
        yield whole
        yield base64.b64encode(value + b"\n")
    for width in (76, 64):
        yield from (whole[at : at + width] for at in range(0, len(whole), width) if len(whole) > width)


def _octets(value: bytes) -> Iterator[bytes]:
    plain = value.hex()
    yield plain.encode()
    yield plain.upper().encode()
    yield repr(value)[2:-1].encode()
    for before, start in ((0, 0), (1, 2), (2, 3)):  # wherever in a longer text it stands, in groups of three bytes
        whole = base64.b64encode(b"\0" * before + value)
        inner = whole[start : (before + len(value)) * 8 // 6]
        yield inner
        yield inner.translate(bytes.maketrans(b"+/", b"-_"))


def _json(text: str) -> Iterator[str]:
    for ascii_only in (True, False):
        written = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield written
        yield written.replace("/", "\\/")
        yield written.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _addresses(text: str) -> Iterator[str]:
    for written in (quote(text, safe=""), quote(text), quote_plus(text), quote(text, safe=_UNCHANGED_BY_SCRIPTS)):
        yield written
        yield re.sub("%..", lambda found: found[0].lower(), written)


def _shell(text: str) -> Iterator[str]:
    yield shlex.quote(text)[1:-1] if "'" in text else text
    yield text.replace("'", "'\\''")
    yield re.sub(r"([^\w@%+=:,./-])", r"\\\1", text)
    yield re.sub(r'(["\\$`])', r"\\\1", text)


def _html(text: str) -> Iterator[str]:
    outer = html.escape(text, quote=False)
    yield outer
    for double in ("&quot;", "&#34;"):
        for single in ("&#x27;", "&#39;", "&apos;", "'"):
            yield outer.replace('"', double).replace("'", single)


def _python(text: str) -> Iterator[str]:
    yield repr(text)[1:-1]
    yield ascii(text)[1:-1]
    yield text.replace("\\", "\\\\").replace("'", "\\'")


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
        places: dict[tuple[int, int], bytes] = {}
        for each in chain(self._sought, {each for grid in self._grids for each in grid.met(data)}):
            start = data.find(each)
            while start >= 0:
                places[start, start + len(each)] = each
                start = data.find(each, start + 1)
        return _merged(Span(*place, self.masks[places[place]]) for place in sorted(places, key=_by_start_then_longest))

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
    merged: list[Span] = []
    for span in spans:
        if merged and span.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


_ALL: WeakSet[Redactor] = WeakSet()
"""Those still referenced."""


def without_any(text: str) -> str:
    """A text without the values that any redactor of this process looks for."""
    for redactor in list(_ALL):
        text = redactor.text(text)
    return text


class Redactor:
    """Takes the values that were added out of bytes, texts and data. Values may be added at any time, from any thread;
    streams that are under way know them from their next piece on."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._masks: dict[bytes, bytes] = {}
        self._known = _Known(self._masks)
        _ALL.add(self)

    @property
    def known(self) -> _Known:
        """What is looked for by now; made when it is first asked for."""
        known = self._known
        if known.masks is not self._masks:
            known = self._known = _Known(self._masks)
        return known

    def add(self, name: str, value: bytes) -> None:
        """Look for a value from now on, line by line and with its parts, and write ``[secret:NAME]`` instead, ``***``
        for one without a name. Lines that are shorter than ``SHORTEST`` bytes are left out, unless all are shorter."""
        mask = b"[secret:%s]" % name.encode() if name else MASK
        sought = lines(value) or (value,)
        if all(line in self._masks for line in sought):
            return
        new = {each for part in (*sought, *parts(value)) for each in spellings(part)}
        new |= {each for each in _wrapped(value) if len(each) >= SHORTEST}
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
        """The bytes without the values; the same object without any."""
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
