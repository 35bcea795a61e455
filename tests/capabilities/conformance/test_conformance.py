"""Every built-in capability holds to what planrunner asks of all; the cases are in ``cases_*.py``, a file a family."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrunner.capabilities import builtin, faults
from planrunner.testing import bench
from planrunner.testing.conformance import Case, Check, checks
from planrunner.testing.conformance.checks import load_cases

FILES = sorted(Path(__file__).parent.glob("cases_*.py"))
CASES: list[Case] = [case for file in FILES for case in load_cases(str(file))]


SLOW = ("validate.",)
"""Families whose calls are programs that take seconds."""


def _test(check: Check) -> object:
    slow = str(check).startswith(SLOW) and check.aspect not in ("schema", "docs", "outcome")
    return pytest.param(check, id=str(check), marks=[pytest.mark.slow] if slow else [])


@pytest.fixture
def _busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests may keep the machine busy, which is no fault of a capability. Cases that wait do so for half a minute:
    one that is not stopped is still found."""
    monkeypatch.setattr(bench, "LOOK", 240.0)
    monkeypatch.setattr(bench, "SOON", 20.0)
    monkeypatch.setattr(faults, "GRACE", 20.0)


@pytest.mark.usefixtures("_busy")
@pytest.mark.parametrize("check", [_test(check) for check in checks(CASES)])
def test_a_capability_holds_to_what_is_asked_of_all(check: Check, tmp_path: Path) -> None:
    check(tmp_path)


def test_every_capability_has_a_case_and_no_case_is_of_another() -> None:
    tried = {case.capability for case in CASES}
    assert sorted(builtin.TARGETS.keys() - tried) == [], "these have no case in cases_FAMILY.py"
    assert sorted(str(name) for name in tried - builtin.TARGETS.keys()) == [], "these are no built-ins"


def test_whoever_is_exempt_from_a_check_says_why() -> None:
    for case in CASES:
        for aspect, reason in case.exempt.items():
            assert len(reason.split()) > 3, f"{case.title} is exempt from {aspect} without a reason"
