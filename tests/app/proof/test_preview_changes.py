"""``preview --changes``: capabilities tell the diff or the exact calls, and change nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from planrunner.files.patch import parse_diff

Write = Callable[[str, str], str]
Call = Callable[..., tuple[int, str, str]]
Data = Callable[..., tuple[int, Any]]

PLAN = """
plan: p
defaults: {timeout: 10s}
params: {word: {type: string, default: new}}
tasks:
  - {id: note, uses: files.write, with: {path: notes.txt, content: "a\\n{{ params.word }}\\n"}}
  - {id: count, needs: [note], run: wc -l notes.txt, effect: read}
  - {id: again, needs: [count], uses: files.write, with: {path: b.txt, content: "{{ tasks.count.stdout }}"}}
  - {id: secret, uses: files.write, with: {path: c.txt, content: "{{ env.TOKEN }}"}}
  - {id: outside, uses: files.write, with: {path: ../d.txt, content: x}}
  - {id: fine, uses: files.read, with: {path: notes.txt}}
"""


def tree(folder: Path) -> dict[str, bytes]:
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def test_the_diff_is_shown_and_nothing_is_changed(write: Write, call: Call, tmp_path: Path) -> None:
    write("notes.txt", "a\nold\n")
    name = write("p.yaml", PLAN)
    before = tree(tmp_path)
    code, out, _ = call("preview", name, "--changes")
    assert code == 0
    assert "-old\n" in out
    assert "+new\n" in out
    assert tree(tmp_path) == before


def test_what_only_the_run_knows_and_what_would_be_refused_is_said(write: Write, data: Data) -> None:
    write("notes.txt", "a\nold\n")
    _, found = data("preview", write("p.yaml", PLAN), "--changes", "-p", "word=other")
    rows = {row["task"]: row for row in found["changes"]}
    assert rows.keys() == {"note", "again", "secret", "outside"}, "what only reads is not asked"
    assert "+other" in rows["note"]["diff"]
    assert rows["again"]["problem"] == rows["secret"]["problem"] == "only the run has the values that it needs"
    assert "outside the working directory" in rows["outside"]["problem"]


def test_the_digest_of_a_saved_preview_does_not_hang_on_the_world(write: Write, call: Call) -> None:
    write("notes.txt", "a\nold\n")
    name = write("p.yaml", PLAN.partition("  - {id: outside")[0])
    assert call("preview", name, "--changes", "--save", "look.json")[0] == 0
    write("notes.txt", "a\nolder\n")
    assert call("exec", name, "--preview", "look.json", "--progress", "quiet")[0] != 10


def test_the_same_file_asked_for_again_is_no_change(write: Write, call: Call) -> None:
    write("notes.txt", "a\nnew\n")
    _, out, _ = call("preview", write("p.yaml", PLAN), "--changes")
    assert "@@" not in out


ODD = """
plan: p
defaults: {timeout: 10s}
tasks:
  - {id: note, uses: files.write, with: {path: "a\\n\\e[31m\\u202e.txt", content: "x\\e[2Ky\\rz\\u2028+w\\té\\n"}}
  - {id: stage, uses: git.add, with: {paths: ["b\\nc"]}}
"""


def test_what_cannot_be_seen_is_written_out(write: Write, call: Call, data: Data, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    (tmp_path / "b\nc").write_text("d\n")
    name = write("p.yaml", ODD)
    code, out, _ = call("preview", name, "--changes")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    odd = r"a\n\033[31m\342\200\256.txt"
    assert f'note files.write 1 made: "{odd}"' in lines
    assert f'+++ "b/{odd}"' in lines
    assert r"+x\033[2Ky\rz\u2028+w é" in lines
    assert r"stage git.add stage b\nc" in lines
    assert any(line.startswith("writes ") and r"a\n\033[31m\u202e.txt" in line for line in lines)
    diff = {row["task"]: row for row in data("preview", name, "--changes")[1]["changes"]}["note"]["diff"]
    assert parse_diff(diff)[0].new == "a\n\x1b[31m\u202e.txt"


def test_a_script_and_a_program_are_shown_as_they_would_be_called(
    write: Callable[..., str], data: Callable[..., Any]
) -> None:
    tasks = "  - {id: a, run: 'echo {{ params.word }}'}\n  - {id: b, run: [printf, '%s', '{{ params.word }} x']}\n"
    _, found = data("preview", write("s.yaml", f"plan: s\nparams: {{word: it's}}\ntasks:\n{tasks}"), "--changes")
    script, program = found["changes"]
    assert script["calls"][0].endswith("='it'\"'\"'s'") and script["calls"][1].startswith("echo ")
    assert program["summary"].startswith("runs a program in ") and program["calls"] == ["printf %s 'it'\"'\"'s x'"]


def test_a_script_is_shown_with_its_folder_and_the_names_of_its_variables(write: Write, data: Data) -> None:
    text = "plan: p\nenv: {CI: 'yes'}\ntasks:\n  - {id: a, run: make all | tee log, cwd: sub, env: {LEVEL: '2'}}\n"
    _, found = data("preview", write("p.yaml", text), "--changes")
    (row,) = found["changes"]
    assert row["summary"].endswith("/sub with CI, LEVEL set")
    assert row["calls"] == ["make all | tee log"]
