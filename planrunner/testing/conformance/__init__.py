"""What every capability must hold to, tried on cases: see ``Case`` for what a family says, ``checks`` for the tests."""

from __future__ import annotations

from planrunner.testing.conformance.cases import ASPECTS as ASPECTS
from planrunner.testing.conformance.cases import Case as Case
from planrunner.testing.conformance.cases import Ready as Ready
from planrunner.testing.conformance.checks import Check as Check
from planrunner.testing.conformance.checks import checks as checks
