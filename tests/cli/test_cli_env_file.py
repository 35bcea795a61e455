"""``env_file`` of a project: variables from a file, for its runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import commands
import pytest

from planrunner.safety.project import env_variables

PLAN = {
    "plan": "p",
    "defaults": {"timeout": "1m"},
    "tasks": [
        {"id": "seen", "run": "printenv GREETING WHO ALL | tr '\\n' '|'"},
        {"id": "named", "run": ["printf", "%s", "{{ env.GREETING }}"]},
    ],
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "planrunner.yaml").write_text("env_file: [.env, more/.env]\n")
    (tmp_path / ".env").write_text("# words\nexport GREETING='hello there'\n\nWHO=ada # us\nALL=\"a # b\"\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / ".env").write_text("WHO=bo\n")
    (tmp_path / "p.json").write_text(json.dumps(PLAN))
    return tmp_path


def planrunner(project: Path, *arguments: str, **variables: str) -> tuple[int, Any, str]:
    env = {name: value for name, value in os.environ.items() if name not in ("GREETING", "WHO", "ALL")}
    return commands.run(*arguments, folder=project, env={**env, **variables})


def printed(project: Path, task: str, attempt: int = 1) -> str:
    return str(planrunner(project, "logs", "last", task, "--attempt", str(attempt))[1]).strip()


def test_tasks_and_expressions_see_the_variables_of_the_files(project: Path) -> None:
    assert planrunner(project, "exec", "p.json", "--progress", "quiet")[0] == 0
    assert printed(project, "seen") == "hello there|bo|a # b|"
    assert printed(project, "named") == "hello there"


def test_what_is_set_already_comes_first_and_a_rerun_reads_the_files_too(project: Path) -> None:
    assert planrunner(project, "exec", "p.json", "--progress", "quiet", WHO="cy")[0] == 0
    assert printed(project, "seen").split("|")[1] == "cy"
    assert planrunner(project, "rerun", "last", "seen")[0] == 0
    assert printed(project, "seen", 2).split("|")[1] == "bo"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("GREETING\n", ".env, line 1: expected NAME=value"),
        ("\nPATH=/tmp\n", ".env, line 2: no environment file sets `PATH`"),
        ('A="first line\nQUJD=\nPW="a\\"b"\n', ".env, line 1: expected NAME=value: a quote is not closed"),
        ('\n# x\n\nA="open\n', ".env, line 4: expected NAME=value: a quote is not closed"),
        ("PLANRUNNER_STATE=/tmp\n", "no environment file sets `PLANRUNNER_STATE`"),
    ],
)
def test_a_line_that_cannot_be_used_stops_the_start(project: Path, text: str, said: str) -> None:
    (project / ".env").write_text(text)
    code, _, errors = planrunner(project, "exec", "p.json")
    assert code == 2
    assert said in errors


@pytest.mark.parametrize(("name", "said"), [("gone.env", "is not a file"), ("../out.env", "lies outside the project")])
def test_a_file_that_cannot_be_read_stops_the_start(project: Path, name: str, said: str) -> None:
    (project / "planrunner.yaml").write_text(f"env_file: {name}\n")
    (project.parent / "out.env").write_text("GREETING=x\n")
    code, _, errors = planrunner(project, "exec", "p.json")
    assert code == 2
    assert f"`env_file: {name}` of planrunner.yaml {said}" in errors


def test_the_files_of_a_project_from_outside_are_not_read(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / "planrunner.yaml").write_text("")
    (project / ".env").write_text("GREETING\n")
    _, _, errors = planrunner(home, "exec", str(project / "p.json"))
    assert "line 1" not in errors
    assert "from outside the project" in errors


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('WHO="a\\"b"', 'a"b'),
        ('WHO="a\\nb"', "a\nb"),
        ('WHO="first\nsecond="', "first\nsecond="),
        ("WHO=a#b # c", "a#b"),
        ("WHO='$HOME ${X} `y`'", "$HOME ${X} `y`"),
        ("export WHO=$HOME/${X}", "$HOME/${X}"),
        ("WHO=a\r", "a"),
    ],
)
def test_quotes_and_escapes_are_those_of_dotenv_and_nothing_is_filled_in(line: str, value: str, tmp_path: Path) -> None:
    (tmp_path / "planrunner.yaml").write_text("env_file: .env\n")
    (tmp_path / ".env").write_text(f"{line}\nGREETING=after\n")
    assert env_variables(str(tmp_path)) == {"WHO": value, "GREETING": "after"}


def test_the_check_of_the_settings_tells_the_line_that_a_run_could_not_read(project: Path) -> None:
    (project / "planrunner.yaml").write_text("env_file: [more/.env, .env]\n")
    (project / ".env").write_text('# words\n\nSECRET_WORD="tr0ub4dor\n')
    code, out, _ = planrunner(project, "config", "check", "--format", "concise")
    assert code == 1 and "planrunner.yaml:1:23: error[PLAN006] .env, line 3: expected NAME=value: a quote" in out
    assert "tr0ub4dor" not in out
    (project / ".env").write_text("PATH=/tmp\n")
    code, out, _ = planrunner(project, "config", "check")
    assert code == 1 and "no environment file sets `PATH`" in out and "export PATH=" in out


def test_an_environment_file_that_is_elsewhere_is_no_finding(project: Path) -> None:
    (project / ".env").unlink()
    assert planrunner(project, "config", "check")[0] == 0
