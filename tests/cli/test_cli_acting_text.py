"""Text that would act on a terminal (moves the cursor, renames the window, turns the writing, hides a line) arrives at
a real one as text, whatever command shows it; into a pipe every byte goes as it was."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from multiprocessing.connection import wait
from pathlib import Path

import pytest
from rows import rows
from workbench import ROOT

from planrunner.escapes import tame

HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b[1A\x1b[8mhidden\x1b[0m \x9b2J \u202eevil\u2066 \x85 \x7f\x08\x08 \U000e0041 \x1bc"
)
OURS = re.compile(r"\x1b\[(?:[0-9;]*m|[KJ]|[0-9]+A)|\r\n|\r|\n|\t")
"""Colours that hide nothing, what the live tree draws with, and ends of lines."""
HIDES = re.compile(r"\x1b\[(?:[0-9]+;)*0*8[;m]")
ACTS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")

PLAN = {
    "plan": "acting",
    "title": HOSTILE,
    "tasks": [
        {
            "id": "say",
            "title": HOSTILE,
            "run": [sys.executable, "show.py"],
            "outputs": {"said": "{{ stdout }}"},
            "artifacts": [{"name": "text", "path": "text.txt"}],
            "timeout": "1m",
        },
        {"id": "fail", "needs": ["say"], "uses": "fail", "with": {"message": HOSTILE}},
    ],
}


def on_terminal(folder: Path, *words: str) -> str:
    """What a command writes to a terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "planrunner", *words],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"},
    )
    os.close(slave)
    parts: list[bytes] = []
    limit = time.monotonic() + 240
    while time.monotonic() < limit:
        if wait([master], 0.2):
            try:
                parts.append(os.read(master, 65_536))
            except OSError:
                break
        elif process.poll() is not None:
            break
    process.kill()
    process.wait()
    os.close(master)
    return b"".join(parts).decode("utf-8", "replace")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("acting")
    (folder / ".git").mkdir()
    (folder / "p.json").write_text(json.dumps(PLAN))
    (folder / "show.py").write_text(
        f"import sys\ntext = {HOSTILE!r}\nprint(text)\nprint(text, file=sys.stderr)\n"
        "open('text.txt', 'w').write(text)\n"
    )
    (folder / "broken.yaml").write_text(f"plan: p\n{json.dumps(HOSTILE[:-10])}: 1\n")
    (folder / "\x1b[2J.yaml").write_text("plan: [\n")
    shown = on_terminal(folder, "exec", "p.json")
    assert "say" in shown
    assert not acting(shown), "exec"
    return folder


def acting(shown: str) -> list[str]:
    """What in a text would act on a terminal, beside what is ours."""
    return [*HIDES.findall(shown), *ACTS.findall(OURS.sub("", shown))]


COMMANDS = [
    ("logs", "last"),
    ("logs", "last", "say", "--tail", "3"),
    ("show", "last"),
    ("show", "last", "--json"),
    ("events", "last"),
    ("events", "last", "--json"),
    ("why", "last", "fail"),
    ("runs",),
    ("runs", "--json"),
    ("artifacts",),
    ("artifacts", "list", "--json"),
    ("artifacts", "get", "acting/say/text", "-o", "-"),
    ("exec", "p.json", "--preview"),
    ("exec", "p.json", "--preview", "--json"),
    ("exec", "p.json", "--dry-run"),
    ("exec", "p.json", "--json"),
    ("lint", "broken.yaml"),
    ("lint", "--format", "json", "broken.yaml"),
    ("lint", "--format", "concise", "broken.yaml"),
    ("lint", "\x1b[2J.yaml"),
    ("lint", "\x1b[2J\u202e.yaml"),
    ("exec", "broken.yaml"),
    ("graph", "p.json", "--format", "json"),
    ("fmt", "--diff", "broken.yaml"),
    ("convert", "p.json", "--to", "yaml"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:4]).encode("unicode_escape").decode())
def test_nothing_that_others_wrote_acts_on_a_terminal(project: Path, words: tuple[str, ...]) -> None:
    shown = on_terminal(project, *words)
    assert shown.strip()
    assert acting(shown) == [], shown


def test_json_on_a_terminal_says_the_same(project: Path) -> None:
    piped = subprocess.run(
        [sys.executable, "-m", "planrunner", "show", "last", "--json"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    shown = on_terminal(project, "show", "last", "--json")
    assert json.loads(shown) == json.loads(piped.stdout)


def test_a_log_goes_into_a_pipe_byte_for_byte(project: Path) -> None:
    piped = subprocess.run(
        [sys.executable, "-m", "planrunner", "logs", "last", "say"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert piped.stdout.count(HOSTILE.encode()) >= 1


@rows(
    ("text", "shown"),
    [
        ("plain ä 👨‍👩‍👧\ttext\n", "plain ä 👨‍👩‍👧\ttext\n"),
        ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        ("\x1b[38;5;8mgrey\x1b[0m", "\\u001b[38;5;8mgrey\x1b[0m"),
        ("\x1b[8mhidden", "\\u001b[8mhidden"),
        ("\x1b[1;08mhidden", "\\u001b[1;08mhidden"),
        ("50 %\r60 %\r\n", "50 %\n60 %\n"),
        ("\x1b]8;;http://evil\x07link", "\\u001b]8;;http://evil\\u0007link"),
        ("\x9b2J\u202e\U000e0041", "\\u009b2J\\u202e\\udb40\\udc41"),
        ("\x1b", "\\u001b"),
    ],
)
def test_what_a_terminal_gets(text: str, shown: str) -> None:
    assert tame(text) == shown
    assert tame(shown) == shown
