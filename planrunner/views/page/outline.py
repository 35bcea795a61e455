"""The rows of a run: a row for each place in the plan, those of a container below it, folded where there are many."""

from __future__ import annotations

from planrunner.escapes import harmless
from planrunner.machine.graph import Frame
from planrunner.machine.names import frames, item_label
from planrunner.machine.state import State
from planrunner.records import Struct
from planrunner.views.containers import is_of_calls, name_inside
from planrunner.views.page.figures import count
from planrunner.views.page.signs import counted
from planrunner.views.page.story import CALM, WORST, Story, place_of, with_owners
from planrunner.views.status import ORDER

ITEMS = 12
"""Items of a fan-out that all have rows."""
TASKS = 40
"""Tasks of one level that all have rows, in a run with more than ``ROWS`` places."""
ROWS = 200
LISTED = 30
"""Rows of a level that are shown because something is to be said of them."""
MOST = 2_000
"""Rows that a page has at most."""


class Row(Struct):
    """A place: the numbers of its tasks, one for each round, visit and attempt of what holds it, the last one the
    newest. Without tasks it is a line of text about what is hidden."""

    place: str
    name: str
    level: int
    tasks: tuple[int, ...] = ()
    hidden: tuple[int, ...] = ()
    """The tasks that a line about hidden ones stands for."""

    @property
    def task(self) -> int:
        """The newest of its tasks."""
        return self.tasks[-1]


def outline(story: Story, whole: bool = False) -> list[Row]:
    """The rows of a run in the order of its plan; with ``whole`` nothing is folded, up to ``MOST`` rows."""
    return _Outline(story, whole).rows[:MOST]


class _Outline:
    def __init__(self, story: Story, whole: bool) -> None:
        self.story, self.state, self.whole = story, story.state, whole
        self.frames = frames(story.state)
        self.large = not whole and len(story.statuses) > ROWS
        self.lively = _lively(story)
        self.rows: list[Row] = []
        self._level([self.state.top], 0)

    def _level(self, opened: list[Frame], level: int) -> None:
        """The tasks of one level, merged over the frames that a container opened one after the other."""
        places: dict[str, list[int]] = {}
        order = [
            number for frame in (opened[-1], *opened[:-1]) for number in range(frame.first, frame.first + frame.size)
        ]
        for number in order:
            places.setdefault(self.story.places[number], []).append(number)
        numbers = {place: tuple(each) if len(each) == 1 else tuple(sorted(each)) for place, each in places.items()}
        most = ITEMS if opened[-1].kind == "items" else TASKS if self.large else MOST
        if self.whole or len(numbers) <= most:
            shown = list(numbers)
        else:
            shown = self._notable(numbers)
        for place in shown:
            self._row(place, numbers[place], level)
        if len(shown) < len(numbers):
            kept = set(shown)
            self._rest(opened[-1], {place: numbers[place] for place in numbers if place not in kept}, level)

    def _notable(self, numbers: dict[str, tuple[int, ...]]) -> list[str]:
        """The places of a large level that are shown: what is not well first, in the order of the plan."""
        lively = [place for place in numbers if place in self.lively]
        lively.sort(key=lambda place: WORST.get(self.story.statuses.get(place, ""), len(WORST)))
        kept = set(lively[:LISTED])
        return [place for place in numbers if place in kept]

    def _rest(self, frame: Frame, places: dict[str, tuple[int, ...]], level: int) -> None:
        counts: dict[str, int] = {}
        for place in places:
            status = self.story.statuses.get(place, "pending")
            counts[status] = counts.get(status, 0) + 1
        words = counted({status: counts[status] for status in ORDER if status in counts})
        noun = "item" if frame.kind == "items" else "task"
        owner = self.state.specs[frame.owner].id if frame.owner >= 0 else ""
        text = f"{count(len(places), f'more {noun}')}: {words}"
        hidden = tuple(number for numbers in places.values() for number in numbers)
        self.rows.append(Row(place_of(owner), text, level, (), hidden))

    def _row(self, place: str, numbers: tuple[int, ...], level: int) -> None:
        newest = numbers[-1]
        opened = [frame for number in numbers for frame in self.frames.get(number, ())]
        self.rows.append(Row(place, item_name(self.state, newest), level, numbers))
        if not opened or (self.large and place not in self.lively and len(self.rows) > ROWS):
            return
        if is_of_calls(self.state, newest):
            calls = tuple(at for frame in opened for at in range(frame.first, frame.first + frame.size))
            self.rows[-1] = self.rows[-1]._replace(tasks=(*numbers, *calls))
            return
        self._level(opened, level + 1)


def row_of(story: Story, place: str) -> Row | None:
    """The row of a place, whether the outline shows it or not; None for one that no task has."""
    numbers = tuple(story.numbers.get(place, ()))
    return Row(place, item_name(story.state, numbers[-1]), 0, numbers) if numbers else None


def item_name(state: State, number: int) -> str:
    """A task as its row calls it: an item of a matrix by its values."""
    frame = state.tasks[number].frame
    if frame.kind == "items" and isinstance(frame.values, list):
        value = frame.values[number - frame.first]
        if item_label(state, number) and isinstance(value, dict):
            return harmless(" ".join(map(str, value.values())))
    return name_inside(state, number)


def _lively(story: Story) -> set[str]:
    """The places with something to say: not well, tried more than once, or around one of those."""
    lively = (place for place, status in story.statuses.items() if status not in CALM)
    tried = (place_of(path) for path, pieces in story.pieces.items() if sum(p.kind == "attempt" for p in pieces) > 1)
    return with_owners((*lively, *tried))
