"""One verdict: what lint calls an error `exec` refuses, and nothing else is refused as a plan."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from planrunner.cli import main

FOLDER = Path(__file__).parent
CORPUS = sorted((FOLDER / "plans").iterdir())
INVALID, DENIED, USAGE, FINDINGS = 5, 12, 2, 1
SETTINGS = "provider_credentials: [{id: deploy, auth: {source: env, env_var: DEPLOY_TOKEN}}]\n"
CASES = {
    "a policy that nothing obeys": "plan: p\npolicy: {data: internal}\ntasks: [{id: a, run: ls, timeout: 1m}]\n",
    "a policy of autonomy": "plan: p\npolicy: {autonomous: true}\ntasks: [{id: a, run: ls, timeout: 1m}]\n",
    "a credential's variable": "plan: p\ntasks: [{id: a, run: 'echo {{ env.DEPLOY_TOKEN }}', timeout: 1m}]\n",
    "an unknown credential": "plan: p\ntasks: [{id: a, run: ls, timeout: 1m, secrets: [nobody]}]\n",
    "a declared credential": "plan: p\ntasks: [{id: a, run: ls, timeout: 1m, secrets: [deploy]}]\n",
    "a family without items": "plan: p\ntasks: [{id: gaps-deep-dive-*, run: ls, timeout: 1m}]\n",
    "a denied script": "plan: p\npolicy: {capabilities: {deny: [shell]}}\ntasks: [{id: a, run: ls, timeout: 1m}]\n",
    "a warning alone": "plan: p\ntasks: [{id: a, run: ls}]\n",
}


def verdicts(plan: Path, tmp_path: Path) -> tuple[int, int]:
    state = ["--state", str(tmp_path / "state")]
    linted = main([*state, "lint", "--fail-on", "error", str(plan)])
    return linted, main([*state, "exec", "--dry-run", str(plan)])


def agree(linted: int, executed: int) -> bool:
    return executed in (INVALID, DENIED) if linted == FINDINGS else executed not in (INVALID, DENIED)


@pytest.mark.parametrize("plan", CORPUS, ids=lambda path: path.name)
def test_lint_and_exec_agree_about_the_corpus(plan: Path, tmp_path: Path) -> None:
    for each in CORPUS:
        shutil.copy(each, tmp_path)
    linted, executed = verdicts(tmp_path / plan.name, tmp_path)
    assert agree(linted, executed), (linted, executed)


@pytest.mark.parametrize("name", CASES)
def test_lint_and_exec_agree_about(name: str, tmp_path: Path) -> None:
    (tmp_path / "planrunner.yaml").write_text(SETTINGS)
    (tmp_path / "p.yaml").write_text(CASES[name])
    linted, executed = verdicts(tmp_path / "p.yaml", tmp_path)
    assert agree(linted, executed), (linted, executed)


def test_settings_that_change_their_credentials_are_heeded_for_a_plan_seen_before(tmp_path: Path) -> None:
    (tmp_path / "planrunner.yaml").write_text(SETTINGS)
    (tmp_path / "p.yaml").write_text(CASES["a declared credential"])
    assert verdicts(tmp_path / "p.yaml", tmp_path)[1] == 0
    (tmp_path / "planrunner.yaml").write_text(SETTINGS.replace("id: deploy", "id: release"))
    assert verdicts(tmp_path / "p.yaml", tmp_path) == (FINDINGS, INVALID)
