"""Paths that stand in a plan are held against the file scopes before anything runs, as every call holds them; what only
the call can tell is judged there, by the same function."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planrunner.capabilities.builtin import TARGETS, description_of, load
from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.capabilities.files.scope import scope_in
from planrunner.engine.services import AttemptServices
from planrunner.files.beneath import Beneath
from planrunner.plan.access import Ground, files, touched
from planrunner.plan.model import Task
from planrunner.plan.rights import Level
from tests.security.security_desk import Desk

DENIED = 12


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def scoped(desk: Desk, text: str) -> None:
    desk.write("planrunner.yaml", f"policy: {{files: {text}}}\n")


def test_a_path_that_is_refused_is_found_where_it_stands_and_nothing_starts_until_the_line_is_there(desk: Desk) -> None:
    scoped(desk, "{write: ['**/*.md', 'build/**']}")
    act = {"uses": "files.write", "with": {"content": "out/a", "path": "out/a", "parents": True}}
    name = desk.plan({"id": "first", "run": f"touch {desk.canary}"}, {"id": "a", **act})
    row = json.loads(desk.do("lint", name, "--format", "json", code=1).stdout)["findings"][0]
    text = (desk.folder / name).read_text()
    assert row["code"] == "PLAN801" and row["range"]["start"]["offset"] == text.index("out/a", text.index('"path"'))
    line = "policy: {files: {write: ['**/*.md', build/**, out/a]}}"
    for _ in range(2):  # the second time the plan is known
        done = desk.do("exec", name, code=DENIED)
        assert f"`a`: planrunner.yaml does not allow writing out/a; to allow it, write there: {line}" in done.stderr
    assert not desk.canary.exists()
    desk.write("planrunner.yaml", f"{line}\n")
    desk.do("lint", name, code=0)
    assert desk.run({"id": "a", **act}).code == 0


def test_explain_tells_for_each_task_which_files_it_may_touch_and_which_line_says_so(desk: Desk) -> None:
    desk.write("planrunner.yaml", "policy:\n  files:\n    write: [build/**]\n    deny: [secrets/**]\n")
    name = desk.plan(
        {"id": "a", "cwd": "build", "uses": "files.copy", "with": {"path": "x", "to": "y"}},
        {"id": "b", "uses": "files.read", "with": {"path": "secrets/key"}},
        {"id": "c", "uses": "files.delete", "with": {"path": "{{ params.x }}"}},
        {"id": "d", "uses": "files.write", "with": {"path": str(desk.folder / "src/a"), "content": ""}},
        params={"x": {"type": "string"}},
    )
    told = json.loads(desk.do("policy", "explain", name, "--json", code=DENIED).stdout)["tasks"]
    rows = [
        [(said["way"], said["what"], said["verdict"], said["place"]) for said in task["said"] if said["way"]]
        for task in told
    ]
    assert rows == [
        [("read", "build/x", "allow", ""), ("write", "build/y", "allow", "planrunner.yaml:3:13")],
        [("read", "secrets/key", "deny", "planrunner.yaml:4:12")],
        [("write", "{{ params.x }}", "later", "")],
        [("write", "src/a", "deny", "planrunner.yaml:3:12")],
    ]
    shown = desk.do("policy", "explain", name, code=DENIED).stdout
    assert "  may          write build/y  (policy.files.write: build/**, planrunner.yaml:3:13)\n" in shown
    assert "  may not      read secrets/key  (policy.files.deny: secrets/**, planrunner.yaml:4:12)\n" in shown
    assert "  wants to     write {{ params.x }}  (judged when the task is called)\n" in shown


def test_what_is_copied_needs_to_be_readable_and_not_writable(desk: Desk) -> None:
    desk.write("src/a", "x")
    desk.write("secret/key", "x")
    scoped(desk, "{write: ['build/**'], read: ['src/**']}")
    fine = {"id": "a", "uses": "files.copy", "with": {"path": "src", "to": "build/src", "parents": True}}
    told = desk.run(fine, {"id": "b", "uses": "files.snapshot", "with": {"path": "src"}})
    assert told.code == 0, told.stderr
    assert (desk.folder / "build/src/a").read_text() == "x"
    away = {"id": "a", "uses": "files.move", "with": {"path": "src/a", "to": "build/a"}}
    assert "does not allow writing src/a" in desk.do("exec", desk.plan(away), code=DENIED).stderr


def test_a_snapshot_keeps_nothing_that_may_not_be_read(desk: Desk) -> None:
    desk.write("src/secret/key", "x")
    scoped(desk, "{deny: ['src/secret/**']}")
    keep = {"id": "a", "uses": "files.snapshot", "with": {"path": "src"}}
    assert desk.run(keep).rule("a") == "policy.files.deny"
    keep["with"] = {"path": "src", "exclude": "secret"}
    assert desk.run(keep).outputs("a")["files"] == 0


# One meaning before the start and at the call

_NAME = st.sampled_from(["a", "b", "src", "build", "secret", ".", "..", ""])
_PATH = st.lists(_NAME, min_size=1, max_size=4).map("/".join)
_PATTERN = st.lists(st.sampled_from(["a", "b", "src", "build", "*", "**", "s*"]), min_size=1, max_size=3).map("/".join)
_LIST = st.lists(_PATTERN, max_size=2)
_FILES = st.fixed_dictionaries({}, optional={"read": _LIST, "write": _LIST, "deny": _LIST})
_CALLS = {"read": "files.read", "write": "files.write"}


def _call(root: Path, cwd: str, levels: tuple[Level, ...], inputs: dict[str, Any]) -> Context:
    directory = os.path.normpath(root / cwd)
    call = Call("run", Task("a", cwd=cwd), 1, "k", inputs, "", (), {}, {}, directory, "", None, rights=levels)
    return Context(call, None, lambda: False, AttemptServices(str(root / ".state"), str(root), None, {}))  # type: ignore[arg-type]


def _at_the_call(context: Context, way: str, path: str) -> str:
    """The rule by which the act refuses a path: what opens a file to read it, or says that it may be written."""
    with Beneath(context.call.directory, scope=scope_in(context)) as tree:
        try:
            if way == "write":
                tree.writable(path)
            else:
                os.close(tree.open_to_read(path))
        except OSError:
            return ""
        except Failure as failure:
            return failure.rule
    return ""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ground")
    for folder in ("src/a", "build/src", "a/b", "secret"):
        (root / folder).mkdir(parents=True)
    (root / "link").symlink_to("build")
    return root


_CWD = st.sampled_from(["", "src", "build/src", "a/../a", "./src/a"])


@settings(max_examples=300)
@given(policies=st.lists(_FILES, min_size=1, max_size=2), cwd=_CWD, path=_PATH, way=st.sampled_from(["read", "write"]))
def test_the_verdict_on_a_path_that_stands_in_the_plan_is_that_of_the_call(
    ground: Path, policies: list[dict[str, Any]], cwd: str, path: str, way: str
) -> None:
    levels = tuple(Level(f"task {number}", {"files": each}) for number, each in enumerate(policies))
    inputs = {"path": path, "content": ""}
    task = Task("a", uses=_CALLS[way], inputs=inputs, cwd=cwd)
    capabilities = {name: description_of(name) for name in _CALLS.values()}
    for directory in (str(ground), ""):
        said = [right for _, right in files(levels, task, Ground(capabilities, directory))]
        then = _at_the_call(_call(ground, cwd, levels, inputs), way, path)
        if said and said[0] is not None:
            assert (said[0].rule if said[0].verdict == "deny" else "") == then
        else:  # it names no file below, or a policy says nothing about files
            assert not then.startswith("policy.") or path.strip("./") == ""


@settings(max_examples=100)
@given(policy=_FILES, path=_PATH, way=st.sampled_from(["read", "write"]))
def test_what_is_refused_by_its_words_stays_refused_where_a_link_leads_elsewhere(
    ground: Path, policy: dict[str, Any], path: str, way: str
) -> None:
    levels, inputs = (Level("the plan", {"files": policy}),), {"path": path, "content": ""}
    task = Task("a", uses=_CALLS[way], inputs=inputs, cwd="link")
    ground_of = Ground({name: description_of(name) for name in _CALLS.values()}, str(ground))
    for _, right in files(levels, task, ground_of):
        if right is not None and right.verdict == "deny":
            assert _at_the_call(_call(ground, "link", levels, inputs), way, path) == right.rule


@pytest.mark.parametrize("listed", [True, False])
def test_a_place_outside_is_judged_by_its_full_name(ground: Path, tmp_path: Path, listed: bool) -> None:
    levels = (Level("planrunner.yaml", {"files": {"write": ["**/x", *([str(tmp_path)] if listed else [])]}}),)
    inputs, cwd = {"path": "y", "content": ""}, str(tmp_path)
    task = Task("a", uses="files.write", inputs=inputs, cwd=cwd)
    found = list(files(levels, task, Ground({"files.write": description_of("files.write")}, str(ground))))
    assert [(wanted.entry, right and right.verdict) for wanted, right in found] == [
        (f"{tmp_path}/y", "allow" if listed else "deny")
    ]
    assert _at_the_call(_call(ground, cwd, levels, inputs), "write", "y") == ("" if listed else "policy.files.write")


# Every declared path is judged by its call

_NEEDED = {
    "content": "x",
    "file": "fine/path",
    "method": "POST",
    "snapshot": "0" * 64,
    "statement": "SELECT 1",
    "url": "http://127.0.0.1:9/",
}
_BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("files.template", "path"): {"text": "x"},
    ("git.commit", "paths"): {"author": "A <a@example.org>"},
    ("kb.export", "path"): {"folder": "fine"},
    ("validate.json_schema", "files"): {"schema": True},
    ("validate.json_schema", "schema_file"): {"data": 1},
}


def _declared() -> dict[str, tuple[str, ...]]:
    """The inputs of each capability that a schema calls paths, found by giving them one."""
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(TARGETS):
        capability = description_of(name)
        shapes: dict[str, list[Any]] = {
            field.name: [
                *("sqlite:///x", "./x", {"one": "x"}, {"one": {"path": "x"}}),
                *([{"path": "x"}], [{"source": "x"}], ["x"]),
            ]
            for field in capability.inputs
        }
        ways = {
            (".".join(map(str, touch.at)))
            for key, values in shapes.items()
            for value in values
            for touch in touched(capability, {key: value})
        }
        found |= {name: tuple(sorted(ways))} if ways else {}
    return found


def _inputs(name: str, at: str, path: str) -> dict[str, Any]:
    """A call that gives this path, and otherwise only what it needs."""
    key, *inner = at.split(".")
    value: Any = path
    if key == "diff":
        value = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n"
    elif key == "database":
        value = f"sqlite:///{path}"
    elif key in ("chart", "function"):
        value = f"./{path}" if key == "chart" else f"{path}.py:main"
    elif key == "mounts":
        value = [{"source": path, "target": "/x"}]
    elif key == "blocks":
        value = [{"path": path, "search": "a", "replace": "b"}]
    for each in reversed(inner if key in ("files", "paths", "values_files") else []):
        value = [value] if each == "0" else {each: value}
    needed = [field.name for field in description_of(name).inputs if field.required]
    beside = _BESIDE.get((name, key), {})
    return {**{each: _NEEDED.get(each, f"fine/{each}") for each in needed}, **beside, key: value}


@pytest.mark.parametrize(("name", "at"), [(name, at) for name, ways in _declared().items() for at in ways])
def test_a_path_that_lint_judges_is_judged_by_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, at: str
) -> None:
    if name.startswith("sql."):
        pytest.importorskip("sqlalchemy", reason="the extra `sql` is not installed")
    for folder in ("fine", "shut", "bin"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "path").write_text("a\n")
    (tmp_path / "bin" / "docker").touch(0o755)  # found, and never called
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    if name.startswith("git."):
        subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=240)
    inputs = _inputs(name, at, "shut/path")
    level = Level("the plan", {"files": {"read": ["fine/**"], "write": ["fine/**"]}})
    ground = Ground({name: description_of(name)}, str(tmp_path))
    said = [
        right
        for wanted, right in files((level,), Task("a", uses=name, inputs=inputs), ground)
        if "shut" in wanted.entry
    ]
    context = _call(tmp_path, "", (level,), inputs)
    with pytest.raises(Failure) as refused:
        load(TARGETS[name])(context, **inputs)
    assert refused.value.rule.startswith("policy.files."), refused.value
    assert at == "diff" or [right and right.rule for right in said] == [refused.value.rule]


def test_every_file_that_takes_content_from_elsewhere_is_one_that_policies_judge() -> None:
    for name in TARGETS:
        capability = description_of(name)
        for key in capability.writes:
            touches = [*touched(capability, {key: "x"}), *touched(capability, {key: [{"path": "x"}]})]
            assert touches and {(touch.at[0], touch.way) for touch in touches} == {(key, "write")}, name


_SENT = ("body_file", "files.one", "files.one.path")


def test_whatever_a_call_opens_by_a_path_of_its_inputs_is_declared() -> None:
    assert _declared() == {
        "agent.critique": ("files", "files.0"),
        "branch.apply": ("files.0.path",),
        "kb.claim": ("folder",),
        "kb.export": ("folder", "path"),
        "kb.note": ("folder",),
        "kb.search": ("folder",),
        "docker.build": ("file", "path"),
        "docker.run": ("mounts.0.source",),
        "files.append": ("path",),
        "files.artifact": ("path",),
        "files.copy": ("path", "to"),
        "files.delete": ("path",),
        "files.edit": ("blocks.0.path", "diff"),
        "files.mkdir": ("path",),
        "files.move": ("path", "to"),
        "files.read": ("path",),
        "files.restore": ("path",),
        "files.snapshot": ("path",),
        "files.template": ("path", "template"),
        "files.write": ("path",),
        "http.download": ("path",),
        **{f"git.{verb}": ("paths.0",) for verb in ("add", "commit", "diff")},
        **{f"git.{verb}": ("path",) for verb in ("clone", "worktree_add", "worktree_remove")},
        **{f"http.{method}": _SENT for method in ("delete", "patch", "post", "put", "request")},
        **{f"kubectl.{verb}": ("path",) for verb in ("apply", "delete")},
        "python.run": ("file", "function"),
        "python.scan": ("file",),
        "python.write_tests": ("file", "path"),
        "sql.execute": ("database",),
        "sql.query": ("database",),
        "sql.script": ("database", "file"),
        "validate.json_schema": ("files", "files.0", "schema_file"),
        "validate.junit": ("files", "files.0"),
    }
