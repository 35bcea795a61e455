"""The playbook coding-agent: a real repository, real tests in the sandbox, the real scan and memory; the replies of the model
are scripted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from stage import Ran, Stage
from workbench import ROOT

from planrunner.testing.rehearsal import module_of
from planrunner.testing.scripted_model import Heard, ScriptedModel

Json = Any
Answer = Callable[[Heard], Json]
Open = Callable[[Answer], tuple[Stage, ScriptedModel]]

rehearsal: Any = module_of(ROOT / "plans" / "playbooks" / "rehearsals" / "coding-agent.py")
rehearsal.FILES["pytest.ini"] = "[pytest]\naddopts = -p no:anyio -p no:hypothesispytest -p no:xdist\n"  # starts quicker

RIGHT = {"durations.py": rehearsal.FILES["durations.py"].replace("max([", "sum([")}

KILLS = [
    ("work#1/code#2/calls[[]0[]]", "work#1/reflect#1/model"),
    ("plan#1/model", "work#1/test"),
    ("work#1/changed", "work#2/code#1/model"),
    ("work#1/scan[[]0[]]", "remember"),
]
"""Tasks at whose end the runner dies: their work is done, and nothing knows."""


class Coder:
    """A model whose coder writes the files of one round after another, and those of the last in all that follow."""

    def __init__(self, *rounds: dict[str, str]) -> None:
        self.rounds, self.number = rounds, 0

    def __call__(self, heard: Heard) -> Json:
        role, said = heard.turns[-1]
        if "Why, and what is to be done instead?" in said:
            return [("answer", {"lesson": f"Idea {self.number} was wrong."})]
        if role == "user" and "The tests say:" not in said:
            return rehearsal.answer(heard)
        if role == "tool":
            return [("answer", {"change": f"Wrote {', '.join(self.rounds[self.number - 1])}."})]
        self.number = min(self.number + 1, len(self.rounds))
        return [("files_write", {"path": path, "content": text}) for path, text in self.rounds[self.number - 1].items()]


@pytest.fixture
def coded(modelled: Callable[..., tuple[Stage, ScriptedModel]]) -> Open:
    """Opens the scene of the rehearsal with another model."""
    return partial(modelled, "coding-agent", rehearsal.project)


def changed(stage: Stage) -> list[str]:
    return stage.scene.git("status", "--short").splitlines()


def prompts(model: ScriptedModel, words: str) -> list[str]:
    return [heard.last() for heard in model.heard if heard.turns[-1][0] == "user" and words in heard.last()]


def outputs(run: Ran, task: str) -> Json:
    return run.run["tasks"][task]["outputs"]


def test_it_ends_well_and_a_later_run_recalls_what_helped(coded: Open) -> None:
    stage, model = coded(rehearsal.answer)
    run = stage.exec()
    assert run.code == 0, run.err
    assert run.run["outputs"]["rounds"] == 2
    assert run.run["outputs"]["files"] == ["durations.py"]
    assert "3600 == 5400" in prompts(model, "Which steps")[0]
    assert "sum() in place of max()" in prompts(model, "The tests say:")[1]

    stage.scene.git("commit", "-qam", "Add up")
    broken = (
        (stage.folder / "durations.py")
        .read_text()
        .replace("sum([", "max([")
        .replace("UNITS = {", 'UNITS = {"d": 86400, ')
    )
    tests = (stage.folder / "tests" / "test_durations.py").read_text().replace('"1h30m") == 5400', '"1d2h") == 93600')
    stage.scene.write({"durations.py": broken.replace("[smh]", "[smhd]"), "tests/test_durations.py": tests})
    stage.scene.git("commit", "-qam", "Know days, and forget to add up")
    asked = len(model.heard)
    again = stage.exec()
    assert again.code == 0, again.err
    assert again.run["outputs"]["rounds"] == 1
    recalled = outputs(again, "work#1/recall")
    assert (
        recalled["total"] == 2 and recalled["solution"] == "Used sum() in seconds()." and recalled["success_rate"] == 1
    )
    assert 0.65 <= recalled["similarity"] < 1
    assert [lesson["uses"] for lesson in recalled["lessons"]] == [1, 1]
    assert "Mend seconds() in durations.py" in model.heard[asked].last(), "the steps that led there before"
    assert stage.planrunner("replay", "last").code == 0
    assert 0 < stage.planrunner("metrics", "--json").run["models"]["memory_hit_rate"] < 1

    assert stage.planrunner("rollback", "last").code == 0
    assert changed(stage) == [] and "max([" in (stage.folder / "durations.py").read_text()
    assert "sum()" in stage.planrunner("memory", "list", "--lessons", "--json").out


def test_it_gives_up_after_15_rounds_and_goes_on_from_a_checkpoint(coded: Open) -> None:
    rounds = [{"notes.txt": str(number), "new.py": "eval('1')\n" * (number % 2)} for number in range(1, 16)]
    coder = Coder(*rounds)
    stage, _ = coded(coder)
    before = snapshot(stage)
    run = stage.exec()
    assert (run.code, run.run["status"]) == (1, "failed")
    assert "is still false after 15 rounds" in run.run["tasks"]["work"]["detail"]
    assert "work#15/test" in run.run["tasks"] and "work#16/test" not in run.run["tasks"]
    assert snapshot(stage) == before and changed(stage) == []
    kept = stage.planrunner("checkpoints", "last").out
    assert "cp-work#5" in kept and "cp-work#10" in kept

    coder.rounds, coder.number = ({**RIGHT, "new.py": ""},), 0
    resumed = stage.planrunner("resume", "last", "--from", "work#10", "--restore-files", "--yes", "--json")
    assert resumed.code == 0, resumed.err
    assert '"rounds": 11' in resumed.out
    assert changed(stage) == [" M durations.py", "?? new.py", "?? notes.txt"]
    assert (stage.folder / "notes.txt").read_text() == "10", "as round 10 left it"


def test_12_rounds_that_fail_alike_are_the_last(coded: Open) -> None:
    stage, _ = coded(Coder({"notes.txt": "thinking\n"}))
    before = snapshot(stage)
    run = stage.exec()
    assert run.code == 1
    assert "the last 12 rounds failed alike" in run.run["tasks"]["work"]["detail"]
    assert "work#12/test" in run.run["tasks"] and "work#13/code" not in run.run["tasks"]
    assert snapshot(stage) == before


def test_unsafe_code_and_changed_tests_are_refused_and_a_person_decides_about_processes(coded: Open) -> None:
    cheat = {"tests/test_durations.py": "def test_nothing():\n    pass\n"}
    honest = {"tests/test_durations.py": rehearsal.FILES["tests/test_durations.py"]}
    touch = "import pathlib\npathlib.Path('ran').touch()\n"
    evil = {**honest, "durations.py": f"{touch}LIMIT = eval('60')\n"}
    no, yes = {"durations.py": f"{touch}import os\nos.fork()\n"}, {"tool.py": "import subprocess\n", "durations.py": ""}
    stage, model = coded(Coder(cheat, evil, no, yes, RIGHT))
    run = stage.exec()
    assert run.code == 8, run.err
    assert decide(stage, "reject", "--reason", "no processes") == "starts a process: os.fork"
    run = stage.resume()
    assert run.code == 8, run.err
    assert not (stage.folder / "ran").exists()
    assert decide(stage, "approve") == "starts a process: subprocess"
    run = stage.resume()
    assert run.code == 0, run.err
    tested = {name for name, task in run.run["tasks"].items() if name.endswith("/test") and task["attempts"]}
    assert tested == {"work#4/test", "work#5/test"}
    assert run.status("work#5/review") == "skipped", "the same code is not asked about again"
    reasons = ["test_durations.py", "line 3: runs text as code", "rejected by", "1 of 1 tests failed"]
    reflected = prompts(model, "Why, and what")
    assert [reason in prompt for reason, prompt in zip(reasons, reflected, strict=True)] == [True] * 4, reflected
    assert "no processes" in reflected[2]
    assert changed(stage) == [" M durations.py", "?? tool.py"]


def decide(stage: Stage, decision: str, *words: str) -> str:
    """Answer the gate that waits; what it says of the code."""
    gate = json.loads(stage.planrunner("gates", "last", "--json").out)["gates"][0]
    assert stage.planrunner(decision, "last", gate["gate"], *words).code == 0
    return str(gate["ask"]).removeprefix("Run the tests with this code? ")


@pytest.mark.parametrize(("first", "second"), KILLS if os.environ.get("PLANRUNNER_AGENTS") == "all" else KILLS[:1])
def test_killed_twice_it_asks_nothing_again_that_was_answered(coded: Open, first: str, second: str) -> None:
    stage, model = coded(rehearsal.answer)
    stage.exec_killed(at=first)
    stage.killed(second, "resume", "last", "--unattended")
    run = stage.resume()
    assert run.code == 0, run.err
    assert run.run["outputs"]["rounds"] == 2
    assert changed(stage) == [" M durations.py"]
    asked = [json.dumps(heard.body, sort_keys=True) for heard in model.heard]
    lost = sum("model" in at for at in (first, second))
    assert len(asked) == len(set(asked)) + lost == 6 + lost, "a reply that was not stored is asked for again"
    calls = [task for name, task in run.run["tasks"].items() if "/calls[" in name]
    assert [task["attempts"] for task in calls] == [1, 1]
    lessons = outputs(run, "work#2/recall")["lessons"]
    assert [(lesson["solution"], lesson["uses"]) for lesson in lessons] == [("Used sorted() in seconds().", 1)]
    assert stage.planrunner("replay", "last").code == 0


def test_each_agent_may_have_a_model_of_its_own(coded: Open) -> None:
    stage, model = coded(Coder(RIGHT))
    known = stage.scene.settings["models"]
    gone = {**known["scripted"], "base_url": "http://127.0.0.1:9/v1"}
    stage.scene.settings["network"]["private"].append("127.0.0.1:9")
    stage.scene.settings["models"] = {**known, "gone": gone, "large": {**known["scripted"], "model": "large"}}
    plan = stage.folder / "plans" / "coding-agent.yaml"
    role = "system: You write Python"
    assert role in plan.read_text()
    plan.write_text(plan.read_text().replace(role, f"model: gone\n            fallback: [large]\n            {role}"))
    stage.scene.git("commit", "-qam", "Another model for the coder")
    run = stage.exec()
    assert run.code == 0, run.err
    by_model = {heard.body["model"] for heard in model.heard if "The tests say:" in heard.said()}
    assert by_model == {"large"} and model.heard[0].body["model"] == "scripted"


def test_nothing_is_done_where_the_tests_pass(coded: Open) -> None:
    stage, model = coded(rehearsal.answer)
    stage.scene.write(RIGHT)
    stage.scene.git("commit", "-qam", "Add up")
    run = stage.exec()
    assert run.code == 0 and model.heard == []


def snapshot(stage: Stage) -> dict[str, tuple[int, bytes]]:
    """Every file of the working tree with its permissions, what planrunner keeps left out."""
    files = (
        path
        for path in stage.folder.rglob("*")
        if path.is_file() and not {".git", ".planrunner", "__pycache__"} & {*path.parts}
    )
    return {str(path.relative_to(stage.folder)): (path.stat().st_mode, path.read_bytes()) for path in files}
