"""Whether a failed attempt is followed by another one, and when."""

from __future__ import annotations

from hashlib import sha256

from planrunner.plan.model import Retry


def again(retry: Retry, attempts: int, failure: str) -> bool:
    """True when attempts are left and the failure class is one that the task retries.

    Without a list every class is retried but policy, preconditions and what people have refused. A timeout counts as
    transient; a failure mode only under its name, since its author wrote down what to do about it.
    """
    if attempts >= retry.attempts:
        return False
    if not retry.on:
        return failure not in ("policy", "precondition", "rejected", "expired")
    return failure in retry.on or "any" in retry.on or (failure == "timeout" and "transient" in retry.on)


def delay(retry: Retry, attempts: int, key: str) -> float:
    """Seconds before the next attempt. The jitter is a hash of ``key`` (seed, run, task and attempt), so that the same
    run waits the same time again."""
    if retry.backoff == "fixed":
        wait = retry.delay
    elif retry.backoff == "linear":
        wait = retry.delay * attempts
    else:
        wait = retry.delay * 2.0 ** min(attempts - 1, 60)
    wait = min(wait, retry.max_delay)
    part = int.from_bytes(sha256(key.encode()).digest()[:6], "big") / 2**48
    return max(0.0, wait * (1.0 + retry.jitter * (2.0 * part - 1.0)))
