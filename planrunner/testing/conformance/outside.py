"""Declared effects against those that the kernel sees."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable

from planrunner.machine.events import Outcome
from planrunner.plan.model import Capability
from planrunner.plugins.claims import mutates
from planrunner.testing.conformance.tracing import observe
from planrunner.testing.conformance.trial import Trial

_NOWHERE = ("/dev/", "/proc/")


def _check_effects(trial: Trial) -> None:
    """What looks changes nothing; what changes does so in the directory, or a risk says ``files``; connections are
    made only where a risk says ``network``."""
    found, before = trial.bench.description, trial.world()
    scratch = os.path.join(os.path.dirname(trial.bench.state), "tmp")
    traces = os.path.join(os.path.dirname(trial.bench.state), "traces")
    os.mkdir(scratch)
    os.mkdir(traces)

    def work() -> Outcome:
        os.environ["TMPDIR"] = tempfile.tempdir = scratch
        return trial.bench.call(trial.to_its_end()).outcome

    seen = observe(work, traces)
    assert not (wrong := trial.as_said(seen.result)), wrong
    if not mutates(found):
        changed = trial.changed(before)
        assert not changed, f"it is `{found.effect}` and changed something: {changed}"
    if not _warns(found, "files"):
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        far = sorted(_outside(seen.writes, (trial.bench.directory, os.path.dirname(trial.bench.state), home)))
        assert not far, f"no risk speaks of `files`, and it wrote to {', '.join(far[:3])}"
    if not _warns(found, "network"):
        assert not seen.connections, f"no risk speaks of the `network`, and it connected to {seen.connections[0]}"


def _warns(found: Capability, word: str) -> bool:
    return any(word in risk.lower() for risk in found.risks)


def _outside(paths: Iterable[str], places: Iterable[str]) -> set[str]:
    homes = tuple(f"{os.path.realpath(place)}/" for place in places)
    return {path for path in paths if not f"{os.path.realpath(path)}/".startswith((*homes, *_NOWHERE))}
