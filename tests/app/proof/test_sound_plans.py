"""Sound plans pass a dry run and the cases that follow from them: what is assumed has the shape that the plan reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrunner.app.proof.reads import Shape, fitting
from planrunner.cli import main

PLANS = sorted((Path(__file__).parent / "sound").glob("*.yaml"))


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: path.stem)
def test_a_sound_plan_passes_a_dry_run(plan: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--state", str(tmp_path), "exec", str(plan), "--dry-run", "--progress", "plain"]) == 0, (
        capfd.readouterr().err
    )


def test_sound_plans_pass_the_cases_that_follow_from_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--state", str(tmp_path), "test", *map(str, PLANS)]) == 0, capfd.readouterr().out


@pytest.mark.parametrize("name", ["foreach-of-any", "handed-on", "fan-out-of-nothing"])
def test_a_sound_plan_comes_through_every_kill(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = Path(__file__).parent / "sound" / f"{name}.yaml"
    assert main(["--state", str(tmp_path), "chaos", str(plan)]) == 0, capfd.readouterr().out


def test_what_a_schema_says_comes_before_what_is_read() -> None:
    read = Shape()
    read.member("kind").suggest("typo")
    read.member("lines").each().member("number").suggest(7)
    schema = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["crash", "typo"]},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"number": {"type": "integer"}}}},
            "sure": {"type": "boolean"},
        },
    }
    assert fitting(schema, "t", read) == {"kind": "typo", "lines": [{"number": 7}, {"number": 7}], "sure": True}
