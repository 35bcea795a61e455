"""What a capability function says about itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Unpack

import pytest

from planrunner.capabilities import builtin
from planrunner.capabilities.builtin import description_of
from planrunner.capabilities.contract import Context, Doc, Spawn, capability
from planrunner.capabilities.signature import describe
from planrunner.plan.model import Capability, Field
from planrunner.plugins.registry import Registry


class Weather(TypedDict):
    degrees: Annotated[float, Doc("how warm it is")]
    words: str


class Place(NamedTuple):
    name: str
    height: int


@capability("weather.now", effect="read", risks=("asks a server",))
def now(
    context: Context,
    city: Annotated[str, Doc("name of the city")],
    units: Literal["c", "f"] = "c",
    days: Optional[int] = None,  # noqa: UP045
    tags: list[str] | None = None,
    limits: dict[str, float] = {},  # noqa: B006
    from_: str = "here",
    wait: Annotated[Any, Doc("how long to wait at most", quantity="duration")] = "10s",
) -> Weather:
    """Current weather of a city.

    Asks the nearest station.

    :param days: how many days ahead
    """
    raise NotImplementedError


class TestDescribe:
    def test_a_function_becomes_a_description(self) -> None:
        found = describe(now, "planrunner-weather")
        assert found._replace(inputs=(), outputs=()) == Capability(
            "weather.now",
            "Current weather of a city.",
            "Asks the nearest station.",
            "read",
            risks=("asks a server",),
            plugin="planrunner-weather",
        )
        assert found.inputs == (
            Field("city", "string", True, None, "name of the city", {"type": "string"}),
            Field("units", "string", False, "c", "", {"enum": ["c", "f"]}),
            Field("days", "int", False, None, "how many days ahead", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            Field(
                "tags", "list", False, None, "",
                {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            ),
            Field("limits", "map", False, {}, "", {"type": "object", "additionalProperties": {"type": "number"}}),
            Field("from", "string", False, "here", "", {"type": "string"}),
            Field("wait", "duration", False, "10s", "how long to wait at most", {"type": ["string", "number"]}),
        )  # fmt: skip
        assert found.outputs == (
            Field("degrees", "number", True, None, "how warm it is", {"type": "number"}),
            Field("words", "string", True, None, "", {"type": "string"}),
        )

    def test_many_inputs_may_be_given_as_one_typed_dict(self) -> None:
        class More(TypedDict, total=False):
            days: Annotated[int, Doc("how many")]
            wait: Annotated[str | None, Doc("how long", quantity="duration")]
            data: Any

        def function(city: str, **more: Any) -> None:
            """Look.

            :param data: what to send
            """

        function.__annotations__["more"] = Unpack[More]
        found = describe(capability("a.b")(function))
        assert found.inputs == (
            Field("city", "string", True, None, "", {"type": "string"}),
            Field("days", "int", False, None, "how many", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            Field(
                "wait",
                "duration",
                False,
                None,
                "how long",
                {"anyOf": [{"type": ["string", "number", "null"]}, {"type": "null"}]},
            ),
            Field("data", "any", False, None, "what to send", {}),
        )
        assert not found.open_inputs
        function.__annotations__["more"] = Any
        assert describe(capability("a.b")(function)).open_inputs

    def test_every_schema_is_valid_and_takes_the_defaults(self) -> None:
        import jsonschema

        for described in (describe(now), *map(description_of, builtin.TARGETS)):
            for field in (*described.inputs, *described.outputs):
                jsonschema.Draft202012Validator.check_schema(field.schema)
                if not field.required:
                    jsonschema.validate(field.default, field.schema)

    def test_return_annotations_decide_about_outputs(self) -> None:
        def make(annotation: Any) -> Capability:
            def function() -> None: ...

            function.__annotations__["return"] = annotation
            return describe(capability("a.b")(function))

        assert [(field.name, field.type) for field in make(Place).outputs] == [("name", "string"), ("height", "int")]
        assert [(field.name, field.type) for field in make(int).outputs] == [("value", "int")]
        assert make(None).outputs == make(Spawn).outputs == ()
        assert make(dict[str, Any]).open_outputs
        assert not make(Place).open_outputs

    def test_keyword_catchers_leave_the_inputs_open(self) -> None:
        @capability("a.b")
        def function(**inputs: Any) -> None: ...

        found = describe(function)
        assert (found.open_inputs, found.inputs) == (True, ())

    def test_google_style_arguments_are_understood(self) -> None:
        @capability("a.b")
        def function(one: str, two: int = 1) -> None:
            """Do it.

            Args:
                one: the first
                two (int): the second

            Then it is done.
            """

        found = describe(function)
        assert [field.description for field in found.inputs] == ["the first", "the second"]
        assert found.description == "Then it is done."

    def test_what_no_plan_can_call_is_refused(self) -> None:
        with pytest.raises(TypeError, match="is not marked with @capability"):
            describe(len)

        @capability("a.b")
        def positional(one: str, /) -> None: ...

        with pytest.raises(TypeError, match=r"the parameter `one` of .* cannot be given by name"):
            describe(positional)
        with pytest.raises(TypeError):
            capability("a.b", colour="red")


class TestBuiltins:
    def test_their_written_descriptions_are_what_their_signatures_say(self) -> None:
        for name, target in builtin.TARGETS.items():
            assert description_of(name) == describe(builtin.load(target)), name

    def test_each_is_documented(self) -> None:
        for described in map(description_of, builtin.TARGETS):
            assert described.summary.endswith("."), described.name
            assert all(field.description for field in described.inputs), described.name


def test_a_plain_return_has_the_words_of_its_doc() -> None:
    def count() -> Annotated[int, Doc("the number")]:
        return 1

    (output,) = describe(capability("a.b")(count)).outputs
    assert (output.name, output.type, output.description) == ("value", "int", "the number")

    def wait() -> Annotated[str, Doc("how long it took", quantity="duration")]:
        return "1s"

    (output,) = describe(capability("a.b")(wait)).outputs
    assert (output.type, output.description) == ("duration", "how long it took")


def test_whatever_changes_something_says_what_may_go_wrong() -> None:
    registry = Registry()
    found = [registry.find(name) for name in registry.names()]
    silent = [
        each.name for each in found if each is not None and each.effect not in ("pure", "read") and not each.risks
    ]
    assert silent == []


def test_a_precondition_of_no_known_kind_is_misdeclared() -> None:
    @capability("tags.set", preconditions=("programme git",))
    def tag() -> None: ...

    with pytest.raises(TypeError, match=r"the precondition 'programme git' is not one of: program, package, variable"):
        describe(tag)
