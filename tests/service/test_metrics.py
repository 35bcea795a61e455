"""``/metrics`` as a parser of Prometheus reads it, and the log of the service."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import Served, awaited, make_project, serving

from planrunner.journal.stores import open_journal
from planrunner.machine.events import RunStarted
from planrunner.service.logs import Log

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def _samples(served: Served) -> dict[tuple[str, tuple[str, ...]], float]:
    answer = served.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, tuple(value for name, value in sorted(sample.labels.items()) if name not in ("project", "le"))): (
            sample.value
        )
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_runs_gates_and_the_process_are_measured(served: Served) -> None:
    for plan in ("quick", "fails", "asks"):
        served.settled(served.start(f"plans/{plan}.yaml"))
    assert awaited(lambda: _samples(served).get(("planrunner_runs_ended_total", ("fails", "failed"))))
    samples = awaited(lambda: _with_gate(served))
    assert samples["planrunner_runs_ended_total", ("quick", "completed")] == 1
    assert samples["planrunner_runs", ("blocked",)] == 1
    assert samples["planrunner_run_duration_seconds_count", ("quick",)] == 1
    assert samples["planrunner_receivers_failing", ()] == 0
    assert samples["process_resident_memory_bytes", ()] > 0


def _with_gate(served: Served) -> dict[tuple[str, tuple[str, ...]], float]:
    samples = _samples(served)
    return samples if samples.get(("planrunner_gates_waiting", ())) else {}


def test_metrics_need_a_token_and_show_the_projects_of_the_token_alone(tmp_path: Path) -> None:
    shop, site = make_project(tmp_path / "shop"), make_project(tmp_path / "site")
    with serving(shop, str(shop), str(site)) as served:
        served.make_token("all", "--scope", "admin")
        assert served.get("/metrics").status == 401
        served.token = served.make_token("scraper", "--scope", "read", "--project", "site")
        text = served.get("/metrics").text
        assert 'project="site"' in text
        assert 'project="shop"' not in text


def test_each_request_is_a_line_of_the_log_without_its_query_and_token(tmp_path: Path) -> None:
    project, log = make_project(tmp_path / "shop"), tmp_path / "log.jsonl"
    with serving(project, "--log", str(log)) as served:
        served.token = served.make_token("reader", "--scope", "read")
        served.get("/shop/runs?text=private", traceparent=f"00-{TRACE}-00f067aa0ba902b7-01")
        served.get("/shop/nothing")
        secret = served.token
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    found = {line["path"]: line for line in lines if line["event"] == "request"}
    assert found["/shop/runs"]["status"] == 200
    assert found["/shop/runs"]["trace"] == TRACE
    assert found["/shop/nothing"]["status"] == 404
    assert found["/shop/runs"]["bytes"] > 0
    assert "private" not in log.read_text()
    assert secret not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_settings_that_cannot_be_used_are_told_and_the_service_works(tmp_path: Path) -> None:
    project = make_project(tmp_path / "shop")
    (project / "planrunner.yaml").write_text("notify:\n  - {apprise_env: NOT_SET_ANYWHERE}\n")
    with serving(project) as served:
        assert served.get("/shop/runs").status == 200
        assert served.get("/metrics").status == 200
        said = iter(served.process.stderr.readline, "")
        assert any("notices of shop are off" in line and "NOT_SET_ANYWHERE" in line for line in said)


def test_a_run_that_is_started_in_a_trace_belongs_to_it(served: Served) -> None:
    given = f"00-{TRACE}-00f067aa0ba902b7-01"
    answer = served.post(f"{served.api}/runs", {"plan": "plans/quick.yaml"}, traceparent=given)
    run = answer.data["run_id"]
    served.settled(run)
    with closing(open_journal(str(served.folder / ".planrunner"), readonly=True)) as journal:
        started = next(journal.entries(run)).event
    assert isinstance(started, RunStarted)
    assert started.environment["traceparent"] == given


def test_without_a_log_a_fault_has_its_traceback_at_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Log(None).take_over()
    try:
        raise ValueError("what went wrong")
    except ValueError as error:
        logging.getLogger("planrunner.service").error("a fault of planrunner in GET /x", exc_info=error)
    finally:
        logging.getLogger().handlers.clear()
    told = capsys.readouterr().err
    assert told.startswith("planrunner: a fault of planrunner in GET /x\nTraceback (most recent call last):\n")
    assert told.endswith("ValueError: what went wrong\n")
