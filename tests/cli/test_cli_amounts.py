"""What capabilities give in bytes and seconds is compared with sizes and durations, and is a plain number elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PLAN = """plan: p
defaults: {{timeout: 10s}}
params: {{limit: {{type: size, default: 1KB}}, count: {{type: int, default: 1000}}}}
tasks:
  - {{id: f, uses: files.glob, with: {{patterns: "data/*"}}}}
{tasks}
"""
OF_T = "uses: files.glob, with: {patterns: data/*}"


def of(*tasks: str) -> str:
    """The plan in which each of these needs the files."""
    return PLAN.format(tasks="\n".join(f"  - {{id: t{at}, needs: [f], {task}}}" for at, task in enumerate(tasks)))


@pytest.fixture
def data(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/large").write_bytes(b"x" * 2000)
    (tmp_path / "data/small").write_bytes(b"x" * 10)


HOLD = [
    "SIZE > 1KB",
    "1KB < SIZE and SIZE > 1000 and SIZE == 2010",
    "SIZE == 2010B and not (SIZE != 2010B)",
    "SIZE >= params.limit and SIZE > params.count",
    "SIZE + 1KB == 3010B and 3KB - SIZE == 990B",
    "SIZE * 2 > 4KB and 2 * SIZE - 20 == 4KB and SIZE / 10 < 1KB and SIZE % 1000 == 10B",
    "max([x.size for x in FILES]) > 1KB",
    "min(SIZE, 3KB) < 3KB and max(5KB, SIZE) == 5KB",
    "sum([x.size for x in FILES]) + 1KB > 3KB",
    "first(sort(FILES, attribute='size')).size < 100B",
    "last(sort([1KB, SIZE])) > 2KB",
    "2KB in [x.size for x in FILES]",
    "FILES[0].size in [2KB, 3KB]",
    "default(SIZE, 0) > 1KB and (SIZE if params.count > 1 else 0) > 1KB",
    "abs(SIZE) > 1KB and round(SIZE / 7) < 1KB",
    "tasks.f.duration < 10s",
]


@pytest.mark.usefixtures("data")
def test_a_number_of_bytes_is_compared_with_sizes_and_numbers(
    run: Callable[..., Any], plan: Callable[[str], str]
) -> None:
    conditions = [
        each.replace("SIZE", "tasks.f.outputs.size").replace("FILES", "tasks.f.outputs.files") for each in HOLD
    ]
    path = plan(of(*(f'when: "{condition}", uses: noop' for condition in conditions)))
    assert (linted := run("lint", path)).code == 0, linted.out
    assert run("exec", path).code == 0
    tasks = run("show", "last", "--json").data["tasks"]
    assert [text for at, text in enumerate(HOLD) if tasks[f"t{at}"]["status"] != "completed"] == []


@pytest.mark.usefixtures("data")
def test_items_of_a_list_are_chosen_by_their_size_and_read_as_plain_numbers(
    run: Callable[..., Any], plan: Callable[[str], str]
) -> None:
    echo = "run: 'echo got {{ item.size }}.'"
    tasks = [
        f'foreach: "[x for x in tasks.f.outputs.files if x.size > 100B]", {echo}',
        f'foreach: tasks.f.outputs.files, when: "item.size > 100B", {echo}',
        f'foreach: tasks.f.outputs.files, subplan: [{{id: s, when: "item.size > 100B", {echo}}}]',
    ]
    path = plan(of(*tasks))
    assert run("lint", path).code == 0
    done = run("exec", path, "--progress", "plain")
    assert done.code == 0 and (done.out + done.err).count("got 2000.") == 3 and "got 10." not in done.out + done.err


CRITERIA = [
    f'{OF_T}, expect: ["outputs.size < 10MB"]',
    f'{OF_T}, postconditions: ["outputs.size + 1B < 10MB"]',
    'gate: checks, checks: ["tasks.f.outputs.size < 10MB"]',
    f'loop: {{max: 1, until: "tasks.s.outputs.size < 10MB", tasks: [{{id: s, {OF_T}}}]}}',
    'uses: files.write, with: {path: out, content: abc}, expect: ["outputs.size + 2KB < 10MB"]',
    "run: 'echo 5000', stdout: json, expect: [\"outputs.value > 4KB and outputs.value < 6KB\"]",
]


@pytest.mark.usefixtures("data")
def test_criteria_gates_and_loops_ask_for_sizes(run: Callable[..., Any], plan: Callable[[str], str]) -> None:
    path = plan(of(*CRITERIA))
    assert (linted := run("lint", path)).code == 0, linted.out
    assert run("exec", path).code == 0


@pytest.mark.usefixtures("data")
def test_a_size_that_is_exceeded_fails_the_task(run: Callable[..., Any], plan: Callable[[str], str]) -> None:
    done = run("exec", plan(of(f'{OF_T}, expect: ["outputs.size < 1KB"]')))
    assert done.code == 1 and "`outputs.size < 1KB` is false: outputs.size is 2010" in run("why", "last", "t0").out


def test_other_numbers_are_still_told_from_sizes(run: Callable[..., Any], plan: Callable[[str], str]) -> None:
    conditions = [
        "params.count > 1KB",
        "tasks.f.outputs.number > 1KB",
        "tasks.f.outputs.size > 5s",
        "1GB / tasks.f.outputs.size > 2",
        "tasks.f.outputs.size / tasks.f.outputs.size > 1KB",
        "tasks.f.duration < 10",
    ]
    done = run("lint", plan(of(*(f'when: "{each}", uses: noop' for each in conditions))), "--format", "concise")
    lines = [line.split(":")[1] for line in done.out.splitlines() if "PLAN205" in line]
    assert lines == ["6", "7", "8", "9", "10", "11"]


@pytest.mark.usefixtures("data")
def test_a_number_of_bytes_is_written_as_a_number_in_texts_and_outputs(
    run: Callable[..., Any], plan: Callable[[str], str]
) -> None:
    task = 'run: "echo [{{ tasks.f.outputs.size }}]", outputs: {n: {type: int, value: "{{ tasks.f.outputs.size }}"}}'
    done = run("exec", plan(of(task)), "--progress", "plain")
    assert "[2010]" in done.out + done.err
    assert run("show", "last", "--json").data["tasks"]["t0"]["outputs"]["n"] == 2010


@pytest.mark.usefixtures("data")
def test_the_text_notation_compares_them_as_well(
    run: Callable[..., Any], plan: Callable[[str], str], tmp_path: Path
) -> None:
    path = plan(of('when: "tasks.f.outputs.size > 1KB", uses: noop'))
    (tmp_path / "q.plan").write_text(run("convert", path, "--to", "plan").out)
    assert run("exec", "q.plan").code == 0
