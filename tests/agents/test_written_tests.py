"""``python.write_tests``: what hypothesis and models write, what is refused, what failing tests tell, and undo."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import Bench

from planrunner.testing.scripted_model import ScriptedModel

Json = Any
Make = Callable[..., Bench]

SHOP = '''
def share(cents: int, people: int) -> int:
    """What each of several people pays."""
    return cents // people if people != 7 else 1 // 0


def total(prices: list[int]) -> int:
    return sum(prices)
'''
GOOD = "```python\nimport shop\n\n\ndef test_total():\n    assert shop.total([1, 2]) == 3\n\n\ndef test_seven():\n    assert shop.share(14, 7) == 2\n```"
PLAN = {"plan": "p", "defaults": {"timeout": "2m"}, "tasks": [{"id": "t", "uses": "python.write_tests", "with": {}}]}


def plan(**inputs: Json) -> str:
    given = {"file": "shop.py", "path": "tests/test_shop.py", "seed": 1, "python": sys.executable, **inputs}
    return json.dumps({**PLAN, "tasks": [{"id": "t", "uses": "python.write_tests", "with": given}]})


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A project with a module that has a bug, and a model that follows a script."""
    models: list[ScriptedModel] = []

    def made(*script: Any) -> Bench:
        models.append(ScriptedModel(list(script) or ["unused"]))
        (tmp_path / "shop.py").write_text(SHOP)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        bench = Bench(tmp_path, models[-1])
        del bench.settings["agents"]
        return bench

    yield made
    for model in models:
        model.__exit__()


def task(told: Json) -> Json:
    return told["tasks"]["t"]


def test_hypothesis_writes_tests_that_find_a_planted_bug_and_they_can_be_taken_back(make: Make, tmp_path: Path) -> None:
    bench = make()
    told = bench.run(plan(functions=["share"], fail=False))
    outputs = task(told)["outputs"]
    assert (told["status"], outputs["author"], outputs["ok"]) == ("completed", "hypothesis", False)
    assert outputs["counts"]["failed"] == 1
    assert "people=" in outputs["failures"][0]["example"]
    assert "ZeroDivisionError" in outputs["findings"][0]["message"]
    assert "shop.share" in (tmp_path / "tests" / "test_shop.py").read_text()
    assert bench.call("rollback", "last").returncode == 0
    assert not (tmp_path / "tests").exists()
    assert bench.model.heard == []


def test_a_failing_test_fails_the_task_and_its_file_stays(make: Make, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_shop.py").write_text("before = 1\n")
    bench = make()
    told = bench.run(plan(functions=["share"]))
    assert (told["exit_code"], task(told)["failure"]) == (1, "tests")
    assert task(told)["detail"].startswith("1 of 1 tests failed: ")
    assert task(told)["outputs"]["failures"][0]["example"]
    assert "shop.share" in (tmp_path / "tests" / "test_shop.py").read_text()
    assert bench.call("rollback", "last").returncode == 0
    assert (tmp_path / "tests" / "test_shop.py").read_text() == "before = 1\n"


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"functions": ["shares"]}, "`shop` has no function `shares`"),
        ({"file": "shp.py"}, "shp.py does not exist"),
        ({"goal": "the edges"}, "`goal` has no effect on tests by hypothesis: add `by: model`"),
        ({"file": "odd.py"}, "Hypothesis cannot choose inputs for the function of `test_fuzz_odd`: annotate its parameters"),
        ({"file": "broken.py"}, "NameError"),
    ],
)  # fmt: skip
def test_what_hypothesis_cannot_do_is_said_with_the_way_out(
    inputs: Json, said: str, make: Make, tmp_path: Path
) -> None:
    bench = make()
    (tmp_path / "odd.py").write_text("def odd(x):\n    return x\n")
    (tmp_path / "broken.py").write_text("nothing_of_this\n")
    told = bench.run(plan(**inputs))
    assert said in task(told)["detail"], task(told)["detail"]
    assert not (tmp_path / "tests").exists()


