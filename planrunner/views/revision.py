"""Revisions of a run: how two plans differ, and what a revision means for what is done already."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from json import dumps
from typing import TYPE_CHECKING, Any

from planrunner.escapes import harmless, masked
from planrunner.machine.events import Entry, RunResumed, RunRevised, RunStarted
from planrunner.records import Struct
from planrunner.views.documents import FORMAT, document
from planrunner.views.status import listed
from planrunner.views.terminal import Terminal, cut, plural

if TYPE_CHECKING:
    from planrunner.plan.identity import Difference

Json = Any


class Revision(Struct):
    """What a revision means. ``number`` is the one the run has with it; where the plan and the parameters are those
    that it has already, that stays and nothing is ``changed``. ``kept`` are tasks that keep their results, ``again``
    those that run again, ``perhaps`` those that are compared at their turn, ``new`` and ``gone`` those that one of the
    plans has not; of the latter ``owing`` is still to be undone by a rollback. ``asked_again`` are gates;
    ``asks_again`` says of gates whose approvals are void why they are. ``overruled`` are gates that are taken away, or
    that tasks do not wait for any more, with what is done to them. ``stopped`` hold others, are under way and begin
    again: what they hold is cancelled."""

    run_id: str
    plan: str
    number: int
    before: str
    digest: str
    changed: bool
    by: str
    reason: str
    differences: tuple[Difference, ...]
    params: tuple[tuple[str, Json, Json], ...] = ()
    kept: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    owing: tuple[str, ...] = ()
    asked_again: tuple[str, ...] = ()
    asks_again: tuple[tuple[str, str], ...] = ()
    overruled: tuple[tuple[str, str], ...] = ()
    stopped: tuple[str, ...] = ()


class Proposal(Struct):
    """What ``task`` proposes: the ``text`` of a plan with its digest, its diff and the ``reason`` for it; ``path`` is
    the file of the run's plan. ``person`` says why the run does not take it over itself."""

    run_id: str
    task: str
    text: str
    digest: str
    diff: str
    reason: str
    path: str
    person: tuple[str, ...] = ()


_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
_LONG = 200


def difference_lines(terminal: Terminal, differences: Iterable[Difference]) -> list[str]:
    """A line for each thing that differs (``+`` added, ``-`` removed, ``~`` changed), and two below it for each field
    that changed."""
    lines = []
    for what, change, fields in differences:
        lines.append(harmless(f"{_SIGNS[change]} {what}"))
        for name, before, after in fields:
            for sign, value in (("-", before), ("+", after)):
                if value not in (None, [], {}, ""):
                    lines += _value(terminal, f"    {sign} {name}: ", value)
    return lines


def _value(terminal: Terminal, head: str, value: Json) -> list[str]:
    text = masked(value if isinstance(value, str) else dumps(value, ensure_ascii=False, default=str))
    first, *rest = text.rstrip("\n").split("\n") or [""]
    lines = [f"{head}{first}", *(f"{' ' * len(head)}{line}" for line in rest)]
    return [cut(harmless(line), max(_LONG, len(head)), terminal.unicode) for line in lines]


def difference_object(differences: Iterable[Difference]) -> list[dict[str, Json]]:
    """The same as data."""
    return [
        {
            "what": what,
            "change": change,
            "fields": [{"field": name, "before": before, "after": after} for name, before, after in fields],
        }
        for what, change, fields in differences
    ]


def difference_document(one: str, other: str, differences: Iterable[Difference]) -> dict[str, Json]:
    """How two plans differ, as data."""
    return document(one=one, other=other, differences=difference_object(differences))


def revision_lines(terminal: Terminal, made: Revision) -> list[str]:
    """What a revision changes and what it means, for people."""
    if not made.changed:
        return [f"run {made.run_id} has this plan already: revision {made.number} stays"]
    lines = [f"run {made.run_id}, revision {made.number} of plan {made.plan}"]
    lines += [f"  {line}" for line in difference_lines(terminal, made.differences)]
    for name, before, after in made.params:
        lines.append(harmless(f"  ~ value of param {name}: {masked(dumps(before))} -> {masked(dumps(after))}"))
    for words, names in (
        ("keeps its result", made.kept),
        ("runs again", made.again),
        ("runs again if its inputs change", made.perhaps),
        ("is new", made.new),
        ("is asked again", made.asked_again),
        ("is gone", made.gone),
    ):
        if names:
            lines.append(f"  {plural(len(names), 'task')} {_many(words, len(names))}: {harmless(listed(names))}")
    what = "what it holds is cancelled, votes and rounds included"
    lines += [harmless(f"  {name} starts over: {what}") for name in made.stopped]
    lines += [harmless(f"  {gate} asks again: {why}") for gate, why in made.asks_again]
    lines += [harmless(f"  without {gate}: {what}") for gate, what in made.overruled]
    if made.owing:
        lines.append(f"  still to be undone by a rollback: {harmless(listed(made.owing))}")
        lines.append(f"    {terminal.program} rollback {made.run_id}")
    return lines


