"""The console blocks and plans of README and docs: found, run in a scratch folder, compared with what they show.

    python docs/blocks.py                  run every page; say what differs
    python docs/blocks.py --update [PAGE]  write what was printed into the pages

A page is one session: its blocks run in order in one folder that holds the plans of the repository and whatever the
page wrote before. Comments in front of a block steer it:

    <!-- file: plans/first.yaml -->   the block is the content of that file
    <!-- exit: 1 -->                  the last command of the block ends with that code
    <!-- first: COMMANDS -->          what is done before the block, unseen: it brings about what the page speaks of
    <!-- not run: REASON -->          the block is for reading: REASON names the test that runs it, or stands below the
                                      block too, as `*Not run by the tests: REASON.*`
    <!-- finds: PLAN101 -->           linting the plan gives exactly these codes
    <!-- needs: bwrap -->             anywhere: the page runs only where this program is installed

A line `...` in expected output stands for any lines. Run ids, durations, times, digests and column widths may differ.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[a-z]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_MARKS = re.compile(r"((?:<!-- [^\n]*? -->\n+)+)\Z")
_MARK = re.compile(r"<!-- (file|exit|first|not run|finds): ?(.*?) -->")

_NEEDS = re.compile(r"^<!-- needs: (\S+) -->$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block; ``start`` and ``end`` are the offsets of its body in the page."""

    page: Path
    line: int
    language: str
    body: str
    marks: dict[str, str]
    start: int
    end: int


def needs(page: Path) -> list[str]:
    """Programs without which a page cannot run."""
    return _NEEDS.findall(page.read_text(encoding="utf-8"))


class Step(NamedTuple):
    """One command of a console block with the output it is expected to print."""

    command: str
    expected: str


class Difference(NamedTuple):
    """What a command printed against what the page shows."""

    place: str
    command: str
    expected: str
    printed: str
    code: int
    wanted: int


def pages() -> list[Path]:
    """README, the other pages at the top, and everything under docs."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def runs(block: Block) -> bool:
    """Whether the commands of a block are run; the examples in the help texts of commands speak of somebody's plans."""
    shell = block.language in ("console", "sh")
    return shell and "not run" not in block.marks and block.page.name != "cli.md"


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    return tuple(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        before = _MARKS.search(text[: match.start()])
        marks = dict(_MARK.findall(before.group(1))) if before else {}
        line = text.count("\n", 0, match.start()) + 1
        yield Block(page, line, match["language"], match["body"], marks, match.start("body"), match.end("body"))


def steps(body: str) -> list[Step]:
    """The commands of a console block: lines after ``$``, continued by lines after ``>``."""
    found: list[Step] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:], ""))
        elif line.startswith("> ") and found and not found[-1].expected:
            found[-1] = Step(f"{found[-1].command}\n{line[2:]}", "")
        elif found:
            found[-1] = found[-1]._replace(expected=f"{found[-1].expected}{line}\n")
    return found


