"""Recall: of a thousand notes the one that is meant is found by other words of the same, by text and by vector."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from planrunner.knowledge.memory.entries import Entry
from planrunner.knowledge.memory.layers import By, Layer, open_layer, recall
from planrunner.knowledge.memory.places import Place
from planrunner.knowledge.vectors import Matrix, hashed, packed

SUBJECTS = """database cache queue scheduler gateway firewall compiler linter renderer parser broker balancer replica
ledger importer exporter archive mirror tokenizer indexer notifier dispatcher watcher collector formatter proxy
resolver planner sampler profiler verifier signer loader splitter merger router crawler encoder decoder optimizer
allocator debugger emulator installer launcher monitor packager recorder simulator translator""".split()
FACTS = [
    ("was migrated to the new cluster in {m}", "when did we migrate the {s} towards a newer cluster, {m}?"),
    ("drops connections after {n} idle seconds", "idle connection dropped by {s} ({n} seconds)"),
    ("needs {n} gigabytes of memory to start", "how much memory, {n} gigabyte perhaps, starting the {s} needs"),
    ("writes its logs below /var/log/{s}/{m}", "where are logs of the {s} written: {m}"),
    ("fails when the certificate has expired", "expired certificates and failing {s}"),
    ("retries a request {n} times before giving up", "{n} retries of requests by our {s}"),
    ("is owned by the team {m}", "which team owns that {s}, is it {m}?"),
    ("was rolled back because of a slow query", "slow queries: rolling back the {s}"),
    ("encodes names as latin-1 instead of utf-8", "name encoding latin-1 of {s}"),
    ("must be restarted after a change of its configuration", "restarting {s} when configurations change"),
    ("keeps backups for {n} days", "backup kept {n} day {s}"),
    ("listens on the port {p}", "port {p} listening {s}"),
    ("uses the feature flag {m} for its rollout", "{s} rollout by feature flags {m}"),
    ("was audited by an external firm", "external audit of our {s}"),
    ("exports its metrics every {n} minutes", "{s}: metric exported each {n} minute"),
    ("rejects uploads with more than {n} files", "upload rejected by the {s}, {n} files"),
    ("shares its disk with the staging environment", "staging environments sharing disks with {s}"),
    ("sends an alert to the channel {m}", "alerts sent by {s} into channel {m}"),
    ("was written in Rust and replaced the Python one", "Python replaced with Rust: the {s}"),
    ("validates its input against a schema", "schema validation of inputs in {s}"),
]  # fmt: skip
NAMES = "amber birch cobalt delta ember falcon garnet harbor indigo juniper".split()


def _notes() -> Iterator[tuple[str, str, str]]:
    """Key, text, and other words of the same."""
    chance = random.Random(7)
    for subject in SUBJECTS:
        for number, (fact, question) in enumerate(FACTS):
            values = {
                "s": subject,
                "m": chance.choice(NAMES),
                "n": chance.randint(2, 90),
                "p": chance.randint(1_000, 60_000),
            }
            yield f"n{subject}/{number}", f"The {subject} {fact.format(**values)}.", question.format(**values)


NOTES = list(_notes())


@pytest.fixture(scope="module", params=["sqlite", "file"])
def layer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layer]:
    place = Place(str(tmp_path_factory.mktemp("memory")))
    with open_layer("project", {"project_store": {"backend": request.param}}, place) as opened:
        store = opened._opened()
        for key, text, _ in NOTES:
            store.change(key, key, lambda _, key=key, text=text: Entry(key, text, mark=key, vector=hashed(text)))  # type: ignore[misc]
        yield opened


@pytest.mark.parametrize("by", ["text", "vector", "both"])
def test_the_note_that_is_meant_is_among_the_first_five(layer: Layer, by: By) -> None:
    asked = NOTES[::4] if by == "text" else NOTES[::10]
    hits = sum(key in [hit.entry.key for hit in layer.search(question, by, 5)] for key, _, question in asked)
    print(f"{by}: {hits} of {len(asked)} ({hits / len(asked):.1%})")
    assert len(NOTES) == 1000 and hits >= 0.95 * len(asked)


def test_recall_takes_the_best_of_all_layers_and_no_more_than_has_room(layer: Layer, tmp_path: Path) -> None:
    with open_layer("global", {}, Place("", str(tmp_path))) as other:
        other.put(Entry("mine", "The gateway listens on port 8443 for the whole office."), "m")
        hits = recall([layer, other], "on which port does the gateway listen", 5, 500)
        assert {"project", "global"} == {hit.layer for hit in hits} and len(hits) == 5
        assert {hits[0].entry.key, hits[1].entry.key} == {"mine", "ngateway/11"}
        few = recall([layer, other], "on which port does the gateway listen", 5, 30)
        assert [hit.entry.key for hit in few] == [hit.entry.key for hit in hits][: len(few)] and 1 <= len(few) < 5


def test_recall_goes_by_words_where_a_model_made_the_vectors(tmp_path: Path) -> None:
    with open_layer("project", {}, Place(str(tmp_path))) as layer:
        layer.put(Entry("a", "the gateway listens", vector=packed("small", [1.0, 0.0])), "m")
        assert [hit.entry.key for hit in recall([layer], "gateway")] == ["a"]


def test_numpy_and_plain_python_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    rows = [(number, hashed(text).data) for number, (_, text, _) in enumerate(NOTES)]
    questions = [hashed(question).data for _, _, question in NOTES[::100]]
    matrix = Matrix(rows)
    with_numpy = [matrix.nearest(question, 5) for question in questions]
    monkeypatch.setattr("planrunner.knowledge.vectors._numpy", lambda: None)
    matrix = Matrix(rows)
    for question, expected in zip(questions, with_numpy, strict=True):
        near = matrix.nearest(question, 5)
        assert [score for _, score in near] == pytest.approx([score for _, score in expected], abs=1e-5)
