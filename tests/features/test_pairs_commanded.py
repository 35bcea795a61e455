"""Pairs of features with real tasks, by the command: `PLANRUNNER_COMMANDED_PAIRS` says how many."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from features.commanded import faults, real_pairs
from planrunner.plugins.registry import Registry

REAL = int(os.environ.get("PLANRUNNER_COMMANDED_PAIRS", "20"))
BLOCK = 10


@pytest.mark.parametrize("block", range(-(-REAL // BLOCK)))
def test_pairs_with_real_tasks_keep_their_claims(block: int, tmp_path: Path) -> None:
    found = []
    for number, marriage in enumerate(real_pairs(REAL)[block * BLOCK : (block + 1) * BLOCK]):
        folder = tmp_path / str(number)
        folder.mkdir()
        found += [f"{marriage.id}: {sentence}" for sentence in faults(marriage, folder, Registry())]
    assert found == []
