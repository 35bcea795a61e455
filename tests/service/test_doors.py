"""Who may decide is the same at every door: the prompt, the command line, the page, its inbox and the API give one answer
and word it alike; notices, lists and JSON name the same people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import commands
import pytest
from serving import Answer, Served, awaited, make_project, serving

from planrunner.app.history.show import look
from planrunner.app.people.gates import reason_not_allowed
from planrunner.caller import Principal, acting, workspace
from planrunner.errors import DENIED, MISMATCH
from planrunner.machine.questions import find, questions

PLAN = """plan: doors
defaults: {timeout: 1m}
tasks:
  - {id: role, gate: approval, ask: "By role?", approvers: {roles: [release]}}
  - {id: name, gate: approval, ask: "By name?", approvers: {users: [ida]}}
  - {id: either, gate: approval, ask: "By either?", approvers: {roles: [release], users: [ida]}}
  - {id: two, gate: approval, ask: "By two?", approvers: {roles: [release], count: 2}}
  - {id: all, gate: approval, ask: "By all?"}
  - {id: others, gate: approval, ask: "By others?", approvers: {count: 1}}
  - id: fan
    foreach: [x]
    subplan:
      - {id: inner, gate: approval, ask: "Inside?", approvers: {roles: [release]}}
"""
GATES = ("role", "name", "either", "two", "all", "others", "fan[0]/inner")
RELEASE = {"role", "either", "two", "all", "others", "fan[0]/inner"}
MAY = {"bob": RELEASE, "ida": {"name", "either", "all", "others"}, "eve": {"all", "others"}, "sam": {"all"}}
"""Bob has the role by the project, Ida is listed by name, Eve has it by her token alone, Sam has it and started the run."""
WHO = {
    "role": "role `release`, except the person who started the run",
    "either": "role `release` or ida, except the person who started the run",
    "others": "anyone, except the person who started the run",
    "all": "anyone",
}


class House(NamedTuple):
    """A service, a run of it whose gates all wait, and a token for each person."""

    served: Served
    run: str
    tokens: dict[str, str]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = make_project(tmp_path_factory.mktemp("work") / "shop")
    (folder / "planrunner.yaml").write_text(
        "people:\n  bob: [release]\n  sam: [release]\n  ron: [release]\n  ida: []\n"
    )
    (folder / "plans" / "doors.yaml").write_text(PLAN)
    with serving(folder) as served:
        scopes = ("--scope", "run", "--scope", "decide")
        tokens = {name: served.make_token(name, *scopes, "--role", "release") for name in MAY}
        tokens["ron"] = served.make_token("ron", "--scope", "read")
        bearer = f"Bearer {tokens['sam']}"
        started = served.post(f"{served.api}/runs", {"plan": "doors"}, authorization=bearer)
        assert started.status == 202, started
        run = str(started.data["run_id"])

        def listed() -> int:
            told = served.get(f"{served.api}/runs/{run}/gates", authorization=bearer)
            return len(told.data.get("gates", ()))

        awaited(lambda: listed() == len(GATES))
        yield House(served, run, tokens)


def _page(house: House, who: str, path: str) -> Answer:
    form = f"token={house.tokens[who]}&to=/".encode()
    entered = house.served.ask("POST", "/sign-in", form, content_type="application/x-www-form-urlencoded")
    cookie = entered.headers["set-cookie"].partition(";")[0]
    return house.served.get(path, cookie=cookie, accept="text/html")


def at_the_page(house: House, who: str, gate: str) -> bool:
    text = _page(house, who, f"/shop/inbox/{house.run}/{gate.replace('[', '%5B').replace(']', '%5D')}").text
    assert ('value="approve"' in text) != ("may not decide" in text or "no token with the scope" in text), text
    return 'value="approve"' in text


def in_the_inbox(house: House, who: str, gate: str) -> bool:
    lines = _page(house, who, "/shop/inbox?show=all").text.split('<a class="item')[1:]
    (line,) = [line for line in lines if f" · {gate}" in line]
    return "for others" not in line


def at_the_api(house: House, who: str, gate: str) -> bool:
    address = f"{house.served.api}/runs/{house.run}/gates/{gate.replace('[', '%5B').replace(']', '%5D')}/approve"
    said = house.served.post(address, {"shown": "0" * 12}, authorization=f"Bearer {house.tokens[who]}")
    assert said.status in (403, 409), said  # nobody decides here: what a person who may decide saw is outdated
    return bool(said.status == 409)


def at_the_command_line(house: House, who: str, gate: str) -> bool:
    words = ("approve", house.run, gate, "--as", who, "--role", "release", "--shown", "0" * 12)
    code = commands.run(*words, folder=house.served.folder, env=house.served.environment).code
    assert code in (DENIED, MISMATCH)
    return bool(code == MISMATCH)


def at_the_prompt(house: House, who: str, gate: str) -> bool:
    state = look(house.run, str(house.served.folder / ".planrunner")).state
    (question,) = find(questions(state, 0.0), gate)
    with acting(Principal(who, ("release",)), workspace()):
        return not reason_not_allowed(question, state)


@pytest.mark.parametrize(
    "door", [at_the_prompt, at_the_command_line, at_the_page, in_the_inbox, at_the_api], ids=lambda door: door.__name__
)
def test_every_door_gives_the_same_people_the_same_answer(
    house: House, door: Callable[[House, str, str], bool]
) -> None:
    assert {who: {gate for gate in GATES if door(house, who, gate)} for who in MAY} == MAY


@pytest.mark.parametrize("door", [at_the_page, in_the_inbox, at_the_api], ids=lambda door: door.__name__)
def test_a_token_that_is_for_reading_decides_nothing_at_any_door(
    house: House, door: Callable[[House, str, str], bool]
) -> None:
    assert not any(door(house, "ron", gate) for gate in GATES)


def test_every_surface_names_the_same_people(house: House) -> None:
    served, run = house.served, house.run
    listed = commands.run("gates", run, folder=served.folder, env=served.environment).out
    told = served.get(f"{served.api}/runs/{run}/gates", authorization=f"Bearer {house.tokens['bob']}").data["gates"]
    printed = commands.run("gates", run, "--json", folder=served.folder, env=served.environment).data["gates"]
    for gate, who in WHO.items():
        assert {each["who"] for each in (*told, *printed) if each["gate"] == gate} == {who}
        assert who in listed
        page = _page(house, "bob", f"/shop/inbox/{run}/{gate}").text
        assert who.replace("`", "") in page
        if gate != "all":
            assert f"it needs {who}".partition(", except")[0] in _refusal(house, gate)


def _refusal(house: House, gate: str) -> str:
    who = "sam" if gate == "others" else "eve"
    address = f"{house.served.api}/runs/{house.run}/gates/{gate}/approve"
    said = house.served.post(address, {"shown": "0" * 12}, authorization=f"Bearer {house.tokens[who]}")
    return str(said.data["detail"]).replace("it needs another person", "it needs anyone")
