"""Ways out of the sandbox that lead through planrunner itself, its files and what it does after a task: none leads out."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from sandbox_project import STRICT, Project, limited, needs_bubblewrap, needs_landlock

from planrunner.capabilities.contract import Context, capability
from planrunner.capabilities.programs import run_program
from planrunner.engine import sandbox
from planrunner.engine.calls import Place, tidy
from planrunner.machine.events import Outcome
from planrunner.plan.model import Artifact, Output
from planrunner.plan.rights import Level
from planrunner.safety.sandbox import presence
from planrunner.safety.sandbox.wrapper import settled

pytestmark = needs_bubblewrap


def files(**patterns: list[str]) -> Level:
    return Level("task t", {"files": patterns})


def test_what_a_task_writes_below_the_working_directory_stays(project: Project) -> None:
    outcome = project.run("cat src/one.txt; echo two > src/two.txt; echo key=value >> $PLANRUNNER_OUTPUT")
    assert (outcome.failure, outcome.stdout, outcome.outputs) == ("", "one", {"key": "value"})
    assert (project.folder / "src" / "two.txt").read_text() == "two\n"


@needs_landlock
def test_a_folder_of_thousands_of_files_is_let_in_without_namespaces_too(project: Project) -> None:
    for number in range(3000):
        (project.folder / f"a-name-of-{'many-' * 10}letters-{number}").touch()
    outcome = project.run("echo two >> src/one.txt; ls | wc -l", limited(profile="landlock"))
    assert (outcome.failure, outcome.stdout.strip()) == ("", "3001"), outcome


def test_hundreds_of_files_are_let_in_one_by_one(project: Project) -> None:
    for number in range(330):
        (project.folder / f"{number}.txt").touch()
    outcome = project.run(
        "for each in *.txt; do echo two > $each; done; touch new || echo kept", files(write=["*.txt"])
    )
    assert (outcome.failure, outcome.stdout) == ("", "kept\n"), outcome
    assert {path.read_text() for path in project.folder.glob("*.txt")} == {"two\n"}


def test_a_plan_from_outside_is_shut_in_though_nobody_says_so(project: Project) -> None:
    outcome = project.run("cat .planrunner/journal.db || test $(id -u) = 65534", options={"untrusted": True}, rights=())
    assert outcome.failure == "" and "the journal" not in outcome.stdout


def test_a_person_may_take_the_sandbox_away(project: Project) -> None:
    outcome = project.run("cat .planrunner/journal.db", options={"untrusted": True, "unconfined": True})
    assert outcome.stdout == "the journal"


def test_nothing_of_the_runners_environment_comes_along(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "0123456789")
    outcome = project.run("env; cat /proc/1/environ /proc/$PPID/environ 2>/dev/null || true", env={"MINE": "yes"})
    assert "0123456789" not in outcome.stdout and "MINE=yes" in outcome.stdout


def test_the_operator_names_variables_that_pass(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "0123456789")
    operator = Level("planrunner.yaml", {"env": {"allow": ["A_TOKEN", "PLANRUNNER_*"]}, "sandbox": True})
    assert project.run("echo $A_TOKEN", operator).stdout == "0123456789\n"


def test_an_artifact_that_is_a_link_keeps_nothing_from_outside(project: Project, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret")
    task = {"artifacts": (Artifact("report", "report.txt"),)}
    outcome = project.run(f"ln -s {tmp_path}/secret report.txt", task=task)
    assert outcome.failure and not outcome.artifacts


def test_an_output_file_that_is_a_link_gives_nothing_from_outside(project: Project, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("word=hidden\n")
    outcome = project.run(f'rm -f "$PLANRUNNER_OUTPUT"; ln -s {tmp_path}/secret "$PLANRUNNER_OUTPUT"')
    assert "word" not in outcome.outputs


def test_an_output_read_from_a_link_gives_nothing_from_outside(project: Project, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden")
    task = {"outputs": (Output("word", path="word.txt"),)}
    outcome = project.run(f"ln -s {tmp_path}/secret word.txt", task=task)
    assert "hidden" not in str(outcome.outputs)


def test_files_of_other_attempts_are_not_seen(project: Project) -> None:
    other = project.state / "tmp" / project.run_id / "other.1.outputs"
    other.parent.mkdir(parents=True)
    other.write_text("key=old\n")
    outcome = project.run(f"ls -R .planrunner; echo key=forged > {other} || true")
    assert "other.1" not in outcome.stdout and other.read_text() == "key=old\n"


def test_a_task_cannot_give_the_project_a_policy(project: Project) -> None:
    outcome = project.run("echo 'network: {private: [10.0.0.0/8]}' > planrunner.yaml")
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox.files"), outcome
    assert not (project.folder / "planrunner.yaml").exists()


def test_a_task_cannot_give_the_project_a_repository_with_hooks(project: Project) -> None:
    for path in sorted((project.folder / ".git").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (project.folder / ".git").rmdir()
    outcome = project.run("mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit")
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox.files"), outcome
    assert not (project.folder / ".git").exists()
    (kept,) = (project.state / "refused").iterdir()
    assert (kept / "hooks" / "pre-commit").read_text() == "evil\n" and str(kept) in outcome.message


@pytest.mark.parametrize(
    "script",
    [
        "echo '[core] fsmonitor = evil' >> .git/config",
        "echo evil > .git/hooks/pre-commit",
        "mv .git .old && mkdir -p .git/hooks",
        "rm -rf .git",
        "echo ../evil > .git/commondir",
        "ln -sfn /tmp .git",
    ],
)
def test_what_git_runs_by_stays_as_it_is(project: Project, script: str) -> None:
    outcome = project.run(script)
    assert outcome.failure
    assert sorted(os.listdir(project.folder / ".git")) == ["config", "hooks"]
    assert (project.folder / ".git" / "config").read_text() == "[core]\n"
    assert not os.listdir(project.folder / ".git" / "hooks")


def test_git_may_be_written_where_the_scope_says_so(project: Project) -> None:
    assert project.run("echo a > .git/ours", files(write=[".git/**", "src/**"])).failure == ""
    assert (project.folder / ".git" / "ours").exists()


RAISING = (
    "import os\n"
    "ways = [lambda: os.chmod('f', 0o4755), lambda: os.fchmod(os.open('f', os.O_RDONLY), 0o2755),\n"
    "        lambda: os.open('g', os.O_CREAT | os.O_WRONLY, 0o4755), lambda: os.mknod('h', 0o6755)]\n"
    "open('f', 'w').close()\n"
    "for way in ways:\n"
    "    try: way(); print('made')\n"
    "    except PermissionError: print('refused')\n"
    "os.chmod('f', 0o755)\n"
)


def test_no_file_is_made_that_gives_others_the_rights_of_the_runner(project: Project) -> None:
    outcome = project.run(arguments=(os.path.realpath(sys.executable), "-I", "-S", "-c", RAISING))
    assert (outcome.failure, outcome.stdout) == ("", "refused\n" * 4), outcome
    assert not [path for path in project.folder.rglob("*") if path.lstat().st_mode & 0o6000]
    assert (project.folder / "f").stat().st_mode & 0o777 == 0o755


def test_folders_nested_by_the_thousand_stop_nobody(project: Project) -> None:
    code = "import os\nos.chdir(os.path.dirname(os.environ['PLANRUNNER_OUTPUT']))\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')"
    assert project.run(arguments=(os.path.realpath(sys.executable), "-I", "-S", "-c", code)).failure == ""
    place = Place(str(project.folder), str(project.state / "tmp" / project.run_id))
    tidy(place)
    assert not os.path.lexists(place.scratch)


@needs_landlock
def test_no_daemon_is_reached_by_its_socket_file_without_namespaces(project: Project) -> None:
    path = project.folder / "socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        code = "import socket; socket.socket(socket.AF_UNIX).connect('socket')"
        level = Level("task t", {"sandbox": {"profile": "landlock", "network": True}})
        outcome = project.run("", level, arguments=(os.path.realpath(sys.executable), "-I", "-c", code))
    assert outcome.failure == "logic" and "Permission denied" in outcome.stderr, outcome


def test_what_programs_remember_for_later_is_forgotten(project: Project) -> None:
    (project.state / "cache").mkdir()
    (project.state / "cache" / "known").write_text("known")
    outcome = project.run("ls .planrunner/cache; echo bad > .planrunner/cache/known; cat .planrunner/cache/known")
    assert (outcome.failure, outcome.stdout) == ("", "bad\n")
    assert (project.state / "cache" / "known").read_text() == "known"


def test_everybody_is_killed_within_and_nobody_outside(project: Project) -> None:
    outside = os.readlink("/proc/self/ns/pid")
    outcome = project.run(f'[ "$(readlink /proc/self/ns/pid)" != "{outside}" ] || exit 3; sleep 60 & kill -9 -1; wait')
    assert outcome.exit_code != 3


def test_only_what_the_scope_names_can_be_written(project: Project) -> None:
    level = files(write=["build/**", "report.txt"])
    outcome = project.run("echo a > build/a; echo r > report.txt; cat src/one.txt; echo x > src/one.txt", level)
    assert outcome.failure == "logic" and outcome.stdout == "one"
    assert (project.folder / "build" / "a").read_text() == "a\n"
    assert (project.folder / "report.txt").read_text() == "r\n"
    assert (project.folder / "src" / "one.txt").read_text() == "one"


def test_a_file_that_may_be_written_and_is_not_leaves_nothing(project: Project) -> None:
    assert project.run("true", files(write=["report.txt"])).failure == ""
    assert not (project.folder / "report.txt").exists()


def test_only_what_the_scope_names_can_be_read(project: Project) -> None:
    (project.folder / "notes.txt").write_text("notes")
    outcome = project.run("cat src/one.txt; cat notes.txt", files(read=["src/**"]))
    assert outcome.failure == "logic" and outcome.stdout == "one"


def test_what_is_denied_is_not_there(project: Project) -> None:
    (project.folder / ".env").write_text("TOKEN=1")
    (project.folder / "src" / "key.pem").write_text("key")
    outcome = project.run("cat .env src/key.pem || cat src/one.txt", files(deny=[".env", "**/*.pem"]))
    assert (outcome.failure, outcome.stdout) == ("", "one")


def test_the_scopes_of_two_levels_leave_what_both_allow(project: Project) -> None:
    levels = Level("the plan", {"files": {"write": ["src/**", "build/**"]}}), files(write=["build/**", "docs/**"])
    outcome = project.run("echo a > build/a; echo a > src/a || echo a > docs/a || echo none", *levels)
    assert outcome.stdout == "none\n" and (project.folder / "build" / "a").exists()


def test_a_scope_that_is_a_link_lets_nothing_in_from_outside(project: Project, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (project.folder / "out").symlink_to(tmp_path / "outside")
    outcome = project.run("echo a > out/a", files(write=["out/**"]))
    assert outcome.failure and not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize("pattern", ["/etc/**", "../**", "/"])
def test_a_plan_gives_itself_nothing_outside(project: Project, tmp_path: Path, pattern: str) -> None:
    (tmp_path / "beside").write_text("beside")
    outcome = project.run("cat ../beside /etc/shadow", files(read=[pattern], write=[pattern]))
    assert outcome.failure and "beside" not in outcome.stdout and "root:" not in outcome.stdout


def test_the_operator_lets_in_what_lies_outside(project: Project, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "data").write_text("data")
    operator = Level("planrunner.yaml", {"files": {"read": ["**", f"{tmp_path}/shared/**"]}, "sandbox": True})
    assert project.run(f"cat {tmp_path}/shared/data", operator).stdout == "data"


def test_work_outside_the_working_directory_is_refused(project: Project, tmp_path: Path) -> None:
    outcome = project.run("true", directory=str(tmp_path))
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox.files")


def test_python_is_shut_in_as_well(project: Project) -> None:
    code = "import os\nresult = {'uid': os.getuid(), 'journal': os.path.exists('.planrunner/journal.db')}"
    outcome = project.run(uses="python.run", inputs={"code": code})
    assert (outcome.failure, outcome.outputs) == ("", {"uid": 65534, "journal": False}), outcome


def listed(context: Context) -> Outcome:
    """What a program of a plugin sees."""
    ended = run_program(context, ["sh", "-c", "id -u; ls -a; cat .planrunner/journal.db"])
    return Outcome(outputs={"said": ended.text, "code": ended.code})


def test_a_program_of_a_plugin_is_shut_in(project: Project) -> None:
    project.functions["p.list"] = capability("p.list")(listed)
    outcome = project.run(uses="p.list")
    assert outcome.outputs["said"].startswith("65534\n") and "the journal" not in outcome.outputs["said"], outcome


def flooded(context: Context) -> Outcome:
    """A program of a plugin that does not stop printing."""
    run_program(context, ["sh", "-c", "yes"])
    return Outcome()


def test_a_program_of_a_plugin_is_held_to_its_limits(project: Project) -> None:
    project.functions["p.flood"] = capability("p.flood")(flooded)
    outcome = project.run("", limited(output="5MB"), uses="p.flood")
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox.output"), outcome


def _without(monkeypatch: pytest.MonkeyPatch, landlock: int = 0) -> None:
    monkeypatch.setattr(presence, "bubblewrap", lambda: ("", "`bwrap` is not on the PATH"))
    monkeypatch.setattr(presence, "landlock", lambda: landlock)


def test_what_is_written_beside_the_project_fails_and_does_not_vanish(project: Project) -> None:
    assert project.folder.parent != Path("/tmp")
    outcome = project.run("echo x > ../report.txt")
    assert outcome.failure == "logic" and "Read-only file system" in outcome.stderr, outcome
    outcome = project.run("mkdir ../made")
    assert outcome.failure == "logic" and "Read-only file system" in outcome.stderr, outcome


def test_where_nothing_works_an_untrusted_shell_is_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch)
    outcome = project.run("touch ran", options={"untrusted": True}, rights=())
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox")
    assert "apt install bubblewrap" in outcome.message and "--no-sandbox" in outcome.message
    assert not (project.folder / "ran").exists()


def test_what_was_asked_for_is_not_exchanged_for_something_weaker(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without(monkeypatch, landlock=7)
    outcome = project.run("touch ran", STRICT)
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox")


@pytest.mark.parametrize(
    ("sandbox", "words"),
    [
        ("bubbles", "there are none, landlock, bubblewrap, docker"),
        ({"memory": "much"}, "`sandbox.memory` is not an amount"),
        ({"profile": "docker"}, "docker"),
    ],
)
def test_a_sandbox_that_cannot_be_had_is_refused(project: Project, sandbox: Any, words: str) -> None:
    outcome = project.run("touch ran", Level("task t", {"sandbox": sandbox}))
    assert outcome.failure == "policy" and outcome.rule and words in outcome.message, outcome
    assert not (project.folder / "ran").exists()


def test_a_program_that_is_missing_is_told_as_ever(project: Project) -> None:
    outcome = project.run(arguments=("no-such-program",))
    assert (outcome.failure, outcome.message) == ("logic", "command not found: no-such-program is not on the PATH")


@pytest.mark.parametrize(
    "script",
    [
        "echo x > config/deep/models.yaml",
        "rm config/deep/models.yaml",
        "mv config/deep/models.yaml config/old.yaml",
        "mv config/deep config/old",
        "mv config old && mkdir -p config/deep && echo x > config/deep/models.yaml",
        "rm -rf config",
        'python3 -c \'import os; os.symlink("/dev/null", "n"); os.replace("n", "config/deep/models.yaml")\'',
    ],
)
def test_what_the_settings_include_stays_as_it_is_and_where_it_is(project: Project, script: str) -> None:
    inner = project.folder / "config/deep/models.yaml"
    inner.parent.mkdir(parents=True)
    inner.write_text("models: {}\n")
    (project.folder / "planrunner.yaml").write_text("include: config/deep/models.yaml\n")
    project.run(script, STRICT)
    assert inner.read_text() == "models: {}\n"
    assert project.run("cat config/deep/models.yaml; echo y > config/deep/other", STRICT).stdout == "models: {}\n"
    assert (project.folder / "config/deep/other").read_text() == "y\n"


def test_nothing_runs_in_a_sandbox_while_the_settings_are_unsound(project: Project) -> None:
    (project.folder / "planrunner.yaml").write_text("include: gone.yaml\n")
    outcome = project.run("echo hello", STRICT)
    assert outcome.failure == "policy"
    assert "there is no such file" in outcome.message


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_a_folder_that_becomes_a_link_while_it_is_let_in_leads_nowhere(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Another task has the folder around it, and exchanges it between the look at the scope and the start."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (project.folder / "build" / "out").mkdir(parents=True)

    def exchanged(confinement: Any, asked: bool) -> Any:
        if not (project.folder / "build" / "out").is_symlink():
            (project.folder / "build" / "out").rmdir()
            (project.folder / "build" / "out").symlink_to(outside)
        return settled(confinement, asked)

    monkeypatch.setattr(sandbox, "settled", exchanged)
    level = Level("task t", {"files": {"write": ["build/out/**"]}, "sandbox": kind})
    outcome = project.run("echo a > build/out/a", level)
    assert outcome.failure and not list(outside.iterdir()), outcome


def test_a_folder_that_becomes_a_link_before_something_is_made_in_it_leads_nowhere(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (project.folder / "build").mkdir()

    def exchanged(confinement: Any, asked: bool) -> Any:
        if not (project.folder / "build").is_symlink():
            (project.folder / "build").rmdir()
            (project.folder / "build").symlink_to(outside)
        return settled(confinement, asked)

    monkeypatch.setattr(sandbox, "settled", exchanged)
    outcome = project.run("true", files(write=["build/out/**", "build/report.txt"]))
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox.files"), outcome
    assert not list(outside.iterdir())
