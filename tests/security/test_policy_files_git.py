"""What git takes of the working tree, shows of it and changes in it is held to the file scopes of the policy."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.security.security_desk import Desk, Told

SECRET = "seven-seals"
SHUT = "{deny: ['secrets/**']}"


def git(desk: Desk, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    told = subprocess.run(["git", *who, *words], cwd=desk.folder, check=True, capture_output=True, timeout=240)
    return told.stdout.decode()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A repository with the branches `other`, which changes what is secret, and `fine`, which does not."""
    desk = Desk(tmp_path)
    (desk.folder / ".git").rmdir()
    git(desk, "init", "-q")
    desk.write(".gitignore", "/p.json\n/planrunner.yaml\n")
    desk.write("open/note", "main\n")
    desk.write("secrets/key", f"{SECRET} of main\n")
    git(desk, "add", "-A")
    git(desk, "commit", "-qm", "main")
    for branch, path in (("fine", "open/note"), ("other", "secrets/key")):
        git(desk, "checkout", "-q", "-b", branch, "main")
        desk.write(path, f"{SECRET} of other\n" if branch == "other" else "fine\n")
        git(desk, "commit", "-qam", branch)
    git(desk, "checkout", "-q", "main")
    return desk


def scoped(desk: Desk, policy: str, more: str = "") -> None:
    desk.write("planrunner.yaml", f"git: {{name: a, email: a@example.org{more}}}\npolicy: {{files: {policy}}}\n")


def kept(desk: Desk) -> bytes:
    return b"".join(path.read_bytes() for path in desk.state.rglob("*") if path.is_file())


def ran(desk: Desk, uses: str, **inputs: Any) -> Told:
    return desk.run({"id": "a", "uses": uses, "with": inputs})


NAMED: list[tuple[str, dict[str, Any]]] = [
    ("git.add", {"paths": ["open/note", "secrets/key"]}),
    ("git.commit", {"subject": "x", "paths": ["secrets"]}),
    ("git.diff", {"paths": ["./secrets"]}),
    ("git.clone", {"url": "https://example.org/x", "path": "secrets/clone"}),
    ("git.worktree_add", {"path": "secrets/tree"}),
    ("git.worktree_remove", {"path": "secrets/tree"}),
]


@pytest.mark.parametrize(("uses", "inputs"), NAMED, ids=[uses for uses, _ in NAMED])
def test_what_stands_in_the_plan_is_refused_before_the_start_and_at_the_call(
    desk: Desk, uses: str, inputs: dict[str, Any]
) -> None:
    scoped(desk, SHUT)
    name = desk.plan({"id": "a", "uses": uses, "with": inputs})
    (found,) = json.loads(desk.do("lint", name, "--format", "json", code=1).stdout)["findings"]
    assert found["code"] == "PLAN801" and "secrets" in found["message"]
    text = (desk.folder / name).read_text()
    assert "secrets" in text[found["range"]["start"]["offset"] : found["range"]["end"]["offset"]]
    desk.do("exec", name, code=12)
    later = json.loads(json.dumps(inputs).replace("secrets", "{{ params.at }}"))
    told = desk.run({"id": "a", "uses": uses, "with": later}, params={"at": {"type": "string", "default": "secrets"}})
    assert told.rule("a") == "policy.files.deny"
    assert git(desk, "diff", "--cached", "--name-only") == "" and "x" not in git(desk, "log", "--format=%s").split()


TAKEN: list[tuple[str, dict[str, Any]]] = [
    ("git.add", {"paths": ["."]}),
    ("git.add", {"paths": ["."], "force": True}),
    ("git.commit", {"subject": "x", "all": True}),
    ("git.commit", {"subject": "x", "paths": ["."]}),
    ("git.diff", {}),
    ("git.diff", {"base": "main", "target": "other"}),
    ("git.show", {"ref": "other"}),
    ("git.show", {"ref": "main"}),
]


@pytest.mark.parametrize(("uses", "inputs"), TAKEN, ids=str)
def test_what_git_finds_itself_is_judged_before_it_is_taken_or_shown(
    desk: Desk, uses: str, inputs: dict[str, Any]
) -> None:
    desk.write("secrets/key", f"{SECRET} anew")
    scoped(desk, SHUT)
    told = ran(desk, uses, **inputs)
    assert told.rule("a") == "policy.files.deny" and "denies reading secrets/key" in told.message("a")
    assert SECRET.encode() not in kept(desk) and SECRET not in told.stdout
    assert git(desk, "diff", "--cached", "--name-only") == ""
    assert git(desk, "rev-list", "--count", "HEAD") == "1\n"


