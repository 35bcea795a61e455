"""Which confinement a call gets: the strictest of what operator, plan and task say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rows import rows

from planrunner.plan.rights import Level
from planrunner.safety.sandbox import presence
from planrunner.safety.sandbox.confinement import (
    EACH,
    STANDARD,
    Command,
    Confinement,
    Place,
    Refused,
    confinement,
    demand,
    scope,
)
from planrunner.safety.sandbox.wrapper import contained, settled


def levels(*policies: Any) -> list[Level]:
    return [Level(name, data) for name, data in zip(("planrunner.yaml", "the plan", "task t"), policies) if data]


def chosen(folder: Path, *policies: Any, untrusted: bool = False) -> Confinement:
    place = Place(str(folder), str(folder / ".planrunner"), "")
    return confinement(levels(*policies), place, untrusted)


@rows(
    ("policies", "kind", "asked"),
    [
        ((), "none", False),
        (({"capabilities": {"deny": ["http.*"]}},), "none", False),
        (({"sandbox": False},), "none", False),
        ((None, {"sandbox": True}), "bubblewrap", True),
        ((None, {"sandbox": {"memory": "1GB"}}), "bubblewrap", True),
        ((None, {"sandbox": "landlock"}), "landlock", True),
        (({"sandbox": "docker"}, {"sandbox": "landlock"}), "docker", True),
        (({"sandbox": "none"}, {"sandbox": {"profile": "bubblewrap"}}, {"sandbox": False}), "bubblewrap", True),
        ((None, None, {"files": {"write": ["a"]}}), "bubblewrap", False),
        (({"sandbox": "none"}, None, {"network": {"allow": ["a.org"]}}), "bubblewrap", False),
    ],
)
def test_the_strictest_level_counts(policies: tuple[Any, ...], kind: str, asked: bool) -> None:
    found = demand(levels(*policies), untrusted=False)
    assert (found.kind, found.asked) == (kind, asked)


def test_a_plan_from_outside_is_always_shut_in() -> None:
    assert demand(levels({"sandbox": False}, {"sandbox": "none"}), untrusted=True).kind == "bubblewrap"


@pytest.mark.parametrize(
    ("policies", "untrusted", "network"),
    [
        ((None, {"sandbox": True}), False, "none"),
        ((None, {"sandbox": {"network": True}}), False, "open"),
        ((None, {"sandbox": {"network": True}}), True, "none"),
        (({"sandbox": {"network": True}},), True, "open"),
        (({"sandbox": {"network": True}}, {"sandbox": {"network": False}}), False, "none"),
        ((None, {"network": {"allow": ["a.org"]}}), False, "judged"),
        ((None, {"network": {"allow": ["a.org"]}}), True, "judged"),
        ((None, {"network": {"allow": []}}), False, "none"),
        ((None, {"network": {"allow": [], "ask": ["a.org"]}, "files": {"write": ["b"]}}), False, "judged"),
        ((None, {"network": {"deny": ["a.org"]}}), False, "judged"),
        ((None, {"network": {"deny": ["a.org"]}, "sandbox": True}), False, "none"),
        ((None, {"files": {"write": ["b"]}}), False, "open"),
        ((), True, "none"),
    ],
)
def test_the_network_is_open_where_every_level_opens_it(
    tmp_path: Path, policies: tuple[Any, ...], untrusted: bool, network: str
) -> None:
    assert chosen(tmp_path, *policies, untrusted=untrusted).network == network


def test_limits_come_together_and_say_whose_they_are(tmp_path: Path) -> None:
    found = chosen(tmp_path, {"sandbox": {"memory": "1GB", "cpu": "2m"}}, {"sandbox": {"memory": "500MB", "output": 0}})
    assert found.limits == STANDARD._replace(memory=500_000_000, cpu=120.0, output=0)
    assert found.origins == {"memory": "the plan", "cpu": "planrunner.yaml", "output": "the plan"}


def test_a_plan_from_outside_cannot_raise_its_limits(tmp_path: Path) -> None:
    wide = {"sandbox": {"memory": "64GB", "processes": 9000}}
    assert chosen(tmp_path, None, wide, untrusted=True).limits == STANDARD
    assert chosen(tmp_path, wide, untrusted=True).limits.processes == 9000
    assert chosen(tmp_path, None, wide).limits.processes == 9000


def test_too_many_files_to_look_at_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planrunner.safety.sandbox.confinement.MOST", 5)
    for number in range(6):
        (tmp_path / f"{number}.txt").touch()
    with pytest.raises(Refused, match=r"would be held against `\*\.txt`"):
        chosen(tmp_path, {"files": {"write": ["*.txt"]}})


@pytest.mark.parametrize("key", ["write", "deny"])
def test_too_many_files_to_let_in_one_by_one_are_refused(tmp_path: Path, key: str) -> None:
    for number in range(EACH - 2):  # the working directory and the state directory count too
        (tmp_path / f"{number}.txt").touch()
    chosen(tmp_path, {"files": {key: ["*.txt"]}})
    for number in range(3):
        (tmp_path / f"more-{number}.txt").touch()
    with pytest.raises(Refused, match=r"more than 500 files would be .* one by one; name the folders"):
        chosen(tmp_path, {"files": {key: ["*.txt"]}})


def test_docker_is_told_everything_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / ".planrunner").mkdir()
    (tmp_path / "planrunner.yaml").touch()
    policy = {"sandbox": {"profile": "docker", "image": "alpine:3", "memory": "100MB", "processes": 9, "files": 64}}
    command = Command(("sh", "-c", "id"), {"TOKEN": "hidden", "PATH": "/x"}, str(tmp_path), "planrunner-1")
    arguments = contained(chosen(tmp_path, policy), command, "/usr/bin/docker")
    text = " ".join(arguments)
    assert text.startswith(
        "/usr/bin/docker run --rm --interactive --init --pull never --name planrunner-1 --network none --read-only "
        "--cap-drop ALL --security-opt no-new-privileges --ulimit core=0 --memory 100000000 --memory-swap 100000000 "
        "--pids-limit 9 --ulimit nofile=64 --user "
    )
    assert f"--volume {tmp_path}:{tmp_path} --volume {tmp_path}/planrunner.yaml:{tmp_path}/planrunner.yaml:ro" in text
    assert f"--tmpfs {tmp_path}/.planrunner:ro" in text
    assert text.endswith(f"--env TOKEN --workdir {tmp_path} --entrypoint sh alpine:3 -c id")
    assert "hidden" not in text and "/x" not in text


@pytest.mark.parametrize(
    ("sandbox", "works", "words"),
    [
        ({"profile": "docker", "image": "a"}, "no docker engine answers: it is off", "no docker engine answers"),
        ({"profile": "docker"}, "", "needs an image"),
    ],
)
def test_docker_that_cannot_be_had_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox: Any, works: str, words: str
) -> None:
    monkeypatch.setattr(presence, "docker", lambda: ("/usr/bin/docker", works))
    with pytest.raises(Refused, match=words):
        settled(chosen(tmp_path, {"sandbox": sandbox}), asked=True)


def test_hosts_are_not_judged_without_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "bubblewrap", lambda: ("", "`bwrap` is not on the PATH"))
    monkeypatch.setattr(presence, "landlock", lambda: 7)
    with pytest.raises(Refused, match="`bwrap` is not on the PATH"):
        settled(chosen(tmp_path, {"network": {"allow": ["a.org"]}}), asked=False)
    assert settled(chosen(tmp_path, {"files": {"write": ["a"]}}), asked=False).kind == "landlock"


@pytest.mark.parametrize(
    "name",
    [
        "planrunner.yaml",
        "planrunner.yaml as it was earlier in the run",
        "profile ci",
        "/etc/ana/planrunner/config.yaml",
    ],
)
def test_every_level_of_the_operator_may_name_places_outside(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "project").mkdir()
    said = {"files": {"read": ["**", f"{tmp_path}/data/**"]}}
    root, state = str(tmp_path / "project"), str(tmp_path / "state")
    assert f"{tmp_path}/data" in scope([Level(name, said)], root, state).readable
    for other in ("plan", "task t", "the plan /x", "planrunner.yml"):
        assert f"{tmp_path}/data" not in scope([Level(other, said)], root, state).readable
