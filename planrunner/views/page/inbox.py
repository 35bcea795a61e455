"""What waits for people, as the inbox lists it, and the questions that are not gates of the plan: tasks in doubt,
used-up budgets, tasks that run for too long, and review windows."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from planrunner.escapes import harmless
from planrunner.machine.explain import why
from planrunner.machine.names import label, labelled
from planrunner.machine.questions import Kind, Question, limits_of, window_at
from planrunner.machine.state import State
from planrunner.machine.windows import shown
from planrunner.records import Struct
from planrunner.views.gates import project_object, suggestion
from planrunner.views.page.figures import largest_unit
from planrunner.views.page.gate import GatePage
from planrunner.views.status import command_text, doubt_answers, listed


class Item(Struct):
    """A line of the inbox. ``address`` leads to the question below the address of the project; ``mine`` says that the
    person who looks may decide it."""

    address: str
    run: str
    name: str
    question: str
    where: str
    waited: str
    mine: bool = True
    icon: str = "gate"
    state: str = "gate"
    """The colour of its icon."""


class Button(Struct):
    """An answer: the control that sends it, and how it looks."""

    name: str
    value: str
    text: str
    look: str = ""


class QuestionPage(Struct):
    """A question that is not a gate of the plan: an attempt with an unknown result, a used-up budget, a task that runs
    for long, or a window of ``gates``, with ``coming`` whose gates are still ahead. ``why`` are sentences below the
    question, ``facts`` short ones; ``log`` is what a task in doubt wrote last. ``amounts`` are what may be added to,
    each with what lets all that wait continue; ``hidden`` is what the form sends besides."""

    kind: Kind
    run: str
    plan: str
    name: str
    label: str
    question: str
    buttons: tuple[Button, ...]
    why: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    command: str = ""
    log: str = ""
    amounts: tuple[tuple[str, str], ...] = ()
    gates: tuple[GatePage, ...] = ()
    coming: tuple[str, ...] = ()
    hidden: tuple[str, str] = ("", "")
    commands: tuple[str, ...] = ()
    """What decides the questions of a project, which have no run."""


OF_PROJECT = "-"
"""Stands for a run in addresses of what the project itself asks."""


def name_of(question: Question) -> str:
    """The name of a question in addresses: of what the project itself asks ``trust/plans/x.yaml``."""
    return f"{question.kind}/{question.name}" if question.kind in ("trust", "trigger") else question.name


def address_of(run: str, name: str) -> str:
    """Where the page shows a question, below the address of the project."""
    return f"/inbox/{quote(run)}/{quote(name)}"


_WORDS = {"budget": "budget", "watchdog": "runs for long", "doubt": "in doubt", "trust": "a plan to trust"}
_ICONS = {
    "budget": ("wait", "gate"),
    "watchdog": ("wait", "gate"),
    "doubt": ("doubt", "doubt"),
    "trigger": ("bad", "bad"),
}
"""The icon and the colour of a question in the list, where they are not those of a gate."""


def item_of(run: str, title: str, question: Question, now: float, mine: bool) -> Item:
    """A line of the inbox: a question of a run, by its id and its title, or of the project, which has no title. ``now``
    is in seconds since 1970."""
    approvals = f"{question.given} of {question.need} approvals" if question.need > 1 else ""
    about = _WORDS.get(question.kind, "a trigger" if question.kind == "trigger" else approvals)
    name = name_of(question)
    where = " · ".join(filter(None, (title, name, about))) if title else about
    waited = "" if question.since is None else f"waiting {largest_unit(max(0.0, now - question.since))}"
    ask = harmless(question.ask or name)
    return Item(
        address_of(run, name), run, name, ask, where, waited, mine, *_ICONS.get(question.kind, ("gate", "gate"))
    )


def question_page(state: State, asked: Sequence[Question], log: str, gates: tuple[GatePage, ...] = ()) -> QuestionPage:
    """A question of a run, or the limits of one scope that tasks wait for; ``log`` is the end of what a task in doubt
    wrote, ``gates`` are those of a window."""
    first = asked[0]
    page = QuestionPage(
        *(first.kind, state.run_id, state.plan.title or state.plan.id, first.name),
        *(
            "review window" if gates else first.kind if first.task < 0 else label(state, first.task),
            harmless(first.ask),
        ),
        buttons=_BUTTONS.get(first.kind, ()),
    )
    if first.kind == "doubt":
        answers = doubt_answers(state, first.task)
        return page._replace(
            why=tuple(harmless(labelled(state, line)) for line in why(state, first.name)),
            command=command_text(state.specs[first.task]),
            log=log,
            buttons=tuple(button for button in page.buttons if button.value in answers),
            hidden=("task", first.name),
        )
    if first.kind == "window":
        window = window_at(state, first)
        return page._replace(gates=gates, coming=window.coming, hidden=("shown", shown(state, window)))
    limits = limits_of(asked)
    tasks = tuple(dict.fromkeys(task for limit in limits for task in limit.tasks))
    return page._replace(
        why=(_CONTINUES,) if first.kind == "watchdog" else (),
        facts=(("Needed by", listed(tasks, 6)), ("Decided by", "anyone")) if limits else (),
        amounts=tuple((limit.what, suggestion(limit).partition("=")[2].strip("'")) for limit in limits),
    )


def project_page(question: Question) -> QuestionPage:
    """What the project itself asks."""
    fact = project_object(question)
    return QuestionPage(
        *(question.kind, "", question.plan, name_of(question), "", harmless(question.ask), ()),
        facts=(("Decided by", fact["who"]),),
        commands=tuple(map(harmless, fact["commands"])),
    )


_CONTINUES = "It continues until someone ends it; nothing has to be done to let it continue."

_BUTTONS: dict[Kind, tuple[Button, ...]] = {
    "doubt": (
        Button("how", "completed", "It succeeded"),
        Button("how", "failed", "It failed"),
        Button("how", "retry", "Try again"),
        Button("how", "rollback", "Undo it"),
    ),
    "budget": (
        Button("decision", "approve", "Add to the budget", "primary"),
        Button("decision", "reject", "Add nothing", "danger"),
    ),
    "watchdog": (Button("decision", "cancel", "End the task", "danger"),),
    "window": (Button("decision", "approve", "Approve all", "primary"),),
}