def test_of_what_is_staged_a_new_file_counts_and_an_ignored_one_where_it_is_taken(desk: Desk) -> None:
    scoped(desk, "{deny: ['**/*.key']}")
    desk.write(".git/info/exclude", "*.key\n")
    desk.write("open/new.key", SECRET)
    desk.write("open/other", "x")
    assert ran(desk, "git.add", paths=["open"]).outputs("a")["entries"] == ["open/other"]
    assert ran(desk, "git.add", paths=["open"], force=True).rule("a") == "policy.files.deny"
    desk.write(".git/info/exclude", "")
    assert ran(desk, "git.commit", subject="x", paths=["open"]).rule("a") == "policy.files.deny"


def test_what_did_not_change_is_not_read(desk: Desk) -> None:
    scoped(desk, SHUT)
    desk.write("open/note", "changed")
    assert ran(desk, "git.diff").outputs("a")["files"][0]["path"] == "open/note"
    assert ran(desk, "git.add", paths=["."]).outputs("a")["entries"] == ["open/note"]
    assert ran(desk, "git.commit", subject="x", all=True).code == 0
    assert ran(desk, "git.show").outputs("a")["files"][0]["path"] == "open/note"


def test_paths_are_judged_from_the_working_directory_whatever_the_settings_of_the_repository_say(desk: Desk) -> None:
    git(desk, "config", "diff.relative", "true")
    desk.write("open/secrets/key", SECRET)
    git(desk, "add", "-A")
    scoped(desk, "{deny: ['open/secrets/**']}")
    for uses, inputs in (("git.diff", {"staged": True}), ("git.commit", {"subject": "x", "paths": ["."]})):
        desk.write("open/secrets/key", f"{SECRET} anew")
        told = desk.run({"id": "a", "uses": uses, "cwd": "open", "with": inputs})
        assert "denies reading open/secrets/key" in told.message("a")


def test_a_folder_that_a_link_leads_to_has_the_files_of_its_tree(desk: Desk) -> None:
    (desk.folder / "open/deep").mkdir()
    (desk.folder / "way").symlink_to("open/deep")
    scoped(desk, "{write: ['open/**'], deny: ['secrets/**']}")
    for ref, rule in (("other", "policy.files.deny"), ("fine", "")):
        told = desk.run({"id": "a", "cwd": "way", "uses": "git.switch", "with": {"ref": ref}})
        assert told.ends["a"].get("rule", "") == rule, told.ends
    assert (desk.folder / "open/note").read_text() == "fine\n"


MOVES: list[tuple[str, dict[str, Any]]] = [
    ("git.switch", {"ref": "other"}),
    ("git.branch", {"name": "new", "start": "other", "switch": True}),
    ("git.merge", {"ref": "other", "ff": "never"}),
]


