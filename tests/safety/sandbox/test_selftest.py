"""The probes of ``planrunner doctor --sandbox``: each is held, and each can tell when it is not."""

from __future__ import annotations

import functools
import json
import subprocess
import sys

import pytest
from sandbox_project import needs_bubblewrap, needs_landlock
from workbench import ROOT

from planrunner.app.project import doctor as probed
from planrunner.safety.sandbox import presence, probes
from planrunner.safety.sandbox.selftest import Probe, try_out

HARMLESS = (
    *("connect_ipv4", "connect_abstract", "connect_socket_file", "send_datagram", "read_environment"),
    *("own_environment", "signal_outside", "user_namespace", "write_home", "read_home", "write_state"),
    *("read_journal", "write_hooks", "replace_repository", "widen_policy", "link_out", "privileges", "daemon"),
    *("read_through_link", "read_denied_through_link"),
)
"""What can be tried without a sandbox and changes nothing that stays."""


@functools.cache
def tried(kind: str) -> dict[str, Probe]:
    return {probe.name: probe for probe in try_out(kind)}  # type: ignore[arg-type]


@needs_bubblewrap
@pytest.mark.parametrize("name", probes.PROBES)
def test_nothing_gets_out_of_the_namespaces(name: str) -> None:
    assert tried("bubblewrap")[name] == Probe(name, True)


@needs_landlock
@pytest.mark.parametrize("name", sorted(probes.PROBES.keys() - {"daemon"}))
def test_nothing_gets_out_past_landlock(name: str) -> None:
    assert tried("landlock")[name] == Probe(name, True)


@needs_landlock
def test_nothing_gets_out_past_landlock_where_no_mounts_can_be_laid_over_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "covers", lambda: False)
    assert [probe for probe in try_out("landlock") if not probe.held] == []


def test_without_a_sandbox_the_probes_get_out() -> None:
    found = {probe.name: probe for probe in try_out("none", HARMLESS)}
    held = {name for name, probe in found.items() if probe.held}
    assert held <= {"user_namespace", "own_environment", "privileges", "read_environment"}, held
    assert found["read_through_link"].found and found["read_denied_through_link"].found
    assert not found["connect_ipv4"].held and "connected to" in found["connect_ipv4"].found
    assert found["daemon"].found == "a daemon outlived its task"
    assert found["send_datagram"].found == "a datagram arrived outside"


def doctor(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "planrunner", "doctor", "--sandbox", *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=240, check=False)


@needs_bubblewrap
def test_the_doctor_tells_each_probe() -> None:
    done = doctor("--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["ok"], said["kind"]) == (0, True, "bubblewrap")
    assert len(said["probes"]) >= 25 and all(probe["held"] for probe in said["probes"])
    assert doctor().stdout.endswith(f"bubblewrap holds: {len(said['probes'])} probes\n")


def test_what_is_not_held_is_told_and_counts_as_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    out = [Probe("mount", True), Probe("read_journal", False, "read the journal")]
    monkeypatch.setattr(probed, "try_out", lambda kind: out)
    report = probed.examine_sandbox()
    if not report.kind:
        pytest.skip("nothing here can shut processes in")
    assert not report.holds and report.advice == f"{report.kind} does not hold: read_journal"


def test_a_machine_with_nothing_is_told_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probed.presence, "bubblewrap", lambda: ("", "`bwrap` is not on the PATH"))
    monkeypatch.setattr(probed.presence, "landlock", lambda: 0)
    report = probed.examine_sandbox()
    assert (report.holds, report.kind) == (False, "") and "apt install bubblewrap" in report.advice
