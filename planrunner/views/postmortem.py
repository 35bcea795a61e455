"""What went wrong in a run and what follows from it: facts of the journal, as data and as Markdown.

Every statement names the events of the journal that it rests on. What the journal cannot tell is left to people, and
the text says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from planrunner.escapes import harmless, masked
from planrunner.plan.expressions.quantities import duration_text
from planrunner.records import Struct
from planrunner.views.documents import document
from planrunner.views.runs import rfc3339

Json = Any

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")


class Fact(Struct):
    """A statement and the events (by number) that it rests on; none where it follows from the plan. ``more`` are lines
    below it."""

    text: str
    events: tuple[int, ...] = ()
    more: tuple[str, ...] = ()


class Cause(Struct):
    """What failed by itself: the ``task`` as the run names it, one sentence, what is known (names and texts) and the
    events of its last attempt."""

    task: str
    sentence: str
    facts: tuple[tuple[str, str], ...]
    events: tuple[int, ...]


class Action(Struct):
    """Something to do: a sentence, the command that does it (empty where a person has to write something) and why."""

    text: str
    command: str = ""
    because: str = ""


class Moment(Struct):
    """A line of the timeline; ``at`` is seconds since 1970, ``after`` seconds since the start of the run."""

    seq: int
    at: float
    after: float
    text: str


class Postmortem(Struct):
    """A run looked back on. ``outcome`` is one sentence; ``over`` tells whether the run has ended; ``open`` are
    questions that the journal does not answer."""

    run_id: str
    plan: str
    outcome: str
    over: bool
    timeline: tuple[Moment, ...]
    causes: tuple[Cause, ...]
    factors: tuple[Fact, ...]
    gaps: tuple[Fact, ...]
    actions: tuple[Action, ...]
    open: tuple[str, ...]


def postmortem_document(made: Postmortem) -> dict[str, Json]:
    """The same as data; moments by RFC 3339."""
    return document(
        run_id=made.run_id,
        plan=made.plan,
        outcome=made.outcome,
        over=made.over,
        timeline=[{**each._asdict(), "at": rfc3339(each.at)} for each in made.timeline],
        causes=[{**each._asdict(), "facts": dict(each.facts)} for each in made.causes],
        factors=[each._asdict() for each in made.factors],
        detection_gaps=[each._asdict() for each in made.gaps],
        actions=[each._asdict() for each in made.actions],
        not_in_the_journal=list(made.open),
    )


def plain(text: str) -> str:
    """Text from a run as Markdown that shows it as it is: nothing in it acts."""
    return _SPECIAL.sub(r"\\\1", harmless(masked(text)))


def code(text: str) -> str:
    """A word of a run in a code span, whatever it holds."""
    return f"`{harmless(masked(text)).replace('`', 'ʼ')}`"


def fenced(text: str) -> Iterator[str]:
    """Text of a run as a block of code that nothing in it can end."""
    lines = [harmless(line) for line in masked(text).splitlines()]
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}text", *lines, fence)


def spoken(text: str) -> str:
    """A sentence in which names stand between backticks: these stay, all else is plain."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return plain(text)
    return "".join(code(part) if at % 2 else plain(part) for at, part in enumerate(parts))


def markdown(made: Postmortem) -> str:
    """The postmortem for people."""
    lines = [f"# Postmortem of run {plain(made.run_id)}", "", spoken(made.outcome)]
    lines += ["", "Numbers in brackets are events of the journal (`journal/run.jsonl`, field `seq`)."]
    lines += ["", "## Cause", *_causes(made)]
    lines += ["", "## Contributing factors", *_facts(made.factors, "The journal shows none.")]
    lines += ["", "## Detection gaps", *_facts(made.gaps, "The journal shows none.")]
    lines += ["", "## Actions", *_actions(made.actions)]
    lines += ["", "## Timeline", "", "| after | event | what happened |", "|---|---|---|"]
    lines += [f"| {duration_text(each.after)} | {each.seq} | {spoken(each.text)} |" for each in made.timeline]
    lines += ["", "## What the journal does not tell", "", "To be completed by people:", ""]
    lines += [f"- {spoken(each)}" for each in made.open]
    return "\n".join(lines) + "\n"


def _causes(made: Postmortem) -> Iterator[str]:
    if not made.causes:
        yield from (
            "",
            "No task failed by itself." if made.over else "The run is not over; no task has failed by itself.",
        )
    for cause in made.causes:
        yield from ("", f"### {code(cause.task)}", "", f"{spoken(cause.sentence)}{_numbers(cause.events)}")
        for name, text in cause.facts:
            yield ""
            if "\n" in text or name in ("stdout", "stderr", "command"):
                yield from (f"{name}:", "", *fenced(text))
            else:
                yield f"{name}: {spoken(text)}"


def _facts(facts: Sequence[Fact], none: str) -> Iterator[str]:
    yield ""
    if not facts:
        yield none
    for fact in facts:
        yield f"- {spoken(fact.text)}{_numbers(fact.events)}"
        yield from (f"  - {spoken(line)}" for line in fact.more)


def _actions(actions: Iterable[Action]) -> Iterator[str]:
    yield ""
    listed = False
    for number, action in enumerate(actions, 1):
        listed = True
        because = f" Because: {spoken(action.because)}" if action.because else ""
        yield f"{number}. {spoken(action.text)}{because}"
        if action.command:
            yield from ("", *(f"   {line}" for line in fenced(action.command)), "")
    if not listed:
        yield "None follows from the journal."


NAMED = 12
"""Events that are named behind a statement."""


def _numbers(events: Sequence[int]) -> str:
    if not events:
        return ""
    more = ", …" if len(events) > NAMED else ""
    return f" [{', '.join(map(str, events[:NAMED]))}{more}]"
