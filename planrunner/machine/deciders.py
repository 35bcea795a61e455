"""Who may decide what waits for people: one rule, and its wording for every surface."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol


class Asks(Protocol):
    """What names its deciders: a gate of a plan or of a run, or the event that opened one."""

    @property
    def roles(self) -> Sequence[str]: ...
    @property
    def people(self) -> Sequence[str]: ...
    @property
    def not_starter(self) -> bool: ...


class Deciders(NamedTuple):
    """Those with one of ``roles`` or among ``people`` (anyone where both are empty), with ``not_starter`` except the
    person who started the run."""

    roles: Sequence[str] = ()
    people: Sequence[str] = ()
    not_starter: bool = False


def named(asks: Asks) -> str:
    """``role `release` or ana``; ``anyone`` where none are named."""
    return " or ".join([*(f"role `{role}`" for role in asks.roles), *asks.people]) or "anyone"


def who_may(asks: Asks) -> str:
    """``role `release` or ana, except the person who started the run``."""
    return named(asks) + (", except the person who started the run" if asks.not_starter else "")


def barred(asks: Asks, gate: str, who: str, roles: Collection[str], starter: object) -> str:
    """Why a person with these roles may not decide; empty where they may."""
    if (asks.roles or asks.people) and not set(roles) & set(asks.roles) and who not in asks.people:
        return f"{who} may not decide `{gate}`: it needs {who_may(asks)}"
    if asks.not_starter and who == starter:
        other = "another person" if not (asks.roles or asks.people) else named(asks)
        return f"{who} started the run and may not decide `{gate}`: it needs {other}, or `approvers: {{starter: true}}`"
    return ""
