"""Rehearsals: a playbook that runs for real in a scratch project with real parts.

A rehearsal is a program beside its playbook: ``prepare`` makes the project, ``rehearse`` runs planrunner in it.

    def prepare(scene: Scene) -> None:
        if scene.new:
            scene.write({"src/shop.py": "…"})
            scene.git("init", "-q", "-b", "main")
            scene.git("add", "-A")
            scene.git("commit", "-qm", "Begin")
        scene.arguments += ["-p", f"server={scene.serve(Handler)}"]

    if __name__ == "__main__":
        rehearse(prepare, __file__, needs=("pytest",))

Called without arguments such a program starts from the beginning and runs the playbook. With arguments it runs that
command in the project as the last call left it: ``show last``, ``rollback last``, ``exec -p version=2``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

from ruamel.yaml import YAML

from planrunner.testing.postgresql import Server
from planrunner.testing.scripted_model import Heard, Reply, ScriptedModel

Json = Any
Prepare = Callable[["Scene"], None]

FOLDER = Path("build") / "rehearsal"
_LOOK = 0.05
"""Seconds until a server sees that it is to end."""
_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ana",
    "GIT_AUTHOR_EMAIL": "ana@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "Ana",
    "GIT_COMMITTER_EMAIL": "ana@example.org",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}
_WITH_A_PLAN = ("exec", "preview")
"""Commands that get the playbook and its arguments."""


class Scene:
    """The scratch project of a rehearsal, and what runs beside it until ``close``.

    ``folder`` is the project, with the playbook in ``plans/``. ``new`` says that it was made by this call. ``settings``
    are the sections of its planrunner.yaml, ``environment`` variables of the command, ``arguments`` those of
    ``planrunner exec``.
    """

    def __init__(self, program: Path, folder: Path) -> None:
        self.name = program.stem
        self.folder = folder.absolute()
        self.new = not self.folder.exists()
        self.settings: dict[str, Json] = {}
        self.arguments: list[str] = []
        self.environment = {
            "GIT_CEILING_DIRECTORIES": str(self.folder.parent),
            "PATH": os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath))),
        }
        self._ends = contextlib.ExitStack()
        self._ports = _Ports(self.folder.with_name(f"{self.folder.name}.ports.json"))
        self._install(program.parent.parent)

    def _install(self, plans: Path) -> None:
        target = self.folder / "plans"
        for path in (f"{self.name}.yaml", f"tests/{self.name}.test.yaml"):
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            if (plans / path).exists():
                shutil.copyfile(plans / path, target / path)
        parts = plans / "parts" / self.name
        if parts.is_dir():
            shutil.copytree(
                parts, target / "parts" / self.name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
            )

    def write(self, files: Mapping[str, str]) -> None:
        """Write texts to files of the project, by their paths in it."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def git(self, *words: str, cwd: str | Path = ".", **variables: str) -> str:
        """What git prints, called in a folder of the project with a fixed identity and date. The settings are written
        before, so that they can be committed; ``init`` also sets the identity of the repository."""
        self.save()
        folder = self.folder / cwd
        env = {**os.environ, **self.environment, **_IDENTITY, **variables}
        done = subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"git {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        if words[0] == "init" and "--bare" not in words:
            self.git("config", "user.name", "Ana", cwd=cwd)
            self.git("config", "user.email", "ana@example.org", cwd=cwd)
        return done.stdout.rstrip("\n")

    def serve(self, handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1") -> str:
        """The address of an HTTP server on loopback, which the network rules of the project allow."""
        server = self._ports.bind(lambda port: ThreadingHTTPServer((host, port), handler))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(_LOOK,), daemon=True).start()
        self._ends.callback(server.server_close)
        self._ends.callback(server.shutdown)
        return self._allowed(host, server.server_port)

    def model(self, answer: Callable[[Heard], Reply]) -> ScriptedModel:
        """A model that says what ``answer`` says, as the default model of the project."""
        model: ScriptedModel = self._ports.bind(lambda port: ScriptedModel(answer, port=port))
        self._ends.enter_context(model)
        self._allowed("127.0.0.1", model.port)
        self.settings["models"] = model.settings()
        return model

    def postgresql(self) -> Server:
        """A PostgreSQL server, found by psql and the like in the commands; its data stays as the last call left it."""
        folder = self.folder.with_name(f"{self.folder.name}.postgresql")
        if os.geteuid() == 0:  # the server runs as another user, who may not reach the project
            folder = _in_temporary(self.folder)
        if self.new:
            shutil.rmtree(folder, ignore_errors=True)
        server = self._ends.enter_context(Server(folder))
        self.environment |= server.environment
        return server

    def at_end(self, end: Callable[[], object]) -> None:
        """Have ``end`` called when the rehearsal ends, the last one first."""
        self._ends.callback(end)

    def save(self) -> None:
        """Write planrunner.yaml."""
        with (self.folder / "planrunner.yaml").open("w", encoding="utf-8") as file:
            if self.settings:
                YAML().dump(self.settings, file)

    def command(self, *words: str) -> list[str]:
        """The words of a planrunner command in this project: ``exec`` and ``preview`` are given the playbook."""
        if words[:1] and words[0] in _WITH_A_PLAN:
            more = words[2:] if words[1:2] == (self.name,) else words[1:]
            return [words[0], self.name, *self.arguments, *more]
        return list(words)

    def close(self) -> None:
        self._ends.close()

    def _allowed(self, host: str, port: int) -> str:
        self.settings.setdefault("network", {}).setdefault("private", []).append(f"{host}:{port}")
        return f"http://{host}:{port}"


