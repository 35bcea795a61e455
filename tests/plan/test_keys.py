"""One table of keys: what is made from it follows a new row, and nothing else lists the keys of a task."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from planrunner.fileio import read_data
from planrunner.plan.keys import PLAN, TASK, Key
from planrunner.plan.model import Plan, Task
from planrunner.plan.shapes import SHAPES
from planrunner.records import fields

ROOT = Path(__file__).parents[2]

FOLLOWING = {"span", "spans", "file", "finally_", "concluding", "computed", "fanout"}
"""Fields that no single key says: places, what a plan says of a task, and what several keys make together."""

MOOD = """
import json, sys
sys.path.insert(0, "docs")
from planrunner import fileio
from planrunner.plan import keys

row = keys.key(
    "mood", "string", "How the author `feels`.",
    read="note", aliases="humour", change="prose", also="defaults", meant="feeling", enum="glad sad",
)
keys.TASK = keys.TASK._replace(keys=(*keys.TASK.keys, row))
import schema_files

read = fileio.read_data
fileio.read_data = lambda *path: schema_files.text(schema_files.of_plans()) if path[-1] == "plan.schema.json" else read(*path)

import generate
from planrunner.app.plans.suggestions import Names, suggestions
from planrunner.plan.canonical import ordered
from planrunner.plan.identity import plain_task
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source
from planrunner.syntax.notations import parse

HEAD = "plan: p\\ndefaults: {timeout: 1m}\\ntasks:\\n  - id: a\\n    run: x\\n"

def loaded(line):
    return load(Source(f"{HEAD}    {line}\\n", "p.yaml", "yaml"), Registry(plugins=False))

def found(line):
    return [(each.code, each.message) for each in loaded(line).findings]

good = loaded("humour: glad")
[task] = good.plan.tasks
whole = f"{HEAD}    m"
print(json.dumps({
    "good": [each.code for each in good.findings],
    "notes": task.notes,
    "plain": plain_task(task).notes,
    "order": [key.value for key, _ in ordered(parse(Source(f"{HEAD}    humour: sad\\n    needs: []\\n", "p.yaml", "yaml"))
              .tree).get("tasks").items[0].entries],
    "misspelt": found("moood: glad"),
    "elsewhere": found("feeling: glad"),
    "wrong": found("mood: angry"),
    "completed": [[each.word, each.about] for each in suggestions(Source(whole, "p.yaml", "yaml"), len(whole),
                  Names(Registry(plugins=False))).words if each.word == "mood"],
    "values": [each.word for each in suggestions(Source(whole + "ood: ", "p.yaml", "yaml"), len(whole) + 5,
               Names(Registry(plugins=False))).words],
    "page": [line for line in generate.plan_page().splitlines() if "`mood`" in line],
    "defaults": "mood" in schema_files.of_plans()["definitions"]["defaults"]["properties"],
}))
"""


def test_a_new_key_is_one_row() -> None:
    done = subprocess.run([sys.executable, "-c", MOOD], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["good"], seen["notes"], seen["plain"]) == ([], {"mood": "glad"}, None)
    assert seen["order"] == ["id", "needs", "run", "mood"]
    assert seen["misspelt"] == [["PLAN003", "a task has no key `moood`, did you mean `mood`?"]]
    assert seen["elsewhere"] == [["PLAN003", "a task has no key `feeling`, did you mean `mood`?"]]
    assert seen["wrong"] == [["PLAN006", "`mood` must be `glad` or `sad`, not `angry`"]]
    assert seen["completed"] == [["mood", "How the author feels."]]
    assert seen["values"] == ["glad", "sad"]
    assert "| `mood`, `humour` | `glad`, `sad` | How the author `feels`. |" in seen["page"]
    assert seen["defaults"]


@pytest.mark.parametrize(("table", "name"), [("of_plans", "plan"), ("of_settings", "project")])
def test_the_published_schema_is_what_the_table_makes(table: str, name: str) -> None:
    code = f"import schema_files; print(schema_files.text(schema_files.{table}()), end='')"
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "docs", capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}
    )
    assert made.stdout == read_data("schemas", f"{name}.schema.json"), made.stderr


def test_every_field_of_the_model_is_said_by_a_key() -> None:
    said = {name for row in TASK.keys for name in row.fields}
    assert {*fields(Task)} - said <= FOLLOWING
    assert {*fields(Plan)} - {name for row in PLAN.keys for name in row.fields} <= FOLLOWING


def test_the_rows_name_keys_and_shapes_that_there_are() -> None:
    names = {row.name for row in TASK.keys}
    for row in TASK.keys:
        assert {*row.apart.split()} | {*row.same.split()} <= names
        assert {*row.also.split()} | {*row.only.split()} <= SHAPES.keys()
    assert [word for row in (*PLAN.keys, *TASK.keys, *SHAPES.values()) for word in _shapes(row)] == []


def _shapes(row: Key) -> list[str]:
    """The names of shapes that a row refers to, and that are none."""
    known = {*SHAPES, "task", "plan", "step", *"string integer number boolean null array object".split()}
    kinds = [row.kind, *(value for word, value in row.schema.items() if word in ("items", "values", "mapping"))]
    words = [word for kind in kinds for word in (kind if isinstance(kind, str) else kind.kind).split()]
    return [word for word in words if word.partition(".")[0] not in known] + [
        word for inner in row.keys for word in _shapes(inner)
    ]


LISTS = {
    "app/plans/suggestions.py": 1,  # what is suggested first
    "machine/approvals.py": 1,  # what an approval of a plan covers
    "plan/canonical.py": 1,  # where a step leads
    "plan/lower/agents.py": 1,  # what a task does, in the order of the messages
    "plan/lower/task.py": 4,
    "plan/rules/literal.py": 1,  # ways out for texts without templates
    "plan/wording.py": 1,  # texts that are expressions
    "views/status.py": 1,  # the order in which words of a task are shown
}
"""Lists of five keys and more beside the table, each of which says what no row could."""


def test_there_is_no_other_list_of_keys() -> None:
    keys = {row.name for row in TASK.keys}
    found: dict[str, int] = {}
    for path in sorted((ROOT / "planrunner").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                words = [each.value for each in node.elts if isinstance(each, ast.Constant)]
            else:
                words = node.value.split() if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
            if len(words) >= 5 and sum(word in keys for word in words) >= 0.8 * len(words):
                place = path.relative_to(ROOT / "planrunner").as_posix()
                found[place] = found.get(place, 0) + 1
    assert {place: count for place, count in found.items() if place != "plan/keys.py"} == LISTS
