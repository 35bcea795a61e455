"""Search and replace: a text that stands once is replaced, and one that was replaced already is recognised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planrunner.capabilities.files.hunks import Misfit, nearest


class Replacement(NamedTuple):
    """One block: what to look for, what takes its place, whether wherever it stands; ``number`` names it."""

    search: str
    replace: str
    everywhere: bool
    number: int


def apply_replacements(text: str, blocks: Sequence[Replacement]) -> str:
    """The text after the blocks, one after the other. Raises Misfit when one fits nowhere, or at several places, and
    they were not applied before."""
    try:
        return _block_applied(text, blocks, recognise=True)
    except Misfit:
        turned = [block._replace(search=block.replace, replace=block.search) for block in reversed(blocks)]
        try:
            before = _block_applied(text, turned, recognise=False)
            if _block_applied(before, blocks, recognise=False) == text:
                return text
        except Misfit:
            pass
        raise


def _block_applied(text: str, blocks: Sequence[Replacement], recognise: bool) -> str:
    for block in blocks:
        text = _replaced(text, block, recognise)
    return text


def _replaced(text: str, block: Replacement, recognise: bool) -> str:
    if "\r\n" in text and "\r" not in block.search + block.replace and not _starts(text, block.search):
        search, replace = (part.replace("\n", "\r\n") for part in (block.search, block.replace))
        block = block._replace(search=search, replace=replace)
    if not block.search:
        raise Misfit(f"block {block.number} searches for nothing, which only a new file has")
    done = _starts(text, block.replace) if block.replace and recognise else []
    inside = block.replace.find(block.search) >= 0
    covered = [(at, at + len(block.replace)) for at in done] if inside else []
    places = [
        at
        for at in _starts(text, block.search)
        if not any(low <= at and at + len(block.search) <= high for low, high in covered)
    ]
    if not places:
        if done:
            return text
        lines = text.split("\n")
        raise Misfit(f"block {block.number} is not there: {nearest(lines, block.search.split(chr(10)), None)}")
    if len(places) > 1 and not block.everywhere:
        told = ", ".join(str(text.count("\n", 0, at) + 1) for at in places[:4]) + (" …" if len(places) > 4 else "")
        raise Misfit(
            f"block {block.number} stands {len(places)} times, at lines {told}: give more context, or `all: true`"
        )
    return _spliced(text, places, block)


def _spliced(text: str, places: Sequence[int], block: Replacement) -> str:
    parts, at = [], 0
    for place in places:
        parts += [text[at:place], block.replace]
        at = place + len(block.search)
    return "".join([*parts, text[at:]])


def _starts(text: str, wanted: str) -> list[int]:
    """Where it stands, counted without overlaps."""
    found: list[int] = []
    at = text.find(wanted) if wanted else -1
    while at >= 0:
        found.append(at)
        at = text.find(wanted, at + len(wanted))
    return found