@pytest.mark.parametrize("policy", [SHUT, "{write: ['open/**']}"])
@pytest.mark.parametrize(("uses", "inputs"), MOVES, ids=str)
def test_no_move_changes_a_file_that_may_not_be_written(
    desk: Desk, uses: str, inputs: dict[str, Any], policy: str
) -> None:
    scoped(desk, policy)
    rule = "policy.files.deny" if policy == SHUT else "policy.files.write"
    assert ran(desk, uses, **inputs).rule("a") == rule
    assert git(desk, "symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert git(desk, "status", "--porcelain") == "" and git(desk, "rev-list", "--count", "HEAD") == "1\n"
    assert (desk.folder / "secrets/key").read_text() == f"{SECRET} of main\n"
    inputs = {name: "fine" if value == "other" else value for name, value in inputs.items()}
    if policy == SHUT:
        if uses == "git.branch":
            git(desk, "branch", "-D", "new")
        assert ran(desk, uses, **inputs).code == 0
        assert (desk.folder / "open/note").read_text() == "fine\n"


def test_what_may_not_be_written_is_not_kept_for_an_undo_either(desk: Desk) -> None:
    scoped(desk, SHUT)
    desk.write("secrets/key", f"{SECRET} anew")
    assert ran(desk, "git.switch", ref="other").rule("a") == "policy.files.deny"
    assert SECRET.encode() not in kept(desk)


def test_an_undo_that_may_not_write_any_more_changes_nothing(desk: Desk) -> None:
    scoped(desk, "{}")
    assert ran(desk, "git.switch", ref="other").code == 0
    scoped(desk, SHUT)
    assert desk.do("rollback", "last").returncode not in (0, 2)
    ends = [entry["outcome"] for entry in desk.entries() if entry["type"] == "undo_ended"]
    assert (ends[-1]["failure"], ends[-1]["rule"]) == ("policy", "policy.files.deny")
    assert git(desk, "symbolic-ref", "HEAD") == "refs/heads/other\n"
    assert (desk.folder / "secrets/key").read_text() == f"{SECRET} of other\n"


def test_no_tree_is_made_or_removed_with_a_file_that_may_not_be_written(desk: Desk) -> None:
    scoped(desk, "{deny: ['trees/*/secrets/**', open/two/secrets]}", ", protocols: [file]")
    (desk.folder / "trees").mkdir()
    act = {"uses": "git.worktree_add", "with": {"path": "trees/one"}}
    assert desk.run({"id": "a", **act}).rule("a") == "policy.files.deny"
    inner = {"id": "a", "cwd": "open", "uses": "git.worktree_add"}
    assert desk.run({**inner, "with": {"path": "two"}}).rule("a") == "policy.files.deny"
    assert desk.run({**inner, "with": {"path": "one"}}).code == 0
    assert ran(desk, "git.clone", url=".", path="trees/two").rule("a") == "policy.files.deny"
    assert not list((desk.folder / "trees").iterdir())
    git(desk, "worktree", "add", "-q", "--detach", "trees/three")
    assert ran(desk, "git.worktree_remove", path="trees/three").rule("a") == "policy.files.deny"
    assert (desk.folder / "trees/three/secrets/key").exists()
    scoped(desk, "{deny: ['trees/*/secrets/*.pem']}", ", protocols: [file]")
    assert desk.run({"id": "a", **act}).code == 0
    assert ran(desk, "git.clone", url=".", path="trees/two").code == 0
    assert ran(desk, "git.worktree_remove", path="trees/one").code == 0


@pytest.mark.parametrize("address", ["other.git", "{folder}/other.git", "file://{folder}/%6fther.git"])
def test_a_repository_of_this_machine_is_a_file_like_others(desk: Desk, address: str) -> None:
    git(desk, "clone", "-q", "--bare", ".", "other.git")
    scoped(desk, "{deny: [other.git]}", ", protocols: [file]")
    told = ran(desk, "git.clone", url=address.format(folder=desk.folder), path="open/clone")
    assert told.rule("a") == "policy.files.deny"
    assert not (desk.folder / "open/clone").exists()


def test_what_is_fetched_from_is_read_and_what_is_pushed_to_is_written(desk: Desk) -> None:
    git(desk, "clone", "-q", "--bare", ".", "other.git")
    scoped(desk, "{read: ['open/**']}", ", protocols: [file]")
    assert ran(desk, "git.fetch", url="other.git").rule("a") == "policy.files.read"
    scoped(desk, "{write: ['open/**']}", ", protocols: [file]")
    assert ran(desk, "git.fetch", url="other.git").code == 0
    assert ran(desk, "git.push", url="other.git").rule("a") == "policy.files.write"


@pytest.fixture
def ruled(tmp_path: Path) -> Desk:
    """A repository with the branch `lax`, whose planrunner.yaml, and a file that it includes, say something else."""
    desk = Desk(tmp_path)
    (desk.folder / ".git").rmdir()
    git(desk, "init", "-q")
    desk.write(".gitignore", "/p.json\n")
    desk.write("planrunner.yaml", "include: strict.yaml\ngit: {name: a, email: a@example.org}\n")
    desk.write("strict.yaml", "policy: {capabilities: {deny: [http.*]}}\n")
    git(desk, "add", "-A")
    git(desk, "commit", "-qm", "main")
    for branch, path in (("lax", "planrunner.yaml"), ("loose", "strict.yaml")):
        git(desk, "checkout", "-q", "-b", branch, "main")
        desk.write(path, "policy: {}\n")
        git(desk, "commit", "-qam", branch)
    git(desk, "checkout", "-q", "main")
    return desk


@pytest.mark.parametrize(("uses", "name"), [("git.merge", "ref"), ("git.switch", "ref")])
@pytest.mark.parametrize(("branch", "path"), [("lax", "planrunner.yaml"), ("loose", "strict.yaml")])
def test_no_move_of_head_replaces_what_rules_over_plans(
    ruled: Desk, uses: str, name: str, branch: str, path: str
) -> None:
    before, head = (ruled.folder / path).read_bytes(), git(ruled, "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
    told = ran(ruled, uses, **{name: branch})
    assert told.rule("a") == "files.protected"
    assert (ruled.folder / path).read_bytes() == before
    assert git(ruled, "rev-parse", "HEAD", "--abbrev-ref", "HEAD") == head and git(ruled, "status", "--porcelain") == ""
