"""Random triples of features, with a seed: `PLANRUNNER_TRIPLES` says how many, `PLANRUNNER_TRIPLES_SEED` which."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from features.checking import problems
from features.marriages import triples

TRIPLES = int(os.environ.get("PLANRUNNER_TRIPLES", "40"))
SEED = os.environ.get("PLANRUNNER_TRIPLES_SEED", "1")
BLOCKS = max(1, TRIPLES // 50)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_triples_of_features_keep_their_claims(block: int, tmp_path: Path) -> None:
    assert problems(triples(TRIPLES // BLOCKS, f"{SEED}/{block}"), tmp_path) == []
