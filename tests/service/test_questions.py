"""The inbox is for those who may decide: by the people of the project, else by the roles of the token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


QUICK = "plan: quick\ndefaults: {timeout: 1m}\ntasks: [{id: a, uses: noop}]\n"


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """A service of a project with two plans that a token without the right to trust wrote, one of them for a trigger."""
    folder = make_project(tmp_path_factory.mktemp("marked") / "shop")
    triggers = "{nightly: {plan: plans/made.yaml, cron: 30 2 * * *}}"
    (folder / "planrunner.yaml").write_text(f"triggers: {triggers}\n")
    (folder / "plans" / "made.yaml").write_text(QUICK)
    with serving(folder) as served:
        (folder / "plans" / "made.yaml").unlink()
        token = served.make_token("ada", "--scope", "run")
        for name in ("made", "alone"):
            body = {"path": f"plans/{name}.yaml", "text": QUICK}
            made = served.ask("POST", f"{served.api}/plans", body, authorization=f"Bearer {token}")
            assert made.status == 201, made
        yield served, folder


def _get(served: Served, path: str) -> Answer:
    return served.get(served.api + path, authorization=f"Bearer {served.make_token('reads', '--scope', 'read')}")


def _told(entries: list[dict[str, Any]]) -> list[tuple[str, str, list[str]]]:
    return [(each["kind"], each["gate"], each["commands"]) for each in entries]


ASKED = [
    ("trust", "plans/alone.yaml", ["planrunner trust plans/alone.yaml"]),
    ("trigger", "nightly", ["planrunner trust plans/made.yaml"]),
]


def test_what_a_project_asks_is_the_same_for_command_line_api_digest_and_models(marked: tuple[Served, Path]) -> None:
    served, folder = marked
    listed = commands.run("gates", "--json", folder=folder, env=served.environment).data["gates"]
    assert _told(listed) == ASKED
    assert all(each["run_id"] is None and "admin" in each["who"] for each in listed)
    assert _get(served, "/gates").data["gates"] == listed
    digested = commands.run("runs", "digest", "--json", folder=folder, env=served.environment).data["project"]
    assert _told(digested) == ASKED
    assert _told(_get(served, "/digest").data["project"]) == ASKED


def test_what_a_project_asks_is_told_in_words_with_the_commands(marked: tuple[Served, Path]) -> None:
    served, folder = marked
    for words in (("gates",), ("runs", "digest")):
        told = commands.run(*words, folder=folder, env=served.environment).out
        assert "trust plans/alone.yaml  `plans/alone.yaml` runs only once a person trusts it" in told
        assert "    planrunner trust plans/made.yaml" in told
        assert str(folder) not in told


def test_triggers_that_would_start_nothing_say_so_themselves(marked: tuple[Served, Path]) -> None:
    served, _ = marked
    [told] = [each["problem"] for each in _get(served, "/triggers").data["triggers"]]
    assert "`plans/made.yaml` is not trusted" in told


@pytest.mark.parametrize(("scope", "mine"), [("admin", 2), ("run", 0)])
def test_the_inbox_counts_what_a_project_asks_for_those_who_may_trust(
    marked: tuple[Served, Path], scope: str, mine: int
) -> None:
    served, _ = marked
    page = _seen(served, served.make_token(f"for-{scope}", "--scope", scope), "/shop/inbox?show=all").text
    assert f"For you <b>{mine}</b>" in page
    assert "All <b>2</b>" in page


def test_the_inbox_has_a_page_for_what_a_project_asks(marked: tuple[Served, Path]) -> None:
    served, folder = marked
    token = served.make_token("reader", "--scope", "read")
    page = _seen(served, token, "/shop/inbox/-/trigger/nightly").text
    assert "would start nothing" in page
    assert "planrunner trust plans/made.yaml" in page
    assert 'href="/shop/plans/plans/made.yaml"' in page
    assert str(folder) not in page


def test_settings_with_errors_hide_nothing_that_waits(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "shop")
    (folder / "planrunner.yaml").write_text("triggers: [x]\n")
    told = commands.run("gates", "--json", folder=folder, env={})
    [entry] = told.data["gates"]
    assert (entry["kind"], "planrunner.yaml` is not sound" in entry["ask"]) == ("trigger", True)


def test_everything_that_a_run_asks_says_who_may_act_and_how(asked: tuple[Served, str, dict[str, str]]) -> None:
    served, run, _ = asked
    [gate] = _get(served, f"/runs/{run}/gates").data["gates"]
    assert gate["who"] == "role `release`, except the person who started the run"
    assert gate["commands"][1] == f"planrunner reject {run} sign --as NAME --role release --reason TEXT"