def test_a_model_mends_a_file_that_cannot_be_collected_and_its_failing_test_is_told(make: Make, tmp_path: Path) -> None:
    bench = make("def test_a(:\n", "import shp\n\ndef test_a(): pass\n", GOOD)
    told = bench.run(plan(by="model", fail=False, goal="Mind the seventh."))
    outputs = task(told)["outputs"]
    assert (told["status"], outputs["repairs"], outputs["author"]) == ("completed", 2, "scripted")
    first, second, third = bench.model.heard
    assert "Mind the seventh." in first.last()
    assert "def share" in first.last()
    assert "SyntaxError" in second.last()
    assert "No module named 'shp'" in third.last()
    assert (outputs["counts"]["passed"], outputs["counts"]["failed"]) == (1, 1)
    assert outputs["failures"][0]["name"].endswith("test_seven")
    assert outputs["usage"] == {"input": 300, "output": 60, "cost": pytest.approx(420e-6)}
    assert (tmp_path / "tests" / "test_shop.py").read_text().startswith("import shop\n")


def test_a_model_that_never_gives_tests_fails_and_leaves_nothing(make: Make, tmp_path: Path) -> None:
    told = make("x = 1\n").run(plan(by="model", repairs=1))
    assert task(told)["failure"] == "tests"
    assert "cannot be collected: it holds no tests (it was asked as often as `repairs` lets)" in task(told)["detail"]
    assert not (tmp_path / "tests").exists()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("import shutil\n\n\ndef test_a():\n    shutil.rmtree('x')\n", "scan.delete"),
        ("import os\n\nos.system('rm -rf x')\n", "scan.shell"),
        ("def test_a():\n    eval('1')\n", "scan.eval"),
        ("import socket\n\n\ndef test_a():\n    assert True\n", "scan.network"),
    ],
)
def test_what_a_hostile_model_writes_is_refused_before_it_runs(
    text: str, rule: str, make: Make, tmp_path: Path
) -> None:
    bench = make(text)
    told = bench.run(plan(by="model"))
    assert (told["exit_code"], task(told)["failure"]) == (12, "policy")
    assert rule in task(told)["detail"]
    assert [each["name"] for each in task(told)["artifacts"] if each["name"].endswith(".py")] == ["refused-tests.py"]
    assert len(bench.model.heard) == 1
    assert not (tmp_path / "tests").exists()


HOSTILE = """
import shop
import pathlib

def test_outside():
    where = pathlib.Path(shop.SECRET)
    where.with_name("stolen").write_text("x")
"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_what_the_rules_cannot_see_is_held_by_the_sandbox(make: Make, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside"
    outside.mkdir(exist_ok=True)
    bench = make(HOSTILE)
    (tmp_path / "shop.py").write_text(f"SECRET = {str(outside / 'file')!r}\n{SHOP}")
    given = json.loads(plan(by="model", fail=False))
    again = {"paths": "tests/test_shop.py", "fail": False, "python": sys.executable}
    given["tasks"].append({"id": "again", "uses": "validate.pytest", "needs": ["t"], "with": again})
    told = bench.run(json.dumps(given))
    assert task(told)["outputs"]["counts"]["failed"] == 1
    assert not told["tasks"]["again"]["outputs"].get("ok")
    assert not (outside / "stolen").exists()


def test_without_a_sandbox_what_a_model_writes_does_not_run(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    bench = make(GOOD)
    told = bench.run(plan(by="model"), policy={"sandbox": {"profile": "docker"}})
    assert task(told)["failure"] == "policy"
    assert "docker" in task(told)["detail"]
    assert not (tmp_path / "tests").exists()


def test_requests_stay_within_the_budget_of_the_task(make: Make) -> None:
    bench = make("def test_a(:\n")
    given = json.loads(plan(by="model", repairs=5))
    given["tasks"][0]["budgets"] = {"calls": 2}
    told = bench.run(json.dumps(given))
    assert len(bench.model.heard) == 2
    assert "cannot be collected: SyntaxError" in task(told)["detail"]
