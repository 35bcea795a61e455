"""Where a plan file comes from: the project of the working directory, or anywhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from planrunner.journal.workspace import find_project
from planrunner.safety.trust import why_outside

Here = Callable[[Path], None]


def outside(path: str) -> str:
    return why_outside(path, find_project(None))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SUDO_UID", raising=False)
    folder = tmp_path / "work"
    (folder / "plans").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "plans" / "p.yaml").write_text("")
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_plans_of_the_project_are_inside_from_every_folder_of_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("plans/p.yaml", "./plans/../plans/p.yaml", str(project / "plans/p.yaml")):
        assert outside(path) == "", path
    monkeypatch.chdir(project / "plans")
    assert outside("p.yaml") == ""


def test_without_any_mark_the_working_directory_is_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain" / "deep").mkdir(parents=True)
    (tmp_path / "plain" / "deep" / "p.yaml").write_text("")
    monkeypatch.chdir(tmp_path / "plain")
    assert outside("deep/p.yaml") == ""
    monkeypatch.chdir(tmp_path / "plain" / "deep")
    assert outside("../deep/p.yaml") == ""
    (tmp_path / "plain" / "q.yaml").write_text("")
    assert "it lies outside the project" in outside("../q.yaml")


def test_a_plan_beside_the_project_is_outside_and_so_is_one_that_a_link_leads_to(project: Path) -> None:
    other = project.parent / "other.yaml"
    other.write_text("")
    assert outside("../other.yaml") == f"it lies outside the project `{project}`"
    (project / "link.yaml").symlink_to(other)
    assert "outside the project" in outside("link.yaml")
    (project / "folder").symlink_to(project.parent)
    assert "outside the project" in outside("folder/other.yaml")


def test_a_link_inside_the_project_stays_inside(project: Path) -> None:
    (project / "link.yaml").symlink_to("plans/p.yaml")
    assert outside("link.yaml") == ""


def test_another_repository_inside_the_project_is_outside(project: Path) -> None:
    clone = project / "vendor" / "clone"
    (clone / ".git").mkdir(parents=True)
    (clone / "p.yaml").write_text("")
    assert outside("vendor/clone/p.yaml") == f"`{clone}` is a project of its own"


def test_settings_further_down_make_no_other_project_where_somebody_said_what_the_project_is(project: Path) -> None:
    (project / "service").mkdir()
    (project / "service" / "planrunner.yaml").write_text("")
    (project / "service" / "p.yaml").write_text("")
    assert outside("service/p.yaml") == ""
    (project / ".git").rmdir()  # then nobody says that the folder above is one project with it
    assert "is a project of its own" in outside("service/p.yaml")


@pytest.mark.parametrize("mark", ["", ".planrunner"])
def test_home_is_no_project_but_for_what_lies_beside_the_caller(
    mark: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = project.parent / "home"
    if mark:
        (home / mark).mkdir()
    for folder in ("plans", "Downloads"):
        (home / folder).mkdir()
        (home / folder / "p.yaml").write_text("")
    (home / "p.yaml").write_text("")
    monkeypatch.chdir(home)
    assert outside("p.yaml") == outside("plans/p.yaml") == ""
    assert "is not a project" in outside("Downloads/p.yaml")
    (home / "planrunner.yaml").write_text("")
    assert outside("Downloads/p.yaml") == ""


def test_from_the_root_of_the_system_a_project_is_elsewhere(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert "`/` is not a project" in outside(str(project / "plans" / "p.yaml"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
class TestOwners:
    def test_a_plan_of_another_user_is_outside(self, project: Path) -> None:
        os.chown(project / "plans" / "p.yaml", 4242, 4242)
        assert outside("plans/p.yaml") == f"`{project}/plans/p.yaml` belongs to another user (4242)"

    def test_a_plan_in_a_folder_of_another_user_is_outside(self, project: Path) -> None:
        os.chown(project / "plans", 4242, 4242)
        assert "belongs to another user" in outside("plans/p.yaml")

    def test_a_project_of_another_user_is_outside(self, project: Path) -> None:
        os.chown(project, 4242, 4242)
        assert "belongs to another user" in outside("plans/p.yaml")

    def test_who_became_root_by_sudo_still_has_their_own_files(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        os.chown(project / "plans" / "p.yaml", 4242, 4242)
        monkeypatch.setenv("SUDO_UID", "4242")
        assert outside("plans/p.yaml") == ""
