"""What a plan gives a capability of a plugin arrives as the type that the function says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict, Unpack

import pytest
from rows import rows

from planrunner.api import Context, Doc, Preview, capability
from planrunner.capabilities.jsonschema import faults as misfits
from planrunner.capabilities.signature import describe, schema_of
from planrunner.plan.rules.capability import faults
from planrunner.testing.bench import run_plan
from planrunner.testing.capability import call_capability


class Row(TypedDict):
    name: str
    wait: NotRequired[Annotated[float, Doc("how long", quantity="duration")]]


class Options(TypedDict, total=False):
    label: str
    most: Annotated[int, Doc("how much", quantity="size")]


def _taking(annotation: Any) -> Any:
    def take(x: Any) -> None: ...

    def echo(x: Any) -> dict[str, Any]:
        """Give it back."""
        return {"got": x, "kind": type(x).__name__}

    echo.__annotations__["x"] = annotation
    return capability("echo.back", effect="pure")(echo)


def _got(annotation: Any, value: Any) -> Any:
    outcome = call_capability(_taking(annotation), {"x": value})
    assert not outcome.failure, outcome.message
    return outcome.outputs["got"]


def _refused(annotation: Any, value: Any) -> str:
    outcome = call_capability(_taking(annotation), {"x": value})
    assert outcome.failure == "logic", outcome
    return outcome.message


def _said(annotation: Any, value: Any) -> str:
    """What lint says of the value written out; empty where it is right."""
    (field,) = describe(_taking(annotation)).inputs
    return "; ".join(f"{fault.path} {fault.said}" for fault in faults(value, field))


DURATION = Doc("how long", quantity="duration")
SIZE = Doc("how much", quantity="size")
MONEY = Doc("what it costs", quantity="money")


@rows(
    ("annotation", "value", "expected"),
    [
        (str, 5, "5"),
        (str, 1.5, "1.5"),
        (str, True, "true"),
        (str, "5", "5"),
        (str | None, 5, "5"),
        (Annotated[str, Doc("words")], False, "false"),
        (list[str], [1, "b", True], ["1", "b", "true"]),
        (dict[str, str], {"a": 1}, {"a": "1"}),
        (list[str] | str, 5, "5"),
        (list[str] | str, [5], ["5"]),
        (int | str, 5, 5),
        (Any, 5, 5),
        (Row, {"name": 7}, {"name": "7"}),
        (list[Row], [{"name": 7, "wait": "2m"}], [{"name": "7", "wait": 120.0}]),
        (tuple[int, str], [1, 2], [1, "2"]),
        (tuple[str, ...], [1, 2], ["1", "2"]),
        (int, 3.0, 3),
        (Literal["a", "b"], "a", "a"),
    ],
)
def test_a_number_or_a_bool_arrives_as_text_where_text_is_wanted(annotation: Any, value: Any, expected: Any) -> None:
    assert _said(annotation, value) == ""
    got = _got(annotation, value)
    assert got == expected
    assert type(got) is type(expected)


@rows(
    ("annotation", "value", "expected"),
    [
        (Annotated[float, DURATION], "4s", 4.0),
        (Annotated[float, DURATION], 4, 4.0),
        (Annotated[float, DURATION], "1h30m", 5400.0),
        (Annotated[int, DURATION], "4s", 4),
        (Annotated[float | None, DURATION], "500ms", 0.5),
        (Annotated[float | int, DURATION], "2s", 2),
        (Annotated[int, SIZE], "50MB", 50_000_000),
        (Annotated[int, SIZE], 7, 7),
        (Annotated[float, MONEY], "$0.50", 0.5),
        (Annotated[str, DURATION], "4s", "4s"),
        (Annotated[str | float, DURATION], "4s", "4s"),
        (Annotated[Any, DURATION], "4s", "4s"),
        (list[Annotated[float, DURATION]], ["4s", 1], [4.0, 1.0]),
    ],
)
def test_an_amount_arrives_as_a_number_where_a_number_is_wanted(annotation: Any, value: Any, expected: Any) -> None:
    assert _said(annotation, value) == ""
    got = _got(annotation, value)
    assert got == expected
    assert type(got) is type(expected)


@rows(
    ("annotation", "value", "message"),
    [
        (Annotated[int, DURATION], "1.5s", 'expected a whole number of seconds, found "1.5s"'),
        (Annotated[float, DURATION], "soon", 'expected a duration such as 10s, found "soon"'),
        (int, "five", "does not fit its type: expected integer, found string"),
        (str, ["a"], "does not fit its type: expected string, found array"),
        (list[int], [1, "b"], "does not fit its type: /1: expected integer, found string"),
        (tuple[int, str], [1], "does not fit its type: 1 items are less than 2"),
        (tuple[int, str], ["a", "b"], "does not fit its type: /0: expected integer, found string"),
    ],
)
def test_a_value_of_the_run_that_does_not_fit_is_named_before_the_function_is_called(
    annotation: Any, value: Any, message: str
) -> None:
    said = _refused(annotation, value)
    assert said.startswith("the input `x`")
    assert message in said


def test_lint_names_an_amount_that_is_no_whole_number() -> None:
    assert _said(Annotated[int, DURATION], "1.5s") == "() is `1.5s`, expected a whole number of seconds"
    assert _said(Annotated[int, SIZE], 7) == ""
    assert "expected a duration" in _said(Annotated[int, DURATION], "soon")


def test_a_fixed_tuple_takes_as_many_values_each_of_its_own_type() -> None:
    kind, schema = schema_of(tuple[int, str])
    assert kind == "list"
    assert misfits(schema, [1, "a"]) == []
    assert misfits(schema, [1]) and misfits(schema, [1, "a", 2]) and misfits(schema, ["a", 1])
    assert misfits(schema_of(tuple[()])[1], [1]) and not misfits(schema_of(tuple[()])[1], [])
    assert _said(tuple[int, str], [1, "a"]) == ""
    assert _said(tuple[int, str], [1]) == "() has 1 item, expected 2"
    assert _said(tuple[int, str], [1, "a", 2]) == "() has 3 items, expected 2"
    assert _said(tuple[int, str], ["a", "b"]) == "(0,) is a string, expected int"
    assert _said(tuple[int, str] | None, [1]) == "() has 1 item, expected 2"
    assert _said(tuple[()], []) == ""
    assert _said(tuple[int, ...], [1, 2, 3]) == ""


def test_the_task_to_copy_has_a_value_for_each_place_of_a_fixed_tuple() -> None:
    from planrunner.app.plans.reference import example_tasks
    from planrunner.capabilities.builtin import description_of

    assert "x: [1, text]" in example_tasks(describe(_taking(tuple[int, str])), description_of)


def test_planrunners_own_capabilities_are_called_as_they_were_without_a_look_at_their_types() -> None:
    from planrunner.capabilities.binding import bind
    from planrunner.capabilities.builtin import TARGETS, load

    for name in ("shell", "noop", "sleep", "files.write", "http.get"):
        assert bind(name, load(TARGETS[name])).typed is None


def test_records_in_fixed_tuples_take_no_other_keys() -> None:
    assert _said(tuple[int, Row], [1, {"name": "a", "nome": "b"}]).startswith("(1, 'nome') has no key `nome`")


def test_inputs_of_one_typed_dict_and_keywords_are_taken_alike() -> None:
    @capability("echo.more", effect="pure")
    def more(class_: str, **options: Unpack[Options]) -> dict[str, Any]:
        """Give it back."""
        return {"class": class_, **options}

    outcome = call_capability(more, {"class": 5, "label": 6, "most": "2KB"})
    assert outcome.outputs == {"class": "5", "label": "6", "most": 2000}
    assert call_capability(more, {"class": "a", "label": None}).outputs == {"class": "a", "label": None}


def test_values_of_expressions_arrive_as_constants_do_and_what_is_beside_the_call_gets_the_same(
    tmp_path: Path,
) -> None:
    seen: dict[str, Any] = {}

    def preview(context, wait, text):  # type: ignore[no-untyped-def]
        return Preview(f"wait {wait!r} for {text!r}")

    def capture(context, wait, text):  # type: ignore[no-untyped-def]
        seen["capture"] = (wait, text)
        return {"wait": wait}

    def undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> None:
        seen["undo"] = before

    @capability("echo.wait", effect="idempotent", preview=preview, capture=capture, undo=undo)
    def wait(wait: Annotated[float, DURATION], text: str) -> None:
        """Wait."""
        seen["call"] = (wait, text)

    plan = """
        plan: p
        on_failure: rollback
        params: {n: {type: int, default: 7}, t: {type: duration, default: 3s}}
        tasks:
          - {id: a, uses: echo.wait, with: {wait: "{{ params.t }}", text: "{{ params.n }}"}, timeout: 2m}
          - {id: b, uses: fail, needs: a, timeout: 2m}
    """
    run_plan(plan, str(tmp_path), [wait])
    assert seen == {"capture": (3.0, "7"), "call": (3.0, "7"), "undo": {"wait": 3.0}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"text": 5, "wait": "4s"}, ""),
        (
            {"text": ["a"], "wait": "4s"},
            "the inputs of the case do not fit the schema: the input `text` does not fit its type",
        ),
        (
            {"text": "a", "wait": "soon"},
            "the inputs of the case do not fit the schema: the input `wait`: expected a duration",
        ),
    ],
)
def test_the_conformance_suite_takes_inputs_as_a_run_does(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    from planrunner.testing.conformance import Case, checks

    @capability("echo.text", effect="pure")
    def text(text: Annotated[str, Doc("words")], wait: Annotated[float, DURATION]) -> Annotated[str, Doc("both")]:
        """Give both."""
        return text * int(wait)

    for number, check in enumerate(checks([Case(text, lambda directory: given)])):
        if check.aspect not in ("schema", "outcome", "replay") or (said and check.aspect != "schema"):
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            check(folder)
        except AssertionError as error:
            assert said and str(error).startswith(said)
        else:
            assert not said
