"""The pages below ``docs/gallery``: each plan of ``docs/gallery.yaml`` with its text, its graph and its output.

``pages`` makes them of the files of the plans; the output of a run is kept as it is on the page. The tests of the plans
compare it with their runs (``tests/shown.py``), or write it there:

    PLANRUNNER_GALLERY=write PLANRUNNER_AGENTS=all python -m pytest tests/{docs,agents,e2e}/test_*plan*.py
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import blocks
from ruamel.yaml import YAML

from planrunner.app.plans.lint import load_plan
from planrunner.views.graph import draw_graph

ROOT = Path(__file__).resolve().parents[1]
PLANS = ROOT / "plans"
SOURCE = ROOT / "docs" / "gallery.yaml"
GALLERY = ROOT / "docs" / "gallery"
PLAYBOOKS = "playbooks"

HEAD = """\
# {title}

{made}{about} [All of the gallery](README.md).
"""

INDEX = """\
# Gallery

{made}Each plan in `plans/` shows one idea. Here they are from simple to rich, each with its text, its graph and the
output of a run; the tests run each and compare. `planrunner exec plans/NAME.yaml` runs one in a clone of the
repository. The shape of a box is the [role](../explanation/diagrams.md#the-roles-of-tasks) of the task. For a project
of your own, start from a [playbook](playbooks.md).
"""

MOST = 48
"""Lines of an output."""
_REPORT = re.compile(r"(?:^ {4}[^\n]*\n(?:\n+(?= {4}))?){9,}", re.MULTILINE)
"""So many lines of one task are the report of another program, which is not shown."""

ENDS = {
    1: "Exit code 1: the run failed.",
    7: "Exit code 7: a gate did not let it pass.",
    8: "Exit code 8: the run waits for a person.",
}


class Shown(NamedTuple):
    """What the page of a plan shows of a run of it: the command, what it printed, and its exit code."""

    command: str
    printed: str
    code: int


@cache
def sections() -> dict[str, dict[str, Any]]:
    """The sections by the names of their pages, playbooks last."""
    data: dict[str, dict[str, Any]] = YAML(typ="safe").load(SOURCE.read_text(encoding="utf-8"))
    shortest = sorted((PLANS / PLAYBOOKS).glob("*.yaml"), key=lambda path: (path.stat().st_size, path.name))
    playbooks = {f"{PLAYBOOKS}/{path.name}": "" for path in shortest}
    about = (
        "Whole plans to start from: `planrunner init --playbook NAME` puts one into a project, with its tests and a "
        "rehearsal. What a run prints is on the page of each."
    )
    return {**data, PLAYBOOKS: {"title": "Playbooks", "about": about, "plans": playbooks}}


def pages(made: str) -> Iterator[tuple[Path, str]]:
    """Every page and its text; ``made`` is the line that says so."""
    yield GALLERY / "README.md", _index(made)
    for name, section in sections().items():
        parts = [HEAD.format(title=section["title"], made=made, about=section["about"])]
        for plan, page in section["plans"].items():
            parts += _entry(plan, page)
        yield GALLERY / f"{name}.md", "".join(parts)


def _index(made: str) -> str:
    parts = [INDEX.format(made=made)]
    for name, section in sections().items():
        parts.append(f"\n## [{section['title']}]({name}.md)\n\n{section['about']}\n\n| plan | idea |\n|---|---|\n")
        for plan in section["plans"]:
            idea = re.split(r"(?<=[.?])\s", _comment(plan)[0].replace("\n", " "))[0].replace("|", "\\|")
            parts.append(f"| [{_name(plan)}]({name}.md#{_anchor(plan)}) | {idea} |\n")
    return "".join(parts)


def _name(plan: str) -> str:
    """``hello``; a plan in the text notation keeps its ending."""
    return Path(plan).name.removesuffix(".yaml")


def _anchor(plan: str) -> str:
    return _name(plan).replace(".", "")


def _entry(plan: str, page: str) -> Iterator[str]:
    comment = "\n\n".join(_comment(plan))
    own = f"playbooks/{_name(plan)}.md"
    if not page and (ROOT / "docs" / own).exists():
        page = own
    links = f"[`plans/{plan}`](../../plans/{plan})" + (f", [how to](../{page})" if page else "")
    yield f"\n## {_name(plan)}\n\n{comment}\n\n{links}\n\n"
    if not plan.startswith(PLAYBOOKS):
        yield f"```{'text' if plan.endswith('.plan') else 'yaml'}\n{_text(plan)}```\n\n"
    yield f"```mermaid\n{draw(plan)}```\n"
    if (kept := shown(plan)) is not None:
        yield f"\n{_block(kept)}"


def _block(kept: Shown) -> str:
    mark = "<!-- not run: the test of the plan compares it -->"
    end = f"\n{ENDS[kept.code]}\n" if kept.code else ""
    return f"{mark}\n```console\n$ {kept.command}\n{kept.printed}```\n{end}"


def _lines(plan: str) -> tuple[list[str], list[str]]:
    """The comment at the head of a plan, without its signs, and the lines after it."""
    lines = (PLANS / plan).read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line and not line.startswith("#"))
    head = [line[1:].removeprefix(" ") for line in lines[:start] if not line.startswith("# yaml-language-server")]
    return head, lines[start:]


def _text(plan: str) -> str:
    return "\n".join(_lines(plan)[1]) + "\n"


def _comment(plan: str) -> list[str]:
    """The comment at the head of a plan as paragraphs, commands in it as blocks; its title where it has none."""
    paragraphs: list[str] = []
    code: list[str] = []
    prose: list[str] = []
    for line in [*_lines(plan)[0], ""]:
        if line.startswith("  ") and (code or not prose):
            code.append(line.strip())
            continue
        if code:
            body = "\n".join(code)
            paragraphs.append(f"<!-- not run: the peer of the plan has to be started first -->\n```sh\n{body}\n```")
            code = []
        if prose and (not line or line.startswith("Look at:")):
            paragraphs.append("\n".join(prose))
            prose = []
        if line:
            prose.append(line)
    return paragraphs or [title(plan)]


def title(plan: str) -> str:
    found = re.search(r"^title: (.+)$", _text(plan), re.MULTILINE)
    return found[1] if found else _name(plan)


def draw(plan: str) -> str:
    """The graph of a plan, as ``planrunner graph --format mermaid`` gives it."""
    return draw_graph(load_plan(str(PLANS / plan)), "mermaid")


def page_of(plan: str) -> Path:
    """The page that shows a plan. Raises StopIteration for one that no page has."""
    return GALLERY / f"{next(name for name, section in sections().items() if plan in section['plans'])}.md"


def shown(plan: str) -> Shown | None:
    """What the page shows of a run of a plan; None where it shows none."""
    page = page_of(plan)
    found = _OUTPUT.search(_part(page.read_text(encoding="utf-8"), plan)) if page.exists() else None
    return Shown(found[1], found[2], int(found[3] or 0)) if found else None


def write(plan: str, seen: Shown) -> None:
    """Put what a run printed onto the page of its plan, which has the plan already; what is long is shortened."""
    lines = _REPORT.sub("    ...\n", seen.printed).splitlines(keepends=True)
    if len(lines) > MOST:
        lines = [*lines[: MOST - 16], "...\n", *lines[-12:]]
    seen = seen._replace(printed="".join(lines))
    page = page_of(plan)
    text = page.read_text(encoding="utf-8")
    part = _part(text, plan)
    bare = _OUTPUT.sub("", part).rstrip("\n")
    page.write_text(text.replace(part, f"{bare}\n\n{_block(seen)}" + "\n" * part.endswith("\n\n")), encoding="utf-8")


_OUTPUT = re.compile(
    r"<!-- not run: the test [^\n]*\n```console\n\$ ([^\n]*)\n(.*?)^```\n(?:\nExit code (\d+)[^\n]*\n)?",
    re.MULTILINE | re.DOTALL,
)


def _part(text: str, plan: str) -> str:
    """What a page says of a plan, heading included; empty where it has not got it."""
    found = re.search(rf"^## {re.escape(_name(plan))}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def differences(plan: str, seen: Shown) -> list[str]:
    """Lines that only the page or only the run has, whatever their order, since tasks run side by side. Times, ids and
    addresses may differ."""
    kept = shown(plan)
    if kept is None:
        return [f"{page_of(plan).relative_to(ROOT)} shows no output of {plan}"]
    expected, printed = Counter(_neutral(kept.printed)), Counter(_neutral(seen.printed))
    shortened = expected.pop("...", 0)
    told = [f"- {line}" for line in (expected - printed).elements()]
    told += [f"+ {line}" for line in (printed - expected).elements() if not shortened]
    return told + ([f"exit code {seen.code}, the page says {kept.code}"] if kept.code != seen.code else [])


def _neutral(text: str) -> list[str]:
    text = re.sub(r"\b127\.0\.0\.1:\d+", "ADDRESS", text)
    text = re.sub(r"^ *[0-9a-f]{7} ", "COMMIT ", text, flags=re.MULTILINE)
    return [line for line in blocks.neutral(text) if line and " still running: " not in line]
