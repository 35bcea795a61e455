"""kubectl.*: what the client is asked, and that the cluster is afterwards what it was. The client is a
stand-in that takes the options of the real one and nothing else."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

from planrunner.capabilities.clients import Request, refused
from planrunner.capabilities.contract import Call, Context, Failure, declaration_of
from planrunner.capabilities.kubectl.objects import apply, delete, get
from planrunner.capabilities.kubectl.rollout import rollout_status, rollout_undo
from planrunner.capabilities.programs import Ended
from planrunner.engine.services import AttemptServices
from planrunner.plan.model import Task

PEERS = Path(__file__).resolve().parents[3] / "plans/playbooks/parts/deploy"
SERVER_SIDE = ["apply", "--server-side", "--field-manager", "planrunner"]


class Quiet:
    def write(self, data: bytes, stream: str = "stdout") -> None: ...

    def beat(self) -> None: ...

    def spend(self, amounts: Any) -> None: ...


class Cluster:
    """A project with the stand-ins on its PATH."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.clients = folder / "clients"
        (self.project / ".planrunner").mkdir(parents=True)
        spec = importlib.util.spec_from_file_location("recording_clients", PEERS / "recording_clients.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.install(str(self.clients))

    def context(self, key: str = "run:task:1") -> Context:
        state = str(self.project / ".planrunner")
        call = Call("r", Task("t"), 1, key, {}, "", (), {}, {}, str(self.project), "", None, False, key)
        return Context(call, Quiet(), lambda: False, AttemptServices(state, str(self.project), None, {}))

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.clients / "calls.jsonl").read_text().splitlines()]

    def asked(self, *words: str) -> list[list[str]]:
        """The calls in which these words stand in this order at the start, behind the options for the cluster."""
        return [call["arguments"] for call in self.calls if tuple(call["arguments"][: len(words)]) == words]

    @property
    def world(self) -> dict[str, Any]:
        return dict(json.loads((self.clients / "world.json").read_text()))

    def wanted(self) -> dict[str, Any]:
        """What is asked of each object; what the server notes about it does not count."""
        found = {}
        for key, held in self.world.get("objects", {}).items():
            meta = {name: held["metadata"].get(name) for name in ("name", "namespace", "labels")}
            found[key] = {**{part: held[part] for part in held if part not in ("metadata", "status")}, "metadata": meta}
        return found

    def change(self, **world: Any) -> None:
        (self.clients / "world.json").write_text(json.dumps({**self.world, **world}))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(tmp_path)
    monkeypatch.setenv("PATH", f"{made.clients}:{os.environ['PATH']}")
    return made


def capture(function: Any, context: Context, **inputs: Any) -> dict[str, Any]:
    declared = declaration_of(function)
    assert declared is not None
    assert declared.capture is not None
    return dict(json.loads(json.dumps(declared.capture(context, **inputs))))


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


def settings(value: str, name: str = "settings") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"it": value}}


