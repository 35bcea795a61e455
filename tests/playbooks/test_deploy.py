"""The playbook `deploy`: what users see of a deployment, and what is left of one that failed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from stage import Stage

from planrunner.capabilities.kubectl.cluster import wanted

Open = Callable[[str], Stage]


def world(stage: Stage) -> dict[str, Any]:
    """The names of all images, and what is wanted of each object of the cluster."""
    held = json.loads((stage.folder / "build/clients/world.json").read_text())
    images = {key: each["RepoTags"] for key, each in held["images"].items()}
    return {"images": images, "objects": {key: wanted(each) for key, each in held["objects"].items()}}


def live(stage: Stage) -> dict[str, str]:
    """The image of each Deployment."""
    objects = world(stage)["objects"].values()
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]["image"] for each in objects}


def failed(stage: Stage) -> list[str]:
    """What clients were told by requests that failed."""
    log = stage.folder / "build/failed"
    return log.read_text().splitlines() if log.exists() else []


def calls(stage: Stage, *words: str) -> int:
    lines = (stage.folder / "build/clients/calls.jsonl").read_text().splitlines()
    asked = [" ".join(json.loads(line)["arguments"]) for line in lines]
    return sum(any(one.startswith(word) for word in words) for one in asked)


def server(stage: Stage, line: str) -> None:
    """Put a line at the start of each answer of the next version."""
    path = stage.folder / "app/server.py"
    path.write_text(path.read_text().replace("    def do_GET(self):\n", f"    def do_GET(self):\n        {line}\n"))


def test_a_version_is_deployed_and_taken_back_and_no_request_fails(staged: Open) -> None:
    stage = staged("deploy")
    before = world(stage)
    run = stage.exec()
    assert (run.code, run.status("promote")) == (8, "blocked"), run.err
    assert live(stage) == {"web": "shop/web:1", "web-canary": "shop/web:2"}
    assert [run.outputs("errors")[track] for track in ("canary", "stable")] == [0, 0]
    assert "canary 0.0 %" in stage.planrunner("gates", "last").out
    stage.planrunner("approve", "last", "promote", "--as", "bo")
    run = stage.resume()
    assert run.code == 0, run.err
    assert run.run["outputs"] == {"image": "shop/web:2"}
    assert live(stage) == {"web": "shop/web:2"}
    assert stage.planrunner("rollback", "last").code == 0
    assert world(stage) == before
    assert failed(stage) == []


@pytest.mark.parametrize(
    ("line", "judged", "window"),
    [
        ("__import__('time').sleep(1)", "latency", "2s"),
        (
            "return self.send_response(500) or self.end_headers() or self.wfile.write(b'out of stock')",
            "errors",
            "500ms",
        ),
    ],
    ids=["slower", "failing"],
)
def test_a_worse_canary_is_taken_back_before_a_person_is_asked(
    staged: Open, line: str, judged: str, window: str
) -> None:
    stage = staged("deploy")
    before = world(stage)
    server(stage, line)
    run = stage.exec("-p", f"window={window}", "-p", "latency=5")
    assert run.code == 1, run.err
    assert run.status(judged) == "failed"
    assert run.outputs(judged)["canary"] > run.outputs(judged)["stable"]
    assert run.status("build") == "rolled_back"
    assert world(stage) == before
    assert all("out of stock" in each for each in failed(stage) if each.startswith("5")), failed(stage)


def test_a_version_that_fails_once_it_has_all_requests_is_taken_back(staged: Open) -> None:
    stage = staged("deploy")
    before = world(stage)
    broken = stage.folder / "build/broken"
    server(stage, f"if __import__('os').path.exists({str(broken)!r}): return self.send_error(500)")
    stage.exec()
    stage.planrunner("approve", "last", "promote", "--as", "bo")
    broken.touch()
    run = stage.resume()
    assert (run.code, run.status("verify")) == (1, "failed"), run.err
    assert world(stage) == before


def test_a_version_that_is_not_approved_leaves_nothing(staged: Open) -> None:
    stage = staged("deploy")
    before = world(stage)
    stage.exec()
    stage.planrunner("reject", "last", "promote", "--as", "bo", "--reason", "not on a Friday")
    assert stage.resume().code == 7
    assert world(stage) == before
    assert failed(stage) == []


def test_a_deployment_killed_at_any_of_its_steps_goes_on_and_does_nothing_twice(staged: Open) -> None:
    stage = staged("deploy")
    stage.exec_killed(at="traffic")
    assert live(stage) == {"web": "shop/web:1", "web-canary": "shop/web:2"}
    assert stage.resume().code == 8
    stage.planrunner("approve", "last", "promote", "--as", "bo")
    stage.killed("promote/apply", "resume", "last", "--unattended")
    assert live(stage)["web"] == "shop/web:2"
    run = stage.resume()
    assert run.code == 0, run.err
    assert live(stage) == {"web": "shop/web:2"}
    assert calls(stage, "build", "push") == 2
    assert failed(stage) == []


def test_a_deployment_killed_while_the_canary_is_asked_is_taken_back(staged: Open) -> None:
    stage = staged("deploy")
    before = world(stage)
    stage.exec_killed(at="traffic")
    assert stage.planrunner("rollback", "last").code == 0
    assert world(stage) == before
    assert failed(stage) == []
