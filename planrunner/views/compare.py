"""How two runs differ: as data, and as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from planrunner.escapes import harmless, masked
from planrunner.jsontext import shown
from planrunner.plan.expressions.quantities import duration_text
from planrunner.records import Struct
from planrunner.statuses import status_verb
from planrunner.views.decisions import Decision, decision_object, decision_text
from planrunner.views.documents import document
from planrunner.views.revision import difference_lines, difference_object
from planrunner.views.runs import rfc3339
from planrunner.views.terminal import Terminal, plural

if TYPE_CHECKING:
    from planrunner.plan.identity import Difference
    from planrunner.plan.model import Plan


Json = Any


class Side(Struct):
    """One of the two runs. ``revision`` is the digest of its plan and ``number`` which revision that is; ``started`` is
    seconds since 1970, ``duration`` seconds until its end, None while it is not over."""

    run_id: str
    plan: str
    revision: str
    number: int
    status: str
    reason: str
    started: float
    duration: float | None


class Change(Struct):
    """A parameter, a version or another fact with another value; None where one run has it not."""

    name: str
    before: Json
    after: Json


class Stand(Struct):
    """What a task came to. ``duration`` is seconds, None for one that did not start; ``at`` is the second of the run in
    which it was settled, ``detail`` the sentence about it."""

    status: str
    attempts: int
    failure: str = ""
    exit_code: int | None = None
    duration: float | None = None
    at: float | None = None
    detail: str = ""


class TaskPair(Struct):
    """A task of both runs, or of one. ``changes`` says what differs, ``result`` whether that is how it ended (and not
    only what it gave or how many attempts it took). ``follows`` names the task from which the difference follows,
    ``because`` says what explains one that follows from no other task; ``inside`` tells that the task only differs
    since one that it holds does."""

    task: str
    one: Stand | None
    other: Stand | None
    changes: tuple[str, ...] = ()
    result: bool = False
    follows: str = ""
    because: tuple[str, ...] = ()
    inside: bool = False

    @property
    def at(self) -> float:
        """The second at which the difference happened, in the run in which it did first."""
        return min((each.at for each in (self.one, self.other) if each and each.at is not None), default=float("inf"))


class DecisionPair(Struct):
    """What people decided about the same thing, where it differs; empty where one run has no such decision."""

    task: str
    one: tuple[Decision, ...]
    other: tuple[Decision, ...]


class RunComparison(Struct):
    """Two runs side by side. ``tasks`` are all tasks in the order of the plan; ``first`` is the first task whose result
    differs and follows from no other (else the first that gave something else), ``others`` more of these."""

    one: Side
    other: Side
    plan: tuple[Difference, ...]
    params: tuple[Change, ...]
    versions: tuple[Change, ...]
    decisions: tuple[DecisionPair, ...]
    tasks: tuple[TaskPair, ...]
    outputs: tuple[Change, ...] = ()
    first: TaskPair | None = None
    others: tuple[TaskPair, ...] = ()

    @property
    def differing(self) -> tuple[TaskPair, ...]:
        return tuple(pair for pair in self.tasks if pair.changes)

    @property
    def same(self) -> bool:
        """Whether nothing differs but times."""
        return not (self.plan or self.params or self.versions or self.decisions or self.outputs or self.differing)

    def following(self, task: str) -> tuple[TaskPair, ...]:
        """Every task whose difference follows from that of a task, at once or through others."""
        from_here, size = {task}, 0
        while size != len(from_here):
            size = len(from_here)
            from_here |= {pair.task for pair in self.tasks if pair.follows in from_here}
        after = (pair for pair in self.tasks if pair.task in from_here and pair.task != task)
        return tuple(sorted(after, key=lambda pair: pair.at))


class RevisionSide(Struct):
    """A revision of a run: its ``number``, the digest and text of its plan, when (seconds since 1970), by whom and why
    it came about."""

    number: int
    digest: str
    text: str
    at: float
    by: str
    reason: str


class RevisionComparison(Struct):
    """Two revisions of the plan of a run. ``effects`` tells for each task of the later plan what the revision meant for
    it when it was made: kept, again, perhaps, new or asked (a gate asks again); it is empty where others came between
    the two. ``plans`` are the plans of both."""

    run_id: str
    plan: str
    one: RevisionSide
    other: RevisionSide
    differences: tuple[Difference, ...]
    params: tuple[Change, ...]
    effects: dict[str, str]
    plans: tuple[Plan, Plan]
    made: int
    """How many revisions the run has."""


# As data


def comparison_document(made: RunComparison) -> dict[str, Json]:
    """How two runs differ, as data. ``one`` and ``other`` name them as for plans; ``differences`` are those of their
    plans; ``first`` is the task of the first difference, null where no task differs."""
    return document(
        one=made.one.run_id,
        other=made.other.run_id,
        differences=difference_object(made.plan),
        same=made.same,
        runs=[{**side._asdict(), "started": rfc3339(side.started)} for side in (made.one, made.other)],
        params=[change._asdict() for change in made.params],
        versions=[change._asdict() for change in made.versions],
        decisions=[_decisions(pair) for pair in made.decisions],
        outputs=[change._asdict() for change in made.outputs],
        first=made.first.task if made.first else None,
        others=[pair.task for pair in made.others],
        tasks=[_pair(pair) for pair in made.tasks],
    )


def revisions_document(made: RevisionComparison) -> dict[str, Json]:
    """How two revisions of a run differ, as data."""
    sides = [{**side._asdict(), "at": rfc3339(side.at)} for side in (made.one, made.other)]
    for side in sides:
        side.pop("text")
    return document(
        run_id=made.run_id,
        plan=made.plan,
        revisions=sides,
        differences=difference_object(made.differences),
        params=[change._asdict() for change in made.params],
        effects=made.effects,
        count=made.made,
    )


def _decisions(pair: DecisionPair) -> dict[str, Json]:
    one, other = ([decision_object(each) for each in side] for side in (pair.one, pair.other))
    return {"task": pair.task, "one": one, "other": other}


def _pair(pair: TaskPair) -> dict[str, Json]:
    stands = {name: each._asdict() if each else None for name, each in (("one", pair.one), ("other", pair.other))}
    return {**pair._asdict(), **stands, "changes": list(pair.changes), "because": list(pair.because)}


# As sentences, shared by text and page


def verdict(made: RunComparison) -> str:
    """The first difference in one sentence, or that there is none."""
    if made.first is None:
        return "Every task has the same outcome." if made.tasks else "Neither run has a task."
    return sentence(made.first)


def sentence(pair: TaskPair) -> str:
    """What differs in a task: ```smoke` completed in the first run and failed in the second with exit code 1``."""
    if pair.one is None or pair.other is None:
        return f"`{pair.task}` exists only in the {'second' if pair.one is None else 'first'} run."
    one, other = how_it_ended(pair.one), how_it_ended(pair.other)
    if one != other:
        return f"`{pair.task}` {one} in the first run and {other} in the second."
    return f"`{pair.task}` {one} in both runs, with a difference: {'; '.join(pair.changes)}."


def how_it_ended(stand: Stand) -> str:
    """The status of a task as the verb of a sentence, with how it failed: ``failed (exit code 1)``."""
    if stand.status != "failed":
        return status_verb(stand.status)
    how = f"exit code {stand.exit_code}" if stand.exit_code else stand.failure
    return f"failed ({how})" if how else "failed"


def change_text(change: Change) -> str:
    """``2.3.8 → 2.3.9`` with secrets masked; what is missing is ``none``."""
    one, other = ("none" if value is None else shown(value) for value in (change.before, change.after))
    return masked(f"{one} → {other}")


# As text


def comparison_lines(terminal: Terminal, made: RunComparison) -> list[str]:
    """Two runs side by side, for people: what they are, what went into them, the first difference and what follows."""
    lines = [_side(terminal, "one", made.one), _side(terminal, "other", made.other)]
    if made.same:
        return [*lines, "", "the runs differ in nothing but times"]
    lines += _block(terminal, "plan", difference_lines(terminal, made.plan))
    lines += _block(terminal, "parameters", [f"~ {each.name}: {change_text(each)}" for each in made.params])
    lines += _block(terminal, "versions", [f"~ {each.name}: {change_text(each)}" for each in made.versions])
    lines += _block(terminal, "decisions", [line for pair in made.decisions for line in _decision_lines(pair)])
    lines += _differences(terminal, made)
    return lines + _block(terminal, "outputs", [f"~ {each.name}: {change_text(each)}" for each in made.outputs])


def _side(terminal: Terminal, name: str, side: Side) -> str:
    took = f" in {duration_text(side.duration)}" if side.duration is not None else ""
    reason = f" ({side.reason})" if side.reason and side.reason != side.status else ""
    revision = f", revision {side.number}" if side.number > 1 else ""
    digest = side.revision.removeprefix("sha256:")[:8]
    about = f"{side.plan} {digest}{revision}"
    return f"{name:<5}  {terminal.sign(side.status)} {side.run_id}  {status_verb(side.status)}{reason}{took}  {about}"


def _block(terminal: Terminal, name: str, lines: Iterable[str]) -> list[str]:
    listed = [f"  {harmless(line)}" for line in lines]
    return ["", terminal.paint(name, "bold"), *listed] if listed else []


def _decision_lines(pair: DecisionPair) -> Iterator[str]:
    about = f"{pair.task}: " if pair.task else ""
    for sign, side in (("-", pair.one), ("+", pair.other)):
        yield f"{sign} {about}{'; '.join(map(decision_text, side)) if side else 'no such decision'}"


MOST = 20
"""Tasks that follow from a difference and are listed; the rest is counted."""


def _differences(terminal: Terminal, made: RunComparison) -> list[str]:
    lines: list[str] = []
    if made.first is not None:
        lines += ["", terminal.paint("first difference", "bold"), *_root(made, made.first)]
    if made.others:
        lines += ["", terminal.paint("other differences", "bold")]
        for pair in made.others[:MOST]:
            lines += _root(made, pair)
        if len(made.others) > MOST:
            lines.append(f"  and {len(made.others) - MOST} more")
    alike = len(made.tasks) - len(made.differing)
    if made.tasks:
        lines += ["", f"{plural(alike, 'task')} with the same outcome, {len(made.differing)} with another"]
    return lines


def _root(made: RunComparison, pair: TaskPair) -> list[str]:
    text = sentence(pair)
    shown = pair.changes[1:] if pair.result else pair.changes
    lines = [f"  {text}", *(f"    {change}" for change in shown if change not in text)]
    lines += [f"    {reason}" for reason in pair.because]
    after = made.following(pair.task)
    lines += [f"    then {each.task}: {', '.join(each.changes)}" for each in after[:MOST]]
    if len(after) > MOST:
        lines.append(f"    and {len(after) - MOST} more follow")
    return [harmless(line) for line in lines]
