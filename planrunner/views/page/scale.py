"""The time axis of a run: moments as shares of its width, with idle time shortened so that what happened has room."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from planrunner.plan.expressions.quantities import duration_text
from planrunner.records import Struct

FOLD = 7.0
"""The width of shortened idle time, in percent."""
MOST = 5
"""Stretches of idle time that are shortened."""
SHORTEST = 2.0
"""Seconds of idle time that are worth to be shortened."""
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800)
_LONG_STEPS = (3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800, 604_800)


class Fold(Struct):
    """A stretch of idle time that is drawn shorter than it was: its place and width in percent, and its seconds."""

    x: float
    width: float
    seconds: float


class Tick(Struct):
    """A label of the axis, and its place in percent."""

    x: float
    text: str


class Scale:
    """From moments (seconds since 1970) to percent of the width. ``busy`` are the intervals in which something ran;
    what is longer than a sixth of all of them between two is shortened."""

    def __init__(self, began: float, ended: float, busy: Iterable[tuple[float, float]]) -> None:
        self.began, self.ended = began, max(ended, began + 0.001)
        gaps = _gaps(self.began, self.ended, busy)
        active = self.ended - self.began - sum(end - start for start, end in gaps)
        least = max(SHORTEST, active / 6)
        longest = sorted((gap for gap in gaps if gap[1] - gap[0] > least), key=lambda gap: gap[0] - gap[1])[:MOST]
        folded = self._folded = sorted(longest)
        real = self.ended - self.began - sum(end - start for start, end in folded)
        share = (100.0 - FOLD * len(folded)) / max(real, 1e-9)
        self._starts, self._edges = [self.began], [0.0]
        self._rates = []
        self.folds: list[Fold] = []
        for start, end in folded:
            x = self._edges[-1] + (start - self._starts[-1]) * share
            self._rates += [share, FOLD / (end - start)]
            self._starts += [start, end]
            self._edges += [x, x + FOLD]
            self.folds.append(Fold(round(x, 2), FOLD, end - start))
        self._rates.append(share)

    def at(self, moment: float) -> float:
        """The place of a moment in percent, from 0 to 100."""
        place = max(0, bisect_right(self._starts, moment) - 1)
        x = self._edges[place] + (moment - self._starts[place]) * self._rates[place]
        return round(min(100.0, max(0.0, x)), 2)

    def moment(self, x: float) -> float:
        """The moment at a place in percent."""
        place = max(0, bisect_right(self._edges, x) - 1)
        return self._starts[place] + (x - self._edges[place]) / self._rates[place]

    def ticks(self, most: int = 6) -> list[Tick]:
        """The time of day at the start, then how much later it is, in round steps; nothing inside what is folded."""
        step = _step((self.ended - self.began - sum(fold.seconds for fold in self.folds)) / most)
        ticks = [Tick(0.0, time.strftime("%H:%M:%S", time.localtime(self.began)))]
        count, last = 1, 11.0
        while (moment := self.began + count * step) < self.ended and len(ticks) < 2 * most:
            count += 1
            x = self.at(moment)
            places = zip(self.folds, self._folded, strict=True)
            after = next((end for fold, (_, end) in places if fold.x - 4 < x < fold.x + fold.width), 0.0)
            if after:
                count = max(count, math.ceil((after - self.began) / step))
            elif x >= last and x < 94:
                ticks.append(Tick(x, f"+{duration_text(moment - self.began).replace('.0s', 's')}"))
                last = x + 9
        return ticks


def _step(wanted: float) -> float:
    steps: Sequence[float] = (*_STEPS, *_LONG_STEPS)
    return next((step for step in steps if step >= wanted), steps[-1])


def _gaps(began: float, ended: float, busy: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The stretches between two moments in which nothing was under way."""
    gaps, reached = [], began
    for start, end in sorted(busy):
        if start > reached:
            gaps.append((reached, min(start, ended)))
        reached = max(reached, end)
    if reached < ended:
        gaps.append((reached, ended))
    return gaps
