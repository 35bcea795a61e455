"""What plans/capabilities/python.yaml calls: plain functions, which know nothing of planrunner."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal


@dataclass
class Item:
    """One line of an order."""

    name: str
    price: Decimal
    count: int = 1


def total(items: list[Item], currency: Literal["EUR", "USD"] = "EUR") -> dict[str, object]:
    """The sum of an order."""
    print(f"adding up {len(items)} items")
    amount = sum((item.price * item.count for item in items), Decimal())
    return {"amount": amount, "currency": currency, "names": [item.name for item in items]}