_CHANGING = [
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "PORT"),
    (re.compile(r"\b\d{8}T\d{6}Z\b(-\d+)?"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?(\.\d+)?\b"), "TIME"),
    (re.compile(r"\b[0-9a-z]*\d{6,}[0-9a-z]*(-[0-9a-z]+)*\b"), "ID"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,64}\b"), "ID"),
    (re.compile(r"[<≤~]? ?\b(\d+[dhm])*\d+(\.\d+)? ?(ms|µs|us|s|m|h)\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)* (B|KB|MB|GB|KiB|MiB|GiB)\b"), "SIZE"),
    (re.compile(r"[─━═-]{3,}"), "---"),
    (re.compile(r"[ \t]+"), " "),
]


def neutral(text: str) -> list[str]:
    """The lines of an output without what differs from run to run."""
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    return [line.strip() for line in text.strip().splitlines()]


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether the lines agree; ``...`` in what is expected stands for any number of lines, or for the rest of one."""
    if not expected:
        return not printed
    if expected[0] == "...":
        return any(matches(expected[1:], printed[start:]) for start in range(len(printed) + 1))
    if not printed:
        return False
    if not re.fullmatch(".*".join(re.escape(part) for part in expected[0].split("...")), printed[0]):
        return False
    return matches(expected[1:], printed[1:])


Call = Callable[[list[str], Path, dict[str, str]], tuple[str, int]]
_PLAIN = re.compile(r"""planrunner( [\w./:=@,+%-]+| '[^'\n]*'| "[^"$`\\\n]*")*""")
"""A command of planrunner that a shell would start as it stands."""


class Session:
    """A scratch folder with the plans of the repository, in which the commands of one page run."""

    def __init__(self, folder: Path, call: Call | None = None) -> None:
        """``call`` runs a command of planrunner that needs no shell; without one each command is started by a shell."""
        self.folder = folder
        self._call = call
        shutil.copytree(ROOT / "plans", folder / "plans")
        shutil.copytree(ROOT / "schemas", folder / "schemas")
        (folder / ".planrunner").mkdir(mode=0o700)
        home, programs = folder / ".home", folder / ".programs"
        home.mkdir()
        programs.mkdir()
        shim = programs / "planrunner"
        shim.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m planrunner "$@"\n')
        shim.chmod(0o755)
        dropped = ("PLANRUNNER_", "GITHUB_", "FORCE_COLOR", "CLICOLOR", "PYTEST", "XDG_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped) and key != "CI"}
        path = f"{programs}:{Path(sys.executable).parent}:{kept.get('PATH', os.defpath)}"
        self.env = {**kept, "PATH": path, "HOME": str(home), "NO_COLOR": "1", "COLUMNS": "100", "LANG": "C.UTF-8"}

    def run(self, command: str) -> tuple[str, int]:
        """What a command printed, both streams in one, and its exit code."""
        if self._call is not None and _PLAIN.fullmatch(command):
            printed, code = self._call(shlex.split(command)[1:], self.folder, self.env)
            return printed.replace(str(self.folder) + "/", ""), code
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=240,
            text=True,
        )
        code = (
            done.returncode if done.returncode >= 0 else 128 - done.returncode
        )  # bash starts a lone command in its place
        return done.stdout.replace(str(self.folder) + "/", ""), code


def run_page(page: Path, session: Session) -> Iterator[tuple[Block, list[Difference], str]]:
    """Every block of a page that runs, what differed, and the body as it should be to be true."""
    for block in blocks(page):
        if "file" in block.marks:
            path = session.folder / block.marks["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.body, encoding="utf-8")
        elif runs(block):
            yield (block, *_run_block(block, session))


def _run_block(block: Block, session: Session) -> tuple[list[Difference], str]:
    todo = steps(block.body) if block.language == "console" else [Step(block.body.strip(), "...\n")]
    if "first" in block.marks:
        session.run(block.marks["first"])
        todo = [step._replace(command=f"set -e\n{step.command}") for step in todo]
    differences, body = [], ""
    for number, step in enumerate(todo):
        wanted = int(block.marks.get("exit", 0)) if number == len(todo) - 1 else 0
        printed, code = session.run(step.command)
        agrees = matches(neutral(step.expected), neutral(printed))
        if not agrees or code != wanted:
            place = f"{block.page.relative_to(ROOT)}:{block.line}"
            differences.append(Difference(place, step.command, step.expected, printed, code, wanted))
        shown = step.expected if agrees else f"{printed.rstrip()}\n" if printed.strip() else ""
        body += f"$ {step.command.replace(chr(10), chr(10) + '> ')}\n{shown}"
    return differences, body if block.language == "console" else block.body


def _update(page: Path, changed: list[tuple[Block, str]]) -> None:
    text = page.read_text(encoding="utf-8")
    for block, body in reversed(changed):
        text = text[: block.start] + body + text[block.end :]
    page.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    update = "--update" in arguments
    chosen = [Path(name).resolve() for name in arguments if not name.startswith("-")] or pages()
    failed = False
    for page in chosen:
        changed: list[tuple[Block, str]] = []
        with tempfile.TemporaryDirectory() as folder:
            for block, differences, body in run_page(page, Session(Path(folder))):
                changed.append((block, body))
                for difference in differences:
                    code_differs = difference.code != difference.wanted
                    failed |= code_differs or not update
                    print(f"{difference.place}: $ {difference.command}\n{difference.printed}", end="")
                    print(
                        f"[exit {difference.code}, wanted {difference.wanted}]" if code_differs else "[output differs]"
                    )
        if update:
            _update(page, changed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
