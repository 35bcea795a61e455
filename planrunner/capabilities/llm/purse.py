"""What an attempt may still spend on models: every request is held to the worst it can cost before it leaves.

The engine has set amounts aside for the attempt. A request that could use more than is left of them is refused; what
one used comes off. Where one does not tell in good order what it used, the attempt as a whole tells nothing, and the
engine counts all that was set aside.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.llm.models import Model
from planrunner.capabilities.llm.notes import Noted, Notes
from planrunner.capabilities.llm.prices import cost, line_to_add
from planrunner.capabilities.usage import require_calls

USUAL_OUTPUT = 4096
"""Tokens that a reply may have where neither plan nor project say how many."""

ALLOWANCE = 1024
"""Tokens by which a provider may add to a request: marks between messages, how to call tools, the schema once more."""


class Tokens(NamedTuple):
    """Tokens that went in and came out, or may at most."""

    input: int
    output: int


class Used(NamedTuple):
    """What a request used; ``cost`` in dollars is None where the model has no known price."""

    tokens: Tokens
    cost: float | None


def most_input(size: int) -> int:
    """The tokens that a request of so many bytes of text can have at most: none is shorter than a byte."""
    return size + ALLOWANCE


class Purse:
    """Belongs to one attempt and one thread."""

    __slots__ = ("_context", "_held", "_limits", "_notes", "_spent", "calls", "unknown")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._limits = dict(context.call.reserved)
        self._notes = Notes(context)
        self._spent = {"cost": 0.0, "tokens": 0.0}
        self._held = {"cost": 0.0, "tokens": 0.0}
        self.calls = 0
        self.unknown: set[str] = set()
        """What of cost and tokens cannot be told any more, since a request used nobody knows how much."""

    def take(self, model: Model, most: Tokens) -> Hold:
        """Set the worst case of a request aside, and count the call. Raises Failure (budget) where it does not fit."""
        worst = cost(model, *most)
        self.check_calls(1)
        if worst is None and "cost" in self._limits:
            raise Failure(_unpriced(model), "budget")
        self._fit("tokens", float(sum(most)), most)
        self._fit("cost", worst or 0.0, most)
        self._notes.add(Noted(1, worst or 0.0, sum(most)))
        self.calls += 1
        self._context.spend(calls=1)
        hold = Hold(self, model, float(sum(most)), worst or 0.0)
        self._add(self._held, hold.tokens, hold.cost)
        return hold

    def check_calls(self, more: int) -> None:
        """Raises Failure (budget) where the attempt has not set aside that many calls more."""
        require_calls(self._context, self.calls + more)

    def most_output(self, model: Model, size: int) -> int:
        """How long a reply may be where nobody says: as long as what is set aside allows, within reason."""
        for output in (USUAL_OUTPUT, 2048, 1024, 512, 256, 128, 64):
            most = Tokens(most_input(size), output)
            if float(sum(most)) <= self._left("tokens") and (cost(model, *most) or 0.0) <= self._left("cost"):
                return output
        return 64

    def tell(self) -> None:
        """Tell the engine what was used. What is not known is not told, which counts as all that was set aside."""
        on_its_way = {what for what, amount in self._held.items() if amount}
        known = {what: amount for what, amount in self._spent.items() if what not in self.unknown | on_its_way}
        earlier = self._notes.earlier
        cost = round(known["cost"] + earlier.cost, 9) if "cost" in known else None
        tokens = int(known["tokens"]) + earlier.tokens if "tokens" in known else None
        self._context.spend(cost=cost, tokens=tokens, calls=earlier.calls)
        self._notes.close(Noted(self.calls + earlier.calls, cost or 0.0, tokens or 0))

    def settle(self, hold: Hold, used: Used | None) -> None:
        """A request is over: give back what was set aside for it. ``used`` is None where that is not known."""
        self._add(self._held, -hold.tokens, -hold.cost)
        if used is None:
            free = cost(hold.model, 1_000_000, 1_000_000) == 0  # however much it was
            self.unknown |= {"tokens"} if free else {"cost", "tokens"}
            self._add(self._spent, hold.tokens, hold.cost)
            return
        if used.cost is None:
            self.unknown.add("cost")
        self._notes.lower(Noted(0, hold.cost - (used.cost or 0.0), int(hold.tokens) - sum(used.tokens)))
        self._add(self._spent, float(sum(used.tokens)), used.cost or 0.0)

    def _left(self, what: str) -> float:
        limit = self._limits.get(what)
        return float("inf") if limit is None else float(limit) - self._spent[what] - self._held[what]

    def _fit(self, what: str, wanted: float, most: Tokens) -> None:
        left = self._left(what)
        if wanted > left + 1e-9:
            raise Failure(
                f"at worst the request uses {_shown(what, wanted)} ({most.input} tokens in, {most.output} out), and "
                f"the attempt has {_shown(what, max(left, 0.0))} left of what it set aside: raise "
                f"`budgets: {{{what}: …}}` of the task or lower `max_tokens`",
                "budget",
            )

    @staticmethod
    def _add(amounts: dict[str, float], tokens: float, dollars: float) -> None:
        amounts["tokens"] += tokens
        amounts["cost"] = max(round(amounts["cost"] + dollars, 9), 0.0)


def _shown(what: str, amount: float) -> str:
    return f"${amount:.9f}".rstrip("0").rstrip(".") if what == "cost" else f"{amount:g} {what}"


class Hold(NamedTuple):
    """What is set aside for one request on its way."""

    purse: Purse
    model: Model
    tokens: float
    cost: float

    def settle(self, tokens: Tokens | None) -> Used | None:
        """The request used so many tokens, or nobody knows how many."""
        used = None if tokens is None else Used(tokens, cost(self.model, *tokens) if any(tokens) else 0.0)
        self.purse.settle(self, used)
        return used


def _unpriced(model: Model) -> str:
    return (
        f"nobody knows the price of `{model.name}` ({model.model}), and a budget limits the cost: add "
        f"`{line_to_add(model)}` to planrunner.yaml (dollars for a million tokens)"
    )


@contextmanager
def purse_of(context: Context) -> Iterator[Purse]:
    """The purse of an attempt; what was used is told at the end, also of one that failed."""
    purse = Purse(context)
    try:
        yield purse
    finally:
        purse.tell()