_PLURAL = {"keeps its result": "keep their results", "runs": "run", "is": "are", "its inputs": "their inputs"}


def _many(words: str, count: int) -> str:
    if count == 1:
        return words
    if words in _PLURAL:
        return _PLURAL[words]
    first, _, rest = words.partition(" ")
    return f"{_PLURAL[first]} {rest.replace('its inputs', 'their inputs')}"


def proposal_commands(terminal: Terminal, run_id: str, digest: str = "") -> list[str]:
    """What a person does with a proposal."""
    if not digest:
        return [f"  look at it: {terminal.program} revise {run_id}"]
    return [
        f"  accept it: {terminal.program} revise {run_id} --accept {digest.removeprefix('sha256:')[:12]}",
        f"  decline it: {terminal.program} revise {run_id} --decline --reason TEXT",
    ]


def proposal_lines(terminal: Terminal, proposal: Proposal, made: Revision) -> list[str]:
    """A proposed plan for people: who proposes it and why, what it changes, as a diff and in what it means."""
    lines = [f"`{harmless(proposal.task)}` proposes another plan for run {proposal.run_id}"]
    lines += [f"  why: {harmless(cut(proposal.reason, 5 * _LONG, terminal.unicode))}"] if proposal.reason else []
    lines += [f"  | {harmless(masked(line))}" for line in proposal.diff.splitlines()]
    lines += revision_lines(terminal, made)
    lines += [f"  a person decides: {harmless(why)}" for why in proposal.person]
    return [*lines, f"  digest {proposal.digest}", *proposal_commands(terminal, proposal.run_id, proposal.digest)]


def proposal_object(proposal: Proposal, made: Revision) -> dict[str, Json]:
    """The same as data."""
    kept = ("task", "digest", "diff", "reason", "text", "person")
    return {**revision_object(made, False), "proposal": {name: getattr(proposal, name) for name in kept}}


def declined_document(run_id: str) -> dict[str, Json]:
    """That a run keeps its plan, as data."""
    return document(run_id=run_id, declined=True)


def revision_object(made: Revision, recorded: bool) -> dict[str, Json]:
    """A revision as data; ``recorded`` is False for a preview."""
    return {
        "format": FORMAT,
        "run_id": made.run_id,
        "plan": made.plan,
        "revision": made.number,
        "recorded": recorded and made.changed,
        "changed": made.changed,
        "by": made.by,
        "reason": made.reason,
        "before": made.before,
        "digest": made.digest,
        "differences": difference_object(made.differences),
        "params": [{"param": name, "before": before, "after": after} for name, before, after in made.params],
        "kept": list(made.kept),
        "again": list(made.again),
        "perhaps": list(made.perhaps),
        "stopped": list(made.stopped),
        "new": list(made.new),
        "asked_again": list(made.asked_again),
        "asks_again": [{"gate": gate, "reason": why} for gate, why in made.asks_again],
        "overruled": [{"gate": gate, "change": what} for gate, what in made.overruled],
        "gone": list(made.gone),
        "to_be_undone": list(made.owing),
    }


def revisions(entries: Iterable[Entry]) -> list[dict[str, Json]]:
    """The revisions in a record, the plan that the run began with first."""
    listed: list[dict[str, Json]] = []
    for _, at, event, _ in entries:
        if isinstance(event, RunStarted):
            by = event.environment.get("user", "")
            listed.append({"number": 1, "digest": event.plan_digest, "at": at, "by": by, "reason": ""})
        elif isinstance(event, RunRevised):
            made = {"number": event.number, "digest": event.plan_digest, "at": at, "by": event.by}
            listed.append({**made, "reason": event.reason})
    return listed


def settings_history(entries: Sequence[Entry]) -> list[str]:
    """A line that names the sections of the settings that differ from those of the start; none where none does."""
    records = [first.event.environment.get("settings") for first in entries[:1] if isinstance(first.event, RunStarted)]
    records += [each.event.settings for each in entries if isinstance(each.event, RunResumed) and each.event.settings]
    then, now = ((records[at] or {}).get("sections", {}) if records else {} for at in (0, -1))
    names = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
    return [harmless(f"settings changed since the start: {', '.join(names)}")] if names else []


def revision_history(terminal: Terminal, entries: Iterable[Entry]) -> list[str]:
    """A line for each revision after the first."""
    lines = []
    for made in revisions(entries)[1:]:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(made["at"]))
        said = f": {made['reason']}" if made["reason"] else ""
        lines.append(harmless(f"revision {made['number']} by {made['by']}, {when}{said}"))
    return lines
