"""What an agent did, round by round: what its model said, the calls it asked for and what they gave, and the cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planrunner.escapes import harmless, masked
from planrunner.jsontext import as_text
from planrunner.machine.budgets import limit_of
from planrunner.machine.graph import Frame
from planrunner.machine.ledger import amount
from planrunner.machine.names import frames, label
from planrunner.plan.agents import ASKING, UNNAMED
from planrunner.records import Struct
from planrunner.views.page.figures import amount_text, count, duration, plain
from planrunner.views.page.signs import Sign, task_sign
from planrunner.views.page.story import Story, place_of
from planrunner.views.status import shown_status

Json = Any

ROUNDS = 40
"""Rounds that are shown; of more the last ones."""
SAID = 6_000
"""Characters of what a model said."""
GIVEN = 2_000
"""Characters of what a call gave."""
ARGUMENTS = 160
"""Characters of the arguments of a call."""


class Call(Struct):
    """A call that a model asked for. ``given`` is what it gave; ``refused`` says why it was not made."""

    tool: str
    arguments: str
    sign: Sign
    meta: str
    given: str
    refused: str
    task: str


class Round(Struct):
    """One request to the model: what it said, the calls it asked for, its answer (empty until it has one), what it
    used, and the cost of the agent after it, as text and in percent of the limit or of the whole."""

    number: int
    text: str
    calls: tuple[Call, ...]
    answer: str
    meta: str
    total: str
    share: float


class Agent(Struct):
    """The work of an agent on a task. ``tools`` are capability, calls and time."""

    place: str
    task: str
    label: str
    title: str
    name: str
    model: str
    rounds: tuple[Round, ...]
    earlier: int
    most: int
    cost: str
    limit: str
    refused: int
    tools: tuple[tuple[str, int, str], ...]


def agents(story: Story) -> list[Agent]:
    """The agents of a run, in the order of its plan."""
    state, opened = story.state, frames(story.state)
    numbers = [number for number, task in enumerate(state.specs) if task.agent is not None and number in opened]
    return [_agent(story, number, opened) for number in numbers]


def _agent(story: Story, number: int, opened: dict[int, list[Frame]]) -> Agent:
    state = story.state
    task, agent = state.specs[number], state.specs[number].agent
    assert agent is not None
    asked = [_parts(story, frame) for frame in opened[number]]
    spent = _spent(story, number)
    limit = limit_of(state, number, "cost")
    bound = float(amount("cost", limit)) if limit is not None else 0.0
    rounds = list(_rounds(story, asked, opened, bound or spent))
    models = [str(state.tasks[model].outputs.get("model", "")) for model, _ in asked if model >= 0]
    return Agent(
        place_of(task.id),
        task.id,
        label(state, number),
        task.title or label(state, number),
        "" if agent.name == UNNAMED else agent.name,
        next((name for name in reversed(models) if name), ""),
        tuple(rounds[-ROUNDS:]),
        max(0, len(rounds) - ROUNDS),
        task.loop.max if task.loop is not None else 0,
        amount_text("cost", spent),
        amount_text("cost", bound) if bound else "",
        sum(bool(call.refused) for each in rounds for call in each.calls),
        tuple(_tools(rounds)),
    )


def _parts(story: Story, frame: Frame) -> tuple[int, int]:
    """The numbers of the request to the model and of what holds the calls, in a round; -1 for one there is not."""
    model = calls = -1
    for number in range(frame.first, frame.first + frame.size):
        if story.state.specs[number].uses == ASKING:
            model = number
        elif story.state.specs[number].id.endswith("/calls"):
            calls = number
    return model, calls


def _spent(story: Story, number: int) -> float:
    ledger = story.state.ledger
    account = ledger.accounts.get(number) if ledger is not None else None
    if account is not None and account.spent.get("cost"):
        return float(amount("cost", account.spent["cost"]))
    prefix = story.state.specs[number].id
    return sum(
        float((piece.outcome.usage or {}).get("cost") or 0.0)
        for path, pieces in story.pieces.items()
        if path.startswith((prefix + "#", prefix + "@"))
        for piece in pieces
        if piece.outcome is not None
    )


def _rounds(
    story: Story, asked: list[tuple[int, int]], opened: dict[int, list[Frame]], bound: float
) -> Iterator[Round]:
    """The calls that a round asks for are made at the beginning of the next one."""
    state, total = story.state, 0.0
    for at, (model, _) in enumerate(asked):
        if model < 0:
            continue
        outputs = state.tasks[model].outputs
        made = opened.get(asked[at + 1][1], ()) if at + 1 < len(asked) else ()
        items = [number for frame in made for number in range(frame.first, frame.first + frame.size)]
        wanted: list[dict[str, Json]] = list(outputs.get("calls") or ())
        calls = tuple(_call(story, call, items[nth] if nth < len(items) else -1) for nth, call in enumerate(wanted))
        calls += tuple(_not_made(each) for each in outputs.get("refused") or () if isinstance(each, dict))
        outcome = state.tasks[model].outcome
        usage = outcome.usage if outcome is not None else {}
        total += float((usage or {}).get("cost") or 0.0)
        answer = outputs.get("answer")
        yield Round(
            at + 1,
            _clipped(str(outputs.get("text") or ""), SAID),
            calls,
            "" if answer in (None, "") else _clipped(as_text(answer, 20_000), SAID),
            _meta(story, model, usage or {}),
            amount_text("cost", total),
            round(100 * min(1.0, total / bound), 1) if bound else 0.0,
        )


def _meta(story: Story, model: int, usage: dict[str, Json]) -> str:
    pieces = story.pieces.get(story.state.specs[model].id, ())
    took = duration(sum(piece.lasted(story.last) for piece in pieces if piece.kind == "attempt"))
    attempts = story.state.tasks[model].outputs.get("attempts") or []
    figures: dict[str, Json] = (attempts[-1].get("usage") or {}) if attempts and isinstance(attempts[-1], dict) else {}
    tokens = f"{figures['input']:,} in · {figures.get('output', 0):,} out tokens" if "input" in figures else ""
    cost = amount_text("cost", float(usage["cost"])) if usage.get("cost") else ""
    failed = story.state.tasks[model].status
    status = "" if failed == "completed" else task_sign(shown_status(story.state, model)).word.lower()
    return " · ".join(part for part in (status, tokens, cost, took) if part)


def _call(story: Story, wanted: dict[str, Json], number: int) -> Call:
    state = story.state
    arguments = wanted.get("arguments")
    given = {
        str(name): as_text(value, 400) for name, value in (arguments if isinstance(arguments, dict) else {}).items()
    }
    text = harmless(masked(" ".join(f"{name}={value}" for name, value in given.items())))
    shown = text if len(text) <= ARGUMENTS else f"{text[: ARGUMENTS - 1]}…"
    tool = harmless(str(wanted.get("tool") or "?"))
    if number < 0:
        return Call(tool, shown, task_sign("pending"), "not made", "", "", "")
    task, status = state.tasks[number], shown_status(state, number)
    took = duration(sum(piece.lasted(story.last) for piece in story.pieces.get(state.specs[number].id, ())))
    refused = task.detail or (task.outcome.message if task.outcome is not None else "")
    outputs = task.outputs or (task.outcome.outputs if task.outcome is not None else {})
    lines = "\n".join(f"{name}: {as_text(value, GIVEN)}" for name, value in outputs.items())
    return Call(
        tool,
        shown,
        task_sign(status),
        " · ".join(filter(None, (took, *_hooked(wanted)))),
        _clipped(lines, GIVEN),
        plain(refused) if task.failure in ("policy", "rejected", "expired") else "",
        state.specs[number].id,
    )


def _not_made(refused: dict[str, Json]) -> Call:
    """A call that the model asked for and that did not become a task."""
    tool, why = (harmless(str(refused.get(name) or "")) for name in ("tool", "why"))
    hook = plain(masked(str(refused.get("hook") or "")))
    meta = f"not made, by calls: {hook}" if hook else "not made"
    return Call(tool, "", task_sign("skipped"), meta, "", plain(masked(why)), "")


def _hooked(wanted: dict[str, Json]) -> Iterator[str]:
    """What hooks of the plan say of a call that is made."""
    if wanted.get("hook"):
        yield plain(masked(f"put to a person by calls: {wanted['hook']}"))
    for text in wanted.get("say") or ():
        yield plain(masked(f"with its result the model is told: {text}"))


def _clipped(text: str, most: int) -> str:
    shown = plain(masked(text))
    return shown if len(shown) <= most else f"{shown[:most]}\n… {count(len(shown) - most, 'more character')}"


def _tools(rounds: list[Round]) -> Iterator[tuple[str, int, str]]:
    """Each tool that was asked for, with how often, and how often it was refused."""
    by_tool: dict[str, list[Call]] = {}
    for each in rounds:
        for call in each.calls:
            by_tool.setdefault(call.tool, []).append(call)
    for tool, calls in by_tool.items():
        refused = sum(bool(call.refused) for call in calls)
        yield tool, len(calls), f"{refused} refused" if refused else ""
