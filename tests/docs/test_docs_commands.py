"""README and docs are true: their commands print what they show, their plans are sound, their links lead somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from commands import run, start
from rows import rows
from workbench import ROOT

from planrunner.plan.schema import document_check
from planrunner.safety.sandbox import presence
from planrunner.source import Source
from planrunner.syntax.notations import parse


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


blocks = _load("blocks")
PAGES = blocks.pages()


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _commands(page: Path) -> bool:
    return any(blocks.runs(block) for block in blocks.blocks(page))


def _called(words: list[str], folder: Path, env: dict[str, str]) -> tuple[str, int]:
    process = start(*words, folder=folder, env=env, is_one_stream=True)
    printed, _ = process.communicate(240)
    code = process.wait()
    return printed, code if code >= 0 else 128 - code


@pytest.mark.parametrize("page", [page for page in PAGES if _commands(page)], ids=_name)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    for program in blocks.needs(page):
        if why := presence.bubblewrap()[1] if program == "bwrap" else "" if shutil.which(program) else "not installed":
            pytest.skip(f"the page needs `{program}`: {why}")
    session = blocks.Session(tmp_path, _called)
    found = [difference for _, differences, _ in blocks.run_page(page, session) for difference in differences]
    told = [f"{one.place}: $ {one.command}\n[exit {one.code}, wanted {one.wanted}]\n{one.printed}" for one in found]
    assert not found, "\n".join(told)


_RUN_ELSEWHERE = {
    "the test of the plan compares it": "tests/docs/test_gallery.py",
    "the peer of the plan has to be started first": "tests/e2e",
}
"""What blocks that are made of plans say, and where those plans run."""


def test_a_block_that_is_not_run_here_runs_in_a_test_or_says_why_not() -> None:
    """The reason stands where a reader sees it: below the block."""
    left = [block for page in PAGES for block in blocks.blocks(page) if "not run" in block.marks]
    assert len(left) > 50
    for block in left:
        reason = block.marks["not run"]
        named = re.match(r"tests/[\w/.]+", _RUN_ELSEWHERE.get(reason, reason))
        if named:
            assert (ROOT / named[0]).exists(), f"{_name(block.page)}:{block.line}: there is no {named[0]}"
            continue
        below = block.page.read_text(encoding="utf-8")[block.end :].partition("\n")[2]
        assert below.startswith(f"\n*Not run by the tests: {reason}.*\n"), f"{_name(block.page)}:{block.line}: {reason}"


_SETTINGS = re.compile(r"^(provider_credentials|agents):", re.MULTILINE)
"""What plans are held to of the settings on their page."""


def _plans() -> Iterator[tuple[str, str, tuple[str, str], list[str]]]:
    """Every whole plan shown on a page, as what file, with the settings before it on its page, and the codes that
    linting it gives (errors only, where nothing is said)."""
    for page in PAGES:
        if page.name == "rules.md":
            continue  # shown there as the rule's own good and bad example, and held to it below
        if page.parent.name == "gallery":
            continue  # made of the files of plans, which are linted as such
        settings = ""
        for block in blocks.blocks(page):
            if block.marks.get("file") == "planrunner.yaml" and _SETTINGS.search(block.body):
                settings = block.body
            in_yaml = block.language == "yaml" and re.search(r"^plan: ", block.body, re.MULTILINE)
            if block.marks.get("file", "").endswith(".test.yaml") or _EVALUATION.search(block.body):
                continue  # what `planrunner test` and `eval` read
            if in_yaml or block.marks.get("file", "").endswith(".plan"):
                name = "shown.yaml" if in_yaml else "shown.plan"
                texts = block.body, settings
                yield f"{_name(page)}:{block.line}", name, texts, block.marks.get("finds", "").split()


_EVALUATION = re.compile(r"^eval: ", re.MULTILINE)


def test_evaluations_shown_are_sound() -> None:
    shown = [block for page in PAGES for block in blocks.blocks(page) if _EVALUATION.search(block.body)]
    assert len(shown) >= 2
    for block in shown:
        tree = parse(Source(block.body, "shown.eval.yaml", "yaml")).tree
        assert tree is not None
        assert document_check("plan-eval.schema.json", "the evaluation", tree) == []


@pytest.mark.parametrize(("place", "name", "texts", "codes"), [pytest.param(*row, id=row[0]) for row in _plans()])
def test_plans_shown_are_sound(place: str, name: str, texts: tuple[str, str], codes: list[str], tmp_path: Path) -> None:
    text, settings = texts
    if settings:
        (tmp_path / "planrunner.yaml").write_text(settings, encoding="utf-8")
    found = _lint(name, text, tmp_path)
    if codes:
        assert sorted({finding["code"] for finding in found}) == sorted(codes)
    else:
        assert [finding for finding in found if finding["severity"] == "error"] == []


def _lint(name: str, text: str, folder: Path) -> list[dict[str, str]]:
    (folder / name).write_text(text, encoding="utf-8")
    findings: list[dict[str, str]] = run("lint", name, "--format", "json", folder=folder, env=os.environ).data[
        "findings"
    ]
    return findings


def _pieces() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        if page.name == "rules.md" or page.parent.name == "gallery":  # broken plans, and plans of files
            continue
        for block in blocks.blocks(page):
            if block.language == "yaml" and not block.marks.get("finds") and block.body[:1] != "#":
                yield f"{_name(page)}:{block.line}", block.body


@pytest.mark.parametrize(("place", "text"), [pytest.param(*row, id=row[0]) for row in _pieces()])
def test_pieces_of_plans_shown_can_be_read(place: str, text: str) -> None:
    assert [found.message for found in parse(Source(text, place, "yaml")).findings if found.severity == "error"] == []


def _links() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if not target.startswith(("http:", "https:", "mailto:")):
                yield _name(page), target


@rows(("page", "target"), sorted(set(_links())))
def test_links_lead_somewhere(page: str, target: str) -> None:
    path, _, anchor = target.partition("#")
    file = (ROOT / page).parent / path if path else ROOT / page
    assert file.exists()
    if anchor:
        assert anchor in _anchors(file)


def test_every_page_is_reached_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    reached = {(index.parent / target).resolve() for page, target in _links() if page == "docs/README.md"}
    assert [
        _name(page) for page in (ROOT / "docs").rglob("*.md") if page != index and page.resolve() not in reached
    ] == []


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_pages_made_from_the_code_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_check_of_the_pages_notices_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generate = _load("generate")
    monkeypatch.setattr(generate, "REFERENCE", tmp_path)
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    (tmp_path / "plan.md").write_text("# Something else\n")
    assert generate.main(["--check"]) == 1


def test_each_diagram_has_a_caption_and_words_around_it() -> None:
    page = (ROOT / "docs" / "explanation" / "diagrams.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^```mermaid\n.*?^```\n+\*Figure (\d)\w?\. ", page, re.MULTILINE | re.DOTALL)
    assert sorted(set(drawn)) == ["1", "2", "3", "4", "5"]
    assert page.count("```mermaid") == len(drawn)
    for section in page.split("\n## ")[1:]:
        assert len(section.partition("```mermaid")[0].split()) > 25
        assert len(re.sub(r"^```.*?^```$", "", section, flags=re.MULTILINE | re.DOTALL).split()) > 100


def test_a_change_of_statuses_that_the_diagram_does_not_know_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    diagrams = _load("diagrams")
    monkeypatch.setitem(diagrams.TASK, "queued", diagrams.TASK["queued"] | {"in_doubt"})
    with pytest.raises(ValueError, match="queued"):
        diagrams.page("")


def test_output_is_compared_line_by_line() -> None:
    assert blocks.matches(["a", "...", "d"], ["a", "b", "c", "d"])
    assert blocks.matches(["took ...", "d"], ["took TIME", "d"])
    assert not blocks.matches(["a", "b"], ["a", "c"])
    assert not blocks.matches(["a"], ["a", "b"])
    assert blocks.neutral("took 1.2s\n") == blocks.neutral("took 345 ms\n")


def test_ci_ends_with_the_command_of_the_readme_and_all_tests() -> None:
    assert "./dev test\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert ".ci/bare ./dev test" in lines
    assert lines[-1] == "./dev test --slow"


def test_the_readme_starts_with_two_commands_and_nothing_before_them() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    start = readme.index("```sh\n") + len("```sh\n")
    commands = [line.split("#")[0].strip() for line in readme[start : readme.index("```", start)].splitlines()]
    assert commands == ["./dev exec plans/check-project.yaml", "./dev test"]


def test_the_two_commands_set_up_again_where_their_interpreter_was_removed(tmp_path: Path) -> None:
    for name in ("dev", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(tmp_path / "removed")
    shutil.copy(ROOT / "pyproject.toml", tmp_path / ".venv/.installed-dev-test")
    interpreter = tmp_path / "interpreter"
    interpreter.write_text('#!/bin/sh\n[ "$1" = -c ] && exit\necho "$*" >>"$0.log"; exit 1\n', encoding="utf-8")
    interpreter.chmod(0o755)
    done = subprocess.run(
        [tmp_path / "dev", "test"],
        env={"PYTHON": str(interpreter), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"`{interpreter} -m venv` failed" in done.stderr
    assert (tmp_path / "interpreter.log").read_text(encoding="utf-8") == f"-m venv {tmp_path}/.venv\n"
