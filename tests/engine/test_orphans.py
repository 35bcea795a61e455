"""Orphans that shed every mark: ended where only attempts that were made to end can have left them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from planrunner.ancestry import look
from planrunner.engine import orphans
from planrunner.engine.orphans import Descent
from planrunner.engine.poller import uptime


@pytest.fixture
def found() -> Descent:
    """Made before the orphan, and not within the hundredth of a second in which that is born."""
    descent = Descent()
    time.sleep(0.02)
    return descent


@pytest.fixture
def orphan(found: Descent) -> Iterator[int]:
    process = subprocess.Popen(["sleep", "30"])
    yield process.pid
    process.kill()
    process.wait()


def test_the_birth_of_a_process_is_known(orphan: int) -> None:
    seen = look(orphan)
    assert seen is not None and abs(uptime() - seen.born) < 240
    assert look(2**22 + 1) is None


def test_a_number_that_passed_to_another_process_is_not_taken_for_it(orphan: int) -> None:
    seen = look(orphan)
    assert seen is not None and orphans.same(seen)(orphan)
    assert not orphans.same(seen._replace(born=seen.born - 1))(orphan)


def test_an_orphan_that_nobody_else_can_have_left_is_doomed(found: Descent, orphan: int) -> None:
    assert found.is_doomed(orphan, [])
    assert found.is_doomed(orphan, [uptime() + 10])
    assert not found.is_doomed(2**22 + 1, [])


def test_an_orphan_is_spared_while_something_goes_on_that_may_have_left_it(found: Descent, orphan: int) -> None:
    assert not found.is_doomed(orphan, [uptime() - 10])


def test_what_was_left_by_an_attempt_that_ended_by_itself_stays(found: Descent, orphan: int) -> None:
    found.ended_well(uptime() - 10)
    assert not found.is_doomed(orphan, [])


def test_what_was_there_before_the_first_attempt_is_spared(found: Descent, orphan: int) -> None:
    """The first process of a container adopts what others leave behind."""
    later = Descent()
    assert found.is_doomed(orphan, []) and not later.is_doomed(orphan, [])


def test_an_attempt_that_ended_before_left_nothing_of_what_came_later(found: Descent) -> None:
    found.ended_well(uptime() - 10)
    time.sleep(0.1)
    process = subprocess.Popen(["sleep", "30"])
    assert found.is_doomed(process.pid, [])
    process.kill()
    process.wait()


def test_what_is_forgotten_spares_whoever_lived_then(
    found: Descent, orphan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "_KEPT", 1)
    found.ended_well(uptime() - 10)
    found.ended_well(uptime() + 10)
    assert not found.is_doomed(orphan, [])
    assert not found.is_doomed(os.getpid(), [])
