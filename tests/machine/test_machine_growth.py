"""Ten times the tasks are ten times the work: counted in calls of functions, so that no clock decides."""

from __future__ import annotations

import sys
from typing import Any

from rows import rows
from simulator.gates import GateRun
from workbench import plan

GATE = {"gate": "approval", "ask": "Go on"}
NOOP = {"uses": "noop", "timeout": "1m"}
WORK = {"run": "true", "timeout": "1m"}
LIMITED = {"subplan": [{"id": "w", **WORK}, {"id": "a", "needs": ["w"], **GATE}], "timeout": "1h"}


def _over(count: int, *first: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": "all", "foreach": f"{{{{ range({count}) }}}}", **first[0]}]


SHAPES: dict[str, Any] = {
    "gates": lambda count: [{"id": f"g{number}", **GATE} for number in range(count)],
    "gates behind one": lambda count: [
        {"id": "first", **NOOP},
        *({"id": f"g{number}", "needs": ["first"], **GATE} for number in range(count)),
    ],
    "items": lambda count: _over(count, NOOP),
    "subplans": lambda count: _over(count, {"subplan": [{"id": "a", **NOOP}, {"id": "b", "needs": ["a"], **NOOP}]}),
    "limited gates inside": lambda count: _over(count, LIMITED),
    "limited gates in a limit": lambda count: [
        {"id": "whole", "timeout": "2h", "subplan": _over(count, {**LIMITED, "timebox": "1h"})}
    ],
    "gates inside": lambda count: _over(count, {"subplan": [{"id": "a", **GATE}, {"id": "b", "needs": ["a"], **NOOP}]}),
}


def _calls(count: int, shape: str) -> int:
    """Calls until all has ended or waits, and until it waits again in another life."""
    document = plan(*SHAPES[shape](count))
    calls = 0

    def counted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(counted)
    try:
        run = GateRun(document)
        if run.state.ended_at is None:
            run.later(60).resume()
    finally:
        sys.setprofile(None)
    return calls


@rows("shape", SHAPES)
def test_work_grows_with_the_number_and_no_faster(shape: str) -> None:
    _, small, middle, large = (_calls(count, shape) for count in (1, 50, 100, 200))  # the first imports what it needs
    assert large - middle <= 2.1 * (middle - small)
