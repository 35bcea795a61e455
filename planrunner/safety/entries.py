"""What is wrong with ``provider_credentials`` beside the shape of its entries, which the schema judges."""

from __future__ import annotations

from collections.abc import Iterator

from planrunner.diagnostics import Diagnostic, Label
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence


def credential_faults(entries: Node) -> Iterator[Diagnostic]:
    """Two entries of one id."""
    seen: dict[str, Scalar] = {}
    for entry in entries.items if isinstance(entries, Sequence) else ():
        key = entry.get("id") if isinstance(entry, Mapping) else None
        if not isinstance(key, Scalar) or not isinstance(key.value, str):
            continue
        first = seen.setdefault(key.value, key)
        if first is not key:
            message = f"there are two credentials with the id `{key.value}`"
            yield Diagnostic("PLAN005", message, key.span, labels=(Label(first.span, "the first one"),))
