"""``branch.pick``: the best of several candidates, by their scores or by what most of them answer."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Doc, Failure, capability
from planrunner.capabilities.llm.vote import normal
from planrunner.plan.agents import OF_A_CONVERSATION

Json = Any

_BESIDE = (*OF_A_CONVERSATION, "scored", "text")
"""Outputs of an agent beside the data of its answer."""
_QUOTED = 500
"""Characters of what a check printed that a reason quotes."""


class Picked(NamedTuple):
    best: Annotated[str, Doc("name of the best candidate")]
    score: Annotated[float, Doc("its score; with `vote` the share of candidates with the same answer")]
    answer: Annotated[dict[str, Any], Doc("its outputs")]
    files: Annotated[list[dict[str, Any]], Doc("its changed files")]
    candidates: Annotated[list[dict[str, Any]], Doc("candidates: {name, kept, score, reason, answer, number, diff}")]


class _Candidate(NamedTuple):
    """A candidate; ``reason`` says why it is out, empty where it is not."""

    name: str
    answer: dict[str, Json]
    change: dict[str, Json]
    score: float = 0.0
    reason: str = ""

    def row(self, best: str) -> dict[str, Json]:
        """The candidate as data."""
        row = {"name": self.name, "kept": self.name == best, "score": self.score, "reason": self.reason}
        made = {"number": self.change.get("number", 0), "diff": self.change.get("sha256", "")}
        return {**row, "answer": self.answer, **made}


@capability("branch.pick", effect="pure", foreign=("*",), own=("best", "score", "candidates.*.kept"))
def pick(
    candidates: Annotated[dict[str, Any], Doc("record of each candidate, by name")],
    vote: Annotated[bool, Doc("score each candidate by the share with the same answer")] = False,
) -> Picked:
    """Select the best candidate: the highest score, the first of equal ones.

    Failed candidates are eliminated. If all are, the task fails with the reason for each.
    """
    read = _scored([_read(name, record, vote) for name, record in candidates.items()], vote)
    left = [each for each in read if not each.reason]
    best = max(left, key=lambda each: each.score) if left else None
    rows = [each.row(best.name if best is not None else "") for each in read]
    if best is None:
        why = "; ".join(f"{each.name}: {each.reason}" for each in read)
        raise Failure(f"none of {len(read)} candidates succeeded: {why}", outputs={"candidates": rows})
    return Picked(best.name, best.score, best.answer, best.change.get("files") or [], rows)


def _read(name: str, record: dict[str, Json], vote: bool) -> _Candidate:
    given = record.get("outputs") or {}
    work, check = (given.get(each) or {} for each in ("work", "check"))
    answer, change = work.get("outputs") or {}, given.get("change") or {}
    reason = "" if record.get("status") == "completed" else str(record.get("reason") or "it did not end")
    if not reason and not work.get("ok"):
        reason = str(work.get("reason") or "its agent did not end")
    if not reason and not change:
        reason = "what it changed could not be taken down"
    if not reason and check and not check.get("ok"):
        reason = _failed(check)
    if reason or vote:
        return _Candidate(name, answer, change, 0.0, reason)
    score = (check.get("outputs") or {}).get("score", 1) if check else answer.get("scored")
    if not isinstance(score, (bool, int, float)):
        return _Candidate(name, answer, change, 0.0, f"its score is not a number: {score!r:.60}")
    return _Candidate(name, answer, change, float(score))


def _failed(check: dict[str, Json]) -> str:
    """Why a check failed, with the end of what it printed."""
    printed = "\n".join(filter(None, (str(check.get(each) or "").strip() for each in ("stdout", "stderr"))))
    return "\n".join(filter(None, (f"its check failed: {check.get('reason') or ''}".strip(), printed[-_QUOTED:])))


def _key(answer: dict[str, Json]) -> str:
    """What is compared: the data of an answer, else its text."""
    data = {name: value for name, value in answer.items() if name not in _BESIDE}
    return normal(_plain(data or str(answer.get("text", ""))))


def _plain(value: Json) -> Json:
    """Data with each of its texts as it is compared: case, spaces and punctuation at the ends make no difference."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return normal(value) if isinstance(value, str) else value


def _scored(read: list[_Candidate], vote: bool) -> list[_Candidate]:
    """The candidates, with the share of all that answer the same as their scores where they vote."""
    if not vote:
        return read
    counts = Counter(_key(each.answer) for each in read if not each.reason)
    shares = {key: round(number / len(read), 6) for key, number in counts.items()}
    return [each if each.reason else each._replace(score=shares[_key(each.answer)]) for each in read]
