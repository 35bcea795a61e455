"""The other half of the pairs of features: a file of its own, so that another worker plays it."""

from __future__ import annotations

from pathlib import Path

import pytest

from features.checking import blocks, of_block, problems


@pytest.mark.parametrize("block", blocks(1, 2))
def test_further_pairs_of_features_keep_their_claims(block: int, tmp_path: Path) -> None:
    assert problems(of_block(block), tmp_path) == []
