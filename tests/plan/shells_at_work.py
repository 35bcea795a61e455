"""Which commands real shells run: scripts in an empty folder, with programs on the PATH that only tell their words."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from pathlib import Path

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
PROGRAMS = ("aa", "bb", "cc", "if", "in", "x=1", "-p", "then")
_STUB = """#!/bin/sh
printf '%s\\001' "${0##*/}" "$@" '\002' >> "$TOLD"
"""


class Bench:
    """A folder with files that patterns find, and programs that write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = folder / "files"
        self.programs = folder / "programs"
        self.programs.mkdir(parents=True)
        for name in PROGRAMS:
            (self.programs / name).write_text(_STUB)
            (self.programs / name).chmod(0o755)

    def ran(self, shell: str, script: str, values: dict[str, str] | None = None) -> list[tuple[str, ...]]:
        """The words of each program that the script called. What it left running may be missing."""
        shutil.rmtree(self.files, ignore_errors=True)
        self.files.mkdir()
        for name in ("aa", "bb", "f1"):
            (self.files / name).touch()
        told = self.folder / f"told {uuid.uuid4()}"  # of its own: what runs behind may outlive the script
        told.touch()
        subprocess.run(
            [str(shutil.which(shell)), "-c", script],
            env={"PATH": str(self.programs), "LC_ALL": "C.UTF-8", "TOLD": str(told), **(values or {})},
            cwd=self.files,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        calls = told.read_bytes().split(b"\1\2\1")[:-1]
        return [tuple(os.fsdecode(word) for word in call.split(b"\1")) for call in calls]
