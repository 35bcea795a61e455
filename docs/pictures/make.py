"""Draws the terminal pictures of the documentation from real runs in a real terminal.

    python docs/pictures/make.py           draw all
    python docs/pictures/make.py lint why  draw these

The programs run in a pseudo-terminal; what they print moves the cursor of the small screen below, whose cells become an
SVG. A picture of several moments is an animation that rests on its last one.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
COLUMNS, ROWS = 104, 60

_COLOURS = "#484f58 #ff7b72 #3fb950 #d29922 #58a6ff #bc8cff #39c5cf #b1bac4"
_BRIGHT = "#8b949e #ffa198 #56d364 #e3b341 #79c0ff #d2a8ff #56d4dd #f0f6fc"
PALETTE = {**dict(enumerate(_COLOURS.split(), 30)), **dict(enumerate(_BRIGHT.split(), 90))}
INK, PAPER, DIM = "#e6edf3", "#0d1117", "#8b949e"


class Style(NamedTuple):
    colour: str = INK
    bold: bool = False
    faint: bool = False


class Cell(NamedTuple):
    char: str
    style: Style


class Screen:
    """What a terminal shows: lines of cells, and the few sequences that planrunner prints."""

    _SEQUENCE = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])")

    def __init__(self) -> None:
        self.lines: list[list[Cell]] = [[]]
        self.row = self.column = 0
        self.style = Style()

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            sequence = self._SEQUENCE.match(text, at)
            if sequence:
                self._obey(sequence[1], sequence[2])
                at = sequence.end()
                continue
            self._put(text[at])
            at += 1

    def _put(self, char: str) -> None:
        if char == "\n":
            self.row += 1
            self.column = 0
        elif char == "\r":
            self.column = 0
        elif char.isprintable():
            line = self._line()
            line.extend(Cell(" ", Style()) for _ in range(self.column - len(line)))
            line[self.column : self.column + 1] = [Cell(char, self.style)]
            self.column += 1

    def _line(self) -> list[Cell]:
        while len(self.lines) <= self.row:
            self.lines.append([])
        return self.lines[self.row]

    def _obey(self, numbers: str, letter: str) -> None:
        count = int(numbers) if numbers.isdigit() else 1
        if letter == "A":
            self.row = max(0, self.row - count)
        elif letter == "J":
            del self._line()[self.column :]
            del self.lines[self.row + 1 :]
        elif letter == "K":
            del self._line()[self.column :]
        elif letter == "m":
            for code in numbers.split(";"):
                self._paint(int(code or 0))

    def _paint(self, code: int) -> None:
        if code == 0:
            self.style = Style()
        elif code == 1:
            self.style = self.style._replace(bold=True)
        elif code == 2:
            self.style = self.style._replace(faint=True)
        elif code in PALETTE:
            self.style = self.style._replace(colour=PALETTE[code])

    def shot(self) -> tuple[tuple[Cell, ...], ...]:
        lines = [tuple(line) for line in self.lines]
        while lines and not "".join(cell.char for cell in lines[-1]).strip():
            lines.pop()
        return tuple(lines)


Shot = tuple[tuple[Cell, ...], ...]


class Moment(NamedTuple):
    at: float
    shot: Shot


def play(commands: Sequence[str], folder: Path) -> list[Moment]:
    """Runs commands one after the other in a terminal; every change of the screen with its time."""
    screen, moments, start = Screen(), [], time.monotonic()
    for command in commands:
        screen.feed("\x1b[92m$\x1b[0m " + command + "\r\n")
        moments.append(Moment(time.monotonic() - start, screen.shot()))
        for text in _terminal(command, folder):
            screen.feed(text)
            moments.append(Moment(time.monotonic() - start, screen.shot()))
    return moments


def _terminal(command: str, folder: Path) -> Iterator[str]:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve("/bin/bash", ["bash", "-c", command], _environment(folder))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    left = b""
    while True:
        select.select([terminal], [], [])
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        left += data
        text = left.decode("utf-8", "ignore")
        left = left[len(text.encode()) :]
        yield text
    os.close(terminal)
    os.waitpid(pid, 0)


def _environment(folder: Path) -> dict[str, str]:
    programs = folder / ".programs"
    return {
        "PATH": f"{programs}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LINES": str(ROWS),
    }


WIDE, HIGH, LEFT, TOP = 8.43, 19, 16, 42


def svg(moments: Sequence[Moment], title: str) -> str:
    """One frame for a still, several for an animation; the last frame shows where animations are off."""
    rows = max(len(moment.shot) for moment in moments)
    width, height = LEFT * 2 + COLUMNS * WIDE, TOP + rows * HIGH + 14
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" role="img">\n'
        f"<title>{_escape(title)}</title>\n{_animation(moments)}"
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>\n'
        '<circle cx="18" cy="18" r="5" fill="#ff5f57"/><circle cx="36" cy="18" r="5" fill="#febc2e"/>'
        '<circle cx="54" cy="18" r="5" fill="#28c840"/>\n'
        f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14" fill="{INK}" '
        'xml:space="preserve">\n'
    )
    parts = [head]
    for number, moment in enumerate(moments):
        parts.append(f'<g class="f{number}">\n{"".join(_lines(moment.shot))}</g>\n')
    return "".join([*parts, "</g>\n</svg>\n"])


def _animation(moments: Sequence[Moment]) -> str:
    if len(moments) == 1:
        return ""
    rest = 3.0
    starts = [moment.at for moment in moments]
    total = starts[-1] + rest
    rules = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else total
        begin, stop = 100 * start / total, 100 * end / total
        keys = f"0%{{visibility:hidden}}{begin:.2f}%{{visibility:visible}}"
        if number == 0:
            keys = "0%{visibility:visible}"
        keys += f"{stop:.2f}%{{visibility:hidden}}" if number + 1 < len(starts) else "100%{visibility:visible}"
        rules.append(
            f"@keyframes k{number}{{{keys}}}\n.f{number}{{animation:k{number} {total:.2f}s step-end infinite}}\n"
        )
    still = "".join(f".f{number}{{visibility:hidden}}" for number in range(len(starts) - 1))
    return f"<style>\n{still}\n@media (prefers-reduced-motion: no-preference){{\n{''.join(rules)}}}\n</style>\n"


def _lines(shot: Shot) -> Iterator[str]:
    for row, line in enumerate(shot):
        y = TOP + row * HIGH + 14
        column = 0
        while column < len(line):
            style = line[column].style
            end = column
            while end < len(line) and line[end].style == style:
                end += 1
            text = "".join(cell.char for cell in line[column:end])
            if text.strip():
                yield _text(text, LEFT + column * WIDE, y, style)
            column = end


def _text(text: str, x: float, y: int, style: Style) -> str:
    lead = len(text) - len(text.lstrip())
    text = text.strip()
    colour = DIM if style.faint and style.colour == INK else style.colour
    look = f' fill="{colour}"' if colour != INK else ""
    look += ' font-weight="bold"' if style.bold else ""
    length = f' textLength="{len(text) * WIDE:.1f}" lengthAdjust="spacingAndGlyphs"' if len(text) > 1 else ""
    return f'<text x="{x + lead * WIDE:.1f}" y="{y}"{look}{length}>{_escape(text)}</text>\n'


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def thinned(moments: Sequence[Moment], frames: int) -> list[Moment]:
    """At most that many moments, spread over the time, the last among them, each different from the one before."""
    kept: list[Moment] = []
    step = moments[-1].at / frames
    for moment, following in zip(moments, [*moments[1:], None], strict=True):
        last = following is None
        due = last or not kept or following is None or following.at - kept[-1].at >= step
        if due and (not kept or kept[-1].shot != moment.shot):
            kept.append(moment)
    return kept


class Picture(NamedTuple):
    """``frames`` of 1 is a still of the end. ``files`` are written before."""

    title: str
    commands: tuple[str, ...]
    frames: int = 1
    files: tuple[tuple[str, str], ...] = ()


_RELEASE = """plan: release
title: Check and publish
max_parallel: 3
defaults: {timeout: 1m}
tasks:
  - id: style
    run: sleep 0.7
  - id: types
    run: sleep 1.4
  - id: unit-tests
    run: |
      for part in parser engine views; do echo "testing $part"; sleep 0.6; done
  - id: browser-tests
    retry: {attempts: 2, delay: 500ms, jitter: 0}
    run: |
      sleep 0.5
      mkdir tried 2>/dev/null && { echo "the browser did not start" >&2; exit 1; }
      sleep 0.6
  - id: package
    needs: [style, types, unit-tests, browser-tests]
    run: sleep 0.8
  - id: notes
    needs: [package]
    when: plan.id == "hotfix"
    run: echo notes
  - id: publish
    needs: package.ok and (notes.ok or notes.skipped)
    run: sleep 0.5
