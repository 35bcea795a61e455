"""What the engine shows at a gate, saves for an undo and puts back is held to the file scopes of the policy."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from planrunner.engine.backups import put_back, save
from planrunner.engine.effects import Restore
from planrunner.engine.evidence import examine
from planrunner.plan.rights import Level
from tests.security.security_desk import Desk

SECRET = "seven-seals"
POLICIES = ["{deny: ['secrets/**']}", "{read: ['open/**']}"]
RULES = {POLICIES[0]: "policy.files.deny", POLICIES[1]: "policy.files.read"}
REPORT = f"<testsuite><testcase name='{SECRET}'><failure/></testcase></testsuite>"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.write("secrets/key", SECRET)
    desk.write("secrets/report.xml", REPORT)
    desk.write("secrets/type.json", json.dumps({"const": SECRET}))
    desk.write("secrets/data.json", json.dumps({SECRET: 1}))
    desk.write("open/note", "an-open-door")
    desk.write("open/type.json", '{"type": "array"}')
    desk.write("open/data.json", "[]")
    (desk.folder / "open/link").symlink_to("../secrets/key")
    return desk


def kept(desk: Desk) -> bytes:
    return b"".join(path.read_bytes() for path in desk.state.rglob("*") if path.is_file())


def gate(kind: str, evidence: Any) -> dict[str, Any]:
    return {"id": "g", "gate": kind, "evidence": evidence}


SECRETS = [
    gate("approval", ["secrets/key"]),
    gate("approval", {"file": "./secrets//key"}),
    gate("tests", ["secrets/report.xml"]),
    gate("schema", [{"schema": "open/type.json", "file": "secrets/data.json"}]),
    gate("schema", [{"schema": "secrets/type.json", "file": "open/data.json"}]),
]
HIDDEN = [gate("approval", ["secrets/*"]), gate("approval", ["open/link"])]
"""What only a look at the disk can tell."""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("task", SECRETS, ids=str)
def test_evidence_that_stands_in_the_plan_is_refused_before_the_start(
    desk: Desk, task: dict[str, Any], policy: str
) -> None:
    desk.write("planrunner.yaml", f"policy: {{files: {policy}}}\n")
    name = desk.plan({"id": "first", "run": f"touch {desk.canary}"}, {**task, "needs": ["first"]})
    (found,) = json.loads(desk.do("lint", name, "--format", "json", code=1).stdout)["findings"]
    assert found["code"] == "PLAN801" and "reading secrets/" in found["message"]
    text = (desk.folder / name).read_text()
    assert "secrets/" in text[found["range"]["start"]["offset"] : found["range"]["end"]["offset"]]
    desk.do("exec", name, code=12)
    assert not desk.canary.exists()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("task", [*SECRETS, *HIDDEN], ids=str)
def test_evidence_that_may_not_be_read_is_refused_with_the_rule_and_not_shown_or_kept(
    desk: Desk, task: dict[str, Any], policy: str
) -> None:
    desk.write("planrunner.yaml", f"policy: {{files: {policy}}}\n")
    later = json.loads(
        json.dumps(task).replace('"secrets/', '"{{ params.at }}/').replace("/secrets/", "/{{ params.at }}/")
    )
    desk.run(later, params={"at": {"type": "string", "default": "secrets"}})
    (seen,) = [entry for entry in desk.entries() if entry["type"] == "gate_examined"]
    (record,) = seen["evidence"]
    assert record["rule"] == RULES[policy] and "secrets/" in record["problem"] and "text" not in record
    told = [desk.do(*words).stdout for words in (("gates", "last"), ("show", "last"), ("why", "last"))]
    assert SECRET not in "".join(told) and SECRET.encode() not in kept(desk)


@pytest.mark.parametrize("policy", POLICIES)
def test_evidence_that_may_be_read_is_shown(desk: Desk, policy: str) -> None:
    desk.write("planrunner.yaml", f"policy: {{files: {policy}}}\n")
    desk.run(gate("approval", ["open/note", {"schema": "open/type.json", "file": "open/data.json"}]))
    assert "an-open-door" in desk.do("gates", "last").stdout
    assert b"an-open-door" in kept(desk)


# Changes of a tree


def git(desk: Desk, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *words], cwd=desk.folder, check=True, capture_output=True, timeout=240)


@pytest.fixture
def tree(desk: Desk) -> Desk:
    (desk.folder / ".git").rmdir()
    git(desk, "init", "-q")
    git(desk, "add", "-A")
    git(desk, "commit", "-qm", "one")
    desk.write("open/note", "a-closed-door")
    return desk


def seen(desk: Desk, look: dict[str, Any], rights: str = "deny", where: str = ".") -> dict[str, Any]:
    levels = (Level("planrunner.yaml", {"files": {rights: ["secrets/**"] if rights == "deny" else ["open/**"]}}),)
    (record,) = examine([{"kind": "diff", "range": "", "paths": [], **look}], str(desk.folder / where), levels)[0]
    return record


@pytest.mark.parametrize("rights", ["deny", "read"])
@pytest.mark.parametrize("look", [{}, {"range": "HEAD"}, {"range": "secrets/key"}, {"paths": ["secrets"]}], ids=str)
def test_changes_of_a_file_that_may_not_be_read_are_not_shown(tree: Desk, look: dict[str, Any], rights: str) -> None:
    tree.write("secrets/key", f"{SECRET}-two")
    record = seen(tree, look, rights)
    assert record["rule"] == f"policy.files.{rights}" and "reading secrets/key" in record["problem"]
    assert SECRET not in str(record)


@pytest.mark.parametrize("move", [["mv", "secrets/key", "open/key"], ["rm", "-q", "secrets/key"]], ids=str)
def test_a_file_that_was_there_is_judged_by_where_it_was(tree: Desk, move: list[str]) -> None:
    git(tree, *move)
    assert seen(tree, {})["rule"] == "policy.files.deny"


def test_a_new_file_that_may_not_be_read_is_not_shown(tree: Desk) -> None:
    tree.write("secrets/new", "x")
    assert seen(tree, {})["rule"] == "policy.files.deny"


@pytest.mark.parametrize("range_", ["HEAD:secrets", "HEAD:secrets/key", "HEAD:secrets..HEAD:open"])
def test_a_range_of_what_is_no_commit_shows_nothing(tree: Desk, range_: str) -> None:
    record = seen(tree, {"range": range_})
    assert "names no commits" in record["problem"] and SECRET not in str(record)


@pytest.mark.parametrize("look", [{}, {"range": "HEAD"}, {"range": "HEAD", "paths": ["open"]}], ids=str)
def test_changes_of_what_may_be_read_are_shown(tree: Desk, look: dict[str, Any]) -> None:
    for rights in ("deny", "read"):
        assert "+a-closed-door" in seen(tree, look, rights)["text"]
    git(tree, "commit", "-qam", "two")
    git(tree, "tag", "-am", "x", "named")
    assert "-an-open-door" in seen(tree, {"range": "HEAD~1..named"})["text"]


def test_paths_are_judged_from_the_working_directory_where_the_tree_begins_above(tree: Desk) -> None:
    tree.write("open/secrets/key", SECRET)
    git(tree, "add", "-A")
    record = seen(tree, {}, where="open")
    assert "denies reading secrets/key" in record["problem"] and SECRET not in str(record)


# What is saved, and put back


@pytest.mark.parametrize("policy", POLICIES)
def test_what_may_not_be_read_is_not_saved(desk: Desk, policy: str) -> None:
    desk.write("planrunner.yaml", f"policy: {{files: {policy}}}\n")
    task = {"id": "a", "uses": "noop", "backup": ["secrets/key"]}
    found = json.loads(desk.do("lint", desk.plan(task), "--format", "json", code=1).stdout)["findings"]
    assert {each["code"] for each in found} == {"PLAN801"}
    for path in ("{{ params.at }}/key", "secrets", "s*", "**/key"):
        told = desk.run({**task, "backup": [path]}, params={"at": {"type": "string", "default": "secrets"}})
        assert told.code == 12, told.stdout + told.stderr
        if path != "secrets":
            (made,) = [entry for entry in told.entries if entry["type"] == "backup_made"]
            assert made["rule"] == RULES[policy] and "reading secrets/" in made["problem"]
    assert SECRET.encode() not in kept(desk)


def test_what_is_named_to_be_saved_has_to_be_writable_for_the_undo(desk: Desk) -> None:
    desk.write("planrunner.yaml", "policy: {files: {write: ['build/**']}}\n")
    task = {"id": "a", "uses": "noop", "backup": ["open/note"]}
    assert "does not allow writing open/note" in desk.do("exec", desk.plan(task), code=12).stderr
    told = desk.run({**task, "backup": ["{{ params.at }}"]}, params={"at": {"type": "string", "default": "open/note"}})
    (made,) = [entry for entry in told.entries if entry["type"] == "backup_made"]
    assert (told.code, made["rule"]) == (12, "policy.files.write")
    assert desk.run({**task, "backup": ["o*/note"]}).code == 0


def test_an_undo_that_may_not_write_any_more_fails_in_words_and_changes_nothing(desk: Desk) -> None:
    desk.write("planrunner.yaml", "policy: {files: {write: ['open/**']}}\n")
    act = {"uses": "files.write", "with": {"path": "open/note", "content": "changed"}, "backup": ["open/note"]}
    assert desk.run({"id": "a", **act}).code == 0
    desk.write("planrunner.yaml", "policy: {files: {write: ['build/**']}}\n")
    done = desk.do("rollback", "last")
    assert done.returncode not in (0, 2), done.stdout + done.stderr
    ends = [entry["outcome"] for entry in desk.entries() if entry["type"] == "undo_ended"]
    assert (ends[-1]["failure"], ends[-1]["rule"]) == ("policy", "policy.files.write")
    assert "planrunner.yaml does not allow writing open/note; to allow it, write there:" in done.stdout + done.stderr
    assert (desk.folder / "open/note").read_text() == "changed"


def test_of_what_is_put_back_that_alone_is_refused_which_changes_where_nothing_may_be_written(desk: Desk) -> None:
    root, state = str(desk.folder), str(desk.state)
    desk.state.mkdir()
    files = save(state, root, ("open", "build"))
    levels = (Level("planrunner.yaml", {"files": {"write": ["build/**"]}}),)
    undo = Restore("undo:a", 1, root, ("open", "build"), files, levels)
    desk.write("build/new", "x")
    assert put_back(state, undo).outputs["changed"] == 2  # the folder and what is in it: the rest stands as it was
    desk.write("open/new", "x")
    desk.write("open/note", "changed")
    (desk.folder / "open/data.json").chmod(0o600)
    (desk.folder / "open/link").unlink()
    desk.write("build/new", "x")
    outcome = put_back(state, undo)
    assert (outcome.failure, outcome.rule) == ("policy", "policy.files.write") and "and 1 more" in outcome.message
    assert (desk.folder / "open/note").read_text() == "changed" and (desk.folder / "open/new").exists()
    assert not (desk.folder / "build").exists() and not (desk.folder / "open/link").is_symlink()
    assert (desk.folder / "open/data.json").stat().st_mode & 0o777 == 0o600
