"""What the engine reads for a task is held to the file scopes of its policy, as what the task reads itself is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from workbench import planrunner

PATHS = ["secrets/key", "link", "shut/key", "./secrets/../secrets/key"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in (".git", "secrets", "open"):
        (tmp_path / folder).mkdir()
    (tmp_path / "secrets" / "key").write_text("seven-seals")
    (tmp_path / "open" / "note").write_text("an-open-door")
    (tmp_path / "link").symlink_to("secrets/key")
    (tmp_path / "shut").symlink_to("secrets")
    return tmp_path


def ran(project: Path, policy: str, *tasks: str) -> subprocess.CompletedProcess[str]:
    (project / "planrunner.yaml").write_text(f"policy: {{files: {policy}}}\n")
    listed = "".join(f"  - {{id: t{at}, timeout: 1m, {task}}}\n" for at, task in enumerate(tasks))
    params = ", ".join(f"p{at}: '{path}'" for at, path in enumerate(PATHS))
    (project / "p.yaml").write_text(f"plan: p\non_failure: continue\nparams: {{{params}}}\ntasks:\n{listed}")
    return planrunner(project, "exec", "p.yaml", "--json", "--progress", "quiet")


def output(path: str) -> str:
    return f"uses: noop, outputs: {{o: {{type: string, path: '{path}'}}}}"


def artifact(path: str) -> str:
    return f"uses: noop, artifacts: [{{name: a, path: '{path}'}}]"


def left(path: str) -> str:
    return f"uses: fail, artifacts: [{{name: a, path: '{path}'}}]"


def checked(path: str) -> str:
    return f"uses: validate.json_schema, with: {{files: '{path}', schema: {{type: object}}}}"


def checked_by(path: str) -> str:
    return f"uses: validate.json_schema, with: {{data: 1, schema_file: '{path}'}}"


def counted(path: str) -> str:
    return f"uses: validate.junit, with: {{files: '{path}'}}"


@pytest.mark.parametrize("policy", ["{deny: ['secrets/**']}", "{read: ['open/**']}"])
@pytest.mark.parametrize("taken", [output, artifact, left, checked, checked_by, counted])
def test_nothing_is_taken_from_where_a_task_may_not_read(project: Path, policy: str, taken: object) -> None:
    assert callable(taken)
    later = [f"{{{{ params.p{at} }}}}" for at in range(len(PATHS))]  # what stands in the plan is refused at the start
    done = ran(project, policy, *map(taken, later), *([] if taken in (output, checked_by) else [taken("secrets/*")]))
    assert done.returncode == (1 if taken is left else 12), done.stdout + done.stderr
    assert '"completed"' not in done.stdout
    assert "seven-seals" not in done.stdout
    assert "no run has kept an artifact" in planrunner(project, "artifacts").stderr


def test_a_folder_that_holds_what_may_not_be_read_is_not_kept(project: Path) -> None:
    (project / "open" / "deep").mkdir()
    (project / "open" / "deep" / "key").write_text("seven-seals")
    done = ran(project, "{deny: ['open/deep/key']}", artifact("open"))
    assert "denies reading open/deep/key" in done.stdout


def test_what_may_be_read_is_taken(project: Path) -> None:
    done = ran(project, "{read: ['open/**'], deny: ['secrets/**']}", output("open/note"), artifact("open/note"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "an-open-door" in done.stdout
