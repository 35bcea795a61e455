"""What a capability of a plugin gives is held to the types that it declares, in a run as well."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

from rows import rows

from planrunner.api import Doc, Outcome, capability
from planrunner.testing.capability import call_capability


class Weather(TypedDict):
    degrees: float
    words: NotRequired[str]


class Place(NamedTuple):
    name: str
    height: int


def _giving(annotation: Any, value: Any) -> Outcome:
    def it() -> Any:
        """Give."""
        return value

    it.__annotations__["return"] = annotation
    return call_capability(capability("it.gives", effect="pure")(it))


@rows(
    ("annotation", "value", "expected"),
    [
        (int, 5, {"value": 5}),
        (float, 5, {"value": 5}),
        (str | None, None, {}),
        (None, None, {}),
        (Any, "x", {"value": "x"}),
        (dict[str, Any], {"a": 1}, {"a": 1}),
        (Weather, {"degrees": 1.5}, {"degrees": 1.5}),
        (Weather, {"degrees": 1, "words": "sunny"}, {"degrees": 1, "words": "sunny"}),
        (Place, Place("Rome", 21), {"name": "Rome", "height": 21}),
        (list[Place], [Place("Rome", 21)], {"value": [{"name": "Rome", "height": 21}]}),
        (tuple[int, str], (1, "a"), {"value": [1, "a"]}),
        (Annotated[int, Doc("how many")], 5, {"value": 5}),
        (Outcome, Outcome(outputs={"any": "thing"}), {"any": "thing"}),
    ],
)
def test_what_is_of_the_declared_type_is_the_output(annotation: Any, value: Any, expected: Any) -> None:
    outcome = _giving(annotation, value)
    assert (outcome.failure, outcome.outputs) == ("", expected), outcome.message


@rows(
    ("annotation", "value", "message"),
    [
        (int, "five", "the output `value` does not fit its type int: expected integer, found string"),
        (int, True, "the output `value` does not fit its type int: expected integer, found boolean"),
        (list[int], [1, "b"], "the output `value` does not fit its type list: /1: expected integer, found string"),
        (tuple[int, str], (1,), "the output `value` does not fit its type list: 1 items are less than 2"),
        (Weather, {"degrees": "warm"}, "the output `degrees` does not fit its type number: expected number, found str"),
        (Weather, {"words": "sunny"}, "the declared output `degrees` is missing"),
        (Place, Place("Rome", None), "the output `height` does not fit its type int: expected integer, found null"),  # type: ignore[arg-type]
        (Weather, Outcome(outputs={"degrees": "warm"}), "the output `degrees` does not fit its type number"),
        (int, None, "the declared output `value` is missing"),
    ],
)
def test_what_is_of_another_type_fails_the_task_and_names_the_capability(
    annotation: Any, value: Any, message: str
) -> None:
    outcome = _giving(annotation, value)
    assert outcome.failure == "logic"
    assert outcome.message.startswith(f"what `it.gives` gave is not what it declares: {message}")


def test_outputs_of_another_type_are_kept_for_whoever_looks_and_for_undo() -> None:
    assert _giving(int, "five").outputs == {"value": "five"}


def test_a_failure_that_the_capability_gives_itself_is_left_alone() -> None:
    outcome = _giving(Weather, Outcome("closed", "no station", {"degrees": "none"}))
    assert (outcome.failure, outcome.message) == ("closed", "no station")
