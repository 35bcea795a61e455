"""What the fixtures call. pytest starts without it: it brings the engine."""

from __future__ import annotations

from planrunner.app.history.replay import replay_run
from planrunner.testing.bench import run_plan
from planrunner.testing.capability import call_capability

__all__ = ["call_capability", "replay_run", "run_plan"]
