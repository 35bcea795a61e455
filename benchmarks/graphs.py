"""The same graphs as plans, ninja files and doit files: fans, chains and layers, in sizes the rows ask for."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import NamedTuple

HEAD = "# yaml-language-server: $schema=../schemas/plan.schema.json\nplan: {name}\ndefaults: {{timeout: 10m}}\ntasks:\n"


class Graph(NamedTuple):
    """Tasks by number; ``needs[n]`` are the numbers that task ``n`` waits for, all of them smaller."""

    name: str
    needs: Sequence[Sequence[int]]

    @property
    def size(self) -> int:
        return len(self.needs)

    @property
    def edges(self) -> int:
        return sum(len(needs) for needs in self.needs)


def single() -> Graph:
    return Graph("single", [[]])


def fan(size: int) -> Graph:
    """Independent tasks and one that waits for all of them."""
    return Graph(f"fan-{size}", [*([] for _ in range(size)), list(range(size))])


def chain(size: int) -> Graph:
    return Graph(f"chain-{size}", [[number - 1] if number else [] for number in range(size)])


def layers(size: int, width: int = 100, fan_in: int = 3) -> Graph:
    """Every task waits for ``fan_in`` tasks of the layer before; one more task waits for the whole last layer."""
    chance = random.Random(20261121)
    needs: list[list[int]] = []
    for number in range(size):
        start = (number // width - 1) * width
        needs.append(sorted(chance.sample(range(start, start + width), fan_in)) if start >= 0 else [])
    needs.append(list(range(size - width, size)))
    return Graph(f"layers-{size}", needs)


def _id(number: int) -> str:
    return f"t{number:06d}"


def plan_text(graph: Graph, action: str = 'run: "true"') -> str:
    """Two or three lines a task; ``action`` is the line that says what a task does (``{n}`` is its number)."""
    parts = [HEAD.format(name=graph.name)]
    for number, needs in enumerate(graph.needs):
        parts.append(f"  - id: {_id(number)}\n    {action.format(n=number)}\n")
        if needs:
            parts.append(f"    needs: [{', '.join(map(_id, needs))}]\n")
    return "".join(parts)


def foreach_text(size: int) -> str:
    """One task that is multiplied, and one that waits for it; each item reads its own number."""
    items = ", ".join(map(str, range(size)))
    return (
        HEAD.format(name=f"foreach-{size}")
        + f"  - id: each\n    uses: noop\n    with: {{value: '{{{{ item }}}}'}}\n    foreach: [{items}]\n"
        + "  - id: join\n    uses: noop\n    needs: [each]\n"
    )


def subplans_text(count: int, size: int) -> str:
    """``count`` tasks that hold ``size`` tasks each, and one that waits for all."""
    inner = "".join(f"      - id: {_id(number)}\n        uses: noop\n" for number in range(size))
    holders = "".join(f"  - id: part-{number}\n    subplan:\n{inner}" for number in range(count))
    needs = ", ".join(f"part-{number}" for number in range(count))
    head = HEAD.format(name=f"subplans-{count}-{size}")
    return f"{head}{holders}  - id: join\n    uses: noop\n    needs: [{needs}]\n"


def rich_plan_text(graph: Graph) -> str:
    """A plan with 14 lines a task, as people write them who use the language; the join is one more short task."""
    parts = [HEAD.format(name=f"rich-{graph.name}")]
    for number, needs in enumerate(graph.needs):
        if len(needs) > 20:
            parts.append(f"  - id: {_id(number)}\n    run: 'true'\n    needs: [{', '.join(map(_id, needs))}]\n")
            continue
        parts.append(
            f"  - id: {_id(number)}\n"
            f"    title: Task number {number} of this plan\n"
            f"    labels: [bench, group-{number % 10}]\n"
            f"    priority: {number % 4}\n"
            f"    needs: [{', '.join(map(_id, needs))}]\n"
            f"    run: make part-{number} STAGE=bench\n"
            f"    env:\n"
            f"      NUMBER: '{number}'\n"
            f"    timeout: 5m\n"
            f"    retry: {{attempts: 2, backoff: exponential, delay: 1s}}\n"
            f"    expect:\n"
            f"      - exit_code == 0\n"
            f"      - duration < 4m\n"
            f"    owner: nobody\n"
        )
    return "".join(parts)


def ninja_text(graph: Graph, command: str = "true") -> str:
    """``command`` never makes the output file, so that every run runs everything."""
    parts = [f"rule step\n  command = {command}\n  description = $out\n"]
    for number, needs in enumerate(graph.needs):
        parts.append(f"build {_id(number)}: step {' '.join(map(_id, needs))}\n")
    return "".join(parts)


def doit_text(graph: Graph, command: str = "true") -> str:
    return (
        f"NEEDS = {[list(needs) for needs in graph.needs]!r}\n\n\n"
        "def task_t():\n"
        "    for number, needs in enumerate(NEEDS):\n"
        f"        yield {{'name': str(number), 'actions': ['{command}'], 'uptodate': [False],\n"
        "               'task_dep': [f't:{need}' for need in needs], 'verbosity': 0}\n"
    )


def write(folder: str, name: str, text: str) -> str:
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path
