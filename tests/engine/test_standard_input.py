"""``stdin`` of a script or a program: data that it reads, in no file and no argument."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import workbench

from planrunner.app.runs.execute import ExecRequest, RunResult, Silent, execute

AWKWARD = 'it\'s $5; `id`\n  "two" lines\n'


def run(folder: Path, **task: Any) -> RunResult:
    params = {"text": {"type": "string", "default": AWKWARD}, "names": {"type": "list", "default": ["a", "b"]}}
    document = {"plan": "p", "params": params, "defaults": {"timeout": "1m"}, "tasks": [{"id": "a", **task}]}
    (folder / ".planrunner").mkdir()
    (folder / "plan.json").write_text(json.dumps(document))
    return execute(ExecRequest(str(folder / "plan.json"), state=str(folder / ".planrunner"), vouched=True), Silent())


def printed(result: RunResult) -> str:
    found = result.state.tasks[0]
    assert found.status == "completed", found.detail
    assert found.outcome is not None
    return found.outcome.stdout


@pytest.mark.parametrize(
    "program", [["cat"], "cat", "while read -r line; do printf '%s\\n' \"$line\"; done > x; cat x"]
)
def test_scripts_and_programs_read_it(tmp_path: Path, program: Any) -> None:
    text = printed(run(tmp_path, run=program, stdin="{{ params.text }}"))
    assert text.split() == AWKWARD.split()


def test_it_arrives_byte_for_byte_also_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert printed(run(tmp_path, run="cat", cwd="sub", stdin="{{ params.text }}")) == AWKWARD


def test_a_value_that_is_no_text_arrives_as_json(tmp_path: Path) -> None:
    assert json.loads(printed(run(tmp_path, run="cat", stdin="{{ params.names }}"))) == ["a", "b"]


def test_without_it_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert printed(run(tmp_path, run="cat")) == ""


def findings(*tasks: dict[str, Any]) -> list[tuple[str, str]]:
    found = workbench.loaded(*tasks, defaults={"timeout": "1m"}).findings
    return [(each.code, each.message) for each in found]


def test_a_task_that_runs_no_program_has_none() -> None:
    found = findings({"id": "a", "uses": "noop", "stdin": "x"})
    assert ("PLAN004", "`stdin` of a task needs `run`") in found


def test_a_misspelt_name_in_it_is_found() -> None:
    assert any(code == "PLAN201" for code, _ in findings({"id": "a", "run": "cat", "stdin": "{{ parms.x }}"}))


PAGE = {"id": "page", "uses": "http.get", "with": {"url": "https://example.org/"}}


@pytest.mark.parametrize("program", [["sh"], "python3 -", "cat | sh", ["claude", "-p"]])
def test_text_from_outside_that_would_be_run_or_obeyed_is_a_finding(program: Any) -> None:
    use = {"id": "use", "needs": ["page"], "run": program, "stdin": "{{ tasks.page.outputs.text }}"}
    assert "PLAN811" in [found for found, _ in findings(PAGE, use)]


@pytest.mark.parametrize("program", [["wc", "-l"], "sort | uniq", ["sh", "count.sh"]])
def test_text_from_outside_that_is_only_read_is_none(program: Any) -> None:
    use = {"id": "use", "needs": ["page"], "run": program, "stdin": "{{ tasks.page.outputs.text }}"}
    assert [found for found, _ in findings(PAGE, use) if found.startswith("PLAN81")] == []
