"""The plans of the HTTP family against a real server, by the real command; with the server gone they replay the same."""

from __future__ import annotations

import hashlib
import json
import runpy
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import workbench
from shown import check_output
from workbench import ROOT

PEER = ROOT / "plans" / "capabilities" / "peers" / "http_shop.py"
PLANS = ROOT / "plans" / "capabilities"


class Shop(NamedTuple):
    url: str
    process: subprocess.Popen[str]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def shop() -> Iterator[Shop]:
    process = subprocess.Popen([sys.executable, str(PEER), "0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    made = Shop(process.stdout.readline().rpartition(" ")[2].strip(), process)
    yield made
    made.close()
    process.stdout.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(PLANS, tmp_path / "plans" / "capabilities")
    (tmp_path / "planrunner.yaml").write_text("network: {private: [127.0.0.1]}\n")
    return tmp_path


def planrunner(project: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return workbench.planrunner(project, *words, **{"PLANRUNNER_STATE": str(project / "state"), **more})


def execute(project: Path, plan: str, *words: str, **env: str) -> tuple[int, dict[str, Any]]:
    done = planrunner(project, "exec", plan, "--json", *words, **env)
    assert done.stdout, done.stderr
    return done.returncode, {**json.loads(done.stdout), "said": done.stderr}


def outputs(run: dict[str, Any], task: str) -> dict[str, Any]:
    found: dict[str, Any] = run["tasks"][task]["outputs"]
    return found


def test_requests_end_as_the_plan_says_and_replay_without_the_server(project: Path, shop: Shop) -> None:
    code, run = execute(project, "plans/capabilities/http-requests.yaml", "-p", f"shop={shop.url}")
    check_output("capabilities/http-requests.yaml", run["said"], code, project)
    shop.close()
    assert code == 0, run
    assert outputs(run, "prices")["json"] == {"tea": 2.5, "coffee": 3.0, "currency": "EUR"}
    assert outputs(run, "prices")["url"] == f"{shop.url}/prices"
    assert outputs(run, "stock")["attempts"] == 2
    assert (
        outputs(run, "order")["json"] == outputs(run, "again")["json"] == {"number": 1, "article": "tea", "orders": 1}
    )
    assert (outputs(run, "packed")["attempts"], outputs(run, "packed")["json"]["boxes"]) == (3, 2)
    assert [each["id"] for each in outputs(run, "articles")["items"]] == list(range(1, 8))
    assert "attempt 1 of 2 failed" in planrunner(project, "why", "last", "stock").stdout
    replayed = planrunner(project, "replay", "last")
    assert replayed.returncode == 0, replayed.stderr
    shown = json.loads(planrunner(project, "show", "last", "--json").stdout)
    assert {name: task["outputs"] for name, task in shown["tasks"].items()} == {
        name: task["outputs"] for name, task in run["tasks"].items()
    }


def test_a_download_goes_on_after_the_drop_and_is_taken_back_when_the_plan_fails(project: Path, shop: Shop) -> None:
    plan = "plans/capabilities/http-download.yaml"
    catalogue = runpy.run_path(str(PEER))["CATALOGUE"]
    code, run = execute(project, plan, "-p", f"shop={shop.url}")
    check_output("capabilities/http-download.yaml", run["said"], code, project)
    assert code == 0, run
    assert outputs(run, "catalogue")["resumed"] == 200_000
    assert outputs(run, "catalogue")["sha256"] == hashlib.sha256(catalogue).hexdigest()
    assert (project / "build" / "catalogue.csv").read_bytes() == catalogue
    assert planrunner(project, "replay", "last").returncode == 0

    (project / "build" / "catalogue.csv").write_text("an older one\n")
    code, run = execute(project, plan, "-p", f"shop={shop.url}", "-p", "lines=7")
    shop.close()
    assert (code, run["tasks"]["catalogue"]["status"]) == (1, "rolled_back")
    assert (project / "build" / "catalogue.csv").read_text() == "an older one\n"
    assert planrunner(project, "replay", "last").returncode == 0


def test_a_preview_tells_the_file_and_the_request_without_sending_it(project: Path) -> None:
    done = planrunner(project, "preview", "plans/capabilities/http-download.yaml", "--json", "--changes")
    assert done.returncode == 0, done.stderr
    assert '"path": "build/catalogue.csv"' in done.stdout
    assert '"as": "http.download"' in done.stdout
    assert "curl http://127.0.0.1:8765/catalogue" in done.stdout


def test_without_the_server_it_fails_as_transient_and_without_permission_as_policy(project: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        plan = project / "one.yaml"
        plan.write_text(
            f'plan: one\ntasks:\n  - id: a\n    uses: http.get\n    timeout: 2m\n    with: {{url: "{url}", retries: 0}}\n'
        )
        code, run = execute(project, "one.yaml")
        assert (code, "a failed (transient)" in run["said"]) == (1, True)
        (project / "planrunner.yaml").write_text("")
        _, run = execute(project, "one.yaml")
        assert "a failed (policy)" in run["said"]
        assert run["tasks"]["a"]["detail"].endswith(f'planrunner.yaml: network: {{private: ["{url[7:]}"]}}')


def test_no_credential_reaches_the_journal_or_a_log(project: Path, shop: Shop) -> None:
    (project / "one.yaml").write_text(
        "plan: one\ntasks:\n  - id: a\n    uses: http.get\n    timeout: 2m\n"
        f'    with: {{url: "{shop.url}/stock", auth: {{bearer_env: SHOP_TOKEN}}}}\n'
    )
    code, _ = execute(project, "one.yaml", SHOP_TOKEN="open-sesame-7781")
    assert code == 0
    found = [
        str(path)
        for path in (project / "state").rglob("*")
        if path.is_file() and b"open-sesame-7781" in path.read_bytes()
    ]
    assert found == []
    assert any(b"SHOP_TOKEN" in path.read_bytes() for path in (project / "state").rglob("*") if path.is_file())


def test_a_request_that_waits_ends_with_the_timeout_of_its_task(project: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        (project / "one.yaml").write_text(
            "plan: one\ntasks:\n  - id: a\n    uses: http.get\n    timeout: 500ms\n"
            f'    with: {{url: "http://127.0.0.1:{listener.getsockname()[1]}/"}}\n'
        )
        code, run = execute(project, "one.yaml")
        assert (code, "a failed (timeout)" in run["said"]) == (1, True)
    assert "abandoned" not in run["said"]


@pytest.mark.slow
@pytest.mark.limit(900)
@pytest.mark.parametrize("lines", ["20000", "7"])
def test_killed_anywhere_it_comes_to_the_same_end(project: Path, shop: Shop, lines: str) -> None:
    words = ("--real", "-p", f"shop={shop.url}", "-p", f"lines={lines}", "--kills", "6", "--pairs", "2")
    shutil.copy(PLANS / "http-download.yaml", project / "d.yaml")
    done = planrunner(project, "chaos", "d.yaml", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same end every time" in done.stdout
