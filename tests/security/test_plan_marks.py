"""Text from outside that a run writes over plan files: they run only after a person has trusted them, whatever wrote
them; what the author of a plan wrote in it needs no one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from workbench import ROOT, planrunner

sys.path.insert(0, str(ROOT / "tests" / "agents"))

from bench import Bench

from planrunner.engine import marks
from planrunner.safety import trust
from planrunner.safety.trust import why_marked
from planrunner.testing.scripted_model import ScriptedModel

Json = Any

GOOD = "plan: other\ndefaults: {timeout: 1m}\ntasks: [{id: a, run: echo fine}]\n"
EVIL = "plan: other\ndefaults: {timeout: 1m}\ntasks: [{id: a, run: touch CANARY}]\n"
THIRD = {"plan": "third", "defaults": {"timeout": "1m"}, "tasks": [{"id": "a", "run": "touch CANARY"}]}
AGENT = "plan: p\ndefaults: {timeout: 2m}\ntasks:\n  - {id: fix, agent: coder, prompt: Mend it., rounds: 4}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plans" / "deep").mkdir(parents=True)
    (tmp_path / "plans" / "other.yaml").write_text(GOOD)
    (tmp_path / "plans" / "outer.yaml").write_text("plan: outer\ntasks: [{id: s, subplan: other.yaml}]\n")
    (tmp_path / "planrunner.yaml").write_text("{}\n")
    return tmp_path


def waits_for_trust(folder: Path, plan: str) -> str:
    """Why a plan is not run; nothing of it was."""
    ran = planrunner(folder, "exec", plan)
    assert (ran.returncode, (folder / "CANARY").exists()) == (12, False), ran.stderr
    assert "planrunner trust" in ran.stderr
    return ran.stderr


def by_agent(folder: Path, tools: list[str], *replies: list[tuple[str, Json]]) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra `llm` is not installed")
    with ScriptedModel([*replies, "Done."]) as model:
        bench = Bench(folder, model)
        bench.settings["agents"]["coder"]["tools"] = tools
        told = bench.run(AGENT)
        assert told["status"] == "completed", told


WRITES: dict[str, list[tuple[str, Json]]] = {
    "over a plan": [("files_write", {"path": "plans/other.yaml", "content": EVIL})],
    "a new plan": [("files_write", {"path": "plans/deep/new.yaml", "content": EVIL})],
    "elsewhere": [("files_write", {"path": "new.plan.json", "content": json.dumps(THIRD)})],
    "by moving": [("files_move", {"path": "page.txt", "to": "plans/deep/new.yaml"})],
}


@pytest.mark.parametrize("name", WRITES)
def test_what_an_agent_writes_runs_as_a_plan_only_after_a_person_trusted_it(folder: Path, name: str) -> None:
    (folder / "page.txt").write_text(EVIL)
    by_agent(folder, ["files.*"], WRITES[name])
    path = "plans/other.yaml" if name == "over a plan" else "new.plan.json" if name == "elsewhere" else ""
    said = waits_for_trust(folder, path or "plans/deep/new.yaml")
    assert "a model chose it" in said
    if name == "over a plan":
        assert "plans/other.yaml`, which it links to" in waits_for_trust(folder, "plans/outer.yaml")
        assert planrunner(folder, "trust", "plans/other.yaml", "--yes").returncode == 0
        assert planrunner(folder, "exec", "plans/outer.yaml").returncode == 0


def test_what_the_shell_of_an_agent_writes_is_marked(folder: Path) -> None:
    command = "printf 'plan: other\\ntasks: [{id: a, run: touch CANARY, timeout: 1m}]\\n' > plans/other.yaml"
    by_agent(folder, ["shell"], [("shell", {"command": command})])
    assert "a model chose it" in waits_for_trust(folder, "plans/other.yaml")


def test_a_plan_in_a_folder_that_is_not_watched_waits_for_a_person(folder: Path) -> None:
    (folder / "vendor" / "node_modules").mkdir(parents=True)
    (folder / "vendor" / "node_modules" / "x.yaml").write_text(EVIL)
    (folder / "plans" / "links.yaml").write_text("plan: l\ntasks: [{id: s, subplan: ../vendor/node_modules/x.yaml}]\n")
    assert "folder `node_modules` is not watched" in waits_for_trust(folder, "vendor/node_modules/x.yaml")
    waits_for_trust(folder, "plans/links.yaml")
    assert planrunner(folder, "trust", "vendor/node_modules/x.yaml", "--yes").returncode == 0
    assert planrunner(folder, "exec", "plans/links.yaml").returncode == 0


def test_a_plan_that_changes_while_text_from_outside_may_be_written_waits_for_a_person(folder: Path) -> None:
    note = trust.note([str(folder)], {str(folder / "plans/outer.yaml"): trust.digest(b"other")}, "`a` may write it")
    try:
        assert "`a` may write it" in waits_for_trust(folder, "plans/other.yaml")
    finally:
        trust.take_back(note)
    assert planrunner(folder, "exec", "plans/other.yaml").returncode == 0


def test_what_a_killed_process_noted_is_marked_before_the_next_note(folder: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = Path(trust.note([str(folder)], {}, "`a` may have written it"))
    left.write_text(json.dumps({**json.loads(left.read_text()), "pid": ended.pid}))
    trust.take_back(marks.note_before([str(folder)], {}, "`b` may write it"))
    assert not left.exists()
    assert "`a` may have written it" in waits_for_trust(folder, "plans/other.yaml")


def test_what_a_tool_that_is_a_plan_writes_for_a_model_is_marked(folder: Path) -> None:
    (folder / "save.yaml").write_text(
        "plan: save\nparams: {text: {type: string}}\n"
        "tasks: [{id: w, uses: files.write, with: {path: plans/other.yaml, content: '{{ params.text }}'}}]\n"
    )
    by_agent(folder, ["save.yaml"], [("save", {"text": EVIL})])
    waits_for_trust(folder, "plans/other.yaml")


def test_a_plan_that_an_agent_wrote_back_as_it_was_runs_unasked(folder: Path) -> None:
    by_agent(
        folder,
        ["files.*"],
        *([("files_write", {"path": "plans/other.yaml", "content": text})] for text in (EVIL, GOOD)),
    )
    assert planrunner(folder, "exec", "plans/other.yaml").returncode == 0


FLOWS = {
    "written": "{id: w, needs: [r], uses: files.write, with: {path: plans/other.yaml, content: '{{ tasks.r.outputs.content }}'}}",
    "by a template": "{id: w, needs: [r], uses: files.template, with: {path: plans/other.yaml, text: '{% raw %}{{ t }}{% endraw %}', values: {t: '{{ tasks.r.outputs.content }}'}}}",
    "by a shell": "{id: w, needs: [r], run: 'printf %s {{ tasks.r.outputs.content }} > plans/other.yaml'}",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "around"), [*((name, "plain") for name in FLOWS), ("written", "loop"), ("written", "subplan")]
)
def test_text_from_outside_that_a_plan_writes_over_another_is_marked(folder: Path, name: str, around: str) -> None:
    (folder / "page.txt").write_text(EVIL)
    tasks = f"    - {{id: r, uses: files.read, with: {{path: page.txt}}}}\n    - {FLOWS[name]}\n"
    around_them = {
        "plain": "{tasks}",
        "loop": "  - id: l\n    loop:\n      max: 2\n      until: tasks.w.ok\n      tasks:\n{tasks}",
        "subplan": "  - id: s\n    subplan:\n{tasks}",
    }
    tasks = around_them[around].format(tasks="".join(f"        {line.strip()}\n" for line in tasks.splitlines()))
    (folder / "plan.yaml").write_text(f"plan: p\ndefaults: {{timeout: 1m}}\ntasks:\n{tasks}")
    ran = planrunner(folder, "exec", "plan.yaml")
    assert ran.returncode == 0, ran.stderr
    assert "text from outside is in it" in waits_for_trust(folder, "plans/other.yaml")


def test_what_the_author_of_a_plan_wrote_in_it_runs_unasked(folder: Path) -> None:
    (folder / "plan.yaml").write_text(
        "plan: p\ndefaults: {timeout: 1m}\ntasks:\n"
        "  - {id: read, uses: files.read, with: {path: planrunner.yaml}}\n"
        "  - {id: literal, uses: files.write, with: {path: plans/one.yaml, content: 'plan: one\n\n      tasks: []'}}\n"
        "  - {id: made, run: 'cp plans/other.yaml plans/two.yaml'}\n"
    )
    assert planrunner(folder, "exec", "plan.yaml").returncode == 0
    assert planrunner(folder, "exec", "plans/two.yaml").returncode == 0
    assert not why_marked(str(folder / "plans/one.yaml"))


def test_text_that_a_person_saw_at_a_gate_is_not_from_outside(folder: Path) -> None:
    (folder / "page.txt").write_text(GOOD + "# more\n")
    (folder / "plan.yaml").write_text(
        "plan: p\ndefaults: {timeout: 1m}\ntasks:\n"
        "  - {id: r, uses: files.read, with: {path: page.txt}}\n"
        "  - {id: ok, needs: [r], gate: approval, ask: Is it fine, evidence: [{value: '{{ tasks.r.outputs.content }}'}]}\n"
        "  - {id: w, needs: [ok], uses: files.write,"
        " with: {path: plans/other.yaml, content: '{{ tasks.r.outputs.content }}'}}\n"
    )
    assert planrunner(folder, "exec", "plan.yaml", "--no-wait").returncode == 8
    assert planrunner(folder, "approve", "last", "ok", "--reason", "read", "--resume").returncode == 0
    assert planrunner(folder, "exec", "plans/other.yaml").returncode == 0


def test_what_a_merge_or_a_switch_brings_over_a_plan_is_marked_until_it_is_gone_again(folder: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)

    (folder / ".gitignore").write_text(".planrunner\n")
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "one")
    git("switch", "-qc", "theirs")
    (folder / "plans/other.yaml").write_text(EVIL)
    git("commit", "-qam", "two")
    git("switch", "-q", "main")
    for branch in ("theirs", "main"):
        (folder / "switch.yaml").write_text(
            f"plan: s\ntasks: [{{id: s, timeout: 1m, uses: git.switch, with: {{ref: {branch}}}}}]\n"
        )
        assert planrunner(folder, "exec", "switch.yaml").returncode == 0
        if branch == "theirs":
            assert "git.switch brought it" in waits_for_trust(folder, "plans/other.yaml")
    assert planrunner(folder, "exec", "plans/other.yaml").returncode == 0
    (folder / "merge.yaml").write_text("plan: m\ntasks: [{id: m, timeout: 1m, uses: git.merge, with: {ref: theirs}}]\n")
    ran = planrunner(folder, "exec", "merge.yaml")
    assert ran.returncode == 0, ran.stderr
    waits_for_trust(folder, "plans/other.yaml")
    waits_for_trust(folder, "plans/outer.yaml")
