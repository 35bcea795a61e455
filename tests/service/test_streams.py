"""Server-sent events: everything arrives once and in order, from wherever a reader goes on."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import commands
from serving import PATIENCE, Served, awaited, make_project, serving, stopped

Json = Any


class Event(NamedTuple):
    id: str
    kind: str
    data: Json


@contextmanager
def streamed(served: Served, path: str, **headers: str) -> Iterator[Iterator[Event]]:
    """The events of a stream as they come, until the service ends it."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if served.token:
        given["authorization"] = f"Bearer {served.token}"
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers=given)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield _events(response)
    finally:
        connection.close()


def _events(response: http.client.HTTPResponse) -> Iterator[Event]:
    fields: dict[str, str] = {}
    while line := response.readline().decode():
        if line == "\n":
            if "data" in fields:
                yield Event(fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"]))
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name] = value


def _until_the_end(events: Iterator[Event]) -> list[Event]:
    seen = []
    for event in events:
        seen.append(event)
        if event.data.get("type") == "run_ended":
            break
    return seen


def test_a_reader_gets_every_event_once_also_where_it_reads_on(served: Served) -> None:
    many = "plan: many\ndefaults: {timeout: 1m}\nmax_parallel: 8\ntasks:\n"
    many += "".join(f"  - {{id: t{number}, uses: noop}}\n" for number in range(300))
    (served.folder / "plans" / "many.yaml").write_text(many)
    run = served.start("plans/many.yaml")
    awaited(lambda: served.get(f"{served.api}/runs/{run}").status == 200)
    path = f"{served.api}/runs/{run}/events/stream"
    with streamed(served, path) as events:
        first = [next(events) for _ in range(100)]
    assert [event.data["seq"] for event in first] == list(range(1, 101))
    with streamed(served, path, Last_Event_ID=first[-1].id) as events:
        rest = _until_the_end(events)
    seen = [int(event.id) for event in (*first, *rest)]
    assert seen == list(range(1, len(seen) + 1))
    kept = commands.run("events", run, "--json", folder=served.folder, env=served.environment).out.splitlines()[1:]
    assert [event.data for event in (*first, *rest)] == [json.loads(line) for line in kept]


def test_events_of_a_run_in_the_queue_come_once_it_begins(served: Served) -> None:
    served.post(f"{served.api}/queue/pause", {})
    try:
        run, gone = served.start("plans/quick.yaml"), served.start("plans/quick.yaml")
        assert served.post(f"{served.api}/queue/{gone}/cancel", {}).status == 200
        assert served.get(f"{served.api}/runs/{gone}/events/stream").status == 404
        with streamed(served, f"{served.api}/runs/{run}/events/stream") as events:
            served.post(f"{served.api}/queue/resume", {})
            assert [event.data["seq"] for event in _until_the_end(events)][:2] == [1, 2]
    finally:
        served.post(f"{served.api}/queue/resume", {})


def test_what_a_task_writes_is_read_while_it_runs(served: Served) -> None:
    (served.folder / "go").unlink(missing_ok=True)
    run = served.start("plans/waits.yaml")
    path = f"{served.api}/runs/{run}/log/stream?task=stands"
    awaited(lambda: served.get(path.replace("/log/stream", "/log")).text == "waiting\n")
    with streamed(served, path) as events:
        begun = next(events)
        assert (begun.data["text"], begun.id) == ("waiting\n", "8")
        (served.folder / "go").touch()
        assert [event.data.get("text", event.kind) for event in events] == ["gone\n", "end"]
    with streamed(served, path, Last_Event_ID="8") as events:
        assert [event.data.get("text", event.kind) for event in events] == ["gone\n", "end"]


def test_changes_of_all_runs_are_told(served: Served) -> None:
    with streamed(served, f"{served.api}/changes") as events:
        before = next(events).data["newest"]
        run = served.start("plans/quick.yaml")
        after = next(event for event in events if event.data["newest"] > before)
        assert sum(after.data["counts"].values()) >= 1
    served.settled(run)


def test_a_stream_ends_with_the_token_and_with_the_service(tmp_path: Path) -> None:
    with serving(make_project(tmp_path / "shop")) as served:
        served.token = served.make_token("reader", "--scope", "run")
        owner = served.make_token("owner", "--scope", "admin")
        run = served.start("plans/quick.yaml")
        served.settled(run)
        path = f"{served.api}/runs/{run}/events/stream"
        waits = served.start("plans/waits.yaml")
        log = f"{served.api}/runs/{waits}/log/stream?task=stands"
        awaited(lambda: served.get(log.replace("/log/stream", "/log")).text == "waiting\n")
        with (
            streamed(served, path) as events,
            streamed(served, f"{served.api}/changes") as changes,
            streamed(served, log) as lines,
        ):
            assert _until_the_end(events)
            assert next(lines).data["text"] == "waiting\n"
            name = re.split("_", served.token)[1]
            assert commands.run("token", "revoke", name, folder=served.folder, env=served.environment).code == 0
            assert list(events) == list(lines) == []
            assert all("counts" in change.data for change in changes)
        served.token = owner
        with streamed(served, path) as events:
            assert _until_the_end(events)
            assert stopped(served.process) == 0
            assert list(events) == []
