"""The command line in a process of its own, forked from one that has imported planrunner already.

A test that is about the start itself, or acts on the process while it runs, starts ``python -m planrunner``.
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
from collections.abc import Mapping
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, NamedTuple

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
    "planrunner.capabilities.llm.providers",
    "pydantic_ai.models.anthropic",
    "pydantic_ai.models.google",
    "pydantic_ai.models.ollama",
)
"""What asking a model imports, for a second and more: worth it in a worker of many tests."""
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload([*_MOST, *(_MODELS if "PYTEST_XDIST_WORKER" in os.environ else ())])
_OF_THE_START = ("LANG", "LC_", "LD_", "PYTHON", "TZ")
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
    inputs, outputs, errors = os.pipe(), os.pipe(), os.pipe()
    streams = (inputs[0], outputs[1], errors[1])
    process = _SERVER.Process(target=_Start(words, str(folder), dict(env), streams))
    try:
        process.start()
    finally:
        for handle in streams:
            os.close(handle)
    read: dict[int, bytes] = {}
    threads = [threading.Thread(target=_write, args=(inputs[1], stdin))]
    threads += [threading.Thread(target=_read, args=(handle, read)) for handle in (outputs[0], errors[0])]
    for thread in threads:
        thread.start()
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        raise subprocess.TimeoutExpired(words, timeout)
    for thread in threads:
        thread.join()
    ended = subprocess.CompletedProcess(words, process.exitcode, read[outputs[0]], read[errors[0]])
    process.close()
    return ended


def _of_the_start(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that need a start of their own: the forked process has the encoding and the paths of these tests."""
    variables = {name: value for name, value in env.items() if name.startswith(_OF_THE_START)}
    if variables.get("PYTHONIOENCODING") == "utf-8":
        del variables["PYTHONIOENCODING"]
    if set(filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))) <= {str(ROOT)}:
        variables.pop("PYTHONPATH", None)
    return variables


def _write(handle: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(handle, "wb") as pipe:
        pipe.write(data)


def _read(handle: int, into: dict[int, bytes]) -> None:
    with open(handle, "rb") as pipe:
        into[handle] = pipe.read()


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
        os.chdir(self._folder)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = [str(ROOT / "planrunner" / "__main__.py"), *self._words]
        tests = str(ROOT / "tests")
        sys.path = [self._folder, *(path for path in sys.path if not path.startswith(tests))]
        from planrunner.cli import main

        sys.exit(main())
