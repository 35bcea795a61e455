"""Files that docker, kubectl and Python are given are held to the file scopes of the policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.security.security_desk import Desk, Told

SHUT = "{deny: ['**/secrets/**']}"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A project with clients that know of nothing, and otherwise do nothing but tell that they were called."""
    desk = Desk(tmp_path)
    unknown = "'image inspect') echo no such image >&2; exit 1"
    for name in ("docker", "kubectl"):
        script = f"case \"$1 $2\" in {unknown};; esac\necho {name} >> '{desk.canary}'"
        desk.write(f"bin/{name}", f"#!/bin/sh\n{script}\n").chmod(0o755)
    desk.env["PATH"] = f"{desk.folder}/bin:/usr/bin:/bin"
    desk.write("secrets/it", "x")
    desk.write("secrets/it.py", f"def main():\n    open({str(desk.canary)!r}, 'w')\n")
    desk.write("deep/secrets/it", "x")
    desk.write("deep/Dockerfile", "FROM scratch\n")
    desk.write("deep/a.yaml", "{}\n")
    desk.write("flat/a.yaml", "{}\n")
    (desk.folder / "link").symlink_to("secrets/it")
    return desk


def scoped(desk: Desk, policy: str) -> None:
    desk.write("planrunner.yaml", f"policy: {{files: {policy}}}\n")


def task(uses: str, inputs: dict[str, Any]) -> dict[str, Any]:
    return {"id": "a", "uses": uses, "with": inputs}


def later(desk: Desk, uses: str, inputs: dict[str, Any]) -> Told:
    """The call with each path in a template."""
    text = json.dumps(inputs).replace("secrets", "{{ params.at }}")
    return desk.run(task(uses, json.loads(text)), params={"at": {"type": "string", "default": "secrets"}})


def refused(told: Told) -> tuple[str, str]:
    """The rule that refused the task and what was said: at its call, or when what undoes it was looked for."""
    looked = [each for each in told.entries if each["type"] == "backup_made" and each.get("problem")]
    (end,) = looked or told.ends.values()
    assert end["failure"] == "policy", end
    return str(end["rule"]), str(end.get("problem") or end["message"])


NAMED: list[tuple[str, dict[str, Any]]] = [
    ("docker.build", {"tag": "x", "path": "secrets"}),
    ("docker.build", {"tag": "x", "path": "flat", "file": "secrets/it"}),
    ("docker.run", {"image": "x", "mounts": [{"source": "secrets", "target": "/x"}]}),
    ("kubectl.apply", {"path": "secrets/it"}),
    ("kubectl.delete", {"path": "./secrets"}),
    ("python.run", {"file": "secrets/it.py"}),
    ("python.run", {"function": "secrets/it.py:main"}),
]


@pytest.mark.parametrize(("uses", "inputs"), NAMED, ids=str)
def test_what_stands_in_the_plan_is_refused_before_the_start_and_at_the_call(
    desk: Desk, uses: str, inputs: dict[str, Any]
) -> None:
    scoped(desk, SHUT)
    name = desk.plan(task(uses, inputs))
    (found,) = json.loads(desk.do("lint", name, "--format", "json", code=1).stdout)["findings"]
    assert found["code"] == "PLAN801" and "reading secrets" in found["message"]
    text = (desk.folder / name).read_text()
    assert "secrets" in text[found["range"]["start"]["offset"] : found["range"]["end"]["offset"]]
    desk.do("exec", name, code=12)
    assert refused(later(desk, uses, inputs))[0] == "policy.files.deny"
    assert not desk.canary.exists()


FOUND: list[tuple[str, dict[str, Any]]] = [
    ("docker.build", {"tag": "x"}),
    ("docker.build", {"tag": "x", "path": "deep"}),
    ("docker.build", {"tag": "x", "path": "flat", "file": "link"}),
    ("docker.run", {"image": "x", "mounts": [{"source": "deep", "target": "/x"}]}),
    ("docker.run", {"image": "x", "mounts": [{"source": "link", "target": "/x"}]}),
    ("kubectl.apply", {"path": "link"}),
    ("python.run", {"file": "link"}),
    ("python.run", {"function": "secrets.it:main"}),
]


@pytest.mark.parametrize(("uses", "inputs"), FOUND, ids=str)
def test_what_lies_in_a_folder_and_where_links_lead_is_judged_at_the_call(
    desk: Desk, uses: str, inputs: dict[str, Any]
) -> None:
    scoped(desk, SHUT)
    rule, said = refused(desk.run(task(uses, inputs)))
    assert rule == "policy.files.deny" and "secrets/it" in said
    assert not desk.canary.exists()


@pytest.mark.parametrize("source", ["flat", "{{ params.at }}"])
def test_a_folder_that_a_container_may_write_has_to_be_writable(desk: Desk, source: str) -> None:
    def mounted(write: Any) -> dict[str, Any]:
        return task("docker.run", {"image": "x", "mounts": [{"source": source, "target": "/x", "write": write}]})

    params = {"at": {"type": "string", "default": "flat"}, "yes": {"type": "bool", "default": True}}
    scoped(desk, "{read: ['flat/**'], write: ['build/**']}")
    told = desk.run(mounted(False), params=params)
    assert told.code == 0, told.stderr
    desk.canary.unlink()
    assert desk.run(mounted("{{ params.yes }}"), params=params).rule("a") == "policy.files.write"
    name = desk.plan(mounted(True), params=params)
    if source == "flat":
        line = "write there: policy: {files: {write: [build/**, flat]}}"
        assert line in desk.do("exec", name, code=12).stderr
    else:
        assert desk.run(mounted(True), params=params).rule("a") == "policy.files.write"
    assert not desk.canary.exists()
    scoped(desk, "{write: [flat]}")
    assert desk.run(mounted(True), params=params).code == 0
    scoped(desk, "{write: [flat], deny: ['flat/sub/**']}")
    (desk.folder / "flat/sub").mkdir()
    assert desk.run(mounted(True), params=params).rule("a") == "policy.files.deny"


def test_manifests_of_a_folder_are_judged_and_nothing_else_in_it(desk: Desk) -> None:
    scoped(desk, SHUT)
    told = desk.run(task("kubectl.apply", {"path": "deep"}))
    assert "policy" not in told.stdout and desk.canary.exists()
    scoped(desk, "{deny: ['deep/*.yaml']}")
    assert refused(desk.run(task("kubectl.apply", {"path": "deep"})))[0] == "policy.files.deny"


def test_explain_tells_what_each_of_them_reads_and_writes(desk: Desk) -> None:
    scoped(desk, "{write: ['flat/**']}")
    mount = {"source": "flat", "target": "/x"}
    name = desk.plan(
        task("docker.run", {"image": "x", "mounts": [{**mount, "write": True}, mount]}),
        {**task("python.run", {"function": "shop.prices:of"}), "id": "c"},
        {**task("git.add", {"paths": [".", "flat/a.yaml"]}), "id": "d"},
    )
    told = json.loads(desk.do("policy", "explain", name, "--json", code=0).stdout)["tasks"]
    rows = [[(said["way"], said["what"], said["verdict"]) for said in each["said"] if said["way"]] for each in told]
    assert rows == [
        [("write", "flat", "allow"), ("read", "flat", "allow")],
        [("read", "shop.prices:of", "later")],
        [("read", ".", "later"), ("read", "flat/a.yaml", "allow")],
    ]
