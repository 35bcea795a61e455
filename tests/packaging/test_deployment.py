"""The files of `examples/deployment`: that they agree with the program that they start."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from workbench import ROOT

from tests.cli.conftest import environment

FILES = ROOT / "examples" / "deployment"


def documents(name: str) -> list[Any]:
    return list(YAML(typ="safe").load_all(FILES / name))


def served() -> list[list[str]]:
    """The arguments with which each file starts the service."""
    container = re.search(r'^CMD \["(serve.*)"\]$', (FILES / "Containerfile").read_text(), re.MULTILINE)
    unit = re.search(r"^ExecStart=\S+ (.*)$", (FILES / "planrunner.service").read_text(), re.MULTILINE)
    assert container and unit
    deployment = next(each for each in documents("kubernetes.yaml") if each["kind"] == "Deployment")
    return [
        container[1].split('", "'),
        unit[1].split(),
        documents("compose.yaml")[0]["services"]["planrunner"]["command"],
        deployment["spec"]["template"]["spec"]["containers"][0]["args"],
    ]


@pytest.mark.parametrize("arguments", served(), ids=["container", "systemd", "compose", "kubernetes"])
def test_the_service_starts_as_a_file_says_answers_the_check_of_its_health_and_ends_in_peace(
    tmp_path: Path, arguments: list[str]
) -> None:
    project = tmp_path / "main"
    project.mkdir()
    env = environment(HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path / "data"))
    program = [sys.executable, "-m", "planrunner"]
    token = [*program, "token", "create", "ada", "--scope", "admin"]
    subprocess.run(token, env=env, check=True, capture_output=True, cwd=tmp_path)
    here = [str(project) if each == "/srv/projects/main" else each for each in arguments]
    service = subprocess.Popen(
        [*program, *here, "--port", "0"], env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        assert service.stderr is not None
        found = re.search(r":(\d+)\b", service.stderr.readline())
        assert found
        assert service.stderr.readline()  # it is ready once it has said all
        check = re.search(r'"(import urllib[^"]*)"', (FILES / "Containerfile").read_text())
        assert check
        subprocess.run([sys.executable, "-c", check[1].replace("8421", found[1])], check=True, timeout=240)
    finally:
        service.send_signal(signal.SIGTERM)
        rest = service.communicate(timeout=240)[1]
    assert service.returncode == 0, rest


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "planrunner.service"
    unit.write_text((FILES / unit.name).read_text().replace("/opt/planrunner/bin/planrunner", sys.executable))
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True)
    assert done.returncode == 0 and "Unknown" not in done.stderr, done.stderr


def test_all_files_keep_the_same_places_and_ports() -> None:
    container = (FILES / "Containerfile").read_text()
    compose = documents("compose.yaml")[0]["services"]["planrunner"]
    pod = next(each for each in documents("kubernetes.yaml") if each["kind"] == "Deployment")["spec"]["template"][
        "spec"
    ]
    keys = "/var/lib/planrunner"
    assert f'VOLUME ["/srv/projects", "{keys}"]' in container and "EXPOSE 8421" in container
    assert [each.split(":")[1] for each in compose["volumes"]] == ["/srv/projects/main", keys]
    assert {each["mountPath"] for each in pod["containers"][0]["volumeMounts"]} == {"/srv/projects", keys}
    assert compose["ports"][0].endswith(":8421") and pod["containers"][0]["ports"][0]["containerPort"] == 8421
    user = re.search(r"--uid (\d+)", container)
    assert user and pod["securityContext"]["runAsUser"] == int(user[1])