"""

_BROKEN = """plan: release
params:
  version: {type: string}
tasks:
  - id: build
    run: make all
    timeout: 10m
    outputs: {size: int}
  - id: publish
    needs: [biuld]
    run: ./publish {{ params.verison }}
    timeout: 10m
"""

_NESTED = """plan: site
title: Publish the site
max_parallel: 4
defaults: {timeout: 1m}
tasks:
  - id: pages
    foreach: [home, prices, team, blog, contact, help, jobs, press, terms, privacy, search, map]
    as: page
    max_parallel: 3
    tolerate: 1
    run: |
      echo "rendering {{ page }}"
      sleep 0.5
      test {{ page }} != press || { echo "a picture is missing" >&2; exit 1; }
  - id: improve
    loop:
      max: 4
      until: loop.round == 3
      tasks:
        - id: tune
          run: sleep 0.3
        - id: measure
          needs: [tune]
          subplan:
            - id: load
              run: echo "200 requests"; sleep 0.4
            - id: layout
              run: echo "3 shifts"; sleep 0.5
  - id: publish
    needs: [pages, improve]
    run: sleep 0.3
"""

_CHANGE = """plan: change
on_failure: rollback
defaults: {timeout: 1m}
tasks:
  - id: reword
    uses: files.edit
    with:
      blocks: [{path: build/greeting.txt, search: hello, replace: welcome}]
  - id: list
    needs: [reword]
    uses: files.write
    with: {path: build/done.txt, content: "greeting reworded\\n"}
  - id: review
    needs: [list]
    run: grep -q approved build/greeting.txt
    effect: read
