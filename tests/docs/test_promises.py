"""Every promise of the documentation that counts as kept names tests that exist, and one of them is quick."""

from __future__ import annotations

import re

from rows import rows
from slow import ROOMS, SAMPLES, is_slow
from workbench import ROOT

PAGE = (ROOT / "docs" / "explanation" / "promises.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE + SECURITY)))


@rows(("file", "name"), NAMED)
def test_the_test_that_holds_a_promise_exists(file: str, name: str) -> None:
    assert re.search(rf"def {name}\(", (ROOT / file).read_text(encoding="utf-8"))


def test_every_promise_is_kept_by_a_test_or_says_that_it_is_not_built() -> None:
    rows = re.findall(r"^\| (P\d+) \| .* \| (.*) \| (.*)\|$", PAGE, re.MULTILINE)
    assert [row[0] for row in rows] == [f"P{number}" for number in range(1, 20)]
    for promise, state, tests in rows:
        assert ("tests/" in tests) != state.startswith("not built yet"), promise


def test_whatever_is_said_to_be_enforced_names_its_test() -> None:
    tables = re.findall(r"^\| enforced \| by \| held by \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", SECURITY, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(tables) >= 7 and len(rows) >= 30
    for row in rows:
        held = row.rpartition(" | ")[2]
        paths = re.findall(r"`(tests/[\w/]+\.py)", held)
        assert paths and all((ROOT / path).exists() for path in paths), row


def test_every_promise_has_a_test_that_the_command_of_the_readme_runs() -> None:
    for promise, held in re.findall(r"^\| (P\d+) \| .* \| .* \| (.*)\|$", PAGE, re.MULTILINE):
        named = re.findall(r"`tests/([\w/]+\.py)::(?:\w+::)?(\w+)`", held)
        assert any(_is_quick(path, name) for path, name in named), promise


def _is_quick(path: str, name: str) -> bool:
    if is_slow(f"{path}::{name}"):
        return any(sample.startswith(f"{path}::") and name in sample for sample in SAMPLES)
    text = (ROOT / "tests" / path).read_text(encoding="utf-8")
    return not re.search(rf"@pytest\.mark\.slow\n(?: *@.*\n)*? *def {name}\(", text)


def test_the_table_of_slow_tests_names_what_there_is() -> None:
    for room in ROOMS:
        path, _, name = room.partition("::")
        folder, _, start = f"tests/{path}".rpartition("/")
        assert [file for file in (ROOT / folder).iterdir() if file.name.startswith(start)], room
        assert f"def {name}" in ((ROOT / "tests" / path).read_text(encoding="utf-8") if name else "def "), room
    for sample in SAMPLES:
        path, _, name = sample.partition("::")
        assert sample.startswith(ROOMS), sample
        assert f"def {name.partition('[')[0].rpartition('::')[2]}" in (ROOT / "tests" / path).read_text(
            encoding="utf-8"
        )


_TOLD = sorted(
    path
    for top in (
        "README.md",
        "CONTRIBUTING.md",
        "AGENTS.md",
        "SECURITY.md",
        "dev",
        "docs",
        "examples",
        "plans",
        "planrunner",
        ".github",
    )
    for path in ((ROOT / top).rglob("*") if (ROOT / top).is_dir() else [ROOT / top])
    if path.is_file() and path.suffix not in (".pyc", ".png", ".svg") and "_data" not in path.parts
)
_BY_NAME = re.compile(
    r"(?<![\w./-])planrunner(?:\[[a-z,]+\]|[=<>~]=)"  # an extra or a version of the name; `./planrunner[sql]` is the clone
    r"|\b(?:pip|pipx|uv|poetry)\b[^\n]*?\b(?:install|add|download|upgrade)(?: -[\w-]+)* [\"']?planrunner(?! *@|[\w.-]*[/\w])"
)


def test_the_pattern_of_what_installs_by_name_knows_one_from_a_path() -> None:
    bad = [
        "pip install planrunner",
        "pipx install --force 'planrunner[sql]'",
        "uv add planrunner",
        "pip install planrunner==1",
    ]
    good = ["pip install ./planrunner", "pipx install './planrunner[sql]'", 'pip install "planrunner @ git+$A"']
    assert all(map(_BY_NAME.search, bad)) and not any(map(_BY_NAME.search, good))


def test_nothing_says_to_install_by_a_name_that_no_index_has() -> None:
    """What took the name on an index would be installed: a clone, a wheel and packages of extras are named instead."""
    assert len(_TOLD) > 500
    for path in _TOLD:
        found = _BY_NAME.search(path.read_text(encoding="utf-8", errors="replace"))
        assert not found, f"{path.relative_to(ROOT)}: {found[0]}"
