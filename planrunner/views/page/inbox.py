"""What waits for people, as the inbox lists it, and the questions that are not gates of the plan: used-up budgets,
tasks that run for too long, and review windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from planrunner.escapes import harmless
from planrunner.machine.admission import Wanted
from planrunner.machine.explain import why
from planrunner.machine.names import label, labelled
from planrunner.machine.state import State
from planrunner.machine.windows import Window
from planrunner.machine.windows import shown as window_shown
from planrunner.views.gates import doubt_object, suggestion
from planrunner.views.page.figures import rough
from planrunner.views.page.gate import GatePage

Json = Any


class Item(NamedTuple):
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


class BudgetPage(NamedTuple):
    """A limit that may be extended. ``suggested`` is what lets all that wait continue, as the form takes it."""

    run: str
    plan: str
    name: str
    question: str
    scope: str
    limits: tuple[tuple[str, str], ...]
    """What may be added to, and how much is suggested."""
    tasks: tuple[str, ...]


class DoubtPage(NamedTuple):
    """A task whose attempt was interrupted with an unknown result. ``log`` is the end of what it wrote, ``undoable``
    says that it can be rolled back."""

    run: str
    plan: str
    name: str
    label: str
    question: str
    command: str
    why: tuple[str, ...]
    log: str
    undoable: bool


class WatchdogPage(NamedTuple):
    """A task that runs for so long that people are asked about it."""

    run: str
    plan: str
    name: str
    label: str
    question: str


class WindowPage(NamedTuple):
    """A review window: gates that are shown and approved together. ``coming`` are tasks whose gates are still ahead."""

    run: str
    plan: str
    name: str
    gates: tuple[GatePage, ...]
    coming: tuple[str, ...]
    shown: str


OF_PROJECT = "-"
"""Stands for a run in addresses of what the project itself asks."""


def name_of(fact: Mapping[str, Json]) -> str:
    """The name of what the project itself asks, in addresses: ``trust/plans/x.yaml``."""
    return f"{fact['kind']}/{fact['gate']}"


def project_item(fact: Mapping[str, Json], now: float, mine: bool) -> Item:
    """A line of the inbox from what the project itself asks."""
    name, since = name_of(fact), fact.get("since")
    waited = "" if since is None else f"waiting {rough(max(0.0, now - since))}"
    where = "a plan to trust" if fact["kind"] == "trust" else "a trigger"
    return Item(
        address_of(OF_PROJECT, name),
        *(OF_PROJECT, name, harmless(str(fact["ask"])), where, waited, mine),
        *("gate", "gate") if fact["kind"] == "trust" else ("bad", "bad"),
    )


def address_of(run: str, name: str) -> str:
    """Where the page shows a question, below the address of the project."""
    return f"/inbox/{quote(run)}/{quote(name)}"


def questions(facts: Iterable[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    """The questions of a run, the gates of a review window as one; each as ``views/gates.py`` gives a gate."""
    every = list(facts)
    seen: set[str] = set()
    for fact in every:
        window = str(fact.get("window") or "")
        together = [other for other in every if window and other.get("window") == window]
        if len(together) < 2:
            yield fact
        elif window not in seen:
            seen.add(window)
            ask = f"{window}: {len(together)} gates to review together"
            yield {**fact, "gate": window, "ask": ask, "need": 1}


def item_of(run: Mapping[str, str], fact: Mapping[str, Json], since: float | None, now: float, mine: bool) -> Item:
    """A line of the inbox from a question as ``views/gates.py`` gives it. ``run`` has its ``id`` and its ``title``;
    ``since`` and ``now`` are seconds since 1970."""
    kind = str(fact.get("kind") or "")
    name = str(fact["gate"])
    words = {"budget": "budget", "watchdog": "runs for long", "doubt": "in doubt"}.get(kind, "")
    need = int(fact.get("need", 1))
    got = sum(vote["verdict"] == "approve" for vote in fact.get("votes", ()))
    parts = [run["title"], name, words or (f"{got} of {need} approvals" if need > 1 else "")]
    waited = "" if since is None else f"waiting {rough(max(0.0, now - since))}"
    icon = {"budget": "wait", "watchdog": "wait", "doubt": "doubt"}.get(kind, "gate")
    question = harmless(str(fact.get("ask") or name))
    return Item(
        address_of(run["id"], name),
        run["id"],
        name,
        question,
        " · ".join(filter(None, parts)),
        waited,
        mine,
        icon,
        "doubt" if kind == "doubt" else "gate",
    )


def budget_page(state: State, limits: list[Wanted]) -> BudgetPage:
    """Limits of one scope that tasks wait for."""
    first = limits[0]
    suggested = [tuple(suggestion(each).replace("'", "").split("=", 1)) for each in limits]
    return BudgetPage(
        state.run_id,
        _title(state),
        first.name,
        first.ask,
        first.scope,
        tuple((what, amount) for what, amount in suggested),
        tuple(dict.fromkeys(task for each in limits for task in each.tasks)),
    )


def doubt_page(state: State, number: int, log: str) -> DoubtPage:
    """A task in doubt; ``log`` is the end of what its attempt wrote."""
    fact = doubt_object(state, number)
    path = state.specs[number].id
    told = tuple(harmless(labelled(state, line)) for line in why(state, path))
    return DoubtPage(
        *(state.run_id, _title(state), path, label(state, number), harmless(fact["ask"]), fact["command"]),
        *(told, log, "rollback" in fact["answers"]),
    )


def watchdog_page(state: State, number: int, question: str) -> WatchdogPage:
    """A task that a watchdog asks about."""
    return WatchdogPage(state.run_id, _title(state), state.specs[number].id, label(state, number), harmless(question))


def window_page(state: State, window: Window, pages: tuple[GatePage, ...]) -> WindowPage:
    """A review window with the pages of its gates."""
    return WindowPage(state.run_id, _title(state), window.name, pages, window.coming, window_shown(state, window))


def _title(state: State) -> str:
    return state.plan.title or state.plan.id
