"""A machine without bubblewrap: Landlock holds a task to its files, with mounts of its own laid over what is denied where
the kernel allows that, and without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sandbox_project import Project, limited, needs_landlock

from planrunner.plan.rights import Level
from planrunner.safety.sandbox import presence

pytestmark = needs_landlock
needs_covers = pytest.mark.skipif(not presence.covers(), reason="a process cannot have mounts of its own here")


@pytest.fixture(autouse=True)
def without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "bubblewrap", lambda: ("", "`bwrap` is not on the PATH"))


@pytest.fixture(params=[pytest.param(True, marks=needs_covers, id="with-mounts"), pytest.param(False, id="without")])
def covers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(presence, "covers", lambda: request.param)
    return bool(request.param)


def denied(*patterns: str) -> Level:
    return Level("task t", {"sandbox": "landlock", "files": {"deny": list(patterns)}})


@needs_covers
def test_a_plan_from_outside_makes_files_at_the_top_of_its_directory(project: Project) -> None:
    (project.folder / "planrunner.yaml").touch()
    script = "echo made > made.txt; mkdir build; mv made.txt build/; cat build/made.txt; echo key=value >> $PLANRUNNER_OUTPUT"
    outcome = project.run(script, options={"untrusted": True}, rights=())
    assert (outcome.failure, outcome.stdout, outcome.outputs) == ("", "made\n", {"key": "value"}), outcome
    assert (project.folder / "build" / "made.txt").read_text() == "made\n"


def test_the_shared_memory_of_the_machine_is_shut(project: Project, covers: bool) -> None:
    there = Path("/dev/shm") / f"planrunner-{os.getpid()}"
    there.write_text("mine\n")
    (project.folder / "build").mkdir()
    try:
        script = f"ls /dev/shm; cat {there}; echo changed > {there}; echo new > {there}-new; true"
        outcome = project.run(script, Level("task t", {"sandbox": "landlock", "files": {"write": ["build/**"]}}))
        assert there.name not in outcome.stdout and "mine" not in outcome.stdout, outcome
        assert there.read_text() == "mine\n" and not Path(f"{there}-new").exists()
    finally:
        there.unlink()


@needs_covers
@pytest.mark.parametrize(
    "script",
    [
        "cat .planrunner/journal.db",
        "echo x > .planrunner/new",
        "rm -rf .planrunner; test ! -e .planrunner/tmp",
        "echo x > planrunner.yaml",
        "rm planrunner.yaml",
        "mv planrunner.yaml old.yaml",
        "echo x > .git/hooks/pre-commit",
        "mv .git old",
        "cd .git && echo x > config",
        "umount .git || umount .planrunner",
    ],
)
def test_what_is_held_back_at_the_top_stays_so(project: Project, script: str) -> None:
    (project.folder / "planrunner.yaml").write_text("policy: {}\n")
    assert project.run(script, options={"untrusted": True}, rights=()).failure == "logic"
    assert (project.state / "journal.db").read_text() == "the journal"
    assert (project.folder / "planrunner.yaml").read_text() == "policy: {}\n"
    assert sorted(os.listdir(project.folder / ".git")) == ["config", "hooks"]
    assert (project.folder / ".git" / "config").read_text() == "[core]\n"


@needs_covers
def test_a_task_that_starts_in_a_guarded_folder_cannot_write_there(project: Project) -> None:
    outcome = project.run(
        "echo x > config", options={"untrusted": True}, rights=(), directory=str(project.folder / ".git")
    )
    assert outcome.failure == "logic" and (project.folder / ".git" / "config").read_text() == "[core]\n"


@pytest.mark.usefixtures("covers")
def test_a_link_at_the_top_leads_nowhere_outside(project: Project, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "id_rsa").write_text("a secret")
    (project.folder / "assets").symlink_to("/")
    outcome = project.run(f"cat src/one.txt assets{tmp_path}/keys/id_rsa", limited(profile="landlock"))
    assert (outcome.failure, outcome.stdout) == ("logic", "one"), outcome


@pytest.mark.usefixtures("covers")
def test_a_link_to_a_denied_folder_shows_nothing_of_it(project: Project) -> None:
    (project.folder / "secrets").mkdir()
    (project.folder / "secrets" / "key").write_text("a secret")
    (project.folder / "alias").symlink_to("secrets")
    outcome = project.run("cat src/one.txt alias/key || cat secrets/key", denied("secrets/**"))
    assert (outcome.failure, outcome.stdout) == ("logic", "one"), outcome


@pytest.mark.usefixtures("covers")
def test_a_link_to_a_folder_that_is_let_in_still_leads_there(project: Project) -> None:
    (project.folder / "alias").symlink_to("src")
    assert project.run("cat alias/one.txt", denied("secrets/**")).stdout == "one"


def test_where_nothing_can_be_laid_over_files_the_task_is_refused_before_it_starts(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "covers", lambda: False)
    outcome = project.run("echo x > src/new", options={"untrusted": True}, rights=())
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox"), outcome
    assert f"lets no files be made in {project.folder} itself" in outcome.message
    assert "apt install bubblewrap" in outcome.message and "files: {write: [build/**]}" in outcome.message
    assert not (project.folder / "src" / "new").exists()
    narrow = Level("the plan", {"files": {"write": ["src/**"]}})
    assert project.run("echo x > src/new", narrow, options={"untrusted": True}).failure == ""


HELD = [
    ("mkdir -p sub/.git/hooks; echo evil > sub/.git/hooks/pre-commit", "sub/.git"),
    ("mkdir -p a/b/.git; echo '[core] ' > a/b/.git/config; echo ' hooksPath = x' >> a/b/.git/config", "a/b/.git"),
    ("mkdir sub; echo 'gitdir: ../elsewhere' > sub/.git", "sub/.git"),
    ("mkdir sub; echo 'network: {private: [10.0.0.0/8]}' > sub/planrunner.yaml", "sub/planrunner.yaml"),
]


@needs_covers
@pytest.mark.parametrize(("script", "name"), HELD)
def test_what_would_rule_over_a_folder_of_the_project_does_not_stay(project: Project, script: str, name: str) -> None:
    outcome = project.run(script, options={"untrusted": True}, rights=())
    assert (outcome.failure, outcome.rule) == ("policy", "sandbox.files"), outcome
    assert f"made `{name}`" in outcome.message and not os.path.lexists(project.folder / name)
    assert list((project.state / "refused").iterdir())


@needs_covers
def test_a_plain_repository_in_a_folder_of_the_project_stays(project: Project) -> None:
    script = "mkdir -p sub/.git/hooks; echo '[core]' > sub/.git/config; echo x > sub/.git/hooks/update.sample"
    outcome = project.run(script, options={"untrusted": True}, rights=())
    assert outcome.failure == "" and (project.folder / "sub" / ".git" / "config").exists()


@needs_covers
def test_what_lay_in_a_folder_before_stays(project: Project) -> None:
    (project.folder / "sub").mkdir()
    (project.folder / "sub" / "planrunner.yaml").write_text("policy: {}\n")
    assert project.run("true", options={"untrusted": True}, rights=()).failure == ""
    assert (project.folder / "sub" / "planrunner.yaml").exists()
