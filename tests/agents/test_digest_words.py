"""A digest in the words of a model: beside the facts, recorded, and without any weight."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bench import Bench

Make = Callable[..., Bench]

PLAN = """
plan: release
tasks:
  - {id: notes, uses: noop}
  - {id: go, needs: [notes], gate: approval, ask: "Release 1.4?"}
"""


def waits(bench: Bench) -> None:
    bench.write(PLAN)
    assert bench.call("exec", "plan.yaml", "--no-wait").returncode == 8


def test_a_model_words_the_facts_which_are_printed_all_the_same(make: Make) -> None:
    bench = make(["The release waits for \x1b[31myou\x1b[0m."])
    waits(bench)
    ran = bench.call("runs", "digest", "last", "--model", "scripted")
    assert ran.returncode == 0, ran.stderr
    facts, _, words = ran.stdout.partition("in the words of the model `scripted` (run ")
    assert "go  Release 1.4?" in facts
    assert "The release waits for" in words and "\x1b" not in words
    assert "Release 1.4?" in bench.model.heard[0].said()
    told = json.loads(bench.call("runs", "--json").stdout)
    assert [each["plan"] for each in told["runs"]] == ["digest", "release"]


def test_the_words_are_data_beside_the_facts(make: Make) -> None:
    bench = make(["All is well."])
    waits(bench)
    told: dict[str, Any] = json.loads(bench.call("runs", "digest", "--model", "scripted", "--json").stdout)
    assert told["words"]["text"] == "All is well."
    assert told["runs"][0]["blockers"][0]["gate"] == "go"
    assert bench.call("replay", told["words"]["run_id"]).returncode == 0


def test_a_model_that_does_not_answer_is_an_error_that_names_the_run(make: Make) -> None:
    bench = make([{"status": 400}])
    waits(bench)
    ran = bench.call("runs", "digest", "--model", "scripted")
    assert ran.returncode == 2
    assert "the model `scripted` did not word the digest" in ran.stderr
    assert "planrunner show" in ran.stderr
