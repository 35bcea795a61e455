"""A release of a real package: it ends with an upload, or leaves clone, remote and index as they were."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from stage import Stage

from planrunner.testing.rehearsal import Scene

Staged = Callable[[str], Stage]
PACKAGES = ["louder-0.2.0-py2.py3-none-any.whl", "louder-0.2.0.tar.gz"]


def refs(scene: Scene) -> list[str]:
    """Branches and tags of the clone and of the remote, where HEAD is, and what is not committed."""
    return [
        scene.git("for-each-ref", "refs/heads", "refs/tags"),
        scene.git("for-each-ref", cwd="remote.git"),
        scene.git("symbolic-ref", "HEAD"),
        scene.git("status", "--porcelain"),
    ]


def files(folder: Path) -> dict[str, bytes]:
    own = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    relative = {path.relative_to(folder): path for path in own}
    hidden = {".git", ".planrunner", "remote.git", "__pycache__"}
    return {str(name): path.read_bytes() for name, path in relative.items() if not hidden & set(name.parts)}


def uploaded(stage: Stage) -> list[str]:
    index = stage.folder / "index"
    return sorted(path.name for path in index.iterdir()) if index.exists() else []


def approved(stage: Stage) -> None:
    assert stage.planrunner("approve", "last", "sign-off", "--as", "bo", "--reason", "read it").code == 0


def is_released(stage: Stage) -> None:
    scene = stage.scene
    assert uploaded(stage) == PACKAGES
    assert scene.git("rev-parse", "v0.2.0^{commit}") == scene.git("rev-parse", "main")
    assert scene.git("rev-parse", "v0.2.0", cwd="remote.git") == scene.git("rev-parse", "v0.2.0")
    assert scene.git("log", "--format=%s", "-n2", cwd="remote.git").splitlines() == ["Release 0.2.0", "Add the loudest"]
    assert scene.git("show", "v0.2.0:CHANGELOG.md").startswith(
        "# Changelog\n\n## Unreleased\n\n## 0.2.0\n\n- The first"
    )
    assert scene.git("status", "--porcelain") == ""
    wheel = zipfile.ZipFile(io.BytesIO((stage.folder / "index" / PACKAGES[0]).read_bytes()))
    assert {"louder/__init__.py", "louder-0.2.0.dist-info/METADATA"} <= set(wheel.namelist())
    with tarfile.open(stage.folder / "index" / PACKAGES[1]) as source:
        assert "louder-0.2.0/tests/test_louder.py" in source.getnames()


def test_it_is_built_tested_tagged_and_pushed_and_waits_before_it_uploads(staged: Staged) -> None:
    stage = staged("release")
    before = stage.scene.git("rev-parse", "main")
    run = stage.exec()
    assert (run.code, run.status("sign-off"), run.status("upload")) == (8, "blocked", "pending")
    assert stage.scene.git("rev-parse", "main~", cwd="remote.git") == before
    assert uploaded(stage) == []
    shown = stage.planrunner("gates", "last").out
    assert '+version = "0.2.0"' in shown
    approved(stage)
    assert stage.resume().code == 0
    is_released(stage)


@pytest.mark.parametrize("at", ["version", "build", "commit", "push-tag"])
def test_killed_it_goes_on_and_comes_to_the_same_end(staged: Staged, at: str) -> None:
    stage = staged("release")
    stage.exec_killed(at=at)
    run = stage.resume()
    assert (run.code, run.status("sign-off")) == (8, "blocked"), run.err
    approved(stage)
    stage.killed("upload", "resume", "last", "--unattended")
    assert stage.resume().code == 0
    is_released(stage)


def test_rejected_at_the_last_gate_it_is_taken_back(staged: Staged) -> None:
    stage = staged("release")
    refs_before, files_before = refs(stage.scene), files(stage.folder)
    assert stage.exec().code == 8
    assert refs(stage.scene) != refs_before
    assert stage.planrunner("reject", "last", "sign-off", "--as", "bo", "--reason", "not today").code == 0
    stage.killed(5, "resume", "last", "--unattended")
    assert refs(stage.scene) != refs_before
    run = stage.resume()
    assert (run.code, run.run["status"], run.status("push-tag"), run.status("upload")) == (
        7, "failed", "rolled_back", "omitted",
    ), run.err  # fmt: skip
    assert (refs(stage.scene), files(stage.folder)) == (refs_before, files_before)
    assert uploaded(stage) == []


@pytest.mark.parametrize(
    ("spoil", "task"),
    [
        ({"tests/test_louder.py": "def test_louder():\n    assert False\n"}, "test"),
        ({"CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- All.\n"}, "package"),
        ({"louder/__init__.py": "import nothing_of_this_name\n"}, "test"),
        ({"pyproject.toml": '[project]\nversion = "0.1.0"\nname = "louder"\ndynamic = ["version"]\n'}, "build"),
    ],
)
def test_what_is_not_fit_is_not_released(staged: Staged, spoil: dict[str, str], task: str) -> None:
    stage = staged("release")
    stage.scene.write(spoil)
    stage.scene.git("commit", "-qam", "Spoil it")
    before = refs(stage.scene), files(stage.folder)
    run = stage.exec()
    assert (run.code, run.status("push-branch")) == (1, "omitted"), run.err
    assert f"{task} failed" in run.err
    assert (refs(stage.scene), files(stage.folder)) == before


def test_a_changelog_with_headings_in_brackets_keeps_them(staged: Staged) -> None:
    stage = staged("release")
    stage.scene.write({"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n- All.\n\n## [0.1.0]\n\n- Less.\n"})
    stage.scene.git("commit", "-qam", "Notes")
    assert stage.exec().code == 8
    text = stage.scene.git("show", "v0.2.0:CHANGELOG.md")
    assert "## [Unreleased]\n\n## [0.2.0]\n\n- All.\n\n## [0.1.0]" in text
    assert stage.scene.git("tag", "-l", "--format=%(contents)", "v0.2.0").strip() == "- All."


def test_without_what_uploads_nothing_is_begun(staged: Staged) -> None:
    stage = staged("release")
    stage.scene.write({"twine.py": "raise ModuleNotFoundError(\"No module named 'twine'\")\n"})
    run = stage.exec()
    assert (run.code, run.status("package"), run.status("version")) == (1, "failed", "omitted")
    assert "No module named 'twine'" in run.err


def test_a_clone_that_is_not_clean_is_not_touched(staged: Staged) -> None:
    stage = staged("release")
    stage.scene.write({"left.txt": "lying about\n"})
    run = stage.exec()
    assert (run.code, run.status("clone"), run.status("version")) == (1, "failed", "omitted")
