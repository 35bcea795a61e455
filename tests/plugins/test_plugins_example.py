"""The example plugin, installed as its users would."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import msgspec
import pytest
from workbench import ROOT

EXAMPLE = ROOT / "examples" / "planrunner-checksum"


def test_the_tests_of_the_example_pass() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(EXAMPLE / "src"), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "planrunner.testing.pytest_plugin", "-p", "no:cacheprovider", "--rootdir", str(EXAMPLE), "tests"],
        cwd=EXAMPLE, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "52 passed" in done.stdout


def test_pytest_starts_without_the_engine() -> None:
    """Every run of pytest beside an installed planrunner loads the fixtures."""
    look = "import sys, planrunner.testing.pytest_plugin as _; print(*[name for name in sys.modules if name.startswith('planrunner.')])"
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["planrunner.testing", "planrunner.testing.pytest_plugin"]


@pytest.mark.slow
def test_an_installed_plugin_is_found_and_runs(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    home = tmp_path / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    packages = next((home / "lib").glob("python*/site-packages"))
    (packages / "msgspec").symlink_to(Path(msgspec.__file__).parent)  # of which the records of planrunner are made
    build = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*build, "--target", str(packages), str(EXAMPLE)], check=True, timeout=240)
    program = (
        "from planrunner.plugins.registry import Registry\n"
        "registry = Registry()\n"
        "found = registry.find('checksum.compute')\n"
        "print(found.plugin, found.effect, *[field.name for field in found.inputs])\n"
        "print('checksum.verify' in registry.names(), registry.problems())\n"
        "print(registry.resolve('checksum.compute').__module__)\n"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [str(home / "bin" / "python"), "-c", program],
        env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "planrunner-checksum idempotent paths algorithm manifest",
        "True ()",
        "planrunner_checksum",
    ], done.stderr
