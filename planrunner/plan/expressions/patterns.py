"""Patterns for ``matches`` and where they match: searching takes time in proportion to the text, whatever the pattern.

A match is the leftmost of the longest ones, never empty. A first walk finds whether anything matches from here and
where the match that ends first ends; only the places before that are tried one by one, within a bound for all tries.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from planrunner.plan.expressions.values import LONGEST_LIST, EvaluationError

LONGEST_PATTERN = 1_000
LARGEST_PROGRAM = 1_000
"""Instructions: counted repetitions such as ``a{50}`` are written out."""
DEEPEST_GROUP = 40
LONGEST_SUBJECT = 4 * 1_048_576
MOST_WORK = 1_000_000
"""Instructions followed in one search; what is remembered is free."""
MOST_REMEMBERED = 20_000

END = "end"
FINAL_NEWLINE = "final newline"

Test = Callable[[str], Any]


class Instruction(NamedTuple):
    """``character`` goes on to the next instruction by a character that ``test`` accepts, ``fork`` to both targets,
    ``jump`` to the first, ``assert`` goes on where the condition called ``name`` holds, ``match`` ends the search."""

    kind: Literal["character", "fork", "jump", "assert", "match"]
    test: Test | None = None
    first: int = 0
    second: int = 0
    name: str = ""


class State(dict[str, "State"]):
    """The places a search can be in, the character before, and the states that follow by the characters seen so far."""

    __slots__ = ("before", "places")

    def __init__(self, places: frozenset[int], before: str) -> None:
        super().__init__()
        self.places = places
        self.before = before


MATCHED = State(frozenset(), "")


def search(pattern: str, text: str) -> bool:
    """Whether ``pattern`` occurs in ``text``. Raises EvaluationError for patterns that are wrong or take too long."""
    if len(text) > LONGEST_SUBJECT:
        raise EvaluationError(f"`matches` takes texts up to {LONGEST_SUBJECT:,} characters, not {len(text):,}")
    return compiled(pattern).search(text)


@lru_cache(maxsize=64)
def compiled(pattern: str) -> Automaton:
    """The automaton of a pattern. Raises EvaluationError where the pattern is wrong or too large."""
    if len(pattern) > LONGEST_PATTERN:
        raise EvaluationError(f"the pattern has more than {LONGEST_PATTERN:,} characters")
    flags = re.match(r"\(\?([ims]+)\)", pattern)
    reader = _Reader(pattern, flags.end() if flags else 0, flags[1] if flags else "")
    program = reader.alternatives()
    if reader.at < len(pattern):
        raise EvaluationError(f"the pattern has a `)` too many: `{pattern[:60]}`")
    return Automaton([*program, Instruction("match")], "m" in reader.flags)


class Automaton:
    """A program with the states found so far; the same for every text."""

    __slots__ = ("_lines", "_onward", "_program", "_remembered", "_states")

    def __init__(self, program: list[Instruction], lines: bool) -> None:
        self._program = program
        self._lines = lines
        self._states: dict[tuple[frozenset[int], str], State] = {}
        self._onward: dict[tuple[frozenset[int], str, str], tuple[bool, frozenset[int]]] = {}
        self._remembered = 0

    def search(self, text: str) -> bool:
        return self.first_end(text, 0) >= 0

    def first_end(self, text: str, start: int) -> int:
        """Where the match behind ``start`` that ends first ends; -1 where there is none."""
        state = self._state(frozenset([0]), class_of(text[start - 1]) if start else "start")
        work, last = MOST_WORK, len(text) - 1
        for at, character in ((at, text[at]) for at in range(start, last + 1)) if start else enumerate(text):
            if character == "\n" and at == last:
                character = FINAL_NEWLINE
            following = state.get(character)
            if following is None:
                work -= len(self._program)
                if work < 0:
                    raise EvaluationError("the pattern takes too long on this text: make it simpler")
                following = self._step(state, character)
            if following is MATCHED:
                return at
            state = following
        return len(text) if self._step(state, END) is MATCHED else -1

    def onward(self, places: frozenset[int], before: str, symbol: str) -> tuple[bool, frozenset[int]]:
        """Whether a match that came to these places ends here, and the places that it goes on to by a character."""
        found = self._onward.get((places, before, symbol))
        if found is None:
            character = "\n" if symbol == FINAL_NEWLINE else "" if symbol == END else symbol
            reached, matched = self._closure(places, before, symbol, character)
            tests = self._program
            moved = [place + 1 for place in reached if character and (tests[place].test or _never)(character)]
            if len(self._onward) >= MOST_REMEMBERED:
                self._onward.clear()
            found = self._onward[places, before, symbol] = (matched, frozenset(moved))
        return found

    def _state(self, places: frozenset[int], before: str) -> State:
        state = self._states.get((places, before))
        if state is None:
            state = self._states[places, before] = State(places, before)
        return state

    def _step(self, state: State, symbol: str) -> State:
        character = "\n" if symbol == FINAL_NEWLINE else "" if symbol == END else symbol
        reached, matched = self._closure(state.places, state.before, symbol, character)
        if matched:
            following = MATCHED
        else:
            tests = self._program
            moved = [place + 1 for place in reached if character and (tests[place].test or _never)(character)]
            following = self._state(frozenset([0, *moved]), class_of(character))
        self._remember(state, symbol, following)
        return following

    def _remember(self, state: State, symbol: str, following: State) -> None:
        if self._remembered >= MOST_REMEMBERED:
            self._states.clear()
            self._remembered = 0
            return
        state[symbol] = following
        self._remembered += 1

    def _closure(self, places: frozenset[int], before: str, symbol: str, character: str) -> tuple[set[int], bool]:
        """The instructions that wait for a character, and whether the pattern has matched."""
        waiting, seen = list(places), set(places)
        reached: set[int] = set()
        matched = False
        while waiting:
            place = waiting.pop()
            kind, _, first, second, name = self._program[place]
            if kind == "match":
                matched = True
                continue
            if kind == "character":
                reached.add(place)
                continue
            targets = [first, second] if kind == "fork" else [first]
            if kind == "assert":
                targets = [place + 1] if self._holds(name, before, symbol, character) else []
            fresh = [target for target in targets if target not in seen]
            seen.update(fresh)
            waiting.extend(fresh)
        return reached, matched

    def _holds(self, name: str, before: str, symbol: str, character: str) -> bool:
        if name == "^":
            return before == "start" or (self._lines and before == "newline")
        if name == "$":
            return symbol in (END, FINAL_NEWLINE) or (self._lines and character == "\n")
        if name in ("A", "Z"):
            return before == "start" if name == "A" else symbol == END
        edge = (before == "word") != (class_of(character) == "word")
        return edge if name == "b" else not edge


def _never(_: str) -> None:
    return None


def class_of(character: str) -> str:
    if character == "\n":
        return "newline"
    return "word" if character.isalnum() or character == "_" else "other"


_ATOM = re.compile(
    r"""\\(?:[dDwWsSnrtfv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^A-Za-z0-9])
      | \[\^?\]?(?:\\[\s\S]|[^\]\\])*\]
      | [^\\\[\](){}*+?|^$]
      | [\]{}]""",
    re.VERBOSE | re.DOTALL,
)
_CLASS_SIGN = re.compile(r"(?<!\\)[\[&~|]")
_REPEAT = re.compile(r"(\*|\+|\?|\{(\d{1,4})(?:(,)(\d{1,4})?)?\})\??")
_ASSERTION = re.compile(r"\^|\$|\\([bBAZ])")


class _Reader:
    """Reads a pattern from left to right. Targets of a piece count from its own beginning; ``_shifted`` moves them when
    pieces are put together."""

    __slots__ = ("at", "depth", "flags", "pattern")

    def __init__(self, pattern: str, at: int, flags: str) -> None:
        self.pattern = pattern
        self.at = at
        self.flags = flags
        self.depth = 0

    def alternatives(self) -> list[Instruction]:
        program = self.sequence()
        while self.pattern.startswith("|", self.at):
            self.at += 1
            other = self.sequence()
            end = len(program) + len(other) + 2
            program = [
                Instruction("fork", None, 1, len(program) + 2),
                *_shifted(program, 1),
                Instruction("jump", None, end),
                *_shifted(other, len(program) + 2),
            ]
        return program

    def sequence(self) -> list[Instruction]:
        program: list[Instruction] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            program += _shifted(self.repeated(self.piece()), len(program))
            if len(program) > LARGEST_PROGRAM:
                raise EvaluationError("the pattern is too large: its counted repetitions multiply")
        return program

    def piece(self) -> list[Instruction]:
        assertion = _ASSERTION.match(self.pattern, self.at)
        if assertion:
            self.at = assertion.end()
            return [Instruction("assert", name=assertion[1] or assertion[0])]
        if self.pattern[self.at] == "(":
            return self.group()
        atom = _ATOM.match(self.pattern, self.at)
        if not atom:
            raise self.wrong()
        self.at = atom.end()
        return [Instruction("character", _test(atom[0], self.flags, self.wrong()))]

    def group(self) -> list[Instruction]:
        head = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w*>|(?!\?))").match(self.pattern, self.at)
        self.depth += 1
        if not head or self.depth > DEEPEST_GROUP:
            raise self.wrong()
        self.at = head.end()
        program = self.alternatives()
        if not self.pattern.startswith(")", self.at):
            raise EvaluationError(f"the pattern has a `(` that is never closed: `{self.pattern[:60]}`")
        self.at += 1
        self.depth -= 1
        return program

    def repeated(self, program: list[Instruction]) -> list[Instruction]:
        match = _REPEAT.match(self.pattern, self.at)
        if not match:
            return program
        self.at = match.end()
        if _REPEAT.match(self.pattern, self.at):
            raise self.wrong()
        least, most = _bounds(match)
        if most is not None and most < least:
            raise EvaluationError(f"the pattern repeats at least {least} and at most {most} times")
        if (len(program) + 2) * max(least, most or 0) > LARGEST_PROGRAM:
            raise EvaluationError("the pattern is too large: its counted repetitions multiply")
        return _repetition(program, least, most)

    def wrong(self) -> EvaluationError:
        return EvaluationError(
            f"the pattern `{self.pattern[:60]}` cannot be read at `{self.pattern[self.at : self.at + 12]}`"
            " (patterns have no back-references and no look-around)"
        )


def _bounds(match: re.Match[str]) -> tuple[int, int | None]:
    simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
    if match[1] in simple:
        return simple[match[1]]
    least = int(match[2])
    return least, (least if not match[3] else int(match[4]) if match[4] else None)


def _repetition(program: list[Instruction], least: int, most: int | None) -> list[Instruction]:
    result: list[Instruction] = []
    for _ in range(least):
        result += _shifted(program, len(result))
    size = len(program)
    if most is None:
        loop = [Instruction("fork", None, 1, size + 2), *_shifted(program, 1), Instruction("jump", None, 0)]
        return result + _shifted(loop, len(result))
    for _ in range(most - least):
        optional = [Instruction("fork", None, 1, size + 1), *_shifted(program, 1)]
        result += _shifted(optional, len(result))
    return result


def _shifted(program: list[Instruction], by: int) -> list[Instruction]:
    if not by:
        return program
    return [
        item._replace(first=item.first + by, second=item.second + by) if item.kind in ("fork", "jump") else item
        for item in program
    ]


def _test(atom: str, flags: str, wrong: EvaluationError) -> Test:
    """What judges one character; inside a class the signs that ``re`` keeps for later meanings are escaped."""
    if atom[0] == "[":
        start = 2 if atom.startswith("[^") else 1
        atom = atom[:start] + _CLASS_SIGN.sub(r"\\\g<0>", atom[start:-1]) + "]"
    bits = (re.IGNORECASE if "i" in flags else 0) | (re.DOTALL if "s" in flags else 0)
    try:
        return re.compile(atom, bits).fullmatch
    except (re.error, FutureWarning):
        raise wrong from None


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
        result: list[tuple[int, int]] = []
        at = 0
        while at < len(self._text):
            first = self._automaton.first_end(self._text, at)
            if first < 0:
                break
            span = next(((start, end) for start in range(at, first + 1) if (end := self._longest(start)) > start), None)
            at = first + 1 if span is None else span[1]
            if span is not None:
                result.append(span)
                if len(result) > LONGEST_LIST:
                    raise EvaluationError(f"the pattern matches more than {LONGEST_LIST:,} times")
        return result

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
