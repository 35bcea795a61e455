"""Every requirement keeps what shows and proves it: plans that are sound and run by a test, commands, pages, tests."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from rows import rows
from workbench import ROOT, planrunner

from planrunner.cli.table import COMMANDS

sys.path.append(str(ROOT / "docs"))

import coverage_page

IDS = """
    L1 L2 L3 L4 L5 L6 L7 L8 L9 L10 L11 L12  G1 G2 G3 G4 G5 G6 G7 G8  E1 E2 E3 E4 E5 E6 E7 E8 E9  D1 D2 D3 D4 D5
    R1 R2 R3 R4 R5  H1 H2 H3 H4 H5  P1 P2 P3 P4 P5 P6 P7  C1 C2 C3 C4 C5 C6  A1 A2 A3 A4 A5 A6 A7  K1 K2 K3 K4 K5
    O1 O2 O3 O4  U1 U2 U3 U4 U5  X1 X2 X3 X4 X5  S1 S2 S3  Y1 Y2 Y3 Y4 Y5 Y6
""".split()
WITHOUT_A_PLAN = set("L10 L11 L12 G7 E4 E7 E9 D3 D5 P4 P5 O1 O2 O3 O4 U2 U3 U4 U5 X1 X2 X3 X5 S1".split())
"""What a command or the service shows, whatever the plan is."""

NOT_ALL_BUILT = {"S2"}
KEYS = {"what", "plans", "commands", "pages", "tests", "missing"}

RUNNERS = [
    ("plans", "tests/docs/test_plans.py", "{name}"),
    ("plans/agents", "tests/agents/test_agent_plans.py", "*.yaml"),
    ("plans/capabilities", "tests/e2e/test_plan_*.py", "{name}"),
    ("plans/capabilities", "tests/e2e/test_plan_containers.py", "{stem}"),
    ("plans/playbooks", "tests/playbooks/test_*.py", "{stem}"),
    ("examples/mini-editor/plans", "tests/e2e/test_mini_editor.py", "mini-editor"),
]
"""The modules that run the plans of a folder, and the text by which they name one."""

END_TO_END = (
    "tests/e2e/",
    "tests/cli/",
    "tests/app/",
    "tests/agents/",
    "tests/service/",
    "tests/shell/",
    "tests/playbooks/",
    "tests/plugins/",
    "tests/packaging/",
    "tests/security/",
    "tests/safety/sandbox/",
    "tests/safety/secrets/",
    "tests/crash/",
    "tests/docs/test_plans.py",
    "tests/docs/test_docs_commands.py",
)
"""Where tests go through the command line, the API or a page, or act on real parts."""

Rows = dict[str, dict[str, Any]]


@cache
def _tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@cache
def _texts(path: str) -> frozenset[str]:
    """Every text that stands in a module."""
    nodes = ast.walk(_tree(path))
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@cache
def _exists(test: str) -> bool:
    path, *names = test.split("::")
    if not (ROOT / path).is_file() or not names or not names[-1].startswith("test_"):
        return False
    nodes: list[ast.AST] = list(ast.walk(_tree(path)))
    for name in names:
        inside = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name]
        nodes = [each for node in inside for each in ast.walk(node)]
    return bool(nodes)


@cache
def _is_run(plan: Path) -> bool:
    for folder, modules, text in RUNNERS:
        named = text.format(name=plan.name, stem=plan.stem)
        for module in ROOT.glob(modules) if folder == plan.parent.as_posix() else ():
            texts = _texts(module.relative_to(ROOT).as_posix())
            if any(each == named or each.endswith(f"/{named}") for each in texts):
                return True
    return False


def _faults(rows: Rows, unsound: set[str]) -> Iterator[str]:
    """What is wrong with the table, each fault with its row."""
    yield from (f"{name}: no such requirement" for name in rows.keys() - set(IDS))
    yield from (f"{name}: missing" for name in IDS if name not in rows)
    for name, row in rows.items():
        yield from (f"{name}: {fault}" for fault in _of_row(name, row, unsound))


def _of_row(name: str, row: dict[str, Any], unsound: set[str]) -> Iterator[str]:
    yield from (f"unknown key {key}" for key in row.keys() - KEYS)
    what = row.get("what") or ""
    if not re.fullmatch(r"[A-Z].{20,}\.", what) or re.search(r"\bS\d\b|seed(?!s? of|\.)", what):
        yield "not a sentence that stands for itself"
    if not row.get("plans") and name not in WITHOUT_A_PLAN:
        yield "no plan"
    if not (row.get("plans") or row.get("commands")) and not row.get("pages"):
        yield "nothing shows it"
    if "missing" in row and name not in NOT_ALL_BUILT:
        yield "not all built"
    for plan in row.get("plans", ()):
        if not (ROOT / plan).is_file():
            yield f"no plan {plan}"
        elif plan in unsound:
            yield f"lint finds errors in {plan}"
        elif not _is_run(Path(plan)):
            yield f"no test runs {plan}"
    known = {command for command, *_ in COMMANDS}
    yield from (f"no command {command}" for command in row.get("commands", ()) if command.split()[0] not in known)
    yield from (f"no page {page}" for page in row.get("pages", ()) if not (ROOT / page).is_file())
    yield from (f"no test {test}" for test in row.get("tests", ()) if not _exists(test))
    if not any(test.startswith(END_TO_END) for test in row.get("tests") or ()):
        yield "no test from end to end"


def _unsound(plans: set[str]) -> set[str]:
    """The plans in which lint finds errors."""
    done = planrunner(ROOT, "lint", *sorted(plans), "--format", "json")
    return {each["file"] for each in json.loads(done.stdout)["findings"] if each["severity"] == "error"}


def test_every_requirement_has_a_plan_and_tests() -> None:
    rows = coverage_page.rows()
    plans = {plan for row in rows.values() for plan in row.get("plans", ()) if (ROOT / plan).is_file()}
    assert list(_faults(rows, _unsound(plans))) == []


def test_the_page_shows_every_row_in_the_order_of_the_ids() -> None:
    shown = re.findall(r"^\| ([A-Z]\d+) \|", coverage_page.page(""), re.MULTILINE)
    assert shown == IDS


def _put(name: str, key: str, value: Any) -> Callable[[Rows], None]:
    return lambda rows: rows[name].update({key: value})


def _drop(name: str, *key: str) -> Callable[[Rows], None]:
    return lambda rows: rows[name].pop(key[0]) if key else rows.pop(name)


GATES = "tests/machine/test_gates.py"


@rows(
    ("change", "fault"),
    [
        (_drop("H1"), "H1: missing"),
        (lambda rows: rows.update(H6=rows["H5"]), "H6: no such requirement"),
        (_drop("H1", "what"), "H1: not a sentence that stands for itself"),
        (_put("H1", "what", "Gates are those of S3, all of them."), "H1: not a sentence that stands for itself"),
        (_drop("H1", "plans"), "H1: no plan"),
        (_put("H1", "plans", ["plans/gates.yaml"]), "H1: no plan plans/gates.yaml"),
        (_put("H1", "plans", ["plans/hello.yaml"]), "H1: lint finds errors in plans/hello.yaml"),
        (_put("H1", "plans", ["plans/parts/announce.yaml"]), "H1: no test runs plans/parts/announce.yaml"),
        (_put("H1", "commands", ["approves"]), "H1: no command approves"),
        (_put("H1", "pages", ["docs/gates.md"]), "H1: no page docs/gates.md"),
        (_drop("H1", "tests"), "H1: no test from end to end"),
        (_put("H1", "tests", [f"{GATES}::test_answers_become_typed_outputs"]), "H1: no test from end to end"),
        (_put("H1", "tests", ["tests/e2e/test_a.py::test_b"]), "H1: no test tests/e2e/test_a.py::test_b"),
        (_put("H1", "tests", ["tests/docs/test_plans.py::test_b"]), "H1: no test tests/docs/test_plans.py::test_b"),
        (_put("H1", "tests", ["tests/docs/test_plans.py"]), "H1: no test tests/docs/test_plans.py"),
        (_put("H1", "missing", "gates"), "H1: not all built"),
        (_put("H1", "test", []), "H1: unknown key test"),
        (lambda rows: [rows["X5"].pop(key) for key in ("pages", "plans") if key in rows["X5"]], "X5: nothing shows it"),
    ],
)
def test_a_row_that_loses_something_is_noticed(change: Callable[[Rows], object], fault: str) -> None:
    rows = deepcopy(coverage_page.rows())
    change(rows)
    assert list(_faults(rows, {"plans/hello.yaml"} if "lint" in fault else set())).count(fault) == 1


def test_an_error_that_lint_finds_makes_a_plan_unsound() -> None:
    assert _unsound({"plans/hello.yaml", "tests/corpus/err/cycle-beside-a-bad-key.yaml"}) == {
        "tests/corpus/err/cycle-beside-a-bad-key.yaml"
    }


def test_a_test_may_stand_in_a_class() -> None:
    kills = "tests/app/rollback/test_rollback_standard.py"
    name = "test_at_every_write_of_the_journal_the_state_before_comes_back"
    assert _exists(f"{kills}::TestKilled::{name}") and _exists(f"{kills}::{name}")
    assert not _exists(f"{kills}::TestOther::{name}")
