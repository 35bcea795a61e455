"""Identities of traces and spans: derived from runs and attempts, so that what is exported twice is the same span."""

from __future__ import annotations

from hashlib import sha256

from planrunner.records import Struct

_LENGTHS = (2, 32, 16, 2)
_HEX = frozenset("0123456789abcdef")


class SpanIdentity(Struct):
    """A span as W3C Trace Context names it; ``trace`` has 16 bytes, ``span`` 8."""

    trace: int
    span: int
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace:032x}-{self.span:016x}-{int(self.sampled):02x}"


def read_traceparent(text: str) -> SpanIdentity | None:
    """The span that a ``traceparent`` names; None for what is not one."""
    parts = text.strip().split("-")
    written = tuple(map(len, parts[:4])) == _LENGTHS and all(_HEX.issuperset(part) for part in parts[:4])
    if not written or parts[0] == "ff" or (parts[0] == "00" and len(parts) > 4):
        return None
    trace, span, flags = (int(part, 16) for part in parts[1:4])
    return SpanIdentity(trace, span, bool(flags & 1)) if trace and span else None


def span_number(*parts: str) -> int:
    """The number of a span that is known by these words; never 0."""
    return int.from_bytes(sha256("\0".join(("span", *parts)).encode("utf-8", "surrogatepass")).digest()[:8], "big") or 1


def run_identity(run: str, outside: str = "") -> SpanIdentity:
    """The span of a run, in the trace of the ``traceparent`` that it was started with, else in one of its own."""
    around = read_traceparent(outside) if outside else None
    if around is not None:
        return SpanIdentity(around.trace, span_number(run), around.sampled)
    trace = int.from_bytes(sha256(f"trace\0{run}".encode()).digest()[:16], "big")
    return SpanIdentity(trace or 1, span_number(run))


def attempt_identity(run: SpanIdentity, key: str) -> SpanIdentity:
    """The span of an attempt, by the key of its start."""
    return run._replace(span=span_number(key))
