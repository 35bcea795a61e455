"""Standard streams that are closed, files that are no files, and what the terminal is spared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from workbench import ROOT

PLAN = "plan: p\ntasks:\n  - id: a\n    run: echo hello; echo oops >&2; echo done > made\n    timeout: 10m\n"
FAILS = PLAN.replace("echo done > made", "exit 3")
CLOSED = (">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-")


def call(folder: Path, words: str, timeout: float = 240) -> tuple[int, str, str]:
    """A command line through the shell, which closes what it is told to."""
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m planrunner {words}', sys.executable],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(folder / "state")},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("closed", CLOSED)
def test_a_run_with_closed_streams_runs_and_keeps_its_exit_code(closed, plan, tmp_path):
    plan(PLAN)
    plan(FAILS, "f.yaml")
    assert call(tmp_path, f"exec p.yaml --json {closed}")[0] == 0
    assert (tmp_path / "made").read_text() == "done\n"
    code, out, err = call(tmp_path, f"exec f.yaml {closed}")
    assert code == 1
    assert "Traceback" not in out + err
    shown = json.loads(call(tmp_path, "show last --json")[1])
    assert shown["status"] == "failed"
    assert call(tmp_path, "logs last")[1] == "hello\noops\n"


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize(
    "words", ["show last", "lint p.yaml", "--version", "--help", "runs", "events last", "logs last"]
)
def test_a_command_with_closed_streams_ends_well(words, closed, plan, tmp_path):
    plan(PLAN)
    assert call(tmp_path, "exec p.yaml")[0] == 0
    code, out, err = call(tmp_path, f"{words} {closed}")
    assert code == 0
    assert "Traceback" not in out + err


def test_a_closed_stream_never_becomes_a_file_that_is_written(plan, tmp_path):
    plan(PLAN)
    assert call(tmp_path, "exec p.yaml >&- 2>&-")[0] == 0
    assert (tmp_path / "state" / "journal.db").read_bytes().startswith(b"SQLite format 3\0")


def test_ways_to_go_on_name_the_state_directory_that_was_given(run, plan):
    plan(FAILS)
    ran = run("--state", "my runs", "exec", "p.yaml")
    assert ran.code == 1
    assert "planrunner --state 'my runs' logs " in ran.err
    assert "planrunner --state 'my runs' why " in ran.err
    plan("plan: q\ntasks:\n  - {id: agree, gate: approval, approvers: [ann]}\n", "q.yaml")
    ran = run("--state=kept", "exec", "q.yaml")
    assert ran.code == 8
    assert "planrunner --state kept resume " in ran.err
    run_id = json.loads(run("--state", "my runs", "show", "--json").out)["run_id"]
    assert f"planrunner --state 'my runs' show {run_id}" in run("--state", "my runs", "resume", run_id).err


def test_ways_to_go_on_are_short_where_no_state_directory_was_given(run, plan):
    plan(FAILS)
    assert "planrunner logs " in run("exec", "p.yaml").err


@pytest.mark.parametrize("command", ["exec", "lint", "fmt", "graph"])
def test_a_pipe_is_refused_instead_of_waited_for(command, tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    code, _, err = call(tmp_path, f"{command} pipe.yaml")
    assert code == 3
    assert "`pipe.yaml` is a pipe, not a plan" in err


def test_a_pipe_in_a_folder_does_not_hold_lint_up(plan, tmp_path):
    os.mkfifo(tmp_path / "pipe.plan.yaml")
    plan(PLAN, "a.plan.yaml")
    assert call(tmp_path, "lint .")[0] == 0


def test_devices_are_no_plans_and_standard_input_still_is(run):
    assert run("lint", "/dev/zero").code == 3
    assert run("lint", "-", "--stdin-filename", "p.yaml", stdin=PLAN).code == 0


@pytest.mark.parametrize("content", [b"plan: p\0\n", b"plan: \xff\n", "plan: p\n".encode("utf-16")])
def test_bytes_that_are_no_text_give_one_finding(content, run, tmp_path):
    (tmp_path / "p.yaml").write_bytes(content)
    for ran in (run("lint", "p.yaml", "--format", "json"), run("lint", "-", "--format", "json", stdin=content)):
        assert ran.code == 1
        assert ran.out.count('"PLAN012"') == 1
        assert "PLAN001" not in ran.out
    assert "PLAN001" not in run("fmt", "p.yaml").err
    assert "PLAN001" not in run("graph", "p.yaml").err


def test_a_file_that_is_too_large_is_told_its_real_size(run, tmp_path):
    (tmp_path / "p.yaml").write_bytes(b"# " + b"x" * 9_000_000)
    ran = run("lint", "p.yaml", "--format", "concise")
    assert ran.code == 1
    assert "the file has 9,000,002 bytes" in ran.out
    assert len(ran.out.splitlines()) == 1


def test_an_endless_line_of_output_is_cut_on_the_screen_and_whole_in_the_log(run, plan):
    plan("plan: p\ntasks:\n  - id: a\n    run: head -c 60000 /dev/zero | tr '\\0' x >&2; exit 1\n    timeout: 10m\n")
    ran = run("exec", "p.yaml")
    assert ran.code == 1
    assert max(map(len, ran.err.splitlines())) <= 260
    assert "…" in ran.err
    assert max(map(len, run("show", "last").out.splitlines())) <= 260
    assert len(run("logs", "last").out) == 60000


def test_a_timeout_is_named_as_the_plan_writes_it(run, plan):
    plan("plan: p\ntasks:\n  - {id: a, run: sleep 300, timeout: 500ms}\n")
    assert "longer than its timeout of 500ms" in run("exec", "p.yaml").err


def test_a_state_directory_open_to_everybody_is_refused_with_a_way_out(run, plan, tmp_path):
    plan(PLAN)
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    ran = run("exec", "p.yaml")
    assert ran.code == 11
    assert f"make it yours alone with `chmod 700 {tmp_path / 'state'}`" in ran.err
