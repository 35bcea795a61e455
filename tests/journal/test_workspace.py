"""Where the state of a project lies, and which places are refused."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from workbench import ROOT

from planrunner.errors import STORAGE, StorageFailed
from planrunner.journal.records import new_run_id
from planrunner.journal.sqlite import open_journal
from planrunner.journal.workspace import FOLDERS, find_project, find_state, prepare_state, private


@pytest.mark.parametrize("mark", [".planrunner", "planrunner.yaml", ".git"])
def test_the_state_lies_in_the_nearest_directory_with_a_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    plans = tmp_path / "project" / "plans" / "deep"
    plans.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "project" / mark).touch()
    monkeypatch.chdir(tmp_path)
    assert find_state(str(plans / "a.yaml")) == str(tmp_path / "project" / ".planrunner")
    assert find_project("project/plans/deep/a.yaml") == str(tmp_path / "project")
    assert find_state("project/plans/deep/../deep/a.yaml") == str(tmp_path / "project" / ".planrunner")


def test_the_state_lies_in_the_working_directory_where_there_is_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert find_state(str(tmp_path / "there" / "a.yaml")) == str(tmp_path / "here" / ".planrunner")


def test_without_a_plan_the_search_starts_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planrunner.yaml").touch()
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert find_state(None) == str(tmp_path / ".planrunner")


def test_a_chosen_directory_wins_over_the_environment_and_that_over_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".planrunner").mkdir()
    monkeypatch.setenv("PLANRUNNER_STATE", "from-environment")
    assert find_state("a.yaml", "from-option") == str(tmp_path / "from-option")
    assert find_state("a.yaml", None) == str(tmp_path / "from-environment")


def test_looking_for_the_state_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    find_state("a.yaml")
    assert os.listdir(tmp_path) == []


def test_a_new_state_directory_is_private_and_ignored_by_git(tmp_path: Path) -> None:
    state = tmp_path / "project" / ".planrunner"
    prepare_state(str(state))
    prepare_state(str(state))
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert sorted(os.listdir(state)) == [".gitignore", *sorted(FOLDERS)]
    assert (state / ".gitignore").read_text() == "*\n"


def test_what_is_missing_in_a_state_directory_is_made_again(tmp_path: Path) -> None:
    state = tmp_path / "state"
    prepare_state(str(state))
    (state / "locks").rmdir()
    open_journal(str(state)).close()
    assert (state / "locks").is_dir()


def test_a_linked_state_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "state").symlink_to("real")
    with pytest.raises(StorageFailed, match="symbolic link") as caught:
        open_journal(str(tmp_path / "state"))
    assert caught.value.exit_code == STORAGE
    assert "--state" in caught.value.hint
    assert os.listdir(tmp_path / "real") == []


def test_a_dangling_link_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to("nowhere")
    with pytest.raises(StorageFailed, match="symbolic link"):
        open_journal(str(tmp_path / "state"))
    assert not (tmp_path / "nowhere").exists()


def test_a_file_in_the_place_of_the_state_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(StorageFailed, match="not a directory"):
        open_journal(str(tmp_path / "state"))


def test_a_state_directory_everybody_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    with pytest.raises(StorageFailed, match="written by everybody") as caught:
        open_journal(str(tmp_path / "state"))
    assert "chmod 700" in caught.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
def test_a_state_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    os.chown(state, 12345, 12345)
    for readonly in (False, True):
        with pytest.raises(StorageFailed, match="belongs to user 12345"):
            open_journal(str(state), readonly=readonly)


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming somebody else needs root")
def test_a_project_that_cannot_be_written_is_named_with_a_way_out(tmp_path: Path) -> None:
    code = (
        "import os; from planrunner.errors import StorageFailed; from planrunner.journal.sqlite import open_journal\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try: open_journal('state')\n"
        "except StorageFailed as error: print(error.message, '|', error.hint)"
    )
    folder = Path(os.path.realpath("/tmp")) / f"planrunner-test-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env={"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        folder.rmdir()
    assert done.stdout.startswith(f"the state directory `{folder}/state` cannot be used: Permission denied |")
    assert "PLANRUNNER_STATE" in done.stdout


def test_run_ids_sort_by_time_and_tell_the_minute() -> None:
    zero, ones = b"\0\0\0", b"\xff\xff\xff"
    assert new_run_id(1795301940.0, zero) == "20261121-2259-000000"
    moments = [1795301940.0 + step * 0.06 for step in range(3000)]
    made = [new_run_id(moment, ones if number % 2 else zero) for number, moment in enumerate(moments)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_run_ids_of_one_moment_differ_by_their_random_part() -> None:
    made = {new_run_id(1795301940.0, number.to_bytes(3, "big")) for number in range(5000)}
    assert len(made) == 5000
    assert all(name.replace("-", "").isalnum() for name in made)


def test_a_state_directory_others_could_look_into_is_mended_and_that_is_told(tmp_path: Path) -> None:
    state = tmp_path / "state"
    open_journal(str(state)).close()
    for path in (state, state / "logs"):
        path.chmod(0o775)
    (state / "journal.db").chmod(0o664)
    open_journal(str(state), readonly=True).close()
    assert stat.S_IMODE(state.stat().st_mode) == 0o775
    journal = open_journal(str(state))
    assert ["had mode 775" in notice for notice in journal.notices] == [True]
    journal.close()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (state, state / "logs", state / "journal.db")]
    assert modes == [0o700, 0o700, 0o600]
    journal = open_journal(str(state))
    assert journal.notices == ()
    journal.close()


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "journal.db-shm", *FOLDERS])
def test_a_link_in_the_place_of_anything_in_it_is_refused(tmp_path: Path, name: str) -> None:
    state, outside = tmp_path / "state", tmp_path / "outside"
    open_journal(str(state)).close()
    outside.mkdir()
    (outside / "file").write_bytes(b"")
    path = state / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(outside if name in FOLDERS else outside / "file")
    for readonly in (False, True):
        with pytest.raises(StorageFailed, match="is not followed"):
            open_journal(str(state), readonly=readonly)
    assert os.listdir(outside) == ["file"]
    assert (outside / "file").read_bytes() == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
@pytest.mark.parametrize("name", ["journal.db", "logs", "artifacts"])
def test_what_belongs_to_somebody_else_in_it_is_refused(tmp_path: Path, name: str) -> None:
    state = tmp_path / "state"
    open_journal(str(state)).close()
    os.chown(state / name, 12345, 12345)
    with pytest.raises(StorageFailed, match="belongs to user 12345") as caught:
        open_journal(str(state))
    assert f"chown 0 {state / name}" in caught.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be told to become somebody else")
def test_root_is_told_to_run_as_the_owner_of_the_directory(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    os.chown(state, 12345, 12345)
    with pytest.raises(StorageFailed) as caught:
        open_journal(str(state))
    assert "sudo -u '#12345'" in caught.value.hint and "--user 12345" in caught.value.hint


def test_a_file_in_it_is_opened_without_following_a_link_and_made_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open(tmp_path / "new", "w", encoding="ascii", opener=private) as file:
            file.write("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "new")
    for mode in ("r", "w"):
        with pytest.raises(OSError), open(tmp_path / "link", mode, encoding="ascii", opener=private):
            pass
    assert (tmp_path / "new").read_text() == "x"
