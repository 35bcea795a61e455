"""The command line in a process of its own, forked from one that has imported planrunner already.

A test that is about the start itself, or about a terminal, starts ``python -m planrunner``.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from canaries import EAR

ROOT = Path(__file__).resolve().parents[1]
_MOST = (
    "planrunner.cli.exec",
    "planrunner.cli.gates",
    "planrunner.cli.rerun",
    "planrunner.cli.show",
    "planrunner.engine.enactment",
    "planrunner.engine.observation",
    "planrunner.plan.expressions.grammar",
)
"""What most commands import before they are through."""
_MODELS = (
    "planrunner.service.app",
    "planrunner.capabilities.llm.providers",
    "pydantic_ai.models.anthropic",
    "pydantic_ai.models.google",
    "pydantic_ai.models.ollama",
)
"""What serving and asking a model import, for a second and more: worth it in a worker of many tests."""
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload([*_MOST, *(_MODELS if "PYTEST_XDIST_WORKER" in os.environ else ())])
_OF_THE_START = ("LANG", "LC_", "LD_", "PYTHON")
"""Beginnings of the names of variables that act when an interpreter starts."""


class Ran(NamedTuple):
    """Exit code and what was written; bytes that are not UTF-8 come as surrogates."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


def run(*words: str, folder: Path, env: Mapping[str, str], stdin: bytes = b"", timeout: float = 600) -> Ran:
    """``call`` with text."""
    done = call(*words, folder=folder, env=env, stdin=stdin, timeout=timeout)
    return Ran(done.returncode, *(text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr)))


def call(
    *words: str, folder: Path, env: Mapping[str, str], stdin: bytes = b"", timeout: float = 600
) -> subprocess.CompletedProcess[bytes]:
    """``planrunner WORDS`` in a folder, with these variables and no others, from its start to its end."""
    if _of_the_start(env) != _of_the_start(os.environ):
        command = [sys.executable, "-m", "planrunner", *words]
        return subprocess.run(
            command, cwd=folder, env=dict(env), input=stdin, capture_output=True, timeout=timeout, check=False
        )
    process = Started(words, str(folder), dict(env), stdin, is_one_stream=False)
    try:
        out, err = process.read(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(words, process.wait(), out, err)


def start(
    *words: str, folder: Path, env: Mapping[str, str], stdin: bytes = b"", is_one_stream: bool = False
) -> Started:
    """``planrunner WORDS`` while it runs. Its process is forked, so no variable acts as at the start of an interpreter.
    With ``is_one_stream`` what goes to standard error is in standard output, in the order of writing."""
    EAR.hear("an argument of", "planrunner", words)
    return Started(words, str(folder), dict(env), stdin, is_one_stream)


class Started:
    """A command that goes on beside the test, to be asked and acted on as a ``subprocess.Popen``."""

    def __init__(
        self, words: tuple[str, ...], folder: str, env: dict[str, str], stdin: bytes, is_one_stream: bool
    ) -> None:
        self.args = words
        inputs, outputs, errors = os.pipe(), os.pipe(), os.pipe()
        streams = (inputs[0], outputs[1], outputs[1] if is_one_stream else errors[1])
        self._process = _SERVER.Process(target=_Start(words, folder, env, streams))
        try:
            self._process.start()
        finally:
            for handle in (inputs[0], outputs[1], errors[1]):
                os.close(handle)
        threading.Thread(target=_write, args=(inputs[1], stdin), daemon=True).start()
        self.stdout = open(outputs[0], encoding="utf-8", errors="surrogateescape", newline="")  # noqa: SIM115
        self.stderr = open(errors[0], encoding="utf-8", errors="surrogateescape", newline="")  # noqa: SIM115
        self.pid: int = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing, where it has ended: its end may be known to the system before it is known here."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def read(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Everything that it writes until its end."""
        written: dict[TextIO, bytes] = {}
        pipes = (self.stdout, self.stderr)
        threads = [threading.Thread(target=_read, args=(pipe, written), daemon=True) for pipe in pipes]
        for thread in threads:
            thread.start()
        self.wait(timeout)
        for thread in threads:
            thread.join()
        return written[self.stdout], written[self.stderr]

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        both = self.read(timeout)
        EAR.hear("printed by", self.args, both)
        out, err = (text.decode(errors="surrogateescape") for text in both)
        return out, err


def _of_the_start(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that need a start of their own: the forked process has the encoding of these tests,
    and what it has loaded cannot be hidden by a path."""
    variables = {name: value for name, value in env.items() if name.startswith(_OF_THE_START)}
    if variables.get("PYTHONIOENCODING") == "utf-8":
        del variables["PYTHONIOENCODING"]
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    if set(filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))) <= {str(ROOT)}:
        variables.pop("PYTHONPATH", None)
    return variables


def _write(handle: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(handle, "wb") as pipe:
        pipe.write(data)


def _read(pipe: TextIO, into: dict[TextIO, bytes]) -> None:
    with pipe:
        into[pipe] = pipe.buffer.read()


class _Start:
    """What the new process does: it is made in the process of the test, and called in the new one."""

    def __init__(self, words: tuple[str, ...], folder: str, env: dict[str, str], streams: tuple[int, ...]) -> None:
        self._words, self._folder, self._env, self._streams = words, folder, env, streams

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_streams": [DupFd(handle) for handle in self._streams]}

    def __call__(self) -> None:
        for number, stream in enumerate(self._streams):
            handle = stream.detach()  # type: ignore[attr-defined]
            os.dup2(handle, number)
            os.close(handle)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
        os.environ.clear()
        os.environ.update(self._env)
        time.tzset()
        os.chdir(self._folder)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = [str(ROOT / "planrunner" / "__main__.py"), *self._words]
        tests = str(ROOT / "tests")
        named = [path for path in self._env.get("PYTHONPATH", "").split(os.pathsep) if path]
        own = [path for path in sys.path if not path.startswith(tests) and path not in named]
        sys.path = [self._folder, *named, *own]
        sys.dont_write_bytecode = bool(self._env.get("PYTHONDONTWRITEBYTECODE"))
        from planrunner.cli import main

        sys.exit(main())