"""

PICTURES = {
    "exec": Picture("A plan runs: tasks side by side, one is tried again", ("planrunner exec release.yaml",), 24,
                    (("release.yaml", _RELEASE),)),
    "lint": Picture("Lint finds what is wrong, with the place and the way out", ("planrunner lint release.yaml",), 1,
                    (("release.yaml", _BROKEN),)),
    "nested": Picture("Tasks inside tasks: a fan-out, and a subplan in a loop", ("planrunner exec site.yaml",), 24,
                      (("site.yaml", _NESTED),)),
    "change": Picture("A change is shown before it is made, and taken back when something fails",
                      ("planrunner preview change.yaml --changes", "planrunner exec change.yaml"), 1,
                      (("change.yaml", _CHANGE), ("build/greeting.txt", "hello world\n"))),
    "why": Picture("A failure and its reasons",
                   ("planrunner exec plans/failure-handler.yaml", "planrunner why last deploy")),
}  # fmt: skip


def draw(name: str) -> None:
    picture = PICTURES[name]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copytree(ROOT / "plans", folder / "plans")
        (folder / ".planrunner").mkdir(mode=0o700)
        (folder / ".programs").mkdir()
        shim = folder / ".programs" / "planrunner"
        shim.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m planrunner "$@"\n')
        shim.chmod(0o755)
        for file, text in picture.files:
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(text)
        moments = play(picture.commands, folder)
    shown = [moments[-1]] if picture.frames == 1 else thinned(moments, picture.frames)
    (HERE / f"{name}.svg").write_text(svg(shown, picture.title), encoding="utf-8")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or list(PICTURES):
        draw(chosen)
