"""The page of measurements is made from all figures that are kept, whichever rows were measured last."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from workbench import ROOT

PAGE = Path("docs/explanation/performance.md")
PICTURE = Path("docs/pictures/performance.svg")
MEASURED_ANEW = """
import report
from measure import Spread
report._parts = lambda: "another machine"
report.keep("S2", [report.Line("S2", "anew", Spread(1.5, 1.0, 2.0), "× Python", 3, 2.5)], 997, 99.5)
report.write_page()
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The benchmarks with their page, in a checkout where nothing was measured before."""
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns(".cache"))
    for path in (PAGE, PICTURE):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def python(copy: Path, code: str) -> None:
    subprocess.run([sys.executable, "-B", "-c", code], cwd=copy / "benchmarks", check=True, timeout=240)


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| S")]


def test_page_and_picture_are_made_from_the_figures_that_are_kept(copy: Path) -> None:
    python(copy, "import report; report.write_page()")
    for path in (PAGE, PICTURE):
        assert (copy / path).read_text(encoding="utf-8") == (ROOT / path).read_text(encoding="utf-8")


def test_a_row_that_is_measured_anew_leaves_those_of_the_others(copy: Path) -> None:
    before = rows((copy / PAGE).read_text(encoding="utf-8"))
    python(copy, MEASURED_ANEW)
    text = (copy / PAGE).read_text(encoding="utf-8")
    others = [row for row in before if not row.startswith("| S2 |")]
    assert [row for row in rows(text) if row in others] == others
    assert [row for row in rows(text) if row not in others] == [
        "| S2 | anew | 1.50 × Python (1.00–2.00) | ≤ 3 | ≤ 2.5 | goal |  |"
    ]
    assert " or 997 rounds, " in text
    assert "or another machine, load average " in text and "–99.5 when" in text
    assert "S2  anew" in (copy / PICTURE).read_text(encoding="utf-8")
