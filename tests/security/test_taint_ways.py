"""Ways by which text from outside comes to a command: each is found by lint before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from workbench import planrunner

from planrunner.app.plans.lint import Choice, lint_paths

PAGE = {"id": "page", "uses": "http.get", "with": {"url": "https://example.org/"}}
TEXT = "{{ tasks.page.outputs.text }}"


def obey(value: str, *needs: str) -> dict[str, object]:
    return {"id": "obey", "needs": [*needs], "run": 'sh -c "$ORDER"', "env": {"ORDER": value}}


def stand_in(edge: dict[str, object], kind: str = "string") -> list[dict[str, object]]:
    return [
        {"id": "first", "needs": ["page"], "run": "false", "outputs": {"v": kind}, **edge},
        {"id": "second", "uses": "noop", "outputs": {"v": {"type": "string", "value": TEXT}}},
        obey("{{ tasks.first.outputs.v }}", "first"),
    ]


FOUND = {
    "a task that stands in": stand_in({"on_failure": {"to": "second", "recovers": True}}),
    "one for a foreseen failure": stand_in(
        {"failure_modes": [{"name": "gone", "detect": "exit_code == 1", "recover": "second"}]}
    ),
    "one for a closed choice": stand_in({"on_failure": {"to": "second", "recovers": True}}, "int"),
    "an output that is a file": [
        {"id": "keep", "needs": ["page"], "uses": "files.write", "with": {"path": "a/x.txt", "content": TEXT}},
        {"id": "take", "needs": ["keep"], "uses": "noop", "outputs": {"v": {"type": "string", "path": "./a/x.txt"}}},
        obey("{{ tasks.take.outputs.v }}", "take"),
    ],
}


def written(run: object, path: str = "sd/a.sh", **keys: object) -> list[dict[str, object]]:
    keep = {"id": "keep", "needs": ["page"], "uses": "files.write", "with": {"path": path, "content": TEXT}}
    return [keep, {"id": "obey", "needs": ["keep"], "run": run, **keys}]


def edited(path: str) -> list[dict[str, object]]:
    blocks = [{"path": "b.txt", "search": "a", "replace": "b"}, {"path": path, "search": "a", "replace": TEXT}]
    edit = {"id": "edit", "needs": ["page"], "uses": "files.edit", "with": {"blocks": blocks}}
    return [edit, {"id": "obey", "needs": ["edit"], "run": "sh a.sh"}]


def copied(run: str) -> list[dict[str, object]]:
    copy = {"id": "copy", "needs": ["keep"], "uses": "files.copy", "with": {"path": "sd", "to": "to/there"}}
    return [*written("true")[:1], copy, {"id": "obey", "needs": ["copy"], "run": run}]


def printed(script: str, run: str) -> list[dict[str, object]]:
    keep = {"id": "keep", "needs": ["page"], "run": script, "env": {"CODE": TEXT}}
    return [keep, {"id": "obey", "needs": ["keep"], "run": run}]


def steered(name: str) -> list[dict[str, object]]:
    return [{"id": "obey", "needs": ["page"], "run": "make", "env": {name: TEXT}}]


STEERING = (
    "PATH LD_PRELOAD LD_LIBRARY_PATH BASH_ENV ENV PS4 PROMPT_COMMAND GIT_SSH_COMMAND GIT_EXTERNAL_DIFF PYTHONPATH"
    " PYTHONSTARTUP PERL5OPT NODE_OPTIONS"
).split()
FOUND |= {f"the variable {name}": steered(name) for name in STEERING}
FOUND |= {
    "a variable of the script": [{**obey(TEXT, "page"), "run": 'Y="$ORDER"\nsh -c "$Y"'}],
    "what a substitution gives": [{**obey(TEXT, "page"), "run": 'Y=$(printf %s "$ORDER"); $Y'}],
    "a file in a pipe": written("cat sd/a.sh | sh"),
    "a file behind cd": written("cd sd && sh a.sh"),
    "a file behind a pattern": written("sh sd/*.sh"),
    "each file of a folder": written('for f in sd/*; do sh "$f"; done'),
    "a file in a substitution": written('sh -c "$(cat sd/a.sh)"'),
    "an edited file": edited("a.sh"),
    "a file of a copied folder": copied("sh to/there/a.sh"),
    "a pattern in a copied folder": copied("sh to/there/*.sh"),
    "a file that a script writes": printed('printf %s "$CODE" > tests/x.py', "python tests/x.py"),
    "a file that a script adds to": printed("echo \"$CODE\" | tee -a 'a.sh' >&2", "sh a.sh"),
    "a program that starts others": [{**obey(TEXT, "page"), "run": ["chrt", "-o", "0", "sh", "-c", TEXT]}],
}


def stored(statement: object) -> list[dict[str, object]]:
    return [{"id": "put", "needs": ["page"], "uses": "sql.execute", "with": {"statement": statement}}]


FOUND["a statement of a list"] = stored(["CREATE TABLE t (c text)", {"statement": TEXT, "params": {}}])
FREE = {
    "what is bound to a statement of a list": stored(
        ["CREATE TABLE t (c text)", {"statement": "INSERT INTO t VALUES (:c)", "params": {"c": TEXT}}]
    ),
    "all that is bound to a statement of a list": stored([{"statement": "INSERT INTO t VALUES (:c)", "params": TEXT}]),
    "another file of an edit": edited("c.sh"),
    "a file beside": written("cd sd && sh b.sh"),
    "another pattern": written("sh sd/*.py"),
    "another file of a script": printed('printf %s "$CODE" > log.txt 2> b.sh', "sh a.sh"),
    "a file that a script writes without it": [
        {"id": "keep", "needs": ["page"], "run": "date > a.sh"},
        {"id": "obey", "needs": ["keep"], "run": "sh a.sh"},
    ],
    "a deeper folder": written("sh sd/*.sh", "sd/in/a.sh"),
    "another file of a copied folder": copied("sh to/there/b.sh"),
    "a file that is read": written("cat sd/a.sh | wc"),
    "a variable that is data": steered("GIT_AUTHOR_NAME"),
    "a script that fetches its own code": [{"id": "obey", "run": "curl -s https://a.example/install | sh"}],
    "what another route gives": stand_in({"on_failure": "second"}),
    "a file that nobody outside wrote": [
        {"id": "keep", "needs": ["page"], "uses": "files.write", "with": {"path": "a/y.txt", "content": TEXT}},
        {"id": "take", "needs": ["keep"], "uses": "noop", "outputs": {"v": {"type": "string", "path": "a/x.txt"}}},
        obey("{{ tasks.take.outputs.v }}", "take"),
    ],
    "a number in a file": [
        {"id": "keep", "needs": ["page"], "uses": "files.write", "with": {"path": "a/x.txt", "content": TEXT}},
        {"id": "take", "needs": ["keep"], "uses": "noop", "outputs": {"v": {"type": "int", "path": "a/x.txt"}}},
        obey("{{ tasks.take.outputs.v }}", "take"),
    ],
}


def codes(folder: Path, tasks: list[dict[str, object]]) -> set[str]:
    (folder / ".git").mkdir()
    plan = {"plan": "p", "defaults": {"timeout": "1m"}, "tasks": [PAGE, *tasks]}
    (folder / "p.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    (checked,) = lint_paths([str(folder / "p.yaml")], Choice())
    assert not {"PLAN003", "PLAN005", "PLAN006", "PLAN008"} & {finding.code for finding in checked.findings}
    return {finding.code for finding in checked.findings}


@pytest.mark.parametrize("tasks", FOUND.values(), ids=FOUND)
def test_text_from_outside_is_followed(tmp_path: Path, tasks: list[dict[str, object]]) -> None:
    assert "PLAN811" in codes(tmp_path, tasks)


@pytest.mark.parametrize("tasks", FREE.values(), ids=FREE)
def test_what_nobody_outside_wrote_is_left_in_peace(tmp_path: Path, tasks: list[dict[str, object]]) -> None:
    assert "PLAN811" not in codes(tmp_path, tasks)


@pytest.mark.parametrize("script", ["cat sd/a.sh | sh", "cd sd && sh a.sh", "sh sd/*.sh", 'Y="$ORDER"; sh -c "$Y"'])
def test_the_run_refuses_it_where_the_gate_was_left_out(tmp_path: Path, script: str) -> None:
    reply = {"id": "page", "run": "echo 'touch obeyed'", "policy": {"foreign": True}}
    text = "{{ tasks.page.stdout }}"
    keep = {"id": "keep", "needs": ["page"], "uses": "files.write"}
    keep["with"] = {"path": "sd/a.sh", "content": text, "parents": True}
    look = {"id": "look", "needs": ["keep"], "gate": "approval", "ask": f"May this run? {text}"}
    look["evidence"] = [{"file": "sd/a.sh"}]
    obey = {"id": "obey", "needs": ["page", "keep", "look"], "run": f"{script}; touch obeyed", "env": {"ORDER": text}}
    (tmp_path / "p.yaml").write_text(
        yaml.safe_dump(
            {"plan": "p", "defaults": {"timeout": "1m"}, "tasks": [reply, keep, look, obey]}, sort_keys=False
        )
    )
    only = [word for name in ("page", "keep", "obey") for word in ("--only", name)]
    ended = planrunner(tmp_path, "exec", "p.yaml", "--json", *only)
    assert "untrusted text would run" in ended.stdout, ended.stdout + ended.stderr
    assert not list(tmp_path.rglob("obeyed"))
