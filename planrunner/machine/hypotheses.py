"""Hypotheses: how confident a run is in each, by Bayes' rule over the results of its tasks.

What a result says is weighed when its task settles, and forgotten when the task is reset or undone. A confidence is the
product of exact ratios, so neither the order of evidence nor the machine changes it: the odds of the prior, multiplied
by the weight of what supports and divided by the weight of what refutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import gcd
from typing import TYPE_CHECKING, Any, Literal

from planrunner.frozen import EMPTY
from planrunner.machine.events import RetryScheduled, TaskSettled
from planrunner.machine.names import label, written_of
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import Piece, Pieces, Ratio, State
from planrunner.machine.statuses import forget
from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.quantities import Quantity
from planrunner.plan.expressions.values import EvaluationError, MissingName, Scope
from planrunner.plan.model import BEST, HEAVIEST, RANKED, Evidence, Expression, Hypothesis, Task
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.machine.graph import Frame

Json = Any
Status = Literal["open", "supported", "refuted"]
_Verdict = Literal["supports", "refutes", "neutral"]

SUPPORTED, REFUTED = 0.8, 0.2
"""The confidence from which on a hypothesis is supported, and up to which it is refuted."""

_WITHOUT_A_RESULT = frozenset("transient timeout stalled interrupted unstarted cancelled policy doubt".split())
"""Classes of attempts that were cut short or refused. All others, such as ``tests`` or ``findings``, are results."""

_CERTAIN = 0.999
"""The highest confidence that is shown; the lowest lies as far from the other end."""


class Given(Struct):
    """The pieces that one task of the plan gives about a hypothesis, each with the number of the round or the item that
    gave it. Together they count for at most ``HEAVIEST`` (then they are ``bounded``)."""

    pieces: tuple[tuple[int, Piece], ...]
    factor: Ratio
    bounded: bool


class Belief(Struct):
    """A hypothesis with what was said of it. ``confidence`` is a fraction, rounded to a tenth of a percent."""

    hypothesis: Hypothesis
    given: tuple[Given, ...]
    odds: Ratio
    confidence: float
    status: Status


def task_settled(state: State, event: TaskSettled, at: float) -> None:
    """A task has ended: what its result says counts from now on. One that was cut short says nothing."""
    if event.status in ("completed", "failed"):
        note_result(state, state.index[event.task])


def note_result(state: State, number: int) -> None:
    """What the result of a task says counts from now on."""
    if gives_evidence(state, number):
        _known(state)[number] = weigh(state.specs[number], TaskScope(state, number))


def retry_scheduled(state: State, event: RetryScheduled, at: float) -> None:
    """A task is tried again: what it said before does not count."""
    forget(state, state.index[event.task])


def gives_evidence(state: State, number: int) -> bool:
    """Whether a task has a result that was not cut short, by a timeout or a lost connection for instance."""
    outcome = state.tasks[number].outcome
    if outcome is None or not state.specs[number].evidence:
        return False
    return outcome.failure not in _WITHOUT_A_RESULT


def _known(state: State) -> dict[int, Pieces]:
    if state.evidence is None:
        state.evidence = {}
    return state.evidence


def in_scope(state: State, frame: Frame, own: TaskScope | None = None, number: int = -1) -> HypothesesScope:
    """The hypotheses as a task sees them, whose result, once it has one, counts for itself before it settles."""
    weighed: dict[int, Pieces] = {}
    if own is not None and number >= 0 and not state.tasks[number].dependency_outcome and gives_evidence(state, number):
        weighed[number] = weigh(state.specs[number], own)
    return HypothesesScope(beliefs(state, home(state, frame), weighed))


def home(state: State, frame: Frame) -> int:
    """The task that links the plan in which the tasks of a frame are written; -1 for the outermost plan."""
    while frame.owner >= 0:
        if frame.linked is not None:
            return frame.owner
        frame = state.tasks[frame.owner].frame
    return -1


_Said = dict[tuple[int, ...], list[tuple[int, Piece]]]
"""What was said about a hypothesis, by the task of the plan."""


def beliefs(state: State, at: int = -1, own: Mapping[int, Pieces] = EMPTY) -> list[Belief]:
    """The hypotheses of the plan that the task ``at`` links (-1: the outermost one), in the order of the text. ``own``
    are pieces of tasks that have not settled yet."""
    plan = state.specs[at].sub if at >= 0 else state.plan
    if plan is None or not plan.hypotheses:
        return []
    said: dict[str, _Said] = {}
    for number, pieces in sorted({**(state.evidence or {}), **own}.items()):
        if home(state, state.tasks[number].frame) == at:
            origin = _origin(state, number)
            for piece in pieces:
                said.setdefault(piece.hypothesis, {}).setdefault(origin, []).append((number, piece))
    return [_belief(each, said.get(each.name, {})) for each in plan.hypotheses]


def _origin(state: State, number: int) -> tuple[int, ...]:
    """The task of the text that a task of the run stands for: the same for all rounds and items."""
    places = []
    while number >= 0:
        frame = state.tasks[number].frame
        if frame.kind != "items":
            places.append(number - frame.first)
        number = frame.owner
    return tuple(reversed(places))


def _belief(hypothesis: Hypothesis, said: _Said) -> Belief:
    """A prior alone settles nothing: without evidence for or against it a hypothesis is open."""
    given = tuple(_given(said[origin]) for origin in sorted(said))
    prior = round(hypothesis.prior * 1_000_000)
    odds = _product([(prior, 1_000_000 - prior), *(each.factor for each in given)])
    confidence = min(max(round(odds[0] / sum(odds), 3), round(1 - _CERTAIN, 3)), _CERTAIN)
    status: Status = "supported" if confidence >= SUPPORTED else "refuted" if confidence <= REFUTED else "open"
    if all(piece.said == "neutral" for each in given for _, piece in each.pieces):
        status = "open"
    return Belief(hypothesis, given, odds, confidence, status)


def _given(pieces: list[tuple[int, Piece]]) -> Given:
    over, under = _product(piece.factor for _, piece in pieces)
    most = int(HEAVIEST)
    if over > most * under:
        return Given(tuple(pieces), (most, 1), True)
    if under > most * over:
        return Given(tuple(pieces), (1, most), True)
    return Given(tuple(pieces), (over, under), False)


def _product(factors: Iterable[Ratio]) -> Ratio:
    over = under = 1
    for (up, down), count in Counter(factors).items():
        over *= up**count
        under *= down**count
    shared = gcd(over, under)
    return over // shared, under // shared


def best(known: Iterable[Belief]) -> str:
    """The name of the hypothesis with the highest confidence; empty where two share it, and without any."""
    ranks = ranked(known)
    if not ranks or (len(ranks) > 1 and not _exceeds(ranks[0].odds, ranks[1].odds)):
        return ""
    return ranks[0].hypothesis.name


def _exceeds(one: Ratio, other: Ratio) -> bool:
    return one[0] * other[1] > other[0] * one[1]


def ranked(known: Iterable[Belief]) -> list[Belief]:
    """The most probable first; those that are equal in the order of the text."""
    ranks: list[Belief] = []
    for belief in known:
        at = next((at for at, other in enumerate(ranks) if _exceeds(belief.odds, other.odds)), len(ranks))
        ranks.insert(at, belief)
    return ranks


def weigh(task: Task, scope: Scope) -> Pieces:
    """What the result of a task, whose names ``scope`` knows, says of the hypotheses of its plan."""
    return tuple(_piece(evidence, scope) for evidence in task.evidence)


def _piece(evidence: Evidence, scope: Scope) -> Piece:
    weight = (round(evidence.weight * 1000), 1000)
    held: dict[_Verdict, str] = {}
    problem = ""
    conditions: dict[_Verdict, Expression | None] = {"supports": evidence.supports, "refutes": evidence.refutes}
    for said, condition in conditions.items():
        if condition is None:
            continue
        try:
            if truth(condition.tree, scope):
                held[said] = f"`{condition.text.strip()}`"
        except EvaluationError as error:
            problem = f"`{condition.text.strip()}` has no value: {error}"
    if len(held) != 1:
        why = " and ".join(held.values()) + " speak against each other" if held else problem or "no condition held"
        return Piece(evidence.hypothesis, "neutral", (1, 1), why)
    said, why = next(iter(held.items()))
    return Piece(evidence.hypothesis, said, weight if said == "supports" else weight[::-1], why)


class HypothesesScope:
    """What ``hypotheses`` stands for: each by its name, ``best``, and ``ranked``, their records with the most probable
    first."""

    __slots__ = ("_known",)

    def __init__(self, known: list[Belief]) -> None:
        self._known = known

    def resolve(self, name: str) -> Json:
        """The record of a hypothesis, or a name made of all; raises MissingName."""
        if name == BEST:
            return best(self._known)
        if name == RANKED:
            return [_record(belief) for belief in ranked(self._known)]
        for belief in self._known:
            if belief.hypothesis.name == name:
                return _record(belief)
        raise MissingName(f"`{name}` is not a hypothesis of the plan")


def _record(belief: Belief) -> dict[str, Json]:
    """A hypothesis as expressions read it."""
    hypothesis = belief.hypothesis
    said = [piece.said for each in belief.given for _, piece in each.pieces]
    return {
        "name": hypothesis.name,
        "statement": hypothesis.statement,
        "prior": Quantity(hypothesis.prior, "percent"),
        "confidence": Quantity(belief.confidence, "percent"),
        "status": belief.status,
        "evidence": len(said),
        "supporting": said.count("supports"),
        "refuting": said.count("refutes"),
    }


def homes(state: State) -> Iterator[int]:
    """The outermost plan (-1) and the tasks of the run that link a plan, of those that declare hypotheses."""
    if state.plan.hypotheses:
        yield -1
    for number in state.containers:
        sub = state.specs[number].sub
        if sub is not None and sub.hypotheses and state.tasks[number].inner is not None:
            yield number


def belief_object(state: State, belief: Belief, whole: bool = False) -> dict[str, Json]:
    """A hypothesis as data: fractions, odds as a number, and the factor of each task that gave evidence; with
    ``whole`` each piece as well."""
    hypothesis = belief.hypothesis
    return {
        "hypothesis": hypothesis.name,
        "statement": hypothesis.statement,
        "prior": hypothesis.prior,
        "confidence": belief.confidence,
        "status": belief.status,
        "evidence": [_given_object(state, each, whole) for each in belief.given],
    }


def _given_object(state: State, given: Given, whole: bool) -> dict[str, Json]:
    """``why`` stands for the only piece there is."""
    said = Counter(piece.said for _, piece in given.pieces)
    fields: dict[str, Json] = {
        "task": written_of(state.specs[given.pieces[0][0]].id),
        "factor": given.factor[0] / given.factor[1],
        "bounded": given.bounded,
        **{word: said[word] for word in ("supports", "refutes", "neutral")},
    }
    if len(given.pieces) == 1:
        fields["why"] = given.pieces[0][1].why
    if whole:
        fields["pieces"] = [_piece_object(state, number, piece) for number, piece in given.pieces]
    return fields


def _piece_object(state: State, number: int, piece: Piece) -> dict[str, Json]:
    over, under = piece.factor
    return {"task": label(state, number), "said": piece.said, "factor": over / under, "why": piece.why}
