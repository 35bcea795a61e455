"""The shell as a program that reads lines: its own commands, the run at hand, sessions that persist, profiles."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from workbench import environment, planrunner

PLANS = {
    "hello": "plan: hello\ntasks:\n  - {id: greet, run: echo hi, timeout: 10s}\n",
    "fails": "plan: fails\ntasks:\n  - {id: check, run: test -e ready, timeout: 10s}\n",
}
SETTINGS = """\
profiles: {ci: {scheduler: {max_parallel: 1}}}
cli_profiles:
  - {id: plain}
  - id: editor
    default: true
    description: For drafts
    profile: ci
    aliases: {go: exec hello --progress quiet, again-and-again: go}
    start: [history]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "plans").mkdir()
    for name, text in PLANS.items():
        (tmp_path / "plans" / f"{name}.yaml").write_text(text)
    (tmp_path / "planrunner.yaml").write_text("{}\n")
    return tmp_path


def shell(
    folder: Path, *lines: str, options: tuple[str, ...] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """What the shell says when it is given these lines."""
    return subprocess.run(
        [sys.executable, "-m", "planrunner", "shell", *options],
        cwd=folder,
        input="".join(f"{line}\n" for line in lines),
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_that_was_started_is_the_one_at_hand(project: Path) -> None:
    said = shell(project, "exec hello --progress quiet", "exec fails --progress quiet", "show", "use last", "logs")
    assert "fails failed" in said.stdout
    assert said.returncode == 0
    assert shell(project, "exec fails --progress quiet").returncode == 1


def test_a_failed_run_is_retried_without_naming_it(project: Path) -> None:
    shell(project, "exec fails --progress quiet")
    (project / "ready").touch()
    said = shell(project, "/retry --progress quiet", "planrunner show --all", "retry")
    assert said.returncode == 2  # the last one has nothing left to retry
    assert json.loads(planrunner(project, "show", "--json").stdout)["status"] == "completed"


def test_what_was_typed_is_there_in_the_next_shell_and_only_there(project: Path) -> None:
    shell(project, "exec hello --progress quiet", " exec hello --progress quiet", "sohw", options=("--session", "a"))
    said = shell(project, "history", "again 1", "session", "session b", "history", options=("--session", "a"))
    lines = [line.split(maxsplit=4)[3:] for line in said.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert lines == [["0", "exec hello --progress quiet"], ["2", "sohw"], ["0", "session b"]]
    assert "* a" in said.stdout
    file = project / ".planrunner" / "shell" / "a.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(json.loads(planrunner(project, "runs", "--json").stdout)["runs"]) == 3


def test_a_line_that_a_crash_cut_off_does_no_harm(project: Path) -> None:
    shell(project, "history")
    with open(project / ".planrunner" / "shell" / "main.jsonl", "a", encoding="utf-8") as file:
        file.write('{"line": "exe')
    assert shell(project, "history").returncode == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sohw", "no command `sohw`, did you mean `show`?"),
        ("atach", "no command `atach`, did you mean `attach`?"),
        ("qqqqqqqq", "no command `qqqqqqqq`\n  `help` lists the commands"),
        ("exec 'x", "the line cannot be split into words"),
        ("step nothing", "there are no runs"),
        ("use", "`use` needs a run"),
        ("attach a b", "one run at most"),
        ("history x", "`x` is not a number from 1 on"),
        ("session ../x", "`../x` cannot be the name of a session"),
        ("profile editr", "the shell has no profile `editr`"),
        ("again", "there is no such line in this session"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(project: Path, line: str, said: str) -> None:
    done = shell(project, line)
    assert said in done.stdout + done.stderr
    assert done.returncode != 0
    assert "Traceback" not in done.stdout + done.stderr


def test_the_default_profile_brings_aliases_a_profile_of_the_settings_and_first_lines(project: Path) -> None:
    (project / "planrunner.yaml").write_text(SETTINGS)
    done = shell(project, "again-and-again", "profile")
    assert "* editor  For drafts" in done.stdout
    run = json.loads(planrunner(project, "events", "last", "--json", "--limit", "1").stdout.splitlines()[1])
    assert run["environment"]["profile"] == "ci"
    assert shell(project, "go", options=("--as", "plain")).returncode != 0
    assert "did you mean `plain`?" in shell(project, options=("--as", "plian")).stderr


def test_the_queue_is_filled_and_worked_off(project: Path) -> None:
    done = shell(project, "/queue hello", "queue-status", "/run-queue", "queue --status completed")
    assert "1 waiting" in done.stdout
    assert "✔ completed" in done.stdout or "+ completed" in done.stdout


def test_what_waits_for_people_does_not_hold_the_prompt_up(project: Path) -> None:
    (project / "plans" / "asks.yaml").write_text("plan: asks\ntasks:\n  - {id: sign, gate: approval, ask: sign it}\n")
    done = shell(project, "/queue hello", "/queue asks", "/run-queue", "/queue-status", "gates")
    assert "waits for people: sign" in done.stdout
    assert "1 parked, 1 completed" in done.stdout
    assert "planrunner approve" in done.stdout


def test_the_plan_of_the_last_run_is_edited_and_checked(project: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/test -e ready/echo mended/' \"$1\"\n")
    editor.chmod(0o755)
    done = shell(project, "exec fails --progress quiet", "edit-last", "edit-last", EDITOR=str(editor))
    run = json.loads(planrunner(project, "show", "--json").stdout)["run_id"]
    assert f"continue later: retry {run} --plan plans/fails.yaml" in done.stdout
    assert "plans/fails.yaml is unchanged" in done.stdout
    assert shell(project, "retry --plan plans/fails.yaml --progress quiet").returncode == 0
    missing = shell(project, "edit-last", EDITOR="no-such-editor")
    assert "the editor `no-such-editor` cannot be started" in missing.stdout


def test_an_attached_run_is_shown_to_its_end(project: Path) -> None:
    slow = "plan: slow\ntasks:\n  - {id: wait, run: 'until test -e ready; do sleep 0.1; done', timeout: 1m}\n"
    (project / "plans" / "slow.yaml").write_text(slow + "  - {id: end, run: 'exit 3', timeout: 10s, needs: [wait]}\n")
    (project / "ready").touch()
    done = shell(project, "exec slow --detach", "attach")
    assert "end failed" in done.stdout
    assert done.returncode == 1


def test_a_profile_hides_no_command(project: Path) -> None:
    (project / "planrunner.yaml").write_text("cli_profiles: {a: {default: true, aliases: {show: exec hello}}}\n")
    hidden = shell(project, "show")
    assert (hidden.returncode, "has the name of a command" in hidden.stderr) == (2, True)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to others")
def test_a_profile_in_settings_of_another_user_does_nothing(project: Path) -> None:
    (project / "planrunner.yaml").write_text("cli_profiles: {a: {default: true, start: [exec hello]}}\n")
    assert "* a" in shell(project, "profile").stdout
    os.chown(project / "planrunner.yaml", 12345, 12345)
    assert "no profile for the shell" in shell(project, "profile").stdout
