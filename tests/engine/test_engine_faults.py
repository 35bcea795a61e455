"""Whatever a capability raises or gives ends its attempt at once, with words about what was wrong."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from planrunner.capabilities.contract import Context, Failure, Pause, Spawn, capability
from planrunner.capabilities.soundness import not_json
from planrunner.engine.effects import Probe
from planrunner.engine.poller import Workers
from planrunner.machine.events import Outcome

ENDS = [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException("odd")]
TOLD = ["SystemExit: 3", "KeyboardInterrupt", "GeneratorExit", "BaseException: odd"]


def raising(error: BaseException) -> Any:
    def function(**inputs: Any) -> Any:
        raise error

    return function


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def circle() -> dict[str, Any]:
    value: dict[str, Any] = {"a": [1]}
    value["a"].append(value)
    return value


class TestWhatIsRaised:
    @pytest.mark.parametrize(("error", "told"), list(zip(ENDS, TOLD, strict=True)), ids=TOLD)
    @pytest.mark.parametrize("kind", ["thread", "instant", "process", "finish", "load"])
    def test_no_exception_is_waited_for_and_each_is_named(self, bench, error, told, kind) -> None:
        function = raising(error)
        options = {"instant": {"instant": True}, "process": {"process": True}}.get(kind, {})
        if kind == "finish":
            given = lambda: Spawn(("true",), {}, "", finish=lambda ended: raising(error)())  # noqa: E731
            function, options = given, {"process": True}
        bench.functions["x.end"] = capability("x.end", effect="read", **options)(function)
        if kind == "load":
            bench.resolve = lambda name: raising(error)()
            bench.reopen()
        outcome = bench.run(uses="x.end", timeout=200.0)
        assert outcome.failure == "logic", "it was not waited for"
        assert outcome.message.endswith(told)

    @pytest.mark.parametrize("error", ENDS, ids=TOLD)
    def test_a_probe_that_raises_tells_nothing(self, bench, error) -> None:
        bench.functions["x.probe"] = capability("x.probe", effect="checkable", probe=raising(error))(lambda: None)
        bench.effects.start([Probe(bench.call(uses="x.probe"))])
        (event,) = bench.effects.wait(None)
        assert event.resolution == "unknown"

    def test_a_real_interrupt_is_not_taken_for_a_fault(self, bench) -> None:
        import signal

        def slow() -> None:
            signal.raise_signal(signal.SIGINT)

        bench.reopen(own_process=False)
        bench.functions["x.slow"] = capability("x.slow", effect="read", instant=True)(slow)
        with pytest.raises(KeyboardInterrupt):
            bench.run(uses="x.slow")

    @pytest.mark.parametrize(("kind", "told"), [("", "without a class"), (5, "5 as its class")])
    @pytest.mark.parametrize("instant", [True, False])
    def test_a_failure_without_a_class_is_a_logic_failure(self, bench, kind, told, instant) -> None:
        bench.functions["x.fail"] = capability("x.fail", effect="read", instant=instant)(raising(Failure("no", kind)))
        outcome = bench.run(uses="x.fail")
        assert outcome.failure == "logic"
        assert told in outcome.message
        assert outcome.message.endswith(": no")

    def test_a_message_that_cannot_be_told_is_no_trouble(self, bench) -> None:
        class Odd(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no")

        bench.functions["x.odd"] = raising(Odd())
        assert bench.run(uses="x.odd").message == "Odd: its message cannot be told"

    def test_work_that_raises_against_the_rule_is_told_in_the_loop(self) -> None:
        woken = threading.Event()
        workers = Workers(woken.set)
        workers.submit(raising(SystemExit(4)), lambda result: None)
        assert woken.wait(240)
        with pytest.raises(SystemExit):
            workers.collect()
        assert workers.busy == 0
        workers.close()


class TestWhatIsGiven:
    @pytest.mark.parametrize("instant", [True, False])
    @pytest.mark.parametrize(
        ("given", "told"),
        [
            (lambda: circle(), "the result.a[1] refers to itself"),
            (lambda: nested(5000), "lies deeper than 100 levels"),
            (lambda: "\ud800", "the result.value is not text that UTF-8 can encode: it has half of a surrogate pair"),
            (
                lambda: {"a": {"\ud800": 1}},
                r"the result.a has the key '\ud800', which is not text that UTF-8 can encode",
            ),
            (lambda: 10**5000, "the result.value is a number of too many digits"),
            (lambda: Outcome(5), "the result is an Outcome whose `failure` is a int"),  # type: ignore[arg-type]
            (lambda: Outcome("", None), "the result is an Outcome whose `message` is a NoneType"),  # type: ignore[arg-type]
            (lambda: Outcome(outputs=[1]), "the result is an Outcome whose `outputs` is a list"),  # type: ignore[arg-type]
            (lambda: Outcome(usage=5), "the result is an Outcome whose `usage` is a int"),  # type: ignore[arg-type]
            (lambda: Outcome(artifacts=(5,)), "`artifacts` are not all maps"),  # type: ignore[arg-type]
            (lambda: Outcome(artifacts=({"name": "\ud800"},)), "what it kept[0].name is not text"),
            (lambda: Pause("x"), "it asked for a pause of 'x' seconds"),  # type: ignore[arg-type]
            (lambda: Pause(0.01, 5), "the result is a int, not an Outcome"),  # type: ignore[arg-type]
            (lambda: Spawn((), {}, ""), "it asked for a process whose arguments are not texts"),
            (lambda: Spawn(("true",), {"A": 1}, ""), "environment is not of texts"),  # type: ignore[dict-item]
            (lambda: Spawn(("true",), {}, "", "x"), "directory is not text, stdin not bytes"),  # type: ignore[arg-type]
            (lambda: Spawn(("true",), {}, "", finish=lambda ended: 5), "the result is a int"),  # type: ignore[arg-type,return-value]
        ],
        ids=range(17),
    )
    def test_what_nobody_can_keep_or_do_is_a_logic_failure(self, bench, given, told, instant) -> None:
        bench.functions["x.give"] = capability("x.give", effect="read", instant=instant)(given)
        outcome = bench.run(uses="x.give")
        assert outcome.failure == "logic"
        assert told in outcome.message

    def test_a_failure_keeps_its_class_where_its_outputs_are_left_out(self, bench) -> None:
        bench.functions["x.fail"] = raising(Failure("no \ud800", "quota", {"a": nested(200)}))
        outcome = bench.run(uses="x.fail")
        assert (outcome.failure, outcome.outputs) == ("quota", {})
        assert outcome.message.startswith("no \\ud800; the result.a[0]")

    def test_a_value_that_grows_without_end_by_sharing_is_refused_soon(self, monkeypatch) -> None:
        monkeypatch.setattr("planrunner.capabilities.soundness.MOST", 10_000)
        value: list[Any] = []
        for _ in range(90):
            value = [value, value]
        assert "more than 10000 members" in not_json(value)
        same = [1]
        assert not_json([same, same]) == ""

    def test_what_is_no_bytes_for_the_log_and_no_name_for_an_artifact_fails_where_it_is_given(self, bench) -> None:
        def text(context: Context) -> None:
            context.log.write("text")  # type: ignore[arg-type]

        def name(context: Context) -> None:
            context.keep(b"x", "\ud800")

        bench.functions.update({"x.text": text, "x.name": name})
        assert "the log takes bytes" in bench.run(uses="x.text").message
        assert "name and type of the artifact[0] is not text" in bench.run(uses="x.name").message
