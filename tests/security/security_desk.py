"""Plans run through the real command line in a folder of their own, and what the journal says of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from workbench import planrunner

ROOT = Path(__file__).resolve().parents[2]


class Desk:
    """A project in ``folder`` with its state beside it; ``canary`` is the file that nothing may ever make."""

    def __init__(self, base: Path) -> None:
        self.folder = base / "project"
        (self.folder / ".git").mkdir(parents=True)
        self.state = base / "state"
        self.canary = base / "CANARY"
        self.env: dict[str, str] = {}

    def do(self, *words: str, code: int | None = None) -> subprocess.CompletedProcess[str]:
        """planrunner with these words; none of its exit codes stands for a fault of its own."""
        done = planrunner(self.folder, *words, PLANRUNNER_STATE=str(self.state), **self.env)
        assert "Traceback" not in done.stderr, done.stderr[-3000:]
        assert done.returncode != 4, done.stderr[-3000:]
        assert code is None or done.returncode == code, (done.returncode, done.stdout[-1500:], done.stderr[-3000:])
        return done

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def plan(self, *tasks: dict[str, Any], **keys: Any) -> str:
        """Write a plan of these tasks; gives the name of its file."""
        document = {"plan": "p", "defaults": {"timeout": "1m"}, **keys, "tasks": list(tasks)}
        self.write("p.json", json.dumps(document))
        return "p.json"

    def run(self, *tasks: dict[str, Any], values: dict[str, Any] | None = None, **keys: Any) -> Told:
        """Run a plan of these tasks to its end, whatever that is; ``values`` are those of its parameters."""
        words = ["exec", self.plan(*tasks, **keys), "--progress", "quiet"]
        if values is not None:
            self.write("values.json", json.dumps(values))
            words += ["--params-file", "values.json"]
        return Told(self, self.do(*words))

    def entries(self) -> list[dict[str, Any]]:
        """The journal of the last run."""
        told = self.do("events", "last", "--json", "--limit", "5000")
        return [json.loads(line) for line in told.stdout.splitlines()] if told.returncode == 0 else []


class Told:
    """What a run came to: how the command ended, and the end of each task's last attempt."""

    def __init__(self, desk: Desk, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
        self.entries = [] if done.returncode in (2, 5) else desk.entries()
        ends = [entry for entry in self.entries if entry["type"] == "attempt_ended"]
        self.ends: dict[str, dict[str, Any]] = {str(entry["task"]): entry["outcome"] for entry in ends}

    def rule(self, task: str) -> str:
        """The rule that refused a task, as the journal has it."""
        end = self.ends[task]
        assert end.get("failure") == "policy", end
        return str(end.get("rule", ""))

    def message(self, task: str) -> str:
        return str(self.ends[task].get("message", ""))

    def outputs(self, task: str) -> dict[str, Any]:
        end = self.ends[task]
        assert not end.get("failure"), end
        return dict(end.get("outputs", {}))
