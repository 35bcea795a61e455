"""Live effects: what is started ends in one event each, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path

import pytest

from planrunner.capabilities.contract import Context, Failure, Pause, Spawn, capability
from planrunner.engine import orphans
from planrunner.engine.effects import ObserveFacts, Probe, StartCall
from planrunner.engine.observation import observe
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.machine.events import AttemptEnded, DoubtSettled, FactsObserved, Outcome, StopRequested
from planrunner.plan.expressions.values import FACTS
from planrunner.plan.model import Artifact, Output


class TestFunctions:
    def test_an_instant_capability_ends_before_anybody_waits(self, bench) -> None:
        bench.start(uses="noop", inputs={"value": [1, {"a": None}]})
        assert bench.effects.wait(None) == [AttemptEnded("task", 1, Outcome(outputs={"value": [1, {"a": None}]}))]

    def test_fail_fails_with_the_class_and_message_it_is_given(self, bench) -> None:
        outcome = bench.run(uses="fail", inputs={"class": "transient", "message": "try again"})
        assert (outcome.failure, outcome.message) == ("transient", "try again")
        assert bench.run(uses="fail").failure == "logic"

    def test_functions_run_side_by_side_in_threads_that_are_used_again(self, bench) -> None:
        together = threading.Barrier(4, timeout=240)
        names = set()

        def meet() -> dict[str, str]:
            together.wait()
            names.add(threading.current_thread().ident)
            return {"met": "yes"}

        bench.functions["meet"] = meet
        for turn in range(5):
            for number in range(4):
                bench.start(f"t{turn}{number}", uses="meet")
            assert {outcome.outputs["met"] for outcome in bench.outcomes(4).values()} == {"yes"}
        assert len(names) == 4

    def test_what_a_function_returns_becomes_its_outputs(self, bench) -> None:
        from typing import NamedTuple

        class Pair(NamedTuple):
            left: int
            right: str

        for returned, outputs in (
            ({"a": 1}, {"a": 1}),
            (Pair(1, "b"), {"left": 1, "right": "b"}),
            (None, {}),
            (7, {"value": 7}),
            ([1, 2], {"value": [1, 2]}),
            (Outcome(outputs={"x": 1}), {"x": 1}),
        ):
            bench.functions["give"] = lambda returned=returned: returned
            bench.reopen()
            assert bench.run(uses="give").outputs == outputs

    @pytest.mark.parametrize(
        ("returned", "message"),
        [
            ({"a": {"b": object()}}, "the result.a.b is a object, which is not JSON data"),
            ({"a": [float("nan")]}, "the result.a[0] is nan, which JSON cannot hold"),
            ({1: "a"}, "the result has the key 1, which is not text"),
            (b"bytes", "the result.value is a bytes, which is not JSON data"),
        ],
    )
    def test_what_is_no_json_data_fails_the_task_and_says_where(self, bench, returned, message) -> None:
        bench.functions["give"] = lambda: returned
        outcome = bench.run(uses="give")
        assert (outcome.failure, outcome.message, outcome.outputs) == ("logic", message, {})

    def test_a_failure_keeps_its_class_and_outputs(self, bench) -> None:
        def refuse() -> None:
            raise Failure("quota is used up", "quota", {"left": 0})

        bench.functions["refuse"] = refuse
        outcome = bench.run(uses="refuse")
        assert (outcome.failure, outcome.message, outcome.outputs) == ("quota", "quota is used up", {"left": 0})

    @pytest.mark.parametrize("word", ["interrupted", "unstarted"])
    def test_the_words_of_the_engine_for_attempts_that_are_not_over_are_no_failure_class(self, bench, word) -> None:
        def refuse() -> None:
            raise Failure("no", word)

        said = Outcome(word, "no")
        bench.functions["refuse"] = refuse
        bench.functions["instant"] = capability("x.instant", effect="pure", instant=True)(lambda: said)
        bench.functions["process"] = lambda: Spawn(("true",), {}, "", finish=lambda ended: said)
        bench.functions["pause"] = lambda: Pause(0.01, said)
        for name in ("refuse", "instant", "process", "pause"):
            outcome = bench.run(uses=name)
            assert (outcome.failure, outcome.message) == ("logic", f"failed as `{word}`: no"), name

    def test_any_other_exception_is_a_logic_failure_with_its_traceback(self, bench) -> None:
        def broken() -> None:
            raise RuntimeError("no luck")

        bench.functions["broken"] = broken
        outcome = bench.run(uses="broken")
        assert (outcome.failure, outcome.message) == ("logic", "RuntimeError: no luck")
        assert 'raise RuntimeError("no luck")' in outcome.stderr

    def test_inputs_that_a_function_does_not_take_fail_the_task(self, bench) -> None:
        assert "unexpected keyword argument 'colour'" in bench.run(uses="noop", inputs={"colour": 1}).message

    def test_a_capability_that_is_not_there_or_cannot_be_loaded_fails_its_task_only(self, bench) -> None:
        def resolve(name: str):
            if name == "absent.one":
                raise KeyError(name)
            raise ImportError("no module named x")

        bench.reopen(resolve=resolve)
        assert bench.run(uses="absent.one").message == "no installed capability is named `absent.one`"
        assert "ImportError: no module named x" in bench.run(uses="broken.one").message

    def test_a_function_writes_to_the_log_of_its_attempt(self, bench) -> None:
        def talk(context: Context) -> None:
            for number in range(1000):
                context.log.write(b"line %d\n" % number)
            context.log.write(b"careful\n", "stderr")

        bench.functions["talk"] = talk
        outcome = bench.run(uses="talk")
        assert outcome.stdout.splitlines() == [f"line {number}" for number in range(1000)]
        assert outcome.stderr == "careful\n"
        assert bench.log().endswith(b"line 999\ncareful\n")
        assert bench.output[-1] == ("task", 1, "stderr", b"careful\n")

    def test_a_function_may_end_in_a_process_or_a_pause(self, bench) -> None:
        bench.functions["process"] = lambda: Spawn(("echo", "hi"), {}, "")
        bench.functions["pause"] = lambda: Pause(0.05, Outcome(outputs={"waited": True}))
        assert bench.run(uses="process").stdout == "hi\n"
        outcome = bench.run(uses="pause")
        assert outcome.outputs == {"waited": True}
        assert outcome.duration >= 0.05

    def test_a_process_s_finish_decides_and_its_faults_are_failures(self, bench) -> None:
        def fault(ended):
            raise ZeroDivisionError("oops")

        def refuse(ended):
            raise Failure("not good", "policy")

        for finish, failure, message in (
            (None, "logic", "exit code 3"),
            (lambda ended: Outcome("odd", f"code {ended.code}"), "odd", "code 3"),
            (fault, "logic", "ZeroDivisionError: oops"),
            (refuse, "policy", "not good"),
        ):
            bench.functions["process"] = lambda finish=finish: Spawn(("sh", "-c", "exit 3"), {}, "", finish=finish)
            bench.reopen()
            outcome = bench.run(uses="process")
            assert (outcome.failure, outcome.message) == (failure, message)

    def test_a_probe_settles_a_doubt(self, bench) -> None:
        for answer, expected in (
            (True, ("completed", "probe")),
            (False, ("retry", "probe")),
            (None, ("unknown", "probe could not tell")),
        ):

            @capability("tag.create", effect="checkable", probe=lambda name, answer=answer: answer)
            def create(name: str) -> None:
                raise AssertionError("a probe must not act")

            bench.functions["tag.create"] = create
            bench.reopen()
            bench.effects.start([Probe(bench.call(uses="tag.create", inputs={"name": "v1"}))])
            assert bench.effects.wait(None) == [DoubtSettled("task", 1, *expected)]


class TestTime:
    def test_sleep_takes_its_time_without_a_thread(self, bench) -> None:
        before = threading.active_count()
        for number in range(600):
            bench.start(f"s{number}", uses="sleep", inputs={"duration": "200ms"})
        assert threading.active_count() <= before  # one of an earlier test may end meanwhile
        started = time.monotonic()
        outcomes = bench.outcomes(600)
        assert time.monotonic() - started < 60, "one after the other they would take two minutes"
        assert all(outcome.failure == "" and outcome.duration >= 0.2 for outcome in outcomes.values())

    def test_sleep_obeys_its_timeout_and_refuses_what_is_no_duration(self, bench) -> None:
        assert bench.run(uses="sleep", inputs={"duration": 60}, timeout=0.05).failure == "timeout"
        assert (
            'expected a duration such as 10s, found "soon"'
            in bench.run(uses="sleep", inputs={"duration": "soon"}).message
        )

    def test_wait_returns_at_the_time_it_is_given(self, bench) -> None:
        bench.start(uses="sleep", inputs={"duration": "1h"})
        started = time.monotonic()
        assert bench.effects.wait(time.time() + 0.1) == []
        assert time.monotonic() - started > 0.09
        assert bench.effects.wait(time.time() - 5) == []

    def test_wait_does_not_block_for_ever_on_nothing(self, bench) -> None:
        assert bench.effects.wait(None) == []

    def test_a_function_that_listens_stops_at_its_timeout(self, bench) -> None:
        def patient(context: Context) -> str:
            while not context.cancelled():
                time.sleep(0.005)
            return "too late"

        bench.functions["patient"] = patient
        bench.reopen(grace=600.0)
        outcome = bench.run(uses="patient", timeout=0.1)
        assert (outcome.failure, outcome.outputs) == ("timeout", {})
        assert "abandoned" not in outcome.message
        assert outcome.duration < 300, "the grace is for those who need it"

    def test_a_function_that_does_not_listen_is_abandoned_and_a_new_thread_serves_the_next(self, bench) -> None:
        release = threading.Event()
        bench.functions["deaf"] = lambda: release.wait(600)
        bench.functions["next"] = lambda: "served"
        outcome = bench.run(uses="deaf", timeout=0.1)
        assert outcome.failure == "timeout"
        assert outcome.message == "ran longer than its timeout of 100ms; it did not stop and was abandoned"
        assert bench.run(uses="next").outputs == {"value": "served"}
        release.set()
        time.sleep(0.05)
        assert bench.effects.wait(time.time() + 0.05) == [], "what an abandoned function returns is nobody's outcome"


class TestStopping:
    def test_stop_ends_everything_in_order(self, bench) -> None:
        release = threading.Event()

        def patient(context: Context) -> None:
            while not context.cancelled():
                time.sleep(0.005)

        def failing(context: Context) -> None:
            patient(context)
            raise RuntimeError("too late")

        bench.functions |= {"patient": patient, "failing": failing, "deaf": lambda: release.wait(600)}
        for grace in (0.3, 3.0, 30.0):  # whoever listens needs a moment, on a busy machine a longer one
            bench.reopen(grace=grace)
            outcomes = self.stopped(bench)
            if not outcomes["patient"].failure and "bye" in outcomes["shell"].stdout:
                break
        release.set()
        assert outcomes["patient"].failure == "", "it came to its end before it had to be interrupted"
        assert {name: outcome.failure for name, outcome in outcomes.items() if name != "patient"} == dict.fromkeys(
            ("shell", "stubborn", "sleep", "deaf", "failing"), "interrupted"
        )
        assert outcomes["shell"].stdout == "hi\nbye\n"
        assert outcomes["stubborn"].exit_code == -signal.SIGKILL
        assert bench.gone()

    def stopped(self, bench) -> dict[str, Outcome]:
        """What tasks of each kind end with that are stopped twice once they have begun."""
        bench.output.clear()
        bench.start("shell", script="trap 'echo bye; exit 1' TERM; echo hi; while :; do sleep 0.01; done")
        bench.start("stubborn", script="trap '' TERM; echo ho; while :; do sleep 300; done")
        bench.start("sleep", uses="sleep", inputs={"duration": "1h"})
        for name in ("patient", "deaf", "failing"):
            bench.start(name, uses=name)
        while len(bench.output) < 2:
            bench.effects.wait(time.time() + 0.05)
        bench.effects.stop()
        bench.effects.stop()
        return bench.outcomes(6)

    def test_what_is_over_when_the_stop_comes_was_not_interrupted(self, bench) -> None:
        bench.start(script="echo $$ > pid.new; mv pid.new pid")
        while not (bench.folder / "pid").exists():
            time.sleep(0.01)
        pid = int((bench.folder / "pid").read_text())
        while (seen := orphans.look(pid)) is not None and seen.state != "Z":
            time.sleep(0.01)
        bench.effects.stop()
        assert bench.outcomes()["task"].failure == ""

    def test_the_first_signal_asks_and_the_second_kills(self, bench) -> None:
        bench.effects.close()
        before = signal.getsignal(signal.SIGINT)
        bench.open(grace=600.0)
        bench.start(script="trap '' TERM; while :; do sleep 300; done")
        os.kill(os.getpid(), signal.SIGINT)
        assert bench.effects.wait(None) == [StopRequested("interrupted")]
        assert not bench.effects.forced
        bench.effects.stop()
        os.kill(os.getpid(), signal.SIGINT)
        outcome = bench.outcomes()["task"]
        assert outcome.failure == "interrupted"
        assert bench.effects.forced
        assert outcome.duration < 300, "no grace is left"
        bench.effects.close()
        assert signal.getsignal(signal.SIGINT) == before

    def test_two_signals_at_once_still_say_why_the_run_stops(self, bench) -> None:
        bench.start(script="sleep 300")
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert bench.effects.wait(None)[0] in (StopRequested("terminated"), StopRequested("interrupted"))
        assert bench.outcomes()["task"].failure == "interrupted"
        assert bench.effects.forced

    @pytest.mark.parametrize(
        ("number", "reason"),
        [
            (signal.SIGINT, "interrupted"),
            (signal.SIGTERM, "terminated"),
            (signal.SIGHUP, "hangup"),
            (signal.SIGQUIT, "quit"),
        ],
    )
    def test_each_signal_that_ends_a_program_stops_the_run_and_what_runs(self, bench, number: int, reason: str) -> None:
        bench.start(script="sleep 300")
        os.kill(os.getpid(), number)
        assert bench.effects.wait(time.time() + 240)[0] == StopRequested(reason)
        bench.effects.stop()
        assert bench.outcomes()["task"].failure == "interrupted"

    def test_a_signal_that_was_ignored_stays_ignored(self, bench) -> None:
        bench.effects.close()
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            bench.open()
            os.kill(os.getpid(), signal.SIGHUP)
            assert bench.effects.wait(time.time() + 0.1) == []
        finally:
            signal.signal(signal.SIGHUP, before)

    def test_a_signal_interrupts_a_flood_of_instant_tasks(self, bench) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        bench.effects.start([StartCall(bench.call(f"n{number}", uses="noop")) for number in range(100)])
        assert StopRequested("interrupted") in bench.effects.wait(None)

    def test_a_program_that_does_other_things_too_keeps_its_signals_and_its_children(self, bench) -> None:
        bench.effects.close()
        before = signal.getsignal(signal.SIGINT)
        bench.open(own_process=False)
        assert signal.getsignal(signal.SIGINT) == before
        neighbour = subprocess.Popen(["sleep", "60"], start_new_session=True)
        try:
            assert bench.run("sleep 60", timeout=0.2).failure == "timeout"
            assert neighbour.poll() is None
        finally:
            neighbour.kill()
            neighbour.wait()

    def test_what_an_abandoned_function_says_after_the_end_reaches_nobody(self, bench) -> None:
        release, over = threading.Event(), threading.Event()

        def deaf(context: Context) -> None:
            release.wait(600)
            context.log.write(b"too late")
            over.set()

        bench.functions["deaf"] = deaf
        assert bench.run(uses="deaf", timeout=0.05).failure == "timeout"
        bench.effects.close()
        read, write = os.pipe()
        others = [os.dup(write) for _ in range(20)]
        release.set()
        assert over.wait(240)
        time.sleep(0.05)
        os.set_blocking(read, False)
        with pytest.raises(BlockingIOError):
            os.read(read, 1)
        for descriptor in (read, write, *others):
            os.close(descriptor)

    def test_live_effects_work_outside_the_main_thread(self, bench, tmp_path: Path) -> None:
        seen = []

        def work() -> None:
            inner = type(bench)(tmp_path / "inner")
            (tmp_path / "inner").mkdir()
            seen.append(inner.run("echo hi"))
            inner.effects.close()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(240)
        assert seen[0].stdout == "hi\n"

    def test_a_deaf_function_does_not_keep_the_program_from_ending(self, tmp_path: Path) -> None:
        program = (
            "import time, sys\n"
            "sys.path[:0] = sys.argv[2:]\n"
            "from conftest import Bench\n"
            "from pathlib import Path\n"
            "bench = Bench(Path(sys.argv[1]))\n"
            "bench.functions['deaf'] = lambda: time.sleep(600)\n"
            "print(bench.run(uses='deaf', timeout=0.1).failure)\n"
            "bench.effects.close()\n"
        )
        folder = str(Path(__file__).parent)
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), folder, *sys.path],
            capture_output=True, text=True, timeout=240, check=True,
        )  # fmt: skip
        assert done.stdout == "timeout\n"


class TestResults:
    def test_declared_outputs_are_typed_and_must_be_there(self, bench) -> None:
        task = {"outputs": (Output("count", "int"), Output("later", value="{{ x }}"))}
        outcome = bench.run("echo count=12 >> $PLANRUNNER_OUTPUT", task=task)
        assert (outcome.failure, outcome.outputs) == ("", {"count": 12})
        outcome = bench.run("echo count=many >> $PLANRUNNER_OUTPUT", task=task)
        assert (outcome.failure, outcome.message) == ("logic", 'the output `count` is declared int, found "many"')
        outcome = bench.run("true", task=task)
        assert (outcome.failure, outcome.message) == ("logic", "the declared output `count` was not given")

    def test_artifacts_are_kept_when_the_task_completes(self, bench) -> None:
        (bench.folder / "state").mkdir(exist_ok=True)
        task = {"artifacts": (Artifact("report", "out/report.txt", "text"), Artifact("upstream", source="other"))}
        outcome = bench.run("mkdir out; echo hi > out/report.txt", task=task)
        record = {"name": "report", "path": "out/report.txt", "type": "text", "sha256": sha256(b"hi\n").hexdigest()}
        assert outcome.artifacts == ({**record, "size": 3},)
        store = ArtifactStore(str(bench.folder / "state"))
        assert list(store) == [record["sha256"]]

    def test_what_a_task_left_that_failed_is_kept_as_that(self, bench) -> None:
        (bench.folder / "state").mkdir(exist_ok=True)
        task = {"artifacts": (Artifact("report", "out/report.txt", "text"),)}
        (kept,) = bench.run("mkdir out; echo hi > out/report.txt; exit 1", task=task).artifacts
        assert (kept["name"], kept["failed"], kept["sha256"]) == ("report", True, sha256(b"hi\n").hexdigest())

    def test_a_missing_artifact_fails_the_task(self, bench) -> None:
        outcome = bench.run("true", task={"artifacts": (Artifact("report", "report.txt"),)})
        assert (outcome.failure, outcome.message) == (
            "logic",
            "the artifact `report` is missing: report.txt: No such file or directory",
        )


class TestFacts:
    def test_facts_come_as_one_event(self, bench) -> None:
        bench.effects.start([ObserveFacts("task", ("host.cpus", "memory.has_space", "no.such"))])
        (event,) = bench.effects.wait(None)
        assert isinstance(event, FactsObserved)
        assert event.facts["host.cpus"] == len(os.sched_getaffinity(0))
        assert event.facts["memory.has_space"] > 0, "the state folder need not exist yet"
        assert event.facts["no.such"] is None

    def test_every_known_fact_has_a_value_of_its_kind(self, tmp_path: Path) -> None:
        facts = observe(FACTS, str(tmp_path))
        kinds = {name: type(value) for name, value in facts.items()}
        assert kinds == {
            "disk.free": int,
            "host.cpus": int,
            "host.load": float,
            "host.memory": int,
            "host.os": str,
            "memory.has_space": int,
            "network.online": bool,
        }
        disk = os.statvfs(tmp_path)
        assert abs(facts["memory.has_space"] - disk.f_bavail * disk.f_frsize) < 1 << 30
