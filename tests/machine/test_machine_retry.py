"""When a failed attempt is followed by another one, and how long that takes."""

from __future__ import annotations

import pytest
from rows import rows

from planrunner.machine.events import Outcome
from planrunner.machine.verdicts import is_retried, retry_delay, retry_policy
from planrunner.plan.model import Retry


@rows(
    ("retry", "attempts", "failure", "expected"),
    [
        (Retry(3), 1, "logic", True),
        (Retry(3), 2, "transient", True),
        (Retry(3), 3, "transient", False),
        (Retry(3), 1, "policy", False),
        (Retry(3), 1, "precondition", False),
        (Retry(3, on=("transient",)), 1, "logic", False),
        (Retry(3, on=("transient",)), 1, "timeout", True),
        (Retry(3, on=("logic",)), 1, "timeout", False),
        (Retry(3, on=("no_results",)), 1, "no_results", True),
        (Retry(3, on=("any",)), 1, "policy", True),
    ],
)
def test_the_class_of_a_failure_decides_whether_it_is_tried_again(
    retry: Retry, attempts: int, failure: str, expected: bool
) -> None:
    assert is_retried(retry, attempts, failure) is expected


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [("fixed", [2.0, 2.0, 2.0]), ("linear", [2.0, 4.0, 6.0]), ("exponential", [2.0, 4.0, 8.0])],
)
def test_backoff_grows_as_its_name_says(backoff: str, expected: list[float]) -> None:
    retry = Retry(5, backoff, 2.0, 300.0, 0.0)  # type: ignore[arg-type]
    assert [retry_delay(retry, attempt, "k") for attempt in (1, 2, 3)] == expected


def test_a_delay_never_passes_its_maximum_however_many_attempts_there_were() -> None:
    assert retry_delay(Retry(10_000, "exponential", 1.0, 30.0, 0.0), 9_999, "k") == 30.0


def test_jitter_stays_within_its_fraction_and_is_the_same_for_the_same_key() -> None:
    retry = Retry(3, "fixed", 10.0, 300.0, 0.2)
    delays = [retry_delay(retry, 1, f"{seed}:task:1") for seed in range(200)]
    assert all(8.0 <= wait <= 12.0 for wait in delays)
    assert len({round(wait, 6) for wait in delays}) > 150
    assert retry_delay(retry, 1, "7:task:1") == retry_delay(retry, 1, "7:task:1")


ASKING = Outcome("transient", retry_after=7.0, retry={"attempts": 3, "delay": 0.5, "max_delay": 60.0})


@rows(
    ("retry", "attempts", "failure", "allowed"),
    [
        (Retry(), 2, "transient", 3),
        (Retry(), 3, "transient", None),
        (Retry(), 1, "gone", None),
        (Retry(5), 2, "transient", 5),
        (Retry(2), 2, "transient", 3),
        (Retry(5, on=("logic",)), 2, "transient", 3),
    ],
)
def test_the_task_decides_and_then_its_capability(
    retry: Retry, attempts: int, failure: str, allowed: int | None
) -> None:
    policy = retry_policy(retry, ASKING, attempts, failure)
    assert (policy and policy.attempts) == allowed


@pytest.mark.parametrize(("asked", "wait"), [(None, 2.0), (1.0, 2.0), (7.0, 7.0), (600.0, 30.0)])
def test_the_pause_is_as_long_as_asked_up_to_the_longest_delay(asked: float | None, wait: float) -> None:
    assert retry_delay(Retry(3, "fixed", 2.0, 30.0, 0.0), 1, "k", asked) == wait