def _in_temporary(project: Path) -> Path:
    """A folder for what a project cannot hold, the same at each call. Those of projects that are gone are removed."""
    root = Path(tempfile.gettempdir())
    for other in root.glob("planrunner-*.project"):
        with contextlib.suppress(OSError):
            if not os.path.exists(other.read_text()):
                shutil.rmtree(other.with_suffix(""), ignore_errors=True)
                other.unlink()
    folder = root / f"planrunner-{sha256(bytes(project)).hexdigest()[:12]}"
    folder.with_suffix(".project").write_text(str(project))
    return folder


class _Ports:
    """The ports of the servers of a scene, in the order of their start: the same at each call for the same folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: list[int] = json.loads(path.read_text()) if path.exists() else []
        self._next = 0

    def bind(self, start: Callable[[int], Any]) -> Any:
        """The server that ``start`` makes of a port."""
        known = self._known[self._next] if self._next < len(self._known) else 0
        server = start(known)
        if not known:
            self._known.append(server.port if isinstance(server, ScriptedModel) else server.server_port)
            self._path.write_text(json.dumps(self._known))
        self._next += 1
        return server


@contextlib.contextmanager
def opened(prepare: Prepare, program: Path, folder: Path) -> Iterator[Scene]:
    """The scene of a rehearsal, prepared, until the end of the block."""
    scene = Scene(program, folder)
    try:
        prepare(scene)
        scene.save()
        yield scene
    finally:
        scene.close()


def module_of(program: Path) -> ModuleType:
    """A program as a module; that of a rehearsal has its ``prepare``."""
    spec = importlib.util.spec_from_file_location(f"rehearsal_{program.stem.replace('-', '_')}", program)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(program)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def rehearse(prepare: Prepare, file: str, needs: Iterable[str] = ()) -> None:
    """Run the playbook beside the program ``file``, or the command in its arguments, and exit as that does. ``needs``
    are the Python packages that its tasks use, by the name that is imported and installed."""
    program, words = Path(file).absolute(), sys.argv[1:]
    if missing := [name for name in needs if importlib.util.find_spec(name) is None]:
        install = f"{shlex.quote(sys.executable)} -m pip install {' '.join(missing)}"
        sys.exit(f"the rehearsal of `{program.stem}` needs {', '.join(missing)}, which this Python lacks: {install}")
    folder = FOLDER / program.stem
    if not words:
        shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with opened(prepare, program, folder) as scene:
        command = scene.command(*(words or ["exec"]))
        sys.stderr.write(f"in {folder}: planrunner {shlex.join(command)}\n")
        raise SystemExit(_run(scene, command))


def _run(scene: Scene, command: list[str]) -> int:
    process = subprocess.Popen(
        [sys.executable, "-m", "planrunner", *command], cwd=scene.folder, env={**os.environ, **scene.environment}
    )
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the command has got it too, and ends in order
            continue
