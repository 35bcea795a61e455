"""The wheel, the source archive, an editable install and a plain checkout all find their grammar and schemas."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from workbench import ROOT

pytestmark = pytest.mark.slow

PLAN = "plan: tiny\ntasks:\n  - {id: hello, run: echo hello, timeout: 10s}\n"


def _run(arguments: Sequence[str | Path], cwd: Path, **env: str) -> str:
    """The output of a command that must succeed, run without anything of this process's Python settings."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        env={**clean, **env},
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the repository holds, without caches, so that nothing is built inside the real one."""
    copy = tmp_path_factory.mktemp("checkout") / "planrunner"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", ".planrunner", ".*_cache", ".cache", ".hypothesis", "__pycache__", "build", "dist", "_data"
    )
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy


@pytest.fixture(scope="module")
def archive(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", out], checkout)
    return next(out.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the unpacked source archive, as an installer does that finds no wheel."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # new in 3.11.4
    out = tmp_path_factory.mktemp("wheel")
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out], next(folder.iterdir()))
    return next(out.glob("*.whl"))


def _environment(folder: Path) -> Path:
    """A fresh environment that sees this one's dependencies (not this one's planrunner): quick, and without a network.

    The path line is read after the environment's own packages, and lines inside the folder it names, where an
    editable planrunner would be, are not followed.
    """
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    python = folder / "bin" / "python"
    site = Path(_run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def _install(python: Path, *arguments: str | Path) -> None:
    _run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps",
          "--no-build-isolation", "--disable-pip-version-check", *arguments], python.parent)  # fmt: skip


def _works(python: Path, folder: Path, expected_home: Path) -> None:
    home = _run([python, "-c", "import planrunner; print(planrunner.__file__)"], folder).strip()
    assert Path(home).is_relative_to(expected_home)
    for kind, name in (("schemas", "plan.schema.json"), ("grammar", "expr.json")):
        text = _run([python, "-c", f"from planrunner.fileio import read_data; print(read_data({kind!r}, {name!r}))"],
                    folder)  # fmt: skip
        assert text.strip() == (ROOT / kind / name).read_text(encoding="utf-8").strip()
    (folder / "tiny.yaml").write_text(PLAN)
    command = python.parent / "planrunner"
    assert "0." in _run([command, "--version"], folder)
    _run([command, "lint", "tiny.yaml"], folder)
    assert '"status": "completed"' in _run([command, "exec", "tiny.yaml", "--json"], folder)


def test_the_source_archive_holds_what_a_build_and_the_tests_need(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    for needed in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "schemas/plan.schema.json",
                   "grammar/expr.lark", "grammar/expr.json", "planrunner/py.typed", "tests/conftest.py", "plans/check-project.yaml",
                   ".ci/run", "docs/generate.py"):  # fmt: skip
        assert needed in names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".planrunner")]


def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"planrunner"}
    for folder in ("grammar", "schemas", "plans/playbooks"):
        start = f"planrunner/_data/{folder}/"
        packed = {name.removeprefix(start) for name in names if name.startswith(start)}
        files = {path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        assert packed == {str(path.relative_to(ROOT / folder)) for path in files}
    pages = [Path(name) for name in names if name.startswith("planrunner/plan/rules/explanations/")]
    assert {page.name for page in pages if page.suffix == ".md"} == {
        path.name for path in (ROOT / "planrunner/plan/rules/explanations").glob("*.md")
    }
    assert "planrunner/py.typed" in names
    templates = {Path(name).name for name in names if name.startswith("planrunner/plugins/template/")}
    assert templates == {path.name for path in (ROOT / "planrunner" / "plugins" / "template").iterdir()}


def test_a_wheel_works_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    python = _environment(tmp_path / "env")
    _install(python, wheel)
    _works(python, tmp_path, tmp_path / "env")


def test_a_new_plugin_is_built_installed_found_and_tested_with_an_installed_planrunner(
    wheel: Path, tmp_path: Path
) -> None:
    pytest.importorskip("hatchling")
    python = _environment(tmp_path / "env")
    _install(python, wheel)
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": f"{python.parent}:{os.environ['PATH']}"}
    command = python.parent / "planrunner"
    _run([command, "plugins", "new", "lists"], tmp_path, **own)
    root = tmp_path / "planrunner-lists"
    _install(python, root)
    assert "planrunner-lists  0.1.0    lists     ready: 2 capabilities" in _run([command, "plugins"], root, **own)
    assert "lists.add: sound" in _run([command, "plugins", "check", "lists"], root, **own)
    assert "36 passed" in _run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider"], root, **own)
    cases = ["plugins", "check", "lists", "--cases", "tests/test_lists.py"]
    assert "all hold" in _run([command, *cases], root, **own)
    _run([command, "exec", "plans/lists.yaml"], root, **own)
    assert (root / "list.txt").read_text() == "milk\n"
    _run([command, "rollback", "last"], root, **own)
    assert not (root / "list.txt").exists()


def test_an_editable_install_sees_edits_of_the_schema_at_once(checkout: Path, tmp_path: Path) -> None:
    pytest.importorskip("editables", reason="hatchling needs it for editable installs; the dev extra has it")
    python = _environment(tmp_path / "env")
    _install(python, "-e", checkout)
    _works(python, tmp_path, checkout)
    schema = checkout / "schemas" / "plan.schema.json"
    before = schema.read_text()
    try:
        schema.write_text(before + "\n")
        show = "from planrunner.fileio import read_data; print(read_data('schemas', 'plan.schema.json'), end='')"
        assert _run([python, "-c", show], tmp_path) == before + "\n"
    finally:
        schema.write_text(before)


def test_a_plain_checkout_runs_as_a_module(checkout: Path, tmp_path: Path) -> None:
    python = _environment(tmp_path / "env")
    (tmp_path / "tiny.yaml").write_text(PLAN)
    arguments = [python, "-m", "planrunner", "exec", "tiny.yaml", "--json"]
    assert '"status": "completed"' in _run(arguments, tmp_path, PYTHONPATH=str(checkout))
