"""Traces and metrics, as a collector receives them: every span once, whatever happens to exporter and receiver."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from receivers import Receiver, receiver
from rows import rows
from workbench import planrunner

from planrunner.app.follow.follower import Follower
from planrunner.app.follow.positions import Positions
from planrunner.app.follow.reporting import Place, Reporting
from planrunner.app.people.gates import decide
from planrunner.app.runs.host import Host
from planrunner.engine.identities import read_traceparent, run_identity
from planrunner.errors import StorageFailed
from planrunner.machine.requests import Vote

Run = Callable[..., str]
OUTSIDE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with receiver() as there:
        yield there


@pytest.fixture
def settings(project: Path, collector: Receiver, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)

    def write(more: str = "") -> None:
        (project / "planrunner.yaml").write_text(f"telemetry: {{endpoint: '{collector.address}'{more}}}\n")

    write()
    return write


def reporting(project: Path, follower: Follower) -> Reporting:
    return Reporting(Place("shop", str(project), "", print, dict), follower)


def once(project: Path, delivered: bool = True) -> None:
    """Everything that is outstanding, by a process that begins afresh."""
    with Follower(str(project / ".planrunner")) as follower:
        telling = reporting(project, follower)
        assert telling.once() is delivered, telling.problems
        telling.close()


def test_a_run_is_a_trace_with_a_span_for_each_attempt(
    project: Path, run: Run, collector: Receiver, settings: Callable[[str], None]
) -> None:
    name = run("nested")
    once(project)
    spans = {span.name: span for span in collector.spans()}
    assert sorted(Counter(span.name for span in collector.spans()).values(), reverse=True)[0] == 1
    root = spans["plan nested"]
    assert root.trace_id == run_identity(name).trace.to_bytes(16, "big")
    assert {span.trace_id for span in spans.values()} == {root.trace_id}
    ids = {span.span_id: span.name for span in spans.values()}
    parents = {span.name: ids.get(span.parent_span_id, "") for span in spans.values()}
    assert parents["plan nested"] == ""
    assert parents["pages"] == "plan nested"
    assert parents["pages[0]"] == "pages"
    assert parents["pages[0]/try"] == "pages[0]"
    for span in spans.values():
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= root.end_time_unix_nano + 1000


def test_failures_are_errors_with_their_class_and_message(
    project: Path, run: Run, collector: Receiver, settings: Callable[[str], None]
) -> None:
    run("fails")
    once(project)
    spans = {span.name: span for span in collector.spans()}
    told = {item.key: item.value for item in spans["bad"].attributes}
    assert (spans["bad"].status.code, spans["bad"].status.message) == (2, "exit code 3: no")
    assert (told["error.type"].string_value, told["process.exit.code"].int_value) == ("logic", 3)
    assert told["planrunner.task.id"].string_value == "bad"
    assert spans["plan fails"].status.code == 2


def test_nothing_is_lost_or_doubled_while_the_receiver_is_away(
    project: Path, run: Run, collector: Receiver, settings: Callable[[str], None]
) -> None:
    collector.status = 400
    names = [run("quick") for _ in range(3)]
    once(project, delivered=False)
    assert collector.spans() == []
    collector.status = 200
    names.append(run("quick"))
    once(project)
    once(project)
    ids = [span.span_id for span in collector.spans()]
    assert len(ids) == len(set(ids)) == 3 * len(names)


def test_a_run_that_waits_is_exported_as_it_goes_on(
    project: Path, run: Run, collector: Receiver, settings: Callable[[str], None]
) -> None:
    name = run("asks")
    once(project)
    assert [span.name for span in collector.spans()] == ["before"]
    decide(name, Vote("sure", "approve", by="ana"), None)
    with Host() as host:
        host.resume(name).result()
    once(project)
    assert [span.name for span in collector.spans()] == ["before", "gate sure", "after", "plan asks"]


def test_a_run_belongs_to_the_trace_that_it_is_started_in_and_its_tasks_do(
    project: Path, run: Run, collector: Receiver, settings: Callable[[str], None]
) -> None:
    (project / "shows.yaml").write_text(
        "plan: shows\ntasks:\n  - {id: show, run: 'echo $TRACEPARENT', shell: bash, timeout: 30m}\n"
        "outputs: {said: '{{ tasks.show.stdout }}'}\n"
    )
    name = run("shows", OUTSIDE)
    once(project)
    spans = {span.name: span for span in collector.spans()}
    outside = read_traceparent(OUTSIDE)
    assert outside is not None
    assert spans["plan shows"].trace_id == outside.trace.to_bytes(16, "big")
    assert spans["plan shows"].parent_span_id == outside.span.to_bytes(8, "big")
    shown = planrunner(project, "logs", name, "show").stdout.strip().splitlines()[-1]
    inside = read_traceparent(shown.split()[-1])
    assert inside is not None
    assert inside.trace == outside.trace
    assert inside.span.to_bytes(8, "big") == spans["show"].span_id


def test_a_trace_that_is_not_sampled_gets_no_spans(
    project: Path, run: Run, collector: Receiver, settings: Callable[[str], None]
) -> None:
    run("quick", OUTSIDE[:-1] + "0")
    once(project)
    assert collector.spans() == []


def test_metrics_have_every_run_once_however_often_the_exporter_starts(
    project: Path, run: Run, collector: Receiver, settings: Callable[[str], None]
) -> None:
    for plan in ("quick", "fails", "asks"):
        run(plan)
        once(project)
    metrics = collector.metrics()
    ended = {
        tuple(sorted((label.key, label.value.string_value) for label in point.attributes)): point.as_int
        for point in metrics["planrunner.runs_ended"].sum.data_points
    }
    assert ended == {(("plan", "fails"), ("status", "failed")): 1, (("plan", "quick"), ("status", "completed")): 1}
    assert metrics["planrunner.runs_ended"].sum.is_monotonic
    (duration,) = metrics["planrunner.attempt_duration"].histogram.data_points
    assert duration.count == sum(duration.bucket_counts) == 4
    (waiting,) = metrics["planrunner.gates_waiting"].gauge.data_points
    assert waiting.as_double == 1


def test_one_of_two_processes_exports(
    project: Path, run: Run, collector: Receiver, settings: Callable[[str], None]
) -> None:
    run("quick")
    with Follower(str(project / ".planrunner")) as follower:
        first, second = reporting(project, follower), reporting(project, follower)
        first.start()
        while not first.feed.is_at_work:
            follower.wait(-1, 0.01)
        assert second.once() is False
        first.close()
        assert second.once() is True


@rows(
    ("text", "known"),
    [
        (OUTSIDE, True),
        (OUTSIDE.upper(), False),
        (OUTSIDE + "-more", False),
        ("01" + OUTSIDE[2:] + "-more", True),
        ("ff" + OUTSIDE[2:], False),
        ("00-" + "0" * 32 + "-00f067aa0ba902b7-01", False),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01", False),
        ("", False),
        ("nonsense", False),
    ],
)
def test_a_traceparent_is_read_as_the_standard_says(text: str, known: bool) -> None:
    assert (read_traceparent(text) is not None) is known
    assert not known or str(read_traceparent(text))[3:] == OUTSIDE[3:]


def test_positions_are_not_kept_where_a_link_or_a_log_leads_elsewhere(project: Path, run: Run) -> None:
    run("quick")
    state = project / ".planrunner"
    (state / "follow.db").symlink_to(project / "elsewhere")
    with pytest.raises(StorageFailed, match="is a link"):
        Positions(str(state))
    assert not (project / "elsewhere").exists()
    (state / "follow.db").unlink()
    (state / "follow.db-journal").write_bytes(bytes.fromhex("d9d505f920a163d7"))
    with pytest.raises(StorageFailed, match="which SQLite would delete"):
        Positions(str(state))


@pytest.mark.parametrize("before", [True, False], ids=["before the positions move", "after they moved"])
def test_a_kill_of_the_exporter_loses_nothing_and_what_comes_twice_is_the_same_span(
    project: Path, run: Run, collector: Receiver, settings: Callable[[str], None], before: bool
) -> None:
    for plan in ("quick", "fails", "quick"):
        run(plan)
        child = os.fork()
        if child == 0:
            _die_at_the_positions(project, before)
        assert os.waitpid(child, 0)[1] == 9
    once(project)
    once(project)
    every = [(span.trace_id, span.span_id, span.name) for span in collector.spans()]
    assert sorted(name for _, _, name in set(every)) == sorted(["one", "two", "plan quick"] * 2 + ["bad", "plan fails"])
    metrics = collector.metrics()
    assert sum(point.as_int for point in metrics["planrunner.runs_started"].sum.data_points) == 3
    assert sum(point.as_int for point in metrics["planrunner.attempts"].sum.data_points) == 5


def _die_at_the_positions(project: Path, before: bool) -> None:
    move = Positions.move

    def dying(self: Positions, reader: str, positions: Mapping[str, int], kept: Any) -> None:
        if not before:
            move(self, reader, positions, kept)
        os.kill(os.getpid(), signal.SIGKILL)

    Positions.move = dying  # type: ignore[method-assign]  # in a process that ends with it
    once(project)
    os._exit(0)
