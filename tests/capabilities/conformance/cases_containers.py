"""docker.* and kubectl.*: against stand-ins for the clients, which keep a small world of their own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from planrunner.testing.conformance import Case, Ready

sys.path.append(str(Path(__file__).resolve().parents[3] / "plans/playbooks/parts/deploy"))

import recording_clients

_IMAGE = "sha256:" + "a" * 64
_SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"it": "1"}}
_WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"replicas": 1, "template": {"image": "web:1"}},
}


@contextmanager
def _clients(folder: Path, prepare: Callable[[Any, dict[str, Any]], None]) -> Iterator[Callable[[], Any]]:
    """Stand-ins on the PATH, and a look at their world: what is wanted of it, not what its server counts."""
    path = os.environ["PATH"]
    recording_clients.install(str(folder))
    world: dict[str, Any] = {}
    prepare(recording_clients, world)
    (folder / "world.json").write_text(json.dumps(world))
    os.environ["PATH"] = f"{folder}:{path}"
    try:
        yield lambda: _seen(json.loads((folder / "world.json").read_text()))
    finally:
        os.environ["PATH"] = path


def _seen(world: dict[str, Any]) -> Any:
    objects = {
        key: [held.get("data"), held.get("spec"), held["metadata"].get("labels")]
        for key, held in world.get("objects", {}).items()
    }
    return [world.get("images", {}), world.get("containers", {}), objects]


def _with(prepare: Callable[[Any, dict[str, Any]], None], inputs: dict[str, Any]) -> Callable[[Path], Iterator[Ready]]:
    def setup(directory: Path) -> Iterator[Ready]:
        (directory / "Dockerfile").write_text("FROM scratch\n")
        with _clients(directory / "clients", prepare) as look:
            yield Ready(inputs, look=look)

    return setup


def _empty(peer: Any, world: dict[str, Any]) -> None:
    """Nothing is there."""


def _image(peer: Any, world: dict[str, Any]) -> None:
    world["images"] = {_IMAGE: {"RepoTags": ["web:1", "web:old"], "Config": {"Labels": {}}}}


def _only_image(peer: Any, world: dict[str, Any]) -> None:
    world["images"] = {_IMAGE: {"RepoTags": ["web:1"], "Config": {"Labels": {}}}}


def _objects(peer: Any, world: dict[str, Any]) -> None:
    world["objects"] = {}
    for image in ("web:1", "web:2"):
        peer.store(
            world, {**_WEB, "metadata": {"name": "web", "namespace": "default"}, "spec": {"image": image}}, "x", "apply"
        )


def _slow(peer: Any, world: dict[str, Any]) -> None:
    world["pause"] = 30


_CASES = [
    Case("docker.build", _with(_empty, {"tag": "web:1"}), volatile=("previous",)),
    Case("docker.build", _with(_slow, {"tag": "web:1"}), name="slow", waits=True),
    Case("docker.build", _with(_empty, {"tag": "--push"}), name="option", fails="policy"),
    Case("docker.image_remove", _with(_only_image, {"image": "web:1"}), volatile=("removed", "image")),
    Case("docker.image_remove", _with(_slow, {"image": "web:1"}), name="slow", waits=True),
    Case("docker.tag", _with(_image, {"source": "web:1", "target": "web:live"}), volatile=("previous",)),
    Case("docker.tag", _with(_slow, {"source": "web:1", "target": "web:live"}), name="slow", waits=True),
    Case("docker.push", _with(_image, {"image": "web:1"})),
    Case("docker.push", _with(_slow, {"image": "web:1"}), name="slow", waits=True),
    Case("docker.run", _with(_image, {"image": "web:1", "command": ["echo", "hi"]})),
    Case("docker.run", _with(_image, {"image": "web:1", "command": ["sleep", "30"]}), name="long", waits=True),
    Case("docker.run", _with(_image, {"image": "web:1", "command": ["nothing"]}), name="failing", fails="logic"),
    Case("kubectl.apply", _with(_objects, {"manifest": [_SETTINGS, _WEB]})),
    Case("kubectl.apply", _with(_slow, {"manifest": [_SETTINGS]}), name="slow", waits=True),
    Case("kubectl.delete", _with(_objects, {"resource": "deployment/web"}), volatile=("objects", "total")),
    Case("kubectl.delete", _with(_slow, {"resource": "deployment/web"}), name="slow", waits=True),
    Case("kubectl.get", _with(_objects, {"resource": "deployments"})),
    Case("kubectl.get", _with(_slow, {"resource": "deployments"}), name="slow", waits=True),
    Case("kubectl.rollout_status", _with(_objects, {"resource": "deployment/web"})),
    Case("kubectl.rollout_status", _with(_slow, {"resource": "deployment/web"}), name="slow", waits=True),
    Case("kubectl.rollout_status", _with(_objects, {"resource": "job/web"}), name="job", fails="policy"),
    Case("kubectl.rollout_undo", _with(_objects, {"resource": "deployment/web"})),
    Case("kubectl.rollout_undo", _with(_slow, {"resource": "deployment/web"}), name="slow", waits=True),
]

_NOTED = "what is wrong with it shows when the state before is noted, so there is no attempt to replay"

CASES = [
    each._replace(
        ignore=("clients/*", "clients/__pycache__/*"), exempt={"replay": _NOTED} if each.name == "option" else {}
    )
    for each in _CASES
]
