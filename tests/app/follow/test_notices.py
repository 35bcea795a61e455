"""Who is told that a run waits, failed or is done: signed, at least once, under the same id whenever it is sent."""

from __future__ import annotations

import base64
import hmac
import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from receivers import Receiver, receiver
from workbench import planrunner

from planrunner.app.follow.follower import Follower
from planrunner.app.follow.reporting import Place, Reporting
from planrunner.app.notices import outlet
from planrunner.app.notices.webhook import Refused, send
from planrunner.errors import UsageError

Run = Callable[..., str]
Said = list[str]
SECRET = "a secret of the tests that signs"


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    with receiver() as there:
        yield there


def settle(project: Path, *receivers: str) -> None:
    (project / "planrunner.yaml").write_text("notify:\n" + "".join(f"  - {each}\n" for each in receivers))


def webhook(hook: Receiver, more: str = "") -> str:
    return f"{{webhook: {{url: '{hook.address}/in', secret_env: HOOK_SECRET}}{more}}}"


def once(project: Path) -> tuple[Said, dict[str, str]]:
    """Tell what is outstanding; what was printed, and what could not be delivered."""
    said: Said = []
    with Follower(str(project / ".planrunner")) as follower:
        telling = Reporting(Place("shop", str(project), "http://here", said.append, dict), follower)
        telling.once()
        telling.close()
        return said, telling.problems


def told(hook: Receiver) -> list[Any]:
    return [json.loads(body) for _, body in hook.posts.get("/in", ())]


def test_a_webhook_is_told_what_waits_failed_and_is_done(project: Path, run: Run, hook: Receiver) -> None:
    settle(project, webhook(hook))
    run("quick")
    once(project)
    assert told(hook) == [], "what was there before is not told"
    names = {plan: run(plan) for plan in ("quick", "fails", "asks")}
    once(project)
    by = {each["data"]["plan"]: each for each in told(hook)}
    assert {plan: each["type"] for plan, each in by.items()} == {
        "quick": "run.done",
        "fails": "run.failed",
        "asks": "run.waiting",
    }
    assert by["asks"]["data"]["task"] == "sure"
    assert by["asks"]["data"]["text"] == "Are you sure?"
    assert by["asks"]["data"]["command"] == f"planrunner gates {names['asks']}"
    assert by["fails"]["data"]["task"] == "bad"
    assert by["quick"]["data"]["url"] == f"http://here/shop/runs/{names['quick']}"
    once(project)
    assert len(told(hook)) == 3


def test_every_notice_is_signed_after_standard_webhooks(project: Path, run: Run, hook: Receiver) -> None:
    settle(project, webhook(hook))
    run("quick")
    once(project)
    run("quick")
    once(project)
    ((headers, body),) = hook.posts["/in"]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.digest(SECRET.encode(), signed, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert json.loads(body)["id"] == headers["webhook-id"]
    assert SECRET.encode() not in body


def test_a_receiver_that_is_away_is_told_later_under_the_same_id_and_keeps_no_other_one_waiting(
    project: Path, run: Run, hook: Receiver
) -> None:
    settle(project, webhook(hook), "{terminal: true}")
    run("quick")
    once(project)
    hook.status = 503
    names = [run("quick"), run("fails")]
    said, problems = once(project)
    assert [name in line for name, line in zip(names, said, strict=True)] == [True, True]
    assert [problem.endswith("it answered 503") for problem in problems.values()] == [True]
    hook.status = 200
    assert once(project) == ([], {})
    assert [each["data"]["run_id"] for each in told(hook)] == names
    assert len({each["id"] for each in told(hook)}) == 2


def test_a_notice_that_is_given_up_is_told_at_the_terminal(
    project: Path, run: Run, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(project, webhook(hook))
    run("quick")
    once(project)
    hook.status = 503
    name = run("fails")
    monkeypatch.setattr(outlet, "LATEST", 0.0)
    said, problems = once(project)
    assert (len(said), problems) == (1, {})
    assert name in said[0] and said[0].endswith("it answered 503")


def test_a_receiver_gets_the_kinds_and_plans_that_it_names(project: Path, run: Run) -> None:
    settle(project, "{on: [failed], terminal: true}", "{plans: ['as*'], terminal: true}")
    run("quick")
    once(project)
    for plan in ("quick", "fails", "asks"):
        run(plan)
    said, _ = once(project)
    assert [line.split(" ")[0] for line in said] == ["fails", "asks"]


def test_a_redirect_is_refused_so_that_what_is_signed_stays_where_it_was_sent(hook: Receiver) -> None:
    hook.status = 307
    with pytest.raises(Refused, match="answered 307"):
        send(f"{hook.address}/in", SECRET, "msg_1", {})


def test_a_variable_that_is_not_set_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    settle(project, "{apprise_env: NOT_SET}")
    with pytest.raises(UsageError, match="`NOT_SET`, which is not set"):
        once(project)


def test_apprise_delivers_what_its_address_says(
    project: Path, run: Run, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPRISE_TO", hook.address.replace("http://", "json://") + "/in")
    settle(project, "{on: [failed], apprise_env: APPRISE_TO}")
    run("quick")
    once(project)
    name = run("fails")
    once(project)
    (message,) = told(hook)
    assert message["type"] == "failure"
    assert name in message["message"]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("notify:\n  - {on: [waitng], terminal: true}", "did you mean `waiting`?"),
        ("notify:\n  - {on: [failed]}", "needs the key `terminal`"),
        ("notify:\n  - {terminal: true, apprise_env: X}", "`apprise_env` and `terminal` exclude each other"),
        ("notify:\n  - {webhook: {url: 'https://x/y'}}", "`webhook` needs the key `secret_env`"),
        ("notify:\n  - {webhook: {url: 'https://a:b@x/y', secret_env: S}}", "holds no password"),
        ("telemetry: {endpoint: 'localhost:4318'}", "starts with `http://` or `https://`"),
        ("telemetry: {interval: often}", "write a duration such as `30s`"),
        ("telemetry: {trace: true}", "has no key `trace`"),
    ],
)
def test_settings_are_checked(project: Path, text: str, finding: str) -> None:
    (project / "planrunner.yaml").write_text(textwrap.dedent(text) + "\n")
    assert finding in planrunner(project, "lint", "planrunner.yaml").stdout


def test_exec_sends_at_its_end_what_a_webhook_wants_of_its_run(project: Path, run: Run, hook: Receiver) -> None:
    run("fails")
    settle(project, webhook(hook), "{on: [failed], terminal: true}")
    ran = planrunner(project, "exec", "fails.yaml", "--unattended", "--progress", "quiet", HOOK_SECRET=SECRET)
    assert ran.returncode == 1, ran.stderr
    assert [each["type"] for each in told(hook)] == ["run.failed"], "and nothing of the run before"
    once(project)
    assert len(told(hook)) == 1


def test_exec_says_that_a_notice_waits_which_it_cannot_send(project: Path) -> None:
    settle(project, "{webhook: {url: 'http://127.0.0.1:9/in', secret_env: HOOK_SECRET}}")
    ran = planrunner(project, "exec", "quick.yaml", HOOK_SECRET=SECRET)
    assert ran.returncode == 0, ran.stderr
    assert "note: a notice waits: notify webhook" in ran.stderr
    assert "planrunner telemetry" in ran.stderr
    unset = planrunner(project, "exec", "quick.yaml")
    assert (unset.returncode, "`notify` needs the variable `HOOK_SECRET`" in unset.stderr) == (0, True)
