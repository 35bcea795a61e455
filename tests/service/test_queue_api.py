"""The queue and the triggers over HTTP: listed, cancelled, paused, fired, and woken by signed webhooks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Served, awaited, make_project, serving

from planrunner.safety.signatures import signed_headers

SECRET = "a-secret-of-the-hook"
SETTINGS = """
scheduler: {max_concurrency: 1}
triggers:
  nightly: {plan: plans/quick.yaml, cron: "30 2 * * *", timezone: Europe/Berlin}
  push: {plan: plans/takes.yaml, webhook: {secret: hook, params: {word: head.ref}}}
  unready: {plan: plans/takes.yaml, webhook: {secret: other}}
provider_credentials:
  - {id: hook, auth: {source: env, env_var: HOOK_SECRET}}
  - {id: other, auth: {source: env, env_var: NO_SUCH_SECRET}}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = make_project(tmp_path_factory.mktemp("work") / "shop")
    Path(folder, "planrunner.yaml").write_text(SETTINGS)
    with serving(folder, HOOK_SECRET=SECRET) as running:
        yield running


def test_what_waits_is_listed_in_its_order_and_can_be_taken_out(served: Served) -> None:
    first = served.start("plans/waits.yaml")
    awaited(lambda: served.get(f"{served.api}/queue/{first}").data["status"] == "running")
    second, third = served.start("plans/quick.yaml"), served.start("plans/quick.yaml", priority=1)
    queue = served.get(f"{served.api}/queue?status=running&status=waiting").data
    assert [(each["run"], each["ahead"]) for each in queue["items"]] == [(first, None), (third, 0), (second, 1)]
    assert queue["counts"]["waiting"] == 2 and queue["limits"]["concurrency"] == 1 and queue["worker"]
    page = served.get(f"/{served.project}/runs/{second}").text
    assert "1 run before it; 1 of at most 1 runs at once are going on (`scheduler.max_concurrency`)." in page
    gone = served.post(f"{served.api}/queue/{second}/cancel", {"reason": "wrong branch"}).data
    assert (gone["status"], gone["reason"]) == ("cancelled", "wrong branch")
    (served.folder / "go").touch()
    served.settled(third)
    assert served.get(f"{served.api}/runs/{second}").data["status"] == "cancelled"
    assert served.post(f"{served.api}/queue/{second}/cancel", {}).status == 400
    assert served.get(f"{served.api}/queue/nothing").status == 404


def test_a_paused_queue_starts_nothing(served: Served) -> None:
    assert served.post(f"{served.api}/queue/pause", {"reason": "repairs"}).data["paused"]["reason"] == "repairs"
    run = served.start("plans/quick.yaml")
    unbegun = served.get(f"{served.api}/runs/{run}")
    assert (unbegun.status, unbegun.data["status"], unbegun.data["item"]["status"]) == (200, "queued", "waiting")
    assert served.get(f"{served.api}/runs/nothing").status == 404
    shown = served.get(f"{served.api}/queue").data
    assert (shown["paused"]["reason"], shown["items"][0]["status"]) == ("repairs", "waiting")
    assert "repairs" in served.get(f"/{served.project}/queue").text
    assert served.post(f"{served.api}/queue/resume").data["paused"] is None
    assert served.settled(run)["status"] == "completed"


def test_triggers_are_listed_fired_and_paused(served: Served) -> None:
    nightly, push, _ = served.get(f"{served.api}/triggers").data["triggers"]
    assert (nightly["name"], nightly["kind"], len(nightly["next"]), push["kind"]) == ("nightly", "cron", 3, "webhook")
    fired = served.post(f"{served.api}/triggers/nightly/fire")
    assert (fired.status, fired.data["source"]) == (202, "trigger:nightly")
    assert served.settled(fired.data["run"])["status"] == "completed"
    assert (
        served.post(f"{served.api}/triggers/nightly/pause", {"reason": "moving"}).data["paused"]["reason"] == "moving"
    )
    page = served.get(f"/{served.project}/queue").text
    assert "moving" in page and "30 2 * * * (Europe/Berlin)" in page
    assert f"/hooks/{served.project}/push" in page
    assert served.post(f"{served.api}/triggers/nightly/resume").data["paused"] is None
    assert served.post(f"{served.api}/triggers/nigthly/fire").data["hint"].startswith("did you mean `nightly`?")


def test_a_signed_webhook_starts_one_run_and_an_unsigned_one_none(served: Served) -> None:
    body, address = b'{"head": {"ref": "v7"}}', f"/hooks/{served.project}/push"
    headers = {
        name.replace("-", "_"): value
        for name, value in signed_headers(SECRET.encode(), "m1", int(time.time()), body).items()
    }
    answers = [served.ask("POST", address, body, content_type="application/json", **headers) for _ in range(2)]
    assert [each.status for each in answers] == [202, 202]
    (run,) = {each.data["run"] for each in answers}
    assert served.settled(run)["params"] == {"word": "v7"}
    assert served.ask("POST", address, body).status == 401
    assert served.ask("POST", address, b"{}", **headers).status == 401
    old = {name.replace("-", "_"): value for name, value in signed_headers(SECRET.encode(), "m2", 1, body).items()}
    assert served.ask("POST", address, body, **old).status == 401
    unready = served.ask("POST", f"/hooks/{served.project}/unready", body, **headers)
    assert (unready.status, "other" in unready.text, "credential" in unready.text) == (503, False, False)
    for nowhere in (f"/hooks/{served.project}/nothing", "/hooks/nothing/push"):
        assert served.ask("POST", nowhere, body).status == 404
    empty = {
        name.replace("-", "_"): value
        for name, value in signed_headers(SECRET.encode(), "m3", int(time.time()), b"{}").items()
    }
    assert served.ask("POST", address, b"{}", **empty).status == 422
