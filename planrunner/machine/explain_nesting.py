"""Where a task stands inside others, and how far one is that holds others."""

from __future__ import annotations

from planrunner.machine.frame import Frame
from planrunner.machine.paths import counts, frames
from planrunner.machine.scope import FrameScope
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED, said
from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.values import EvaluationError, shown

LISTED = 10
"""Tasks of one kind that are listed by name at most."""


def place(state: State, number: int) -> str:
    """``it stands in round 2 of at most 5 of `polish```, from the inside out."""
    found = []
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        found.append(_level(state, number, frame))
        number = frame.owner
        frame = state.tasks[number].frame
    text = "it is " if found[0].startswith("item") else "it stands in "
    return text + ", in ".join(found)


def _level(state: State, number: int, frame: Frame) -> str:
    owner = state.specs[frame.owner]
    old = "" if state.tasks[frame.owner].inner is frame else " as it was before it began anew"
    if frame.kind == "items":
        at = number - frame.first
        return f"item {at} of `{owner.id}`, counted from 0 to {frame.size - 1}: {shown(frame.values[at], 60)}{old}"
    if frame.kind == "round":
        assert owner.loop is not None
        return f"round {frame.round} of at most {owner.loop.max} of `{owner.id}`"
    return f"the subplan of `{owner.id}`{old}"


def holding(state: State, number: int) -> list[str]:
    """How far a task is that holds others: its rounds, what is settled, what failed and what it waits for."""
    found = state.tasks[number]
    frame = found.inner
    if frame is None:
        return []
    lines = [_progress(state, frame)]
    if frame.closing:
        lines.append(f"nothing in it starts any more, and what runs there is stopped: {frame.closing}")
    elif frame.failing and frame.open:
        lines.append(f"nothing new starts in it: {_failures(frame)} and its `on_failure` is {frame.on_failure}")
    elif frame.kind == "items" and frame.failures:
        lines.append(f"{_failures(frame)}, {frame.tolerate} may")
    if frame.kind == "round":
        lines += _until(state, frame)
        lines += _rounds(state, number)
    return lines + _inside(state, frame)


def round_name(state: State, frame: Frame) -> str:
    """How a round is written: ``polish#2``, the path of its tasks without their names."""
    return state.specs[frame.first].id.rpartition("/")[0]


def rounds_named(state: State, wanted: str) -> list[Frame]:
    """The rounds of loops that a path names: the one of that path, else those whose paths end with it."""
    found = [frame for opened in frames(state).values() for frame in opened if frame.kind == "round"]
    named = {round_name(state, frame): frame for frame in found}
    if wanted in named:
        return [named[wanted]]
    return [frame for name, frame in named.items() if name.endswith(f"/{wanted}")]


def round_status(frame: Frame) -> str:
    """Whether a round still runs, and else how it ended."""
    if frame.open or frame.finals_open:
        return "running"
    return "failed" if len(frame.failures) > frame.tolerate else "completed"


def why_round(state: State, frame: Frame) -> list[str]:
    """Sentences about one round of a loop: how it went, what its ``until`` said, and how each of its tasks stands."""
    owner = state.specs[frame.owner]
    lines = [f"`{round_name(state, frame)}` is a round of `{owner.id}`: {round_status(frame)}"]
    lines += [_progress(state, frame), *_until(state, frame)]
    inner = state.tasks[frame.owner].inner
    if inner is not frame and inner is not None and inner.kind == "round" and inner.round > frame.round:
        lines.append(f"another round followed; `{owner.id}` came to round {inner.round}")
    lines += [_standing(state, number) for number in range(frame.first, frame.first + min(frame.size, LISTED))]
    if frame.size > LISTED:
        lines.append(f"  and {frame.size - LISTED} more")
    return lines


def _failures(frame: Frame) -> str:
    return f"{len(frame.failures)} of its tasks failed" if len(frame.failures) > 1 else "1 of its tasks failed"


def _progress(state: State, frame: Frame) -> str:
    owner = state.specs[frame.owner]
    by_status = counts(state, frame)
    done = sum(count for status, count in by_status.items() if status in SETTLED)
    others = [f"{count} {status.replace('_', ' ')}" for status, count in by_status.items() if status != "completed"]
    text = f"{done} of {frame.size} {'items' if frame.kind == 'items' else 'tasks'} done"
    if frame.kind == "round":
        assert owner.loop is not None
        text = f"round {frame.round} of at most {owner.loop.max}: {text}"
    if owner.fanout is not None and owner.fanout.max_parallel:
        others.append(f"at most {owner.fanout.max_parallel} at once")
    return ", ".join([text, *others])


def _until(state: State, frame: Frame) -> list[str]:
    loop = state.specs[frame.owner].loop
    if loop is None or loop.until is None:
        return []
    if frame.open:
        return [f"after the round it asks for `until: {loop.until.text}`"]
    try:
        value = "true" if truth(loop.until.tree, FrameScope(state, frame)) else "false"
    except EvaluationError as error:
        return [f"`until: {loop.until.text}` has no value after round {frame.round}: {error}"]
    return [f"`until: {loop.until.text}` is {value} after round {frame.round}"]


def _rounds(state: State, number: int) -> list[str]:
    """The rounds before the last one, each with what became of its tasks."""
    earlier = frames(state).get(number, [])[:-1]
    lines = [
        f"  round {frame.round}: " + ", ".join(f"{count} {status}" for status, count in counts(state, frame).items())
        for frame in earlier[-LISTED:]
    ]
    if len(earlier) > LISTED:
        lines.insert(0, f"  {len(earlier) - LISTED} rounds before these")
    return lines


def _inside(state: State, frame: Frame) -> list[str]:
    """What failed, waits for somebody or runs inside, by name."""
    lines: list[str] = []
    for statuses in (("failed",), ("blocked", "in_doubt"), ("running",)):
        numbers = [at for at in range(frame.first, frame.first + frame.size) if state.tasks[at].status in statuses]
        lines += [_standing(state, number) for number in numbers[:LISTED]]
        if len(numbers) > LISTED:
            lines.append(f"  and {len(numbers) - LISTED} more are {statuses[0].replace('_', ' ')}")
    return lines


def _standing(state: State, number: int) -> str:
    found = state.tasks[number]
    detail = found.detail or found.reason.replace("_", " ")
    text = f"  `{state.specs[number].id}` {said(found.status)}"
    return text + (f": {detail}" if detail else "")
