"""Plan files that are edited from elsewhere: read, looked at, completed and saved below the project alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from planrunner.app.plans.edit import envelope_of, fixed, formatted, look, read_text, save_text
from planrunner.app.plans.listing import checked, project_files
from planrunner.caller import Principal, Workspace, acting
from planrunner.errors import Denied, NotFound, PlanInvalid, PlanrunnerError, RecordMismatch, UsageError
from planrunner.safety.trust import why_marked

PLAN = "plan: a\ntasks:\n  - id: one\n    run: echo 1\n    timeout: 1m\n"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "project"
    root.mkdir()
    (root / "planrunner.yaml").touch()
    with acting(Principal("ana"), Workspace(str(root), str(root / ".planrunner"))):
        yield root


def test_a_text_is_saved_over_the_one_that_was_read_and_no_other(project: Path) -> None:
    first = save_text("plans/a.yaml", PLAN, "")
    assert read_text("plans/a.yaml") == first
    (project / "plans/a.yaml").write_text(PLAN + "# theirs\n")
    with pytest.raises(RecordMismatch, match="has changed since it was read"):
        save_text("plans/a.yaml", PLAN + "# mine\n", first.digest)
    with pytest.raises(RecordMismatch, match="exists already"):
        save_text("plans/a.yaml", PLAN, "")
    os.unlink(project / "plans/a.yaml")
    with pytest.raises(RecordMismatch, match="was removed"):
        save_text("plans/a.yaml", PLAN, first.digest)
    assert not list((project / "plans").iterdir())


def test_of_many_saves_at_once_one_wins(project: Path) -> None:
    digest = save_text("plans/a.yaml", PLAN, "").digest
    saved: list[int] = []

    def save(number: int) -> None:
        with acting(Principal("ana"), Workspace(str(project), str(project / ".planrunner"))):
            try:
                save_text("plans/a.yaml", f"{PLAN}# {number}\n", digest)
            except RecordMismatch:
                return
            saved.append(number)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(saved) == 1
    assert read_text("plans/a.yaml").text == f"{PLAN}# {saved[0]}\n"


def test_line_ends_byte_order_mark_and_mode_of_a_file_stay(project: Path) -> None:
    place = project / "a.yaml"
    place.write_bytes(b"\xef\xbb\xbf" + PLAN.replace("\n", "\r\n").encode())
    place.chmod(0o600)
    read = read_text("a.yaml")
    assert read.text == PLAN
    save_text("a.yaml", PLAN + "# more\n", read.digest)
    assert place.read_bytes() == b"\xef\xbb\xbf" + (PLAN + "# more\n").replace("\n", "\r\n").encode()
    assert place.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", ["../a.yaml", "/tmp/a.yaml", ".planrunner/a.yaml", "planrunner.yaml", "a.txt", ".a.yaml", "a/.git/b.yaml", "x\0.yaml", "linked.yaml", "out/a.yaml"])  # fmt: skip
def test_nothing_outside_the_project_is_read_or_written(project: Path, path: str) -> None:
    (project.parent / "a.yaml").write_text(PLAN)
    os.symlink(project.parent / "a.yaml", project / "linked.yaml")
    os.symlink(project.parent, project / "out")
    with pytest.raises((Denied, UsageError, NotFound)):
        read_text(path)
    with pytest.raises(PlanrunnerError):
        save_text(path, "plan: b\n", "")
    assert (project.parent / "a.yaml").read_text() == PLAN


def test_a_plan_from_outside_is_marked_and_one_of_the_owner_is_not(project: Path) -> None:
    save_text("plans/sent.yaml", PLAN, "", outside=True)
    save_text("plans/own.yaml", PLAN, "")
    assert why_marked(str(project / "plans/sent.yaml"))
    assert not why_marked(str(project / "plans/own.yaml"))


def test_a_text_is_looked_at_fixed_and_formatted_without_being_written(project: Path) -> None:
    slip = PLAN.replace("timeout", "timeuot")
    seen = look("plans/a.yaml", slip)
    assert [finding.code for finding in seen.findings][:1] == ["PLAN003"]
    assert seen.plan is None and seen.sketch is not None and [task.id for task in seen.sketch.tasks] == ["one"]
    assert fixed("plans/a.yaml", slip, "safe") == PLAN
    assert formatted("plans/a.yaml", PLAN.replace("echo 1", '"echo 1"')) == PLAN
    with pytest.raises(PlanInvalid):
        formatted("plans/a.yaml", "plan: [")
    with pytest.raises(NotFound):
        fixed("plans/a.yaml", slip, "0" * 32)
    assert not (project / "plans").exists()


def test_a_preview_of_a_text_tells_its_worst_case_or_why_it_cannot(project: Path) -> None:
    told = envelope_of("plans/a.yaml", PLAN)
    assert told.document is not None and told.document["envelope"]["worst"]["attempts"] == 1
    wants = envelope_of("plans/a.yaml", PLAN + "params:\n  name: {type: string, required: true}\n")
    assert wants.document is None and "`name` is required" in wants.problem


def test_the_list_of_plans_follows_its_files_and_what_they_link_to(project: Path) -> None:
    save_text("plans/a.yaml", PLAN + "  - id: two\n    subplan: b.yaml\n", "")
    part = save_text("plans/b.yaml", PLAN.replace("plan: a", "plan: b"), "")
    assert [(row.path, row.errors) for row in checked(project_files())] == [("plans/a.yaml", 0), ("plans/b.yaml", 0)]
    save_text("plans/b.yaml", "plan: b\ntasks: [{id: x, need: [y]}]\n", part.digest)
    assert {row.path: bool(row.errors) for row in checked(project_files())} == {
        "plans/a.yaml": True,
        "plans/b.yaml": True,
    }
