"""How the time and the memory of each step grow with the number of gates, items, subplans and gates inside items.

    python benchmarks/growth.py                               every shape, 100, 1,000 and 10,000
    python benchmarks/growth.py --shapes gates,items --sizes 100,1000

Each step is a process of its own, called once. Seconds are of the processor, those of a plan of one taken off; MiB are
the peak. A step ends with an error where ten times the number takes more than ``MOST`` times the seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from measure import Contender, Sample, run_once

ROOT = Path(__file__).parents[1]
MOST = 15.0
"""Times as long as a tenth of it, at the most: ten, and what a busy machine adds."""
NOISE = 0.3
"""Seconds that are not told from none."""
HEAD = "plan: growth\ndefaults: {timeout: 1m}\ntasks:\n"


def _gates(count: int) -> str:
    return HEAD + "".join(f"  - {{id: g{number}, gate: approval, ask: Go on}}\n" for number in range(count))


def _items(count: int) -> str:
    return f"{HEAD}  - {{id: all, foreach: '{{{{ range({count}) }}}}', uses: noop}}\n"


def _subplans(count: int) -> str:
    return _over(count, "uses: noop")


def _gates_inside(count: int) -> str:
    return _over(count, "gate: approval, ask: Go on")


def _over(count: int, first: str) -> str:
    tasks = f"[{{id: a, {first}}}, {{id: b, uses: noop, needs: [a]}}]"
    return f"{HEAD}  - {{id: all, foreach: '{{{{ range({count}) }}}}', subplan: {tasks}}}\n"


SHAPES: dict[str, tuple[Callable[[int], str], bool]] = {
    "gates": (_gates, True),
    "items": (_items, False),
    "subplans": (_subplans, False),
    "gates inside": (_gates_inside, True),
}
"""The plan of a size, and whether its tasks wait for a person."""


class Measured(NamedTuple):
    step: str
    sample: Sample


def steps(name: str, count: int, folder: str) -> Iterator[Measured]:
    """What each step takes, in the order in which a person takes them."""
    text, waits = SHAPES[name]
    Path(folder, "plan.yaml").write_text(text(count), encoding="utf-8")
    env = {**os.environ, "PLANRUNNER_STATE": f"{folder}/state", "PYTHONPATH": str(ROOT), "USER": "ana"}
    command = [sys.executable, "-m", "planrunner"]

    def call(step: str, *words: str, codes: tuple[int, ...] = (0,)) -> Measured:
        return Measured(step, run_once(Contender(step, [*command, *words], folder, env, exit_codes=codes)))

    ended = (0, 8) if waits else (0,)
    yield call("lint", "lint", "plan.yaml")
    yield call("exec", "exec", "plan.yaml", "--no-wait", codes=ended)
    yield call("show", "show", "last")
    yield call("show --json", "show", "last", "--json")
    yield call("why", "why", "last", "g0" if name == "gates" else "all")
    yield call("events", "events", "last")
    yield call("report", "report", "last", "-o", "report.html")
    if not waits:
        yield call("replay", "replay", "last")
        return
    yield call("gates", "gates", "last")
    listed = subprocess.run([*command, "gates", "last", "--json"], cwd=folder, env=env, capture_output=True, check=True)
    first = json.loads(listed.stdout)["gates"][0]
    yield call("approve", "approve", "last", first["gate"], "--shown", first["shown"][:12])
    yield call("resume", "resume", "last", "--no-wait", codes=ended)
    yield call("replay", "replay", "last")


def main() -> int:
    options = _options()
    found = False
    for name in options.shapes:
        rows: dict[str, list[Sample]] = {}
        for size in (1, *options.sizes):
            with tempfile.TemporaryDirectory(prefix="growth-", dir=options.folder) as folder:
                for step, sample in steps(name, size, folder):
                    rows.setdefault(step, []).append(sample)
                os.chdir("/")
        found |= _show(name, options.sizes, rows)
    return 1 if found else 0


def _show(name: str, sizes: Sequence[int], rows: dict[str, list[Sample]]) -> bool:
    """Prints the rows of a shape; whether one of them grows too fast."""
    print(f"{name:14}" + "".join(f"{f'{size:,}':>18}" for size in sizes) + "   growth", flush=True)
    found = False
    for step, (alone, *measured) in rows.items():
        samples = [sample._replace(cpu=max(0.0, sample.cpu - alone.cpu)) for sample in measured]
        cells = "".join(f"{sample.cpu:9.2f} s {sample.peak:4.0f} MiB" for sample in samples)
        grown = [
            (later.cpu / max(former.cpu, NOISE)) / (bigger / size) * 10
            for (size, former), (bigger, later) in pairwise(zip(sizes, samples, strict=True))
        ]
        too_fast = any(ratio > MOST for ratio in grown)
        found |= too_fast
        print(f"  {step:12}{cells}   {', '.join(f'{ratio:.1f}' for ratio in grown)}{' TOO FAST' if too_fast else ''}")
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=list(SHAPES), help="such as gates,items")
    parser.add_argument(
        "--sizes", type=lambda text: [int(each) for each in text.split(",")], default=[100, 1_000, 10_000]
    )
    parser.add_argument("--folder", default=None, help="where to work; memory file systems sync for free")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
