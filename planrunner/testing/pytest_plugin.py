"""Fixtures for those who test plugins and plans: ``cap``, ``plan_runner`` and ``recording``.

pytest loads this with its start; what a fixture needs is imported when one is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from planrunner.app.history.replay import ReplayReport
    from planrunner.app.runs.execute import RunResult
    from planrunner.machine.events import Outcome


class Recording(NamedTuple):
    """Runs a plan and replays it: ``run`` gives the result, ``replay`` the report for a run id."""

    run: Callable[..., RunResult]
    replay: Callable[[str], ReplayReport]


def _kit() -> Any:
    from planrunner.testing import kit  # the start-up time of pytest

    return kit


@pytest.fixture
def cap(tmp_path: Path) -> Callable[..., Outcome]:
    """Call a capability (a name, or a function marked with ``@capability``) with inputs; gives its Outcome. It works
    in ``tmp_path``."""
    kit = _kit()

    def call(capability: Any, inputs: Mapping[str, Any] | None = None, **more: Any) -> Outcome:
        outcome: Outcome = kit.call_capability(capability, inputs, **{"directory": str(tmp_path), **more})
        return outcome

    return call


@pytest.fixture
def plan_runner(tmp_path: Path) -> Callable[..., RunResult]:
    """Run a plan given as text, mapping or path, in ``tmp_path``; ``functions`` are capabilities that need not be
    installed. Gives the result, whose ``status``, ``exit_code`` and ``state`` tell how it went."""
    kit = _kit()

    def run(plan: Any, *functions: Callable[..., Any], **params: Any) -> RunResult:
        result: RunResult = kit.run_plan(plan, str(tmp_path), functions, params)
        return result

    return run


@pytest.fixture
def recording(tmp_path: Path, plan_runner: Callable[..., RunResult]) -> Recording:
    """Like ``plan_runner``, with the replay of what was run."""
    kit = _kit()
    return Recording(plan_runner, lambda run: kit.replay_run(run, str(tmp_path / ".planrunner")))
