"""A report of real sources: made once a day, replaced where its figures have changed, and taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from stage import Stage

NAME = "nightly-report"
Staged = Callable[[str], Stage]


def test_it_is_published_once_a_day_replaced_and_taken_back(staged: Staged) -> None:
    stage = staged(NAME)
    stage.exec_killed(at="commit")
    run = stage.resume()
    assert run.code == 0
    day = run.outputs("day")["value"]
    report = _report(stage, day)
    assert "One more order came in, and one more customer." in report
    assert "| service | customers | 40 | 41 |" in report and "| runs | completed | 1 | 1 |" in report
    assert _commits(stage) == [f"Report of {day}", "Sell tea"]
    [told] = _told(stage)
    assert "customers: 40 → 41" in told and "errors" not in told

    again = stage.exec()
    assert again.code == 0 and again.status("table") == "skipped"
    assert _report(stage, day) == report and len(_told(stage)) == 1

    stage.scene.write({"service.json": '{"open": false}'})
    other = stage.exec()
    assert other.code == 0 and other.status("service") == "failed"
    assert "**Not available:** service: GET " in _report(stage, day)
    assert _commits(stage) == [f"Report of {day}", f"Report of {day}", "Sell tea"]
    assert "not available: service" in _told(stage)[-1]

    assert stage.planrunner("rollback", "last").code == 0
    assert _report(stage, day) == report
    assert stage.planrunner("rollback", run.run["run_id"]).code == 0
    assert len(_reports(stage)) == 1 and _commits(stage) == ["Sell tea"]
    assert stage.scene.git("status", "--short") == ""


def test_no_notice_is_sent_if_nothing_has_changed_and_no_model_is_needed(staged: Staged) -> None:
    stage = staged(NAME)
    assert stage.exec("-p", "day=2999-01-01").code == 0
    del stage.scene.settings["models"]
    stage.scene.save()
    run = stage.exec("-p", "day=2999-01-02", "-p", "summary=false")
    assert run.code == 0 and run.status("summary") == "skipped" and run.status("notify") == "skipped"
    assert "2999-01-02" in _report(stage, "2999-01-02")
    assert len(_told(stage)) == 1


def test_sources_that_fail_are_all_named(staged: Staged) -> None:
    stage = staged(NAME)
    gone = ["repository=gone", "log=gone.log", "database=sqlite:///gone.db", "service=http://127.0.0.1:1/"]
    run = stage.exec(*[word for each in gone for word in ("-p", each)])
    assert run.code == 0
    report = _report(stage, run.outputs("day")["value"])
    assert [
        name for name in ("commits", "service", "errors", "orders") if f"**Not available:** {name}: " in report
    ] == [
        "commits",
        "service",
        "errors",
        "orders",
    ]
    assert "| runs | completed | 1 | 1 |" in report


@pytest.mark.parametrize(("log", "lines"), [("fine\n", 0), ("", 0), ("an ERROR\na FATAL\n" * 1000, 2000)])
def test_lines_of_the_log_are_counted_none_and_many(staged: Staged, log: str, lines: int) -> None:
    stage = staged(NAME)
    stage.scene.write({"app.log": log})
    run = stage.exec("-p", "errors=ERROR|FATAL", "-p", "summary=false")
    report = _report(stage, run.outputs("day")["value"])
    assert f"| {lines} |" in next(line for line in report.splitlines() if line.startswith("| errors | lines |"))
    assert "Not available" not in report


def test_the_clock_starts_it(staged: Staged) -> None:
    pytest.importorskip("starlette")
    stage = staged(NAME)
    assert "30 5 * * 1-5 (Europe/Berlin)" in stage.planrunner("trigger").out
    assert stage.planrunner("trigger", "fire", NAME).code == 0
    assert stage.planrunner("worker", "--until-empty").code == 0
    assert len(_reports(stage)) == 3 and len(_told(stage)) == 1


def _reports(stage: Stage) -> list[Path]:
    return sorted((stage.folder / "reports").iterdir())


def _report(stage: Stage, day: str) -> str:
    return (stage.folder / "reports" / f"{day}.md").read_text()


def _commits(stage: Stage) -> list[str]:
    return stage.scene.git("log", "--format=%s").splitlines()


def _told(stage: Stage) -> list[str]:
    return [each["text"] for each in json.loads((stage.folder / "chat.json").read_text())]