def secret(value: str) -> dict[str, Any]:
    data = {"password": base64.b64encode(value.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data}


def web(image: str, **labels: str) -> dict[str, Any]:
    spec = {"replicas": 2, "template": {"spec": {"containers": [{"name": "web", "image": image}]}}}
    meta = {"name": "web", "labels": {"app": "web", **labels}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


class TestApply:
    def test_the_arguments_are_exactly_these_and_the_objects_go_to_standard_input(self, cluster: Cluster) -> None:
        applied = apply(cluster.context(), settings("1"), namespace="shop", kube_context="test@here", force=True)
        call = cluster.calls[-1]
        fixed = ["--force-conflicts", "--filename", "-", "--output", "json"]
        assert call["arguments"] == ["--context", "test@here", "--namespace", "shop", *SERVER_SIDE, *fixed]
        assert json.loads(call["stdin"])["items"] == [settings("1")]
        assert applied.objects[0]["namespace"] == "shop"
        assert applied.objects[0]["generation"] == 1

    def test_text_and_files_are_taken_as_well(self, cluster: Cluster) -> None:
        apply(
            cluster.context(),
            "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n---\n" + json.dumps(settings("2", "b")),
        )
        folder = cluster.project / "k8s"
        folder.mkdir()
        (folder / "1.yaml").write_text("kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: c\n")
        (folder / "2.json").write_text(json.dumps(settings("3", "d")))
        (folder / "README.md").write_text("not a manifest")
        assert apply(cluster.context(), path="k8s").total == 2
        assert {key.split("/")[-1] for key in cluster.wanted()} == {"a", "b", "c", "d"}

    @pytest.mark.parametrize(
        ("inputs", "message"),
        [
            ({"path": "../k8s"}, "outside the working directory"),
            ({"path": "links"}, "holds links"),
            ({"manifest": "x", "namespace": "-A"}, "`namespace` may not start with a dash"),
            ({"manifest": "x", "namespace": "a --context=b"}, "`namespace`"),
            ({"manifest": "x", "kube_context": "--kubeconfig=/evil"}, "may not start with a dash"),
        ],
    )
    def test_nothing_gets_around_the_arguments(self, cluster: Cluster, inputs: dict[str, Any], message: str) -> None:
        (cluster.project / "links").mkdir()
        (cluster.project / "links/a.yaml").symlink_to("/etc/hostname")
        with pytest.raises(Failure, match=message) as failed:
            apply(cluster.context(), **inputs)
        assert failed.value.failure == "policy"
        assert not (cluster.clients / "calls.jsonl").exists()

    def test_an_undo_deletes_what_is_new_and_puts_the_rest_back(self, cluster: Cluster) -> None:
        apply(cluster.context("earlier"), settings("old"))
        was = cluster.wanted()
        context = cluster.context()
        given = [settings("new"), settings("x", "other")]
        before = capture(apply, context, manifest=given)
        applied = apply(context, given)
        assert cluster.wanted() != was
        for _ in range(2):
            undo(apply, context, before, applied)
            assert cluster.wanted() == was

    def test_an_undo_knows_what_was_done_though_nobody_saw_the_end(self, cluster: Cluster) -> None:
        apply(cluster.context("earlier"), settings("old"))
        was = cluster.wanted()
        context = cluster.context()
        before = capture(apply, context, manifest=[settings("new"), settings("x", "other")])
        assert undo(apply, context, before, None) == {"changed": []}
        apply(context, [settings("new")])  # half of it
        undo(apply, context, before, None)
        assert cluster.wanted() == was

    def test_what_somebody_else_has_changed_since_stays(self, cluster: Cluster) -> None:
        context = cluster.context()
        before = capture(apply, context, manifest=[settings("new"), settings("x", "other")])
        applied = apply(context, [settings("new"), settings("x", "other")])
        objects = cluster.world["objects"]
        objects["ConfigMap/default/settings"]["data"] = {"it": "theirs"}
        cluster.change(objects=objects)
        with pytest.raises(Failure, match=r"ConfigMap default/settings \(v1\) has been changed since"):
            undo(apply, context, before, applied)
        assert len(cluster.wanted()) == 2, "nothing is put back where not everything can be"

    def test_what_a_later_run_has_applied_stays_as_well(self, cluster: Cluster) -> None:
        context = cluster.context()
        before = capture(apply, context, manifest=settings("1"))
        applied = apply(context, settings("1"))
        apply(cluster.context("a later run"), settings("2"))
        for outputs in (applied, None):
            with pytest.raises(Failure, match="has been changed since"):
                undo(apply, context, before, outputs)
        assert cluster.wanted()["ConfigMap/default/settings"]["data"] == {"it": "2"}

    def test_what_controllers_report_is_no_change_by_somebody_else(self, cluster: Cluster) -> None:
        context = cluster.context()
        before = capture(apply, context, manifest=[web("web:1")])
        applied = apply(context, [web("web:1")])
        objects = cluster.world["objects"]
        objects["Deployment/default/web"]["status"]["availableReplicas"] = 1
        objects["Deployment/default/web"]["metadata"]["resourceVersion"] = "77"
        cluster.change(objects=objects)
        undo(apply, context, before, applied)
        assert cluster.wanted() == {}

    def test_the_preview_is_the_difference_that_the_server_sees(self, cluster: Cluster) -> None:
        told = preview(apply, cluster.context(), manifest=settings("1"))
        assert (
            told.diff == '+++ ConfigMap/default/settings\n+apiVersion: "v1"\n+data: {"it": "1"}\n+kind: "ConfigMap"\n'
        )
        assert cluster.wanted() == {}
        apply(cluster.context(), settings("1"))
        assert preview(apply, cluster.context(), manifest=settings("1")).summary == "apply without a change"

    def test_a_refusal_names_the_command_and_leaves_out_the_log_of_the_client(self) -> None:
        log = 'E1127 03:11:37.852994    3223 memcache.go:265] "Unhandled Error" err="connect: connection refused"\n'
        ended = Ended(1, b"", f"{log}{log}The connection to the server was refused\n".encode())
        failure = refused(Request(("kubectl", "--context", "a", "--namespace", "b", "rollout", "status")), ended)
        assert str(failure) == "`kubectl rollout` ended with 1: The connection to the server was refused"
        assert failure.failure == "transient"

    def test_a_cluster_out_of_reach_is_a_transient_failure(self, cluster: Cluster) -> None:
        apply(cluster.context(), settings("1"))
        cluster.change(faults={"kubectl apply": "Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout"})
        with pytest.raises(Failure, match="Unable to connect") as failed:
            apply(cluster.context(), settings("1"))
        assert failed.value.failure == "transient"


class TestSecrets:
    """What they hold is kept nowhere."""

    @staticmethod
    def is_kept(cluster: Cluster, value: str) -> bool:
        wanted = value.encode(), base64.b64encode(value.encode())
        kept = [path.read_bytes() for path in cluster.project.rglob("*") if path.is_file()]
        assert kept, "the objects as they were are kept somewhere"
        return any(each in data for data in kept for each in wanted)

    def test_a_new_one_is_deleted_again(self, cluster: Cluster) -> None:
        context = cluster.context()
        before = capture(apply, context, manifest=[secret("hunter2"), web("web:1")])
        applied = apply(context, [secret("hunter2"), web("web:1")])
        assert not self.is_kept(cluster, "hunter2")
        undo(apply, context, before, applied)
        assert cluster.wanted() == {}

    def test_one_that_stayed_as_it_was_hinders_nothing(self, cluster: Cluster) -> None:
        apply(cluster.context("earlier"), [secret("hunter2"), web("web:1")])
        was, context = cluster.wanted(), cluster.context()
        before = capture(apply, context, manifest=[secret("hunter2"), web("web:2")])
        undo(apply, context, before, apply(context, [secret("hunter2"), web("web:2")]))
        assert cluster.wanted() == was

    def test_one_that_was_changed_is_told_before_anything_is_touched(self, cluster: Cluster) -> None:
        apply(cluster.context("earlier"), [secret("hunter2"), web("web:1")])
        context = cluster.context()
        before = capture(apply, context, manifest=[secret("tr0ub4dor"), web("web:2")])
        applied = apply(context, [secret("tr0ub4dor"), web("web:2")])
        assert not self.is_kept(cluster, "hunter2") and not self.is_kept(cluster, "tr0ub4dor")
        now = cluster.wanted()
        for outputs in (applied, None):
            with pytest.raises(Failure, match=r"Secret default/s \(v1\) was changed or deleted, .* by hand"):
                undo(apply, context, before, outputs)
        assert cluster.wanted() == now

    def test_after_an_attempt_that_was_cut_off_nothing_is_taken_for_ours(self, cluster: Cluster) -> None:
        context = cluster.context()
        before = capture(apply, context, manifest=[secret("hunter2"), web("web:1")])
        assert undo(apply, context, before, None) == {"changed": []}
        apply(context, [secret("hunter2")])
        with pytest.raises(Failure, match="a manifest with secrets is not kept: look at Secret"):
            undo(apply, context, before, None)
        assert list(cluster.wanted()) == ["Secret/default/s"]

    def test_a_deleted_one_stays_deleted_and_is_told(self, cluster: Cluster) -> None:
        apply(cluster.context("earlier"), secret("hunter2"))
        context = cluster.context()
        before = capture(delete, context, resource="secret/s")
        deleted = delete(context, resource="secret/s")
        assert not self.is_kept(cluster, "hunter2")
        with pytest.raises(Failure, match="what secrets hold is not kept"):
            undo(delete, context, before, deleted)


class TestDelete:
    def test_what_is_deleted_can_be_made_again(self, cluster: Cluster) -> None:
        apply(cluster.context("earlier"), [settings("1"), web("web:1")])
        was = cluster.wanted()
        context = cluster.context()
        before = capture(delete, context, manifest=[settings("1"), web("web:1")])
        deleted = delete(context, manifest=[settings("1"), web("web:1")])
        assert (deleted.total, cluster.wanted()) == (2, {})
        for _ in range(2):
            undo(delete, context, before, deleted)
            assert cluster.wanted() == was

    def test_one_object_by_its_name(self, cluster: Cluster) -> None:
        apply(cluster.context("earlier"), [settings("1"), web("web:1")])
        assert (
            preview(delete, cluster.context(), resource="deployment/web").diff == "-Deployment default/web (apps/v1)\n"
        )
        assert delete(cluster.context(), resource="deployment/web").total == 1
        assert delete(cluster.context(), resource="deployment/web").total == 0
        assert list(cluster.wanted()) == ["ConfigMap/default/settings"]
        with pytest.raises(Failure, match="may not start with a dash"):
            delete(cluster.context(), resource="--all")

    def test_what_holds_more_than_itself_needs_a_word(self, cluster: Cluster) -> None:
        volume = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "db"}, "spec": {}}
        apply(cluster.context("earlier"), [volume])
        context = cluster.context()
        with pytest.raises(Failure, match="say `everything: true`") as failed:
            delete(context, manifest=[volume])
        assert failed.value.failure == "policy"
        before = capture(delete, context, manifest=[volume], everything=True)
        deleted = delete(context, manifest=[volume], everything=True)
        with pytest.raises(Failure, match="held more than itself"):
            undo(delete, context, before, deleted)


