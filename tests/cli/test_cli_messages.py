"""What goes where, colours, wrong calls, faults of our own, and readers that go away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from workbench import ROOT

from planrunner import __version__
from planrunner.cli import guard
from planrunner.cli.crash import write_report
from planrunner.cli.settings import Settings, terminal
from planrunner.errors import Fenced, RunHeld, StorageFailed


def test_help_without_arguments_and_version_go_to_standard_output(run):
    for arguments in ([], ["--help"], ["-h"]):
        ran = run(*arguments)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("Usage: planrunner")
    assert run("--version").out == f"planrunner {__version__}\n"


def test_a_mistyped_command_gives_2_and_the_nearest_name(run):
    ran = run("exce", "p.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean `exec`?" in ran.err
    assert run("zzzz").err.startswith("error: no command `zzzz`")


def test_a_mistyped_option_gives_2_and_where_help_is(run):
    ran = run("exec", "p.yaml", "--max-paralel", "3")
    assert ran.code == 2
    assert "--max-parallel" in ran.err
    assert "see `planrunner exec --help`" in ran.err


def test_every_command_has_help(run):
    from planrunner.cli.table import COMMANDS

    for name, *_ in COMMANDS[:4]:
        ran = run(name, "--help")
        assert ran.code == 0
        assert ran.out.startswith(f"Usage: planrunner {name}")


@pytest.mark.parametrize(
    ("error", "code"),
    [(RunHeld("held"), 9), (StorageFailed("full"), 11), (Fenced("fenced"), 9), (KeyboardInterrupt(), 130)],
)
def test_errors_end_with_the_code_of_the_contract(monkeypatch, capsys, error, code):
    def fail(given, options):
        raise error

    monkeypatch.setattr("planrunner.cli.runner.exec_plan", fail)
    assert guard.guarded(["exec", "p.yaml"]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_a_fault_of_our_own_gives_4_and_a_report_without_parameter_values(monkeypatch, capsys, tmp_path):
    def fail(given, options):
        raise ZeroDivisionError("oops")

    monkeypatch.chdir(tmp_path)
    (tmp_path / ".planrunner").mkdir()
    monkeypatch.delenv("PLANRUNNER_STATE", raising=False)
    monkeypatch.setattr("planrunner.cli.runner.exec_plan", fail)
    assert guard.guarded(["exec", "p.yaml", "-p", "token=s3cret"]) == 4
    printed = capsys.readouterr().err
    assert "ZeroDivisionError: oops" in printed
    assert "Traceback" not in printed
    (report,) = (tmp_path / ".planrunner" / "logs").glob("crash-*.txt")
    text = report.read_text()
    assert str(report) in printed
    assert "Traceback" in text
    assert "s3cret" not in text


def test_a_report_lies_with_what_planrunner_keeps_where_there_is_no_state_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PLANRUNNER_STATE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write_report(ZeroDivisionError("oops"), ["exec", "p.yaml"])
    assert os.path.dirname(path) == str(tmp_path / "cache" / "planrunner" / "crashes")
    assert not (tmp_path / ".planrunner").exists()
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_only_the_newest_reports_are_kept_and_other_files_stay(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLANRUNNER_STATE", str(tmp_path / "state"))
    logs = tmp_path / "state" / "logs"
    logs.mkdir(parents=True)
    old = [logs / f"crash-20200101T0000{second:02}-1.txt" for second in range(60)]
    other = logs / "a-run.log"
    for each in (*old, other):
        each.write_text("")
    path = write_report(ZeroDivisionError("oops"), ["exec", "p.yaml"])
    assert sorted(logs.iterdir()) == [other, *old[11:], Path(path)]


def test_reports_of_one_moment_lie_side_by_side(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("planrunner.cli.crash.time.strftime", lambda form: "20200101T000000")
    (tmp_path / "state").mkdir()
    paths = {write_report(ZeroDivisionError("oops"), ["--state", "state", "mcp"]) for _ in range(3)}
    assert sorted(paths) == sorted(map(str, (tmp_path / "state" / "logs").iterdir())) and len(paths) == 3


def test_a_reader_that_goes_away_ends_the_command_quietly():
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for arguments in (["schema"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "planrunner", *arguments],
            stdout=write,
            stderr=subprocess.PIPE,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN),
            timeout=240,
        )
        assert done.returncode == guard.PIPE_CLOSED
        assert done.stderr == b""
    os.close(write)


@pytest.mark.parametrize("arguments", [["schema"], ["rule", "--all"], ["capabilities"], ["exec", "p.yaml", "--json"]])
def test_a_full_disk_behind_standard_output_is_told_and_says_of_no_run_that_it_is_parked(
    arguments, plan, run, tmp_path
):
    plan("plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 10m}\n", "p.yaml")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "planrunner", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(tmp_path / "state")},
            text=True,
            timeout=240,
        )
    said = "error: standard output cannot be written: No space left on device\n  what the command did stands; "
    assert (done.returncode, said in done.stderr) == (74, True)
    if arguments[0] == "exec":
        assert run("show", "last", "--json").code == 0 and "✔ p completed" in done.stderr


def test_findings_on_standard_error_are_coloured_when_asked_for(run, plan):
    name = plan("plan: p\ntasks:\n  - {id: a, runn: echo}\n")
    assert "\x1b[" in run("--color", "always", "exec", name).err
    assert "\x1b[" in run("--color=always", "exec", name).err
    assert "\x1b[" not in run("exec", name).err


class Screen:
    """A stream that says of itself what a test wants."""

    def __init__(self, tty=True, encoding="utf-8"):
        self.encoding = encoding
        self._tty = tty

    def isatty(self):
        return self._tty


@pytest.mark.parametrize(
    ("tty", "choice", "variables", "color"),
    [
        (True, "auto", {"TERM": "xterm"}, True),
        (False, "auto", {"TERM": "xterm"}, False),
        (True, "auto", {"TERM": "dumb"}, False),
        (True, "auto", {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (False, "auto", {"FORCE_COLOR": "1"}, True),
        (False, "auto", {"FORCE_COLOR": "0"}, False),
        (False, "auto", {"CLICOLOR_FORCE": "1"}, True),
        (False, "auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (False, "always", {"NO_COLOR": "1"}, True),
        (True, "never", {"TERM": "xterm", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_follows_option_then_environment_then_terminal(monkeypatch, tty, choice, variables, color):
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert terminal(Screen(tty), Settings(color=choice)).color is color


def test_signs_are_ascii_where_the_encoding_is_not_utf8():
    assert terminal(Screen(encoding="UTF-8"), Settings()).unicode
    assert not terminal(Screen(encoding="latin-1"), Settings()).unicode


def test_completion_knows_commands_options_choices_rules_and_files(complete):
    assert list(complete("resu")) == ["resume"]
    assert "--progress" in complete("exec", "--pro")
    assert list(complete("exec", "p.yaml", "--progress", "t")) == ["tree"]
    assert list(complete("--color", "a")) == ["auto", "always"]
    assert list(complete("lint", "")) == ["file"]
    assert complete("rule", "PLAN103")["PLAN103"]
    assert complete("ex")["exec"].startswith("Run a plan")


def test_completion_is_silent_when_something_is_wrong(complete):
    for words in (["--state", "/dev/null/x", "show", "z"], ["logs", "zz", ""], ["show", "x"]):
        assert complete(*words) == {}


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_completion_scripts_are_printed_and_sound(run, shell, tmp_path):
    ran = run("completion", shell)
    assert ran.code == 0
    if shell == "bash":
        (tmp_path / "c.bash").write_text(ran.out)
        assert subprocess.run(["bash", "-n", str(tmp_path / "c.bash")]).returncode == 0


def test_runs_and_tasks_are_completed_from_the_journal(run, plan, complete):
    assert run("exec", plan("plan: p\ntasks:\n  - {id: alpha, title: First, uses: noop, timeout: 1m}\n")).code == 0
    assert complete("show", "")["last"] == "the newest run"
    assert complete("logs", "last", "al") == {"alpha": "First"}
    assert complete("why", "al") == {"alpha": "First"}


def test_bash_completes_a_command_through_the_script(run, tmp_path):
    (tmp_path / "c.bash").write_text(run("completion", "bash").out)
    (tmp_path / "planrunner").write_text(f'#!/bin/sh\nexec {sys.executable} -m planrunner "$@"\n')
    (tmp_path / "planrunner").chmod(0o755)
    script = (
        f"source {tmp_path}/c.bash; COMP_WORDS=({tmp_path}/planrunner gr); COMP_CWORD=1; "
        f"_planrunner_completion {tmp_path}/planrunner; echo ${{COMPREPLY[@]}}"
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=240
    )
    assert done.stdout.strip() == "graph", done.stderr


@pytest.mark.parametrize(
    "words", [("runs",), ("exec", "p.yaml"), ("resume", "last"), ("lint", "."), ("doctor",), ("show",), ("init",)]
)
def test_a_working_directory_that_was_removed_is_told_and_is_no_fault_of_ours(words, tmp_path):
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        ["sh", "-c", 'cd gone && rmdir ../gone && exec "$@"', "sh", sys.executable, "-m", "planrunner", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        timeout=240,
    )
    assert done.returncode == (3 if words[0] == "lint" else 2), done.stderr
    assert "the current directory does not exist any more" in done.stderr
    assert "`cd`" in done.stderr
    assert not [found.name for found in tmp_path.iterdir() if found.name.startswith("crash")]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("p.yaml", "tasks:\n  - id: a\n    run: echo name: {{ x }}\n", "write `run: |` and the script below it, indented"),
        ("p.yaml", "tasks:\n  - id: a\n    title: one: two\n", "quote the value"),
        ("p.yaml", "tasks:\n  - id: a\n   run: x\n", "the key `run` is not in line with the keys of the item above"),
        ("p.plan", "task a\n  run: x\n  on failure --> b\n", "`-->` is not an arrow, did you mean `->`?"),
        ("p.plan", "task a\n  run: x\n\nfinally\ntask b\n  run: x\n", "its tasks stand below it, indented"),
        ("p.yaml", "tasks:\n  - {id: a, subplan: {tasks: []}}\n", "commands in their order stand under `steps`"),
    ],
)  # fmt: skip
def test_a_slip_of_the_notation_is_told_with_what_is_written(run, plan, name, text, told):
    plan(text if name.endswith(".plan") else f"plan: p\n{text}", name)
    assert told in run("lint", name).out
