"""Every plan under ``plans/`` passes its tests, and ends the same wherever it is killed."""

from __future__ import annotations

import pytest
from workbench import ROOT

from planrunner.app.proof.chaos import ChaosRequest, chaos, chaos_object
from planrunner.app.proof.test import test_paths as run_tests
from planrunner.app.proof.test import tested_object as as_data

PLANS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "plans").iterdir() if path.is_file())


def test_every_plan_passes_its_tests_and_is_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    tested = run_tests(["plans"])
    found = as_data(tested)
    assert not tested.invalid
    assert [(case["place"], case["misses"]) for case in found["cases"] if not case["passed"]] == []
    assert set(found["coverage"]) >= set(PLANS)
    covered = {path: one for path, one in found["coverage"].items() if path in PLANS}  # tests/e2e runs the others
    thin = {path: one["missing"] for path, one in covered.items() if one["share"] < 0.9}
    assert not thin


def test_at_least_eight_plans_have_tests_of_their_own() -> None:
    assert len(list((ROOT / "plans" / "tests").glob("*.test.yaml"))) >= 8


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("plan", PLANS)
def test_every_plan_ends_the_same_wherever_it_is_killed(plan: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    request = ChaosRequest(plan, seed=seed, pairs=10)
    found = chaos_object(request, chaos(request))
    assert found["held"], found["violation"]
    assert found["runs"] == 2 * found["writes"] + 10