class TestReadingAndRollouts:
    def test_objects_come_as_data_without_the_values_of_secrets(self, cluster: Cluster) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "czNjcmV0"}}
        apply(cluster.context(), [secret, web("web:1"), settings("1")])
        (found,) = get(cluster.context(), "secrets").items
        assert found["data"] == {"password": "(hidden)"}
        assert get(cluster.context(), "deployments.apps", selector="app=web").total == 1
        assert get(cluster.context(), "deployments", selector="app=db").items == []
        assert get(cluster.context(), "configmaps", "settings").items[0]["data"] == {"it": "1"}
        with pytest.raises(Failure, match="may not start with a dash"):
            get(cluster.context(), "pods", "-A")

    def test_much_is_kept_as_an_artifact(self, cluster: Cluster) -> None:
        apply(cluster.context(), settings("x" * 600_000))
        context = cluster.context()
        found = get(context, "configmaps")
        assert (found.items, found.total) == ([], 1)
        assert found.artifact is not None
        with context.artifact(found.artifact["sha256"]) as file:
            assert len(json.loads(file.read())[0]["data"]["it"]) == 600_000

    def test_a_rollout_is_told_in_numbers(self, cluster: Cluster) -> None:
        apply(cluster.context(), web("web:1"))
        found = rollout_status(cluster.context(), "deployment/web", timeout="30s")
        assert (found.complete, found.replicas, found.available, found.revision) == (True, 2, 2, "1")
        fixed = ["rollout", "status", "--watch=true", "--timeout=30s", "--", "deployment/web"]
        assert fixed in [call["arguments"] for call in cluster.calls]

    def test_a_rollout_that_stands_still_fails_as_stalled(self, cluster: Cluster) -> None:
        apply(cluster.context(), web("web:1", stall="yes"))
        with pytest.raises(Failure, match="is not complete: error: timed out") as failed:
            rollout_status(cluster.context(), "deployment/web", timeout="1s")
        assert failed.value.failure == "stalled"
        assert failed.value.outputs["replicas"] == 2

    def test_a_rollback_of_a_rollout_is_undone(self, cluster: Cluster) -> None:
        apply(cluster.context("a"), web("web:1"))
        apply(cluster.context("b"), web("web:2"))
        was = cluster.wanted()
        context = cluster.context()
        before = capture(rollout_undo, context, resource="deployment/web")
        assert preview(rollout_undo, context, resource="deployment/web").calls == (
            "kubectl rollout undo --to-revision=0 -- deployment/web",
        )
        done = rollout_undo(context, "deployment/web")
        assert cluster.wanted()["Deployment/default/web"]["spec"] == web("web:1")["spec"]
        for _ in range(2):
            undo(rollout_undo, context, before, done)
            assert cluster.wanted() == was

    def test_only_workloads_roll(self, cluster: Cluster) -> None:
        with pytest.raises(Failure, match="`resource`"):
            rollout_undo(cluster.context(), "configmap/settings")
