"""What `plugins check` refuses in the functions of a capability, and what it lets pass."""

from __future__ import annotations

import datetime as dt
import enum
import pathlib
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict, Union

from rows import rows

from planrunner.api import Context, Doc, Outcome, Preview, Spawn, capability
from planrunner.plugins.catalogue import faults_of
from planrunner.plugins.registry import Registry


class Colour(enum.Enum):
    red = 1


class Row(TypedDict):
    name: str
    sizes: NotRequired[list[float]]


class Pair(NamedTuple):
    one: Annotated[int, Doc("one")]
    other: Row


class Held(NamedTuple):
    data: bytes


User = NewType("User", str)


def _faults(function: Callable[..., Any], **options: Any) -> list[str]:
    return list(faults_of(capability("a.b", **options)(function)))


def _takes(annotation: Any) -> list[str]:
    def it(x: Any) -> None: ...

    it.__annotations__ = {"x": annotation}
    return _faults(it)


def _gives(annotation: Any) -> list[str]:
    def it() -> Any: ...

    it.__annotations__ = {"return": annotation}
    return _faults(it)


@rows(
    "annotation",
    [
        str, int, float, bool, None, Any, list, dict, list[int], dict[str, Any], tuple[int, ...], Literal["a", 1],
        Union[int, list[str]], "int | None", Row, Pair, list[Row], Sequence[str], Mapping[str, int], User,
        Annotated[str, Doc("how long", quantity="duration")], Annotated[dict[str, Row], Doc("rows")],
    ],
)  # fmt: skip
def test_types_that_json_has_a_form_for_pass(annotation: Any) -> None:
    assert _takes(annotation) == []
    assert _gives(annotation) == []


@rows(
    ("annotation", "named"),
    [
        (bytes, "bytes"), (pathlib.Path, "Path"), (Colour, "Colour"), (set, "set"), (set[str], "set"),
        (Callable[[], int], "Callable"), (dt.date, "date"), (list[bytes], "bytes"), (dict[str, set], "set"),
        (Annotated[bytes, Doc("data")], "bytes"), (Union[Colour, None], "Colour"), (Held, "bytes"), (dict[int, str], "int"),
    ],
)  # fmt: skip
def test_types_that_json_has_no_form_for_are_refused(annotation: Any, named: str) -> None:
    for what, faults in (("the input `x`", _takes(annotation)), ("what it returns", _gives(annotation))):
        (fault,) = faults
        assert fault.startswith(f"{what} has the type `")
        assert named in fault
        assert "which JSON has no form for: it may be str, int," in fault


def test_what_a_function_answers_with_is_no_data() -> None:
    assert _gives(Outcome) == _gives(Spawn) == _gives(Union[Outcome, Spawn]) == []


def test_inputs_without_an_annotation_and_docs_that_say_nothing_are_refused() -> None:
    def it(context, class_, x: Annotated[str, Doc(3, quantity="weight")] = "") -> None:  # type: ignore[no-untyped-def, arg-type]
        ...

    it.__annotations__["x"] = Annotated[str, Doc(3, quantity="weight")]  # type: ignore[arg-type]
    assert _faults(it) == [
        "the input `class` has no annotation, which says what it accepts",
        "the text of the Doc of the input `x` is not a text but int",
        "the quantity `weight` of the input `x` is not one of duration, size, money",
    ]


def test_functions_that_nobody_awaits_or_goes_through_are_refused() -> None:
    async def late() -> None: ...

    async def streams() -> Any:
        yield

    def lazy() -> Any:
        yield

    assert "an `async def`" in _faults(late)[0]
    assert "an `async def`" in _faults(streams)[0]
    assert "a generator" in _faults(lazy)[0]
    assert "its `probe` is an `async def`" in _faults(lambda: None, probe=late)[0]
    assert _faults(lambda: None, instant=True, process=True) == ["`instant=True` and `process=True` exclude each other"]


class TestCompanions:
    def _faults(self, **options: Any) -> list[str]:
        def it(context: Context, city: str, class_: str = "") -> None: ...

        return _faults(it, effect="idempotent", **options)

    def test_those_that_can_be_called_pass(self) -> None:
        def preview(context: Context, city: str, class_: str = "") -> Preview:
            return Preview("")

        def capture(city: str, **others: Any) -> dict[str, Any]:
            return {}

        def undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> None: ...

        assert self._faults(preview=preview, capture=capture, undo=undo, probe=preview) == []

    def test_those_that_cannot_are_refused_with_what_they_are_given(self) -> None:
        def other(ctx: Context, city: str, class_: str = "") -> Preview:
            return Preview("")

        def greedy(context: Context, city: str, class_: str) -> dict[str, Any]:
            return {}

        assert self._faults(preview=3, probe="x") == [
            "its `preview` is not a function but int",
            "its `probe` is not a function but str",
        ]
        (fault,) = self._faults(preview=other)
        assert (
            fault
            == "its `preview` cannot be called with `context`, `city`, `class`, as it is: missing a required argument: 'ctx'"
        )
        assert "its `capture` cannot be called with `context`, `city`, as it is" in self._faults(capture=greedy)[0]
        assert "its `undo` cannot be called with `context`, `before`, `outputs`" in self._faults(undo=greedy)[0]

    def test_one_without_the_other_is_refused(self) -> None:
        def undo(context: Context, before: Any, outputs: Any) -> None: ...

        assert self._faults(undo=undo) == ["it has `undo` and no `capture`, so nothing is known of the state before"]
        assert self._faults(capture=lambda context, **inputs: {}) == ["it has `capture` and no `undo`"]


def test_a_name_or_effect_that_will_not_do_is_told_when_it_is_loaded() -> None:
    @capability("odd.Verb", effect="checkable")
    def it() -> None: ...

    registry = Registry(plugins=False)
    registry.add(SimpleNamespace(it=it), "odd")
    assert registry.find("odd.Verb") is not None
    named, probed = registry.problems()
    assert named.startswith("the capability `odd.Verb` of odd: ")
    assert named.endswith("is not named `family.verb` in lower case")
    assert probed.endswith("it is `checkable` and has no `probe`")
