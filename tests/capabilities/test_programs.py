"""Programs that a capability runs and waits for: bounded, stopped with the attempt, nothing left."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from workbench import planrunner

from planrunner.capabilities.binding import bind, invoke
from planrunner.capabilities.contract import Call, Context, Failure, capability
from planrunner.capabilities.programs import Program, run, run_program
from planrunner.machine.events import Outcome
from planrunner.plan.model import Task


class Log:
    def __init__(self) -> None:
        self.data: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    def write(self, data: bytes, stream: str = "stdout") -> None:
        self.data[stream] += data

    def beat(self) -> None: ...

    def spend(self, amounts: Any) -> None: ...


def context(directory: Path, cancelled: Any = lambda: False, **env: str) -> Context:
    call = Call("r", Task("t"), 1, "k", {}, "", (), {}, env, str(directory), "", None)
    return Context(call, Log(), cancelled)


class TestRunning:
    def test_output_code_and_errors_come_back(self, tmp_path: Path) -> None:
        here = context(tmp_path)
        ended = run_program(here, ["sh", "-c", "echo out; echo err >&2; exit 3"])
        assert (ended.code, ended.stdout, ended.stderr, ended.said) == (3, b"out\n", b"err\n", "err")
        assert here.log.data == {"stdout": b"", "stderr": b"err\n"}  # type: ignore[attr-defined]

    def test_input_of_any_size_is_fed_while_output_is_read(self, tmp_path: Path) -> None:
        data = os.urandom(3_000_000)
        assert run_program(context(tmp_path), ["cat"], stdin=data, limit=4_000_000).stdout == data

    def test_a_program_that_does_not_read_its_input_just_ends(self, tmp_path: Path) -> None:
        assert run_program(context(tmp_path), ["true"], stdin=b"x" * 1_000_000).code == 0

    def test_what_wants_to_know_the_process_knows_it_before_the_program_does_anything(self, tmp_path: Path) -> None:
        """Also where the one who started it dies in between."""
        seen = []

        def begun(pid: int) -> None:
            time.sleep(0.2)
            seen.append((pid, list(tmp_path.iterdir())))

        ended = run(context(tmp_path), Program(["sh", "-c", "echo $$; touch made; cat; exit 3"], begun=begun))
        assert (ended.code, int(ended.text), []) == (3, *seen[0])
        (tmp_path / "made").unlink()

        def dies(pid: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(context(tmp_path), Program(["sh", "-c", "touch made"], begun=dies))
        assert not (tmp_path / "made").exists()
        for name in ("nowhere", "./nowhere"):
            with pytest.raises(Failure, match="cannot be started: No such file"):
                run(context(tmp_path), Program([name], begun=begun))
        with pytest.raises(Failure, match="working directory"):
            run(context(tmp_path), Program(["true"], cwd="nowhere", begun=begun))

    def test_output_is_bounded_and_what_was_dropped_is_told(self, tmp_path: Path) -> None:
        ended = run_program(context(tmp_path), ["head", "-c", "5000000", "/dev/zero"], limit=1000)
        assert (len(ended.stdout), ended.dropped) == (1000, 4_999_000)

    def test_the_environment_is_small_and_that_of_the_task(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SECRET_TOKEN", "s3cret")
        ended = run(context(tmp_path, WHO="task"), Program(["env"], env={"MORE": "1", "HOME": None}))
        names = dict(line.split("=", 1) for line in ended.text.splitlines())
        assert (names["WHO"], names["MORE"]) == ("task", "1")
        assert "SECRET_TOKEN" not in names
        assert "HOME" not in names

    def test_it_works_below_the_working_directory(self, tmp_path: Path) -> None:
        (tmp_path / "inner").mkdir()
        assert run_program(context(tmp_path), ["pwd"], cwd="inner").text.strip() == str(tmp_path / "inner")


class TestFailing:
    def test_a_program_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(Failure, match="`no-such-program` cannot be started: No such file"):
            run_program(context(tmp_path), ["no-such-program"])

    def test_a_code_other_than_zero_fails_where_that_is_asked_for(self, tmp_path: Path) -> None:
        with pytest.raises(Failure, match="sh ended with 4: oh no"):
            run_program(context(tmp_path), ["sh", "-c", "echo oh no >&2; exit 4"], check=True)

    @pytest.mark.slow
    def test_its_own_time_limit_ends_it(self, tmp_path: Path) -> None:
        with pytest.raises(Failure, match=r"longer than 0\.2 s") as failed:
            run_program(context(tmp_path), ["sleep", "600"], timeout=0.2)
        assert failed.value.failure == "timeout"


class TestStopping:
    @pytest.mark.slow
    def test_a_stopped_attempt_ends_the_whole_group_even_one_that_ignores_term(self, tmp_path: Path) -> None:
        named = tmp_path / "child"
        script = "trap '' TERM; (trap '' TERM; sleep 600; echo late) & echo $! > child; sleep 600"
        began = time.monotonic()
        with pytest.raises(Failure, match="was stopped"):
            run_program(context(tmp_path, lambda: named.exists() and named.read_text() != ""), ["sh", "-c", script])
        assert time.monotonic() - began < 240
        child = int(named.read_text())
        assert _gone(child)

    def test_nothing_in_its_group_outlives_it(self, tmp_path: Path) -> None:
        ended = run_program(context(tmp_path), ["sh", "-c", "sleep 60 & echo $!"])
        assert _gone(int(ended.stdout))

    @pytest.mark.slow
    def test_a_program_that_closes_its_streams_is_still_waited_for(self, tmp_path: Path) -> None:
        code = "import os,time; os.close(1); os.close(2); time.sleep(0.4); os._exit(7)"
        assert run_program(context(tmp_path), [sys.executable, "-c", code]).code == 7


def _gone(pid: int) -> bool:
    for _ in range(12_000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("task", [{"run": "echo hi"}, {"run": ["echo", "hi"]}, {"uses": "git.status"}])
def test_a_folder_to_work_in_that_is_not_there_is_named(tmp_path: Path, task: dict[str, object]) -> None:
    late = {"id": "t", "needs": ["first"], "timeout": "1m", "cwd": "nowhere", **task}
    plan = {"plan": "p", "tasks": [{"id": "first", "run": "true", "timeout": "1m"}, late]}
    (tmp_path / "p.json").write_text(json.dumps(plan))
    done = planrunner(tmp_path, "--state", "state", "exec", "p.json")
    assert done.returncode == 1
    assert f"the working directory `{tmp_path}/nowhere` does not exist" in done.stderr


def test_a_precondition_that_does_not_hold_fails_a_call_before_it_acts(tmp_path: Path) -> None:
    acted: list[str] = []

    @capability("tags.set", preconditions=("variable PATH", "program no-such-program"))
    def tag(context: Context) -> None:
        acted.append("acted")

    outcome = invoke(bind("tags.set", tag), {}, context(tmp_path))
    assert isinstance(outcome, Outcome)
    assert outcome.message.startswith("the program `no-such-program` is not on the PATH")
    assert acted == []


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_of_a_program_that_ran_elsewhere_is_that_of_the_task(tmp_path: Path, code: int) -> None:
    @capability("far.run")
    def far(context: Context) -> dict[str, Any]:
        outputs = {"exit_code": code, "stdout": "hi"}
        if code:
            raise Failure(f"it ended with {code}", outputs=outputs)
        return outputs

    outcome = invoke(bind("far.run", far), {}, context(tmp_path))
    assert isinstance(outcome, Outcome)
    assert (outcome.exit_code, outcome.outputs["exit_code"]) == (code, code)
