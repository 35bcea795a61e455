"""The digest of a plan: the same for the same meaning, another for any other."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from plan_loading import corpus, errors, loaded
from rows import rows

from planrunner.app.history.state import plan_of as stored_plan
from planrunner.journal.records import StoredPlan
from planrunner.plan.identity import digest
from planrunner.plan.lower.plan import without_done
from planrunner.plan.model import Plan, Task
from planrunner.source import Span

SHORTHAND = "sha256:eaf957e7b1caa9adb72fcd7242bdbe7223b8837fd213ca9da6c558a814ae5d43"
PAIRS = sorted({path.stem for path in corpus("pairs")})


def plan_of(text: str, name: str = "x.yaml") -> Plan:
    result = loaded(text, name)
    assert result.plan is not None, errors(result)
    return result.plan


def of(body: str) -> str:
    return digest(plan_of(f"plan: p\ntasks:\n{body}  - {{id: b, uses: noop}}\n"))


@rows("stem", PAIRS)
def test_the_same_plan_in_several_notations_has_one_digest(stem: str) -> None:
    paths = [path for path in corpus("pairs") if path.stem == stem]
    digests = {path.name: digest(plan_of(path.read_text(), path.name)) for path in paths}
    assert len(paths) >= 2 and len(set(digests.values())) == 1, digests


@rows(
    ("one", "other"),
    [
        ("  - {id: a, uses: noop, with: {x: 1, y: 2}}\n", "  - {id: a, uses: noop, with: {y: 2, x: 1}}\n"),
        ("  - {id: a, uses: noop}\n", "  # a comment\n  - uses: noop\n\n    id: 'a'\n"),
        ("  - {id: a, uses: noop, needs: [b]}\n", "  - {id: a, using: noop, dependsOn: b}\n"),
        ("  - {id: a, run: ls, timeout: 90s}\n", "  - {id: a, uses: shell, run: ls, timeout: 1m30s}\n"),
        ("  - {id: a, run: ls}\n", "  - id: a\n    run: |\n      ls\n"),
        ("  - {id: a, uses: noop, retry: 1}\n", "  - {id: a, uses: noop}\n"),
        ("  - {id: a, uses: noop, budget: {timeMin: 2}}\n", "  - {id: a, uses: noop, budgets: {time: 120s}}\n"),
        (
            "  - {id: a, uses: noop, when: 'plan.id == \"p\"'}\n",
            "  - {id: a, uses: noop, if: '{{ plan.id == \"p\" }}'}\n",
        ),
        ("  - {id: a, uses: noop, priority: high}\n", "  - {id: a, uses: noop, priority: 10}\n"),
        ("  - {id: a, uses: noop, next: [{on: success, to: b}]}\n", "  - {id: a, uses: noop, on_success: b}\n"),
    ],
)
def test_notation_layout_and_spelling_do_not_change_the_digest(one: str, other: str) -> None:
    assert of(one) == of(other)


BASE = "  - {id: a, uses: noop, with: {x: 1}, needs: [], timeout: 5m, assumptions: [calm]}\n"


@rows(
    "change",
    [
        ("x: 1", "x: 2"),
        ("x: 1", "x: '1'"),
        ("x: 1", "x: true"),
        ("x: 1", "x: [1]"),
        ("uses: noop", "uses: sleep"),
        ("timeout: 5m", "timeout: 6m"),
        ("[calm]", "[storm]"),
        ("needs: []", "needs: [b]"),
        ("id: a", "id: aa"),
        ("needs: []", "allow_failure: true"),
        ("needs: []", "expect: ['outputs.value == 1']"),
        ("needs: []", "expect: [{judge: 'outputs.value == 1'}]"),
    ],
)
def test_every_change_of_meaning_changes_the_digest(change: tuple[str, str]) -> None:
    assert of(BASE) != of(BASE.replace(*change))


def test_an_expression_and_the_same_words_for_a_judge_have_different_digests() -> None:
    expression = of("  - {id: a, uses: noop, expect: ['exit_code == 0']}\n")
    assert expression != of("  - {id: a, uses: noop, expect: [{judge: 'exit_code == 0'}]}\n")


def test_the_order_of_tasks_counts() -> None:
    one = plan_of("plan: p\ntasks:\n  - {id: a, uses: noop}\n  - {id: b, uses: noop}\n")
    two = plan_of("plan: p\ntasks:\n  - {id: b, uses: noop}\n  - {id: a, uses: noop}\n")
    assert digest(one) != digest(two)


def test_the_digest_of_a_task_depends_on_that_task_alone() -> None:
    one = plan_of("plan: p\ntasks:\n  - {id: a, uses: noop}\n  - {id: b, uses: noop}\n")
    two = plan_of("plan: q\ntitle: other\ntasks:\n  - {id: c, uses: noop}\n  - {id: b, uses: noop}\n")
    assert digest(one.tasks[1]) == digest(two.tasks[1])
    assert digest(one.tasks[0]) != digest(two.tasks[0])


def test_places_do_not_reach_the_digest() -> None:
    task = Task("a", uses="noop", span=Span(3, 4), spans=(("uses", Span(9, 10)),))
    assert digest(task) == digest(Task("a", uses="noop"))


def test_a_field_at_its_default_is_not_part_of_the_digest() -> None:
    """So a later version can add fields and the digests of old plans stay."""
    assert digest(Task("a")) == "sha256:" + _sha('{"Task":{"id":"a"}}')


def _sha(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_a_true_and_a_one_are_told_apart_also_inside_data() -> None:
    values: list[Any] = [1, True, "1", None, 1.5, [1], [True], {"a": 1}, {"a": True}]
    assert len({digest(Task("a", inputs=value)) for value in values}) == len(values)


def test_the_digest_of_a_plan_of_the_corpus_is_what_it_was() -> None:
    """A digest is written into journals and approvals: it must not change from version to version."""
    path = next(path for path in corpus("ok") if path.name == "shorthand.yaml")
    assert digest(plan_of(path.read_text(), path.name)) == SHORTHAND


def test_a_run_from_before_done_decided_anything_keeps_its_plan() -> None:
    path = next(path for path in corpus("ok") if path.name == "shorthand.yaml")
    text, before = path.read_text(), without_done(plan_of(path.read_text(), path.name))
    assert digest(before) == "sha256:fc80a4b715e61c713ee1ae24b04ee974983f54a62074370a04c22b710e175bf6"
    assert stored_plan(StoredPlan(digest(before), text, path.name, "yaml")) == before
    assert stored_plan(StoredPlan(f"{digest(before)}+0123", text, path.name, "yaml")) == before
    assert stored_plan(StoredPlan(SHORTHAND, text, path.name, "yaml")) == plan_of(text, path.name)
