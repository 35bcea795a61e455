"""What a capability of a plugin answers that cannot be right: no process, no class, nothing that was waited for."""

from __future__ import annotations

from typing import Any

import pytest

from planrunner.api import Outcome, Pause, Spawn, capability
from planrunner.plugins.callables import faults_of
from planrunner.testing.capability import call_capability


@pytest.mark.parametrize(("given", "shown"), [(5, "an int"), (None, "None"), ({"a": 1}, "a dict")])
def test_a_process_capability_that_gives_no_process_fails(given: Any, shown: str) -> None:
    @capability("odd.start", effect="pure", process=True)
    def start():  # type: ignore[no-untyped-def]
        """Start."""
        return given

    outcome = call_capability(start)
    assert outcome.failure == "logic"
    assert outcome.message == f"`odd.start` is `process=True` and gave {shown}: it has to give a Spawn or a Pause"


@pytest.mark.parametrize("given", [Spawn(("true",), {}, ""), Pause(0.0), Outcome(outputs={"a": 1})])
def test_a_process_capability_gives_what_the_engine_waits_for_or_the_outcome_itself(given: Any) -> None:
    @capability("odd.start", effect="pure", process=True)
    def start() -> Any:
        """Start."""
        return given

    assert call_capability(start).failure == ""


def test_check_refuses_a_process_capability_that_declares_something_else() -> None:
    def start() -> None: ...

    def faults(annotation: Any) -> list[str]:
        start.__annotations__["return"] = annotation
        return list(faults_of(capability("odd.start", effect="pure", process=True)(start)))

    said = "it is `process=True` and declares to return `{}`: it has to return a Spawn or a Pause"
    assert faults(int) == [said.format("int")]
    assert faults(None) == [said.format("None")]
    assert faults(dict[str, Any]) == [said.format("dict[str, typing.Any]")]
    assert faults(Spawn) == faults(Pause) == faults(Spawn | Pause) == faults(Outcome | Spawn) == faults(Any) == []
