"""Processes: their output, their end, and that nothing of them outlives it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from planrunner.capabilities.contract import Spawn
from planrunner.engine import orphans, processes
from planrunner.engine.output import LogFile, Tail
from planrunner.engine.processes import _DRAIN, left_behind

DAEMON = """
import os, signal, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if "quiet" in sys.argv:
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3): os.dup2(null, number)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(300)
"""


UNTIL_ADOPTED = (
    'until test "$(cat adopter 2>&-)" = $PPID; do'
    " (sh -c 'sleep 0.02; read -r a b c parent rest </proc/$$/stat; echo $parent >adopter' &); sleep 0.05; done"
)
"""Leaves orphans until this process, the parent of the shell, is the one that they are handed to, which takes 30 ms."""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(path: Path) -> int:
    while not path.exists() or not path.read_text():
        time.sleep(0.01)
    return int(path.read_text())


@pytest.fixture
def daemon(tmp_path: Path) -> str:
    (tmp_path / "daemon.py").write_text(DAEMON)
    return f"{sys.executable} -S daemon.py daemon.pid"


class TestOutput:
    def test_both_streams_reach_the_outcome_the_log_and_whoever_watches(self, bench) -> None:
        bench.start(script="echo out; until test -e heard; do sleep 0.01; done; echo err >&2")
        while not bench.output:
            bench.effects.wait(time.time() + 0.05)
        (bench.folder / "heard").touch()
        outcome = bench.outcomes()["task"]
        assert (outcome.failure, outcome.stdout, outcome.stderr) == ("", "out\n", "err\n")
        assert bench.log() == b"out\nerr\n"
        assert bench.output == [("task", 1, "stdout", b"out\n"), ("task", 1, "stderr", b"err\n")]

    def test_output_is_seen_while_the_process_still_runs(self, bench) -> None:
        bench.start(script="echo early; exec sleep 600")
        deadline = time.monotonic() + 240
        while not bench.output and time.monotonic() < deadline:
            bench.effects.wait(time.time() + 0.05)
        assert bench.output == [("task", 1, "stdout", b"early\n")]

    def test_a_silent_process_leaves_no_log_file(self, bench) -> None:
        bench.run("true")
        assert not (bench.folder / "state").exists()

    def test_200_megabytes_without_a_newline_stay_bounded_in_memory_and_on_disk(self, bench) -> None:
        bench.reopen(on_output=None)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcome = bench.run("head -c 200000000 /dev/zero | tr '\\0' x; echo; echo end")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert outcome.failure == ""
        assert len(outcome.stdout) == 65536
        assert outcome.stdout.endswith("x\nend\n")
        assert grown < 16 * 1024
        log = bench.folder / "state" / "logs" / bench.run_id / "task.1.log"
        assert log.stat().st_size < (64 << 20) + 200
        with log.open("rb") as file:
            file.seek(-(1 << 20) - 100, os.SEEK_END)
            end = file.read()
        assert b"x\n[planrunner: 132891141 bytes left out]\nx" in end
        assert end.endswith(b"x\nend\n")

    def test_bytes_that_are_no_text_do_not_stop_a_task(self, bench) -> None:
        outcome = bench.run("printf 'a\\377\\000b'")
        assert outcome.stdout == "a\ufffd\x00b"
        assert bench.log() == b"a\xff\x00b"

    def test_a_process_that_closes_its_output_early_is_waited_for(self, bench) -> None:
        outcome = bench.run("exec >&- 2>&-; sleep 0.1; echo x >over; exit 3")
        assert outcome.exit_code == 3
        assert (bench.folder / "over").exists()

    def test_a_log_that_cannot_be_written_is_reported_and_stops_nothing(self, bench) -> None:
        (bench.folder / "state").write_text("not a folder")
        assert bench.run("echo hello").stdout == "hello\n"
        assert "cannot be written" in bench.effects.problems[0]

    def test_a_tail_keeps_the_end_and_cuts_no_character_in_half(self) -> None:
        tail = Tail(4)
        for part in ("aä".encode(), "öü".encode(), b"!"):
            tail.add(part)
        assert (tail.text(), tail.dropped) == ("ü!", 4)

    def test_a_log_that_is_too_long_keeps_both_ends_and_says_what_is_missing(self, tmp_path: Path) -> None:
        log = LogFile(str(tmp_path / "logs" / "one.log"), limit=6)
        log.write(b"ab")
        log.write(b"cdefgh")
        log.write(b"ijk")
        assert (tmp_path / "logs" / "one.log").read_bytes() == b"abc"
        log.close()
        assert (tmp_path / "logs" / "one.log").read_bytes() == b"abc\n[planrunner: 5 bytes left out]\nijk"

    def test_a_log_that_just_fits_is_whole(self, tmp_path: Path) -> None:
        log = LogFile(str(tmp_path / "one.log"), limit=6)
        for piece in (b"abcd", b"ef"):
            log.write(piece)
        log.close()
        assert (log.dropped, (tmp_path / "one.log").read_bytes()) == (0, b"abcdef")


class TestStarting:
    def test_hostile_arguments_and_variables_arrive_as_they_are(self, bench) -> None:
        hostile = "'; touch owned; $(touch owned) `touch owned` \" \\ * \n\t$HOME ä€𝄞 -rf"
        show = "import os, sys; sys.stdout.write(sys.argv[1] + '|' + os.environ['VALUE'])"
        outcome = bench.run(arguments=(sys.executable, "-S", "-c", show, hostile), values={"VALUE": hostile})
        assert outcome.stdout == f"{hostile}|{hostile}"
        outcome = bench.run('printf %s "$VALUE"', values={"VALUE": hostile})
        assert outcome.stdout == hostile
        assert not (bench.folder / "owned").exists()

    @pytest.mark.parametrize(
        "name", ["plain", "with space", "it's; touch owned", "-dash", "new\nline", "$(touch owned)"]
    )
    @pytest.mark.parametrize(
        "how", [{"script": "pwd"}, {"arguments": ("pwd",)}, {"script": "pwd", "task": {"shell": "bash"}}]
    )
    def test_a_process_runs_in_its_working_directory_whatever_the_name(self, bench, name: str, how: dict) -> None:
        before = os.getcwd()
        folder = bench.folder / name
        folder.mkdir()
        assert bench.run(directory=str(folder), **how).stdout == f"{folder}\n"
        assert os.getcwd() == before
        assert not list(folder.iterdir())

    def test_a_program_gets_its_directory_without_functions_seeing_a_change(self, bench) -> None:
        def look(context) -> list[str]:
            seen = set()
            while not context.cancelled():
                seen.add(os.getcwd())
            return sorted(seen)

        bench.functions["look"] = look
        bench.reopen(grace=240.0)
        bench.start("look", uses="look")
        for _ in range(20):
            assert bench.run(arguments=("/bin/pwd",)).stdout == f"{bench.folder}\n"
        bench.effects.stop()
        assert bench.outcomes()["look"].outputs == {"value": [os.getcwd()]}

    @pytest.mark.parametrize(
        ("arguments", "failure", "message"),
        [
            (("no-such-program-here",), "logic", "command not found: no-such-program-here"),
            (("./missing",), "logic", "command not found: ./missing"),
            (("./text",), "logic", "./text cannot be executed: Permission denied"),
            (("./binary",), "logic", "./binary"),
            (
                ("echo", "x" * 200_000),
                "logic",
                "argument 1 of `echo` has 200,000 bytes, the limit is 131,071; hand it over",
            ),
            (("echo", *(["x" * 130_000] * 60)), "logic", "echo is given more text than a process may start with; hand"),
            (("echo", "a\0b"), "logic", "null"),
        ],
    )
    def test_what_cannot_be_started_is_an_outcome_with_its_reason(self, bench, arguments, failure, message) -> None:
        (bench.folder / "text").write_text("echo hi")
        (bench.folder / "binary").write_bytes(b"\x01\x02\x03")
        (bench.folder / "binary").chmod(0o755)
        descriptors = len(os.listdir("/proc/self/fd"))
        outcome = bench.run(arguments=arguments)
        assert outcome.failure == failure
        assert message in outcome.message
        assert len(os.listdir("/proc/self/fd")) == descriptors

    def test_a_missing_working_directory_is_named(self, bench) -> None:
        outcome = bench.run("true", directory=str(bench.folder / "gone"))
        assert (outcome.failure, outcome.exit_code) == ("logic", None)
        assert outcome.message == f"the working directory `{bench.folder}/gone` does not exist"

    def test_running_out_of_descriptors_is_a_failure_that_may_pass(self, bench) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 1, hard))
        try:
            outcome = bench.run(arguments=("/bin/true",))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert outcome.failure == "transient"
        assert bench.run(arguments=("/bin/true",)).failure == ""

    def test_a_capability_hands_input_of_any_length_to_its_process(self, bench) -> None:
        data = os.urandom(300_000)
        bench.functions["sum"] = lambda: Spawn(("sha256sum",), {}, "", stdin=data)
        import hashlib

        assert bench.run(uses="sum").stdout.split()[0] == hashlib.sha256(data).hexdigest()

    def test_a_process_knows_its_run_task_attempt_and_key_and_has_no_input(self, bench) -> None:
        script = (
            "env | grep ^PLANRUNNER_ | grep -v -e OUTPUT= -e USAGE= | sort; cat; ps -o sid= -p $$ | tr -d ' '; echo $$"
        )
        lines = bench.run(script).stdout.splitlines()
        assert lines[:5] == [
            "PLANRUNNER_ATTEMPT=1",
            "PLANRUNNER_EPOCH=0",
            f"PLANRUNNER_KEY={bench.run_id}:task:1",
            f"PLANRUNNER_RUN_ID={bench.run_id}",
            "PLANRUNNER_TASK=task",
        ]
        assert lines[5] == lines[6], "the process leads a session of its own"

    def test_the_environment_is_that_of_the_run_with_the_task_s_own_on_top(self, bench) -> None:
        outer = {"PLANRUNNER_OUTPUT": "/of/an/outer/run", "PLANRUNNER_TASK": "outer"}
        bench.reopen(environment={"PATH": os.environ["PATH"], "KEPT": "1", "LAID_OVER": "base", **outer})
        outcome = bench.run("env | grep -v -e ^PWD -e ^_ -e ^PATH | sort", env={"LAID_OVER": "task"}, scratch="")
        assert outcome.stdout.split() == [
            "KEPT=1",
            "LAID_OVER=task",
            "PLANRUNNER_ATTEMPT=1",
            "PLANRUNNER_EPOCH=0",
            f"PLANRUNNER_KEY={bench.run_id}:task:1",
            f"PLANRUNNER_RUN_ID={bench.run_id}",
            "PLANRUNNER_TASK=task",
        ]

    def test_children_die_of_a_broken_pipe_as_they_would_from_a_terminal(self, bench) -> None:
        outcome = bench.run("yes | head -n 1", task={"shell": "bash -o pipefail"})
        assert outcome.exit_code == 128 + signal.SIGPIPE

    def test_no_descriptor_of_the_runner_leaks_into_a_process(self, bench) -> None:
        bench.start("other", script="until test -e seen; do sleep 0.01; done")
        assert bench.run("ls /proc/self/fd").stdout.split() == ["0", "1", "2", "3"], "3 is the folder ls reads"
        (bench.folder / "seen").touch()
        assert bench.outcomes()["other"].failure == ""

    def test_a_runner_whose_standard_streams_are_closed_still_gets_the_output(self, tmp_path: Path) -> None:
        program = tmp_path / "closed.py"
        program.write_text(
            "import os, sys\n"
            "for number in range(3): os.close(number)\n"
            "from planrunner.capabilities.contract import Spawn\n"
            "from planrunner.engine.poller import Poller\n"
            "from planrunner.engine.processes import Launch, Supervisor\n"
            "from planrunner.engine.output import Record\n"
            "poller, ends = Poller(), []\n"
            "supervisor = Supervisor(poller, os.environ)\n"
            "spawn = Spawn(('sh', '-c', 'echo out; echo err >&2; cat'), {}, '')\n"
            "supervisor.start(Launch(spawn, {'PLANRUNNER_KEY': 'closed'}, None, Record(''), ends.append))\n"
            "while not ends: poller.turn(None)\n"
            "open(sys.argv[1], 'w').write(ends[0].stdout + ends[0].stderr)\n"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, str(program), str(tmp_path / "seen")], env=environment, timeout=240, check=True)
        assert (tmp_path / "seen").read_text() == "out\nerr\n"


class TestTheEnd:
    def test_a_timeout_ends_the_process_and_says_so(self, bench) -> None:
        outcome = bench.run_past("echo started; echo x >begun; exec sleep 600", "begun")
        assert (outcome.failure, outcome.stdout) == ("timeout", "started\n")
        outcome = bench.run("exec sleep 600", timeout=0.2)
        assert (outcome.failure, outcome.message) == ("timeout", "ran longer than its timeout of 200ms")
        assert outcome.duration >= 0.2

    def test_a_process_may_tidy_up_within_the_grace(self, bench) -> None:
        bench.reopen(grace=240.0)
        script = "trap 'echo tidy; exit 0' TERM; echo ready; echo x >begun; while :; do sleep 0.01; done"
        outcome = bench.run_past(script, "begun")
        assert (outcome.failure, outcome.stdout, outcome.exit_code) == ("timeout", "ready\ntidy\n", 0)

    def test_a_process_that_ignores_term_is_killed_with_all_its_children(self, bench) -> None:
        script = "trap '' TERM; sleep 300 & sleep 300 & echo x >begun; while :; do sleep 300; done"
        outcome = bench.run_past(script, "begun")
        assert (outcome.failure, outcome.exit_code) == ("timeout", -signal.SIGKILL)
        assert outcome.duration >= 0.5
        assert bench.gone()

    def test_a_stopped_process_ends_at_its_timeout_as_well(self, bench) -> None:
        assert bench.run("kill -STOP $$", timeout=0.2).failure == "timeout"
        assert bench.gone()

    @pytest.mark.parametrize("quiet", ["", "quiet"])
    def test_after_a_timeout_a_daemon_in_another_session_that_ignores_term_is_gone(self, bench, daemon, quiet) -> None:
        outcome = bench.run_past(f"{daemon} {quiet}; exec sleep 600", "daemon.pid")
        assert outcome.failure == "timeout"
        assert not is_alive(wait_for(bench.folder / "daemon.pid"))

    def test_after_a_timeout_a_daemon_that_cleared_its_environment_is_gone(self, bench, daemon) -> None:
        outcome = bench.run_past(f"{UNTIL_ADOPTED}; env -i {daemon} quiet; exec sleep 600", "daemon.pid")
        assert outcome.failure == "timeout"
        assert not is_alive(wait_for(bench.folder / "daemon.pid"))

    def test_what_a_daemon_has_started_is_looked_for_though_the_patience_is_used_up(self, bench, monkeypatch) -> None:
        """A machine so busy that the first look takes all the time there is: a child becomes an orphan after it."""
        monkeypatch.setattr(processes, "PATIENCE", 0.0)
        inner = "setsid sh -c 'echo $$ >inner.pid; exec sleep 600' & exec sleep 600"
        (bench.folder / "outer.sh").write_text(inner)
        outcome = bench.run_past(f"{UNTIL_ADOPTED}; env -i setsid sh outer.sh & exec sleep 600", "inner.pid")
        assert outcome.failure == "timeout"
        assert not is_alive(wait_for(bench.folder / "inner.pid"))

    def test_a_daemon_that_holds_the_pipes_does_not_hold_up_the_task_and_ends_with_it(self, bench, daemon) -> None:
        outcome = bench.run(f"{daemon}; until test -s daemon.pid; do sleep 0.01; done; echo done")
        assert (outcome.failure, outcome.stdout) == ("", "done\n")
        assert outcome.duration < 240
        assert not is_alive(wait_for(bench.folder / "daemon.pid"))

    def test_what_a_task_leaves_behind_is_named_in_its_log_and_is_no_output(self, bench) -> None:
        script = "sleep 600 & one=$!; sleep 600 >/dev/null 2>&1 & two=$!; "
        named = "for pid in $one $two; do until grep -q sleep /proc/$pid/comm; do :; done; done; echo done"
        outcome = bench.run(script + named)
        assert (outcome.stdout, outcome.stderr) == ("done\n", "")
        said = b"[planrunner: the end of the task ended 2 processes that the task left behind: sleep (2)]\n"
        assert bench.log() == b"done\n" + said
        assert bench.gone()

    def test_processes_that_shut_a_task_in_are_not_named_as_left_behind(self) -> None:
        assert left_behind(["bwrap", "sandbox-relay", "sleep"], "task").endswith(
            "ended 1 process that the task left behind: sleep"
        )
        assert left_behind(["bwrap", "sandbox-relay"], "task") == ""

    def test_a_daemon_is_named_in_the_log_of_its_task_when_the_task_or_the_run_ends_it(self, bench) -> None:
        script = "setsid sh -c 'echo $$ >daemon.pid; exec sleep 600' >/dev/null 2>&1 </dev/null &"
        bench.run(
            f"{script} until test -s daemon.pid && grep -q sleep /proc/$(cat daemon.pid)/comm; do sleep 0.001; done"
        )
        bench.effects.close()
        log = (bench.state / "logs" / bench.run_id / "task.1.log").read_bytes()
        assert log.endswith(b"ended 1 process that the task left behind: sleep]\n")
        assert bench.gone()

    def test_background_jobs_end_with_the_task_that_started_them(self, bench) -> None:
        outcome = bench.run("sleep 300 & nohup sleep 300 >/dev/null 2>&1 & echo done")
        assert (outcome.failure, outcome.stdout) == ("", "done\n")
        assert bench.gone()

    def test_a_quiet_daemon_ends_with_the_run_at_the_latest(self, bench, daemon) -> None:
        bench.run(f"{daemon} quiet; until test -s daemon.pid; do sleep 0.001; done")
        pid = wait_for(bench.folder / "daemon.pid")
        bench.effects.close()
        deadline = time.monotonic() + 240
        while is_alive(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not is_alive(pid)

    def test_a_daemon_that_shed_the_variables_of_the_run_survives_a_task_that_ends_well(self, bench, daemon) -> None:
        outcome = bench.run(
            f"env -u PLANRUNNER_RUN_ID -u PLANRUNNER_KEY {daemon} quiet; until test -s daemon.pid; do sleep 0.01; done"
        )
        pid = wait_for(bench.folder / "daemon.pid")
        try:
            assert outcome.failure == ""
            assert is_alive(pid)
        finally:
            os.kill(pid, signal.SIGKILL)

    def test_an_endless_writer_that_survives_cannot_keep_the_attempt_open(self, bench) -> None:
        script = "env -u PLANRUNNER_RUN_ID -u PLANRUNNER_KEY setsid sh -c 'echo $$ >writer.pid; exec yes' & until test -s writer.pid; do sleep 0.01; done"
        outcome = bench.run(script)
        assert outcome.failure == ""
        pid = wait_for(bench.folder / "writer.pid")
        deadline = time.monotonic() + 240
        while is_alive(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not is_alive(pid), "with nobody to read it dies of the broken pipe"
        assert _DRAIN * 65536 >= 1 << 20

    def test_one_attempt_s_end_leaves_the_processes_of_another_alone(self, bench, daemon) -> None:
        bench.start("other", script="until test -e over; do sleep 0.01; done; echo fine")
        assert bench.run_past(f"{daemon}; exec sleep 600", "daemon.pid").failure == "timeout"
        (bench.folder / "over").touch()
        other = bench.outcomes()["other"]
        assert (other.failure, other.stdout) == ("", "fine\n")

    def test_a_nested_runner_s_processes_end_with_the_outer_task(self, bench) -> None:
        inner = "PLANRUNNER_RUN_ID=inner PLANRUNNER_KEY=inner setsid -w sh -c 'trap \"\" TERM; echo $$ >inner.pid; sleep 300'"
        outcome = bench.run_past(f"trap '' TERM; {inner}; sleep 300", "inner.pid")
        assert outcome.failure == "timeout"
        assert not is_alive(wait_for(bench.folder / "inner.pid"))

    def test_what_was_killed_in_another_session_is_gone_when_the_outcome_is_told(self, bench, monkeypatch) -> None:
        """Its own variables do not show whose it is, and nobody has adopted it yet: it is still dying."""
        dying: dict[int, int] = {}
        really = orphans.end

        def third_time(pid: int, still: Callable[[int], bool]) -> bool:
            dying[pid] = dying.get(pid, 0) + 1
            return still(pid) if dying[pid] < 3 else really(pid, still)

        monkeypatch.setattr(orphans, "end", third_time)
        monkeypatch.setattr(processes.Supervisor, "_sweep_adopted", lambda self, process: 0)
        inner = "env -u PLANRUNNER_RUN_ID -u PLANRUNNER_KEY setsid -w sh -c 'echo $$ >inner.pid; exec sleep 300'"
        assert bench.run_past(f"trap '' TERM; {inner}; sleep 300", "inner.pid").failure == "timeout"
        assert not is_alive(wait_for(bench.folder / "inner.pid"))

    def test_no_process_stays_behind_as_a_zombie(self, bench, daemon) -> None:
        others = set(orphans.children())  # of tests in this process before, which adopts what they leave
        bench.run_past(f"sleep 0.1; {daemon} quiet; sleep 600", "daemon.pid")
        bench.run("true")
        deadline = time.monotonic() + 240
        while (ours := set(_zombies()) - others) and time.monotonic() < deadline:
            bench.run("sleep 0.1")
        assert not ours


def _zombies() -> list[int]:
    return [one for one in orphans.children() if (seen := orphans.look(one)) is not None and seen.state == "Z"]


class TestLeftovers:
    def test_what_an_earlier_runner_left_behind_is_ended_before_the_run_goes_on(self, tmp_path: Path) -> None:
        marker = f"left-{os.getpid()}-{time.time_ns()}"
        left = subprocess.Popen(
            ["setsid", "sh", "-c", "trap '' TERM; sleep 300 & echo both; wait"],
            env={**os.environ, "PLANRUNNER_RUN_ID": marker}, stdout=subprocess.PIPE,
        )  # fmt: skip
        other = subprocess.Popen(["sleep", "300"], env={**os.environ, "PLANRUNNER_RUN_ID": marker + "0"})
        try:
            assert left.stdout is not None and left.stdout.readline() == b"both\n"
            assert orphans.reap_run(marker) == 2
            left.stdout.close()
            assert left.wait(240) == -signal.SIGKILL
            assert other.poll() is None, "a run whose id only starts alike is another run"
            assert orphans.reap_run(marker) == 0
        finally:
            other.kill()
            other.wait()

    def test_a_runner_that_is_part_of_the_run_does_not_end_itself_or_its_parents(self, tmp_path: Path) -> None:
        program = "from planrunner.engine.orphans import reap_run; import os; print(reap_run(os.environ['PLANRUNNER_RUN_ID']))"
        environment = {
            **os.environ,
            "PLANRUNNER_RUN_ID": f"self-{time.time_ns()}",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        done = subprocess.run(
            ["sh", "-c", '"$0" -c "$1"; echo alive', sys.executable, program],
            env=environment, capture_output=True, text=True, timeout=240, check=True,
        )  # fmt: skip
        assert done.stdout == "0\nalive\n"

    def test_names_with_parentheses_do_not_confuse_the_process_table(self, tmp_path: Path) -> None:
        program = tmp_path / "a) R 1 1"
        program.symlink_to("/bin/sleep")
        process = subprocess.Popen([str(program), "30"])
        try:
            seen = orphans.look(process.pid)
            assert seen is not None
            assert (seen.parent, seen.session) == (os.getpid(), os.getsid(0))
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("between", [0, 3, 40])
def test_processes_younger_than_another_are_found_however_many_came_in_between(between: int) -> None:
    first = subprocess.Popen(["sleep", "60"])
    for _ in range(between):
        subprocess.run(["true"], check=True)
    last = subprocess.Popen(["sleep", "60"])
    try:
        younger = orphans.since(first.pid)
        assert last.pid in younger
        if os.getpid() < first.pid < last.pid:  # else the numbers began again from the bottom
            assert first.pid not in younger
            assert os.getpid() not in younger
    finally:
        for process in (first, last):
            process.kill()
            process.wait()
