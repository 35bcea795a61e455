"""Where a pattern matches: the leftmost of the longest matches, one behind the other, none of them empty.

A first walk finds whether anything matches from here and where the match that ends first ends, in time in proportion to
the text; only the places before that are tried one by one. What all tries together may take is bounded.
"""

from __future__ import annotations

from planrunner.plan.expressions.patterns import END, FINAL_NEWLINE, Automaton, class_of, compiled
from planrunner.plan.expressions.values import LONGEST_LIST, EvaluationError

MOST_STEPS = 4_000_000
"""Characters that all tries of one search may read."""


def spans(pattern: str, text: str) -> list[tuple[int, int]]:
    """The places of all matches. Raises EvaluationError for patterns that are wrong or take too long."""
    return _Search(compiled(pattern), text).run()


class _Search:
    """One search through one text."""

    __slots__ = ("_automaton", "_left", "_text")

    def __init__(self, automaton: Automaton, text: str) -> None:
        self._automaton = automaton
        self._text = text
        self._left = MOST_STEPS

    def run(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        at = 0
        while at < len(self._text):
            first = self._automaton.first_end(self._text, at)
            if first < 0:
                break
            span = next(((start, end) for start in range(at, first + 1) if (end := self._longest(start)) > start), None)
            at = first + 1 if span is None else span[1]
            if span is not None:
                found.append(span)
                if len(found) > LONGEST_LIST:
                    raise EvaluationError(f"the pattern matches more than {LONGEST_LIST:,} times")
        return found

    def _longest(self, start: int) -> int:
        """Where the longest match that begins at ``start`` ends; -1 where none does."""
        automaton, text, last = self._automaton, self._text, len(self._text) - 1
        places = frozenset([0])
        best, at = -1, start
        while places:
            before = class_of(text[at - 1]) if at else "start"
            character = text[at] if at <= last else ""
            symbol = END if at > last else FINAL_NEWLINE if character == "\n" and at == last else character
            matched, places = automaton.onward(places, before, symbol)
            best = at if matched else best
            at += 1
            self._left -= 1
            if self._left < 0:
                raise EvaluationError("the pattern takes too long on this text: make it simpler")
        return best
