"""What a run has spent and what it has set aside: exact whole numbers for the plan and every task with a part in it.

Money is kept in billionths of a dollar, so that sums are exact in whatever order attempts end; time is left to the
clock of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from planrunner.records import Mutable, Struct, field

Json = Any
Amounts = dict[str, int]
"""Whole numbers by what they count."""

SPENDABLE = ("cost", "tokens", "calls")
"""What an attempt sets aside before it starts."""

COUNTED = (*SPENDABLE, "attempts", "iterations")

PLAN, ROLLBACK = -1, -2
"""Accounts that belong to no task: of the whole plan, and of what is reserved for undoing it; those of its rollbacks
and of the rollbacks of linked plans follow below."""

_SCALE = {"cost": 1_000_000_000}
_MOST = 1e15


def units(what: str, value: Json) -> int | None:
    """An amount of the plan language as a whole number; None for what is not an amount: text, NaN, less than
    nothing."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST:
        return None
    return round(value * _SCALE[what]) if what in _SCALE else ceil(value)


def amount(what: str, number: int) -> float | int:
    """The other way round: dollars, tokens, calls …"""
    return number / _SCALE[what] if what in _SCALE else number


class Scope(Struct):
    """The limits that hold for all of what happens inside a task, or the plan. ``time`` is in seconds, ``warn`` a
    share of each limit."""

    limits: Mapping[str, int]
    time: float | None = None
    warn: float | None = None
    on_exhausted: str = "stop"


class Account(Mutable):
    """What was spent and what is set aside inside one scope, and for what of it a warning was given."""

    spent: Amounts = {}
    reserved: Amounts = {}
    seconds: float = 0.0
    """Time its own attempts took."""
    warned: set[str] = field(default_factory=set)

    def taken(self, what: str) -> int:
        """Spent and set aside."""
        return self.spent.get(what, 0) + self.reserved.get(what, 0)


_EMPTY = Account()


class Over(Struct):
    """An attempt that used more than it had set aside."""

    number: int
    what: str
    reserved: int
    used: int


class Ledger(Mutable):
    """The accounts of a run. ``holdings`` is what each running attempt has set aside, ``extra`` what people added to
    limits, ``crossed`` and ``over`` are warnings not given yet, ``refused`` says who
    adds nothing to a limit and why."""

    accounts: dict[int, Account] = {}
    holdings: dict[int, Amounts] = {}
    extra: dict[tuple[int, str], float] = {}
    crossed: dict[tuple[int, str], None] = {}
    over: list[Over] = []
    refused: dict[tuple[int, str], str] = {}

    def read(self, number: int) -> Account:
        """The account of a scope, to be looked at only: it is not begun."""
        return self.accounts.get(number, _EMPTY)

    def account(self, number: int) -> Account:
        """The account of a scope, begun where there was none."""
        account = self.accounts.get(number)
        if account is None:
            account = self.accounts[number] = Account()
        return account

    def count(self, chain: Iterable[int], what: str) -> None:
        """One more attempt or iteration in every scope of the chain."""
        for scope in chain:
            spent = self.account(scope).spent
            spent[what] = spent.get(what, 0) + 1

    def reserve(self, chain: Iterable[int], number: int, amounts: Amounts) -> None:
        """Set aside for an attempt of ``number``; what an earlier issue of it had set aside is given back."""
        chain = tuple(chain)
        before = self.holdings.pop(number, {})
        for scope in chain:
            reserved = self.account(scope).reserved
            for what, held in before.items():
                reserved[what] -= held
            for what, more in amounts.items():
                reserved[what] = reserved.get(what, 0) + more
        if amounts:
            self.holdings[number] = amounts

    def settle(self, chain: Iterable[int], number: int, usage: Mapping[str, Json]) -> None:
        """An attempt is over: what it used is spent, and what it had set aside is given back. Whatever it does not
        tell in good order counts as used in full."""
        held = self.holdings.pop(number, {})
        used = {what: units(what, usage.get(what)) for what in SPENDABLE}
        debit = {what: held.get(what, 0) if used[what] is None else used[what] or 0 for what in SPENDABLE}
        self._book(chain, number, held, held, {what: more for what, more in debit.items() if more or what in held})

    def draw(self, chain: Iterable[int], number: int, usage: Mapping[str, Json]) -> None:
        """An attempt was cut off and will go on: what it is known to have used comes out of what it has set aside."""
        held = self.holdings.get(number, {})
        used = {what: units(what, usage.get(what)) for what in SPENDABLE}
        debit = {what: more for what, more in used.items() if more}
        freed = {what: min(more, held.get(what, 0)) for what, more in debit.items() if what in held}
        self._book(chain, number, held, freed, debit)
        if held:
            self.holdings[number] = {what: more - freed.get(what, 0) for what, more in held.items()}

    def _book(self, chain: Iterable[int], number: int, held: Amounts, freed: Amounts, debit: Amounts) -> None:
        for scope in chain:
            account = self.account(scope)
            for what, more in freed.items():
                account.reserved[what] -= more
            for what, more in debit.items():
                account.spent[what] = account.spent.get(what, 0) + more
        for what, more in debit.items():
            if more > held.get(what, 0):
                self.over.append(Over(number, what, held.get(what, 0), more))
