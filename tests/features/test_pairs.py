"""Features alone, and a half of the pairs of features, in an imagined world: the claim of each, and what holds for any run.

`PLANRUNNER_PAIRS` says how many pairs, `PLANRUNNER_PAIR=retry+loop-until/on` plays one and prints its plan.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from features.accepted import KNOWN
from features.checking import blocks, of_block, problems, written
from features.marriages import Marriage, pairs, singles
from features.pieces import FEATURES


def test_each_feature_alone_keeps_its_claim(tmp_path: Path) -> None:
    assert problems(singles(), tmp_path) == []


@pytest.mark.parametrize("block", blocks(0, 2))
def test_pairs_of_features_keep_their_claims(block: int, tmp_path: Path) -> None:
    assert problems(of_block(block), tmp_path) == []


def test_there_are_enough_features_and_each_names_what_would_break_it() -> None:
    assert len(FEATURES) >= 60
    assert all(feature.fault for feature in FEATURES.values())


def test_known_faults_are_pairs_that_there_are() -> None:
    assert KNOWN.keys() <= {marriage.id for marriage in pairs()}


@pytest.mark.skipif("PLANRUNNER_PAIR" not in os.environ, reason="PLANRUNNER_PAIR names no pair")
def test_one_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names, _, ways = os.environ["PLANRUNNER_PAIR"].partition("/")
    marriage = Marriage(tuple(names.split("+")), tuple(ways.split("-")) if ways else ())
    with capsys.disabled():
        print(written(marriage))
    assert problems([marriage], tmp_path) == []
