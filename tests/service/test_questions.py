"""The inbox is for those who may decide: by the people of the project, else by the roles of the token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import commands
import pytest
from serving import Answer, Served, awaited, make_project, serving

PLAN = """plan: ask
defaults: {timeout: 1m}
tasks:
  - {id: sign, gate: approval, ask: "Publish?", approvers: {roles: [release]}}
"""
MAY = {
    "bob": ("--scope", "decide"),
    "eve": ("--scope", "decide", "--role", "release"),
    "rob": ("--scope", "read"),
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str, dict[str, str]]]:
    """A service whose project lists its people, a run that waits there, and a token for each person."""
    folder = make_project(tmp_path_factory.mktemp("work") / "shop")
    (folder / "planrunner.yaml").write_text("people:\n  ana: [release]\n  bob: [release]\n  rob: [release]\n")
    (folder / "plans" / "ask.yaml").write_text(PLAN)
    with serving(folder) as served:
        run = served.start("plans/ask.yaml")
        served.settled(run)
        awaited(lambda: served.get(f"{served.api}/gates").data["gates"])
        yield served, run, {name: served.make_token(name, *words) for name, words in MAY.items()}


def _seen(served: Served, token: str, path: str) -> Answer:
    entered = served.ask(
        "POST", "/sign-in", f"token={token}&to=/".encode(), content_type="application/x-www-form-urlencoded"
    )
    return served.get(path, cookie=entered.headers["set-cookie"].partition(";")[0], accept="text/html")


@pytest.mark.parametrize(("who", "mine"), [("bob", 1), ("eve", 0), ("rob", 0)])
def test_the_inbox_counts_what_the_reader_may_decide(
    asked: tuple[Served, str, dict[str, str]], who: str, mine: int
) -> None:
    served, _, tokens = asked
    assert f"For you <b>{mine}</b>" in _seen(served, tokens[who], "/shop/inbox").text


def test_the_question_refuses_in_the_words_of_the_vote(asked: tuple[Served, str, dict[str, str]]) -> None:
    served, run, tokens = asked
    told = "eve may not decide `sign`: it needs role `release`"
    assert told in _seen(served, tokens["eve"], f"/shop/inbox/{run}/sign").text.replace("<code>", "`").replace(
        "</code>", "`"
    )
    gate = served.get(f"{served.api}/runs/{run}/gates", authorization=f"Bearer {tokens['rob']}").data["gates"][0]
    answer = served.post(
        f"{served.api}/runs/{run}/gates/sign/approve",
        {"shown": gate["shown"]},
        authorization=f"Bearer {tokens['eve']}",
    )
    assert (answer.status, told in answer.data["detail"]) == (403, True)


def test_a_trigger_whose_plan_would_be_refused_is_told_wherever_people_look(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    with serving(folder) as served:
        text = (folder / "plans" / "quick.yaml").read_text()
        token = served.make_token("ada", "--scope", "run")
        body = {"path": "plans/sent.yaml", "text": text}
        saved = served.ask("PUT", f"{served.api}/plans", body, authorization=f"Bearer {token}")
        assert saved.status in (200, 201, 204), saved
        (folder / "planrunner.yaml").write_text(
            "triggers: {nightly: {plan: plans/sent.yaml, cron: 30 2 * * *}, gone: {plan: plans/asks.yaml, cron: 1 1 * * *}}\n"
        )
        told = [
            one["problem"]
            for one in served.get(f"{served.api}/triggers", authorization=f"Bearer {token}").data["triggers"]
        ]
        assert "`plans/sent.yaml` is not trusted" in told[0]
        assert told[1] is None
        assert "your token cannot trust plans" in _seen(served, token, "/shop/plans/plans/sent.yaml").text
        page = _seen(served, token, "/shop/inbox").text
        assert "would start nothing" in page
        assert "planrunner trust plans/sent.yaml" in page
        assert str(folder) not in page
        ran = commands.run("gates", folder=folder, env=served.environment)
        assert "trigger nightly" in ran.out
        assert "planrunner trust plans/sent.yaml" in ran.out
