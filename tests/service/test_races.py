"""Two people decide the same gate at once, by the page, the API and the command line: one decision, and all are told."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import commands
import pytest
from serving import Served, awaited, make_project, serving

GATES = int(os.environ.get("PLANRUNNER_RACES", "24"))
_TOO_LATE = re.compile("decided|ended|already (completed|failed)")
"""With the last decision the run comes to its end."""


class Person(NamedTuple):
    """A person who has signed in: the token, and the cookie of the page."""

    token: str
    cookie: str


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with a run that asks for many decisions."""
    folder = make_project(tmp_path_factory.mktemp("work") / "shop")
    tasks = "".join(f"  - {{id: g{number}, ask: 'Go on?'}}\n" for number in range(GATES))
    text = f"plan: many\non_failure: continue\ndefaults: {{timeout: 5m}}\ntasks:\n{tasks}"
    (folder / "plans" / "many.yaml").write_text(text)
    with serving(folder) as running:
        running.token = running.make_token("owner", "--scope", "admin")
        yield running


def _person(served: Served, name: str) -> Person:
    token = served.make_token(name, "--scope", "decide")
    body = urlencode({"token": token, "to": "/"}).encode()
    served_as = {"content_type": "application/x-www-form-urlencoded", "authorization": ""}
    entered = served.ask("POST", "/sign-in", body, **served_as)
    cookie = entered.headers["set-cookie"].partition(";")[0]
    return Person(token, cookie)


def _by_api(served: Served, who: Person, run: str, gate: dict[str, Any], verdict: str) -> bool:
    path = f"{served.api}/runs/{run}/gates/{quote(gate['gate'], safe='')}/{verdict}"
    said = {"shown": gate["shown"], "rationale": "a word"}
    answer = served.post(path, said, authorization=f"Bearer {who.token}")
    assert answer.status in (200, 400, 409), answer
    assert answer.status == 200 or _TOO_LATE.search(answer.data["detail"]), answer.data
    return answer.status == 200


def _by_command(served: Served, run: str, gate: dict[str, Any], verdict: str) -> bool:
    words = (verdict, run, gate["gate"], "--shown", gate["shown"], "--reason", "a word")
    ran = commands.run(*words, folder=served.folder, env=served.environment)
    assert ran.code == 0 or _TOO_LATE.search(ran.err), ran.err
    return ran.code == 0


def _by_page(served: Served, who: Person, run: str, gate: dict[str, Any], verdict: str) -> bool:
    path = f"/{served.project}/inbox/{run}/{quote(gate['gate'], safe='')}"
    page = served.get(path, cookie=who.cookie, authorization="", accept="text/html").text
    form = re.search(r'name="form" value="([^"]+)"', page)
    if form is None:
        return False  # the page shows the decision of another one
    fields = {"form": form[1], "shown": gate["shown"], "comment": "a word", "decision": verdict}
    answer = served.ask(
        "POST", path, urlencode(fields).encode(), cookie=who.cookie, authorization="",
        content_type="application/x-www-form-urlencoded", accept="text/html",
    )  # fmt: skip
    assert answer.status in (303, 400, 409), answer.text
    return answer.status == 303


def test_one_decision_is_made_whoever_asks_and_all_others_are_told(guarded: Served) -> None:
    ada, ben = _person(guarded, "ada"), _person(guarded, "ben")
    run = guarded.start("plans/many.yaml")
    guarded.settled(run)
    gates = guarded.get(f"{guarded.api}/runs/{run}/gates").data["gates"]
    assert len(gates) == GATES
    with ThreadPoolExecutor(3) as pool:
        for number, gate in enumerate(gates):
            one, other = ("approve", "reject") if number % 2 else ("reject", "approve")
            asked = [
                pool.submit(_by_api, guarded, ada, run, gate, one),
                pool.submit(_by_page, guarded, ben, run, gate, other),
                pool.submit(_by_command, guarded, run, gate, other),
            ]
            assert sum(each.result() for each in asked) == 1, gate["gate"]
    awaited(lambda: guarded.run(run)["ended"])
    votes: dict[str, int] = {}
    after = 0
    while after is not None:
        page = guarded.get(f"{guarded.api}/runs/{run}/events?type=gate_voted&limit=500&after={after}").data
        for event in page["events"]:
            votes[event["task"]] = votes.get(event["task"], 0) + 1
        after = page["after"]
    assert votes == {gate["gate"]: 1 for gate in gates}
