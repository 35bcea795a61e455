"""The name that was probably meant: the nearest of the known ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache


def nearest(word: str, candidates: Iterable[str], most: int = 1 << 30) -> str | None:
    """The candidate closest to ``word``, or None where nothing is close enough.

    Counts insertions, deletions, replacements and swaps of neighbours; capitals do not count. Up to three characters
    allow one edit, up to eight two, longer words a third of their length, and never more than ``most``. Of equals the
    first candidate wins.
    """
    folded = word.casefold()
    length = len(word)
    allowed = min(1, length - 1) if length <= 3 else 2 if length <= 8 else length // 3
    best, bound = None, min(most, allowed) + 1
    letters = _letters(folded)
    for candidate in candidates:
        if (letters ^ _letters(candidate)).bit_count() > 2 * (bound - 1):
            continue
        other = candidate.casefold()
        if abs(len(other) - len(folded)) >= bound:
            continue
        distance = _distance(folded, other, bound)
        if distance < bound:
            best, bound = candidate, distance
            if not distance:
                break
    return best


_FAMILIES = {
    "container": "docker",
    "database": "sql",
    "db": "sql",
    "file": "files",
    "k8s": "kubectl",
    "kubernetes": "kubectl",
    "web": "research",
}
"""What families of capabilities are called elsewhere."""


def capability_family(name: str) -> str:
    """The family that a name of a capability belongs to, by what it is called here."""
    family = name.partition(".")[0]
    return _FAMILIES.get(family, family)


def nearest_capability(name: str, known: Collection[str]) -> str | None:
    """The capability that was probably meant: of the family by another name (``db.query``), with another separator
    (``docker_remove``), by its verb alone (``pytest``), or the nearest."""
    family, _, verb = name.partition("." if "." in name else "_")
    family = _FAMILIES.get(family, family)
    if verb and f"{family}.{verb}" in known:
        return f"{family}.{verb}"
    alike = [each for each in known if not verb or each.startswith(f"{family}.")]
    verbs = [each for each in alike if (verb or name) in each.partition(".")[2].split("_")]
    return verbs[0] if len(verbs) == 1 else nearest(name, known)


def meant(near: str | None) -> str:
    """The end of a message about an unknown word: ``, did you mean `build`?``, or empty without a nearest one."""
    return f", did you mean `{near}`?" if near else ""


@lru_cache(maxsize=1 << 18)
def _letters(word: str) -> int:
    """The set of characters as bits: two words that differ in many of them cannot be close. Of a word that many ask for
    it is kept: a plan has up to a hundred thousand names."""
    bits = 0
    for character in word.casefold():
        bits |= 1 << (ord(character) & 63)
    return bits


def _distance(left: str, right: str, bound: int) -> int:
    """The number of edits between two words, or ``bound`` where it is that many or more."""
    left, right = _apart(left, right)
    if not left or not right:
        return min(bound, len(left) + len(right))
    before: list[int] = []
    width = len(right)
    previous = list(range(width + 1))
    for row, here in enumerate(left, 1):
        # Cells further from the diagonal than the bound cannot lead to a shorter way.
        current = [bound] * (width + 1)
        current[0] = row
        for column in range(max(1, row - bound + 1), min(width, row + bound - 1) + 1):
            there = right[column - 1]
            cost = previous[column - 1] + (here != there)
            if previous[column] < cost:
                cost = previous[column] + 1
            if current[column - 1] < cost:
                cost = current[column - 1] + 1
            if row > 1 and column > 1 and here == right[column - 2] and left[row - 2] == there:
                cost = min(cost, before[column - 2] + 1)
            current[column] = cost
        if min(current) >= bound:
            return bound
        before, previous = previous, current
    return min(previous[-1], bound)


def _apart(left: str, right: str) -> tuple[str, str]:
    """Two words without the beginning and the end they share: most ids of a plan differ in a few characters only."""
    start, shortest = 0, min(len(left), len(right))
    while start < shortest and left[start] == right[start]:
        start += 1
    left, right = left[start:], right[start:]
    end, shortest = 0, shortest - start
    while end < shortest and left[-1 - end] == right[-1 - end]:
        end += 1
    return (left[:-end], right[:-end]) if end else (left, right)
