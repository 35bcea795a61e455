"""docker.*: what the engine's client is asked, and that images are afterwards what they were. The client is a stand-in
that takes the options of the real ones and nothing else."""

from __future__ import annotations

import importlib.util
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planrunner.capabilities.contract import Call, Context, Failure, declaration_of
from planrunner.capabilities.docker.images import build, image_remove, push, tag
from planrunner.capabilities.docker.run import run
from planrunner.engine.services import AttemptServices
from planrunner.plan.model import Task

PEERS = Path(__file__).resolve().parents[3] / "plans/playbooks/parts/deploy"


def peer(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, PEERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Log:
    def __init__(self) -> None:
        self.text = b""

    def write(self, data: bytes, stream: str = "stdout") -> None:
        self.text += data

    def beat(self) -> None: ...

    def spend(self, amounts: Any) -> None: ...


class Engine:
    """A project with the stand-ins on its PATH."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.clients = folder / "clients"
        self.project.mkdir()
        peer("recording_clients").install(str(self.clients))
        (self.project / "Dockerfile").write_text("FROM scratch\n")

    def context(self, key: str = "run:build:1", cancelled: Callable[[], bool] = lambda: False, **env: str) -> Context:
        state = self.project / ".planrunner"
        state.mkdir(exist_ok=True)
        call = Call("r", Task("t"), 1, key, {}, "", (), {}, env, str(self.project), "", None, False, key)
        return Context(call, Log(), cancelled, AttemptServices(str(state), str(self.project), None, env))

    @property
    def calls(self) -> list[dict[str, Any]]:
        path = self.clients / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def asked(self, *start: str) -> list[list[str]]:
        return [call["arguments"] for call in self.calls if tuple(call["arguments"][: len(start)]) == start]

    @property
    def images(self) -> dict[str, Any]:
        path = self.clients / "world.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        return {key: data["RepoTags"] for key, data in found.get("images", {}).items()}

    def world(self, **changes: Any) -> None:
        path = self.clients / "world.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**found, **changes}))


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine(tmp_path)
    monkeypatch.setenv("PATH", f"{made.clients}:{os.environ['PATH']}")
    return made


def capture(function: Any, context: Context, **inputs: Any) -> dict[str, Any]:
    declared = declaration_of(function)
    assert declared is not None
    assert declared.capture is not None
    found = declared.capture(context, **inputs)
    return dict(json.loads(json.dumps(found)))


def undo(function: Any, context: Context, before: dict[str, Any], outputs: Any) -> Any:
    declared = declaration_of(function)
    assert declared is not None
    assert declared.undo is not None
    return declared.undo(context, before, outputs._asdict() if outputs is not None else None)


def preview(function: Any, context: Context, **inputs: Any) -> Any:
    declared = declaration_of(function)
    assert declared is not None
    assert declared.preview is not None
    return declared.preview(context, **inputs)


class TestBuild:
    def test_the_arguments_are_exactly_these(self, engine: Engine) -> None:
        (engine.project / "app").mkdir()
        (engine.project / "app/Other").write_text("FROM scratch\n")
        built = build(
            engine.context(),
            "shop/web:1",
            path="app",
            file="app/Other",
            build_args={"VERSION": "1.2", "DEBUG": True},
            secrets={"TOKEN": "s3cret"},
            target="final",
            platform="linux/arm64",
            network="none",
            pull=True,
            no_cache=True,
        )
        (asked,) = engine.asked("build")
        label = asked[4]
        assert asked == [
            "build", "--tag", "shop/web:1", "--label", label, "--file", f"{engine.project}/app/Other",
            "--build-arg", "DEBUG", "--build-arg", "VERSION", "--secret", "id=TOKEN,env=TOKEN",
            "--target", "final", "--platform", "linux/arm64", "--network", "none", "--pull", "--no-cache",
            "--", f"{engine.project}/app",
        ]  # fmt: skip
        assert label.startswith("planrunner.key=")
        assert engine.images == {built.image: ["shop/web:1"]}
        assert (built.engine, built.previous) == ("docker", "")

    def test_values_stand_in_the_environment_and_never_among_the_arguments(self, engine: Engine) -> None:
        build(engine.context(), "web", build_args={"VERSION": "v4lue"}, secrets={"TOKEN": "s3cret"})
        call = next(call for call in engine.calls if call["arguments"][0] == "build")
        assert (call["env"]["VERSION"], call["env"]["TOKEN"]) == ("v4lue", "s3cret")
        assert "s3cret" not in json.dumps([call["arguments"] for call in engine.calls])
        assert "v4lue" not in json.dumps([call["arguments"] for call in engine.calls])

    def test_the_environment_of_the_client_is_small(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
        monkeypatch.setenv("DOCKER_HOST", "unix:///somewhere.sock")
        build(engine.context(), "web")
        env = engine.calls[0]["env"]
        assert "AWS_SECRET_ACCESS_KEY" not in env
        assert env["DOCKER_HOST"] == "unix:///somewhere.sock"

    @pytest.mark.parametrize(
        ("inputs", "message"),
        [
            ({"tag": "--push"}, "`tag` may not start with a dash"),
            ({"tag": "a b"}, "`tag`: 'a b' is not a valid value"),
            ({"tag": "web", "path": ".."}, r"`path`: \.\. is outside the working directory"),
            ({"tag": "web", "path": "/etc"}, "`path`: /etc is outside the working directory"),
            ({"tag": "web", "path": "out"}, "`path`: out is outside the working directory"),
            ({"tag": "web", "file": "../Dockerfile"}, "outside the working directory"),
            ({"tag": "web", "target": "-x"}, "`target` may not start with a dash"),
            ({"tag": "web", "network": "host --privileged"}, "`network`: 'host --privileged' is not a valid value"),
            ({"tag": "web", "build_args": {"PATH": "x"}}, "`PATH` would steer the client program"),
            ({"tag": "web", "build_args": {"DOCKER_HOST": "x"}}, "`DOCKER_HOST` would steer"),
            ({"tag": "web", "secrets": {"LD_PRELOAD": "x"}}, "`LD_PRELOAD` would steer"),
            ({"tag": "web", "build_args": {"A=B --x": "x"}}, "is not a variable name"),
        ],
    )
    def test_nothing_gets_around_the_arguments(self, engine: Engine, inputs: dict[str, Any], message: str) -> None:
        (engine.project / "out").symlink_to("/etc")
        with pytest.raises(Failure, match=message) as failed:
            build(engine.context(), **inputs)
        assert failed.value.failure == "policy"
        assert engine.asked("build") == []

    def test_a_build_that_fails_fails_the_task_with_what_it_said(self, engine: Engine) -> None:
        (engine.project / "Dockerfile").write_text("FROM scratch\nRUN false\n")
        context = engine.context()
        with pytest.raises(Failure, match="`docker build` ended with 1: The command '/bin/sh -c false'") as failed:
            build(context, "web")
        assert failed.value.failure == "logic"
        assert b"Step 2/2" in context.log.text  # type: ignore[attr-defined]

    def test_an_engine_that_does_not_answer_is_a_transient_failure(self, engine: Engine) -> None:
        engine.world(
            faults={"docker image inspect": "Cannot connect to the Docker daemon at unix:///var/run/docker.sock."}
        )
        with pytest.raises(Failure, match="Cannot connect") as failed:
            build(engine.context(), "web")
        assert failed.value.failure == "transient"

    def test_without_a_dockerfile_it_says_so(self, engine: Engine) -> None:
        (engine.project / "Dockerfile").unlink()
        with pytest.raises(Failure, match="neither a Dockerfile nor a Containerfile"):
            build(engine.context(), "web")

    def test_podman_is_used_when_asked_for_or_when_it_is_the_only_one(self, engine: Engine) -> None:
        assert build(engine.context(), "web", engine="podman").engine == "podman"
        (engine.clients / "docker").unlink()
        assert build(engine.context(PATH=str(engine.clients) + ":/usr/bin:/bin"), "web").engine == "podman"
        with pytest.raises(Failure, match="`docker` is not on the PATH"):
            build(engine.context(PATH=str(engine.clients)), "web", engine="docker")

    def test_the_preview_tells_the_call_and_makes_nothing(self, engine: Engine) -> None:
        told = preview(build, engine.context(), tag="web", build_args={"VERSION": "v4lue"})
        assert told.summary == "build web from . with docker"
        assert told.calls[0].startswith("docker build --tag web --label planrunner.key=")
        assert "v4lue" not in told.calls[0]
        assert engine.images == {}


class TestUndoOfBuild:
    def test_a_new_image_is_gone(self, engine: Engine) -> None:
        context = engine.context()
        before = capture(build, context, tag="web")
        built = build(context, "web")
        for _ in range(2):
            undo(build, context, before, built)
            assert engine.images == {}

    def test_the_image_that_had_the_name_has_it_again(self, engine: Engine) -> None:
        old = build(engine.context("earlier"), "web")
        context = engine.context()
        before = capture(build, context, tag="web")
        (engine.project / "Dockerfile").write_text("FROM scratch\nENV A=1\n")
        built = build(context, "web")
        assert built.previous == old.image
        assert engine.images == {old.image: [], built.image: ["web:latest"]}
        for _ in range(2):
            undo(build, context, before, None)
            assert engine.images == {old.image: ["web:latest"]} | {key: [] for key in engine.images if key != old.image}
        assert list(engine.images) == [old.image]

    def test_what_never_happened_is_undone_by_nothing(self, engine: Engine) -> None:
        old = build(engine.context("earlier"), "web")
        context = engine.context()
        before = capture(build, context, tag="web")
        assert undo(build, context, before, None) == {"changed": False}
        assert engine.images == {old.image: ["web:latest"]}

    def test_somebody_elses_image_of_that_name_stays(self, engine: Engine) -> None:
        context = engine.context()
        before = capture(build, context, tag="web")
        build(context, "web")
        (engine.project / "Dockerfile").write_text("FROM scratch\nENV B=1\n")
        other = build(engine.context("somebody else"), "web")
        with pytest.raises(Failure, match="now names another image"):
            undo(build, context, before, None)
        assert "web:latest" in engine.images[other.image]


class TestRemove:
    def test_an_image_comes_back_with_all_its_names(self, engine: Engine) -> None:
        built = build(engine.context("earlier"), "web")
        tag(engine.context("earlier"), "web", "web:stable")
        context = engine.context()
        before = capture(image_remove, context, image=built.image, force=True)
        removed = image_remove(context, built.image, force=True)
        assert removed.removed
        assert engine.images == {}
        for _ in range(2):
            undo(image_remove, context, before, removed)
            assert engine.images == {built.image: ["web:latest", "web:stable"]}

    def test_a_name_among_several_needs_no_copy(self, engine: Engine) -> None:
        built = build(engine.context("earlier"), "web:1")
        tag(engine.context("earlier"), "web:1", "web:2")
        context = engine.context()
        before = capture(image_remove, context, image="web:2")
        image_remove(context, "web:2")
        assert engine.images == {built.image: ["web:1"]}
        assert engine.asked("image", "save") == []
        undo(image_remove, context, before, None)
        assert engine.images == {built.image: ["web:1", "web:2"]}

    def test_without_a_backup_the_undo_says_what_to_do(self, engine: Engine) -> None:
        build(engine.context("earlier"), "web")
        context = engine.context()
        before = capture(image_remove, context, image="web", backup=False)
        removed = image_remove(context, "web", backup=False)
        with pytest.raises(Failure, match="removed without a backup: build or pull it again"):
            undo(image_remove, context, before, removed)

    def test_what_is_not_there_is_fine(self, engine: Engine) -> None:
        context = engine.context()
        before = capture(image_remove, context, image="web")
        assert not image_remove(context, "web").removed
        assert undo(image_remove, context, before, None) == {"changed": False}
        assert "nothing to remove" in preview(image_remove, context, image="web").summary


class TestTagAndPush:
    def test_a_name_goes_over_and_comes_back(self, engine: Engine) -> None:
        old = build(engine.context("a"), "web:old")
        (engine.project / "Dockerfile").write_text("FROM scratch\nENV A=1\n")
        new = build(engine.context("b"), "web:new")
        tag(engine.context("c"), "web:old", "web:live")
        context = engine.context()
        before = capture(tag, context, source="web:new", target="web:live")
        tagged = tag(context, "web:new", "web:live")
        assert tagged.previous == old.image
        assert engine.images[new.image] == ["web:new", "web:live"]
        for _ in range(2):
            undo(tag, context, before, tagged)
            assert engine.images == {old.image: ["web:old", "web:live"], new.image: ["web:new"]}

    def test_a_new_name_is_taken_away_again(self, engine: Engine) -> None:
        built = build(engine.context("a"), "web")
        context = engine.context()
        before = capture(tag, context, source="web", target="web:live")
        tag(context, "web", "web:live")
        assert undo(tag, context, before, None) == {"changed": True}
        assert undo(tag, context, before, None) == {"changed": False}
        assert engine.images == {built.image: ["web:latest"]}

    @pytest.mark.parametrize("client", ["docker", "podman"])
    def test_push_gives_the_digest_that_the_registry_has(self, engine: Engine, client: Any) -> None:
        build(engine.context("a"), "registry.example/web", engine=client)
        pushed = push(engine.context(), "registry.example/web", engine=client)
        assert pushed.digest.startswith("sha256:")
        assert engine.asked("push")[0][-2:] == ["--", "registry.example/web"]


class TestRun:
    def test_the_arguments_are_exactly_these(self, engine: Engine) -> None:
        (engine.project / "data").mkdir()
        ran = run(
            engine.context(),
            "alpine:3",
            ["echo", "--help", "; rm -rf /"],
            env={"TOKEN": "s3cret"},
            mounts=[{"source": "data", "target": "/data"}, {"source": ".", "target": "/out", "write": True}],
            user="1000:1000",
            workdir="/data",
            read_only=True,
        )
        (asked,) = engine.asked("run")
        assert asked == [
            "run", "--rm", "--name", ran.container, "--label", asked[5], "--init", "--pull", "missing",
            "--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
            "--memory", "1073741824", "--cpus", "2", "--pids-limit", "512", "--read-only",
            "--user", "1000:1000", "--workdir", "/data", "--env", "TOKEN",
            "--mount", f"type=bind,source={engine.project}/data,target=/data,readonly",
            "--mount", f"type=bind,source={engine.project},target=/out",
            "--", "alpine:3", "echo", "--help", "; rm -rf /",
        ]  # fmt: skip
        assert (ran.exit_code, ran.stdout) == (0, "--help ; rm -rf /\n")

    def test_values_reach_the_container_by_name(self, engine: Engine) -> None:
        assert run(engine.context(), "alpine:3", ["env"], env={"TOKEN": "s3cret"}).stdout == "TOKEN=s3cret\n"
        assert run(engine.context(), "alpine:3", ["cat"], stdin="in").stdout == "in"
        assert "s3cret" not in json.dumps([call["arguments"] for call in engine.calls])

    @pytest.mark.parametrize(
        ("inputs", "message"),
        [
            ({"mounts": [{"source": "/etc", "target": "/x"}]}, "outside the working directory"),
            ({"mounts": [{"source": "out", "target": "/x"}]}, "outside the working directory"),
            ({"mounts": [{"source": "a,b", "target": "/x"}]}, "has a comma or a quote"),
            ({"mounts": [{"source": ".", "target": "/x,readonly=false"}]}, "`mounts.target`"),
            ({"network": "--privileged"}, "may not start with a dash"),
            ({"user": "0 --privileged"}, "`user`"),
            ({"image": "-it"}, "`image` may not start with a dash"),
            ({"env": {"PATH": "/evil"}}, "would steer the client"),
        ],
    )
    def test_nothing_outside_is_reached(self, engine: Engine, inputs: dict[str, Any], message: str) -> None:
        (engine.project / "out").symlink_to("/etc")
        (engine.project / "a,b").mkdir()
        with pytest.raises(Failure, match=message) as failed:
            run(engine.context(), **{"image": "alpine:3", **inputs})
        assert failed.value.failure == "policy"
        assert engine.asked("run") == []

    def test_a_command_that_fails_gives_its_code_and_output(self, engine: Engine) -> None:
        with pytest.raises(Failure, match="the command in the container ended with 127") as failed:
            run(engine.context(), "alpine:3", ["nothing"])
        assert failed.value.outputs["exit_code"] == 127
        with pytest.raises(Failure, match=r"`docker run` ended with 125: .*pull access denied"):
            run(engine.context(), "secret/image", ["echo"])

    def test_what_a_crash_left_behind_is_taken_away_first(self, engine: Engine) -> None:
        first = run(engine.context(), "alpine:3", ["echo"])
        engine.world(containers={first.container: "running"})
        assert run(engine.context(), "alpine:3", ["echo"]).container == first.container

    def test_a_stop_takes_the_container_away(self, engine: Engine) -> None:
        stop = threading.Event()
        threading.Timer(0.7, stop.set).start()
        began = time.monotonic()
        with pytest.raises(Failure, match="was stopped"):
            run(engine.context(cancelled=stop.is_set), "alpine:3", ["sleep", "600"])
        assert time.monotonic() - began < 240
        assert json.loads((engine.clients / "world.json").read_text())["containers"] == {}
