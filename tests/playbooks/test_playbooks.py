"""Playbooks as a whole: each is complete, sound, tested and explained, and can be installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from workbench import ROOT, planrunner

from planrunner.app.project.playbooks import PLAYBOOKS

PLANS = ROOT / "plans" / "playbooks"
INSTALLED = ("plans/{}.yaml", "plans/tests/{}.test.yaml", "plans/rehearsals/{}.py")


def test_the_list_is_what_is_there() -> None:
    assert sorted(PLAYBOOKS) == list(PLAYBOOKS)
    assert {path.stem for path in PLANS.glob("*.yaml")} == set(PLAYBOOKS)
    assert {path.name.removesuffix(".test.yaml") for path in PLANS.glob("tests/*")} == set(PLAYBOOKS)
    assert {path.stem for path in PLANS.glob("rehearsals/*.py")} == set(PLAYBOOKS)
    assert {path.name for path in PLANS.glob("parts/*")} <= set(PLAYBOOKS)
    assert {path.stem for path in (ROOT / "docs" / "playbooks").glob("*.md")} == {*PLAYBOOKS, "README"}
    assert {path.stem for path in Path(__file__).parent.glob("test_*.py")} >= {
        f"test_{name.replace('-', '_')}" for name in PLAYBOOKS
    }
    index = (ROOT / "docs" / "playbooks" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(([\w-]+)\.md\)", index)) == set(PLAYBOOKS)


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_it_is_sound_explained_and_tested(name: str) -> None:
    done = planrunner(ROOT, "lint", f"plans/playbooks/{name}.yaml", "--format", "json")
    findings = json.loads(done.stdout)["findings"]
    assert [finding for finding in findings if finding["severity"] != "note"] == []
    tested = planrunner(ROOT, "test", f"plans/playbooks/{name}.yaml")
    assert tested.returncode == 0, tested.stdout
    assert "generated" not in tested.stdout
    shown = json.loads(planrunner(ROOT, "convert", f"plans/playbooks/{name}.yaml", "--to", "json").stdout)
    assert [param for param, said in shown.get("params", {}).items() if "description" not in said] == []


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_installed_it_is_sound_there_and_its_tests_pass(name: str, tmp_path: Path) -> None:
    done = planrunner(tmp_path, "init", "--playbook", name)
    assert done.returncode == 0, done.stderr
    written = set(done.stdout.replace("wrote ", "").splitlines())
    assert written == {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.format(name) for path in INSTALLED} <= written
    plan = tmp_path / f"plans/{name}.yaml"
    assert plan.read_text(encoding="utf-8").startswith("# ")
    assert "$schema" not in plan.read_text(encoding="utf-8")
    assert planrunner(tmp_path, "lint", f"plans/{name}.yaml").returncode == 0
    assert planrunner(tmp_path, "test", f"plans/{name}.yaml").returncode == 0


def test_installing_again_changes_nothing_and_a_file_of_the_project_is_never_overwritten(tmp_path: Path) -> None:
    assert planrunner(tmp_path, "init", "--playbook", "release").returncode == 0
    assert planrunner(tmp_path, "init", "--playbook", "release").returncode == 0
    plan = tmp_path / "plans/release.yaml"
    plan.write_text("plan: mine\n")
    (tmp_path / "plans/tests/release.test.yaml").unlink()
    done = planrunner(tmp_path, "init", "--playbook", "release")
    assert (done.returncode, plan.read_text()) == (2, "plan: mine\n")
    assert "`./plans/release.yaml` is there already, and differs" in done.stderr
    assert not (tmp_path / "plans/tests/release.test.yaml").exists()


def test_an_unknown_playbook_is_answered_with_the_nearest(tmp_path: Path) -> None:
    done = planrunner(tmp_path, "init", "--playbook", "relase")
    assert done.returncode == 3
    assert "there is no playbook `relase`" in done.stderr
    assert "did you mean `release`?" in done.stderr
    assert "backfill" in planrunner(tmp_path, "init", "--playbook", "zzz").stderr
    assert list(tmp_path.iterdir()) == []


def test_the_help_of_init_names_them_all(tmp_path: Path) -> None:
    text = " ".join(planrunner(tmp_path, "init", "--help").stdout.split())
    assert f"{', '.join(PLAYBOOKS)}." in text


def test_a_rehearsal_says_what_to_install_before_it_makes_anything(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['build'] = None\n")
    program = PLANS / "rehearsals" / "release.py"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    done = subprocess.run([sys.executable, program], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"needs build, which this Python lacks: {sys.executable} -m pip install build" in done.stderr
    assert not (tmp_path / "build").exists()
