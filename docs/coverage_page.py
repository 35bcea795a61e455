"""The page ``reference/coverage.md``: every requirement with what shows and proves it, from ``docs/coverage.yaml``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "docs" / "coverage.yaml"
REFERENCE = ROOT / "docs" / "reference"

HEAD = """# Coverage

{made}What planrunner does, requirement by requirement: the plans that show it, the commands and pages beside them, and
the tests that prove it, from `docs/coverage.yaml`. Each plan is run by the tests. At least one test of each row goes
through the command line, the API or a page, or acts on real parts. `./dev test FILE::TEST` runs one.
`tests/docs/test_coverage.py` checks that a row keeps what it names.
"""

Row = dict[str, Any]


def sections() -> dict[str, dict[str, Row]]:
    """The requirements by section and id."""
    data: dict[str, dict[str, Row]] = YAML(typ="safe").load(SOURCE.read_text(encoding="utf-8"))
    return data


def rows() -> dict[str, Row]:
    """The requirements by id."""
    return {name: row for section in sections().values() for name, row in section.items()}


def page(made: str) -> str:
    parts = [HEAD.format(made=made)]
    for title, section in sections().items():
        parts.append(f"\n## {title}\n\n| | requirement | shown by | proved by |\n|---|---|---|---|\n")
        parts += [_line(name, row) for name, row in section.items()]
    return "".join(parts)


def _line(name: str, row: Row) -> str:
    what = row["what"] + (f" *Not built yet: {row['missing']}.*" if "missing" in row else "")
    cells = [name, what, ", ".join(_shown(row)), "<br>".join(f"`{test}`" for test in row["tests"])]
    return f"| {' | '.join(cells)} |\n"


def _shown(row: Row) -> Iterator[str]:
    for plan in row.get("plans", ()):
        yield f"[`{plan}`]({_link(plan)})"
    for command in row.get("commands", ()):
        yield f"[`planrunner {command}`](cli.md#{command.partition(' ')[0]})"
    for path in row.get("pages", ()):
        title = (ROOT / path).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        yield f"[{title}]({_link(path)})"


def _link(path: str) -> str:
    return Path(os.path.relpath(ROOT / path, REFERENCE)).as_posix()
