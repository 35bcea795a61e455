"""Mutations of a plan as it is written: of its bytes, its tokens and its lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

import hostile_words

Pool = Sequence[tuple[str, bytes]]
"""Files to take parts from: names and contents."""

_TOKEN = re.compile(r"\{\{.*?\}\}|\w+|[ ]+|\n|[^\w\s]|\s", re.DOTALL)
MOST = 1 << 20
"""Bytes of a mutated plan; the greatest ones are the business of `test_lint_bounds.py`."""


def mutate_bytes(random: Random, data: bytes, pool: Pool) -> bytes:
    """One to eight changes that know nothing of what the bytes mean."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 8))):
        at, length = _range(random, len(found))
        random.choice(_BYTEWISE)(random, found, at, length, pool)
        if len(found) > MOST:
            del found[MOST:]
    return bytes(found)


def mutate_tokens(random: Random, data: bytes, pool: Pool) -> bytes:
    """One to six changes of words and marks."""
    tokens = _TOKEN.findall(_text(data)) or [""]
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        at, length = _range(random, len(tokens))
        way = random.randrange(7)
        if way == 0:
            tokens[at : at + 1] = [hostile_words.word(random)]
        elif way == 1:
            tokens.insert(at, hostile_words.word(random))
        elif way == 2:
            del tokens[at : at + length]
        elif way == 3:
            tokens[at:at] = tokens[at : at + length] * random.choice((1, 2, 20))
        elif way == 4:
            other = random.randrange(len(tokens) or 1)
            if tokens:
                tokens[at % len(tokens)], tokens[other] = tokens[other], tokens[at % len(tokens)]
        elif way == 5:
            tokens[at : at + 1] = _piece(random, _TOKEN.findall(_text(random.choice(pool)[1])))
        else:
            tokens[at:at] = [random.choice(hostile_words.MARKS)]
    return "".join(tokens)[:MOST].encode("utf-8", "surrogatepass")


def mutate_lines(random: Random, data: bytes, pool: Pool) -> bytes:
    """One to six changes of whole lines: what editors, merges and models do to a plan."""
    lines = _text(data).split("\n")
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        at, length = _range(random, len(lines))
        way = random.randrange(7)
        if way == 0:
            del lines[at : at + length]
        elif way == 1:
            lines[at:at] = lines[at : at + length] * random.choice((1, 2, 30))
        elif way == 2:
            indent = " " * random.choice((1, 2, 4, 70))
            lines[at : at + length] = [indent + line for line in lines[at : at + length]]
        elif way == 3:
            lines[at : at + length] = [line.lstrip() for line in lines[at : at + length]]
        elif way == 4:
            lines[at:at] = _piece(random, _text(random.choice(pool)[1]).split("\n"))
        elif way == 5 and ":" in lines[at % len(lines)]:
            key = lines[at % len(lines)].partition(":")[0]
            lines[at % len(lines)] = f"{key}: {hostile_words.word(random)}"
        else:
            random.shuffle(lines)
        lines = lines or [""]
    return "\n".join(lines)[:MOST].encode("utf-8", "surrogatepass")


def spread_anchors(random: Random, data: bytes, pool: Pool) -> bytes:
    """Anchors, aliases and merge keys on a plan that is written in YAML."""
    lines = _text(data).split("\n")
    places = [at for at, line in enumerate(lines) if ": " in line or line.endswith(":")] or [0]
    for at in random.sample(places, min(len(places), random.choice((1, 2, 8)))):
        key, _, value = lines[at].partition(":")
        lines[at] = random.choice((f"{key}: &a {value.strip()}", f"{key}: *a", f"{key}: &{random.choice('ab')}{value}"))
        if random.random() < 0.5:
            indent = " " * (len(key) - len(key.lstrip()))
            lines.insert(at + 1, indent + random.choice(("<<: *a", "<<: [*a, *b]", "<<: {x: *a}", "? *a\n: *b")))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _range(random: Random, size: int) -> tuple[int, int]:
    return random.randrange(size + 1), min(size, random.choice((1, 2, 5, 20, 200)))


def _piece(random: Random, parts: list[str]) -> list[str]:
    at, length = _range(random, len(parts))
    return parts[at : at + length]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _flip(random: Random, data: bytearray, at: int, length: int, pool: Pool) -> None:
    if at < len(data):
        data[at] ^= 1 << random.randrange(8)


def _any_byte(random: Random, data: bytearray, at: int, length: int, pool: Pool) -> None:
    data[at : at + 1] = bytes([random.randrange(256)])


def _hostile(random: Random, data: bytearray, at: int, length: int, pool: Pool) -> None:
    data[at:at] = random.choice(hostile_words.BYTES) * random.choice((1, 1, 3, 100))


def _at_the_start(random: Random, data: bytearray, at: int, length: int, pool: Pool) -> None:
    data[:0] = random.choice(hostile_words.BYTES)


def _noise(random: Random, data: bytearray, at: int, length: int, pool: Pool) -> None:
    data[at : at + length] = random.randbytes(length)


def _cut(random: Random, data: bytearray, at: int, length: int, pool: Pool) -> None:
    del data[at : at + length]


def _cut_off(random: Random, data: bytearray, at: int, length: int, pool: Pool) -> None:
    del data[at:]


def _repeat(random: Random, data: bytearray, at: int, length: int, pool: Pool) -> None:
    data[at:at] = data[at : at + length] * random.choice((1, 2, 50, 500))


def _splice(random: Random, data: bytearray, at: int, length: int, pool: Pool) -> None:
    other = random.choice(pool)[1]
    start = random.randrange(len(other) + 1)
    data[at:] = other[start:]


def _insert(random: Random, data: bytearray, at: int, length: int, pool: Pool) -> None:
    other = random.choice(pool)[1]
    start = random.randrange(len(other) + 1)
    data[at:at] = other[start : start + length]


_BYTEWISE: tuple[Callable[[Random, bytearray, int, int, Pool], None], ...] = (
    *(_flip, _flip, _any_byte, _any_byte, _hostile, _hostile, _at_the_start, _noise, _cut, _cut, _cut_off, _repeat),
    *(_splice, _insert, _insert),
)
