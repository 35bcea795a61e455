"""What holds for a whole plan: how it is undone, circuit breakers, labels that demand a gate, its deadline."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from planrunner.plan import lower_parts as parts
from planrunner.plan import lower_values as values
from planrunner.plan.expressions.quantities import parse_duration
from planrunner.plan.lower_gate import gate
from planrunner.plan.lower_values import Lowering
from planrunner.plan.model import Breaker, Budgets, Gate, RollbackPolicy
from planrunner.syntax.tree import Mapping, Node, Sequence


def rollback(low: Lowering, node: Node) -> RollbackPolicy | None:
    if not isinstance(node, Mapping):
        return None
    found = {str(key.value): value for key, value in node.entries}
    return RollbackPolicy(
        "strict" if "mode" in found and values.text(found["mode"]) == "strict" else "best_effort",
        values.texts(found["only"]) if "only" in found else (),
        parts.budgets(low, found["budgets"], Budgets()) if "budgets" in found else Budgets(),
    )


def breakers(low: Lowering, node: Node) -> tuple[Breaker, ...]:
    items = node.items if isinstance(node, Sequence) else ()
    return tuple(breaker for item in items if (breaker := _breaker(low, item)) is not None)


def _breaker(low: Lowering, node: Node) -> Breaker | None:
    uses = node.get("uses") if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping) or uses is None:
        return None
    failures, cooldown = node.get("failures"), node.get("cooldown")
    seconds = values.duration(low, cooldown) if cooldown is not None else None
    default = Breaker("")
    return Breaker(
        values.text(uses),
        (values.whole(failures) if failures is not None else 0) or default.failures,
        default.cooldown if seconds is None else seconds,
        uses.span,
    )


def gated(low: Lowering, node: Node) -> tuple[tuple[str, Gate], ...]:
    """The gates that a policy demands by label: under ``gates``, as ``labels``, or for ``prod`` alone."""
    if not isinstance(node, Mapping):
        return ()
    found: dict[str, Gate] = {}
    listed, prod, gates = node.get("labels"), node.get("requireGateForProd"), node.get("gates")
    if isinstance(listed, Mapping):
        found |= {str(key.value): _of_kind(low, kind) for key, kind in listed.entries}
    elif listed is not None:
        found |= {label: Gate() for label in values.texts(listed)}
    if prod is not None and values.truth(prod):
        found.setdefault("prod", Gate())
    for key, value in gates.entries if isinstance(gates, Mapping) else ():
        keys = {str(name.value): item for name, item in value.entries} if isinstance(value, Mapping) else {}
        found[str(key.value)] = gate(low, keys)
    return tuple(found.items())


def _of_kind(low: Lowering, node: Node) -> Gate:
    """A gate of which only the kind is given; one that checks has nothing to check then."""
    return Gate("decision") if values.text(node) == "decision" else gate(low, {"gate": node})


def deadline(low: Lowering, node: Node) -> float | None:
    """Seconds where a deadline is a duration; None for a date or words, which people read."""
    word = values.text(node)
    seconds = parse_duration(word)
    if seconds is None and re.fullmatch(_TIMELIKE, word):
        message = f"`{word[:40]}` looks like a duration and is none"
        low.report("PLAN006", message, node.span, "write `30m`, `2h` or `1d12h`, or a date")
    return seconds


def due(node: Node) -> float | None:
    """Seconds since 1970 where a deadline is a date or a time in ISO 8601; UTC where it names no zone, and a date means
    the end of that day. None for words, which people read."""
    word = values.text(node)
    if not re.match(r"\d{4}-\d\d-\d\d", word):
        return None
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment + timedelta(days=1) if len(word) == len("2026-12-31") else moment).timestamp()


_TIMELIKE = r"(?i)(?:\d+(?:\.\d+)?\s*(?!jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]+\s*)+"
