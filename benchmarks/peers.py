"""The environments of the contenders under ``benchmarks/.cache``, made once; ours is renewed every time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.join(ROOT, "benchmarks", ".cache")


class PeerMissing(Exception):
    """A peer could not be installed; rows that need it are left out and say so."""


def clean_env(home: str = "") -> dict[str, str]:
    """What contenders see: no setting of Python (some forbid byte code), none of planrunner, a home of their own."""
    home = home or os.path.join(CACHE, "home")
    os.makedirs(home, exist_ok=True)
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "LANG": "C.UTF-8"}


def _run(arguments: Sequence[str]) -> str:
    keep = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(arguments, env=keep, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise PeerMissing(f"{' '.join(arguments)}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout.strip()


class Environment(NamedTuple):
    name: str
    folder: str

    def program(self, name: str) -> str:
        return os.path.join(self.folder, "bin", name)

    @property
    def python(self) -> str:
        return self.program("python")

    def version(self, package: str) -> str:
        return _run([self.python, "-c", f"import importlib.metadata as m; print(m.version({package!r}))"])


def _environment(name: str) -> Environment:
    folder = os.path.join(CACHE, "env", name)
    if not os.path.isfile(os.path.join(folder, "bin", "python")):
        _run([sys.executable, "-m", "venv", folder])
        # Start scripts written by an old pip import `re`: a tax on every contender that is a Python program.
        _run([os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--quiet", "--upgrade", "pip"])
    return Environment(name, folder)


def peer(package: str) -> Environment:
    """The environment of a package from the index, installed when first asked for."""
    environment = _environment(package)
    marker = os.path.join(environment.folder, ".installed")
    if not os.path.isfile(marker):
        _run([environment.python, "-m", "pip", "install", "--quiet", package])
        with open(marker, "w", encoding="utf-8") as file:
            file.write(environment.version(package))
    return environment


def ninja() -> str:
    """The real program: some versions of the package put a Python script in front of it."""
    environment = peer("ninja")
    program = environment.program("ninja")
    inner = [os.path.join(folder, "ninja") for folder, _, files in os.walk(environment.folder) if "ninja" in files]
    for path in (program, *inner):
        with open(path, "rb") as file:
            if file.read(4) == b"\x7fELF":
                return path
    raise PeerMissing("no ninja program in its package")


def make() -> str | None:
    return shutil.which("make")


def ours() -> Environment:
    """The checkout as a user has it: built, installed (not editable) and compiled to byte code."""
    environment = _environment("planrunner")
    python = environment.python
    marker = os.path.join(environment.folder, ".dependencies")
    if not os.path.isfile(marker):
        _run([python, "-m", "pip", "install", "--quiet", ROOT])
        open(marker, "w").close()
    _run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", ROOT])
    code = "import planrunner, os; print(os.path.dirname(planrunner.__file__))"
    _run([python, "-m", "compileall", "-q", "-f", _run([python, "-c", code])])
    return environment


def with_models(environment: Environment) -> Environment:
    """Our environment with the extras of models and of vectors."""
    return _with(environment, "models", f"{ROOT}[llm,vector]")


def with_service(environment: Environment) -> Environment:
    """Our environment with the extra of the service, and with what drives a browser."""
    return _with(environment, "service", f"{ROOT}[serve]", "playwright>=1.55,<2")


def _with(environment: Environment, name: str, *packages: str) -> Environment:
    marker = os.path.join(environment.folder, f".{name}")
    if not os.path.isfile(marker):
        _run([environment.python, "-m", "pip", "install", "--quiet", *packages])
        open(marker, "w").close()
    return environment


def versions(packages: Sequence[str]) -> str:
    """The versions of everything that took part, for the line under the table."""
    known = [f"{name} {peer(name).version(name)}" for name in packages]
    first = _run(["make", "--version"]).splitlines()[0] if make() else ""
    found = re.search(r"[\d.]+$", first)
    return ", ".join([*known, *([f"GNU make {found.group()}"] if found else [])])
