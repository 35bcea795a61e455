"""What requests to models use: read out of replies, priced, noted, and held to what the attempt may spend.

The engine has set amounts aside for the attempt. Every request is held to the worst it can cost before it leaves; one
that could use more than is left is refused, and what one used comes off. A price that is not known is None and never
nothing. A request whose reply was lost counts as the worst it can have cost. Usage is believed only where it is
possible: a number that is missing, is not a whole number, is below zero or above the most that the request can have
used makes the whole of it unknown, and the engine counts all that was set aside.

What requests on their way may cost is noted before they leave: a runner that is killed cannot report it any more, so
the attempt that is issued again does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib import import_module
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.llm.models import Model
from planrunner.capabilities.outputs import budget_key, require_calls
from planrunner.errors import StorageFailed
from planrunner.jsontext import read_json, write_json

Json = Any


class Usage(NamedTuple):
    """Tokens in and out, and dollars; None stands for what is not known."""

    input: int | None
    output: int | None
    cost: float | None


def usage_of(attempts: list[dict[str, Json]]) -> Usage:
    """What all requests used together; what one of them does not tell is not known of all."""
    used = [usage["usage"] for usage in attempts]
    if None in used:
        return Usage(None, None, None)
    cost = None if any(usage["cost"] is None for usage in used) else round(sum(usage["cost"] for usage in used), 9)
    return Usage(sum(usage["input"] for usage in used), sum(usage["output"] for usage in used), cost)


def require_price(model: Model) -> None:
    """Raises Failure (budget) for a model whose price is not known: nothing can hold it to a limit of the cost."""
    if cost(model, 1, 1) is None:
        raise Failure(
            f"the price of `{model.name}` ({model.model}) is unknown, and a budget limits the cost: add "
            f"`models: {{{model.name}: {{price: {{input: DOLLARS, output: DOLLARS}}}}}}` to planrunner.yaml "
            "(dollars for a million tokens)",
            "budget",
        )


_KNOWN = ("openai", "anthropic", "google")


def cost(model: Model, input: int, output: int) -> float | None:
    """Dollars for that many tokens, rounded up to a billionth; None where the price is not known."""
    if model.price is not None:
        return _rounded((input * model.price.input + output * model.price.output) / 1e6)
    prices = _price_list()
    if prices is None:
        return None
    usage = prices.Usage(input_tokens=input, output_tokens=output)
    try:
        if model.own_address:
            price = prices.calc_price(usage, model.model, provider_api_url=model.base_url)
        elif model.provider in _KNOWN:
            price = prices.calc_price(usage, model.model, provider_id=model.provider)
        else:
            return None
    except (LookupError, ValueError):
        return None
    return _rounded(float(price.total_price))


@cache
def _price_list() -> Any:
    """The library with some thousand prices; None without the extra `llm`."""
    try:
        return import_module("genai_prices")
    except ImportError:
        return None


def _rounded(price: float) -> float:
    return math.ceil(price * 1e9 - 1e-6) / 1e9


class Noted(NamedTuple):
    calls: int = 0
    cost: float = 0.0
    tokens: int = 0


class Notes:
    """The notes of one attempt; none without an engine. Belongs to one thread."""

    __slots__ = ("_context", "_name", "_now", "earlier")

    def __init__(self, context: Context) -> None:
        self._context = context
        key = context.call.key.encode("utf-8", "surrogatepass")
        self._name = f"llm {sha256(key).hexdigest()[:40]}" if context.services is not None and key else ""
        text = context.noted(self._name) if self._name else ""
        self.earlier = Noted(*read_json(text)) if text else Noted()
        """What requests of an earlier issue of the attempt used at most, which were not reported."""
        self._now = self.earlier

    def add(self, more: Noted) -> None:
        """Note it durably. Raises StorageFailed where it cannot be written."""
        if not self._name or not any(more):
            return
        now = self._now
        total = Noted(now.calls + more.calls, round(now.cost + more.cost, 9), now.tokens + more.tokens)
        self._context.note(self._name, write_json(list(total)) if any(total) else "")
        self._now = total

    def lower(self, less: Noted) -> None:
        """Take off what was not used. Where that cannot be written, the note stays too high, and never too low."""
        try:
            self.add(Noted(-less.calls, -less.cost, -less.tokens))
        except StorageFailed:
            return


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


def most_tokens(text: str) -> int:
    """The tokens that a text can have at most: none is shorter than a byte."""
    return len(text.encode("utf-8", "replace"))


def most_input(size: int) -> int:
    """The tokens that a request of so many bytes of text can have at most: none is shorter than a byte."""
    return size + ALLOWANCE


class Purse:
    """Belongs to one attempt and one thread."""

    __slots__ = ("_context", "_limits", "_notes", "_reserved", "_spent", "calls", "unknown")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._limits = dict(context.call.reserved)
        self._notes = Notes(context)
        self._spent = {"cost": 0.0, "tokens": 0.0}
        self._reserved = {"cost": 0.0, "tokens": 0.0}
        self.calls = 0
        self.unknown: set[str] = set()
        """Which of cost and tokens cannot be reported, since a request used an unknown amount."""

    def take(self, model: Model, most: Tokens) -> Reservation:
        """Set the worst case of a request aside, and count the call. Raises Failure (budget) where it does not fit."""
        worst = cost(model, *most)
        self.check_calls(1)
        if "cost" in self._limits:
            require_price(model)
        self._fit("tokens", float(sum(most)), most)
        self._fit("cost", worst or 0.0, most)
        self._notes.add(Noted(1, worst or 0.0, sum(most)))
        self.calls += 1
        self._context.spend(calls=1)
        reservation = Reservation(self, model, most, worst or 0.0)
        self._add(self._reserved, reservation.tokens, reservation.cost)
        return reservation

    def check_calls(self, more: int) -> None:
        """Raises Failure (budget) where the attempt has not set aside that many calls more."""
        require_calls(self._context, self.calls + more)

    def most_output(self, model: Model, size: int) -> int:
        """The tokens of a reply where no limit is set: as many as the reservation allows, at most ``USUAL_OUTPUT``."""
        for output in (USUAL_OUTPUT, 2048, 1024, 512, 256, 128, 64):
            most = Tokens(most_input(size), output)
            if float(sum(most)) <= self._left("tokens") and (cost(model, *most) or 0.0) <= self._left("cost"):
                return output
        return 64

    def tell(self) -> None:
        """Tell the engine what was used. What is not known is not told, which counts as all that was set aside."""
        on_its_way = {what for what, amount in self._reserved.items() if amount}
        known = {what: amount for what, amount in self._spent.items() if what not in self.unknown | on_its_way}
        earlier = self._notes.earlier
        cost = round(known["cost"] + earlier.cost, 9) if "cost" in known else None
        tokens = int(known["tokens"]) + earlier.tokens if "tokens" in known else None
        self._context.spend(cost=cost, tokens=tokens, calls=earlier.calls)
        self._notes.lower(Noted(self.calls + earlier.calls, cost or 0.0, tokens or 0))

    def settle(self, reservation: Reservation, used: Used | None) -> None:
        """A request is over: give back what was set aside for it. ``used`` is None where that is not known."""
        self._add(self._reserved, -reservation.tokens, -reservation.cost)
        if used is None:
            free = cost(reservation.model, 1_000_000, 1_000_000) == 0  # however much it was
            self.unknown |= {"tokens"} if free else {"cost", "tokens"}
            self._add(self._spent, reservation.tokens, reservation.cost)
            return
        if used.cost is None:
            self.unknown.add("cost")
        self._notes.lower(Noted(0, reservation.cost - (used.cost or 0.0), int(reservation.tokens) - sum(used.tokens)))
        self._add(self._spent, float(sum(used.tokens)), used.cost or 0.0)

    def _left(self, what: str) -> float:
        limit = self._limits.get(what)
        return float("inf") if limit is None else float(limit) - self._spent[what] - self._reserved[what]

    def _fit(self, what: str, wanted: float, most: Tokens) -> None:
        left = self._left(what)
        if wanted > left + 1e-9:
            raise Failure(
                f"the request may use {_shown(what, wanted)} ({most.input} tokens in, {most.output} out), and "
                f"{_shown(what, max(left, 0.0))} of the reservation is left: raise "
                f"{budget_key(self._context, what, '…')} or lower `max_tokens`",
                "budget",
            )

    @staticmethod
    def _add(amounts: dict[str, float], tokens: float, price: float) -> None:
        amounts["tokens"] += tokens
        amounts["cost"] = max(round(amounts["cost"] + price, 9), 0.0)


def dollars(amount: float) -> str:
    """An amount of money for people, to a billionth."""
    return f"${amount:.9f}".rstrip("0").rstrip(".")


def _shown(what: str, amount: float) -> str:
    return dollars(amount) if what == "cost" else f"{amount:g} {what}"


class Reservation(NamedTuple):
    """What is set aside for one request on its way."""

    purse: Purse
    model: Model
    most: Tokens
    cost: float

    @property
    def tokens(self) -> float:
        return float(sum(self.most))

    def lost(self) -> Used:
        """The reply was lost: the worst case counts as used."""
        used = Used(self.most, cost(self.model, *self.most))
        self.purse.settle(self, used)
        return used

    def settle(self, tokens: Tokens | None) -> Used | None:
        """The request used so many tokens; None: unknown."""
        used = None if tokens is None else Used(tokens, cost(self.model, *tokens) if any(tokens) else 0.0)
        self.purse.settle(self, used)
        return used


@contextmanager
def purse_of(context: Context) -> Iterator[Purse]:
    """The purse of an attempt; what was used is told at the end, also of one that failed."""
    purse = Purse(context)
    try:
        yield purse
    finally:
        purse.tell()


_INPUT = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_eval_count")
_MORE_INPUT = ("cache_read_input_tokens", "cache_creation_input_tokens", "toolUsePromptTokenCount")
_OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount", "eval_count")
_MORE_OUTPUT = ("thoughtsTokenCount",)
_NOTHING = {"input_tokens": 0, "output_tokens": 0}
_COUNTS = frozenset((*_INPUT, *_MORE_INPUT, *_OUTPUT, *_MORE_OUTPUT))


class Meter:
    """Reads the usage out of one reply, in one piece or in events; a later number stands for an earlier one."""

    __slots__ = ("_found", "_most", "odd")

    def __init__(self, most: Tokens) -> None:
        self._most = most
        self._found: dict[str, int] = {}
        self.odd = ""
        """Why what the reply says cannot be believed."""

    def tokens(self) -> Tokens | None:
        """What was used, where that is known."""
        into, out = self._sum(_INPUT, _MORE_INPUT), self._sum(_OUTPUT, _MORE_OUTPUT)
        if not self._most.output:
            out = out or 0  # vectors come out of it, not text
        if self.odd or not into or not (out or out == self._most.output):
            return None
        return Tokens(into, out) if into <= self._most.input and out <= self._most.output else None

    def _sum(self, ways: tuple[str, ...], more: tuple[str, ...]) -> int | None:
        first = next((self._found[way] for way in ways if way in self._found), None)
        return None if first is None else first + sum(self._found.get(each, 0) for each in more)

    def cleaned(self, text: bytes) -> bytes:
        """The same JSON document without its usage; text that is not such a document comes back as it is."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return text
        places = list(_places(document)) if isinstance(document, dict) else []
        for holder, name in places:
            self.odd = self._read(holder[name]) or self.odd
            is_message = document.get("type") in ("message", "message_start", "message_delta")
            holder[name] = dict(_NOTHING) if is_message else None
        return json.dumps(document).encode() if places else text

    def _read(self, usage: Json) -> str:
        if not isinstance(usage, dict):
            return f"usage is {str(usage)[:40]}" if usage is not None else ""
        for name, value in usage.items():
            if name not in _COUNTS or value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= max(self._most):
                return f"{name} is {str(value)[:40]}"
            self._found[name] = value
        return _odd_inside(usage)


def _places(document: dict[str, Json]) -> Iterator[tuple[dict[str, Json], str]]:
    """Where the documents of the providers have their usage."""
    for holder in (document, document.get("message"), document.get("response")):
        if isinstance(holder, dict):
            for name in ("usage", "usageMetadata"):
                if name in holder:
                    yield holder, name


def _odd_inside(value: Json) -> str:
    """Numbers in the details that a library may stumble over; they are not counted."""
    if isinstance(value, dict):
        return next((why for part in value.values() if (why := _odd_inside(part))), "")
    if isinstance(value, list):
        return next((why for part in value if (why := _odd_inside(part))), "")
    if isinstance(value, float):
        return f"a count is {value}" if value != value or abs(value) > 1e9 or value < 0 else ""
    return f"a count is {value}" if isinstance(value, int) and not 0 <= value <= 10**12 else ""
