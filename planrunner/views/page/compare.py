"""Two runs, or two revisions of a run, side by side, as the page shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from planrunner.escapes import harmless, masked
from planrunner.plan.model import Plan
from planrunner.records import Struct
from planrunner.views.compare import (
    Change,
    DecisionPair,
    RevisionComparison,
    RunComparison,
    Side,
    Stand,
    TaskPair,
    sentence,
)
from planrunner.views.decisions import decision_text
from planrunner.views.page.difference import Line, difference
from planrunner.views.page.figures import count, duration
from planrunner.views.page.graph import Picture, Skeleton, picture
from planrunner.views.page.signs import Sign, run_sign, task_sign
from planrunner.views.revision import difference_object

Json = Any

SHOWN = 200
"""Tasks of a comparison that are listed; of more only those that differ, so many at most."""
_LONG = 160
_MOST = 200
"""Changes that are listed."""


class ChangeLine(Struct):
    """A line of a list of changes: a sign, a kind in two words, what it is about, the value before and after (empty
    for none) and a consequence."""

    state: str
    icon: str
    kind: str
    what: str
    before: str = ""
    after: str = ""
    note: str = ""
    note_state: str = ""


class Row(Struct):
    """A task of both runs. ``bars`` are the shares of the longest task that both took, in percent; ``note`` says what
    differs, ``root`` that it follows from no other task."""

    task: str
    one: Sign | None
    other: Sign | None
    took: tuple[str, str]
    bars: tuple[str, str]
    note: str
    root: bool


class Head(Struct):
    """One of the runs above the comparison."""

    run: str
    plan: str
    sign: Sign
    facts: str


class RunsPage(Struct):
    """Two runs. ``lead`` and ``said`` are the verdict, ``why`` explains the first difference, ``follows`` are the
    tasks that differ because of it; ``hidden`` tasks with the same outcome are not among the ``rows``."""

    heads: tuple[Head, Head]
    sign: Sign
    lead: str
    said: str
    why: tuple[str, ...]
    follows: tuple[str, ...]
    others: tuple[str, ...]
    inputs: tuple[ChangeLine, ...]
    plan: tuple[ChangeLine, ...]
    decisions: tuple[ChangeLine, ...]
    outputs: tuple[ChangeLine, ...]
    rows: tuple[Row, ...]
    hidden: int
    total: int
    same: bool


def runs_page(made: RunComparison, whole: bool = False) -> RunsPage:
    """The page of two runs; with ``whole`` the tasks with the same outcome are listed as well, however many."""
    differing = made.differing
    everything = whole or len(made.tasks) <= SHOWN
    listed = made.tasks if everything else differing[:SHOWN]
    longest = max((each.duration or 0.0 for pair in made.tasks for each in (pair.one, pair.other) if each), default=0.0)
    follows = made.following(made.first.task) if made.first is not None else ()
    return RunsPage(
        (_head(made.one), _head(made.other)),
        _sign(made),
        _lead(made),
        harmless(sentence(made.first)) if made.first is not None else "Every task has the same outcome.",
        tuple(map(harmless, made.first.because)) if made.first is not None else (),
        tuple(harmless(f"`{pair.task}`: {', '.join(pair.changes)}") for pair in follows[:12]),
        tuple(harmless(sentence(pair)) for pair in made.others[:12]),
        tuple(_inputs(made)),
        tuple(plan_lines(difference_object(made.plan))),
        tuple(map(_decision, made.decisions)),
        tuple(_value("Output", change) for change in made.outputs),
        tuple(_row(pair, longest) for pair in listed),
        len(made.tasks) - len(listed),
        len(made.tasks),
        made.same,
    )


def _head(side: Side) -> Head:
    revision = f"revision {side.number}, " if side.number > 1 else ""
    took = f", {duration(side.duration)}" if side.duration is not None else ""
    digest = side.revision.removeprefix("sha256:")[:7]
    return Head(side.run_id, side.plan, run_sign(side.status, side.reason), f"{revision}{digest}{took}")


def _sign(made: RunComparison) -> Sign:
    if made.first is None:
        return Sign("ok", "ok", "The same") if made.same else Sign("wait", "chg", "The same results")
    one, other = made.first.one, made.first.other
    if made.first.result and other is not None and (one is not None or other.status != "completed"):
        return task_sign(other.status)
    return Sign("wait", "chg", "A difference")


def _lead(made: RunComparison) -> str:
    if made.same:
        return "The runs differ in nothing but times."
    if made.first is None:
        return "The same results."
    alike = len(made.tasks) - len(made.differing)
    return f"{count(len(made.differing), 'task')} of {len(made.tasks):,} differ." if alike else "Every task differs."


def _row(pair: TaskPair, longest: float) -> Row:
    took = tuple(duration(each.duration) if each is not None else "" for each in (pair.one, pair.other))
    shares = tuple(_share(each, longest) for each in (pair.one, pair.other))
    return Row(
        harmless(pair.task),
        task_sign(pair.one.status) if pair.one is not None else None,
        task_sign(pair.other.status) if pair.other is not None else None,
        (took[0], took[1]),
        (shares[0], shares[1]),
        harmless(_note(pair)),
        bool(pair.changes) and not pair.follows,
    )


def _share(stand: Stand | None, longest: float) -> str:
    share = (stand.duration or 0.0) / longest * 100 if stand is not None and longest else 0.0
    return f"{share:.1f}%"


def _note(pair: TaskPair) -> str:
    """What differs, and from what it follows; of a task with the same outcome by how much its time differs."""
    if pair.follows:
        return f"{'; '.join(pair.changes[:2])}, since {pair.follows} differs"
    if pair.changes:
        return "; ".join(pair.changes[:3])
    if pair.one is None or pair.other is None or pair.one.duration is None or pair.other.duration is None:
        return ""
    longer = pair.other.duration - pair.one.duration
    return f"{'+' if longer > 0 else '−'}{duration(abs(longer))}" if abs(longer) >= 0.05 else ""


# Changes


def _inputs(made: RunComparison) -> Iterator[ChangeLine]:
    """What went into the runs and differs: parameters, then versions and surroundings."""
    yield from (_value("Parameter", change) for change in made.params)
    yield from (_value("Version", change) for change in made.versions)


def _value(kind: str, change: Change) -> ChangeLine:
    states = {"Parameter": "wait", "Version": "off", "Output": "wait"}
    return ChangeLine(states[kind], "chg", kind, harmless(change.name), _short(change.before), _short(change.after))


def _decision(pair: DecisionPair) -> ChangeLine:
    sides = ["; ".join(map(decision_text, side)) for side in (pair.one, pair.other)]
    return ChangeLine(
        "gate", "gate", "Decision", harmless(pair.task or "the run"), harmless(sides[0]), harmless(sides[1])
    )


_KINDS = {"param": "Parameter", "gate": "Gate"}
_SIGNS = {"added": ("ok", "add"), "removed": ("bad", "off"), "changed": ("wait", "chg")}


def plan_lines(
    differences: Iterable[Mapping[str, Json]], effects: Mapping[str, str] | None = None
) -> Iterator[ChangeLine]:
    """Differences of two plans as the page lists them: a line for what was added or removed and for each field that
    changed. ``effects`` says for tasks what the change means (``EFFECTS``)."""
    for listed, each in enumerate(differences):
        if listed >= _MOST:
            return
        kind, _, name = each["what"].partition(" ")
        state, icon = _SIGNS[each["change"]]
        note, note_state = _effect(each["what"], effects or {})
        words = f"{_KINDS.get(kind, kind.capitalize())} {each['change']}"
        about = harmless(name)
        if not each["fields"]:
            yield ChangeLine(state, icon, words, about or kind, note=note, note_state=note_state)
        for field in each["fields"]:
            what = ": ".join(filter(None, (about, field["field"]))) or kind
            before, after = _short(field["before"]), _short(field["after"])
            yield ChangeLine(state, icon, words, harmless(what), before, after, note, note_state)


def _short(value: Json) -> str:
    """A value on one line, secrets masked before it is cut."""
    if value in (None, "", [], {}):
        return ""
    text = masked(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    text = " ".join(harmless(text).split())
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


# Revisions


EFFECTS: dict[str, Sign] = {
    "kept": Sign("ok", "same", "Result reused"),
    "again": Sign("wait", "retry", "Runs again"),
    "perhaps": Sign("wait", "retry", "Runs if inputs change"),
    "new": Sign("ok", "add", "New"),
    "asked": Sign("gate", "gate", "Asks again"),
    "gone": Sign("off", "off", "Removed"),
    "open": Sign("todo", "todo", "Not started"),
}
"""What a revision means for a task."""


def _effect(what: str, effects: Mapping[str, str]) -> tuple[str, str]:
    """What a change means, in words and colour."""
    kind, _, name = what.partition(" ")
    if kind == "edge" and " -> " in name:
        name = name.split(" -> ")[1].partition(" on ")[0]
    known = effects.get(name.partition("/")[0])
    if kind in ("budgets", "policy", "gate") and "asked" in effects.values():
        known = "asked"
    if known is None:
        return "", ""
    sign = EFFECTS[known]
    return sign.word.lower(), sign.state


class Ended(Struct):
    """A revision above the comparison."""

    number: int
    digest: str
    at: float
    by: str
    reason: str


class RevisionsPage(Struct):
    """Two revisions. ``counts`` are pairs of a sign and how many tasks it stands for; ``tasks`` are the tasks of the
    later plan with their signs; ``lines`` is the difference of the texts."""

    run: str
    plan: str
    heads: tuple[Ended, Ended]
    changes: tuple[ChangeLine, ...]
    params: tuple[ChangeLine, ...]
    counts: tuple[tuple[Sign, int], ...]
    tasks: tuple[tuple[str, Sign], ...]
    lines: tuple[Line, ...]
    added: int
    removed: int
    others: tuple[tuple[str, int, int], ...]
    """Other pairs of revisions of the run: a word, and their numbers."""
    picture: Picture | None
    """The later plan, coloured by what the revision meant for its tasks; None where that is not known."""
    gone: tuple[str, ...]
    """Tasks that the later plan has no more."""


def revisions_page(made: RevisionComparison) -> RevisionsPage:
    """The page of two revisions."""
    lines = difference(made.one.text, made.other.text)
    removed = [each.what for each in made.differences if each.change == "removed"]
    gone = [what.removeprefix("task ") for what in removed if what.startswith("task ") and "/" not in what]
    effects = {**made.effects, **dict.fromkeys(gone if made.effects else (), "gone")}
    counts: dict[str, int] = {}
    for effect in effects.values():
        counts[effect] = counts.get(effect, 0) + 1
    heads = tuple(Ended(each.number, each.digest, each.at, each.by, each.reason) for each in (made.one, made.other))
    return RevisionsPage(
        made.run_id,
        made.plan,
        (heads[0], heads[1]),
        tuple(plan_lines(difference_object(made.differences), effects)),
        tuple(_value("Parameter", change) for change in made.params),
        tuple((EFFECTS[name], counts[name]) for name in EFFECTS if name in counts),
        tuple((harmless(name), EFFECTS[effect]) for name, effect in effects.items()),
        lines,
        sum(line.kind == "add" for line in lines),
        sum(line.kind == "del" for line in lines),
        tuple((f"{number} and {number + 1}", number, number + 1) for number in range(1, made.made)),
        _picture(made.plans[1], made.effects) if made.effects else None,
        tuple(map(harmless, gone)),
    )


def _picture(plan: Plan, effects: Mapping[str, str]) -> Picture:
    """The drawing of a plan in which each task has the sign of its effect; what a task holds shares it."""
    drawn = picture(Skeleton(plan))
    nodes = []
    for node in drawn.nodes:
        sign = EFFECTS.get(effects.get(node.place.partition("/")[0], ""))
        nodes.append(node if sign is None else node._replace(sign=sign, note="" if node.group else sign.word.lower()))
    return drawn._replace(nodes=tuple(nodes))
