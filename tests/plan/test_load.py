"""Loading: what the corpus of sound and broken plans gives, files and folders, and that nothing ever raises."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_loading import Known, corpus, errors, loaded

from planrunner.diagnostics import has_errors
from planrunner.errors import NotFound
from planrunner.plan.load import Loaded, load, read_plan
from planrunner.plan.model import Capability
from planrunner.source import Source, notation_of

BROKEN = corpus("err")
UPDATE = os.environ.get("PLANRUNNER_UPDATE_GOLDEN") == "1"
"""Read while the tests are collected: the settings of the caller are hidden from the tests themselves."""


def concise(source: Source, result: Loaded) -> str:
    """The errors of a plan, a line each: the warnings of rules come and go, these stay."""
    lines = []
    for finding in result.findings:
        if finding.severity == "error":
            line, column = source.place(finding.span.start)
            lines.append(f"{line}:{column} {finding.code} {finding.message}\n")
    return "".join(lines)


@pytest.mark.parametrize("path", [*corpus("ok"), *corpus("pairs")], ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_sound_plan_of_the_corpus_loads(path: Path) -> None:
    result = loaded(path.read_text(), path.name)
    assert result.plan is not None, errors(result)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.name)
def test_every_broken_plan_of_the_corpus_says_what_is_wrong_and_where(path: Path) -> None:
    source = Source(path.read_text(), path.name, notation_of(path.name))
    result = load(source, Known())
    golden = path.with_name(path.name + ".out")
    if UPDATE:
        golden.write_text(concise(source, result))
    assert concise(source, result) == golden.read_text()
    assert result.plan is None and concise(source, result)


def test_the_corpus_of_broken_plans_is_large_and_has_no_golden_too_many() -> None:
    assert len(BROKEN) >= 60
    goldens = {path.name.removesuffix(".out") for path in BROKEN[0].parent.glob("*.out")}
    assert goldens == {path.name for path in BROKEN}


def test_findings_come_in_the_order_of_the_text_and_each_once() -> None:
    path = next(path for path in BROKEN if path.name == "many-faults-at-once.yaml")
    findings = loaded(path.read_text()).findings
    assert list(findings) == sorted(findings, key=lambda finding: (finding.span, finding.code))
    assert len({(finding.code, finding.span, finding.message) for finding in findings}) == len(findings)


def test_a_plan_with_warnings_alone_is_a_plan() -> None:
    result = loaded("plan: p\ntasks: [{id: a, run: ls, expect: [looks good]}]\n")
    assert result.plan is not None and result.findings and not has_errors(result.findings)


def test_a_text_that_does_not_parse_gives_no_tree_and_no_plan() -> None:
    result = loaded("plan: [\n")
    assert (result.plan, result.tree) == (None, None) and errors(result)[0].startswith("PLAN001")


def test_the_tree_of_a_loaded_plan_is_canonical() -> None:
    tree = loaded("plan_id: p\nnodes: [{id: a, using: noop}]\n").tree
    assert [key.value for key, _ in tree.entries] == ["plan", "tasks"]  # type: ignore[union-attr]


def test_a_text_file_of_tasks_alone_is_a_plan_with_the_name_of_the_file() -> None:
    result = loaded('task a "A" using:noop\n', "some/where/my plan 2.plan")
    assert result.plan is not None and result.plan.id == "myplan2"
    named = loaded("plan other\ntask a using:noop\n", "x.plan")
    assert named.plan is not None and named.plan.id == "other"


def test_only_capabilities_that_the_plan_names_are_looked_up() -> None:
    asked: list[str] = []

    class Listening(Known):
        def find(self, name: str) -> Capability | None:
            asked.append(name)
            return super().find(name)

    result = load(Source("plan: p\ntasks: [{id: a, uses: noop}, {id: b, run: ls}]\n"), Listening())
    assert result.plan is not None and set(asked) == {"noop", "shell"}


def test_an_unknown_capability_is_named_with_the_nearest_one() -> None:
    (line,) = errors(loaded("plan: p\ntasks: [{id: a, uses: file.read}]\n"))
    assert line.startswith("PLAN007") and "files.read" in line


TOKENS = st.sampled_from(
    [
        "plan: p",
        "tasks:",
        "  - id: a",
        "    needs: [a]",
        "    run: |",
        "      ls",
        "  - {id: b, uses: noop}",
        "    loop:",
        "      max: 2",
        "      tasks:",
        "        - *x",
        "    with: &x {a: 1}",
        "    <<: *x",
        "gates: [{id: a}]",
        "    when: 1 <",
        "finally:",
        "    expect: exit_code = 0",
        "    on_failure: {to: b}",
        "    matrix: {a: []}",
        "params: {x: }",
        "- 3",
        "\t",
        "!!x y",
        "task a using:noop",
        "  on failure -> b",
        "    budgets: {timeMin: .inf}",
        "    timeout: 99999999999999999999d",
        '{"a": 1}',
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(TOKENS, max_size=14), st.sampled_from(["x.yaml", "x.json", "x.plan"]))
def test_loading_never_raises_whatever_the_text(lines: list[str], name: str) -> None:
    result = loaded("\n".join(lines), name)
    assert (result.plan is None) == has_errors(result.findings)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["x.yaml", "x.json", "x.plan"]))
def test_loading_never_raises_for_any_characters(text: str, name: str) -> None:
    result = loaded(text, name)
    assert (result.plan is None) == has_errors(result.findings)


def test_a_file_is_read_in_its_notation(tmp_path: Path) -> None:
    (tmp_path / "a.plan").write_text("task a using:noop\n")
    file = read_plan(str(tmp_path / "a.plan"))
    assert (file.source.notation, file.source.text, file.findings) == ("text", "task a using:noop\n", ())


def test_bytes_that_are_no_text_are_a_finding(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"plan: \xff\xfe\n")
    assert [finding.code for finding in read_plan(str(tmp_path / "a.yaml")).findings] == ["PLAN012"]


@pytest.mark.parametrize(
    ("there", "asked", "hint"),
    [
        ("release.yaml", "relaese.yaml", "release.yaml"),
        ("release.yaml", "release", "release.yaml"),
        ("release.yaml", "release.yml", "release.yaml"),
        ("plans/release.plan", "release.yaml", "plans/release.plan"),
        ("other.yaml", "release.yaml", ""),
        ("release.txt", "release.yaml", ""),
    ],
)
def test_a_missing_file_is_answered_with_the_nearest_name(tmp_path: Path, there: str, asked: str, hint: str) -> None:
    (tmp_path / "plans").mkdir()
    (tmp_path / there).write_text("plan: p\n")
    with pytest.raises(NotFound) as caught:
        read_plan(str(tmp_path / asked))
    assert caught.value.hint == (f"did you mean `{tmp_path / hint}`?" if hint else "")
    assert f"`{tmp_path / asked}`" in caught.value.message


def test_a_folder_is_not_a_plan(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is a folder"):
        read_plan(str(tmp_path))


def test_a_shared_bomb_of_aliases_is_refused_or_read_quickly() -> None:
    lines = ["plan: p", "tasks: [{id: a, uses: noop}]", "memory: {keys: [x]}", "stakeholders:", "  - &l0 [x, x]"]
    lines += [f"  - &l{number} [*l{number - 1}, *l{number - 1}]" for number in range(1, 40)]
    assert loaded("\n".join(lines) + "\n").plan is None


def test_many_references_to_one_task_part_stay_cheap_and_are_reported_once() -> None:
    body = "".join(f"  - {{id: t{number}, run: ls, retry: *r}}\n" for number in range(400))
    result = loaded(f"plan: p\ntasks:\n  - {{id: first, run: ls, retry: &r {{attempts: 0}}}}\n{body}")
    assert [line for line in errors(result) if "attempts" in line] == ["PLAN006 `attempts` must be at least 1, not `0`"]
