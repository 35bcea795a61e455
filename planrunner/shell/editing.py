"""Editing the plan of a run, and how the run continues with it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from planrunner.app.history.show import Look
from planrunner.errors import INVALID, NotFound, UsageError

Json = Any


class Edit(NamedTuple):
    """A plan file, and the run that it is edited for: its id, status and parameters."""

    path: str
    run: str
    status: str
    params: dict[str, Json]

    @staticmethod
    def of(looked: Look) -> Edit:
        """The plan of a run. Raises NotFound where it was never in a file, or the file is gone."""
        path = str(looked.state.environment.get("plan", ""))
        if not os.path.isfile(path):
            raise NotFound(f"the plan of run {looked.row.run} has no file to edit", "`revise` takes any file")
        near = os.path.relpath(path)
        shown = path if near.startswith(os.pardir) else near
        return Edit(shown, looked.row.run, looked.state.status, looked.state.params)


class Editor:
    """Edits with the program of VISUAL or EDITOR. ``run`` carries out commands, ``ask`` asks for a line, ``say`` tells
    one."""

    __slots__ = ("_ask", "_run", "_say")

    def __init__(
        self, run: Callable[[Sequence[str]], int], ask: Callable[[str], str], say: Callable[[str], object]
    ) -> None:
        self._run = run
        self._ask = ask
        self._say = say

    def edit(self, what: Edit) -> list[str]:
        """Let the plan be edited and checked; the command that continues, empty for none. Raises UsageError where the
        editor cannot be started."""
        before = _content(what.path)
        while True:
            _open(what.path)
            if _content(what.path) == before:
                self._say(f"{what.path} is unchanged")
                return []
            if self._run(["lint", what.path]) in (0, INVALID) or self._answer("edit again? [Y/n] ") in ("n", "no"):
                return self._way_on(what)

    def _way_on(self, what: Edit) -> list[str]:
        again = ["exec", what.path, *_given(what.params)]
        if what.status in ("completed", "cancelled"):
            return again if self._answer("run it again? [y/N] ") in ("y", "yes") else []
        word = "retry" if what.status == "failed" else "resume"
        told = f"[c]ontinue run {what.run} with it, [r]un it from the start, or [n]either? "
        answer = self._answer(told)
        if answer in ("c", "continue"):
            return [word, what.run, "--plan", what.path]
        if answer in ("r", "run"):
            return again
        self._say(f"continue later: {word} {what.run} --plan {shlex.quote(what.path)}")
        return []

    def _answer(self, prompt: str) -> str:
        """An answer in small letters; `n` where there is no terminal."""
        try:
            return self._ask(prompt).strip().lower()
        except EOFError:
            return "n"


def _open(path: str) -> None:
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        code = subprocess.run([*words, path], check=False).returncode
    except OSError as error:
        hint = "set EDITOR to the editor that you use"
        raise UsageError(f"the editor `{words[0]}` cannot be started: {error.strerror}", hint) from None
    if code:
        raise UsageError(f"the editor `{words[0]}` ended with code {code}")


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _given(params: dict[str, Json]) -> list[str]:
    """The options that give a run the same parameters."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in params.items()}
    return [word for name, text in texts.items() for word in ("-p", f"{name}={text}")]
