"""What a capability of a plugin answers that cannot be right: no process, no class, nothing that was waited for."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from rows import rows

from planrunner.api import Context, Failure, Outcome, Pause, Spawn, capability
from planrunner.plugins.catalogue import faults_of
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


@rows("word", ["not a class! ✗", "two words", " ", "5", "-x", "a\nb", "ü", "x" * 65])
def test_a_failure_whose_class_no_plan_can_name_is_a_logic_failure_that_says_so(word: str) -> None:
    @capability("odd.raises", effect="pure")
    def raises() -> None:
        """Raise."""
        raise Failure("it went wrong", word, {"kept": 1})

    @capability("odd.gives", effect="pure")
    def gives() -> Outcome:
        """Give."""
        return Outcome(word, "it went wrong", {"kept": 1})

    for one in (raises, gives):
        outcome = call_capability(one)
        assert outcome.failure == "logic"
        assert outcome.message.startswith("failed with ")
        assert outcome.message.endswith(", which is not a failure class: it went wrong")
        assert len(outcome.message) < 150
        assert outcome.outputs == {"kept": 1}


@pytest.mark.parametrize("word", ["transient", "unknown_city", "http.404", "too-large", "X"])
def test_a_class_that_is_a_name_is_kept(word: str) -> None:
    @capability("odd.raises", effect="pure")
    def raises() -> None:
        """Raise."""
        raise Failure("it went wrong", word)

    assert call_capability(raises).failure == word


def test_an_async_def_fails_with_words_and_without_a_warning() -> None:
    @capability("odd.later", effect="pure")
    async def later() -> int:
        """Later."""
        return 5

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        outcome = call_capability(later)
    assert not told
    assert outcome.failure == "logic"
    assert outcome.message == "the function is an `async def`, which is not awaited: make it a plain function"


def test_a_result_that_is_too_deep_is_told_in_a_line() -> None:
    @capability("odd.deep", effect="pure")
    def deep() -> Any:
        """Go deep."""
        found: Any = []
        for _ in range(200):
            found = [found]
        return found

    outcome = call_capability(deep)
    assert outcome.failure == "logic"
    assert outcome.message == "the result.value[0][0][0]…[0][0][0] lies deeper than 100 levels"


def test_the_traceback_of_a_failed_call_begins_in_the_plugin() -> None:
    @capability("odd.breaks", effect="pure")
    def breaks(context: Context) -> None:
        """Break."""
        raise ValueError("broken")

    lines = call_capability(breaks).stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert __file__ in lines[1]
    assert lines[-1] == "ValueError: broken"


def test_a_call_that_does_not_fit_the_function_shows_no_code_of_planrunner() -> None:
    @capability("odd.needs", effect="pure")
    def needs(what: int) -> None:
        """Need."""

    outcome = call_capability(needs)
    assert "missing 1 required positional argument: 'what'" in outcome.message
    assert "binding.py" not in outcome.stderr
