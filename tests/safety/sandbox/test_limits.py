"""Limits: whoever passes one is ended with all its processes, the engine lives, and the next attempt runs."""

from __future__ import annotations

import os
import resource
import sys
import time

import pytest
from sandbox_project import Project, limited, needs_bubblewrap, needs_landlock

pytestmark = needs_bubblewrap

FLOOD = "import os\nblock = b'x' * 65536\nfor _ in range(16384): os.write(1, block)"
HOG = "held = []\nwhile True: held.append(bytearray(b'x' * 4_000_000))"
SPINNER = "while True: pass"
BOMB = "import os, time\nfor _ in range(60):\n    if os.fork() == 0: time.sleep(60); os._exit(0)\ntime.sleep(60)"
DAEMON = (
    "import os, time\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "os.environ.clear()\n"
    "null = os.open('/dev/null', os.O_RDWR)\n"
    "for number in range(3): os.dup2(null, number)\n"
    "open('daemon.txt', 'w').write('here')\n"
    "while True: time.sleep(0.05); open('beat.txt', 'w').write(str(time.time()))"
)


def python(code: str) -> dict[str, tuple[str, ...]]:
    return {"arguments": (os.path.realpath(sys.executable), "-I", "-S", "-c", code)}


def test_an_output_flood_ends_at_its_limit_and_memory_stays_bounded(project: Project) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = project.run("", limited(output="20MB"), **python(FLOOD))
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox.output")
    assert "`task t` allows 20 MB" in outcome.message and "output: …" in outcome.message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
    assert project.run("echo on").stdout == "on\n"


def test_a_fork_bomb_ends_at_its_limit(project: Project) -> None:
    outcome = project.run("", limited(processes=20), **python(BOMB))
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox.processes"), outcome
    assert not project.alive()
    assert project.run("echo on").stdout == "on\n"


def test_a_memory_hog_ends_at_its_limit(project: Project) -> None:
    outcome = project.run("", limited(memory="150MB"), **python(HOG))
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox.memory"), outcome
    assert "`task t` allows 150 MB" in outcome.message


def test_processes_that_hold_a_little_each_are_counted_together(project: Project) -> None:
    code = "import os, time\nfor _ in range(6): os.fork() or (bytearray(b'y' * 40_000_000), time.sleep(60))\ntime.sleep(60)"
    code = code.replace("bytearray(b'y' * 40_000_000)", "globals().update(kept=bytearray(b'y' * 40_000_000))")
    outcome = project.run("", limited(memory="100MB", processes=400), **python(code))
    assert outcome.rule == "sandbox.memory", outcome


def test_processor_time_ends_at_its_limit(project: Project) -> None:
    outcome = project.run("", limited(cpu=0.5), **python(SPINNER))
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox.cpu"), outcome


def test_time_ends_at_its_limit(project: Project) -> None:
    outcome = project.run("sleep 60", limited(time="300ms"))
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox.time"), outcome


def test_open_files_are_bounded(project: Project) -> None:
    code = "import os\nfor number in range(100): os.dup(0)"
    outcome = project.run("", limited(files=30), **python(code))
    assert outcome.failure == "logic" and "Too many open files" in outcome.stderr


def test_a_daemon_ends_with_its_task(project: Project) -> None:
    outcome = project.run("", **python(DAEMON))
    assert outcome.failure == ""
    seen = (project.folder / "beat.txt").read_text() if (project.folder / "beat.txt").exists() else ""
    time.sleep(0.3)
    assert ((project.folder / "beat.txt").read_text() if seen else "") == seen


@needs_landlock
def test_limits_hold_without_namespaces_too(project: Project) -> None:
    outcome = project.run("", limited(memory="150MB", profile="landlock"), **python(HOG))
    assert outcome.rule == "sandbox.memory", outcome
    outcome = project.run("", limited(processes=20, profile="landlock"), **python(BOMB))
    assert outcome.rule == "sandbox.processes", outcome
    assert not project.alive()


@pytest.mark.parametrize("levels", [("1GB", "150MB"), ("150MB", "1GB")])
def test_the_smallest_limit_counts_whoever_sets_it(project: Project, levels: tuple[str, str]) -> None:
    from planrunner.plan.rights import Level

    both = [Level(name, {"sandbox": {"memory": size}}) for name, size in zip(("planrunner.yaml", "task t"), levels)]
    outcome = project.run("", *both, **python(HOG))
    assert outcome.rule == "sandbox.memory"
    assert f"`{both[levels.index('150MB')].name}` allows 150 MB" in outcome.message


@pytest.mark.parametrize("waits", ["", "; sleep 600"], ids=["ends at once", "goes on"])
def test_of_a_flood_of_output_nothing_beyond_the_limit_is_kept(project: Project, waits: str) -> None:
    outcome = project.run("head -c 60000 /dev/zero | tr '\\0' x" + waits, limited(output="20kB"))
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox.output"), outcome
    assert outcome.stdout == "x" * 20_000
    (log,) = (project.state / "logs" / project.run_id).iterdir()
    assert log.read_bytes() == b"x" * 20_000
