"""Hostile plans without end: the seed and the number of one give its name and its bytes, on any machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import mutated_text
import mutated_trees
from mutated_text import Pool

from planrunner.syntax.notations import write

ROOT = Path(__file__).parents[2]
FOLDERS = ("plans", "examples", "tests/corpus", "tests/plan/rules/plans", "tests/fuzz/found")
ENDINGS = {".yaml": "yaml", ".yml": "yaml", ".plan": "text", ".json": "json"}
PROJECT = "planrunner.yaml"


@cache
def plans() -> Pool:
    """Every plan of the repository, sound and broken ones, in an order that does not change."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in ENDINGS]
    return [(path.name, path.read_bytes()) for path in sorted(paths) if path.is_file()]


@cache
def projects() -> Pool:
    """Files of projects, with every section that there is."""
    sections = ROOT.joinpath("tests/fuzz/project.yaml").read_bytes()
    return [(PROJECT, sections), *((PROJECT, path.read_bytes()) for path in sorted(ROOT.rglob(PROJECT)))]


def plan(seed: int, number: int) -> tuple[str, bytes]:
    """The name and content of a hostile plan."""
    random = Random(f"plan {seed} {number}")
    return _mutated(random, plans())


def project(seed: int, number: int) -> bytes:
    """The content of a hostile file of a project."""
    return _mutated(Random(f"project {seed} {number}"), projects())[1]


def _mutated(random: Random, pool: Pool) -> tuple[str, bytes]:
    name, data = random.choice(pool)
    ending = name[name.rindex(".") :]
    way = random.choice(_WAYS)
    if way is not None:
        return f"hostile{ending}", way(random, data, pool)
    found = None if random.random() < 0.25 else mutated_trees.data_of(name, data)
    if found is None:
        found = mutated_trees.made_up_project(random) if name == PROJECT else mutated_trees.made_up(random)
    other = random.choice(pool)
    made = mutated_trees.mutate_tree(random, found, mutated_trees.data_of(*other))
    return _written(random, made)


_WAYS: tuple[Callable[[Random, bytes, Pool], bytes] | None, ...] = (
    *(mutated_text.mutate_bytes,) * 3,
    *(mutated_text.mutate_tokens,) * 4,
    *(mutated_text.mutate_lines,) * 3,
    mutated_text.spread_anchors,
    *(None,) * 7,
)
"""What is done to a file, as often as it stands here; None changes what it says rather than how it is written."""


def _written(random: Random, data: Any) -> tuple[str, bytes]:
    """The data in one of the notations; as JSON where no other can hold it."""
    ending = random.choice((".yaml", ".yaml", ".plan", ".json"))
    text = ""
    if ending != ".json" and isinstance(data, dict):
        try:
            text = write(mutated_trees.tree_of(data), "yaml" if ending == ".yaml" else "text")
        except (ValueError, RecursionError):
            text = ""  # what the text notation cannot say
    if not text:
        ending, text = random.choice((".json", ".yaml")), json.dumps(data, ensure_ascii=random.random() < 0.5)
    return f"hostile{ending}", text[: mutated_text.MOST].encode("utf-8", "surrogatepass")
